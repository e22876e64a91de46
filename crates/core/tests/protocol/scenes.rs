//! The scenes that are walked completely. Each has few faults in a small world: all faults together have too many
//! states.

use super::{
    outside::Off,
    scene::{Other, Scene, Start},
    world::{
        Fault::{self, *},
        Tick,
    },
};

fn scene(name: &'static str, start: Start, ticks: Tick, faults: &[(Fault, u8)]) -> Scene {
    Scene {
        name,
        start,
        ticks,
        faults: faults.to_vec(),
        ..Scene::default()
    }
}

fn two(scene: Scene) -> Scene {
    Scene {
        processes: 2,
        every: 64,
        ..scene
    }
}

/// Scenes that every run walks: a fast one of each kind.
const REPRESENTATIVE: [&str; 8] = [
    "order", "wipe", "alone", "recreate", "named", "release", "retain", "key",
];
/// Duration of the slowest other scenes, in seconds.
const LONGEST: [(&str, u32); 9] = [
    ("two-replaced", 64),
    ("two-release", 50),
    ("etcd-delete", 23),
    ("etcd-runs-delete", 17),
    ("omit", 17),
    ("wipe-delete", 13),
    ("two-wipe-delete", 9),
    ("order-lag", 7),
    ("replace", 6),
];

/// Scenes that break if a new leader waits for a minute only: a restored etcd hides an order that lists show later.
pub const NEED_GRACE: [&str; 1] = ["etcd-order"];

/// Duration of a scene in seconds; `None` if every run walks it.
pub fn seconds(name: &str) -> Option<u32> {
    let longest = LONGEST.iter().find(|(scene, _)| *scene == name);
    let seconds = longest.map_or(1, |(_, seconds)| *seconds);
    (!REPRESENTATIVE.contains(&name)).then_some(seconds)
}

pub fn all() -> Vec<Scene> {
    let mut all = ordering();
    all.extend(lost_traces());
    all.extend(taking());
    all.extend(releasing());
    all.extend(accounts());
    all
}

fn ordering() -> Vec<Scene> {
    use Start::*;
    vec![
        scene("order", New, 7, &[(Crash, 1), (Lost, 1), (LateList, 1)]),
        scene("restart", Old, 6, &[(Crash, 1), (Lost, 1), (Delete, 1)]),
        Scene {
            control: false,
            ..scene("restart-alone", Old, 6, &[(Crash, 1), (Delete, 1)])
        },
        Scene {
            grace: 6,
            lag: 6,
            ..scene(
                "order-lag",
                New,
                9,
                &[(Lost, 1), (LateList, 2), (Delete, 1)],
            )
        },
        scene("answers", New, 7, &[(Crash, 1), (Refuse, 2), (Fail, 1)]),
        scene("writes", New, 6, &[(Crash, 1), (LostWrite, 2)]),
        Scene {
            stale: true,
            ..scene("stale", New, 6, &[(Lost, 1), (LostWrite, 1)])
        },
        two(scene("two-order", New, 6, &[(Lost, 1), (LostWrite, 1)])),
        Scene {
            slow: true,
            ..two(scene("two-slow", New, 5, &[(Lost, 1)]))
        },
        Scene {
            stale: true,
            slow: true,
            ..two(scene("two-stale", New, 3, &[(Lost, 1)]))
        },
        two(scene("two-late", New, 9, &[])),
        Scene {
            control: false,
            ..scene(
                "alone-empty",
                New,
                7,
                &[(Lost, 1), (EmptyList, 1), (Delete, 1)],
            )
        },
        Scene {
            control: false,
            ..scene(
                "alone",
                New,
                7,
                &[(Lost, 1), (Crash, 1), (Word, 1), (Delete, 1)],
            )
        },
        Scene {
            control: false,
            ..scene("alone-wipe", Delivered, 6, &[(Wipe, 1), (EmptyList, 1)])
        },
        scene("empty", New, 7, &[(Lost, 1), (Crash, 1), (EmptyList, 1)]),
        scene(
            "omit",
            New,
            7,
            &[(Lost, 1), (Omit, 1), (Crash, 1), (Delete, 1)],
        ),
        scene("cut", New, 7, &[(Crash, 2), (Lost, 1), (Delete, 1)]),
        scene("twice", New, 14, &[(Lost, 2), (Word, 1)]),
        scene(
            "in-flight",
            New,
            7,
            &[(Lost, 1), (Crash, 1), (Delete, 1), (LateList, 1)],
        ),
        Scene {
            reorder: true,
            ..scene(
                "reorder",
                Delivered,
                8,
                &[(Lost, 1), (ReleaseOutside, 1), (Crash, 1)],
            )
        },
    ]
}

