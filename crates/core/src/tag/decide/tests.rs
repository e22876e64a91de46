//! Tests of the decision: the result for each state, and a simulated world that carries decisions out.

pub(crate) mod readings;
mod world;

use super::*;
use crate::{
    account::{
        key::AccountKey,
        view::{AccountState, AccountView},
    },
    cluster_id::ClusterId,
    moment::Moment,
    ownership::{Claimant, ConflictingOwners},
    reconcile::{Ended, Memory, Subject},
    resolved_account::ResolvedAccount,
    tag::facts::{TagMemory, TagRefusal, UnknownRename, rename_of},
};
use api::{
    ServerTag,
    names::{OBJECT_FINALIZER, TAG_ANNOTATION},
    references::{AccountKind, AccountRef, PinnedAccount},
    tag::{ServerTagSpec, TagDeletionPolicy},
};
use hosting_types::TagRecord;
use std::sync::Arc;

const NOW: Duration = Duration::from_secs(10_000);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The tags of an account, with the number of servers that have them.
fn tags(all: &[(&str, i64)]) -> TagsByName {
    let record = |(tag, count): &(&str, i64)| TagRecord {
        tag: (*tag).into(),
        resources: Some(*count),
        servers: Some(*count),
    };
    all.iter().map(|t| (t.0.to_owned(), record(t))).collect()
}

/// Facts under construction. They start with a new object `web` in an account without tags.
#[derive(Clone)]
struct Case(TagFacts);

impl Case {
    fn new() -> Self {
        let mut object = ServerTag::new(
            "web",
            ServerTagSpec {
                account_ref: None,
                tag: None,
                rename_policy: None,
                deletion_policy: None,
                force: None,
            },
        );
        object.metadata.namespace = Some("shop".into());
        object.metadata.uid = Some("uid-1".into());
        object.metadata.generation = Some(1);
        let view = AccountView {
            tags: Some((NOW - secs(1), Arc::default())),
            ..AccountView::usable()
        };
        Self(TagFacts {
            subject: Subject {
                read_only: false,
                now: Moment {
                    wall: 1_000_000,
                    mono: NOW,
                },
                leader_since: Duration::ZERO,
                first_seen: secs(9_000),
                cluster: ClusterId::parse("0123456789abcdef").unwrap(),
                kind_deleting: Some(false),
                account: ResolvedAccount::Found {
                    view,
                    terms: crate::account::terms::Terms::Own,
                },
                memory: Memory::default(),
                object: Arc::new(object),
            },
            conflicting_owners: ConflictingOwners::default(),
        })
    }

    fn facts(mut self, change: impl FnOnce(&mut TagFacts)) -> Self {
        change(&mut self.0);
        self
    }

    fn object(self, change: impl FnOnce(&mut ServerTag)) -> Self {
        self.facts(|f| change(Arc::make_mut(&mut f.subject.object)))
    }

    fn spec(self, change: impl FnOnce(&mut ServerTagSpec)) -> Self {
        self.object(|o| change(&mut o.spec))
    }

    fn view(self, change: impl FnOnce(&mut AccountView)) -> Self {
        self.facts(|f| {
            if let ResolvedAccount::Found { view, .. } = &mut f.subject.account {
                change(view);
            }
        })
    }

    fn own(self, change: impl FnOnce(&mut TagMemory)) -> Self {
        self.facts(|f| change(&mut f.subject.memory.own))
    }

    fn tags(self, all: &[(&str, i64)]) -> Self {
        self.view(|v| v.tags = Some((NOW - secs(1), Arc::new(tags(all)))))
    }

    fn with_finalizer(self) -> Self {
        self.object(|o| o.metadata.finalizers = Some(vec![OBJECT_FINALIZER.into()]))
    }

    fn with_annotation(self, tag: &str, from: Option<&str>, made: bool) -> Self {
        let text = serde_json::to_string(&tag_annotation(tag, from, made)).unwrap();
        let annotations = [(TAG_ANNOTATION.to_owned(), text)].into();
        self.with_finalizer()
            .object(|o| o.metadata.annotations = Some(annotations))
    }

