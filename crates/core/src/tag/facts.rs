//! The facts that a decision on a ServerTag uses, and what this process remembers of a tag.

use crate::{
    account::view::{AccountView, TagsByName},
    last_error::LastError,
    ownership::ConflictingOwners,
    reconcile::{Ended, Subject},
};
use api::{ServerTag, names::TAG_ANNOTATION, references::AccountKind, tag::TagAnnotation};
use hosting_types::TagRecord;
use std::time::Duration;

/// All facts that a decision uses.
#[derive(Clone)]
pub struct TagFacts {
    /// The object and its account.
    pub subject: Subject<ServerTag, TagMemory>,
    /// The other objects that name the same tag.
    pub conflicting_owners: ConflictingOwners,
}

/// What this process remembers of a tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TagMemory {
    /// The credentials hash that all this was observed with. Another hash resets the memory.
    pub connection: Option<String>,
    /// When the last change was made. Lists that began earlier do not show it.
    pub changed: Option<Duration>,
    /// Whether this process has written the annotation and sent nothing since.
    pub is_fresh: bool,
    /// A missing tag of this object, and the start of the first list without it. A list may be late or wrongly empty,
    /// so one is not enough.
    pub unseen: Option<(String, Duration)>,
    /// The tag that this process has deleted.
    pub deleted: Option<String>,
    /// The tag that our request created or renamed to, and when.
    pub made: Option<(String, Duration)>,
    /// The rename that is known not to be in progress: annotated by this process, or settled by lists.
    pub settled: Option<Rename>,
    /// A rename of unknown outcome.
    pub unknown: Option<UnknownRename>,
    /// The provider's last refusal.
    pub refused: Option<TagRefusal>,
}

/// The rename of a tag.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rename {
    /// The old name.
    pub from: String,
    /// The new name.
    pub to: String,
}

/// A rename whose answer was lost, here or in an earlier process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnknownRename {
    /// The rename.
    pub rename: Rename,
    /// Lists that began before this moment do not count.
    pub since: Duration,
    /// Start of the first list that shows it as not done. A list may be late, so one is not enough.
    pub not_done: Option<Duration>,
}

/// A refusal by the provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TagRefusal {
    /// The tag to create or to rename to.
    pub tag: String,
    /// The provider's error text.
    pub message: String,
    /// When the provider refused it.
    pub at: Duration,
}

impl TagFacts {
    /// Updates the memory from the object and the account.
    pub fn refresh_memory(&mut self) {
        let mut own = self.subject.memory.own.clone();
        own.refresh(self);
        self.subject.memory.own = own;
    }

    /// The tags of the account and the start of that list. None unless the list began after this process became
    /// responsible for the object and after its last change.
    pub fn tags(&self) -> Option<(Duration, &TagsByName)> {
        let (began, tags) = self.subject.view()?.tags.as_ref()?;
        (*began >= self.not_before()).then_some((*began, tags))
    }

    /// Lists that began before this moment are not used.
    pub fn not_before(&self) -> Duration {
        let changed = self.subject.memory.own.changed;
        self.subject
            .observations_count_from()
            .max(changed.unwrap_or_default())
    }

    /// The annotation of this object and its current account. `made` is false while the tag was not requested yet or
    /// was refused.
    pub fn effective_annotation(&self) -> Option<TagAnnotation> {
        let mut annotation = self.written_annotation()?;
        let own = &self.subject.memory.own;
        let is_refused = own
            .refused
            .as_ref()
            .is_some_and(|r| r.tag == annotation.tag);
        // A tag that is recorded as created is refused because it exists.
        let is_made = self.is_recorded(&annotation.tag) || !(is_refused || own.is_fresh);
        annotation.made &= annotation.from.is_some() || is_made;
        Some(annotation)
    }

    /// The annotation of this object and its current account, as written.
    pub fn written_annotation(&self) -> Option<TagAnnotation> {
        let text = self.subject.annotation(TAG_ANNOTATION)?;
        let annotation: TagAnnotation = serde_json::from_str(text).ok()?;
        let account_id = self.subject.view()?.account_id.as_ref();
        (annotation.uid == self.subject.uid() && Some(&annotation.account_id) == account_id)
            .then_some(annotation)
    }

