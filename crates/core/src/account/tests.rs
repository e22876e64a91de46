//! Decisions on accounts: a message for each problem, and finalizers in their order.

mod account_identity;
mod candidate;
mod catalog;
mod order_tags;
mod orphans;
mod reconcile_request;
mod release_limit;
mod sizes;
mod uses;

use super::{
    decide::{AccountEffect, candidate::AccountKeys, decide},
    facts::{AccountFacts, BundleFact, KeyFault, SecretFact},
    report,
};
use crate::{
    account::{
        facts::{AccountReport, Calls, CountedServers},
        key::AccountKey,
        key_state::KeyState,
        orphan_scan::OrphanScanResult,
        recheck_interval::RecheckInterval,
        recorded::{OpenOrder, RecordedResources, RecordedServer},
        view::CompleteList,
    },
    explanation::AS_READY,
    readings::StatusReading,
    reconcile_request::ReconcileRequest,
    reference_grace::{REFERENCE_GRACE, ReferenceGrace},
    report::Severity,
};
use api::{
    Reason,
    account::{AccountSpec, AccountStatus, ApiKeySecretRef, Endpoint, KnownServer},
    conditions::Type,
    limits::Limits,
    names::{ACCOUNT_FINALIZER, ACKNOWLEDGE, SECRET_WITH_FINALIZER},
    references::AccountKind,
    timing::{Minimum, Timing, TimingInForce},
};
use hosting_types::{Refusal, Server, ServerId, ServerStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// The recorded account ID, and the next one.
const ACCOUNT_ID: &str = "11111111aaaa";
const NEXT_ACCOUNT_ID: &str = "22222222bbbb";
const URL: &str = "https://api.example.com";
/// The remedy for a key that cannot be used.
const PUT_KEY: &str = ". Put a valid API key ";

fn endpoint(hash: &str) -> Endpoint {
    Endpoint {
        base_url: URL.into(),
        credentials_hash: hash.into(),
    }
}

fn uuid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// A server as the provider shows it.
fn provider_server(number: usize) -> Server {
    Server {
        id: ServerId::parse(&uuid(number)).unwrap(),
        name: "web".into(),
        status: ServerStatus::Delivered,
        status_message: String::new(),
        location_id: None,
        location: String::new(),
        instance_type_id: None,
        instance_type: String::new(),
        os_slug: String::new(),
        addresses: vec![],
        tags: vec![known().order_tag],
        created_at: None,
        delivered_at: None,
        released_at: None,
        contract_id: None,
    }
}

fn known() -> KnownServer {
    KnownServer {
        uuid: uuid(1),
        order_tag: format!("fmo-order:{:052}", 1),
        live: true,
    }
}

fn report_of() -> AccountReport {
    AccountReport {
        key: KeyState::Accepted,
        error: None,
        complete_list: Some(Arc::new(CompleteList {
            began: Duration::from_secs(90),
            ended: Duration::from_secs(91),
            servers: vec![],
        })),
        orphan_scan: OrphanScanResult::Found(Vec::new()),
        counts: CountedServers {
            live: 2,
            retained: 1,
            duplicates: 0,
            others: None,
        },
        known: vec![],
        are_known_lost: true,
        catalogue: None,
        calls: Calls {
            full: 1200,
            in_force: 1200,
        },
        usage: None,
    }
}

/// Writes the status of the decision.
fn write(facts: &mut AccountFacts) {
    facts.status = report::next_status(facts, &decide(facts), Timestamp::MIN);
}

/// A user sets this token.
fn acknowledge(facts: &mut AccountFacts, token: &str) {
    let annotations = facts.meta.annotations.get_or_insert_default();
    annotations.insert(ACKNOWLEDGE.into(), token.into());
}

/// An account in use, without problems.
fn facts() -> AccountFacts {
    AccountFacts {
        read_only: false,
        now: Duration::from_secs(1000),
        leader_since: Duration::ZERO,
        wall: 1_790_000_000,
        key: AccountKey {
            kind: AccountKind::ProviderAccount,
            namespace: Some("n".into()),
            name: "default".into(),
        },
        meta: serde_json::from_value::<ObjectMeta>(json!({
            "name": "default",
            "namespace": "n",
            "uid": "account-1",
            "generation": 3,
            "finalizers": [ACCOUNT_FINALIZER],
            "annotations": {SECRET_WITH_FINALIZER: "api"},
        }))
        .unwrap(),
        spec: AccountSpec {
            suspend: false,
            usage: None,
            release_limit: None,
            base_url: Some(URL.into()),
            ca_bundle: None,
            ca_bundle_ref: None,
            api_key_secret_ref: ApiKeySecretRef { name: "api".into() },
            timing: Timing::default(),
            defaults: None,
            host_install_form: None,
            egress_cidrs: Vec::new(),
            limits: Limits::default(),
        },
        spec_size: 500,
        timing: TimingInForce::default(),
        status: AccountStatus {
            account_id: Some(ACCOUNT_ID.into()),
            verified: Some(endpoint("a")),
            ..AccountStatus::default()
        },
        secret_namespace: "n".into(),
        keys: AccountKeys::default(),
        secret: SecretFact::Found {
            key: Ok("a".into()),
            deleting: false,
            has_finalizer: true,
        },
        endpoint: Ok(()),
        bundle: BundleFact::Known,
        trusted: None,
        users: Some(2),
        used_by: Vec::new(),
        named_users: Vec::new(),
        figures_are_due: true,
        offered: None,
        secret_is_shared: false,
        connected: true,
        in_force: Some(endpoint("a")),
        on_record: Some(RecordedResources::default()),
        missed_since: Some(Duration::ZERO),
        next_account_id: NEXT_ACCOUNT_ID.into(),
        report: Some(report_of()),
        failed: None,
        grace: ReferenceGrace::default(),
        request: ReconcileRequest::default(),
    }
}

fn secret(
    facts: &mut AccountFacts,
    key: Result<String, KeyFault>,
    deleting: bool,
    has_finalizer: bool,
) {
    facts.secret = SecretFact::Found {
        key,
        deleting,
        has_finalizer,
    };
}

/// The account takes its CA bundle from a ConfigMap.
fn with_bundle(facts: &mut AccountFacts, bundle: BundleFact) {
    let of = json!({"kind": "ConfigMap", "name": "internal-ca"});
    facts.spec.ca_bundle_ref = Some(serde_json::from_value(of).unwrap());
    facts.bundle = bundle;
}

fn rejected() -> KeyState {
    KeyState::Rejected(Refusal {
        status: 403,
        code: None,
        message: String::new(),
        fields: vec![],
        retry_after: None,
        idempotent: true,
    })
}

/// Reason and state of a condition.
fn condition(facts: &AccountFacts, kind: Type) -> (&'static str, Reason, String) {
    let decision = decide(facts);
    let found = decision.conditions.into_iter().find(|c| c.kind == kind);
    let found = found.unwrap();
    (found.status_word(), found.reason, found.message)
}

#[test]
fn working_account_is_ready_and_verified() {
    let facts = facts();
    let decision = decide(&facts);
    assert_eq!(condition(&facts, Type::Ready).0, "True");
    assert_eq!(condition(&facts, Type::KeyAccepted).0, "True");
    assert_eq!(condition(&facts, Type::Stalled).0, "False");
    assert_eq!(condition(&facts, Type::Reconciling).0, "False");
    assert_eq!(condition(&facts, Type::OrphansFound).1, Reason::InSync);
    assert_eq!(
        (decision.block, decision.no_orders, decision.effect),
        (None, None, None)
    );
    assert_eq!(decision.has_finalizers, Some(true));
    assert_eq!(decision.verified, Some(endpoint("a")));
    let servers = decision.servers.unwrap();
    assert_eq!((servers.live, servers.retained), (2, 1));
    assert_eq!(servers.of_limit, "2");
}

#[test]
fn a_suspended_account_shows_it_and_works() {
    let mut facts = facts();
    facts.spec.suspend = true;
    let block = decide(&facts).block.unwrap();
    assert_eq!(block.0, Reason::Suspended);
    let (status, reason, message) = condition(&facts, Type::Suspended);
    assert_eq!(
        (status, reason, message),
        ("True", Reason::Suspended, block.1)
    );
    assert_eq!(condition(&facts, Type::Ready).1, Reason::Available);
    assert_eq!(condition(&facts, Type::Synced).0, "True");
    let suspended_event = |facts: &AccountFacts| {
        let decision = decide(facts);
        let next = report::next_status(facts, &decision, Timestamp::MIN);
        let news = report::news(&facts.status, &next, &decision);
        let mut suspended = news
            .into_iter()
            .filter(|n| n.reason.as_str() == "Suspended");
        suspended.next().map(|n| n.severity)
    };
    assert_eq!(suspended_event(&facts), Some(Severity::Normal));
    write(&mut facts);
    assert_eq!(suspended_event(&facts), None);
    facts.spec.suspend = false;
    assert_eq!(condition(&facts, Type::Suspended).0, "False");
    // A problem of its own is reported next to it.
    facts.spec.suspend = true;
    facts.report.as_mut().unwrap().key = rejected();
    assert_eq!(condition(&facts, Type::Suspended).0, "True");
    assert_eq!(condition(&facts, Type::Ready).1, Reason::KeyRejected);
    assert_eq!(condition(&facts, Type::Synced).1, Reason::KeyRejected);
}

/// Each problem: how it arises, its reason, whether a user has to act, what the message names.
#[test]
fn every_problem_names_field_and_remedy() {
    type Case = (Reason, bool, &'static [&'static str], fn(&mut AccountFacts));
    let cases: &[Case] = &[
        (
            Reason::InvalidEndpoint,
            true,
            &["spec.baseURL", "use https"],
            |f| f.endpoint = Err("spec.baseURL is plain http: use https".into()),
        ),
        (
            Reason::ReferenceNotFound,
            true,
            &[
                "ConfigMap n/internal-ca",
                "\"ca.crt\"",
                "Create it",
                "spec.caBundleRef",
            ],
            |f| with_bundle(f, BundleFact::NoObject),
        ),
        (
            Reason::ReferenceNotFound,
            true,
            &[
                "ConfigMap n/internal-ca",
                "no key \"root.pem\"",
                "spec.caBundleRef.key",
            ],
            |f| {
                with_bundle(f, BundleFact::NoKey);
                f.spec.ca_bundle_ref.as_mut().unwrap().key = Some("root.pem".into());
            },
        ),
        (
            Reason::ReferenceNotFound,
            true,
            &["spec.caBundleRef; too long"],
            |f| with_bundle(f, BundleFact::Unusable("too long".into())),
        ),
        (
            Reason::Pending,
            false,
            &["ConfigMap n/internal-ca", "forbidden"],
            |f| with_bundle(f, BundleFact::Unread("forbidden".into())),
        ),
        (
            Reason::ReferenceNotFound,
            true,
            &[
                "Secret n/api",
                "create it",
                "spec.apiKeySecretRef",
                "flexmetal.dev/api-key",
                "\"apiKey\"",
                "\"baseURL\"",
            ],
            |f| f.secret = SecretFact::Missing,
        ),
        (
            Reason::ReferenceNotFound,
            true,
            &[
                "Secret n/api",
                "\"apiKey\"",
                "spec.apiKeySecretRef",
                "add it",
            ],
            |f| secret(f, Err(KeyFault::Absent), false, true),
        ),
        (
            Reason::InvalidKey,
            true,
            &["Secret n/api", "one line", PUT_KEY],
            |f| {
                secret(
                    f,
                    Err(KeyFault::Invalid("store the key as one line".into())),
                    false,
                    true,
                );
            },
        ),
        (
            Reason::InvalidKey,
            true,
            &[
                "Secret n/api",
                "type flexmetal.dev/api-key",
                "cannot be changed",
                "create it again",
            ],
            |f| secret(f, Err(KeyFault::OtherType), false, false),
        ),
        (
            Reason::KeyRejected,
            true,
            &["Secret n/api", "status 403", PUT_KEY],
            |f| {
                f.report.as_mut().unwrap().key = rejected();
            },
        ),
        (
            Reason::AccountChanged,
            true,
            &[
                "Restore base URL",
                "set flexmetal.dev/acknowledge to ",
                "key hash old",
            ],
            |f| {
                f.status.verified = Some(endpoint("old"));
                f.status.records.known_servers = vec![known()];
            },
        ),
        (Reason::Pending, false, &[], |f| {
            f.report.as_mut().unwrap().key = KeyState::Untried;
        }),
        (Reason::ProviderUnreachable, false, &["no route"], |f| {
            f.report.as_mut().unwrap().error =
                Some((Reason::ProviderUnreachable, "no route".into()));
        }),
        // Nothing was ever read with this base URL.
        (
            Reason::ProviderUnreachable,
            false,
            &["no route; check baseURL"],
            |f| {
                f.status.verified = None;
                f.report.as_mut().unwrap().error =
                    Some((Reason::ProviderUnreachable, "no route".into()));
            },
        ),
        (
            Reason::Pending,
            false,
            &["Secret n/api", "forbidden"],
            |f| {
                f.secret = SecretFact::Unread("forbidden".into());
            },
        ),
    ];
    for (reason, stalled, words, make) in cases {
        let mut facts = facts();
        make(&mut facts);
        let (ready, why, message) = condition(&facts, Type::Ready);
        assert_eq!((ready, why), ("False", *reason), "{message}");
        for word in *words {
            assert!(message.contains(word), "{reason}: {message}");
        }
        let flag = |is| if is { "True" } else { "False" };
        if *reason == Reason::ReferenceNotFound {
            assert_eq!(condition(&facts, Type::Stalled).0, "False", "at first");
            let since = facts.now.saturating_sub(REFERENCE_GRACE);
            facts.grace.record_awaited(Some(*reason), since);
        }
        assert_eq!(
            condition(&facts, Type::Stalled).0,
            flag(*stalled),
            "{reason}"
        );
        assert_eq!(
            condition(&facts, Type::Reconciling).0,
            flag(!*stalled),
            "{reason}"
        );
    }
}

