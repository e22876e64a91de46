//! A server that the spec names: adopted, or only observed.

use super::*;
use crate::{account::terms::Terms, server::decide::precondition};
use api::{ManagementPolicy, allowed::AllowedNamespaces};

fn delivered(tags: &[&str]) -> Server {
    server(5, ServerStatus::Delivered, tags)
}

pub(super) fn named(tags: &[&str]) -> Case {
    Case::new().named(5, Some(delivered(tags)))
}

/// The order tag of an object in another namespace.
pub(super) fn tag_of(namespace: &str) -> String {
    Owner::new(&cluster(), namespace, "api", "ns-7").order_tag(seq(EPOCH))
}

pub(super) fn through_cluster_account(case: Case, adoption: Option<bool>) -> Case {
    case.spec(|s| {
        s.account_ref = serde_json::from_value(
            serde_json::json!({"kind": "ClusterProviderAccount", "name": "all"}),
        )
        .unwrap();
    })
    .facts(|f| {
        if let ResolvedAccount::Found { terms, .. } = &mut f.account {
            *terms = Terms::Entry(Arc::new(AllowedNamespaces {
                name: "shop".into(),
                allow_adoption: adoption,
                ..AllowedNamespaces::default()
            }));
        }
    })
}

pub(super) fn observed(case: Case) -> Case {
    case.spec(|s| s.management_policy = Some(ManagementPolicy::ObserveOnly))
}

fn adopts(case: &Case) -> bool {
    outcome(&case.decide()) == Some((Some(OrderOutcome::Adopting), Some(uuid(5))))
}

#[test]
fn unowned_server_is_adopted_in_every_live_state() {
    let cluster_tag = cluster().tag();
    for (what, case) in [
        ("bare", named(&["web"])),
        (
            "on its way",
            Case::new().named(5, Some(server(5, ServerStatus::Provisioning, &[]))),
        ),
        (
            "of an object that is gone",
            named(&[&cluster_tag, &other_tag()]),
        ),
        (
            "retained",
            named(&[&cluster_tag, &other_tag(), RETAINED_TAG]),
        ),
        (
            "of an earlier namespace",
            named(&[&cluster_tag, &previous_tag()]),
        ),
        (
            "after an order that was refused",
            named(&[]).ordered(Some(OrderOutcome::Refused), None),
        ),
        (
            "after one that made none",
            named(&[]).ordered(Some(OrderOutcome::Absent), None),
        ),
    ] {
        assert!(adopts(&case), "{what}");
        let gone = case.named(5, None).decide();
        assert_eq!(
            short(&gone),
            (None, Some(Reason::ServerNotFound), true),
            "{what}"
        );
    }
    assert_eq!(short(&named(&[]).unlisted().decide()), (None, None, false));
    let suspended = named(&[]).spec(|s| s.suspend = Some(true)).decide();
    assert_eq!(short(&suspended), (None, Some(Reason::Suspended), false));
    // The server of an order in flight is searched for first.
    assert!(!adopts(&named(&[]).ordered(None, None)));
}

#[test]
fn cluster_account_adopts_only_own_or_permitted_servers() {
    let (own, other) = (other_tag(), tag_of("bank"));
    for (tags, adoption, reason) in [
        (vec!["web"], None, Some(Reason::NotAllowed)),
        (vec!["web"], Some(true), None),
        (vec![own.as_str()], None, None),
        (vec![&*own, RETAINED_TAG], None, None),
        (
            vec![other.as_str()],
            Some(true),
            Some(Reason::OwnershipConflict),
        ),
        (
            vec![&*other, RETAINED_TAG],
            Some(true),
            Some(Reason::OwnershipConflict),
        ),
        (
            vec![&*own, &other],
            Some(true),
            Some(Reason::OwnershipConflict),
        ),
        // A cluster admin hands it over by removing the order tag.
        (vec!["fmo-cluster:0123456789abcdef"], Some(true), None),
    ] {
        let case = through_cluster_account(named(&tags), adoption);
        assert_eq!(adopts(&case), reason.is_none(), "{tags:?}");
        let actual = short(&case.decide()).1;
        assert_eq!(actual, reason.or(Some(Reason::Progressing)), "{tags:?}");
    }
}

