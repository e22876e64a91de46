//! Tests: what kstatus reads for every reason of a command.

use super::*;
use crate::readings::StatusReading;

fn read_conditions(stage: &'static str, case: &Case) -> StatusReading {
    let subject = &case.0.subject;
    let (status, _) = case.decide().status(subject, jiff::Timestamp::UNIX_EPOCH);
    StatusReading::of_status(stage, &status.conditions, subject.is_deleting())
}

/// Every case, in the order of the page.
pub(crate) fn every() -> Vec<StatusReading> {
    let missing = reboot().facts(|f| f.target = TargetFact::Missing);
    let waited = missing.clone().facts(|f| {
        let grace = &mut f.subject.memory.grace;
        grace.record_awaited(Some(Reason::ReferenceNotFound), NOW - secs(120));
    });
    let not_ready = reboot().server(|s| {
        s.status.as_mut().unwrap().provider_status = Some("created".into());
    });
    let observed = reboot().server(|s| {
        s.spec.management_policy = Some(ManagementPolicy::ObserveOnly);
    });
    let suspended = reboot().server(|s| s.spec.suspend = Some(true));
    let ending = reboot().server(|s| s.metadata.deletion_timestamp = moment(WALL));
    let unreadable = reboot().facts(|f| f.target = TargetFact::Unreadable("no".into()));
    let behind = reboot().facts(|f| f.is_first = false);
    let mut other = attempt(PowerAction::Reboot, "a1", 9);
    other.intent.uid = "uid-0".into();
    let sent = |state: &str| reboot().sent(&[accepted(PowerAction::Reboot, state, 9)]);
    let open = reboot().sent(&[attempt(PowerAction::Reboot, "a1", 9)]);
    let refused = reboot().sent(&[CommandRecord {
        outcome: Some(CommandOutcome::Refused),
        ..attempt(PowerAction::Reboot, "a1", 9)
    }]);
    let rows = [
        ("not sent", &reboot()),
        ("not sent", &behind),
        ("not sent", &untagged()),
        ("not sent", &missing),
        ("not sent", &waited),
        ("not sent", &not_ready),
        ("not sent", &unreadable),
        ("not sent", &suspended),
        ("not sent", &observed),
        ("not sent", &super::hosts::conflict()),
        ("not sent", &super::hosts::not_granted()),
        ("not sent", &super::hosts::meets_installation()),
        ("sent", &sent("pending")),
        ("sent", &open.clone().searched(0, None)),
        ("over", &sent("finished")),
        ("over", &sent("failed")),
        ("over", &refused),
        ("over", &open.searched(730, Some(100))),
        ("over", &reboot().late()),
        ("over", &ending),
        ("over", &reboot().sent(&[other])),
        ("over", &overtaken()),
        ("deleted", &sent("pending").deleted()),
    ];
    rows.iter()
        .map(|(stage, case)| read_conditions(stage, case))
        .collect()
}