/// Each problem of an account that works with its last good key, of one that never worked, and of one that is being
/// deleted: the Secret is read often at first, and then as often as one in use.
#[test]
fn lasting_problem_is_rechecked_every_15s() {
    let deleted = || Some(Time(Timestamp::MIN));
    type Make<'a> = &'a dyn Fn(&mut AccountFacts);
    let cases: [(&str, Make); 13] = [
        ("missing", &|f| f.secret = SecretFact::Missing),
        ("absent", &|f| secret(f, Err(KeyFault::Absent), false, true)),
        ("type", &|f| {
            secret(f, Err(KeyFault::OtherType), false, false)
        }),
        ("invalid", &|f| {
            secret(f, Err(KeyFault::Invalid("no".into())), false, true);
        }),
        ("unread", &|f| f.secret = SecretFact::Unread("no".into())),
        ("bundle", &|f| with_bundle(f, BundleFact::NoObject)),
        ("endpoint", &|f| f.endpoint = Err("baseURL".into())),
        ("rejected", &|f| f.report.as_mut().unwrap().key = rejected()),
        ("changed", &|f| {
            f.status.verified = Some(endpoint("old"));
            f.status.records.known_servers = vec![known()];
        }),
        ("ends", &|f| f.meta.deletion_timestamp = deleted()),
        ("ends without Secret", &|f| {
            f.meta.deletion_timestamp = deleted();
            f.secret = SecretFact::Missing;
        }),
        ("ends without URL", &|f| {
            f.meta.deletion_timestamp = deleted();
            f.endpoint = Err("baseURL".into());
        }),
        ("Secret ends", &|f| secret(f, Ok("a".into()), true, true)),
    ];
    for (case, make) in cases {
        for connected in [true, false] {
            let mut facts = facts();
            facts.connected = connected;
            make(&mut facts);
            let mut interval = RecheckInterval::default();
            let mut pauses = Vec::new();
            for _ in 0..30 {
                let decision = decide(&facts);
                let pause = interval.next_interval(
                    decision.recheck_reason,
                    decision.requeue_after,
                    facts.now,
                );
                pauses.push(pause.as_secs());
                facts.now += pause;
            }
            assert!(pauses[0] <= 2, "{case} {connected}: {pauses:?}");
            assert_eq!(pauses[25..], [15; 5], "{case} {connected}: {pauses:?}");
        }
    }
    // Without a problem, or unreachable, the interval does not grow: a new key must not wait for long.
    let mut facts = facts();
    assert_eq!(decide(&facts).recheck_reason, None);
    facts.report.as_mut().unwrap().error = Some((Reason::ProviderUnreachable, "no".into()));
    assert_eq!(decide(&facts).recheck_reason, None);
}

