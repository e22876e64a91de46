//! The end of an object: its tag is deleted, or stays.

use super::{
    super::facts::{TagFacts, users},
    TagDecision, TagEffect, unsettled, wait_for_tag_list, wait_unchanged, wait_with_reason,
};
use crate::{
    account::view::{ListKind, TagsByName},
    explanation::Explanation,
    pass::KIND_UNSEEN,
    resolved_account::Purpose,
};
use api::{
    Reason,
    names::TAG_ANNOTATION,
    tag::{TagAnnotation, TagDeletionPolicy},
};

/// Decides what to do for an object that is being deleted.
pub(super) fn decide_deletion(facts: &TagFacts) -> TagDecision {
    let subject = &facts.subject;
    let let_go = || TagDecision::unchanged(subject).with(TagEffect::RemoveFinalizer);
    if !subject.has_finalizer() {
        return TagDecision::unchanged(subject);
    }
    match subject.is_crd_deleting() {
        Ok(true) => return let_go(),
        Ok(false) => {}
        Err(cause) => return wait_with_reason(facts, cause).requeue_after(KIND_UNSEEN),
    }
    // The tag is another object's, or becomes that of one that lives on.
    let is_others =
        facts.conflicting_owners.owner.is_some() || facts.conflicting_owners.successor.is_some();
    if subject.object.spec.deletion_policy == Some(TagDeletionPolicy::Retain) || is_others {
        return let_go();
    }
    let view = match subject.account.usable(Purpose::End) {
        Ok(view) => view,
        Err(cause) => return wait_with_reason(facts, with_remedy(cause)),
    };
    if let Some(decision) = unsettled(facts) {
        return decision;
    }
    let Some((began, tags)) = facts.tags() else {
        return wait_for_tag_list(facts, facts.not_before());
    };
    match of_another_account(facts) {
        // It got another account ID since. What is found there stays: only its name tells that it is the same.
        Some(note) if is_finished(facts, &note) && tags.contains_key(&note.tag) => return let_go(),
        Some(_) => return wait_with_reason(facts, with_remedy(elsewhere())),
        None => {}
    }
    let Some(tag) = left(facts, tags) else {
        return match facts.next_absence_check(tags) {
            Some(next) => TagDecision::unchanged(subject).wanting(ListKind::Tags, next),
            None => let_go(),
        };
    };
    // What others rely on stays, whatever the policy says.
    if facts.is_shared() && !facts.has_made(&tag) {
        return let_go();
    }
    let is_forced = subject.object.spec.force == Some(true) && !facts.is_shared();
    let used = tags
        .get(&tag)
        .is_some_and(|record| users(record) != Some(0));
    if used && !is_forced {
        return wait_unchanged(facts, view, in_use(facts, &tag, tags), began);
    }
    let only_unused = !is_forced;
    TagDecision::unchanged(subject).with(TagEffect::Delete { tag, only_unused })
}

/// The tag of this object that the account still has, and that is to be deleted.
fn left(facts: &TagFacts, tags: &TagsByName) -> Option<String> {
    let is_asked = facts.subject.object.spec.deletion_policy == Some(TagDeletionPolicy::Delete);
    let recorded = facts.subject.object.status.as_ref();
    let recorded = recorded.and_then(|status| status.tag.clone());
    let recorded = recorded.filter(|tag| is_asked || facts.has_made(tag));
    // Made or renamed, and that is not on record. Once it is, the former name is anybody's.
    let is_open = |note: &TagAnnotation| match facts.recorded() {
        Some(recorded) => note.from.as_deref() == Some(recorded),
        None => true,
    };
    let noted = facts
        .effective_annotation()
        .filter(|note| note.made && is_open(note));
    let noted = noted
        .into_iter()
        .flat_map(|note| [Some(note.tag), note.from]);
    let mut all = std::iter::once(recorded).chain(noted).flatten();
    all.find(|tag| tags.contains_key(tag))
}

fn in_use(facts: &TagFacts, tag: &str, tags: &TagsByName) -> Explanation {
    let count = tags.get(tag).and_then(users);
    let who = match count {
        Some(1) => "One server has".to_owned(),
        Some(count) => format!("{count} servers have"),
        None => "An unknown number of servers has".to_owned(),
    };
    let remedy = match facts.is_shared() {
        true => "To keep it, set spec.deletionPolicy of this ServerTag to Retain",
        false => {
            "To delete it now, set spec.force of this ServerTag to true; to keep it, set its spec.deletionPolicy to Retain"
        }
    };
    let message = format!("{who} the tag {tag:?}; it is deleted when none has it. {remedy}");
    Explanation::missing(Reason::InUse, message)
}

/// The note of a tag that was made under another account ID than that of the account that key and URL lead to now.
fn of_another_account(facts: &TagFacts) -> Option<TagAnnotation> {
    let text = facts.subject.annotation(TAG_ANNOTATION)?;
    let note: TagAnnotation = serde_json::from_str(text).ok()?;
    let lineage = facts.subject.view()?.account_id.as_ref()?;
    (note.uid == facts.subject.uid() && note.account_id != *lineage).then_some(note)
}

/// Whether what was noted is on record as done: no call of it can be under way.
fn is_finished(facts: &TagFacts, note: &TagAnnotation) -> bool {
    facts.recorded() == Some(&note.tag)
}

fn elsewhere() -> Explanation {
    let message = "The tag was made in another account than spec.accountRef leads to now. Restore the key and URL of that account";
    Explanation::stalled(Reason::AccountChanged, message)
}

fn with_remedy(mut cause: Explanation) -> Explanation {
    cause.message.push_str(
        "; or, to delete this ServerTag and keep the tag, set spec.deletionPolicy to Retain",
    );
    cause
}
