//! Properties of every decision, for arbitrary facts.

use super::*;
use crate::{
    account::{ownership_tags, view::AccountState},
    readings::words,
    resolved_account::suspend_view,
    server::{
        memory::{ReleaseAnswer, SentRelease, ServerObservation},
        tag_changes::{TagChange, TagEnd},
    },
};
use api::{
    ExternalReleasePolicy, FailurePolicy, ManagementPolicy,
    names::{CLUSTER_TAG, ORDER_TAG, RESERVED_PREFIX},
    server::TagPolicy,
};
use proptest::{collection::vec, option, prelude::*};

fn ended() -> impl Strategy<Value = (Option<OrderOutcome>, Option<u8>)> {
    prop_oneof![
        2 => Just((None, None)),
        3 => (1u8..5).prop_map(|n| (Some(OrderOutcome::Created), Some(n))),
        1 => (1u8..5).prop_map(|n| (Some(OrderOutcome::Adopting), Some(n))),
        1 => Just((Some(OrderOutcome::Refused), None)),
        1 => Just((Some(OrderOutcome::NotSent), None)),
        1 => Just((Some(OrderOutcome::Absent), None)),
    ]
}

fn word() -> impl Strategy<Value = ServerStatus> {
    prop_oneof![
        1 => Just(ServerStatus::Created),
        1 => Just(ServerStatus::Provisioning),
        3 => Just(ServerStatus::Delivered),
        1 => Just(ServerStatus::Failed),
        1 => Just(ServerStatus::Releasing),
        1 => Just(ServerStatus::Released),
        1 => Just(ServerStatus::parse("polishing")),
    ]
}

fn record() -> impl Strategy<Value = OrderRecord> {
    let uid = prop_oneof![5 => Just("uid-1"), 1 => Just("uid-0")];
    let account = prop_oneof![5 => Just(ACCOUNT_ID), 1 => Just("33333333cccc")];
    let counts = (0..3u8, 0..6u8, 0..40i32, any::<bool>());
    let when = (-50i64..50, option::of(-2000i64..2000));
    (uid, account, ended(), counts, when).prop_map(
        |(
            uid,
            account,
            (outcome, server),
            (lost, cut, failures, answer_lost),
            (later, settled),
        )| {
            OrderRecord {
                uid: uid.into(),
                account_id: account.into(),
                seq: seq(EPOCH + later),
                outcome_at: settled.filter(|_| outcome.is_some()).map(|s| START + s),
                answer_lost,
                lost,
                cut,
                failures,
                ..order_record(outcome, server)
            }
        },
    )
}

fn policies() -> impl Strategy<Value = Policies> {
    let policy = prop_oneof![Just(DeletionPolicy::Release), Just(DeletionPolicy::Retain)];
    let flag = || option::of(any::<bool>());
    let delay = option::of((0u64..3000).prop_map(Interval::seconds));
    let management = prop_oneof![
        3 => Just(ManagementPolicy::Full),
        1 => Just(ManagementPolicy::ObserveOnly)
    ];
    let management = option::of(management);
    let own = (management, option::of(policy), flag(), flag(), delay);
    (own, any::<[bool; 2]>()).prop_map(|(own, [replaces, reorders])| {
        let (management_policy, deletion_policy, deletion_protection, suspend, release_delay) = own;
        Policies {
            management_policy,
            deletion_policy,
            deletion_protection,
            suspend,
            release_delay,
            failure_policy: replaces.then_some(FailurePolicy::Replace),
            external_release_policy: reorders.then_some(ExternalReleasePolicy::Reorder),
        }
    })
}

fn arbitrary_server() -> impl Strategy<Value = Server> {
    let tags = (any::<[bool; 3]>(), option::weighted(0.2, 0..3usize));
    (1u8..5, word(), tags, any::<bool>()).prop_map(|(number, status, tags, address)| {
        let ([cluster_tag, own, kept], other) = tags;
        let others = [
            previous_tag(),
            other_tag(),
            "fmo-cluster:fedcba9876543210".into(),
        ];
        let tags = [
            cluster_tag.then(|| cluster().tag()),
            own.then(own_tag),
            kept.then(|| RETAINED_TAG.to_owned()),
            other.map(|n| others[n].clone()),
        ];
        let tags: Vec<&str> = tags.iter().flatten().map(String::as_str).collect();
        let mut server = server(number, status, &tags);
        if !address {
            server.addresses.clear();
        }
        server
    })
}