/// Something removes the operator's records and tags, or restores older ones.
fn lost_traces() -> Vec<Scene> {
    use Start::*;
    vec![
        scene("wipe", New, 7, &[(Lost, 1), (Wipe, 1), (LateList, 1)]),
        scene(
            "wipe-empty",
            Delivered,
            7,
            &[(Wipe, 1), (EmptyList, 1), (Crash, 1)],
        ),
        two(scene("two-wipe", New, 6, &[(Lost, 1), (Wipe, 1)])),
        two(scene(
            "two-wipe-delete",
            New,
            3,
            &[(Lost, 1), (Wipe, 1), (Delete, 1)],
        )),
        scene("wipe-crash", New, 8, &[(Lost, 1), (Wipe, 1), (Crash, 1)]),
        scene(
            "wipe-delete",
            New,
            7,
            &[(Lost, 1), (Wipe, 1), (Crash, 1), (Delete, 1)],
        ),
        scene(
            "strip",
            New,
            7,
            &[(Lost, 1), (StripFinalizer, 1), (Crash, 1)],
        ),
        Scene {
            portal: &[Off::All, Off::Order, Off::Cluster],
            ..scene("portal", New, 7, &[(Lost, 1), (Portal, 1), (Crash, 1)])
        },
        Scene {
            portal: &[Off::All, Off::Order, Off::Cluster],
            ..scene(
                "portal-wipe",
                Delivered,
                7,
                &[(Portal, 1), (Wipe, 1), (Crash, 1)],
            )
        },
        Scene {
            lag: 3,
            ..scene("etcd-order", New, 7, &[(Etcd, 2), (Lost, 1), (LateList, 1)])
        },
        scene("etcd-closed", New, 7, &[(Etcd, 2), (Lost, 1), (Refuse, 1)]),
        scene(
            "etcd-delete",
            New,
            6,
            &[(Etcd, 2), (Lost, 1), (Refuse, 1), (Delete, 1)],
        ),
        scene("etcd", Delivered, 6, &[(Etcd, 2), (Delete, 1), (Apply, 1)]),
        Scene {
            runs_on: true,
            ..scene(
                "etcd-runs",
                New,
                7,
                &[(Etcd, 2), (Lost, 1), (LateList, 1), (Refuse, 1)],
            )
        },
        Scene {
            runs_on: true,
            ..scene(
                "etcd-runs-delete",
                New,
                6,
                &[(Etcd, 2), (Lost, 1), (Delete, 1)],
            )
        },
        scene("copy", Delivered, 6, &[(Name, 1), (Delete, 2)]).copy(),
        Scene {
            portal: &[Off::Cluster],
            ..scene(
                "portal-gone",
                Delivered,
                4,
                &[(Portal, 1), (StripFinalizer, 1), (Delete, 1)],
            )
        },
        scene(
            "restore",
            Delivered,
            6,
            &[(Delete, 1), (Restore, 1), (Lost, 1), (StripFinalizer, 1)],
        ),
    ]
}