#[test]
fn missing_secret_stops_only_orders() {
    let mut facts = facts();
    facts.secret = SecretFact::Missing;
    let decision = decide(&facts);
    assert_eq!(decision.block, None);
    assert_eq!(decision.no_orders.unwrap().0, Reason::ReferenceNotFound);
    facts.connected = false;
    assert_eq!(decide(&facts).block.unwrap().0, Reason::ReferenceNotFound);
}

#[test]
fn missing_ca_bundle_stops_only_orders() {
    let unusable = BundleFact::Unusable("no certificate".into());
    for bundle in [BundleFact::NoObject, BundleFact::NoKey, unusable] {
        let mut facts = facts();
        with_bundle(&mut facts, bundle);
        let missing = Some(Reason::ReferenceNotFound);
        let decision = decide(&facts);
        assert_eq!(decision.no_orders.map(|(reason, _)| reason), missing);
        assert_eq!(decision.block, None, "releases go on");
        let message = condition(&facts, Type::Ready).2;
        assert!(message.contains("stay in use"), "{message}");
        facts.connected = false;
        assert_eq!(decide(&facts).block.map(|(reason, _)| reason), missing);
    }
    let mut facts = facts();
    with_bundle(&mut facts, BundleFact::Known);
    assert_eq!(condition(&facts, Type::Ready).0, "True");
}

