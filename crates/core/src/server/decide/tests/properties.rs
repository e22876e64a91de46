//! What holds of every decision, whatever the facts.

use super::*;
use crate::account_facts::stop;
use crate::{
    account::view::State,
    readings::words,
    server::{
        memory::{Missing, Obstacle, Release, ReleaseAnswer, Sent},
        tag_changes::{TagChange, TagEnd},
    },
};
use api::{
    ExternalReleasePolicy, FailurePolicy, ManagementPolicy,
    names::{CLUSTER_TAG, ORDER_TAG, RESERVED_PREFIX},
    server::TagPolicy,
};
use proptest::{collection::vec, option, prelude::*};

fn outcome() -> impl Strategy<Value = OrderOutcome> {
    prop_oneof![
        Just(OrderOutcome::Created),
        Just(OrderOutcome::Refused),
        Just(OrderOutcome::NotSent),
        Just(OrderOutcome::Absent),
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

fn intent() -> impl Strategy<Value = Intent> {
    let whose = prop_oneof![3 => Just(("web", "uid-1")), 1 => Just(("web", "uid-0")), 1 => Just(("db", "uid-9"))];
    (whose, any::<bool>(), -50i64..50, 0..3i32).prop_map(
        |((name, uid), foreign, later, unknown)| {
            let mut intent = intent_of(name, uid);
            intent.epoch += later;
            intent.unknown_before = unknown;
            if foreign && uid == "uid-9" {
                intent.cluster = "f".repeat(16);
            }
            intent
        },
    )
}

fn record() -> impl Strategy<Value = OrderRecord> {
    (
        intent(),
        option::of(outcome()),
        0..40i32,
        option::of(-2000i64..2000),
    )
        .prop_map(|(intent, outcome, failures, settled)| OrderRecord {
            outcome,
            outcome_at: settled.map(|s| START + s),
            failures,
            ..OrderRecord::open(intent)
        })
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

fn machine() -> impl Strategy<Value = Server> {
    (1u8..5, word(), any::<[bool; 4]>()).prop_map(
        |(number, status, [cluster_tag, own, kept, address])| {
            let mut tags = Vec::new();
            if cluster_tag {
                tags.push(cluster().tag());
            }
            if own {
                tags.push(own_tag());
            }
            if kept {
                tags.push(RETAINED_PREFIX.to_owned());
            }
            let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
            let mut server = server(number, status, &tags);
            if !address {
                server.addresses.clear();
            }
            server
        },
    )
}

/// Tags of people, and some that only the operator may touch.
fn tags() -> impl Strategy<Value = Vec<String>> {
    let tag = prop_oneof![
        6 => "[a-d]".prop_map(String::from),
        1 => Just(RETAINED_PREFIX.to_owned()),
        1 => Just(cluster().tag()),
        1 => Just(own_tag()),
        1 => Just("fmo-x".to_owned()),
    ];
    vec(tag, 0..4)
}

/// What a spec says of tags, what a status does, what a machine bears, and what was changed.
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
                    for sighting in &mut f.own {
                        let server = Arc::make_mut(&mut sighting.server);
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
                        m.tags.note(&change, secs(at));
                    }
                })
        },
    )
}

fn moments() -> impl Strategy<Value = Vec<Duration>> {
    vec((0u64..1000).prop_map(secs), 0..4)
}

fn memory() -> impl Strategy<Value = Memory> {
    let obstacle = prop_oneof![
        Just(Obstacle::NoControl),
        Just(Obstacle::TagExists),
        Just(Obstacle::Unmarked("x".into())),
    ];
    let answer = prop_oneof![
        Just(ReleaseAnswer::Accepted),
        Just(ReleaseAnswer::Refused),
        Just(ReleaseAnswer::Unknown),
    ];
    (
        option::of(record()),
        option::of((0u64..1000, moments(), option::of(obstacle))),
        (moments(), moments()),
        (option::of((answer, (0u64..1000).prop_map(secs))), moments()),
    )
        .prop_map(
            |(order, search, (reads, listings), (answer, failed_reads))| {
                let mut memory = Memory {
                    order,
                    missing: Missing { reads, listings },
                    release: Release {
                        sent: answer.map(|(answer, at)| Sent {
                            uuid: uuid(1),
                            failed: false,
                            answer,
                            at,
                        }),
                        failed_reads,
                    },
                    ..Default::default()
                };
                if let Some((first, samples, obstacle)) = search {
                    memory.search_for("nonce", secs(first));
                    let search = memory.search.as_mut().unwrap();
                    search.looked = samples.last().copied();
                    search.samples = samples;
                    search.obstacle = obstacle;
                }
                memory
            },
        )
}

