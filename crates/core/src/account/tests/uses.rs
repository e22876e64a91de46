//! What status shows of the use of an account.

use super::{
    catalog::{next, set_catalogue},
    *,
};
use crate::account::{facts::UsedBy, view::Catalogue};
use api::{
    account_use::{CallBudget, KindUsers},
    catalog::QuotaUse,
};
use hosting_types::quota::{LocationQuota, QuotaUsage};

/// A catalogue with so many quotas, each with so many servers used.
fn catalogue(quotas: usize, used: i64) -> Catalogue {
    let usage = |number: usize| QuotaUsage {
        instance_type_id: None,
        instance_type: format!("bm{number:03}"),
        quota_type: String::new(),
        contract_id: Some(String::new()),
        quota: Some(i64::MAX),
        usage: Some(used),
    };
    Catalogue {
        quotas: vec![LocationQuota {
            location_id: None,
            location: "Here".into(),
            // In any order of the provider.
            usages: (0..quotas).rev().map(usage).collect(),
        }],
        ..Catalogue::default()
    }
}

#[test]
fn quota_is_sorted_and_bounded() {
    let mut facts = facts();
    assert_eq!(next(&facts).catalog, None, "nobody has looked");
    set_catalogue(&mut facts, 900, catalogue(23, -1));
    let catalog = next(&facts).catalog.unwrap();
    assert_eq!((catalog.quotas.len(), catalog.omitted), (20, 3));
    assert!(catalog.quotas.is_sorted());
    let QuotaUse {
        instance_type,
        contract_id,
        quota,
        used,
        ..
    } = &catalog.quotas[0];
    assert_eq!(instance_type, "bm000");
    assert_eq!(*contract_id, None);
    assert_eq!((*quota, *used), (Some(i32::MAX), Some(0)));
}

#[test]
fn figures_are_written_when_due_and_changed() {
    let mut facts = facts();
    set_catalogue(&mut facts, 900, catalogue(1, 1));
    facts.status = next(&facts);
    let before = facts.status.clone();
    let as_of = |status: &AccountStatus| {
        let catalog = status.catalog.as_ref().unwrap();
        catalog.as_of.as_ref().unwrap().0.as_second()
    };
    assert_eq!(as_of(&before), 1_790_000_000 - 100);
    // A later read that shows the same.
    set_catalogue(&mut facts, 990, catalogue(1, 1));
    assert_eq!(next(&facts), before);
    set_catalogue(&mut facts, 990, catalogue(1, 2));
    facts.report.as_mut().unwrap().calls.in_force = 600;
    facts.figures_are_due = false;
    assert_eq!(next(&facts), before, "too soon");
    facts.figures_are_due = true;
    let after = next(&facts);
    assert_eq!(after.catalog.as_ref().unwrap().quotas[0].used, Some(2));
    assert_eq!(as_of(&after), 1_790_000_000 - 10, "of the same look");
    let calls = CallBudget {
        per_minute: 1200,
        per_minute_in_force: 600,
    };
    assert_eq!(after.calls, Some(calls));
    assert!(report::may_wait(&before, &after));
    // Nothing is removed while the account is not read, or is another account.
    facts.report = None;
    assert_eq!(next(&facts).catalog, before.catalog);
}

#[test]
fn users_are_counted_and_named_on_deletion() {
    let mut facts = facts();
    let used_by = |kind: &str, count| UsedBy {
        kind: kind.into(),
        count,
    };
    facts.users = Some(8);
    facts.used_by = vec![used_by("BareMetalServer", 7), used_by("ServerTag", 1)];
    let counted = |kind: &str, count| KindUsers {
        kind: kind.into(),
        count,
    };
    let expected = [counted("BareMetalServer", 7), counted("ServerTag", 1)];
    assert_eq!(next(&facts).users, expected);
    let servers = ["n/a", "n/b", "n/c", "n/d", "n/e"]
        .map(String::from)
        .to_vec();
    facts.named_users = vec![
        ("BareMetalServer".into(), servers),
        ("ServerTag".into(), vec!["n/team".into()]),
    ];
    let words = "used by 8 objects (BareMetalServer n/a, BareMetalServer n/b, BareMetalServer n/c, BareMetalServer n/d, BareMetalServer n/e and 3 more). Delete these objects";
    secret(&mut facts, Ok("a".into()), true, true);
    let (_, reason, message) = condition(&facts, Type::Ready);
    assert_eq!(reason, Reason::InUse);
    assert!(message.contains(words), "{message}");
    // While the users are not known, the last ones stay.
    facts.status = next(&facts);
    facts.users = None;
    facts.used_by = Vec::new();
    assert_eq!(next(&facts).users, expected);
}

#[test]
fn no_finalizer_changes_in_read_only_mode() {
    let mut facts = facts();
    facts.meta.finalizers = None;
    assert!(decide(&facts).effect.is_some());
    facts.read_only = true;
    let decision = decide(&facts);
    assert_eq!(decision.effect, None);
    let synced = decision
        .conditions
        .iter()
        .filter(|c| c.kind == Type::Synced);
    let synced: Vec<_> = synced.map(|c| (c.status, c.reason)).collect();
    assert_eq!(synced, [(Some(false), Reason::ReadOnly)]);
}