#[test]
fn status_keeps_certificates_of_bundle_ref() {
    let next =
        |facts: &AccountFacts| report::next_status(facts, &decide(facts), Timestamp::MIN).ca_bundle;
    let mut facts = facts();
    facts.trusted = Some("one".into());
    assert_eq!(next(&facts), None, "the spec has them");
    with_bundle(&mut facts, BundleFact::Known);
    assert_eq!(next(&facts).as_deref(), Some("one"));
    // A process that has just started is not connected yet.
    facts.status.ca_bundle = next(&facts);
    (facts.trusted, facts.bundle) = (None, BundleFact::NoObject);
    assert_eq!(next(&facts).as_deref(), Some("one"));
    facts.spec.ca_bundle_ref = None;
    assert_eq!(next(&facts), None);
}

#[test]
fn deleting_account_stops_only_orders() {
    let mut ending = facts();
    ending.meta.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    let mut secret_ending = facts();
    secret(&mut secret_ending, Ok("a".into()), true, true);
    for facts in [ending, secret_ending] {
        let decision = decide(&facts);
        assert_eq!(decision.block, None);
        assert!(decision.no_orders.is_some());
        assert_eq!(decision.effect, None, "two servers still use it");
        let (_, reason, message) = condition(&facts, Type::Ready);
        assert_eq!(reason, Reason::InUse);
        let remedy =
            "Delete these objects (this releases servers, unless deletionPolicy is Retain)";
        assert!(message.contains(remedy), "{message}");
    }
}