/// Tags of users, and some that are reserved for the operator.
fn tags() -> impl Strategy<Value = Vec<String>> {
    let tag = prop_oneof![
        6 => "[a-d]".prop_map(String::from),
        1 => Just(RETAINED_TAG.to_owned()),
        1 => Just(cluster().tag()),
        1 => Just(own_tag()),
        1 => Just("fmo-x".to_owned()),
    ];
    vec(tag, 0..4)
}

/// Tags in the spec, in status and on the server, and earlier tag changes.
fn tagged(case: Case) -> impl Strategy<Value = Case> {
    let policy = prop_oneof![Just(TagPolicy::Additive), Just(TagPolicy::Exact)];
    let changes = vec(("[a-d]", any::<bool>(), 0u64..1000), 0..8);
    (tags(), tags(), tags(), option::of(policy), changes).prop_map(
        move |(named, put, shown, policy, changes)| {
            case.clone()
                .spec(|s| {
                    s.tags = named;
                    s.tag_policy = policy;
                })
                .object(|o| {
                    if let Some(status) = &mut o.status {
                        status.records.tags = put;
                    }
                })
                .facts(|f| {
                    for seen in &mut f.own {
                        let server = Arc::make_mut(&mut seen.server);
                        let more = shown.iter().filter(|t| !t.starts_with(RESERVED_PREFIX));
                        server.tags.extend(more.cloned());
                    }
                })
                .memory(|m| {
                    for (tag, adds, at) in changes {
                        let end = TagEnd::Made;
                        let change = TagChange {
                            uuid: uuid(1),
                            tag,
                            adds,
                            end,
                        };
                        m.tags.record_change(&change, secs(at));
                    }
                })
        },
    )
}

fn moments() -> impl Strategy<Value = Vec<u64>> {
    vec(0u64..1000, 0..4).prop_map(|mut all| {
        all.sort_unstable();
        all
    })
}

/// How this process first saw the object.
#[derive(Clone, Debug)]
enum ObjectOrigin {
    Born(u64),
    Met(u64),
    Answered(u64),
}

fn object_origin() -> impl Strategy<Value = ObjectOrigin> {
    prop_oneof![
        (0u64..1000).prop_map(ObjectOrigin::Born),
        (0u64..1000).prop_map(ObjectOrigin::Met),
        (10u64..1000).prop_map(ObjectOrigin::Answered),
    ]
}

/// What else this process remembers.
#[derive(Clone, Debug)]
struct Remembered {
    absent: Vec<u64>,
    missing: Vec<u64>,
    claimed: Option<u64>,
    sent: Vec<(ReleaseAnswer, u64, bool)>,
}

impl Remembered {
    fn apply_to_memory(self, memory: &mut ServerMemory) {
        self.absent
            .iter()
            .for_each(|at| memory.protocol.record_absence(secs(*at)));
        self.missing
            .iter()
            .for_each(|at| memory.protocol.read_missing(secs(*at)));
        if let Some(at) = self.claimed {
            memory
                .protocol
                .record_claim(protocol_facts::server_id(&uuid(1)), secs(at));
        }
        for (answer, at, failed) in self.sent {
            let (uuid, at) = (uuid(1), secs(at));
            memory.record_observation(
                ServerObservation::Released(SentRelease {
                    uuid,
                    failed,
                    answer,
                    at,
                }),
                at,
            );
        }
    }
}

fn remembered() -> impl Strategy<Value = Remembered> {
    let answer = prop_oneof![
        Just(ReleaseAnswer::Accepted),
        Just(ReleaseAnswer::Refused),
        Just(super::release::unanswered()),
    ];
    let sent = vec((answer, 0u64..1000, any::<bool>()), 0..3);
    (moments(), moments(), option::of(0u64..1000), sent).prop_map(
        |(absent, missing, claimed, sent)| Remembered {
            absent,
            missing,
            claimed,
            sent,
        },
    )
}

fn status() -> impl Strategy<Value = BareMetalServerStatus> {
    let in_force = option::of(policies());
    (option::of(record()), option::of(1u8..5), in_force).prop_map(|(order, server, policies)| {
        BareMetalServerStatus {
            records: ServerRecords {
                order,
                ..Default::default()
            },
            uuid: server.map(uuid),
            policies: policies.map(|p| p.over(PoliciesInForce::default())),
            ..Default::default()
        }
    })
}

/// Arbitrary facts. They are consistent only where observe guarantees it: each server is in the field that fits its
/// tags and the record.
fn facts() -> impl Strategy<Value = Case> {
    untagged().prop_flat_map(tagged)
}

