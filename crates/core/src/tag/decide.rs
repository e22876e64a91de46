//! Decides what to do for a ServerTag from its facts. The account's tags are listed before and after each change.
//! A request that may have taken effect is only repeated after lists have shown that it has not.

mod deletion;
#[cfg(test)]
pub(crate) mod tests;

use super::facts::{Rename, TagFacts, users};
use crate::{
    account::{
        priority::Priority,
        view::{AccountView, ListKind, TagsByName},
    },
    explanation::{Explanation, ReadyState},
    read_only::Effect,
    reconcile::{self, ReadSource},
    resolved_account::{Purpose, explain_blocked},
    wording::WHEN_RATE_ALLOWS,
};
use api::{
    Interval, Reason,
    names::RESERVED_PREFIX,
    tag::{RenamePolicy, ServerTagStatus, TagAnnotation},
};
use std::time::Duration;

/// A decision about a tag.
pub type TagDecision = reconcile::Decision<ServerTagStatus, TagEffect>;

/// Shortest interval between status updates that change only the server count.
const COUNTS: Duration = Duration::from_secs(60);
/// Delay before a refused request is retried.
const REFUSED: Duration = Duration::from_secs(300);

/// What a decision asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagEffect {
    /// Add the finalizer, and an annotation with the tag that this object creates or renames.
    AddFinalizer {
        /// The annotation. None if nothing is created.
        annotation: Option<TagAnnotation>,
    },
    /// Create the tag.
    Make {
        /// The tag.
        tag: String,
    },
    /// Rename a tag.
    Rename {
        /// The old and the new name.
        rename: Rename,
        /// Whether the tag must be unused.
        only_unused: bool,
    },
    /// Delete the tag from the account.
    Delete {
        /// The tag.
        tag: String,
        /// Whether the tag must be unused.
        only_unused: bool,
    },
    /// Remove the finalizer.
    RemoveFinalizer,
}

impl Effect for TagEffect {
    fn change(&self) -> Option<String> {
        Some(match self {
            Self::AddFinalizer { annotation } => match annotation {
                Some(TagAnnotation {
                    from: Some(from),
                    tag,
                    ..
                }) => format!("rename tag {from:?} to {tag:?}"),
                Some(TagAnnotation {
                    made: true, tag, ..
                }) => format!("create tag {tag:?}"),
                _ => "write metadata of this object".to_owned(),
            },
            Self::Make { tag } => format!("create tag {tag:?}"),
            Self::Rename { rename, .. } => {
                format!("rename tag {:?} to {:?}", rename.from, rename.to)
            }
            Self::Delete { tag, .. } => format!("delete tag {tag:?}"),
            Self::RemoveFinalizer => "remove the finalizer, which ends this object".to_owned(),
        })
    }
}

/// Decides what to do for one tag.
pub fn decide(facts: &TagFacts) -> TagDecision {
    let (subject, list) = (&facts.subject, ListKind::Tags);
    match subject.is_deleting() {
        true => deletion::decide_deletion(facts).block_change(subject, Some(list)),
        false => reconcile_tag(facts)
            .block_change(subject, Some(list))
            .answering(subject, || ReadSource::List(list)),
    }
}

/// Reconciles an object that is not being deleted: uses the account's tag, or creates it.
fn reconcile_tag(facts: &TagFacts) -> TagDecision {
    let wanted = facts.subject.object.wanted();
    if let Some(explanation) = unusable(wanted) {
        return wait_with_reason(facts, explanation);
    }
    // Checked before conflicts: an object that may not use the account must not learn who does.
    let view = match facts.subject.account.usable(Purpose::Change) {
        Ok(view) => view,
        Err(explanation) => return wait_with_reason(facts, explanation),
    };
    if let Some(owner) = &facts.conflicting_owners.owner {
        let message = format!(
            "Tag {wanted:?} of this account belongs to the older {}. {}; this one takes over when the other is gone",
            owner.named("ServerTag", facts.subject.namespace()),
            owner.remedy(facts.subject.namespace())
        );
        return wait_with_reason(
            facts,
            Explanation::stalled(Reason::OwnershipConflict, message),
        );
    }
    if let Some(decision) = unsettled(facts) {
        return decision;
    }
    let Some((began, tags)) = facts.tags() else {
        return wait_for_tag_list(facts, facts.not_before());
    };
    let account_id = match facts.subject.account_id() {
        Ok(account_id) => account_id,
        Err(explanation) => return wait_with_reason(facts, explanation),
    };
    let now = current(facts, tags);
    if now.is_none()
        && let Some(next) = facts.next_absence_check(tags)
    {
        return TagDecision::unchanged(&facts.subject).wanting(ListKind::Tags, next);
    }
    match (now, tags.contains_key(wanted)) {
        (Some(now), _) if now == wanted => available(facts, wanted, began, tags),
        // The current tag is recorded before a change, because the annotation of the change replaces it.
        (Some(now), _) if facts.recorded() != Some(&now) => record(facts, now),
        (Some(from), false) => {
            let to = wanted.to_owned();
            rename(facts, view, Rename { from, to }, account_id, (began, tags))
        }
        (Some(from), true) => {
            let to = wanted.to_owned();
            replace(facts, view, Rename { from, to }, (began, tags))
        }
        (None, true) => available(facts, wanted, began, tags),
        (None, false) => make(facts, wanted, account_id, began),
    }
}

