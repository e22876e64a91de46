//! The configurations that are walked whole: each a few faults in a small world, since all of them at
//! once would be more states than anybody can walk.
//!
//! Two bounds are there on purpose. With two processes at once an object may lose its annotation or its
//! status, not both while an order is on its way; and a process does not stand still between its last
//! look at the clock and the socket. Those are the cases that remain; `twins.rs` shows that they exist.

use super::{
    scene::{Brought, Scene},
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

/// What every run walks: of each sort one that is soon done.
const REPRESENTATIVE: [&str; 10] = [
    "order",
    "writes",
    "two-stale",
    "release",
    "meant",
    "kind",
    "closed",
    "lease-stale",
    "named",
    "release-limit",
];
/// How long the longest of the others take, in seconds.
const LONGEST: [(&str, u32); 1] = [("two", 60)];

/// How long a scene takes; `None` for one that every run walks.
pub fn seconds(name: &str) -> Option<u32> {
    let longest = LONGEST.iter().find(|(scene, _)| *scene == name);
    let seconds = longest.map_or(1, |(_, seconds)| *seconds);
    (!REPRESENTATIVE.contains(&name)).then_some(seconds)
}

#[test]
fn every_scene_has_a_name_of_its_own_and_those_named_exist() {
    let names: Vec<&str> = all().iter().map(|scene| scene.name).collect();
    let mut once = names.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), names.len());
    let longest = LONGEST.iter().map(|(name, _)| *name);
    let unknown = REPRESENTATIVE.into_iter().chain(longest);
    let unknown: Vec<&str> = unknown.filter(|name| !names.contains(name)).collect();
    assert_eq!(unknown, [""; 0]);
}