    /// Status has the tag. `created`: this object created it.
    fn recorded(self, tag: &str, created: bool) -> Self {
        self.with_finalizer().object(|o| {
            let status = o.status.get_or_insert_default();
            status.tag = Some(tag.into());
            status.created_by_object = Some(created);
        })
    }

    /// The object created the tag, and annotation and status record that.
    fn made(self, tag: &str) -> Self {
        self.with_annotation(tag, None, true).recorded(tag, true)
    }

    fn renamed_to(self, tag: &str) -> Self {
        self.spec(|s| {
            s.tag = Some(tag.into());
            s.rename_policy = Some(RenamePolicy::Rename);
        })
    }

    fn deleted(self) -> Self {
        let time =
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
        self.object(|o| o.metadata.deletion_timestamp = Some(time))
    }

    fn shared(self) -> Self {
        self.spec(|s| {
            s.account_ref = Some(AccountRef {
                kind: Some(AccountKind::ClusterProviderAccount),
                name: None,
            });
        })
    }

    fn owned_by(self, name: &str) -> Self {
        self.facts(|f| f.conflicting_owners.owner = Some(other_owner(name)))
    }

    fn decide(&self) -> TagDecision {
        decide(&self.0)
    }

    /// The effect and the reported reason.
    fn outcome(&self) -> (Option<TagEffect>, Option<Reason>) {
        let decision = self.decide();
        (
            decision.effect,
            decision.explanation.map(|explanation| explanation.reason),
        )
    }
}

fn other_owner(name: &str) -> Arc<Claimant> {
    Arc::new(Claimant {
        uid: "uid-0".into(),
        namespace: "shop".into(),
        name: name.into(),
        account: AccountKey::from_reference(&PinnedAccount::from_reference(None), "shop"),
        is_deleting: false,
    })
}

fn tag_annotation(tag: &str, from: Option<&str>, made: bool) -> TagAnnotation {
    TagAnnotation {
        uid: "uid-1".into(),
        account_id: "account-id-1".into(),
        tag: tag.into(),
        from: from.map(Into::into),
        made,
    }
}

fn make(tag: &str) -> Option<TagEffect> {
    Some(TagEffect::Make { tag: tag.into() })
}

fn delete(tag: &str, only_unused: bool) -> Option<TagEffect> {
    let tag = tag.into();
    Some(TagEffect::Delete { tag, only_unused })
}

fn add_finalizer(annotation: Option<TagAnnotation>) -> Option<TagEffect> {
    Some(TagEffect::AddFinalizer { annotation })
}

fn a_rename(from: &str, to: &str) -> Rename {
    Rename {
        from: from.into(),
        to: to.into(),
    }
}

#[test]
fn tag_is_annotated_created_then_available() {
    let new = Case::new();
    assert_eq!(
        new.outcome(),
        (add_finalizer(Some(tag_annotation("web", None, true))), None)
    );
    let annotated = new.with_annotation("web", None, true);
    assert_eq!(annotated.outcome(), (make("web"), None));
    let decision = annotated.tags(&[("web", 2)]).decide();
    let status = &decision.status;
    assert_eq!(status.tag.as_deref(), Some("web"));
    assert_eq!(
        (status.created_by_object, status.server_count),
        (Some(true), Some(2))
    );
    assert_eq!(decision.explanation.unwrap().reason, Reason::Available);
    assert_eq!(decision.effect, None);
}

#[test]
fn existing_tag_is_adopted_but_not_owned() {
    let case = Case::new().tags(&[("web", 0)]);
    assert_eq!(case.outcome(), (add_finalizer(None), None));
    let status = case.clone().with_finalizer().decide().status;
    assert_eq!(
        (status.tag.as_deref(), status.created_by_object),
        (Some("web"), Some(false))
    );
    // An annotation of another object or another account does not count.
    for change in [
        (|n: &mut TagAnnotation| n.uid = "uid-2".into()) as fn(&mut TagAnnotation),
        |n| n.account_id = "account-id-2".into(),
    ] {
        let mut other = tag_annotation("web", None, true);
        change(&mut other);
        let text = serde_json::to_string(&other).unwrap();
        let copied = case.clone().with_finalizer().object(|o| {
            o.metadata.annotations = Some([(TAG_ANNOTATION.to_owned(), text)].into());
        });
        assert_eq!(copied.decide().status.created_by_object, Some(false));
        let expected = match other.account_id == "account-id-1" {
            true => (Some(TagEffect::RemoveFinalizer), None),
            false => (None, Some(Reason::AccountChanged)),
        };
        assert_eq!(copied.deleted().outcome(), expected);
    }
}

