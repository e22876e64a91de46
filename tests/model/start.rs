//! How a scene starts.

use super::{real, scene::Scene, world::*};
use flexmetal_operator::kinds::{Reason, server::OrderOutcome};

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
        acknowledged: None,
        beside: 0,
        retain: false,
        suspend: false,
        renamed: false,
        delay: 0,
        status: None,
    }
}

pub fn world(scene: &Scene) -> World {
    let mut first = object(WHO, 0);
    first.delay = scene.delay;
    let mut machines = Vec::new();
    let mut posts = Vec::new();
    let start = if scene.aged { 2 * GRACE } else { 0 };
    if scene.aged {
        let reason = real::reason_number(Reason::Suspended);
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
            }),
            uuid: Some(0),
            over: false,
            ready: Some(ReadyA {
                on: true,
                reason: real::reason_number(Reason::Delivered),
            }),
            stalled: false,
        });
        machines.push(Machine {
            account: 0,
            marks: [Some((WHO, 0)), None],
            cluster: true,
            retained: false,
            life: Life::Delivered,
            delivered: true,
            created: 0,
            owner: WHO,
            stripped: false,
            by_policy: false,
            refused: false,
            renamed: false,
            named: false,
        });
        posts.push((WHO, 0));
        if scene.twin {
            let first = machines[0];
            machines.push(Machine {
                marks: [Some((WHO, 1)), None],
                ..first
            });
        }
    }
    let objects = [Some(first), None];
    let used = scene.aged || scene.delivered;
    let mut budget = [0; FAULTS];
    for (fault, times) in &scene.faults {
        budget[*fault as usize] = *times;
    }
    World {
        now: start,
        objects,
        backup: [None; SLOTS],
        lives: [1, 0],
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
            acknowledged: None,
        },
        kind_deleting: false,
        budget,
        broken: None,
    }
}
