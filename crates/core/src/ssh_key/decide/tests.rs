//! Tests of the decision, and a builder for its facts.

mod life;
pub(crate) mod readings;

use super::*;
use crate::{
    account::view::AccountTimes,
    cluster_id::ClusterId,
    moment::Moment,
    public_key::PublicKey,
    reconcile::Subject,
    ssh_key::{
        facts::{CallProgress, SeenKey, is_named_by},
        memory::{KeyRefusal, SshKeyMemory, SshKeyObservation, Stored},
    },
};
use api::{
    SshKey,
    names::{OBJECT_FINALIZER, STORED_KEY_ANNOTATION},
    ssh_key::{KeyDeletionPolicy, SshKeySpec},
};
use hosting_types::{SshKeyId, ssh_key::SshKey as Record};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::sync::Arc;

const WALL: i64 = 1_790_000_000;
/// The moment of the decision.
const NOW: u64 = 1000;
/// When the last list began.
const LISTED_AT: u64 = 990;
/// Since when this process is the leader and knows the object.
const SINCE: u64 = 500;
const ACCOUNT_ID: &str = "11111111aaaa";
const SPACING: u64 = 60;

const ONE: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBv2kqKzv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1Z";
const TWO: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICv2kqKzv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1Z";

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn uuid(number: u8) -> String {
    format!("00000000-0000-4000-8000-0000000000{number:02}")
}

fn print(line: &str) -> Fingerprint {
    PublicKey::parse(line.as_bytes()).unwrap().fingerprint()
}

/// Facts under construction. They start with a new object whose key is not stored.
#[derive(Clone)]
struct Case(SshKeyFacts);

impl Case {
    fn new() -> Self {
        let spec = SshKeySpec {
            account_ref: None,
            public_key: ONE.into(),
            deletion_policy: None,
        };
        let mut object = SshKey::new("ops", spec);
        let meta = &mut object.metadata;
        meta.namespace = Some("shop".into());
        meta.uid = Some("uid-1".into());
        meta.generation = Some(3);
        let view = AccountView {
            times: AccountTimes {
                absence_check_interval: secs(SPACING),
                active_poll_interval: secs(15),
                idle_poll_interval: secs(300),
                ..AccountTimes::default()
            },
            ssh_keys: Some((secs(LISTED_AT), Arc::default())),
            account_id: Some(ACCOUNT_ID.into()),
            ..AccountView::usable()
        };
        Self(SshKeyFacts {
            subject: Subject {
                read_only: false,
                now: Moment {
                    wall: WALL,
                    mono: secs(NOW),
                },
                leader_since: secs(SINCE),
                first_seen: secs(SINCE),
                cluster: ClusterId::parse("0123456789abcdef").unwrap(),
                kind_deleting: Some(false),
                account: ResolvedAccount::Found {
                    view,
                    terms: crate::account::terms::Terms::Own,
                },
                memory: Default::default(),
                object: Arc::new(object),
            },
            shown: None,
            is_shared: false,
            store_call: CallProgress::None,
            deletions: Default::default(),
        })
    }

    fn facts(mut self, change: impl FnOnce(&mut SshKeyFacts)) -> Self {
        change(&mut self.0);
        self
    }

    fn object(self, change: impl FnOnce(&mut SshKey)) -> Self {
        self.facts(|f| change(Arc::make_mut(&mut f.subject.object)))
    }

    fn memory(self, change: impl FnOnce(&mut SshKeyMemory)) -> Self {
        self.facts(|f| change(&mut f.subject.memory.own))
    }

    fn view(self, change: impl FnOnce(&mut AccountView)) -> Self {
        self.facts(|f| {
            if let ResolvedAccount::Found { view, .. } = &mut f.subject.account {
                change(view);
            }
        })
    }

    fn blocked(self, reason: Reason) -> Self {
        self.view(|v| {
            v.state = AccountState::Blocked(
                reason,
                "No access; correct it; tried again within 1m".into(),
            )
        })
    }

    fn policy(self, policy: KeyDeletionPolicy) -> Self {
        self.object(|o| o.spec.deletion_policy = Some(policy))
    }

    /// The provider's name of the object's key.
    fn name(&self) -> String {
        self.0.stored_name()
    }