fn status() -> impl Strategy<Value = BareMetalServerStatus> {
    let in_force = option::of(policies());
    (option::of(record()), option::of(1u8..5), in_force).prop_map(|(order, machine, policies)| {
        BareMetalServerStatus {
            records: ServerRecords {
                order,
                ..Default::default()
            },
            uuid: machine.map(uuid),
            policies: policies.map(|p| p.over(PoliciesInForce::default())),
            ..Default::default()
        }
    })
}

fn note() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        2 => Just(None),
        4 => intent().prop_map(|i| Some(serde_json::to_string(&i).unwrap())),
        1 => "[{}a-z\":]{0,12}".prop_map(Some),
    ]
}

/// Facts as they may come, consistent only in what observe guarantees: own machines bear the mark.
fn facts() -> impl Strategy<Value = Case> {
    untagged().prop_flat_map(tagged)
}

fn untagged() -> impl Strategy<Value = Case> {
    let object = (
        any::<[bool; 3]>(),
        policies(),
        note(),
        option::of(1u8..5),
        option::of(status()),
        option::weighted(0.2, Just(())),
    );
    let kept = prop_oneof![4 => Just(Vec::new()), 1 => vec(1u8..5, 1..3)];
    let unlisted = option::weighted(0.1, Just(other_account()));
    let provider = (
        (kept, unlisted),
        vec(machine(), 0..3),
        option::of(machine()),
        vec(machine(), 0..3),
        option::of(any::<bool>()),
    );
    let defaults = option::of(policies());
    let stopped = prop_oneof![7 => Just(false), 1 => Just(true)];
    let account = (0..10u8, any::<[bool; 4]>(), 0u64..1000, defaults, stopped);
    (object, provider, account, memory()).prop_map(|(object, provider, account, memory)| {
        let ([deleting, held, old], own_policies, note, begun, status, ack) = object;
        let ((kept, unlisted), own, recorded, theirs, claimed) = provider;
        let (state, [proved, known, catalogue, used], began, defaults, stopped) = account;
        let mut case = Case::new().beside(&kept).memory(|m| *m = memory);
        if deleting {
            case = case.deleting();
        }
        if held {
            case = case.held();
        }
        if let Some(note) = note {
            case = case.annotated(ORDER_ANNOTATION, note);
        }
        case = case.object(|o| o.status = status);
        if let Some(number) = begun {
            case = case.begun(number);
        }
        let case = case
            .spec(|s| {
                s.suspend = own_policies.suspend;
                s.deletion_protection = own_policies.deletion_protection;
                s.deletion_policy = own_policies.deletion_policy;
            })
            .view(|v| {
                // An account that may be called was read.
                v.defaults = defaults.or((state != 0).then(Policies::default));
                if state == 0 {
                    v.state =
                        State::Blocked(Reason::KeyRejected, "no; put a valid key there".into());
                }
                v.used_before = used;
                if !proved {
                    v.proof = None;
                } else if let Some(proof) = &mut v.proof {
                    Arc::make_mut(proof).began = secs(began);
                }
                if !known {
                    v.known.clear();
                }
                if !catalogue {
                    v.catalogue = None;
                }
                if stopped {
                    stop(
                        v,
                        Some("the account is stopped; ask for the end of it".into()),
                    );
                }
            })
            .facts(|f| {
                f.unlisted = unlisted.into_iter().collect();
                f.memory
                    .unlisted_seen(!f.unlisted.is_empty(), Duration::ZERO);
                f.is_newcomer = !old;
                if state == 1 {
                    f.account = unsaid("default");
                }
                f.own = own
                    .into_iter()
                    .filter(|s| fence::bears(s, &mark()))
                    .map(seen)
                    .collect();
                f.recorded = recorded.map(seen);
                f.former = Some(Former {
                    claimed,
                    machines: theirs.into_iter().map(seen).collect(),
                });
            });
        // A user gives whatever is asked for.
        ack.iter().fold(case, |case, ()| {
            let asked = case.written();
            let pending = asked.0.status().pending_acknowledgements.into_iter();
            let tokens: Vec<String> = pending.map(|asked| asked.token).collect();
            asked.giving(&tokens.join(","))
        })
    })
}

