//! What kstatus and the tools that build on it read for every reason of an IpWhitelist.

use super::*;
use crate::readings::StatusReading;
use api::Reason;

/// The conditions of this case.
fn read_conditions(stage: &'static str, case: &Case) -> StatusReading {
    let subject = &case.0.subject;
    let (status, _) = case.decide().status(subject, jiff::Timestamp::UNIX_EPOCH);
    StatusReading::of_status(stage, &status.conditions, subject.is_deleting())
}

/// Every case, in the order of the page.
pub(crate) fn every() -> Vec<StatusReading> {
    let case = || Case::new(&plain(), &[]);
    let there = || Case::new(&plain(), &[entry(5, &all())]);
    let missing = |case: Case| {
        let mut case = case;
        case.0.subject.account = ResolvedAccount::Missing("ProviderAccount default".into());
        case
    };
    let mut waited = missing(case());
    (waited.0.subject.memory.grace).record_awaited(Some(Reason::AccountNotFound), NOW - secs(120));
    let lost = case()
        .written()
        .sent(&WhitelistStep::Add(all()), false, NOW);
    let lost = lost.shows(&[], NOW + secs(1)).at(NOW + secs(1));
    let unkept = case()
        .own(|own| own.not_applied = Some((3, "Entry 5 is shown otherwise; remove it".into())));
    let unknown = case().object(|object| object.spec.egress_cidrs.clear());
    let uncovered = case().object(|object| {
        object.spec.egress_cidrs = vec!["198.51.100.1/32".into()];
    });
    let invalid = case().object(|object| object.spec.entries[0].cidr = None);
    let mut elsewhere = case();
    elsewhere.0.is_account_in_namespace = false;
    let no_key = || case().own(|own| own.found_no_key(NOW, secs(60), connection().as_deref()));
    let contested = || {
        let mut case = there().object(|object| object.metadata.finalizers = None);
        (1..6).for_each(|n| {
            case.0
                .subject
                .memory
                .finalizer_restores
                .record_restore(NOW - secs(6 - n))
        });
        case
    };
    let ending = there().object(|object| object.spec.lockout_guard = Some(false));
    let mut blind = there().deleted();
    blind.0.subject.kind_deleting = None;
    let long = || case().own(|own| own.found_too_long(NOW));
    let mut unlisted = case();
    unlisted.0.is_listed = false;
    let rows = [
        ("present", there()),
        ("present", case()),
        ("present", lost),
        ("present", unknown),
        ("present", uncovered),
        ("present", unkept),
        ("present", no_key()),
        ("present", long()),
        ("present", unlisted),
        ("present", invalid),
        ("present", case().owned()),
        ("present", elsewhere),
        ("present", contested()),
        ("present", missing(case())),
        ("present", waited),
        ("deleted", ending.deleted()),
        ("deleted", no_key().deleted()),
        ("deleted", long().deleted()),
        ("deleted", blind),
    ];
    rows.iter()
        .map(|(stage, case)| read_conditions(stage, case))
        .collect()
}