#[test]
fn outdated_tag_list_is_ignored() {
    let wants = |case: &Case| {
        let decision = case.decide();
        assert_eq!((decision.effect, decision.explanation), (None, None));
        decision.wants
    };
    let case = Case::new();
    let gained = case
        .clone()
        .facts(|f| f.subject.leader_since = NOW - secs(1) / 2);
    assert_eq!(wants(&gained), Some((ListKind::Tags, NOW - secs(1) / 2)));
    let new = case.clone().facts(|f| f.subject.first_seen = NOW);
    assert_eq!(wants(&new), Some((ListKind::Tags, NOW)));
    let changed = case.clone().own(|own| own.changed = Some(NOW));
    assert_eq!(wants(&changed), Some((ListKind::Tags, NOW)));
    let never = case.view(|v| v.tags = None);
    assert_eq!(wants(&never), Some((ListKind::Tags, secs(9_000))));
    let failing = never.view(|v| v.last_error = Some((Reason::ProviderUnreachable, "no".into())));
    assert_eq!(failing.outcome(), (None, Some(Reason::ProviderUnreachable)));
}

#[test]
fn created_tag_is_awaited_before_recreation() {
    let case = Case::new().with_annotation("web", None, true);
    let late = |ago| {
        case.clone()
            .own(|own| own.made = Some(("web".into(), NOW - ago)))
    };
    assert_eq!(late(secs(5)).outcome(), (None, Some(Reason::Progressing)));
    assert_eq!(late(secs(599)).outcome(), (None, Some(Reason::Progressing)));
    assert_eq!(late(secs(600)).outcome(), (make("web"), None));
}

#[test]
fn refused_tag_is_retried_and_not_owned() {
    let refused = |ago: Duration| {
        Case::new().with_annotation("web", None, true).own(|own| {
            own.refused = Some(TagRefusal {
                tag: "web".into(),
                message: "no".into(),
                at: NOW - ago,
            });
        })
    };
    assert_eq!(
        refused(secs(9)).outcome(),
        (None, Some(Reason::RequestRefused))
    );
    assert_eq!(refused(secs(300)).outcome(), (make("web"), None));
    // Another user created it meanwhile.
    let taken = refused(secs(9)).tags(&[("web", 0)]);
    let not_made = add_finalizer(Some(tag_annotation("web", None, false)));
    assert_eq!(taken.outcome(), (not_made, None));
    let adopted = taken.with_annotation("web", None, false);
    assert_eq!(adopted.decide().status.created_by_object, Some(false));
}

#[test]
fn the_older_object_has_the_tag() {
    let case = Case::new().owned_by("first");
    let explanation = case.decide().explanation.unwrap();
    assert_eq!(explanation.reason, Reason::OwnershipConflict);
    assert!(
        explanation.message.contains("shop/first"),
        "{}",
        explanation.message
    );
    // Its deletion does not change the tag of the other object.
    let ends = case.made("web").tags(&[("web", 0)]).deleted();
    assert_eq!(ends.outcome(), (Some(TagEffect::RemoveFinalizer), None));
}

#[test]
fn deleted_owner_leaves_tag_to_successor() {
    let case = Case::new().made("web").tags(&[("web", 0)]).deleted();
    assert_eq!(case.outcome(), (delete("web", true), None));
    let followed = case.facts(|f| f.conflicting_owners.successor = Some(other_owner("next")));
    assert_eq!(followed.outcome(), (Some(TagEffect::RemoveFinalizer), None));
}