/// Only its users delay the deletion of an account: neither its Secret nor any problem does.
#[test]
fn account_deletion_waits_only_for_users() {
    let blocked = |facts: &AccountFacts| {
        let all = decide(facts).conditions;
        let found = all.into_iter().find(|c| c.kind == Type::DeletionBlocked);
        found.map(|c| (c.status, c.reason))
    };
    let mut secret_ending = facts();
    secret(&mut secret_ending, Ok("a".into()), true, true);
    assert_eq!(
        blocked(&secret_ending),
        None,
        "the account itself is not deleted"
    );
    let mut ending = facts();
    ending.meta.deletion_timestamp = Some(Time(Timestamp::MIN));
    let in_use = Some((Some(true), Reason::InUse));
    assert_eq!(blocked(&ending), in_use);
    ending.secret = SecretFact::Missing;
    assert_eq!(blocked(&ending), in_use, "whatever its trouble is");
    assert_eq!(condition(&ending, Type::Ready).1, Reason::ReferenceNotFound);
    let (.., message) = condition(&ending, Type::DeletionBlocked);
    assert!(message.contains("used by 2 objects"), "{message}");
    ending.users = Some(0);
    assert_eq!(blocked(&ending), None);
    ending.users = Some(2);
    write(&mut ending);
    // A process that has just started has not listed all of them.
    ending.users = None;
    assert_eq!(blocked(&ending), in_use);
    ending.users = Some(0);
    let over = Some((Some(false), Reason::InSync));
    assert_eq!(blocked(&ending), over);
    secret(&mut ending, Ok("a".into()), false, true);
    assert_eq!(blocked(&ending), over);
    assert_eq!(condition(&ending, Type::Ready).1, Reason::Progressing);
}

/// A certificate problem neither counts for the key nor hides a problem of the key.
#[test]
fn key_accepted_is_of_the_key_alone() {
    let mut facts = facts();
    with_bundle(&mut facts, BundleFact::NoObject);
    assert_eq!(condition(&facts, Type::KeyAccepted).0, "True");
    facts.secret = SecretFact::Missing;
    let (status, reason, message) = condition(&facts, Type::KeyAccepted);
    assert_eq!((status, reason), ("False", Reason::ReferenceNotFound));
    assert!(message.contains("Secret n/api does not exist"), "{message}");
    facts.bundle = BundleFact::Known;
    assert_eq!(condition(&facts, Type::KeyAccepted).2, AS_READY);
}

#[test]
fn blocked_until_account_shows_known_server() {
    let mut facts = facts();
    facts.status.verified = Some(endpoint("old"));
    facts.status.records.known_servers = vec![known()];
    let decision = decide(&facts);
    assert_eq!(decision.block.unwrap().0, Reason::AccountChanged);
    assert_eq!(decision.verified, None, "the former one stays recorded");
    assert_eq!(decision.known, [known()]);
    assert_eq!(
        condition(&facts, Type::KeyAccepted).1,
        Reason::AccountChanged
    );

    facts.report.as_mut().unwrap().complete_list = None;
    assert_eq!(
        decide(&facts).block.unwrap().0,
        Reason::Pending,
        "not checked yet"
    );
    // Right after a new connection nothing is known.
    facts.report = None;
    assert_eq!(decide(&facts).block.unwrap().0, Reason::Pending);

    facts.report = Some(report_of());
    facts.status.records.known_servers.clear();
    let decision = decide(&facts);
    assert_eq!(decision.block, None, "nothing is on record any more");
    assert_eq!(decision.verified, Some(endpoint("a")));
}

#[test]
fn outage_blocks_only_unverified_connection() {
    let mut facts = facts();
    facts.report.as_mut().unwrap().error = Some((Reason::ProviderUnreachable, "no".into()));
    assert_eq!(decide(&facts).block, None);
    facts.status.verified = Some(endpoint("old"));
    facts.status.records.known_servers = vec![known()];
    facts.report.as_mut().unwrap().complete_list = None;
    assert_eq!(decide(&facts).block.unwrap().0, Reason::ProviderUnreachable);
}