    /// The account lists this key, stored at `at`.
    fn shows(self, number: u8, line: &str, name: &str, at: i64) -> Self {
        let record = Record {
            id: SshKeyId::parse(&uuid(number)).unwrap(),
            name: name.into(),
            public_key: line.into(),
            created_at: Some(at),
        };
        self.view(|v| {
            let (_, keys) = v.ssh_keys.as_mut().unwrap();
            Arc::make_mut(keys).push(record);
        })
    }

    /// The account lists a key that this object stored.
    fn shows_mine(self, number: u8, line: &str, at: i64) -> Self {
        let name = self.name();
        self.shows(number, line, &name, at)
    }

    fn with_finalizer(self) -> Self {
        self.object(|o| o.metadata.finalizers = Some(vec![OBJECT_FINALIZER.into()]))
    }

    fn with_annotation(self, account_id: &str) -> Self {
        let annotation = StoredKeyAnnotation {
            uid: "uid-1".into(),
            account_id: account_id.into(),
        };
        let text = serde_json::to_string(&annotation).unwrap();
        self.object(|o| {
            let annotations = o.metadata.annotations.get_or_insert_default();
            annotations.insert(STORED_KEY_ANNOTATION.into(), text);
        })
    }

    /// The status reports this key as stored and ready.
    fn recorded(self, number: u8, line: &str, created: bool) -> Self {
        let ready = Explanation::ready(Reason::Available, "").conditions();
        self.object(|o| {
            let status = o.status.get_or_insert_default();
            status.uuid = Some(uuid(number));
            status.fingerprint = Some(print(line).to_string());
            status.created_by_object = Some(created);
            status.records.account_id = Some(ACCOUNT_ID.into());
            status.account_ref = Some(api::references::PinnedAccount::from_reference(None));
            status.observed_generation = Some(3);
            let shown = api::conditions::merge(
                &[],
                &ready,
                api::conditions::Generations::same(Some(3)),
                Timestamp::MIN,
            );
            status.conditions = shown;
        })
    }

    /// An idle object that stored its key.
    fn idle() -> Self {
        Self::new()
            .with_finalizer()
            .with_annotation(ACCOUNT_ID)
            .recorded(1, ONE, true)
            .shows_mine(1, ONE, 10)
    }

    fn deleting(self) -> Self {
        self.object(|o| {
            o.metadata.deletion_timestamp = Some(Time(Timestamp::from_second(WALL).unwrap()));
        })
    }

    /// Lists the keys and refreshes the memory, as a reconcile does.
    fn seen(mut self) -> SshKeyFacts {
        see(&mut self.0);
        self.0
    }

    fn decide(self) -> SshKeyDecision {
        decide(&self.seen())
    }

    fn effect(self) -> Option<SshKeyEffect> {
        self.decide().effect
    }
}

fn see(facts: &mut SshKeyFacts) {
    let list = facts.subject.view().and_then(|v| v.ssh_keys.clone());
    let read = |keys: &[Record]| Arc::new(keys.iter().map(SeenKey::from_record).collect());
    facts.shown = list.map(|(at, keys)| (at, read(&keys)));
    facts.refresh_memory();
}

fn reason(decision: &SshKeyDecision) -> Option<Reason> {
    decision
        .explanation
        .as_ref()
        .map(|explanation| explanation.reason)
}

fn message(decision: &SshKeyDecision) -> &str {
    decision
        .explanation
        .as_ref()
        .map_or("", |explanation| &explanation.message)
}

#[test]
fn missing_key_is_annotated_and_stored() {
    let case = Case::new();
    let name = case.name();
    let Some(SshKeyEffect::Store(new)) = case.clone().effect() else {
        panic!("not stored");
    };
    assert_eq!((&new.name, new.line.as_str()), (&name, ONE));
    let annotation = new.annotation.unwrap();
    assert_eq!(
        (annotation.uid.as_str(), annotation.account_id.as_str()),
        ("uid-1", ACCOUNT_ID)
    );
    assert!(is_named_by(&name, &case.0.subject.owner_hash()) && name.len() <= 64);
    assert!(name.starts_with("shop.ops:fmo-key:"), "{name}");
}