#[test]
fn rename_is_annotated_before_it_is_sent() {
    let case = Case::new()
        .made("web")
        .renamed_to("www")
        .tags(&[("web", 3)]);
    let wanted = tag_annotation("www", Some("web"), true);
    assert_eq!(case.outcome(), (add_finalizer(Some(wanted)), None));
    let annotated = case.with_annotation("www", Some("web"), true);
    let rename = a_rename("web", "www");
    let send = TagEffect::Rename {
        rename: rename.clone(),
        only_unused: false,
    };
    let settled = annotated
        .clone()
        .own(|own| own.settled = Some(rename.clone()));
    assert_eq!(settled.outcome(), (Some(send), None));
    // The answer is lost.
    let unknown = settled.clone().own(|own| {
        own.unknown = Some(UnknownRename {
            rename,
            since: NOW - secs(5),
            not_done: Some(NOW - secs(1)),
        });
    });
    let decision = unknown.decide();
    assert_eq!(decision.explanation.unwrap().reason, Reason::OutcomeUnknown);
    assert_eq!(decision.effect, None);
    let next = NOW - secs(1) + AccountView::usable().times.absence_check_interval;
    assert_eq!(decision.wants, Some((ListKind::Tags, next)));
    // A list with the new name settles it.
    let done = settled.tags(&[("www", 3)]).decide();
    assert_eq!(done.status.tag.as_deref(), Some("www"));
    assert_eq!(done.status.created_by_object, Some(true));
}

#[test]
fn lost_rename_is_resolved_by_two_lists() {
    let rename = a_rename("web", "www");
    let spacing = AccountView::usable().times.absence_check_interval;
    let as_before = tags(&[("web", 0)]);
    let view = |began, all: &TagsByName| AccountView {
        tags: Some((began, Arc::new(all.clone()))),
        ..AccountView::usable()
    };
    let (nothing, renamed) = (tags(&[]), tags(&[("www", 0)]));
    let mut own = TagMemory::default();
    let annotated = || Some(rename.clone());
    let list = |own: &mut TagMemory, annotated, began, all| {
        own.refresh_rename(annotated, secs(100), Some(&view(began, all)));
    };
    list(&mut own, annotated(), secs(99), &as_before);
    assert_eq!(own.unknown.as_ref().unwrap().not_done, None, "too old");
    list(&mut own, annotated(), secs(100), &as_before);
    list(&mut own, annotated(), secs(101), &as_before);
    assert_eq!(own.unknown.as_ref().unwrap().not_done, Some(secs(100)));
    // A list without both names settles nothing yet.
    list(&mut own, annotated(), secs(102), &nothing);
    assert!(own.unknown.is_some());
    let mut done = own.clone();
    list(&mut own, annotated(), secs(100) + spacing, &as_before);
    assert_eq!((own.unknown, own.settled), (None, annotated()));
    list(&mut done, annotated(), secs(103), &renamed);
    assert_eq!((done.unknown, done.settled), (None, annotated()));
    // Without an open rename, nothing is searched.
    let mut later = TagMemory::default();
    list(&mut later, None, secs(200), &as_before);
    assert_eq!(later, TagMemory::default());
}

