//! The configurations that are walked whole: each a few faults in a small world, since all of them at
//! once would be more states than anybody can walk.
//!
//! Two bounds are there on purpose. With two processes at once an object may lose its annotation or its
//! status, not both while an order is on its way; and a process does not stand still between its last
//! look at the clock and the socket. Those are the cases that remain; `twins.rs` shows that they exist.

use super::{
    scene::Scene,
    world::{
        Fault::{self, *},
        Tick,
    },
};

fn scene(name: &'static str, ticks: Tick, faults: &[(Fault, u8)]) -> Scene {
    let faults = faults.to_vec();
    Scene {
        name,
        ticks,
        faults,
        ..Scene::default()
    }
}

fn regular(name: &'static str, ticks: Tick, faults: &[(Fault, u8)]) -> Scene {
    Scene {
        regular: true,
        ..scene(name, ticks, faults)
    }
}

fn delivered(name: &'static str, ticks: Tick, faults: &[(Fault, u8)]) -> Scene {
    Scene {
        delivered: true,
        ..scene(name, ticks, faults)
    }
}

fn two(name: &'static str, ticks: Tick, faults: &[(Fault, u8)]) -> Scene {
    // Of larger worlds fewer walks.
    Scene {
        processes: 2,
        every: 64,
        ..regular(name, ticks, faults)
    }
}

pub fn all() -> Vec<Scene> {
    let mut all = ordering();
    all.extend(two_processes());
    all.extend(keeping());
    all
}

fn ordering() -> Vec<Scene> {
    vec![
        scene("order", 4, &[(Crash, 1), (Lost, 1), (LateListing, 1)]),
        scene(
            "answers",
            3,
            &[(Crash, 1), (ServerError, 1), (Refuse, 1), (Fail, 1)],
        ),
        Scene {
            stale: true,
            ..scene("writes", 1, &[(Crash, 1), (LostWrite, 2)])
        },
        regular(
            "strip",
            4,
            &[(Crash, 1), (Lost, 1), (StripNote, 1), (StripStatus, 1)],
        ),
        Scene {
            aged: true,
            ..regular(
                "aged",
                4,
                &[(Crash, 1), (Lost, 1), (StripNote, 1), (LateListing, 1)],
            )
        },
        regular("blank", 4, &[(Lost, 1), (Blank, 1), (Delete, 1)]),
        regular("in-flight", 4, &[(Lost, 1), (Crash, 1), (Delete, 1)]),
        regular("twice", 5, &[(Lost, 2), (Acknowledge, 1)]),
        Scene {
            control: false,
            ..regular("no-control", 4, &[(Lost, 1), (Acknowledge, 1), (Delete, 1)])
        },
        regular("tags-early", 4, &[(StripTags, 1), (Lost, 1)]),
        scene("edits", 2, &[(Edit, 2), (Delete, 1), (Fail, 1)]),
        regular("failed", 3, &[(Fail, 1), (Delete, 1), (ServerError, 1)]),
        regular("failed-404", 3, &[(Fail, 1), (Delete, 1), (Blank, 1)]),
    ]
}

fn two_processes() -> Vec<Scene> {
    vec![
        Scene {
            stale: true,
            ..two("two-stale", 1, &[(Lost, 1)])
        },
        two("two", 3, &[(Lost, 1)]),
        two("two-writes", 1, &[(LostWrite, 1), (Crash, 1)]),
        Scene {
            writes: 7,
            ..two("two-strip", 3, &[(Lost, 1), (StripNote, 1)])
        },
        Scene {
            writes: 8,
            ..two("two-forget", 3, &[(Lost, 1), (StripStatus, 1)])
        },
        Scene {
            delivered: true,
            ..two("two-release", 1, &[(Delete, 1), (Lost, 1), (Edit, 1)])
        },
    ]
}

fn keeping() -> Vec<Scene> {
    vec![
        delivered("tags", 2, &[(StripTags, 1), (Delete, 1), (StripStatus, 1)]),
        delivered("deny", 2, &[(Deny, 1), (Delete, 1), (Crash, 1), (Edit, 1)]),
        delivered(
            "release",
            1,
            &[
                (Delete, 1),
                (Lost, 1),
                (Crash, 1),
                (LostWrite, 1),
                (Edit, 2),
            ],
        ),
        delivered("copy", 1, &[(Copy, 1), (Delete, 2)]),
        delivered(
            "restore",
            2,
            &[
                (Delete, 1),
                (StripNote, 1),
                (Restore, 1),
                (Crash, 1),
                (Edit, 1),
            ],
        ),
        delivered(
            "outside",
            2,
            &[
                (ReleasedOutside, 1),
                (Crash, 1),
                (Delete, 1),
                (StripStatus, 1),
            ],
        ),
    ]
}