#[test]
fn finalizers_go_on_and_off_in_order() {
    let mut facts = facts();
    facts.meta.finalizers = None;
    facts.meta.annotations = None;
    secret(&mut facts, Ok("a".into()), false, false);
    let step = |facts: &AccountFacts| {
        let decision = decide(facts);
        (decision.effect, decision.has_finalizers)
    };
    assert_eq!(
        step(&facts),
        (Some(AccountEffect::AddAccountFinalizer), Some(false))
    );
    facts.meta = self::facts().meta;
    assert_eq!(
        step(&facts),
        (Some(AccountEffect::AddSecretFinalizer), Some(false))
    );
    secret(&mut facts, Ok("a".into()), false, true);
    assert_eq!(step(&facts), (None, Some(true)));

    facts.users = None;
    assert_eq!(
        step(&facts),
        (None, None),
        "nobody knows: leave it as it is"
    );

    facts.users = Some(0);
    let let_go = AccountEffect::RemoveSecretFinalizer { name: "api".into() };
    assert_eq!(step(&facts), (Some(let_go), Some(false)));
    facts.secret_is_shared = true;
    assert_eq!(step(&facts).0, Some(AccountEffect::RemoveAccountFinalizer));
    facts.secret_is_shared = false;
    secret(&mut facts, Ok("a".into()), true, false);
    assert_eq!(step(&facts).0, Some(AccountEffect::RemoveAccountFinalizer));
    facts.secret = SecretFact::Missing;
    assert_eq!(step(&facts).0, Some(AccountEffect::RemoveAccountFinalizer));
    facts.secret = SecretFact::Unread("no answer".into());
    assert_eq!(step(&facts).0, None, "it might bear the finalizer");
}

#[test]
fn another_secret_takes_the_finalizer_over() {
    let mut facts = facts();
    facts.spec.api_key_secret_ref.name = "new".into();
    secret(&mut facts, Ok("a".into()), false, false);
    let moved = |from: Option<&str>| {
        Some(AccountEffect::MoveSecretFinalizer {
            from: from.map(str::to_owned),
        })
    };
    assert_eq!(decide(&facts).effect, moved(Some("api")));
    assert_eq!(decide(&facts).has_finalizers, Some(false));
    facts.secret_is_shared = true;
    assert_eq!(decide(&facts).effect, moved(None));
    facts.users = Some(0);
    facts.secret_is_shared = false;
    assert_eq!(decide(&facts).effect, moved(Some("api")));
}

#[test]
fn secret_of_other_type_gets_no_finalizer() {
    let mut facts = facts();
    secret(&mut facts, Err(KeyFault::OtherType), false, false);
    let decision = decide(&facts);
    assert_eq!(
        (decision.effect, decision.has_finalizers),
        (None, Some(false))
    );
    assert_eq!(decision.no_orders.unwrap().0, Reason::InvalidKey);
    assert_eq!(decision.block, None, "the last good key goes on releasing");
    facts.connected = false;
    assert_eq!(decide(&facts).block.unwrap().0, Reason::InvalidKey);

    // With a finalizer it could not be recreated, and no other account needs one there either.
    secret(&mut facts, Err(KeyFault::OtherType), true, true);
    for users in [1, 0] {
        for is_shared in [false, true] {
            facts.users = Some(users);
            facts.secret_is_shared = is_shared;
            let decision = decide(&facts);
            assert_eq!(
                (decision.effect, decision.has_finalizers),
                (Some(AccountEffect::ClearWrongSecret), Some(false)),
                "{users} {is_shared}"
            );
        }
    }
}

#[test]
fn deleted_secret_gets_no_finalizer() {
    let mut facts = facts();
    facts.meta.finalizers = None;
    facts.meta.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    assert_eq!(decide(&facts).effect, None);
    let mut facts = self::facts();
    secret(&mut facts, Ok("a".into()), true, false);
    assert_eq!(decide(&facts).effect, None);
}

#[test]
fn orphans_are_counted_named_and_explained() {
    let mut facts = facts();
    let orphan = Arc::new(provider_server(1));
    let many = (1..=30).map(|number| Arc::new(provider_server(number)));
    facts.report.as_mut().unwrap().orphan_scan = OrphanScanResult::Found(many.collect());
    let (status, reason, message) = condition(&facts, Type::OrphansFound);
    assert_eq!((status, reason), ("True", Reason::OrphansFound));
    assert!(message.contains("30 live servers"), "{message}");
    let decision = decide(&facts);
    assert_eq!(decision.servers.as_ref().unwrap().orphans, 30);
    assert_eq!(decision.orphans.unwrap().len(), 20);
    facts.report.as_mut().unwrap().orphan_scan = OrphanScanResult::Found(vec![orphan]);
    let (_, _, message) = condition(&facts, Type::OrphansFound);
    assert!(
        message.contains("or release it at the provider"),
        "{message}"
    );
    facts.report.as_mut().unwrap().orphan_scan = OrphanScanResult::NotChecked;
    assert_eq!(condition(&facts, Type::OrphansFound).0, "Unknown");
}