    /// The tag recorded in status.
    pub fn recorded(&self) -> Option<&str> {
        self.subject.object.status.as_ref()?.tag.as_deref()
    }

    /// The annotated rename that is not recorded as done.
    pub fn open_rename(&self) -> Option<Rename> {
        let rename = rename_of(&self.written_annotation()?)?;
        (self.recorded() == Some(&rename.from)).then_some(rename)
    }

    /// Whether a request of this process created the tag or renamed another one to it.
    pub fn has_created(&self, tag: &str) -> bool {
        let made = self.subject.memory.own.made.as_ref();
        made.is_some_and(|(made, _)| made == tag)
    }

    /// Whether the annotation says that this object creates or created the tag.
    pub fn is_annotated_as_made(&self, tag: &str) -> bool {
        self.effective_annotation().is_some_and(|annotation| {
            annotation.made && (annotation.tag == tag || annotation.from.as_deref() == Some(tag))
        })
    }

    /// Whether this object created the tag. Users can write the annotation, so in a shared account status or this
    /// process's memory must confirm it.
    pub fn has_made(&self, tag: &str) -> bool {
        let is_seen = || self.has_created(tag) || self.is_recorded(tag);
        self.is_annotated_as_made(tag) && (!self.is_shared() || is_seen())
    }

    /// Whether status says that this object created the tag.
    fn is_recorded(&self, tag: &str) -> bool {
        let status = self.subject.object.status.as_ref();
        let created = status.and_then(|status| status.created_by_object);
        created == Some(true) && self.recorded() == Some(tag)
    }

    /// The tag that the account should have: the recorded one, or the annotated one that may have been created.
    fn expected(&self) -> Option<String> {
        let recorded = self.recorded().map(str::to_owned);
        let made = self
            .written_annotation()
            .filter(|annotation| annotation.made);
        recorded.or(made.map(|annotation| annotation.tag))
    }

    /// When the next list must begin to confirm that a tag is missing. None if the tag is listed, confirmed missing or
    /// never existed.
    pub fn next_absence_check(&self, tags: &TagsByName) -> Option<Duration> {
        let own = &self.subject.memory.own;
        let (tag, first) = own.unseen.as_ref()?;
        let is_gone = own.is_fresh || own.deleted.as_ref() == Some(tag);
        let spacing = self.subject.view()?.times.absence_check_interval;
        let (began, _) = self.tags()?;
        let is_open = !is_gone && !tags.contains_key(tag) && began < *first + spacing;
        is_open.then(|| *first + spacing)
    }

    /// Whether other namespaces use the account too.
    pub fn is_shared(&self) -> bool {
        self.subject.object.account().kind == AccountKind::ClusterProviderAccount
    }
}

/// The rename that an annotation describes.
pub fn rename_of(annotation: &TagAnnotation) -> Option<Rename> {
    annotation.from.clone().map(|from| Rename {
        from,
        to: annotation.tag.clone(),
    })
}

/// The tag that an object claims. One that is being deleted claims its recorded tag, not the one in spec.
pub fn claimed_tag(object: &ServerTag) -> &str {
    let recorded = object.status.as_ref().and_then(|s| s.tag.as_deref());
    let ending = recorded.filter(|_| object.metadata.deletion_timestamp.is_some());
    ending.unwrap_or(object.wanted())
}

/// How many resources of any kind have the tag. None if the answer does not say.
pub fn users(record: &TagRecord) -> Option<i64> {
    record.resources.max(record.servers)
}

impl TagMemory {
    /// Updates the memory from the object and the account.
    pub fn refresh(&mut self, facts: &TagFacts) {
        let view = facts.subject.view();
        let connection = view.and_then(|view| view.credentials_hash.clone());
        if connection.is_some() && self.connection != connection {
            *self = Self {
                connection,
                ..Self::default()
            };
        }
        self.refresh_rename(
            facts.open_rename(),
            facts.subject.observations_count_from(),
            view,
        );
        self.refresh_absence(facts);
    }

    /// Records since when an expected tag is missing.
    fn refresh_absence(&mut self, facts: &TagFacts) {
        let Some((began, tags)) = facts.tags() else {
            return;
        };
        let expected = facts.expected().filter(|tag| !tags.contains_key(tag));
        self.unseen = expected.map(|tag| match self.unseen.take() {
            Some((unseen, first)) if unseen == tag => (tag, first),
            _ => (tag, began),
        });
    }