fn untagged() -> impl Strategy<Value = Case> {
    let object = (
        any::<[bool; 2]>(),
        policies(),
        option::of(1u8..5),
        option::of(status()),
        option::weighted(0.2, Just(())),
    );
    let provider = (
        vec(arbitrary_server(), 0..5),
        option::weighted(0.2, 1u8..5),
        any::<[bool; 3]>(),
    );
    let defaults = option::of(policies());
    let stopped = prop_oneof![7 => Just(false), 1 => Just(true)];
    let account = (0..10u8, any::<[bool; 3]>(), 0u64..1000, defaults, stopped);
    let process = (object_origin(), remembered());
    (object, provider, account, process).prop_map(|(object, provider, account, process)| {
        let ([deleting, held], own_policies, begun, status, ack) = object;
        let (mut shown, named, [recorded, owned, handed]) = provider;
        let (state, [listed, known, catalogue], began, defaults, stopped) = account;
        shown.sort_by(|a, b| a.id.cmp(&b.id));
        shown.dedup_by(|a, b| a.id == b.id);
        let mut case = Case::new();
        if deleting {
            case = case.deleting();
        }
        if !held {
            case = case.loose();
        }
        case = case.object(|o| o.status = status);
        if let Some(number) = begun {
            case = case.begun(number);
        }
        case = match process.0 {
            ObjectOrigin::Born(at) if case.0.order().is_none() => case.born(at),
            ObjectOrigin::Answered(at) if case.0.order().is_some() => case.answered_at(at),
            ObjectOrigin::Met(at) | ObjectOrigin::Born(at) | ObjectOrigin::Answered(at) => {
                case.met(at)
            }
        };
        let case = case.memory(|m| process.1.apply_to_memory(m));
        let case = case
            .spec(|s| {
                s.suspend = own_policies.suspend;
                s.deletion_protection = own_policies.deletion_protection;
                s.deletion_policy = own_policies.deletion_policy;
                s.management_policy = own_policies.management_policy;
                s.failure_policy = own_policies.failure_policy;
                s.external_release_policy = own_policies.external_release_policy;
            })
            .listed(began)
            .view(|v| {
                // An account that may be called was read.
                v.defaults = defaults.or((state != 0).then(Policies::default));
                if state == 0 {
                    v.state = AccountState::Blocked(
                        Reason::KeyRejected,
                        "No; put a valid key there".into(),
                    );
                }
                if !listed {
                    (v.complete_list, v.servers) = (None, None);
                }
                if !known {
                    v.known.clear();
                }
                if !catalogue {
                    v.catalogue = None;
                }
                if stopped {
                    suspend_view(
                        v,
                        Some("The account is stopped; ask for the end of it".into()),
                    );
                }
            })
            .facts(|f| {
                if state == 1 {
                    f.account = unsaid("default");
                }
                let has = |s: &Server, tag: &str| s.has_tag(tag);
                let on_record = f.order().and_then(|order| order.server.clone());
                let is_recorded = |s: &&Server| Some(s.id.as_str()) == on_record.as_deref();
                f.recorded = shown.iter().find(is_recorded).cloned().map(seen);
                let seen = |is: &dyn Fn(&Server) -> bool| -> Vec<SeenServer> {
                    shown.iter().filter(|s| is(s)).cloned().map(seen).collect()
                };
                f.own = seen(&|s| has(s, &own_tag()));
                f.previous =
                    seen(&|s| s.status.is_live() && has(s, &previous_tag()) && !has(s, &own_tag()));
                f.suspects = seen(&|s| crate::server::refresh::is_suspect(s, "web", 0));
                let ids = |all: &[Server]| all.iter().map(|s| s.id.clone()).take(1).collect();
                if recorded && owned {
                    f.recorded_elsewhere = ids(&shown);
                }
                f.owned_elsewhere = if owned { ids(&shown) } else { Vec::new() };
                f.is_handed_over = handed;
            });
        let case = match named {
            Some(number) => {
                let is_it = |s: &&Server| s.id.as_str() == uuid(number);
                case.named(number, shown.iter().find(is_it).cloned())
            }
            None => case,
        };
        // A user acknowledges everything that is asked for.
        ack.iter().fold(case, |case, ()| {
            let asked = case.written();
            let pending = asked.0.status().pending_acknowledgements.into_iter();
            let tokens: Vec<String> = pending.map(|asked| asked.token).collect();
            asked.giving(&tokens.join(","))
        })
    })
}