/// Rejects what the schema rejects, for objects stored without schema validation.
fn unusable(tag: &str) -> Option<Explanation> {
    let is_letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'-');
    let message = if tag.starts_with(RESERVED_PREFIX) {
        format!(
            "The prefix {RESERVED_PREFIX} is reserved for the operator's own tags. Choose another name in spec.tag"
        )
    } else if !(1..=64).contains(&tag.len()) || !tag.bytes().all(is_letter) {
        "A tag has 1 to 64 letters, digits, _, : and -. Correct spec.tag".to_owned()
    } else {
        return None;
    };
    Some(Explanation::stalled(Reason::InvalidSpec, message))
}

/// The tag that this object has in the account now.
fn current(facts: &TagFacts, tags: &TagsByName) -> Option<String> {
    let annotated = facts
        .effective_annotation()
        .filter(|annotation| tags.contains_key(&annotation.tag));
    match facts.recorded() {
        Some(tag) => {
            // Renamed, but not recorded yet.
            let renamed = annotated.filter(|annotation| annotation.from.as_deref() == Some(tag));
            let renamed = renamed
                .filter(|annotation| facts.has_created(&annotation.tag) || !tags.contains_key(tag));
            let stays = tags.contains_key(tag).then(|| tag.to_owned());
            renamed.map(|annotation| annotation.tag).or(stays)
        }
        // Created, but not recorded yet.
        None => annotated
            .filter(|annotation| annotation.made)
            .map(|annotation| annotation.tag),
    }
}

/// Waits while the outcome of a rename is unknown.
fn unsettled(facts: &TagFacts) -> Option<TagDecision> {
    let unknown = facts.subject.memory.own.unknown.as_ref()?;
    let spacing = facts.subject.view()?.times.absence_check_interval;
    let Rename { from, to } = &unknown.rename;
    let message = format!(
        "Not known yet whether {from:?} was renamed to {to:?}; checked every {} until it is",
        Interval(spacing)
    );
    let next = unknown.not_done.map_or(unknown.since, |at| at + spacing);
    let explanation = Explanation::waits(Reason::OutcomeUnknown, message);
    Some(wait_with_reason(facts, explanation).wanting(ListKind::Tags, next))
}

/// Reports the tag as available.
fn available(facts: &TagFacts, tag: &str, began: Duration, tags: &TagsByName) -> TagDecision {
    let subject = &facts.subject;
    if !subject.has_finalizer() {
        return subject.add_finalizer(TagEffect::AddFinalizer { annotation: None });
    }
    // The request was refused, so another user created the tag. The annotation records that for later processes.
    if let Some(annotation) = facts
        .effective_annotation()
        .filter(|annotation| Some(annotation) != facts.written_annotation().as_ref())
    {
        return TagDecision::unchanged(subject).with(TagEffect::AddFinalizer {
            annotation: Some(annotation),
        });
    }
    let mut status = subject.status();
    let count = tags
        .get(tag)
        .and_then(|record| record.servers.or(record.resources))
        .map(|count| i32::try_from(count).unwrap_or(i32::MAX));
    let is_new = status.tag.as_deref() != Some(tag);
    status.tag = Some(tag.to_owned());
    status.created_by_object = Some(facts.has_made(tag));
    status.account_ref = Some(subject.object.account());
    // Counts change with every server, so a change of the count alone waits.
    let rest = (subject.memory.reported)
        .and_then(|at| (at + COUNTS).checked_sub(subject.now.mono))
        .filter(|rest| !rest.is_zero() && !is_new && status.server_count != count);
    if rest.is_none() {
        status.server_count = count;
    }
    let idle = subject
        .view()
        .map_or(COUNTS, |v| v.times.idle_poll_interval);
    let decision = TagDecision::from_status(status)
        .because(Explanation::ready(
            Reason::Available,
            "The account has the tag",
        ))
        .wanting(ListKind::Tags, began + idle);
    match rest {
        Some(rest) => decision.requeue_after(rest),
        None => decision,
    }
}

