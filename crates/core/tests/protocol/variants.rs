//! Switching off any rule must break a promise in some scene. Otherwise the rule is not needed, or the model shows
//! nothing.

use super::{limit_by_hand, rules::Rule, scene::Scene, scenes, walk};

/// Rules without a known scene that needs them.
const UNNEEDED: [Rule; 2] = [Rule::LiveList, Rule::AdoptRead];

/// The scene that needs a rule soonest.
fn missed_in(rule: Rule) -> &'static str {
    match rule {
        Rule::Precondition => "two-stale",
        Rule::Nonce | Rule::OnlyWriterSends => "two-order",
        Rule::SendBy => "two-late",
        Rule::FreshList | Rule::Grace => "wipe",
        Rule::Whole | Rule::Suspect => "portal",
        Rule::AnyTag => "portal-gone",
        Rule::RestartNew => "etcd-order",
        Rule::RestartClosed | Rule::FindAlways => "etcd-closed",
        Rule::ConfirmBeforeFinalizer => "etcd-delete",
        Rule::AbsentGrace => "order-lag",
        Rule::TwoLists => "omit",
        Rule::KnownServer => "wipe-empty",
        Rule::KnownServerUnknown => "alone-wipe",
        Rule::DeadOlder => "reorder",
        Rule::RecordUid => "restore",
        Rule::ReleaseUid => "noted-restore",
        Rule::PreviousServersBlock => "namespace",
        Rule::Claim | Rule::Settle => "replaced",
        Rule::DeleteBy => "two-replaced",
        Rule::LiveList | Rule::KeepOwnTag | Rule::OneOwner => "adopt-race",
        Rule::AdoptRead => "kept-named",
        Rule::Yield => "adopt-both",
        Rule::OwnFirst => "named-beside",
        Rule::OtherCluster => "foreign",
        Rule::OtherNamespace => "other-namespace",
        Rule::OneTag | Rule::FreshRead => "twin-named",
        Rule::ReleaseRecord => "two-kept",
        Rule::RecordBinds | Rule::FinalizerPrecondition => "two-release",
        Rule::GoneGrace => "gone",
        Rule::CompleteListAtEnd => "wipe-delete",
        Rule::RestoreFinalizer => "strip",
        Rule::Unretain => "recreate",
        Rule::NewKey => "other-key",
        Rule::RecordedStays => "beside",
    }
}

/// How long it takes to find that a rule is missing; `None` if every run does it.
fn seconds(rule: Rule) -> Option<u32> {
    match rule {
        Rule::FreshList | Rule::Grace | Rule::Settle | Rule::OneTag => None,
        Rule::DeleteBy => Some(30),
        _ => Some(1),
    }
}

#[test]
fn every_rule_is_needed() {
    let only = std::env::var("MODEL_RULE").ok();
    let rules = Rule::ALL
        .into_iter()
        .filter(|rule| !UNNEEDED.contains(rule));
    let rules: Vec<Rule> = match &only {
        Some(only) => {
            let named: Vec<Rule> = rules.filter(|rule| format!("{rule:?}") == *only).collect();
            assert!(!named.is_empty(), "no rule is called {only}");
            named
        }
        None => tiers::select("rules of the protocol", rules.collect(), |rule| {
            seconds(*rule)
        }),
    };
    let mut missed = Vec::new();
    for rule in rules {
        let named = missed_in(rule);
        let mut all = scenes::all();
        all.sort_by_key(|scene| scene.name != named);
        if limit_by_hand().is_none() || std::env::var_os("MODEL_FIRST").is_some() {
            all.truncate(1);
        }
        let is_caught = all.into_iter().any(|scene| {
            let scene = Scene {
                off: Some(rule),
                every: if scene.processes > 1 { scene.every } else { 1 },
                ..scene
            };
            walk(&scene).broken.is_some_and(|(name, _)| {
                println!("rule: {rule:?} is missed in {}: {name}", scene.name);
                true
            })
        });
        if !is_caught {
            missed.push(rule);
        }
    }
    assert_eq!(missed, [], "nothing breaks without these");
}
