//! What kstatus and the tools that build on it read for every reason of a ServerTag.

use super::*;
use crate::readings::StatusReading;

/// The conditions of this case.
fn read_conditions(stage: &'static str, case: &Case) -> StatusReading {
    let subject = &case.0.subject;
    let (status, _) = case.decide().status(subject, jiff::Timestamp::UNIX_EPOCH);
    StatusReading::of_status(stage, &status.conditions, subject.is_deleting())
}

/// The object has waited for two minutes with this reason.
fn waited(case: Case, reason: Reason) -> Case {
    case.facts(|f| {
        f.subject
            .memory
            .grace
            .record_awaited(Some(reason), NOW - secs(120))
    })
}

/// Every case, in the order of the page.
pub(crate) fn every() -> Vec<StatusReading> {
    let read_only = Case::new().facts(|f| f.subject.read_only = true);
    let missing = Case::new().facts(|f| {
        f.subject.account = ResolvedAccount::Missing("ProviderAccount default".into());
    });
    let renamed = Case::new().made("web").renamed_to("www");
    let unknown = renamed.clone().own(|own| {
        own.unknown = Some(UnknownRename {
            rename: a_rename("web", "www"),
            since: NOW,
            not_done: None,
        });
    });
    let refused = Case::new().with_annotation("web", None, true).own(|own| {
        let (tag, message) = ("web".into(), "no".into());
        own.refused = Some(TagRefusal {
            tag,
            message,
            at: NOW,
        });
    });
    let late = Case::new().with_annotation("web", None, true);
    let late = late.own(|own| own.made = Some(("web".into(), NOW)));
    let used = Case::new().made("web").tags(&[("web", 2)]).deleted();
    let replaced = renamed.clone().tags(&[("web", 1), ("www", 1)]);
    let contested = Case::new().tags(&[("web", 0)]).facts(|f| {
        (1..6).for_each(|n| {
            f.subject
                .memory
                .finalizer_restores
                .record_restore(NOW - secs(6 - n))
        });
    });
    let rows = [
        ("present", &Case::new().made("web").tags(&[("web", 0)])),
        ("present", &late),
        ("present", &unknown),
        ("present", &renamed.tags(&[("web", 0), ("www", 0)])),
        ("present", &replaced),
        ("present", &waited(replaced.clone(), Reason::InUse)),
        ("present", &refused),
        ("present", &contested),
        ("present", &Case::new().owned_by("first")),
        ("present", &Case::new().spec(|s| s.tag = Some("a b".into()))),
        ("present", &Case::new().view(|v| v.account_id = None)),
        ("present", &missing),
        ("present", &waited(missing.clone(), Reason::AccountNotFound)),
        ("present", &read_only),
        ("deleted", &used),
        ("deleted", &waited(used.clone(), Reason::InUse)),
    ];
    rows.iter()
        .map(|(stage, case)| read_conditions(stage, case))
        .collect()
}