    /// Updates what is known of a rename. `annotated` is the rename in the object's annotation.
    pub(super) fn refresh_rename(
        &mut self,
        annotated: Option<Rename>,
        since: Duration,
        view: Option<&AccountView>,
    ) {
        let Some(annotated) = annotated else {
            self.unknown = None;
            return;
        };
        if self.settled.as_ref() == Some(&annotated) {
            return;
        }
        let unknown = match self.unknown.take() {
            Some(unknown) if unknown.rename == annotated => unknown,
            // An earlier process annotated it, and may have sent it a moment ago.
            _ => UnknownRename {
                rename: annotated,
                since,
                not_done: None,
            },
        };
        self.unknown = Some(unknown);
        let Some(view) = view else { return };
        if let Some((began, tags)) = &view.tags {
            self.resolve_rename(*began, tags, view.times.absence_check_interval);
        }
    }

    /// Resolves a rename of unknown outcome with a list that began at `began`.
    fn resolve_rename(&mut self, began: Duration, tags: &TagsByName, spacing: Duration) {
        let Some(unknown) = &mut self.unknown else {
            return;
        };
        if began < unknown.since {
            return;
        }
        let to = &unknown.rename.to;
        // One list without the new name is not enough, because it may be late or wrongly empty.
        let is_shown = tags.contains_key(to);
        let is_settled = match unknown.not_done {
            _ if is_shown => true,
            Some(first) => began >= first + spacing,
            None => {
                unknown.not_done = Some(began);
                false
            }
        };
        if is_settled {
            self.settled = self.unknown.take().map(|unknown| unknown.rename);
        }
    }
}

/// What an effect found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagObservation {
    /// A write to the object, or a request without anything to remember, ended.
    Wrote(Ended),
    /// The annotation is written. It has this rename, if any.
    Annotated(Option<Rename>),
    /// The tag was created, or another one renamed to it.
    Made {
        /// The tag.
        tag: String,
        /// When the call ended.
        at: Duration,
    },
    /// The tag was deleted.
    Deleted {
        /// The tag.
        tag: String,
        /// When the call ended.
        at: Duration,
    },
    /// The account differs from the list: it has a tag that was missing, or lacks one that was listed.
    Differs {
        /// When the call ended.
        at: Duration,
    },
    /// The provider refused the request.
    Refused(TagRefusal),
    /// The outcome of the call is unknown.
    Unknown {
        /// The rename, if it was one.
        rename: Option<Rename>,
        /// When the call ended.
        at: Duration,
        /// What went wrong.
        last_error: LastError,
    },
}

impl TagMemory {
    /// Records what an effect found out. Returns how the effect ended.
    pub fn record_observation(&mut self, observation: TagObservation) -> Ended {
        self.is_fresh &= matches!(observation, TagObservation::Wrote(_));
        match observation {
            TagObservation::Wrote(ended) => return ended,
            TagObservation::Annotated(rename) => {
                // Annotated by this process, and not sent yet.
                self.is_fresh = true;
                self.unknown = None;
                self.settled = rename;
                // From here on, the annotation says what was created.
                self.refused = None;
            }
            TagObservation::Made { tag, at } => {
                self.changed = Some(at);
                self.made = Some((tag, at));
                self.refused = None;
                self.deleted = None;
            }
            TagObservation::Deleted { tag, at } => {
                self.changed = Some(at);
                self.made = None;
                self.deleted = Some(tag);
            }
            TagObservation::Differs { at } => {
                self.changed = Some(at);
                self.made = None;
                return Ended::Stale;
            }
            TagObservation::Refused(refused) => {
                self.changed = Some(refused.at);
                self.refused = Some(refused);
            }
            TagObservation::Unknown {
                rename,
                at,
                last_error,
            } => {
                self.changed = Some(at);
                if let Some(rename) = rename {
                    self.settled = None;
                    self.unknown = Some(UnknownRename {
                        rename,
                        since: at,
                        not_done: None,
                    });
                }
                return Ended::Failed(last_error);
            }
        }
        Ended::Done
    }
}
