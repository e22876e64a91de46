//! Decides the deletion of a ServerTag: its tag is deleted or stays.

use super::{
    super::facts::{TagFacts, users},
    TagDecision, TagEffect, unsettled, wait_for_tag_list, wait_unchanged, wait_with_reason,
};
use crate::{
    account::view::{ListKind, TagsByName},
    explanation::Explanation,
    reconcile::CRD_RETRY,
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
    let remove_finalizer = || TagDecision::unchanged(subject).with(TagEffect::RemoveFinalizer);
    if !subject.has_finalizer() {
        return TagDecision::unchanged(subject);
    }
    match subject.is_crd_deleting() {
        Ok(true) => return remove_finalizer(),
        Ok(false) => {}
        Err(explanation) => return wait_with_reason(facts, explanation).requeue_after(CRD_RETRY),
    }
    // Another object owns the tag or takes it over.
    let is_others =
        facts.conflicting_owners.owner.is_some() || facts.conflicting_owners.successor.is_some();
    if subject.object.spec.deletion_policy == Some(TagDeletionPolicy::Retain) || is_others {
        return remove_finalizer();
    }
    let view = match subject.account.usable(Purpose::End) {
        Ok(view) => view,
        Err(explanation) => return wait_with_reason(facts, with_remedy(explanation)),
    };
    if let Some(decision) = unsettled(facts) {
        return decision;
    }
    let Some((began, tags)) = facts.tags() else {
        return wait_for_tag_list(facts, facts.not_before());
    };
    match of_another_account(facts) {
        // The account ID changed. A tag found there stays, because only the name shows that it is the same.
        Some(annotation)
            if is_finished(facts, &annotation) && tags.contains_key(&annotation.tag) =>
        {
            return remove_finalizer();
        }
        Some(_) => return wait_with_reason(facts, with_remedy(elsewhere())),
        None => {}
    }
    let Some(tag) = left(facts, tags) else {
        return match facts.next_absence_check(tags) {
            Some(next) => TagDecision::unchanged(subject).wanting(ListKind::Tags, next),
            None => remove_finalizer(),
        };
    };
    // In a shared account, a tag of another user stays under every policy.
    if facts.is_shared() && !facts.has_made(&tag) {
        return remove_finalizer();
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

/// The tag of this object that the account still has and that must be deleted.
fn left(facts: &TagFacts, tags: &TagsByName) -> Option<String> {
    let is_asked = facts.subject.object.spec.deletion_policy == Some(TagDeletionPolicy::Delete);
    let recorded = facts.subject.object.status.as_ref();
    let recorded = recorded.and_then(|status| status.tag.clone());
    let recorded = recorded.filter(|tag| is_asked || facts.has_made(tag));
    // Created or renamed, but not recorded. After the record, other users may use the previous name.
    let is_open = |annotation: &TagAnnotation| match facts.recorded() {
        Some(recorded) => annotation.from.as_deref() == Some(recorded),
        None => true,
    };
    let annotated = facts
        .effective_annotation()
        .filter(|annotation| annotation.made && is_open(annotation));
    let annotated = annotated
        .into_iter()
        .flat_map(|annotation| [Some(annotation.tag), annotation.from]);
    let mut all = std::iter::once(recorded).chain(annotated).flatten();
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

/// The annotation of a tag that was created under another account ID than the current one.
fn of_another_account(facts: &TagFacts) -> Option<TagAnnotation> {
    let text = facts.subject.annotation(TAG_ANNOTATION)?;
    let annotation: TagAnnotation = serde_json::from_str(text).ok()?;
    let account_id = facts.subject.view()?.account_id.as_ref()?;
    (annotation.uid == facts.subject.uid() && annotation.account_id != *account_id)
        .then_some(annotation)
}

/// Whether the annotated tag is recorded, so that no call for it can be in progress.
fn is_finished(facts: &TagFacts, annotation: &TagAnnotation) -> bool {
    facts.recorded() == Some(&annotation.tag)
}

fn elsewhere() -> Explanation {
    let message = "The tag was made in another account than spec.accountRef leads to now. Restore the key and URL of that account";
    Explanation::stalled(Reason::AccountChanged, message)
}

fn with_remedy(mut explanation: Explanation) -> Explanation {
    explanation.message.push_str(
        "; or, to delete this ServerTag and keep the tag, set spec.deletionPolicy to Retain",
    );
    explanation
}