/// Records that the account has this object's tag under another name than `spec.tag`.
fn record(facts: &TagFacts, tag: String) -> TagDecision {
    let mut status = facts.subject.status();
    status.created_by_object = Some(facts.has_made(&tag));
    status.account_ref = Some(facts.subject.object.account());
    let message = format!("The account has the tag as {tag:?}; it is renamed {WHEN_RATE_ALLOWS}");
    status.tag = Some(tag);
    TagDecision::from_status(status)
        .because(Explanation::waits(Reason::Progressing, message))
        .requeue_once_written()
}

/// Creates the tag, after the annotation that records it.
fn make(facts: &TagFacts, tag: &str, account_id: &str, began: Duration) -> TagDecision {
    let subject = &facts.subject;
    if let Some(decision) = wait_until_listed(facts, tag, began).or_else(|| refused(facts, tag)) {
        return decision;
    }
    let written = facts.written_annotation();
    let is_annotated = written.is_some_and(|annotation| annotation.made && annotation.tag == tag);
    if !subject.has_finalizer() || !is_annotated {
        let annotation = TagAnnotation {
            uid: subject.uid().to_owned(),
            account_id: account_id.to_owned(),
            tag: tag.to_owned(),
            from: None,
            made: true,
        };
        return subject.add_finalizer(TagEffect::AddFinalizer {
            annotation: Some(annotation),
        });
    }
    let tag = tag.to_owned();
    TagDecision::unchanged(subject).with(TagEffect::Make { tag })
}

/// Renames the previous tag to the wanted one, which the account lacks.
fn rename(
    facts: &TagFacts,
    view: &AccountView,
    rename: Rename,
    account_id: &str,
    (began, tags): (Duration, &TagsByName),
) -> TagDecision {
    let subject = &facts.subject;
    let Rename { from, to } = &rename;
    if subject.object.spec.rename_policy != Some(RenamePolicy::Rename) {
        let message = format!(
            "The account has the tag as {from:?}. Set spec.renamePolicy to Rename, or spec.tag to {from:?}"
        );
        return wait_with_reason(facts, Explanation::stalled(Reason::InvalidSpec, message));
    }
    let only_unused = facts.is_shared();
    if let Some(why) = may_not_touch(facts, from, tags, "renamed") {
        return wait_unchanged(facts, view, why, began);
    }
    if let Some(decision) = wait_until_listed(facts, to, began).or_else(|| refused(facts, to)) {
        return decision;
    }
    // The annotation is written before the request is sent.
    let annotation = TagAnnotation {
        uid: subject.uid().to_owned(),
        account_id: account_id.to_owned(),
        tag: rename.to.clone(),
        from: Some(rename.from.clone()),
        made: facts.has_made(&rename.from),
    };
    if !subject.has_finalizer() || facts.effective_annotation().as_ref() != Some(&annotation) {
        return subject.add_finalizer(TagEffect::AddFinalizer {
            annotation: Some(annotation),
        });
    }
    TagDecision::unchanged(subject).with(TagEffect::Rename {
        rename,
        only_unused,
    })
}

/// The account has both the previous and the wanted tag. If servers already have the wanted one, the previous one is
/// deleted once no server has it.
fn replace(
    facts: &TagFacts,
    view: &AccountView,
    rename: Rename,
    (began, tags): (Duration, &TagsByName),
) -> TagDecision {
    let Rename { from, to } = &rename;
    let is_renamed = facts.subject.object.spec.rename_policy == Some(RenamePolicy::Rename);
    let count = |tag: &str| tags.get(tag).and_then(users);
    // A tag that another user created is not deleted.
    if !is_renamed || !facts.has_made(from) || count(to) <= Some(0) {
        let message = format!(
            "The account has a tag {to:?} already, so {from:?} cannot be renamed to it. Set spec.tag to another name, or delete {to:?}"
        );
        let explanation = Explanation::stalled(Reason::NameTaken, message);
        return wait_unchanged(facts, view, explanation, began);
    }
    if let Some(why) = may_not_touch(facts, from, tags, "renamed") {
        return wait_unchanged(facts, view, why, began);
    }
    if count(from) != Some(0) {
        let message = format!(
            "Servers have the tag {from:?}, and others have {to:?} already; {from:?} is deleted when none has it. Change it to {to:?} in their spec.tags"
        );
        let explanation = Explanation::missing(Reason::InUse, message);
        return wait_unchanged(facts, view, explanation, began);
    }
    // The annotation of a rename would claim that this object created the wanted tag.
    if let Some(annotation) = facts
        .written_annotation()
        .filter(|annotation| annotation.from.is_some())
    {
        let (tag, from) = (rename.from, None);
        let annotation = TagAnnotation {
            tag,
            from,
            ..annotation
        };
        return facts.subject.add_finalizer(TagEffect::AddFinalizer {
            annotation: Some(annotation),
        });
    }
    TagDecision::unchanged(&facts.subject).with(TagEffect::Delete {
        tag: rename.from,
        only_unused: true,
    })
}