#[test]
fn clean_orphan_scan_names_retained_servers() {
    let mut facts = facts();
    let mut retained = provider_server(7);
    retained.tags.push(api::names::RETAINED_TAG.into());
    let list = CompleteList {
        began: Duration::from_secs(90),
        ended: Duration::from_secs(91),
        servers: vec![Arc::new(provider_server(1)), Arc::new(retained)],
    };
    facts.report.as_mut().unwrap().complete_list = Some(Arc::new(list));
    let (status, reason, message) = condition(&facts, Type::OrphansFound);
    assert_eq!((status, reason), ("False", Reason::InSync));
    let ending = format!("an object; 1 server retained and billed: {}", uuid(7));
    assert!(message.ends_with(&ending), "{message}");
}

#[test]
fn counts_keep_time_of_last_complete_list() {
    let mut facts = facts();
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    facts.status = report::next_status(&facts, &decide(&facts), now);
    let counted = facts.status.servers.clone().unwrap();
    assert_eq!((counted.live, counted.retained), (2, 1));
    let ended = now - jiff::SignedDuration::from_secs(1000 - 91);
    assert_eq!(counted.counted_at, Some(Time(ended)));

    // Restarted with a refused key: nothing was ever listed.
    let later = Timestamp::from_second(1_800_003_600).unwrap();
    facts.report = Some(AccountReport {
        key: rejected(),
        complete_list: None,
        orphan_scan: OrphanScanResult::NotChecked,
        counts: CountedServers {
            live: 0,
            retained: 0,
            duplicates: 0,
            others: None,
        },
        ..report_of()
    });
    facts.users = Some(3);
    facts.spec.limits.max_servers = Some(20);
    let next = report::next_status(&facts, &decide(&facts), later);
    let shown = next.servers.unwrap();
    assert_eq!((shown.live, shown.retained), (2, 1));
    assert_eq!(shown.of_limit, "2/20");
    assert_eq!(shown.counted_at, Some(Time(ended)), "of the last listing");

    // The same without a key to connect with.
    facts.report = None;
    secret(&mut facts, Err(KeyFault::Invalid("no".into())), false, true);
    let next = report::next_status(&facts, &decide(&facts), later);
    assert_eq!(next.servers.unwrap().live, 2);
}

#[test]
fn a_quiet_world_writes_no_status() {
    let mut facts = facts();
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    facts.status = report::next_status(&facts, &decide(&facts), now);
    assert!(facts.status.last_orphan_scan_at.is_some());
    // An hour later, after two more orphan scans.
    facts.now += Duration::from_secs(3600);
    let list = CompleteList {
        began: facts.now,
        ended: facts.now,
        servers: vec![],
    };
    facts.report.as_mut().unwrap().complete_list = Some(Arc::new(list));
    let later = Timestamp::from_second(1_800_003_600).unwrap();
    assert_eq!(
        report::next_status(&facts, &decide(&facts), later),
        facts.status
    );

    // Counts alone may wait; the first known server may not.
    facts.report.as_mut().unwrap().counts.live = 7;
    let counted = report::next_status(&facts, &decide(&facts), later);
    assert!(counted != facts.status && report::may_wait(&facts.status, &counted));
    facts.report.as_mut().unwrap().known = vec![known()];
    let first = report::next_status(&facts, &decide(&facts), later);
    assert!(!report::may_wait(&facts.status, &first));
}

#[test]
fn new_leader_keeps_shown_conditions() {
    let shown = || {
        let mut facts = facts();
        write(&mut facts);
        facts.leader_since = facts.now - Duration::from_secs(5);
        facts
    };
    let is_kept = |facts: &AccountFacts| {
        let next = report::next_status(facts, &decide(facts), Timestamp::MIN);
        next.conditions == facts.status.conditions
    };
    type Make<'a> = &'a dyn Fn(&mut AccountFacts);
    let unseen: [(&str, Make); 3] = [
        ("not connected yet", &|f| f.report = None),
        ("not tried yet", &|f| {
            let report = f.report.as_mut().unwrap();
            (report.key, report.complete_list, report.orphan_scan) =
                (KeyState::Untried, None, OrphanScanResult::NotChecked);
        }),
        ("not listed yet", &|f| {
            let report = f.report.as_mut().unwrap();
            (report.complete_list, report.orphan_scan) = (None, OrphanScanResult::NotChecked);
        }),
    ];
    let news: [(&str, Make); 6] = [
        ("after half a minute", &|f| {
            f.leader_since = f.now - Duration::from_secs(30);
        }),
        ("another key", &|f| f.in_force = Some(endpoint("b"))),
        ("another spec", &|f| f.meta.generation = Some(4)),
        ("was not ready", &|f| {
            let ready = f.status.conditions.iter_mut();
            let ready = ready.filter(|c| c.type_ == "Ready");
            ready.for_each(|c| c.status = "False".into());
        }),
        ("fails", &|f| {
            let report = f.report.get_or_insert_with(report_of);
            report.error = Some((Reason::ProviderUnreachable, "no; look".into()));
        }),
        ("no Secret", &|f| f.secret = SecretFact::Missing),
    ];
    for (what, make) in unseen {
        let mut facts = shown();
        make(&mut facts);
        assert!(is_kept(&facts), "{what}");
        for (why, change) in news {
            let mut facts = facts.clone();
            change(&mut facts);
            assert!(!is_kept(&facts), "{what}, {why}");
        }
    }
}