#[test]
fn one_list_without_the_tag_decides_nothing() {
    let spacing = AccountView::usable().times.absence_check_interval;
    let began = NOW - secs(1);
    let seen = |case: Case| {
        let facts = case.0.clone();
        case.own(|own| own.refresh(&facts))
    };
    let twice = |case: Case| case.own(|own| own.unseen = Some(("web".into(), began - spacing)));
    let lost = seen(Case::new().made("web"));
    let waits = |case: &Case| {
        let decision = case.decide();
        assert_eq!((decision.effect, decision.explanation), (None, None));
        assert_eq!(decision.wants, Some((ListKind::Tags, began + spacing)));
    };
    waits(&lost);
    waits(&lost.clone().deleted());
    assert_eq!(twice(lost.clone()).outcome(), (make("web"), None));
    assert_eq!(
        twice(lost.clone().deleted()).outcome(),
        (Some(TagEffect::RemoveFinalizer), None)
    );
    // If this process deleted the tag, or annotated it and sent nothing, one list is enough.
    let deleted = lost
        .clone()
        .deleted()
        .own(|own| own.deleted = Some("web".into()));
    assert_eq!(deleted.outcome(), (Some(TagEffect::RemoveFinalizer), None));
    let annotated = seen(Case::new().with_annotation("web", None, true));
    waits(&annotated);
    let fresh = annotated.own(|own| own.is_fresh = true);
    assert_eq!(fresh.outcome(), (make("web"), None));
    // The tag is listed although nothing was sent, so another user created it.
    let others = fresh.tags(&[("web", 0)]);
    let not_made = add_finalizer(Some(tag_annotation("web", None, false)));
    assert_eq!(others.outcome(), (not_made, None));
    // A request for an existing own tag is refused, and the tag stays its own.
    let refused = Case::new().made("web").tags(&[("web", 0)]).own(|own| {
        let (tag, message) = ("web".into(), "no".into());
        own.refused = Some(TagRefusal {
            tag,
            message,
            at: NOW,
        });
    });
    assert_eq!(refused.decide().status.created_by_object, Some(true));
    // Lists with other credentials do not count.
    let moved = seen(twice(lost).view(|v| v.credentials_hash = Some("beef".into())));
    waits(&moved);
}

#[test]
fn tag_of_another_account_is_not_searched() {
    let moved = |case: Case, shown: &[(&str, i64)]| {
        let case = case.tags(shown);
        case.view(|v| v.account_id = Some("account-id-2".into()))
            .deleted()
    };
    let made = || Case::new().made("web");
    let elsewhere = (None, Some(Reason::AccountChanged));
    assert_eq!(moved(made(), &[]).outcome(), elsewhere);
    let annotated = Case::new().with_annotation("web", None, true);
    assert_eq!(
        moved(annotated, &[("web", 0)]).outcome(),
        elsewhere,
        "it may be under way"
    );
    // The account ID changed. The tag found there stays.
    assert_eq!(
        moved(made(), &[("web", 0)]).outcome(),
        (Some(TagEffect::RemoveFinalizer), None)
    );
    let kept = moved(made(), &[]).spec(|s| s.deletion_policy = Some(TagDeletionPolicy::Retain));
    assert_eq!(kept.outcome(), (Some(TagEffect::RemoveFinalizer), None));
}

#[test]
fn impossible_rename_is_reported() {
    let case = Case::new().made("web").renamed_to("www");
    let taken = case.clone().tags(&[("web", 0), ("www", 0)]);
    assert_eq!(taken.outcome(), (None, Some(Reason::NameTaken)));
    let forbidden = case
        .clone()
        .tags(&[("web", 0)])
        .spec(|s| s.rename_policy = None);
    assert_eq!(forbidden.outcome(), (None, Some(Reason::InvalidSpec)));
    // Our request renamed it, and another user created the old name before the record.
    let ours = case
        .with_annotation("www", Some("web"), true)
        .tags(&[("web", 1), ("www", 0)])
        .own(|own| own.made = Some(("www".into(), NOW - secs(2))));
    assert_eq!(ours.decide().status.tag.as_deref(), Some("www"));
}

#[test]
fn old_tag_name_stays_after_a_rename() {
    let renamed = Case::new()
        .made("web")
        .renamed_to("www")
        .with_annotation("www", Some("web"), true)
        .recorded("www", true)
        .tags(&[("web", 0)])
        .deleted();
    assert_eq!(renamed.outcome().0, Some(TagEffect::RemoveFinalizer));
}