/// Why a tag of a shared account is not changed: another user created it, or servers have it.
fn may_not_touch(
    facts: &TagFacts,
    tag: &str,
    tags: &TagsByName,
    done: &str,
) -> Option<Explanation> {
    if !facts.is_shared() {
        return None;
    }
    if !facts.has_made(tag) {
        let message = format!(
            "Tag {tag:?} existed before this object. Through a ClusterProviderAccount only the object that made a tag may have it {done}: use another name, or a ProviderAccount"
        );
        return Some(Explanation::stalled(Reason::OwnershipConflict, message));
    }
    let used = tags.get(tag).is_some_and(|record| users(record) != Some(0));
    used.then(|| {
        let message = format!(
            "Servers have the tag {tag:?}; through a ClusterProviderAccount it is {done} when none has it. Remove it from their spec.tags"
        );
        Explanation::missing(Reason::InUse, message)
    })
}

/// Waits while the provider has accepted the tag but does not list it yet.
fn wait_until_listed(facts: &TagFacts, tag: &str, began: Duration) -> Option<TagDecision> {
    let times = &facts.subject.view()?.times;
    let (made, at) = facts.subject.memory.own.made.as_ref()?;
    let is_late = made == tag && facts.subject.now.mono < *at + times.absence_grace_period;
    is_late.then(|| {
        let message = format!(
            "The provider accepted the tag {tag:?}, but does not list it yet; made again after {}",
            Interval(times.absence_grace_period)
        );
        wait_with_reason(facts, Explanation::waits(Reason::Progressing, message))
            .wanting(ListKind::Tags, began + times.absence_check_interval)
    })
}

/// Waits while a recent refusal of the tag applies.
fn refused(facts: &TagFacts, tag: &str) -> Option<TagDecision> {
    let refused = facts.subject.memory.own.refused.as_ref()?;
    let rest = (refused.at + REFUSED).checked_sub(facts.subject.now.mono)?;
    (refused.tag == tag && !rest.is_zero()).then(|| {
        let message = format!(
            "The provider refuses the tag {tag:?}; {}; retrying every {}. Correct spec.tag if the provider does not accept the name",
            refused.message,
            Interval(REFUSED)
        );
        wait_with_reason(facts, Explanation::stalled(Reason::RequestRefused, message)).requeue_after(rest)
    })
}

/// Waits for a list of the tags. Status changes only if lists fail.
fn wait_for_tag_list(facts: &TagFacts, not_before: Duration) -> TagDecision {
    let view = facts.subject.view();
    let decision = match view.and_then(|view| view.list_error(ListKind::Tags)) {
        Some((reason, message)) => {
            wait_with_reason(facts, explain_blocked(*reason, message.clone()))
        }
        None => TagDecision::unchanged(&facts.subject),
    };
    decision.wanting(ListKind::Tags, not_before)
}

/// The unchanged status with this explanation.
fn wait_with_reason(facts: &TagFacts, explanation: Explanation) -> TagDecision {
    TagDecision::unchanged(&facts.subject).because(explanation)
}

/// Explains why no tag is changed, and checks again with the next list.
fn wait_unchanged(
    facts: &TagFacts,
    view: &AccountView,
    why: Explanation,
    began: Duration,
) -> TagDecision {
    let every = match why.ready_state {
        ReadyState::Missing => view.times.active_poll_interval,
        _ => view.times.idle_poll_interval,
    };
    wait_with_reason(facts, why.checked_every(every)).wanting(ListKind::Tags, began + every)
}

/// Priority and number of calls of an effect.
pub fn permit_for(effect: &TagEffect) -> Option<(Priority, u32)> {
    match effect {
        TagEffect::AddFinalizer { .. } | TagEffect::RemoveFinalizer => None,
        TagEffect::Make { .. } => Some((Priority::Change, 1)),
        // One call lists the tags first.
        TagEffect::Rename { .. } | TagEffect::Delete { .. } => Some((Priority::Change, 2)),
    }
}