/// What tools and users read for each reason of an account, in the order of the page.
pub(crate) fn readings() -> Vec<StatusReading> {
    let missing = |f: &mut AccountFacts| f.secret = SecretFact::Missing;
    let error = |f: &mut AccountFacts, reason| {
        f.report.as_mut().unwrap().error = Some((
            reason,
            "No answer; retrying at growing intervals of at most 1m".into(),
        ));
    };
    let deleted = || Some(Time(Timestamp::MIN));
    type Make<'a> = &'a dyn Fn(&mut AccountFacts);
    let cases: [(&str, Make); 16] = [
        ("in use", &|_| {}),
        ("in use", &|f| f.spec.suspend = true),
        ("in use", &|f| f.report = None),
        ("in use", &missing),
        ("in use, for two minutes", &|f| {
            missing(f);
            f.grace
                .record_awaited(Some(Reason::ReferenceNotFound), f.now - REFERENCE_GRACE);
        }),
        ("in use", &|f| with_bundle(f, BundleFact::NoObject)),
        ("in use, for two minutes", &|f| {
            with_bundle(f, BundleFact::NoObject);
            f.grace
                .record_awaited(Some(Reason::ReferenceNotFound), f.now - REFERENCE_GRACE);
        }),
        ("in use", &|f| {
            secret(f, Err(KeyFault::Invalid("no".into())), false, true);
        }),
        ("in use", &|f| {
            f.endpoint = Err("spec.baseURL is no URL; correct it".into())
        }),
        ("in use", &|f| f.report.as_mut().unwrap().key = rejected()),
        ("in use", &|f| {
            f.status.verified = Some(endpoint("old"));
            f.status.records.known_servers = vec![known()];
        }),
        ("in use", &|f| error(f, Reason::ProviderUnreachable)),
        ("in use", &|f| error(f, Reason::RateLimited)),
        ("in use, with a lost machine", &|f| {
            f.report.as_mut().unwrap().orphan_scan =
                OrphanScanResult::Found(vec![Arc::new(provider_server(3))]);
        }),
        ("being deleted", &|f| f.meta.deletion_timestamp = deleted()),
        ("being deleted", &|f| {
            f.meta.deletion_timestamp = deleted();
            missing(f);
        }),
    ];
    let read = |(stage, make): (&'static str, Make)| {
        let mut facts = facts();
        make(&mut facts);
        StatusReading::new(stage, &decide(&facts).conditions, facts.is_deleting())
    };
    cases.into_iter().map(read).collect()
}

#[test]
fn status_follows_timing_in_force() {
    let mut facts = facts();
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    facts.spec.timing = serde_json::from_value(json!({"orderTimeout": "90s"})).unwrap();
    facts.timing = facts.spec.timing.in_force(Minimum::Kept);
    facts.status = report::next_status(&facts, &decide(&facts), now);
    assert_eq!(
        serde_json::to_value(&facts.status).unwrap()["timing"],
        json!({
            "absenceGracePeriod": "10m", "absenceCheckInterval": "1m", "activePollInterval": "30s",
            "idlePollInterval": "5m", "orphanScanInterval": "30m", "orderTimeout": "1m30s",
        })
    );
    // The written status reads back the same, so it is not written again.
    let text = serde_json::to_string(&facts.status).unwrap();
    facts.status = serde_json::from_str(&text).unwrap();
    assert_eq!(
        report::next_status(&facts, &decide(&facts), now),
        facts.status
    );

    facts.spec.timing = serde_json::from_value(json!({"activePollInterval": "1s"})).unwrap();
    facts.timing = facts.spec.timing.in_force(Minimum::Kept);
    let next = report::next_status(&facts, &decide(&facts), now);
    assert_eq!(next.timing.unwrap().active_poll_interval.to_string(), "5s");
    assert!(!report::may_wait(&facts.status, &next));
}
