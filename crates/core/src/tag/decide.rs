//! The decision: facts in, one decision out.
//!
//! The account's list of tags is looked at before and after each change. A request that may have taken effect is
//! never repeated before looks have shown that it has not.

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
    pass::{self, ReadSource},
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
pub type TagDecision = pass::Decision<ServerTagStatus, TagEffect>;

/// Counts alone are written this often at most.
const COUNTS: Duration = Duration::from_secs(60);
/// What the provider refused is tried again after this time.
const REFUSED: Duration = Duration::from_secs(300);

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagEffect {
    /// Put the finalizer on, with a note of what this object makes.
    AddFinalizer {
        /// The note; None: nothing is made.
        annotation: Option<TagAnnotation>,
    },
    /// Make the tag.
    Make {
        /// The tag.
        tag: String,
    },
    /// Rename a tag.
    Rename {
        /// From which to which.
        rename: Rename,
        /// Whether it must be a tag that nothing bears.
        only_unused: bool,
    },
    /// Take the tag out of the account.
    Delete {
        /// The tag.
        tag: String,
        /// Whether it must be a tag that nothing bears.
        only_unused: bool,
    },
    /// Take the finalizer off.
    RemoveFinalizer,
}

/// Decides what to do for one tag.
pub fn decide(facts: &TagFacts) -> TagDecision {
    match facts.subject.is_deleting() {
        true => deletion::decide_deletion(facts),
        false => {
            reconcile_tag(facts).answering(&facts.subject, || ReadSource::List(ListKind::Tags))
        }
    }
}

