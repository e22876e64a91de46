//! Two clusters with one identity on one account, or a cluster beside the one that it was restored from: all machines of
//! the other one look like orphans of this one.

use super::{
    orphan_release::{due, lost},
    *,
};
use crate::account::decide::orphan_release::{Start, start};
use api::{
    Interval,
    brake::{BrakeStatus, ReleaseBrake},
    names::RELEASE_ORPHAN,
};

const MINUTE: Duration = Duration::from_secs(60);

/// An account whose policy has come to release two hundred machines.
fn flooded() -> Facts {
    let mut facts = due();
    let servers = (100..300).map(|number| {
        Arc::new(Server {
            id: ServerId::parse(&uuid(number)).unwrap(),
            ..lost()
        })
    });
    facts.report.as_mut().unwrap().verdict = Verdict::Found(servers.collect());
    facts.releases_after = Some(Duration::from_secs(3600));
    facts.spec.release_brake = Some(ReleaseBrake {
        max_releases: 3,
        window: Interval::seconds(3600),
    });
    facts
}

/// What happens in so many minutes: how many are released.
fn pass(facts: &mut Facts, minutes: u32) -> usize {
    let mut released = 0;
    for _ in 0..minutes {
        facts.now += MINUTE;
        facts.wall += 60;
        let report = facts.report.clone().unwrap();
        facts
            .orphan_memory
            .look(Some(&report.verdict), None, facts.now);
        let decision = decide(facts);
        facts.status.orphans = decision.orphans.unwrap_or_default();
        facts.status.release_brake = decision.brake;
        let Some(server) = decision.releases else {
            continue;
        };
        match start(facts, &server, "a", MINUTE) {
            Start::Note(_, counted) => {
                released += 1;
                facts.status.release_brake = counted.or(facts.status.release_brake.take());
                let verdict = &mut facts.report.as_mut().unwrap().verdict;
                if let Verdict::Found(orphans) = verdict {
                    orphans.retain(|orphan| orphan.id != server.id);
                }
            }
            Start::Held(next) => {
                facts.status.release_brake = next.or(facts.status.release_brake.take());
            }
            Start::NotDue => panic!("nothing changed in between"),
        }
    }
    released
}

#[test]
fn machines_that_another_cluster_of_the_same_identity_has_are_not_released_as_a_mass() {
    let mut facts = flooded();
    assert_eq!(pass(&mut facts, 3 * 24 * 60), 3, "what the brake lets");
    let engaged = |facts: &Facts| {
        let brake: &BrakeStatus = facts.status.release_brake.as_ref().unwrap();
        brake.engaged_since.is_some()
    };
    assert!(engaged(&facts), "the rest waits for a person");
    let (status, reason, _) = condition(&facts, Type::ReleasesHeld);
    assert_eq!((status, reason), ("True", Reason::ReleaseHeld));
    // Without a brake the policy releases none, and by default there is no such policy.
    let mut unbraked = flooded();
    unbraked.spec.release_brake = None;
    assert_eq!(pass(&mut unbraked, 24 * 60), 0);
    let mut reported = flooded();
    reported.releases_after = None;
    assert_eq!(pass(&mut reported, 24 * 60), 0);
    // A person's word is for what it names.
    let annotations = reported.meta.annotations.get_or_insert_default();
    annotations.insert(RELEASE_ORPHAN.into(), uuid(150));
    assert_eq!(pass(&mut reported, 24 * 60), 1);
}
