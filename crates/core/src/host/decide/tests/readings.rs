//! What kstatus and the tools that build on it read for every reason of a host.

use super::*;
use crate::readings::StatusReading;

/// The conditions of this case.
fn read_conditions(stage: &'static str, case: &Case) -> StatusReading {
    let subject = &case.0.subject;
    let (status, _) = case.decide().status(subject, jiff::Timestamp::UNIX_EPOCH);
    let reading = StatusReading::of_status(stage, &status.conditions, subject.is_deleting());
    reading.of_generation(
        status.observed_generation,
        subject.object.metadata.generation,
    )
}

/// The object has waited for two minutes with this reason.
fn waited(case: Case, reason: Reason) -> Case {
    case.facts(|f| {
        let grace = &mut f.subject.memory.grace;
        grace.record_awaited(Some(reason), NOW - secs(120));
    })
}

/// An installation with this end.
fn ended(end: InstallEnd) -> Case {
    let case = Case::known().installs(1);
    let mut last = record(&case, 1, "a1");
    (last.end, last.ended_at) = (Some(end), Some(WALL));
    case.status(|s| s.records.install.as_mut().unwrap().last = Some(last))
}

/// Every case, in the order of the page.
pub(crate) fn every() -> Vec<StatusReading> {
    let missing = Case::new().facts(|f| {
        f.subject.account = ResolvedAccount::Missing("ProviderAccount default".into());
    });
    let observed = Case::known().spec(|s| {
        s.management_policy = Some(ManagementPolicy::ObserveOnly);
    });
    let suspends = |case: Case| {
        let case = case.spec(|s| s.suspend = Some(true));
        case.object(|o| o.metadata.generation = Some(2))
    };
    let suspended = suspends(Case::known());
    let requested = || Case::known().installs(1);
    let key = |found| requested().facts(|f| f.key = Some(found));
    let unshown = Case::known().list(NOW - secs(1), &[]).refreshed();
    let later = NOW + secs(700);
    let gone = unshown.clone().list(later, &[]).at(later).refreshed();
    let owned = Case::known().owned_by_another();
    let denied = Case::known().terms(Terms::Entry(Arc::new(AllowedNamespaces {
        name: "shop".into(),
        ..AllowedNamespaces::default()
    })));
    let moved = requested()
        .view(|v| v.account_id = Some("account-id-2".into()))
        .shown(|h| h.server_id = Some(71));
    let unread = |is_lasting| {
        let case = Case::new().own(|own| {
            own.record_observation(HostObservation::NoLog(
                NOW - secs(1),
                "no entry".into(),
                is_lasting,
            ));
        });
        case.written().installs(1)
    };
    let unknown = requested().status(|s| s.policies = None);
    let unknown = unknown.view(|v| v.defaults = None);
    let runs = sent(1, Some(CommandOutcome::Accepted));
    let runs = runs
        .shown(|h| h.install_status = InstallStatus::Installing)
        .written();
    let late = runs.clone().facts(|f| f.subject.now.wall += 7200);
    let others = Case::known().shown(|h| h.install_status = InstallStatus::Installing);
    let no_system = requested().view(|v| v.catalogue = None);
    let unlisted = requested().spec(|s| {
        s.os.as_mut().unwrap().slug = Some("none".into());
    });
    let lost = sent(1, None);
    let switched = powers::case_with_power(Power::PoweredOff);
    let running = powers::commanded(Power::PoweredOff, KnownCommand::Running);
    let unswitched = powers::commanded(
        Power::PoweredOff,
        KnownCommand::Ended(false, "CommandFailed".into()),
    );
    let unswitched = unswitched.list(NOW + secs(1), &[host()]).refreshed();
    let commanded = requested().facts(|f| f.commands = RunningCommand::Command("off".into()));
    let no_account_id = requested().view(|v| v.account_id = None);
    let rows = [
        ("at rest", &Case::known()),
        ("at rest", &observed),
        ("at rest", &suspended),
        ("at rest", &unshown),
        ("at rest", &gone),
        (
            "at rest",
            &Case::known().shown(|h| h.kind = HostKind::OnDemand),
        ),
        ("at rest", &owned),
        ("at rest", &denied),
        ("at rest", &Case::known().shown(|h| h.server_id = Some(71))),
        ("at rest", &others),
        ("at rest", &missing),
        ("at rest", &waited(missing.clone(), Reason::AccountNotFound)),
        ("switched", &running),
        ("switched", &suspends(switched.clone())),
        ("switched", &unswitched),
        ("to be installed", &requested()),
        ("to be installed", &suspends(requested())),
        (
            "to be installed",
            &requested().spec(|s| s.management_policy = Some(ManagementPolicy::ObserveOnly)),
        ),
        ("to be installed", &unknown),
        ("to be installed", &commanded),
        ("to be installed", &unread(false)),
        ("to be installed", &unread(true)),
        ("to be installed", &no_system),
        ("to be installed", &unlisted),
        ("to be installed", &no_account_id),
        (
            "to be installed",
            &key(KeyLookup::NotReady("its own reason is InvalidSpec".into())),
        ),
        ("to be installed", &key(KeyLookup::Missing)),
        (
            "to be installed",
            &waited(key(KeyLookup::Missing), Reason::ReferenceNotFound),
        ),
        ("to be installed", &moved),
        ("to be installed", &ended(InstallEnd::Finished).installs(0)),
        ("being installed", &runs),
        ("being installed", &lost),
        ("being installed", &late),
        ("installed", &ended(InstallEnd::Finished)),
        ("installed", &ended(InstallEnd::Failed)),
        ("installed", &ended(InstallEnd::Refused)),
        ("installed", &ended(InstallEnd::TimedOut)),
        ("installed", &ended(InstallEnd::Unknown)),
        ("installed", &ended(InstallEnd::NotRepeated)),
    ];
    rows.iter()
        .map(|(stage, case)| read_conditions(stage, case))
        .collect()
}