#[test]
fn key_is_stored_only_after_a_fresh_list() {
    let waits = |case: Case, from: Duration| {
        let decision = case.decide();
        assert_eq!(
            (&decision.effect, decision.wants),
            (&None, Some((ListKind::SshKeys, from)))
        );
        assert_eq!(
            decision.explanation, None,
            "nothing is said of a new object"
        );
    };
    waits(Case::new().view(|v| v.ssh_keys = None), secs(SINCE));
    waits(
        Case::new().facts(|f| f.subject.leader_since = secs(995)),
        secs(995),
    );
    waits(Case::new().memory(|m| m.changed = secs(999)), secs(999));
    waits(
        Case::new().facts(|f| f.store_call = CallProgress::Ended(secs(990))),
        secs(990) + Duration::from_millis(1),
    );
    waits(
        Case::new().facts(|f| f.subject.first_seen = secs(995)),
        secs(995),
    );
}

#[test]
fn pending_account_is_reported_after_delay() {
    let blocked = || Case::new().blocked(Reason::Pending);
    let early = blocked().facts(|f| f.subject.first_seen = secs(NOW - 3));
    assert_eq!(reason(&early.decide()), None);
    assert_eq!(reason(&blocked().decide()), Some(Reason::Pending));
}

#[test]
fn running_call_backs_off_without_listing() {
    for (since, pause) in [(1000, 1), (999, 1), (980, 20), (100, 60)] {
        let case = Case::new().facts(|f| f.store_call = CallProgress::InFlight(secs(since)));
        let decision = case.decide();
        assert_eq!((&decision.effect, decision.wants), (&None, None));
        assert_eq!(decision.requeue_after, secs(pause));
    }
}

#[test]
fn key_being_deleted_is_not_reported_stored() {
    let shown = Case::new().shows(1, ONE, "another object's", 10);
    let leaves = |case: &Case, posting| {
        let leaving = |f: &mut SshKeyFacts| {
            f.deletions.insert(uuid(1), posting);
        };
        case.clone().facts(leaving).decide()
    };
    for unready in [shown.clone(), shown.clone().recorded(1, ONE, false)] {
        let never_new = |decision: &SshKeyDecision| {
            assert!(!matches!(&decision.explanation, Some(c) if c.reason == Reason::Available));
            assert_eq!(decision.effect, None);
        };
        // The call is in progress, so its outcome is unknown.
        let decision = leaves(&unready, CallProgress::InFlight(secs(999)));
        never_new(&decision);
        assert_eq!(decision.wants, None);
        // The call ended after the list began, so only the next list shows the outcome.
        let decision = leaves(&unready, CallProgress::Ended(secs(LISTED_AT)));
        never_new(&decision);
        let after = secs(LISTED_AT) + Duration::from_millis(1);
        assert_eq!(decision.wants, Some((ListKind::SshKeys, after)));
    }
    assert_eq!(
        leaves(&shown, CallProgress::InFlight(secs(999)))
            .status
            .uuid,
        None
    );
    // A list that began later counts, with or without the key.
    let decision = leaves(&shown, CallProgress::Ended(secs(LISTED_AT - 1)));
    assert_eq!(decision.status.uuid, Some(uuid(1)));
    let unshown = leaves(&Case::new(), CallProgress::Ended(secs(LISTED_AT - 1)));
    assert!(matches!(unshown.effect, Some(SshKeyEffect::Store(_))));
}

#[test]
fn key_is_stored_again_in_another_account() {
    let decision = Case::idle().decide();
    assert_eq!(
        decision.status.records.account_id.as_deref(),
        Some(ACCOUNT_ID)
    );
    let unknown = Case::new()
        .shows(1, ONE, "theirs", 10)
        .view(|v| v.account_id = None);
    assert_eq!(reason(&unknown.decide()), Some(Reason::WaitingForListing));
    // Another, acknowledged account: the key was never sent there, so it is sent at once.
    let moved = Case::new()
        .with_finalizer()
        .with_annotation(ACCOUNT_ID)
        .recorded(1, ONE, true)
        .view(|v| v.account_id = Some("22222222bbbb".into()));
    let Some(SshKeyEffect::Store(new)) = moved.effect() else {
        panic!("not stored");
    };
    assert_eq!(new.annotation.unwrap().account_id, "22222222bbbb");
}