pub fn all() -> Vec<Scene> {
    let mut all = ordering();
    all.extend(two_processes());
    all.extend(keeping());
    all.extend(accounts());
    all.extend(letting_stay());
    all.extend(stripping());
    all.extend(leases());
    all.extend(taking_on());
    all.extend(coming_to_nothing());
    all.extend(listing_older());
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
        regular("blank", 3, &[(Lost, 1), (Blank, 1), (Delete, 1)]),
        regular("in-flight", 3, &[(Lost, 1), (Crash, 1), (Delete, 1)]),
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

/// Two processes that both act, as if each held the lease: no rule rests on it alone.
fn two_processes() -> Vec<Scene> {
    vec![
        Scene {
            stale: true,
            ..two("two-stale", 1, &[(Lost, 1)])
        },
        two("two", 2, &[(Lost, 1)]),
        two("two-writes", 1, &[(LostWrite, 1), (Crash, 1)]),
        Scene {
            writes: 6,
            ..two("two-strip", 3, &[(Lost, 1), (StripNote, 1)])
        },
        Scene {
            writes: 8,
            ..two("two-forget", 2, &[(Lost, 1), (StripStatus, 1)])
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
        Scene {
            delay: 2,
            ..delivered(
                "delay",
                3,
                &[(Delete, 1), (Crash, 1), (Edit, 2), (LostWrite, 1)],
            )
        },
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
            "uuid",
            2,
            &[
                (ClearUuid, 1),
                (ReleasedOutside, 1),
                (Crash, 1),
                (Delete, 1),
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

/// Two accounts, and another key of the first.
fn accounts() -> Vec<Scene> {
    vec![
        // The first account shows nothing that is known, the second does.
        Scene {
            control: false,
            other_control: true,
            ..regular("accounts", 4, &[(Lost, 1), (Connect, 1)])
        },
        Scene {
            other_control: true,
            ..regular("accounts-2", 3, &[(Connect, 2), (Delete, 1)])
        },
        Scene {
            other_control: true,
            ..delivered("accounts-3", 2, &[(Connect, 1), (Delete, 1), (Edit, 1)])
        },
        // A person says that the other account is meant.
        Scene {
            other_control: true,
            ..delivered(
                "meant",
                2,
                &[(Connect, 2), (AcknowledgeAccount, 1), (Delete, 1)],
            )
        },
        // Another key of a young account, and of one that was scaled to zero.
        Scene {
            control: false,
            ordinary: true,
            ..regular("rotation", 3, &[(Connect, 1), (Delete, 1)])
        },
        Scene {
            control: false,
            ordinary: true,
            ..delivered("rotation-2", 2, &[(Connect, 1), (Delete, 1), (Restore, 1)])
        },
    ]
}

/// Machines that are let stay: twins, and a kind that is deleted.
fn letting_stay() -> Vec<Scene> {
    vec![
        Scene {
            twin: true,
            ..delivered("twins", 1, &[(Delete, 1), (Edit, 1), (KindDeleted, 1)])
        },
        delivered(
            "kind",
            1,
            &[(KindDeleted, 1), (Delete, 1), (Crash, 1), (Lost, 1)],
        ),
        regular("kind-order", 3, &[(KindDeleted, 1), (Lost, 1)]),
        delivered("retain-blank", 2, &[(Delete, 1), (Edit, 1), (Blank, 1)]),
        // The manifest is applied again, twice.
        delivered(
            "again",
            1,
            &[
                (Delete, 1),
                (Edit, 1),
                (ApplyAgain, 1),
                (OrderAnother, 1),
                (Crash, 1),
            ],
        ),
        Scene {
            regular: true,
            ..delivered(
                "again-twice",
                1,
                &[(Delete, 2), (Edit, 2), (ApplyAgain, 2), (OrderAnother, 2)],
            )
        },
        // Two that act.
        Scene {
            delivered: true,
            ..two("two-again", 1, &[(Delete, 1), (Edit, 1), (ApplyAgain, 1)])
        },
        // With what the operator wrote, or without.
        delivered(
            "again-or-back",
            1,
            &[(Delete, 2), (Edit, 1), (ApplyAgain, 1), (Restore, 1)],
        ),
    ]
}

/// A tool that takes finalizer and annotation off again and again.
fn stripping() -> Vec<Scene> {
    vec![
        delivered("strip-deny", 2, &[(StripNote, 2), (Deny, 1), (Delete, 1)]),
        // An outcome that only the annotation still tells.
        regular(
            "closed",
            2,
            &[(Refuse, 1), (StripStatus, 1), (StripNote, 1), (Crash, 1)],
        ),
        delivered("strip-blank", 2, &[(StripNote, 2), (Blank, 1)]),
        Scene {
            control: false,
            ..regular("strip-open", 3, &[(StripNote, 2), (Lost, 1)])
        },
    ]
}

/// Processes of which one acts, by its lease.
fn leases() -> Vec<Scene> {
    let lease = |scene| Scene {
        lease: true,
        ..scene
    };
    vec![
        lease(two("lease", 3, &[(Lost, 1), (Lease, 2)])),
        lease(Scene {
            other_control: true,
            ..two("lease-key", 2, &[(Lost, 1), (Lease, 1), (Connect, 1)])
        }),
        lease(Scene {
            stale: true,
            ..two("lease-stale", 1, &[(Lost, 1), (Lease, 1)])
        }),
        lease(two(
            "lease-writes",
            1,
            &[(LostWrite, 1), (Lease, 1), (Crash, 1)],
        )),
        lease(two(
            "lease-strip",
            3,
            &[(Lost, 1), (Lease, 1), (StripNote, 1), (StripStatus, 1)],
        )),
        lease(Scene {
            delivered: true,
            ..two(
                "lease-release",
                1,
                &[(Delete, 1), (Lost, 1), (Lease, 2), (Edit, 1)],
            )
        }),
    ]
}

/// A machine that was there before the objects: one or two name it, and one may be restored that had it.
fn taking_on() -> Vec<Scene> {
    let brought = |brought, scene| Scene {
        brought: Some(brought),
        ..scene
    };
    vec![
        brought(
            Brought::Unmarked(1),
            regular("named", 2, &[(Delete, 1), (Edit, 2), (Crash, 1)]),
        ),
        brought(
            Brought::Unmarked(2),
            regular("named-twice", 2, &[(Delete, 1), (Crash, 1)]),
        ),
        brought(
            Brought::Unmarked(2),
            Scene {
                writes: 4,
                ..two("two-named", 0, &[(Delete, 1)])
            },
        ),
        brought(
            Brought::Kept,
            regular("named-kept", 3, &[(Delete, 1), (Crash, 1)]),
        ),
        brought(
            Brought::Kept,
            Scene {
                writes: 4,
                ..two("two-kept", 1, &[])
            },
        ),
        // The answer to a mark that is put on or taken off is lost.
        brought(
            Brought::Unmarked(1),
            regular("named-lost", 2, &[(Delete, 1), (Lost, 1)]),
        ),
        brought(
            Brought::Unmarked(2),
            regular("twice-lost", 1, &[(Delete, 1), (Lost, 1)]),
        ),
        brought(
            Brought::Kept,
            regular("kept-lost", 2, &[(Delete, 1), (Lost, 1)]),
        ),
        // What was kept is taken back, then kept again.
        Scene {
            regular: true,
            writes: 14,
            ..delivered(
                "back-lost",
                1,
                &[(Delete, 2), (Edit, 1), (Restore, 1), (Lost, 1)],
            )
        },
    ]
}

/// A machine that comes to nothing, in whose place another one is ordered; and an object that ends by itself.
fn coming_to_nothing() -> Vec<Scene> {
    let replaces = |scene| Scene {
        replaces: true,
        delivered: true,
        ..scene
    };
    vec![
        replaces(regular("replace", 5, &[(Fail, 2), (Flap, 1), (Crash, 1)])),
        // The next order is refused, and the machine comes to life after all.
        replaces(regular(
            "replace-refused",
            5,
            &[(Fail, 1), (Refuse, 1), (Flap, 1), (ServerError, 1)],
        )),
        replaces(regular(
            "replace-lost",
            5,
            &[(Fail, 1), (Lost, 1), (Crash, 1)],
        )),
        replaces(regular(
            "replace-edit",
            4,
            &[(Fail, 1), (Edit, 1), (Delete, 1)],
        )),
        replaces(regular(
            "reorder",
            5,
            &[(ReleasedOutside, 2), (Crash, 1), (Delete, 1)],
        )),
        replaces(two("two-replace", 4, &[(Fail, 1), (Lost, 1)])),
        Scene {
            release_limited: true,
            delivered: true,
            writes: 8,
            ..regular("release-limit", 1, &[(Delete, 2), (Word, 1), (Crash, 1)])
        },
        Scene {
            release_limited: true,
            delivered: true,
            writes: 6,
            ..two("two-release-limit", 0, &[(Delete, 2), (Word, 1)])
        },
        Scene {
            expires: 2,
            ..delivered(
                "expire",
                3,
                &[(Edit, 2), (Crash, 1), (LostWrite, 1), (ApplyAgain, 1)],
            )
        },
    ]
}

/// A process starts on a listing that is older than what the one before it knew, and learns of the rest whenever the
/// watch shows it.
fn listing_older() -> Vec<Scene> {
    vec![
        regular("older", 2, &[(Older, 1), (Lost, 1)]),
        delivered(
            "older-end",
            1,
            &[(Older, 1), (Delete, 1), (Edit, 1), (Lost, 1)],
        ),
        delivered(
            "older-again",
            1,
            &[(Older, 1), (Delete, 1), (Edit, 1), (ApplyAgain, 1)],
        ),
        delivered("older-back", 1, &[(Older, 1), (Delete, 1), (Restore, 1)]),
        Scene {
            brought: Some(Brought::Unmarked(1)),
            ..regular("older-named", 1, &[(Older, 1), (Delete, 1)])
        },
    ]
}