#[test]
fn unused_old_tag_is_deleted_after_rename() {
    let case = Case::new().made("web").renamed_to("www");
    let half = case.clone().tags(&[("web", 1), ("www", 1)]);
    assert_eq!(half.outcome(), (None, Some(Reason::InUse)));
    let message = half.decide().explanation.unwrap().message;
    assert!(message.contains("checked every"), "{message}");
    let all = case.tags(&[("web", 0), ("www", 2)]);
    assert_eq!(all.outcome().0, delete("web", true));
    // The rename was annotated, but servers got the new tag first.
    let overtaken = all.clone().with_annotation("www", Some("web"), true);
    let overtaken = overtaken.own(|own| own.settled = Some(a_rename("web", "www")));
    let of_web_alone = add_finalizer(Some(tag_annotation("web", None, true)));
    assert_eq!(overtaken.outcome().0, of_web_alone);
    let done = all.clone().tags(&[("www", 2)]);
    let status = done.decide().status;
    assert_eq!(status.tag.as_deref(), Some("www"));
    // Other users created it, so it stays when this object is deleted.
    assert_eq!(status.created_by_object, Some(false));
    // The old tag is not this object's either.
    let adopted = all.shared().recorded("web", false);
    assert_eq!(adopted.outcome(), (None, Some(Reason::NameTaken)));
}

#[test]
fn shared_account_protects_tags_of_others() {
    let mine = Case::new().shared().made("web");
    let adopted = Case::new().shared().recorded("web", false);
    // A user who can edit the object can edit its annotations.
    let forged = Case::new()
        .shared()
        .with_annotation("web", None, true)
        .recorded("web", false);
    for (case, count, renamed, deleted) in [
        (&mine, 0, None, delete("web", true)),
        (&mine, 1, Some(Reason::InUse), None),
        (
            &adopted,
            0,
            Some(Reason::OwnershipConflict),
            Some(TagEffect::RemoveFinalizer),
        ),
        (
            &forged,
            0,
            Some(Reason::OwnershipConflict),
            Some(TagEffect::RemoveFinalizer),
        ),
    ] {
        let case = case.clone().tags(&[("web", count)]);
        let www = case.clone().renamed_to("www");
        assert_eq!(www.outcome().1, renamed, "{count}");
        // The next list comes soon if servers must drop the tag, else at the idle interval.
        let times = case.0.subject.view().unwrap().times;
        let next = www.decide().wants.map(|(_, at)| at + secs(1) - NOW);
        let expected = renamed.map(|reason| match reason {
            Reason::InUse => times.active_poll_interval,
            _ => times.idle_poll_interval,
        });
        assert_eq!(next, expected, "{count}");
        for policy in [None, Some(TagDeletionPolicy::Delete)] {
            let ends = case.clone().deleted().spec(|s| {
                s.force = Some(true);
                s.deletion_policy = policy;
            });
            assert_eq!(ends.outcome().0, deleted, "{count} {policy:?}");
        }
    }
}

#[test]
fn tag_deletion_follows_policy_and_usage() {
    use TagDeletionPolicy::{Delete, Retain};
    let go = || Some(TagEffect::RemoveFinalizer);
    for (made, policy, force, count, expected) in [
        (true, None, false, 0, delete("web", true)),
        (true, None, false, 2, None),
        (true, None, true, 2, delete("web", false)),
        (true, Some(Retain), true, 0, go()),
        (false, None, false, 0, go()),
        (false, Some(Delete), false, 0, delete("web", true)),
        (false, Some(Delete), false, 2, None),
    ] {
        let case = match made {
            true => Case::new().made("web"),
            false => Case::new().recorded("web", false),
        };
        let case = case.tags(&[("web", count)]).deleted().spec(|s| {
            s.deletion_policy = policy;
            s.force = Some(force);
        });
        let (effect, reason) = case.outcome();
        assert_eq!(reason, expected.is_none().then_some(Reason::InUse));
        assert_eq!(effect, expected, "{made} {policy:?} {force} {count}");
    }
    // An answer without a count does not mean unused.
    let silent = Case::new()
        .made("web")
        .tags(&[("web", 0)])
        .deleted()
        .view(|v| {
            let (_, all) = v.tags.as_mut().unwrap();
            let record = Arc::make_mut(all).get_mut("web").unwrap();
            (record.resources, record.servers) = (None, None);
        });
    assert_eq!(silent.outcome(), (None, Some(Reason::InUse)));
    // Already gone, never ours, or the CRD is being deleted.
    assert_eq!(Case::new().made("web").deleted().outcome().0, go());
    assert_eq!(Case::new().deleted().outcome(), (None, None));
    let kind_goes = Case::new().made("web").tags(&[("web", 0)]).deleted();
    let unseen = kind_goes.clone().facts(|f| f.subject.kind_deleting = None);
    assert_eq!(unseen.outcome().0, None);
    let kind_goes = kind_goes.facts(|f| f.subject.kind_deleting = Some(true));
    assert_eq!(kind_goes.outcome().0, go());
}