#[test]
fn server_without_free_tags_is_not_claimed() {
    let full = |number: usize| {
        let tags: Vec<String> = (0..number).map(|n| format!("t{n}")).collect();
        let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
        let case = named(&tags).ordered(Some(OrderOutcome::Adopting), Some(5));
        short(&case.decide())
    };
    assert_eq!(full(58).0, Some("Claim"));
    assert_eq!(full(59), (None, Some(Reason::TooManyEntries), true));
}

#[test]
fn only_order_tag_makes_server_owned() {
    let sole = |tags: &[&str]| precondition::is_sole(&Case::new().0, &delivered(tags));
    assert!(sole(&[&own_tag(), "web"]));
    for tags in [
        &[&*cluster().tag()][..],
        &[&own_tag(), &other_tag()],
        &[&previous_tag()],
    ] {
        assert!(!sole(tags), "{tags:?}");
    }
}

/// The spec has only the external ID.
fn bare(case: Case) -> Case {
    case.spec(|s| {
        (s.location, s.instance_type, s.os) = (None, None, None);
    })
}

#[test]
fn external_id_alone_suffices_to_adopt_or_observe() {
    assert!(adopts(&bare(named(&["web"]))));
    let (shown, asked) = (
        observed(bare(named(&[]))).decide(),
        observed(named(&[])).decide(),
    );
    assert_eq!(short(&shown), short(&asked));
    assert_eq!(
        shown.desired.condition(Type::Synced).unwrap().status,
        Some(true)
    );
    assert_eq!(shown.desired.status, asked.desired.status);
    // Nothing is known about it yet, and status shows nothing.
    let status = observed(bare(Case::new().named(5, None)))
        .decide()
        .desired
        .status;
    assert_eq!(
        (status.location, status.instance_type, status.os),
        (None, None, None)
    );
}

#[test]
fn what_is_observed_is_shown_and_gets_nothing() {
    let shows = |case: &Case| {
        let decision = case.decide();
        (
            decision.effect.is_none(),
            short(&decision).1,
            decision.desired.status.uuid,
        )
    };
    let living = named(&[&cluster().tag(), &other_tag()]).facts(|f| {
        f.owned_elsewhere = vec![ServerId::parse(&uuid(5)).unwrap()];
    });
    for case in [named(&[]), living] {
        assert_eq!(
            shows(&observed(case)),
            (true, Some(Reason::Delivered), Some(uuid(5)))
        );
    }
    let moving = Case::new().named(5, Some(server(5, ServerStatus::Provisioning, &[])));
    assert_eq!(shows(&observed(moving)).1, Some(Reason::Provisioning));
    let none = Case::new().named(5, None);
    assert_eq!(
        shows(&observed(none)),
        (true, Some(Reason::ServerNotFound), None)
    );
    let tenant = through_cluster_account(observed(named(&[])), None);
    assert_eq!(shows(&tenant), (true, Some(Reason::NotAllowed), None));
    let tenant = through_cluster_account(observed(named(&[])), Some(true));
    assert_eq!(shows(&tenant).1, Some(Reason::Delivered));
    // An object whose spec differs reports it, and changes nothing either.
    let differs = observed(named(&[])).spec(|s| s.instance_type = Some("large".into()));
    let synced = differs
        .decide()
        .desired
        .condition(Type::Synced)
        .unwrap()
        .clone();
    assert_eq!(
        (synced.status, synced.reason),
        (Some(false), Reason::PendingChanges)
    );
    let nothing = observed(Case::new());
    come_to(
        (None, Some(Reason::ObserveOnly), true),
        vec![("nothing is named", nothing)],
    );
    come_to(
        (None, Some(Reason::Delivered), false),
        vec![(
            "a machine of its own: tags stay as they are",
            observed(
                Case::new()
                    .ordered(Some(OrderOutcome::Created), Some(1))
                    .with(1, ServerStatus::Delivered),
            )
            .spec(|s| s.tags = vec!["new".into()]),
        )],
    );
    come_to(
        (None, Some(Reason::ObserveOnly), false),
        vec![
            (
                "deleted with a machine of its own",
                observed(
                    Case::new()
                        .ordered(Some(OrderOutcome::Created), Some(1))
                        .with(1, ServerStatus::Delivered),
                )
                .deleting(),
            ),
            (
                "a release that has begun",
                observed(
                    Case::new()
                        .ordered(Some(OrderOutcome::Created), Some(1))
                        .with(1, ServerStatus::Delivered),
                )
                .deleting()
                .begun(1),
            ),
        ],
    );
}

