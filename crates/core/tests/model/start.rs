//! How a scene starts.

use super::{
    real,
    scene::{Brought, Scene},
    world::*,
};
use api::{Reason, server::OrderOutcome};

const WHO: Who = Who { slot: 0, life: 0 };

pub fn object(who: Who, created: Tick) -> Obj {
    Obj {
        who,
        version: 1,
        created,
        deleting: false,
        finalizer: false,
        note: None,
        begun: None,
        given: 0,
        beside: 0,
        retain: false,
        suspend: false,
        renamed: false,
        delay: 0,
        replaces: false,
        expires: 0,
        names: None,
        observe: false,
        status: None,
    }
}

pub fn world(scene: &Scene) -> World {
    let mut first = object(WHO, 0);
    first.delay = scene.delay;
    first.replaces = scene.replaces;
    first.expires = scene.expires;
    let mut machines = Vec::new();
    let mut posts = Vec::new();
    let start = if scene.aged { 2 * GRACE } else { 0 };
    if scene.aged {
        let reason = real::reason_number(Reason::Pending);
        first.status = Some(StatusA {
            ready: Some(ReadyA { on: false, reason }),
            stalled: true,
            ..Default::default()
        });
    }
    if scene.delivered {
        let intent = IntentA {
            who: WHO,
            epoch: 0,
            send_by: 10,
            attempt: 200,
            unknown_before: 0,
            renamed: false,
            account: Some((0, Connection::First)),
        };
        let outcome = Some(OrderOutcome::Created);
        first.finalizer = true;
        first.note = Some(NoteA {
            intent,
            outcome: None,
        });
        first.status = Some(StatusA {
            order: Some(RecordA {
                intent,
                outcome,
                settled: 0,
                failures: 0,
                acknowledged: false,
                token: 0,
            }),
            uuid: Some(0),
            over: false,
            ready: Some(ReadyA {
                on: true,
                reason: real::reason_number(Reason::Delivered),
            }),
            stalled: false,
            replaced: [None; 2],
            asked: 0,
        });
        let life = match scene.replaces {
            true => Life::Provisioning,
            false => Life::Delivered,
        };
        machines.push(Machine {
            account: 0,
            marks: [Some((WHO, 0)), None, None],
            cluster: true,
            retained: false,
            life,
            delivered: life == Life::Delivered,
            created: 0,
            owner: WHO,
            stripped: false,
            by_policy: false,
            refused: false,
            flaps_until: 0,
            renamed: false,
            named: false,
            brought: false,
        });
        posts.push((WHO, 0));
        if scene.twin {
            let first = machines[0];
            machines.push(Machine {
                marks: [Some((WHO, 1)), None, None],
                ..first
            });
        }
    }
    let mut objects = [Some(first), None];
    let mut lives = [1, 0];
    if scene.release_limited {
        let who = Who { slot: 1, life: 0 };
        let mut second = Obj { who, ..first };
        second.note.as_mut().unwrap().intent.who = who;
        let status = second.status.as_mut().unwrap();
        status.order.as_mut().unwrap().intent.who = who;
        status.uuid = Some(1);
        objects[1] = Some(second);
        lives[1] = 1;
        machines.push(Machine {
            marks: [Some((who, 0)), None, None],
            owner: who,
            ..machines[0]
        });
        posts.push((who, 0));
    }
    if let Some(brought) = scene.brought {
        bring(brought, &mut objects, &mut lives, &mut machines);
    }
    let used = scene.aged || scene.delivered || scene.brought == Some(Brought::Kept);
    let mut budget = [0; FAULTS];
    for (fault, times) in &scene.faults {
        budget[*fault as usize] = *times;
    }
    World {
        now: start,
        objects,
        backup: [None; SLOTS],
        manifest: [0; SLOTS],
        lives,
        machines,
        wire: Vec::new(),
        mood: Mood::Normal,
        processes: (0..scene.processes)
            .map(|p| Process {
                acting: (p == 0 || !scene.lease).then_some(start),
                ..Process::fresh(start, used, &objects, Connection::First)
            })
            .collect(),
        attempts: 0,
        posts,
        connection: Connection::First,
        account: AccountA {
            endpoint: used.then_some(Connection::First),
            lineage: used.then_some(0),
            known: if used { u8::from(scene.control) } else { 0 },
            lineages: u8::from(used),
            asked: 0,
            given: 0,
            release_limit: scene.release_limited.then(ReleaseLimitA::default),
        },
        kind_deleting: false,
        older: None,
        budget,
        broken: None,
    }
}

/// A machine that is there before the objects, and the objects that want it.
fn bring(
    brought: Brought,
    objects: &mut [Option<Obj>; SLOTS],
    lives: &mut [u8; SLOTS],
    machines: &mut Vec<Machine>,
) {
    let unmarked = Machine {
        account: 0,
        marks: [None; MOST_MARKS],
        cluster: false,
        retained: false,
        life: Life::Delivered,
        delivered: true,
        created: 0,
        owner: NOBODY,
        stripped: false,
        by_policy: false,
        refused: false,
        flaps_until: 0,
        renamed: false,
        named: false,
        brought: true,
    };
    let named = |slot: u8, life| Obj {
        names: Some(0),
        ..object(Who { slot, life }, 0)
    };
    match brought {
        Brought::Unmarked(namers) => {
            *objects = [Some(named(0, 0)), (namers > 1).then(|| named(1, 0))];
            machines.push(unmarked);
        }
        Brought::Kept => {
            let mut restored = object(Who { slot: 0, life: 1 }, 0);
            let intent = IntentA {
                who: WHO,
                epoch: 0,
                send_by: 10,
                attempt: 200,
                unknown_before: 0,
                renamed: false,
                account: Some((0, Connection::First)),
            };
            let outcome = None;
            restored.note = Some(NoteA { intent, outcome });
            *objects = [Some(restored), Some(named(1, 0))];
            lives[0] = 2;
            machines.push(Machine {
                marks: [Some((WHO, 0)), None, None],
                cluster: true,
                retained: true,
                by_policy: true,
                owner: WHO,
                ..unmarked
            });
        }
    }
    lives[1] = u8::from(objects[1].is_some());
}