#[test]
fn a_count_alone_is_written_once_a_minute() {
    let case = Case::new().made("web").tags(&[("web", 4)]);
    let case = case.object(|o| o.status.get_or_insert_default().server_count = Some(3));
    let at = |ago| {
        let case = case
            .clone()
            .facts(|f| f.subject.memory.reported = Some(NOW - ago));
        case.decide()
    };
    assert_eq!(at(secs(59)).status.server_count, Some(3));
    assert_eq!(at(secs(59)).requeue_after, secs(1));
    assert_eq!(at(secs(60)).status.server_count, Some(4));
    assert_eq!(case.decide().status.server_count, Some(4));
}

#[test]
fn invalid_stored_tag_sends_nothing() {
    for tag in ["", "fmo-order:1", "a b", &"x".repeat(65), "ä"] {
        let case = Case::new().spec(|s| s.tag = Some(tag.to_owned()));
        assert_eq!(case.outcome(), (None, Some(Reason::InvalidSpec)), "{tag:?}");
    }
}

#[test]
fn a_blocked_account_holds_it() {
    let blocked =
        Case::new().view(|v| v.state = AccountState::Blocked(Reason::KeyRejected, "no".into()));
    assert_eq!(blocked.outcome(), (None, Some(Reason::KeyRejected)));
    let not_allowed = Case::new().facts(|f| {
        if let ResolvedAccount::Found { terms, .. } = &mut f.subject.account {
            *terms = crate::account::terms::Terms::Refused("no".into());
        }
    });
    assert_eq!(not_allowed.outcome().1, Some(Reason::NotAllowed));
    // It does not block a deletion.
    let ends = not_allowed.made("web").tags(&[("web", 0)]).deleted();
    assert_eq!(ends.outcome().0, delete("web", true));
}

#[test]
fn requested_poll_lists_tags_sooner() {
    let rest = Case::new().tags(&[("web", 1)]).made("web");
    let asked = rest
        .clone()
        .facts(|f| f.subject.memory.request.record_request(Some("now"), NOW));
    let pace = AccountView::usable().times.active_poll_interval;
    let wanted = Some((ListKind::Tags, NOW - secs(1) + pace));
    assert_eq!(asked.decide().wants, wanted);
    assert!(rest.decide().wants > wanted, "that of the idle interval");
}

/// The effect, and reason and message of Synced, in read-only mode.
fn decide_read_only(case: Case) -> (Option<TagEffect>, Reason, String) {
    let case = case.facts(|f| f.subject.read_only = true);
    let decision = case.decide();
    let status = decision
        .status(&case.0.subject, jiff::Timestamp::UNIX_EPOCH)
        .0;
    let synced = api::conditions::find_condition(&status.conditions, api::conditions::Type::Synced);
    let synced = synced.unwrap();
    let reason = Reason::parse(&synced.reason).unwrap();
    (decision.effect, reason, synced.message.clone())
}

#[test]
fn no_tag_changes_in_read_only_mode() {
    let renamed = Case::new()
        .made("old")
        .tags(&[("old", 0)])
        .renamed_to("new");
    let deleted = Case::new().made("web").tags(&[("web", 0)]).deleted();
    for (case, words) in [
        (Case::new(), "would create tag \"web\""),
        (renamed, "would rename tag \"old\" to \"new\""),
        (deleted, "would delete tag \"web\""),
    ] {
        let (effect, reason, message) = decide_read_only(case);
        assert_eq!((effect, reason), (None, Reason::ReadOnly), "{words}");
        assert!(message.contains(words), "{words}: {message}");
    }
    // A tag that exists needs no finalizer to be shown.
    let (effect, reason, _) = decide_read_only(Case::new().tags(&[("web", 2)]));
    assert_eq!((effect, reason), (None, Reason::InSync));
}