#[test]
fn observed_servers_are_polled_in_shared_intervals() {
    let at = |mono: u64, seen_at: u64| {
        let case = observed(named(&[])).facts(|f| {
            f.now.mono = secs(mono);
            let external = f.external.as_mut().unwrap();
            external.shown.as_mut().unwrap().seen = secs(seen_at);
            external.listed_at = Some(secs(seen_at));
        });
        case.decide().wants_servers
    };
    // The idle poll interval is 120 s.
    assert_eq!(at(1079, 961), None);
    assert_eq!(at(1080, 961), Some(secs(1080)));
    assert_eq!(at(1100, 1079), Some(secs(1080)));
    assert_eq!(at(1100, 1081), None);
}

#[test]
fn unseen_observed_server_is_unsynced_after_two_intervals() {
    // Seen at 990; two idle poll intervals are 240 s.
    let shown = || observed(named(&[])).written();
    let at = |case: Case, now: u64| {
        let decision = case.facts(|f| f.now.mono = secs(now)).decide();
        let said = |kind| {
            let found = decision.desired.condition(kind).cloned();
            found.or_else(|| {
                api::conditions::DesiredCondition::find_existing(
                    kind,
                    &decision.desired.status.conditions,
                )
            })
        };
        let (ready, synced) = (said(Type::Ready).unwrap(), said(Type::Synced).unwrap());
        assert_eq!(
            (ready.status, ready.reason),
            (Some(true), Reason::Delivered)
        );
        assert_eq!(ready.message, synced.message);
        (synced.status, synced.reason)
    };
    let synced = (Some(true), Reason::InSync);
    let lost = (Some(false), Reason::AccountNotReady);
    assert_eq!(at(shown(), 1229), synced);
    assert_eq!(at(shown(), 1230), lost);
    // After a restart there is no list yet.
    let unlisted = || {
        shown().facts(|f| {
            f.external.as_mut().unwrap().listed_at = None;
            f.external.as_mut().unwrap().shown = None;
            f.first_seen = secs(1000);
        })
    };
    assert_eq!(at(unlisted(), 1239), synced);
    assert_eq!(at(unlisted(), 1240), lost);
    // Reads do not find it, and no list has shown it since.
    let missed = |read: u64| shown().memory(move |m| m.protocol.read_missing(secs(read)));
    assert_eq!(at(missed(985), 1000), synced);
    let gone = (Some(false), Reason::ServerNotFound);
    assert_eq!(at(missed(995), 1235), gone);
    let twice = missed(995).memory(|m| m.protocol.read_missing(secs(1055)));
    assert_eq!(at(twice, 1056), gone, "two reads, a minute apart");
    assert_eq!(at(missed(985), 1226), synced, "a later list shows it");
}

#[test]
fn observed_server_stays_ready_while_account_is_blocked() {
    let shown = observed(named(&[]))
        .written()
        .blocked(Reason::ProviderUnreachable);
    let decision = shown.decide();
    assert_eq!(decision.desired.condition(Type::Ready), None);
}
