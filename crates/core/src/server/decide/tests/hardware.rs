//! The hardware of a machine: one look when its listing can be there, and none afterwards.

use super::{machine::kept, *};
use crate::server::memory::Observation;
use api::{
    hardware::{Hardware, HardwareStatus},
    outputs::OutputRef,
};

/// A machine that was delivered so many seconds ago, and has nothing else to be done.
fn delivered(ago: i64) -> Case {
    let case = kept(ServerStatus::Delivered);
    let case = case.facts(|f| {
        let server = Arc::make_mut(&mut f.own[0].server);
        server.delivered_at = Some(f.now.wall - ago);
    });
    let decided = decide(&case.0).draft.status;
    case.object(|o| {
        let status = o.status.as_mut().unwrap();
        status.power = decided.power;
        status.install = decided.install;
    })
}

fn looks(case: &Case) -> bool {
    matches!(decide(&case.0).effect, Some(Effect::LookAtHardware { .. }))
}

fn looked(case: Case, name: Option<&str>, found: Option<HardwareStatus>) -> Case {
    let observation = Observation::Hardware {
        machine: uuid(1),
        config_map: name.map(str::to_owned),
        found,
        at: RUNNING,
    };
    case.memory(|m| m.note(observation, RUNNING, secs(60)))
}

fn found() -> HardwareStatus {
    HardwareStatus {
        machine: uuid(1),
        memory_bytes: Some(1),
        ..HardwareStatus::default()
    }
}

fn wants(case: Case, name: &str) -> Case {
    let wish = Hardware {
        config_map_ref: Some(OutputRef { name: name.into() }),
    };
    case.spec(|s| s.hardware = Some(wish))
}

#[test]
fn it_is_looked_at_once_when_a_listing_can_be_there() {
    assert!(!looks(&delivered(119)));
    assert_eq!(decide(&delivered(60).0).again, Again::After(secs(60)));
    let due = delivered(120);
    assert!(looks(&due));
    let known = looked(due.clone(), None, Some(found()));
    assert!(!looks(&known));
    assert_eq!(decide(&known.0).draft.status.hardware, Some(found()));
    // The next process reads it in status.
    let next = due.object(|o| o.status.as_mut().unwrap().hardware = Some(found()));
    assert!(!looks(&next));
    let another = next.clone().object(|o| {
        let status = o.status.as_mut().unwrap();
        status.hardware.as_mut().unwrap().machine = uuid(5);
    });
    assert!(looks(&another), "of another machine it says nothing");
    assert!(!looks(&another.clone().spec(|s| s.suspend = Some(true))));
    assert!(!looks(&another.deleting()));
}

#[test]
fn where_there_is_none_it_is_looked_at_three_times_more_and_ready_stays() {
    let mut case = delivered(500);
    for pause in [600, 3600, 6 * 3600] {
        case = looked(case, None, None);
        assert!(!looks(&case));
        let ready = decide(&case.0);
        let ready = ready.draft.condition(api::conditions::Type::Ready);
        assert_eq!(ready.unwrap().reason, Reason::Delivered);
        let later = case.clone().facts(|f| f.now.mono = RUNNING + secs(pause));
        assert!(looks(&later), "{pause}");
    }
    let over = looked(case, None, None).facts(|f| f.now.mono = RUNNING + secs(999_999));
    assert!(!looks(&over));
}

#[test]
fn the_listing_is_written_where_that_is_asked_for_and_not_twice() {
    let known = delivered(500).object(|o| o.status.as_mut().unwrap().hardware = Some(found()));
    let asked = wants(known, "web-hardware");
    assert!(looks(&asked));
    let written = HardwareStatus {
        config_map: Some("web-hardware".into()),
        ..found()
    };
    let done = looked(asked.clone(), Some("web-hardware"), Some(written));
    assert!(!looks(&done));
    assert!(looks(&wants(done, "another")));
    // A name that is taken is told, and tried again a few times.
    let taken = HardwareStatus {
        message: Some("taken".into()),
        ..found()
    };
    let taken = looked(asked, Some("web-hardware"), Some(taken));
    assert!(!looks(&taken));
    let status = decide(&taken.0).draft.status.hardware.unwrap();
    assert_eq!(status.message.as_deref(), Some("taken"));
    assert!(looks(&wants(taken, "free")));
}