#[test]
fn possibly_sent_key_waits_for_two_lists() {
    let annotated = || Case::new().with_finalizer().with_annotation(ACCOUNT_ID);
    let decision = annotated().decide();
    assert_eq!(decision.effect, None);
    assert_eq!(
        decision.wants,
        Some((ListKind::SshKeys, secs(LISTED_AT + SPACING)))
    );
    assert_eq!(reason(&decision), Some(Reason::OutcomeUnknown));

    let listed_twice = |case: Case| {
        case.memory(|m| {
            m.record_list(false, secs(LISTED_AT - SPACING), secs(SINCE));
        })
    };
    let Some(SshKeyEffect::Store(new)) = listed_twice(annotated()).effect() else {
        panic!("not stored");
    };
    assert_eq!(new.annotation, None, "it stands already");
    // A call of this process ended after the first list.
    let since = listed_twice(annotated()).memory(|m| m.changed = secs(LISTED_AT - 1));
    assert_eq!(since.effect(), None);
    // One list without a ready key changes nothing.
    let missing = Case::new()
        .with_finalizer()
        .with_annotation(ACCOUNT_ID)
        .recorded(1, ONE, true);
    let decision = missing.clone().decide();
    assert_eq!((&decision.effect, &decision.explanation), (&None, &None));
    assert_eq!(decision.status.uuid, Some(uuid(1)));
    assert!(matches!(
        listed_twice(missing).effect(),
        Some(SshKeyEffect::Store(_))
    ));
    // Annotations of another object or another account do not count.
    for case in [
        Case::new().with_finalizer().with_annotation("22222222bbbb"),
        annotated().object(|o| o.metadata.uid = Some("uid-2".into())),
    ] {
        let Some(SshKeyEffect::Store(new)) = case.effect() else {
            panic!("not stored");
        };
        assert!(new.annotation.is_some());
    }
}

#[test]
fn existing_key_is_used_whoever_stored_it() {
    let commented = format!("{ONE} somebody@else");
    let case = Case::new()
        .shows(2, &commented, "theirs", 20)
        .shows(3, ONE, "older", 10)
        .shows(4, TWO, "another", 1);
    let decision = case.clone().decide();
    assert_eq!(decision.effect, None, "no finalizer for what stays anyway");
    let status = &decision.status;
    assert_eq!(status.uuid, Some(uuid(3)), "the oldest");
    assert_eq!(status.created_by_object, Some(false));
    assert_eq!(status.fingerprint, Some(print(ONE).to_string()));
    assert_eq!(reason(&decision), Some(Reason::Available));
    // The recorded key stays in use.
    let recorded = case.recorded(2, ONE, false).decide();
    assert_eq!(recorded.status.uuid, Some(uuid(2)));
}

#[test]
fn stored_key_has_a_finalizer() {
    let stripped = Case::new().recorded(1, ONE, true).shows_mine(1, ONE, 10);
    assert_eq!(stripped.clone().effect(), Some(SshKeyEffect::AddFinalizer));
    let decision = stripped.with_finalizer().decide();
    assert_eq!(decision.effect, None);
    assert_eq!(decision.status.created_by_object, Some(true));
    assert_eq!(
        decision.wants,
        Some((ListKind::SshKeys, secs(1200))),
        "with all others"
    );
}

#[test]
fn duplicate_key_stays_while_object_lives() {
    let twice = Case::idle().shows_mine(2, ONE, 5).decide();
    assert_eq!((twice.effect, twice.requeue_once_written), (None, false));
    assert_eq!(twice.status.uuid, Some(uuid(1)), "the recorded one");
}

#[test]
fn key_changes_after_the_list_count() {
    let stored = |at: u64| {
        let case = Case::new().with_finalizer().with_annotation(ACCOUNT_ID);
        let stored = Stored {
            uuid: uuid(1),
            name: case.name(),
            public_key: ONE.into(),
            created_at: Some(10),
            at: secs(at),
        };
        case.memory(|m| m.record_observation(SshKeyObservation::Stored(stored)))
    };
    // The list is older than the call, so the stored key is added to it.
    let waits = stored(995).decide();
    assert_eq!(waits.status.uuid, Some(uuid(1)));
    assert_eq!(waits.status.created_by_object, Some(true));
    // A list that began after the answer and lacks the key may be late, so two lists decide.
    let late = stored(LISTED_AT - 1).decide();
    assert_eq!((late.status.uuid, late.effect), (None, None));
    let deleted = Case::idle().memory(|m| {
        m.record_observation(SshKeyObservation::Deleted {
            uuid: uuid(1),
            at: secs(995),
        });
    });
    let listed = deleted.seen().listed().unwrap();
    assert_eq!(listed.keys, Vec::new());
}