/// Servers that exist before the objects.
fn taking() -> Vec<Scene> {
    use Start::*;
    vec![
        scene("recreate", Kept, 7, &[(Lost, 1), (Crash, 1), (Delete, 1)]),
        two(scene("two-recreate", Kept, 5, &[(Lost, 1), (Delete, 1)])),
        scene(
            "recreate-retain",
            Delivered,
            6,
            &[(Edit, 1), (Delete, 1), (Apply, 1), (Lost, 1)],
        ),
        scene(
            "replaced",
            Delivered,
            6,
            &[(Delete, 1), (StripFinalizer, 1), (Apply, 1), (Lost, 1)],
        ),
        two(scene(
            "two-replaced",
            Delivered,
            6,
            &[(Delete, 1), (StripFinalizer, 1), (Apply, 1)],
        )),
        scene(
            "namespace",
            NamespaceRecreated,
            6,
            &[(Word, 1), (Crash, 1), (Delete, 1)],
        ),
        Scene {
            retain: true,
            ..scene(
                "namespace-kept",
                Delivered,
                6,
                &[(Delete, 1), (Namespace, 1), (Word, 1)],
            )
        },
        scene("named", Named, 7, &[(Lost, 1), (Crash, 1), (Delete, 1)]),
        scene(
            "named-beside",
            NamedAndRetained,
            7,
            &[(Lost, 1), (Crash, 1)],
        ),
        scene(
            "named-late",
            Named,
            6,
            &[(LateList, 1), (Omit, 1), (ReleaseOutside, 1)],
        ),
        scene("adopt-race", NamedTwice, 5, &[(Lost, 1), (Crash, 1)]),
        Scene {
            slow: true,
            stale: true,
            ..scene("adopt-slow", NamedTwice, 4, &[(Lost, 1)])
        },
        Scene {
            slow: true,
            one_keeps: true,
            ..scene("adopt-both", NamedTwice, 5, &[])
        },
        scene("kept-named", KeptNamed, 6, &[(Apply, 1), (Lost, 1)]),
        scene("twin", Twin, 4, &[(Delete, 1), (Word, 1)]).twin(),
        scene("twin-named", TwinNamed, 4, &[(Delete, 1), (Lost, 1)]).twin(),
        scene("foreign", OtherCluster, 4, &[(Lost, 1)]),
        Scene {
            is_shared: true,
            ..scene("other-namespace", OtherNamespace, 4, &[(Lost, 1)])
        },
    ]
}

fn releasing() -> Vec<Scene> {
    use Start::*;
    vec![
        scene(
            "release",
            Delivered,
            6,
            &[(Delete, 1), (Lost, 1), (Crash, 1), (Edit, 1)],
        ),
        two(Scene {
            slow: true,
            ..scene(
                "two-release",
                Delivered,
                4,
                &[(Delete, 1), (Lost, 1), (Edit, 2)],
            )
        }),
        two(Scene {
            slow: true,
            ..scene("two-kept", Delivered, 2, &[(Delete, 1), (Edit, 1)])
        }),
        Scene {
            retain: true,
            ..scene("retain", Delivered, 4, &[(Delete, 1), (Lost, 1), (Edit, 2)])
        },
        scene(
            "beside",
            Tagged,
            5,
            &[(Delete, 1), (Lost, 1), (Crash, 1), (Omit, 1)],
        ),
        scene("gone", Delivered, 7, &[(Miss, 2), (Omit, 2), (Delete, 1)]),
        scene(
            "failed",
            Delivered,
            6,
            &[(Fail, 1), (Delete, 1), (Refuse, 2), (Lost, 1)],
        ),
        Scene {
            replace: true,
            ..scene(
                "replace",
                Delivered,
                7,
                &[(Fail, 1), (Refuse, 2), (Lost, 1), (Crash, 1)],
            )
        },
        Scene {
            replace: true,
            ..scene(
                "replace-flap",
                Delivered,
                6,
                &[(Fail, 1), (Flap, 1), (Delete, 1), (Edit, 1)],
            )
        },
        scene("handed", Delivered, 6, &[(Name, 1), (Delete, 1), (Lost, 1)]),
        scene(
            "noted-restore",
            Delivered,
            5,
            &[(Delete, 2), (Restore, 1), (Edit, 1), (StripFinalizer, 1)],
        ),
    ]
}

fn accounts() -> Vec<Scene> {
    use Start::*;
    vec![
        scene("key", New, 6, &[(Lost, 1), (Key, 1), (AccountWord, 1)]),
        Scene {
            other_control: true,
            ..scene("other-key", New, 8, &[(Lost, 1), (Key, 1), (Crash, 1)])
        },
        two(scene("two-key", New, 5, &[(Lost, 1), (Key, 1)])),
        scene(
            "key-delivered",
            Delivered,
            6,
            &[(Key, 2), (Delete, 1), (Crash, 1)],
        ),
    ]
}

impl Scene {
    fn copy(self) -> Self {
        Self {
            other: Other::Copy,
            ..self
        }
    }

    fn twin(self) -> Self {
        Self {
            twin: true,
            processes: 2,
            ..self
        }
    }
}

#[test]
fn scene_names_are_unique_and_resolve() {
    let names: Vec<&str> = all().iter().map(|scene| scene.name).collect();
    let mut once = names.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), names.len());
    let longest = LONGEST.iter().map(|(name, _)| *name);
    let unknown = REPRESENTATIVE.into_iter().chain(longest).chain(NEED_GRACE);
    let unknown: Vec<&str> = unknown.filter(|name| !names.contains(name)).collect();
    assert_eq!(unknown, [""; 0]);
}