/// Whether a user gives an acknowledgement for this effect that status shows.
fn is_given(facts: &ServerFacts, effect: AcknowledgementEffect) -> bool {
    let given = facts.acknowledgements();
    let tokens = given.annotation.unwrap_or_default();
    let mut pending = given.pending.iter();
    pending.any(|asked| asked.effect == effect && tokens.contains(&asked.token))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// The same facts give the same decision, and no decision panics.
    #[test]
    fn decisions_are_functions(case in facts()) {
        let (a, b) = (case.decide(), case.decide());
        prop_assert_eq!(&a.desired, &b.desired);
        prop_assert_eq!(&a.effect, &b.effect);
        prop_assert_eq!(a.requeue, b.requeue);
        prop_assert_eq!((a.wants_complete_list, a.wants_catalogue), (b.wants_complete_list, b.wants_catalogue));
        prop_assert_eq!(a.wants_servers, b.wants_servers);
    }

    /// An order is sent only if all its conditions hold.
    #[test]
    fn an_order_needs_all_of_its_conditions(case in facts()) {
        if let Some(ServerEffect::Order(plan)) = case.decide().effect {
            let facts = &case.0;
            let view = facts.view().unwrap();
            let is_live = |s: &SeenServer| s.server.status.is_live();
            prop_assert!(!facts.own.iter().any(is_live), "one of its own is live");
            prop_assert!(
                facts.previous.is_empty() || is_given(facts, OrderAnother),
                "one of an earlier namespace is live, and no token stands for it"
            );
            prop_assert!(!facts.deleting() && facts.policies().may_send());
            prop_assert_eq!(&view.state, &AccountState::Usable);
            prop_assert!(view.servers.is_some() && view.catalogue.is_some());
            prop_assert!(facts.object.spec.external_id.is_none());
            let order = facts.order();
            prop_assert!(order.is_none_or(|order| plan.after >= order.seq));
            let outcome = order.map(|order| order.outcome);
            let is_open = matches!(outcome, Some(None | Some(OrderOutcome::Adopting)));
            prop_assert!(!is_open, "{outcome:?}");
        }
    }

    /// Only a deletion or a replacement releases a server, and no live server is left without its finalizer.
    #[test]
    fn a_release_needs_a_deleted_object(case in facts()) {
        let facts = &case.0;
        let recorded = facts.order().and_then(OrderRecord::created);
        let shown = facts.recorded.as_ref().map(|s| &*s.server);
        let effect = case.decide().effect;
        if let Some(ServerEffect::Release { uuid } | ServerEffect::Retain { uuid }) = &effect {
            prop_assert_eq!(recorded, Some(uuid.as_str()));
            let owner = facts.owner().unwrap();
            prop_assert!(protocol_facts::to_protocol_server(facts, &owner, shown.unwrap()).is_sole());
        }
        // No policy of the account is guessed.
        let policies = facts.known_policies();
        match effect {
            Some(ServerEffect::Release { uuid }) if crate::server::decide::precondition::is_release_begun(facts, &uuid) => {}
            Some(ServerEffect::Release { .. }) if facts.deleting() => {
                let policies = policies.unwrap();
                prop_assert!(policies.allow_release() && !facts.is_handed_over, "{policies:?}");
            }
            Some(ServerEffect::Release { .. }) => {
                let policies = policies.unwrap();
                prop_assert_eq!(policies.failure_policy, FailurePolicy::Replace);
                prop_assert_eq!(&shown.unwrap().status, &ServerStatus::Failed);
            }
            Some(ServerEffect::Retain { .. }) => {
                prop_assert!(facts.deleting());
                prop_assert!(policies.unwrap().retain() || facts.is_handed_over);
            }
            Some(ServerEffect::RemoveFinalizer) => {
                prop_assert!(facts.deleting());
                // Duplicates are reported, and not released.
                let own = facts.own.iter().map(|s| &*s.server).filter(|s| s.status.is_live());
                let oldest = own.min_by_key(|s| (s.created_at, s.id.clone()));
                let left = match recorded {
                    Some(_) => shown.filter(|_| facts.memory.protocol.missing().is_none()),
                    None => oldest,
                };
                let is_left = |s: &Server| s.status.is_live() && !ownership_tags::is_retained(s);
                prop_assert!(!left.is_some_and(is_left), "{left:?}");
            }
            _ => {}
        }
    }

    /// Tags in the spec never change the operator's own tags, which it adds and removes for its own reasons.
    #[test]
    fn no_spec_touches_the_operators_own_tags(case in facts()) {
        let facts = &case.0;
        let plain = case.clone().spec(|s| {
            s.tags.clear();
            s.tag_policy = None;
        });
        let plain = plain.object(|o| {
            if let Some(status) = &mut o.status {
                status.records.tags.clear();
            }
        });
        let plain = plain.memory(|m| m.tags = Default::default());
        let (effect, without) = (case.decide().effect, plain.decide().effect);
        let is_reserved = |effect: &Option<ServerEffect>| match effect {
            Some(ServerEffect::AddTag { tag, .. } | ServerEffect::RemoveTag { tag, .. }) => {
                tag.starts_with(RESERVED_PREFIX)
            }
            _ => false,
        };
        if is_reserved(&effect) || is_reserved(&without) {
            prop_assert_eq!(&effect, &without, "it is as without any wish");
        }
        match &effect {
            _ if is_reserved(&effect) => {}
            Some(ServerEffect::AddTag { uuid, tag, .. }) => {
                prop_assert!(facts.object.spec.tags.contains(tag));
                prop_assert!(!facts.deleting() && !facts.policies().suspend);
                prop_assert!(facts.own.iter().any(|s| s.server.id.as_str() == uuid));
            }
            Some(ServerEffect::RemoveTag { uuid, tag, .. }) => {
                prop_assert!(!facts.object.spec.tags.contains(tag));
                prop_assert!(!facts.deleting() && !facts.policies().suspend);
                let own = facts.own.iter().find(|s| s.server.id.as_str() == uuid);
                prop_assert!(own.is_some_and(|s| s.server.has_tag(tag)));
            }
            _ => {}
        }
        if let Some(ServerEffect::RemoveTag { tag, .. }) = &effect {
            prop_assert!(!tag.starts_with(CLUSTER_TAG), "{tag}");
            prop_assert!(!tag.starts_with(ORDER_TAG) || *tag != own_tag(), "{tag}");
        }
    }

    /// A blocked account changes nothing at the provider.
    #[test]
    fn a_blocked_account_is_left_alone(case in facts()) {
        let case = case.blocked(Reason::KeyRejected);
        let effect = case.decide().effect;
        let is_over = case.0.deleting() && effect == Some(ServerEffect::RemoveFinalizer);
        prop_assert!(is_over || matches!(effect, None | Some(ServerEffect::AddFinalizer)), "{effect:?}");
    }

    /// The conditions agree with each other, and Ready means usable.
    #[test]
    fn conditions_agree_with_each_other(case in facts()) {
        let desired = case.decide().desired;
        let on = |kind| desired.condition(kind).map(|c| c.status == Some(true));
        if on(Type::Ready) == Some(true) {
            prop_assert_eq!(desired.status.provider_status.as_deref(), Some("delivered"));
            prop_assert!(!desired.status.addresses.is_empty());
            prop_assert_eq!((on(Type::Reconciling), on(Type::Stalled)), (Some(false), Some(false)));
        }
        if on(Type::Ready) == Some(false) {
            // A suspended object keeps its conditions.
            let is_kept = on(Type::Suspended) == Some(true) && !case.0.deleting();
            prop_assert!(is_kept || on(Type::Reconciling) != on(Type::Stalled));
            prop_assert_ne!(on(Type::Reconciling).zip(on(Type::Stalled)), Some((true, true)));
        }
        // A stalled object says what to do.
        if on(Type::Stalled) == Some(true) {
            prop_assert!(!desired.condition(Type::Ready).unwrap().message.is_empty());
        }
        // Random facts may contain an empty reason; decided messages are for users.
        for condition in &desired.conditions {
            // These two known messages are no sentences.
            let message = &condition.message;
            if message.ends_with("no server for it, ") || message == "the release has begun" {
                continue;
            }
            let complaints = words::complaints(condition);
            prop_assert!(complaints.is_empty(), "{complaints:?}: {condition:?}");
        }
        // An event would cut off a longer message, and a command in it.
        prop_assert!(desired.condition(Type::Ready).is_none_or(|c| c.message.len() < 800));
    }

    /// Without an effect, the reconcile after the status update reports nothing new.
    #[test]
    fn a_reported_decision_is_quiet(case in facts()) {
        let decision = case.decide();
        let now = Timestamp::from_second(case.0.now.wall).unwrap();
        let written = decision.desired.finish(now);
        // A new record, or a newly shown server, leads to a next step.
        let before = case.0.status();
        let is_same = written.records.order == before.records.order && written.uuid == before.uuid;
        let again = case.object(|o| o.status = Some(written.clone())).decide();
        let is_idle = |d: &ServerDecision| d.effect.is_none() && d.requeue != Requeue::Now;
        if is_same && is_idle(&decision) && is_idle(&again) {
            prop_assert_eq!(again.desired.finish(now), written);
        }
    }
}