#[test]
fn an_account_that_does_not_answer_changes_nothing() {
    for reason in [
        Reason::KeyRejected,
        Reason::ProviderUnreachable,
        Reason::AccountChanged,
    ] {
        let decision = Case::idle().blocked(reason).decide();
        assert_eq!(
            (decision.explanation, decision.effect),
            (None, None),
            "{reason}"
        );
        let decision = Case::new().blocked(reason).decide();
        assert_eq!(decision.explanation.unwrap().reason, reason);
    }
    let forbidden = Case::idle().facts(|f| {
        if let ResolvedAccount::Found { terms, .. } = &mut f.subject.account {
            *terms = crate::account::terms::Terms::Refused("no".into());
        }
    });
    assert_eq!(reason(&forbidden.decide()), Some(Reason::NotAllowed));
}

#[test]
fn invalid_or_refused_key_is_not_sent() {
    let private = "-----BEGIN OPENSSH PRIVATE KEY-----".to_owned();
    for (text, word) in [(private, "private key"), (ONE[..60].into(), "cut short")] {
        let decision = Case::new().object(|o| o.spec.public_key = text).decide();
        assert_eq!(
            (reason(&decision), &decision.effect),
            (Some(Reason::InvalidSpec), &None)
        );
        let shown_text = message(&decision);
        assert!(
            shown_text.starts_with("spec.publicKey is ") && shown_text.contains(word),
            "{shown_text}"
        );
    }
    let refused = |at| {
        let message = "422".to_owned();
        let at = secs(at);
        let refused = KeyRefusal { message, at };
        Case::new().memory(|m| m.record_observation(SshKeyObservation::Refused(refused)))
    };
    let decision = refused(NOW - 299).decide();
    assert_eq!(reason(&decision), Some(Reason::RequestRefused));
    assert_eq!((decision.effect, decision.requeue_after), (None, secs(1)));
    let later = refused(NOW - 300);
    assert!(
        matches!(later.effect(), Some(SshKeyEffect::Store(_))),
        "rarely"
    );
}

#[test]
fn unreadable_text_creates_no_second_key() {
    let case = Case::new().with_finalizer().with_annotation(ACCOUNT_ID);
    let name = case.name();
    let decision = case.clone().shows(1, "", &name, 10).decide();
    assert_eq!(decision.status.uuid, Some(uuid(1)));
    assert_eq!(decision.effect, None);
    // The key of another object does not count.
    let theirs = "shop.ops:fmo-key:0123456789abcdef01234567";
    let other = case.shows(1, "", theirs, 10).decide();
    assert_eq!(other.status.uuid, None);
}

#[test]
fn never_listed_key_stops_being_sent() {
    let case = Case::new().memory(|m| m.unshown = 2);
    assert!(matches!(
        case.clone().effect(),
        Some(SshKeyEffect::Store(_))
    ));
    let decision = case.memory(|m| m.unshown = 3).decide();
    assert_eq!(decision.effect, None);
    assert_eq!(reason(&decision), Some(Reason::ChecksFailed));
}

mod ending {
    use super::*;

    fn going() -> Case {
        Case::idle().policy(KeyDeletionPolicy::Delete).deleting()
    }

    #[test]
    fn delete_policy_removes_the_stored_key() {
        assert_eq!(
            going().effect(),
            Some(SshKeyEffect::Delete { uuid: uuid(1) })
        );
        let deleted = going().memory(|m| {
            m.record_observation(SshKeyObservation::Deleted {
                uuid: uuid(1),
                at: secs(995),
            });
        });
        assert_eq!(deleted.effect(), Some(SshKeyEffect::RemoveFinalizer));
        // Unknown outcome: the next list shows it.
        let unknown =
            going().memory(|m| m.record_observation(SshKeyObservation::NotKnownDeleted(secs(995))));
        let decision = unknown.decide();
        assert_eq!(
            (decision.effect, decision.wants),
            (None, Some((ListKind::SshKeys, secs(995))))
        );
    }