/// Whether a user gives something of this effect that status shows.
fn is_given(facts: &Facts, effect: AcknowledgementEffect) -> bool {
    let given = facts.acknowledgements();
    let tokens = given.annotation.unwrap_or_default();
    let mut pending = given.pending.iter();
    pending.any(|asked| asked.effect == effect && tokens.contains(&asked.token))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// The same facts give the same decision, and none of them panics.
    #[test]
    fn decisions_are_functions(case in facts()) {
        let (a, b) = (case.decide(), case.decide());
        prop_assert_eq!(&a.draft, &b.draft);
        prop_assert_eq!(&a.effect, &b.effect);
        prop_assert_eq!(a.again, b.again);
        prop_assert_eq!((a.wants_proof, a.wants_catalogue), (b.wants_proof, b.wants_catalogue));
        prop_assert_eq!(a.wants_servers, b.wants_servers);
    }

    /// Money is spent only where everything speaks for it.
    #[test]
    fn an_order_needs_all_of_its_conditions(case in facts()) {
        if let Some(Effect::Order(plan)) = case.decide().effect {
            let facts = &case.0;
            let view = facts.view().unwrap();
            prop_assert!(facts.own.is_empty(), "a machine bears the mark");
            let is_free = facts.retained.is_empty() && facts.unlisted.is_empty();
            prop_assert!(
                is_free || is_given(facts, AcknowledgementEffect::OrderAnother),
                "one is or may be kept, and no token stands for it"
            );
            prop_assert!(!facts.deleting() && !facts.policies().suspend);
            prop_assert_eq!(&view.state, &State::Usable);
            prop_assert!(view.proof.is_some() && view.catalogue.is_some());
            let found = evidence(facts);
            prop_assert!(plan.after_epoch >= found.last_epoch());
            prop_assert_ne!(found.outcome(), Some(OrderOutcome::Created));
            let is_absent = is_given(facts, AcknowledgementEffect::AssumeAbsent);
            prop_assert!(found.open_attempt().is_none() || is_absent);
        }
    }

    /// Nothing is released but for a deleted object, and no live machine of it is left behind.
    #[test]
    fn a_release_needs_a_deleted_object(case in facts()) {
        let facts = &case.0;
        let bears = |uuid: &str| facts.own.iter().any(|s| s.server.id.as_str() == uuid);
        match case.decide().effect {
            Some(Effect::BeginRelease { uuid }) => {
                prop_assert!(facts.deleting() && bears(&uuid));
                // No word of the account is guessed.
                let policies = facts.known_policies().unwrap();
                prop_assert!(policies.allow_release(), "{policies:?}");
            }
            Some(Effect::Release { uuid }) => {
                prop_assert!(facts.deleting() && bears(&uuid));
                prop_assert_eq!(facts.release_begun(), Some(uuid.as_str()));
            }
            Some(Effect::LetGo) => {
                prop_assert!(facts.deleting() && facts.has_finalizer());
                let left = facts.own.iter().find(|s| s.server.status.is_live() && !marks::is_retained(&s.server));
                prop_assert!(left.is_none(), "{left:?}");
            }
            Some(Effect::AddTag { tag, .. }) if tag.starts_with(RETAINED_PREFIX) => prop_assert!(facts.deleting()),
            _ => {}
        }
    }

    /// No wish for tags touches what the operator goes by: its tags are put on and taken off for reasons of its own.
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
        let is_reserved = |effect: &Option<Effect>| match effect {
            Some(Effect::AddTag { tag, .. } | Effect::RemoveTag { tag, .. }) => {
                tag.starts_with(RESERVED_PREFIX)
            }
            _ => false,
        };
        if is_reserved(&effect) || is_reserved(&without) {
            prop_assert_eq!(&effect, &without, "it is as without any wish");
        }
        match &effect {
            _ if is_reserved(&effect) => {}
            Some(Effect::AddTag { uuid, tag, .. }) => {
                prop_assert!(facts.object.spec.tags.contains(tag));
                prop_assert!(!facts.deleting() && !facts.policies().suspend);
                prop_assert!(facts.own.iter().any(|s| s.server.id.as_str() == uuid));
            }
            Some(Effect::RemoveTag { uuid, tag, .. }) => {
                prop_assert!(!facts.object.spec.tags.contains(tag));
                prop_assert!(!facts.deleting() && !facts.policies().suspend);
                let own = facts.own.iter().find(|s| s.server.id.as_str() == uuid);
                prop_assert!(own.is_some_and(|s| s.server.has_tag(tag)));
            }
            _ => {}
        }
        if let Some(Effect::RemoveTag { tag, .. }) = &effect {
            prop_assert!(!tag.starts_with(CLUSTER_TAG), "{tag}");
            prop_assert!(!tag.starts_with(ORDER_TAG) || *tag != own_tag(), "{tag}");
        }
    }

    /// A blocked account changes nothing at the provider.
    #[test]
    fn a_blocked_account_is_left_alone(case in facts()) {
        let case = case.blocked(Reason::KeyRejected);
        let effect = case.decide().effect;
        let harmless = matches!(effect, None | Some(
            Effect::WriteNote(_) | Effect::PutBack(_) | Effect::LetGo | Effect::HoldObject
        ));
        prop_assert!(harmless || case.0.view().is_none(), "{effect:?}");
        // Letting go then rests on a proof from before, never on silence.
        if effect == Some(Effect::LetGo) {
            let over = |s: &Sighting| s.server.status == ServerStatus::Released;
            let closed = evidence(&case.0).outcome().is_some_and(|o| o != OrderOutcome::Created);
            let shown = case.0.own.iter().chain(&case.0.recorded).any(over);
            prop_assert!(shown || closed);
        }
    }

    /// The conditions agree with each other, and Ready means usable.
    #[test]
    fn conditions_are_told_by_their_rules(case in facts()) {
        let draft = case.decide().draft;
        let on = |kind| draft.condition(kind).map(|c| c.status == Some(true));
        if on(Type::Ready) == Some(true) {
            prop_assert_eq!(draft.status.provider_status.as_deref(), Some("delivered"));
            prop_assert!(!draft.status.addresses.is_empty());
            prop_assert_eq!((on(Type::Reconciling), on(Type::Stalled)), (Some(false), Some(false)));
        }
        if on(Type::Ready) == Some(false) {
            // A suspended one keeps what it has.
            let is_kept = on(Type::Suspended) == Some(true) && !case.0.deleting();
            prop_assert!(is_kept || on(Type::Reconciling) != on(Type::Stalled));
            prop_assert_ne!(on(Type::Reconciling).zip(on(Type::Stalled)), Some((true, true)));
        }
        // Whoever needs a person says what to do.
        if on(Type::Stalled) == Some(true) {
            prop_assert!(!draft.condition(Type::Ready).unwrap().message.is_empty());
        }
        // The facts are made up at random, so a reason of theirs may say nothing; what is decided is for people.
        for condition in &draft.conditions {
            let complaints = words::complaints(condition);
            prop_assert!(complaints.is_empty(), "{complaints:?}: {condition:?}");
        }
        // What is longer would be cut off in an event, and a command with it.
        prop_assert!(draft.condition(Type::Ready).is_none_or(|c| c.message.len() < 800));
    }

    /// Without an effect, a pass that was reported finds nothing new to say.
    #[test]
    fn a_reported_decision_is_quiet(case in facts()) {
        let decision = case.decide();
        let now = Timestamp::from_second(case.0.now.wall).unwrap();
        let written = decision.draft.finish(now);
        // What closes an epoch, or puts a lost order back, leads to a next step.
        let same_order = written.records.order == case.0.status().records.order;
        let again = case.object(|o| o.status = Some(written.clone())).decide();
        if same_order && decision.effect.is_none() && again.effect.is_none() {
            prop_assert_eq!(again.draft.finish(now), written);
        }
    }
}