/// A living object: its tag is there, or is made.
fn reconcile_tag(facts: &TagFacts) -> TagDecision {
    let wanted = facts.subject.object.wanted();
    if let Some(cause) = unusable(wanted) {
        return wait_with_reason(facts, cause);
    }
    // Who may not use the account learns nothing of those who do.
    let view = match facts.subject.account.usable(Purpose::Change) {
        Ok(view) => view,
        Err(cause) => return wait_with_reason(facts, cause),
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
    let lineage = match facts.subject.account_id() {
        Ok(lineage) => lineage,
        Err(cause) => return wait_with_reason(facts, cause),
    };
    let now = current(facts, tags);
    if now.is_none()
        && let Some(next) = facts.next_absence_check(tags)
    {
        return TagDecision::unchanged(&facts.subject).wanting(ListKind::Tags, next);
    }
    match (now, tags.contains_key(wanted)) {
        (Some(now), _) if now == wanted => available(facts, wanted, began, tags),
        // What is to be changed is on record first: the note of a change would hide where it came from.
        (Some(now), _) if facts.recorded() != Some(&now) => record(facts, now),
        (Some(from), false) => {
            let to = wanted.to_owned();
            rename(facts, view, Rename { from, to }, lineage, (began, tags))
        }
        (Some(from), true) => {
            let to = wanted.to_owned();
            replace(facts, view, Rename { from, to }, (began, tags))
        }
        (None, true) => available(facts, wanted, began, tags),
        (None, false) => make(facts, wanted, lineage, began),
    }
}

/// What the schema refuses, in an object that was stored past it.
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

/// The tag that the account has for this object now.
fn current(facts: &TagFacts, tags: &TagsByName) -> Option<String> {
    let noted = facts
        .effective_annotation()
        .filter(|note| tags.contains_key(&note.tag));
    match facts.recorded() {
        Some(tag) => {
            // Renamed, and that is not on record yet.
            let renamed = noted.filter(|note| note.from.as_deref() == Some(tag));
            let renamed =
                renamed.filter(|note| facts.has_created(&note.tag) || !tags.contains_key(tag));
            let stays = tags.contains_key(tag).then(|| tag.to_owned());
            renamed.map(|note| note.tag).or(stays)
        }
        // Made, and that is not on record yet.
        None => noted.filter(|note| note.made).map(|note| note.tag),
    }
}

/// A rename of unknown outcome is looked for first.
fn unsettled(facts: &TagFacts) -> Option<TagDecision> {
    let unknown = facts.subject.memory.own.unknown.as_ref()?;
    let spacing = facts.subject.view()?.times.absence_check_interval;
    let Rename { from, to } = &unknown.rename;
    let message = format!(
        "Not known yet whether {from:?} was renamed to {to:?}; checked every {} until it is",
        Interval(spacing)
    );
    let next = unknown.not_done.map_or(unknown.since, |at| at + spacing);
    let cause = Explanation::waits(Reason::OutcomeUnknown, message);
    Some(wait_with_reason(facts, cause).wanting(ListKind::Tags, next))
}

/// The account has the tag.
fn available(facts: &TagFacts, tag: &str, began: Duration, tags: &TagsByName) -> TagDecision {
    let subject = &facts.subject;
    if !subject.has_finalizer() {
        return subject.add_finalizer(TagEffect::AddFinalizer { annotation: None });
    }
    // It was refused, so somebody else made it: that has to outlive this process.
    if let Some(note) = facts
        .effective_annotation()
        .filter(|note| Some(note) != facts.written_annotation().as_ref())
    {
        return TagDecision::unchanged(subject).with(TagEffect::AddFinalizer {
            annotation: Some(note),
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
    // Counts change with every server: what else there is to say does not wait for them, nor do they for it.
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

/// The account has a tag of this object under another name than the one that is declared now.
fn record(facts: &TagFacts, tag: String) -> TagDecision {
    let mut status = facts.subject.status();
    status.created_by_object = Some(facts.has_made(&tag));
    status.account_ref = Some(facts.subject.object.account());
    let message = format!("The account has the tag as {tag:?}; it is renamed {WHEN_RATE_ALLOWS}");
    status.tag = Some(tag);
    TagDecision::from_status(status)
        .because(Explanation::waits(Reason::Progressing, message))
        .requeue_now()
}

/// The account lacks the tag.
fn make(facts: &TagFacts, tag: &str, lineage: &str, began: Duration) -> TagDecision {
    let subject = &facts.subject;
    if let Some(decision) = wait_until_listed(facts, tag, began).or_else(|| refused(facts, tag)) {
        return decision;
    }
    let written = facts.written_annotation();
    let is_noted = written.is_some_and(|note| note.made && note.tag == tag);
    if !subject.has_finalizer() || !is_noted {
        let note = TagAnnotation {
            uid: subject.uid().to_owned(),
            account_id: lineage.to_owned(),
            tag: tag.to_owned(),
            from: None,
            made: true,
        };
        return subject.add_finalizer(TagEffect::AddFinalizer {
            annotation: Some(note),
        });
    }
    let tag = tag.to_owned();
    TagDecision::unchanged(subject).with(TagEffect::Make { tag })
}

/// The account has the former tag, and lacks the one that is declared now.
fn rename(
    facts: &TagFacts,
    view: &AccountView,
    rename: Rename,
    lineage: &str,
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
    // It is noted before it is done.
    let note = TagAnnotation {
        uid: subject.uid().to_owned(),
        account_id: lineage.to_owned(),
        tag: rename.to.clone(),
        from: Some(rename.from.clone()),
        made: facts.has_made(&rename.from),
    };
    if !subject.has_finalizer() || facts.effective_annotation().as_ref() != Some(&note) {
        return subject.add_finalizer(TagEffect::AddFinalizer {
            annotation: Some(note),
        });
    }
    TagDecision::unchanged(subject).with(TagEffect::Rename {
        rename,
        only_unused,
    })
}

/// The account has both the former tag and the one that is declared now. Where servers have the new one, as their
/// `spec.tags` says by now, the former one is deleted when no server has it.
fn replace(
    facts: &TagFacts,
    view: &AccountView,
    rename: Rename,
    (began, tags): (Duration, &TagsByName),
) -> TagDecision {
    let Rename { from, to } = &rename;
    let is_renamed = facts.subject.object.spec.rename_policy == Some(RenamePolicy::Rename);
    let count = |tag: &str| tags.get(tag).and_then(users);
    // One that others made is not deleted for it.
    if !is_renamed || !facts.has_made(from) || count(to) <= Some(0) {
        let message = format!(
            "The account has a tag {to:?} already, so {from:?} cannot be renamed to it. Set spec.tag to another name, or delete {to:?}"
        );
        let cause = Explanation::stalled(Reason::NameTaken, message);
        return wait_unchanged(facts, view, cause, began);
    }
    if let Some(why) = may_not_touch(facts, from, tags, "renamed") {
        return wait_unchanged(facts, view, why, began);
    }
    if count(from) != Some(0) {
        let message = format!(
            "Servers have the tag {from:?}, and others have {to:?} already; {from:?} is deleted when none has it. Change it to {to:?} in their spec.tags"
        );
        let cause = Explanation::missing(Reason::InUse, message);
        return wait_unchanged(facts, view, cause, began);
    }
    // The note of a rename would say that this object made the tag that is declared now.
    if let Some(note) = facts
        .written_annotation()
        .filter(|note| note.from.is_some())
    {
        let (tag, from) = (rename.from, None);
        let note = TagAnnotation { tag, from, ..note };
        return facts.subject.add_finalizer(TagEffect::AddFinalizer {
            annotation: Some(note),
        });
    }
    TagDecision::unchanged(&facts.subject).with(TagEffect::Delete {
        tag: rename.from,
        only_unused: true,
    })
}

/// Why a tag is left alone that others may rely on: through an account of many namespaces nobody renames or
/// deletes what another has made, or what servers bear.
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

/// The provider took our request, and its list does not show it yet.
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

/// The provider said no a while ago.
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

/// Waits for a look at the tags. The first one of a new object is not worth a write, unless it fails.
fn wait_for_tag_list(facts: &TagFacts, not_before: Duration) -> TagDecision {
    let view = facts.subject.view();
    let decision = match view.and_then(|view| view.error_of(ListKind::Tags)) {
        Some((reason, message)) => {
            wait_with_reason(facts, explain_blocked(*reason, message.clone()))
        }
        None => TagDecision::unchanged(&facts.subject),
    };
    decision.wanting(ListKind::Tags, not_before)
}

/// Says why nothing is done; what is known of the tag stays.
fn wait_with_reason(facts: &TagFacts, cause: Explanation) -> TagDecision {
    TagDecision::unchanged(&facts.subject).because(cause)
}

/// Says why the account's tags stay as they are, until a list of them shows otherwise.
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

/// The lane of an effect and the number of its calls.
pub fn permit_for(effect: &TagEffect) -> Option<(Priority, u32)> {
    match effect {
        TagEffect::AddFinalizer { .. } | TagEffect::RemoveFinalizer => None,
        TagEffect::Make { .. } => Some((Priority::Change, 1)),
        // A look goes first.
        TagEffect::Rename { .. } | TagEffect::Delete { .. } => Some((Priority::Change, 2)),
    }
}