    #[test]
    fn key_stays_by_default_or_if_not_owned() {
        let removed = Some(SshKeyEffect::RemoveFinalizer);
        assert_eq!(Case::idle().deleting().effect(), removed);
        let retained = Case::idle().policy(KeyDeletionPolicy::Retain).deleting();
        assert_eq!(retained.effect(), removed);
        let with_kind = |seen| going().facts(|f| f.subject.kind_deleting = seen).effect();
        assert_eq!(with_kind(Some(true)), removed);
        assert_eq!(with_kind(None), None);
        let theirs = Case::new()
            .with_finalizer()
            .recorded(1, ONE, false)
            .shows(1, ONE, "theirs", 10)
            .policy(KeyDeletionPolicy::Delete)
            .deleting();
        assert_eq!(theirs.effect(), removed);
        // A copied or edited status does not make the key ours.
        let claimed = Case::new()
            .with_finalizer()
            .recorded(1, ONE, true)
            .shows(1, ONE, "theirs", 10)
            .policy(KeyDeletionPolicy::Delete)
            .deleting();
        assert_ne!(
            claimed.effect(),
            Some(SshKeyEffect::Delete { uuid: uuid(1) })
        );
        let bare = going().object(|o| o.metadata.finalizers = None);
        assert_eq!(bare.effect(), None);
    }

    #[test]
    fn both_keys_that_a_lost_answer_left_go() {
        let twice = || going().shows_mine(2, ONE, 20);
        assert_eq!(
            twice().effect(),
            Some(SshKeyEffect::Delete { uuid: uuid(1) })
        );
        let gone = |case: Case, number| {
            let at = secs(995);
            let uuid = uuid(number);
            case.memory(|m| m.record_observation(SshKeyObservation::Deleted { uuid, at }))
        };
        let one = gone(twice(), 1);
        let second = Some(SshKeyEffect::Delete { uuid: uuid(2) });
        assert_eq!(one.clone().effect(), second);
        assert_eq!(gone(one, 2).effect(), Some(SshKeyEffect::RemoveFinalizer));
    }

    #[test]
    fn shared_key_is_not_deleted() {
        let shared = || going().facts(|f| f.is_shared = true);
        assert_eq!(shared().effect(), Some(SshKeyEffect::RemoveFinalizer));
        let twice = shared().shows_mine(2, ONE, 20);
        assert_eq!(twice.effect(), Some(SshKeyEffect::RemoveFinalizer));
    }

    #[test]
    fn other_key_with_own_name_stays() {
        let name = going().name();
        let odd = || going().shows(2, TWO, &name, 5);
        assert_eq!(odd().effect(), Some(SshKeyEffect::Delete { uuid: uuid(1) }));
        let gone = |m: &mut SshKeyMemory| {
            let at = secs(995);
            let uuid = uuid(1);
            m.record_observation(SshKeyObservation::Deleted { uuid, at });
        };
        assert_eq!(
            odd().memory(gone).effect(),
            Some(SshKeyEffect::RemoveFinalizer)
        );
        // A key with unreadable text is recognised by the hash in its name.
        let unread = going().memory(gone).shows(2, "", &name, 5);
        assert_eq!(
            unread.effect(),
            Some(SshKeyEffect::Delete { uuid: uuid(2) })
        );
    }

    #[test]
    fn unlisted_key_is_searched_for_twice() {
        let absent = || going().view(|v| v.ssh_keys = Some((secs(LISTED_AT), Arc::default())));
        let decision = absent().decide();
        assert_eq!(decision.effect, None);
        assert_eq!(
            decision.wants,
            Some((ListKind::SshKeys, secs(LISTED_AT + SPACING)))
        );
        let twice = absent().memory(|m| {
            m.record_list(false, secs(LISTED_AT - SPACING), secs(SINCE));
        });
        assert_eq!(twice.effect(), Some(SshKeyEffect::RemoveFinalizer));
        // An object that never stored a key ends at once.
        let empty = Case::new()
            .with_finalizer()
            .policy(KeyDeletionPolicy::Delete)
            .deleting();
        assert_eq!(empty.effect(), Some(SshKeyEffect::RemoveFinalizer));
    }

    #[test]
    fn only_recorded_key_deletion_skips_lists() {
        let absent = |gone: u8| {
            let deleted = |m: &mut SshKeyMemory| {
                m.record_observation(SshKeyObservation::Deleted {
                    uuid: uuid(gone),
                    at: secs(900),
                });
            };
            let empty = |v: &mut AccountView| v.ssh_keys = Some((secs(LISTED_AT), Arc::default()));
            going().view(empty).memory(deleted)
        };
        assert_eq!(absent(1).effect(), Some(SshKeyEffect::RemoveFinalizer));
        let other = absent(2).decide();
        assert_eq!((other.effect, other.requeue_after), (None, secs(SPACING)));
    }

    #[test]
    fn another_account_proves_nothing() {
        let unknown = going().view(|v| v.account_id = None).decide();
        assert_eq!(unknown.effect, None);
        assert_eq!(reason(&unknown), Some(Reason::WaitingForListing));
        assert!(message(&unknown).contains("Retain"));
        // The account ID changed, but the list has the recorded key.
        let moved = || going().view(|v| v.account_id = Some("22222222bbbb".into()));
        assert!(matches!(
            moved().effect(),
            Some(SshKeyEffect::Delete { .. })
        ));
        let empty = |v: &mut AccountView| v.ssh_keys = Some((secs(LISTED_AT), Arc::default()));
        let decision = moved().view(empty).decide();
        assert_eq!(decision.effect, None);
        assert_eq!(reason(&decision), Some(Reason::AccountChanged));
        assert!(message(&decision).contains("Retain"));
        let missing = going().facts(|f| {
            f.subject.account = ResolvedAccount::Missing("ProviderAccount default".into());
        });
        let decision = missing.decide();
        assert_eq!(reason(&decision), Some(Reason::AccountNotFound));
        assert!(message(&decision).contains("Retain"));
    }
}

#[test]
fn requested_poll_lists_keys_if_not_refused() {
    let asked = || {
        Case::idle().facts(|f| {
            f.subject
                .memory
                .request
                .record_request(Some("now"), secs(NOW))
        })
    };
    let next = secs(LISTED_AT + 15);
    assert_eq!(asked().decide().wants, Some((ListKind::SshKeys, next)));
    assert!(Case::idle().decide().wants > Some((ListKind::SshKeys, next)));
    assert_eq!(asked().blocked(Reason::KeyRejected).decide().wants, None);
}

#[test]
fn ready_key_says_that_its_account_is_suspended() {
    let ready = Case::new().facts(|f| {
        let object = Arc::make_mut(&mut f.subject.object);
        let ready =
            conditions::DesiredCondition::new(conditions::Type::Ready, true, Reason::Available, "");
        let now = Timestamp::UNIX_EPOCH;
        let status = object.status.get_or_insert_default();
        status.conditions = conditions::merge(
            &[],
            &[ready],
            api::conditions::Generations::same(Some(3)),
            now,
        );
        (status.uuid, status.observed_generation) = (Some(uuid(1)), Some(3));
    });
    let shown = |case: &Case| {
        let (status, _) = case
            .clone()
            .decide()
            .status(&case.0.subject, Timestamp::UNIX_EPOCH);
        let shown = status.conditions.iter().find(|c| c.type_ == "Suspended");
        (shown.map(|c| c.status.clone()), status)
    };
    let suspended = ready.clone().blocked(Reason::Suspended);
    let (is_suspended, status) = shown(&suspended);
    assert_eq!(is_suspended.as_deref(), Some("True"));
    // The account is resumed, and its list is not complete yet.
    let resumed = ready
        .view(|v| v.ssh_keys = None)
        .object(|o| o.status = Some(status));
    assert_eq!(shown(&resumed).0.as_deref(), Some("False"));
}

#[test]
fn no_key_changes_in_read_only_mode() {
    let read_only = |case: Case| case.facts(|f| f.subject.read_only = true);
    let deleted = || {
        let case = Case::idle()
            .with_finalizer()
            .policy(KeyDeletionPolicy::Delete);
        case.deleting()
    };
    for (case, words) in [
        (Case::new as fn() -> Case, "would store the key"),
        (deleted, "would delete stored key"),
    ] {
        assert!(case().effect().is_some(), "{words}");
        let decision = read_only(case()).decide();
        assert_eq!(decision.effect, None, "{words}");
        assert_eq!(reason(&decision), Some(Reason::ReadOnly), "{words}");
        assert!(message(&decision).contains(words), "{}", message(&decision));
    }
}
