//! What a decision about a tag rests on, and what this process remembers of one.

use crate::{
    account::view::{AccountView, TagsByName},
    last_error::LastError,
    ownership::ConflictingOwners,
    pass::{Ended, Subject},
};
use api::{ServerTag, names::TAG_ANNOTATION, references::AccountKind, tag::TagAnnotation};
use hosting_types::TagRecord;
use std::time::Duration;

/// All that one decision is allowed to know.
#[derive(Clone)]
pub struct TagFacts {
    /// The object and its account.
    pub subject: Subject<ServerTag, TagMemory>,
    /// Who else wants the tag.
    pub conflicting_owners: ConflictingOwners,
}

/// What this process remembers of a tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TagMemory {
    /// The connection over which all this was seen; over another one it says nothing.
    pub connection: Option<String>,
    /// A look that started before this moment does not show our last change.
    pub changed: Option<Duration>,
    /// Whether this process has written the note, and sent nothing since.
    pub is_fresh: bool,
    /// A tag of this object that the account does not show, and the start of the first look that did not: a list may
    /// be late, or falsely empty, so one is not enough.
    pub unseen: Option<(String, Duration)>,
    /// The tag that this process has deleted.
    pub deleted: Option<String>,
    /// The tag that a request of ours has made or brought about by renaming, and when.
    pub made: Option<(String, Duration)>,
    /// The rename that is known not to be under way: noted by this process, or found out by looking.
    pub settled: Option<Rename>,
    /// A rename of unknown outcome.
    pub unknown: Option<UnknownRename>,
    /// What the provider said no to.
    pub refused: Option<TagRefusal>,
}

/// One tag becomes another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rename {
    /// The tag before.
    pub from: String,
    /// The tag after.
    pub to: String,
}

/// A rename whose answer was lost, here or in an earlier process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnknownRename {
    /// The rename.
    pub rename: Rename,
    /// Looks that started before this moment say nothing of it.
    pub since: Duration,
    /// The start of the first look that shows it as not done; a list may be late, so one is not enough.
    pub not_done: Option<Duration>,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TagRefusal {
    /// The tag that was to be made, or to be renamed to.
    pub tag: String,
    /// What the provider said.
    pub message: String,
    /// When.
    pub at: Duration,
}

impl TagFacts {
    /// The tags that the account has, with the start of the look, where that may be relied on: it started after
    /// this process began to act for the object and after its last change.
    pub fn tags(&self) -> Option<(Duration, &TagsByName)> {
        let (began, tags) = self.subject.view()?.tags.as_ref()?;
        (*began >= self.not_before()).then_some((*began, tags))
    }

    /// Looks that started before this moment may not be relied on.
    pub fn not_before(&self) -> Duration {
        let changed = self.subject.memory.own.changed;
        self.subject.since().max(changed.unwrap_or_default())
    }

    /// The operator's note, where it is of this very object and of the account as it is. What was not
    /// asked for yet, or was refused, was not made, whatever the note says.
    pub fn effective_annotation(&self) -> Option<TagAnnotation> {
        let mut note = self.written_annotation()?;
        let own = &self.subject.memory.own;
        let is_refused = own.refused.as_ref().is_some_and(|r| r.tag == note.tag);
        // One that is on record as made is refused since it is there, whatever the list shows.
        let is_made = self.is_on_record(&note.tag) || !(is_refused || own.is_fresh);
        note.made &= note.from.is_some() || is_made;
        Some(note)
    }

    /// The same as it is written.
    pub fn written_annotation(&self) -> Option<TagAnnotation> {
        let text = self.subject.annotation(TAG_ANNOTATION)?;
        let note: TagAnnotation = serde_json::from_str(text).ok()?;
        let lineage = self.subject.view()?.account_id.as_ref();
        (note.uid == self.subject.uid() && Some(&note.account_id) == lineage).then_some(note)
    }

    /// The tag that is on record as this object's.
    pub fn recorded(&self) -> Option<&str> {
        self.subject.object.status.as_ref()?.tag.as_deref()
    }

    /// The rename that was noted and is not on record as done.
    pub fn open_rename(&self) -> Option<Rename> {
        let rename = rename_of(&self.written_annotation()?)?;
        (self.recorded() == Some(&rename.from)).then_some(rename)
    }

    /// Whether a request of this process made the tag, or another one into it.
    pub fn has_created(&self, tag: &str) -> bool {
        let made = self.subject.memory.own.made.as_ref();
        made.is_some_and(|(made, _)| made == tag)
    }

    /// Whether the note says that this object makes a tag, or has made it.
    pub fn is_annotated_as_made(&self, tag: &str) -> bool {
        self.effective_annotation()
            .is_some_and(|note| note.made && (note.tag == tag || note.from.as_deref() == Some(tag)))
    }

    /// Whether this object made a tag. The note is an annotation, which everybody may write who may write the
    /// object: where others rely on the account, only what this operator has seen or put into status counts.
    pub fn has_made(&self, tag: &str) -> bool {
        let is_seen = || self.has_created(tag) || self.is_on_record(tag);
        self.is_annotated_as_made(tag) && (!self.is_shared() || is_seen())
    }

    /// Whether status says that this object made the tag.
    fn is_on_record(&self, tag: &str) -> bool {
        let status = self.subject.object.status.as_ref();
        let created = status.and_then(|status| status.created_by_object);
        created == Some(true) && self.recorded() == Some(tag)
    }

    /// A tag that the account should show: the one on record, or one that may have been made.
    fn expected(&self) -> Option<String> {
        let recorded = self.recorded().map(str::to_owned);
        let made = self.written_annotation().filter(|note| note.made);
        recorded.or(made.map(|note| note.tag))
    }

    /// When the next look has to start that, with those before, shows that a tag is not there; None: it is shown, or
    /// certainly gone, or never was.
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

/// The rename that a note speaks of.
pub fn rename_of(note: &TagAnnotation) -> Option<Rename> {
    note.from.clone().map(|from| Rename {
        from,
        to: note.tag.clone(),
    })
}

/// How many of any kind bear a tag; None: the answer does not say.
pub fn users(record: &TagRecord) -> Option<i64> {
    record.resources.max(record.servers)
}

impl TagMemory {
    /// Brings what is remembered up to what the account shows.
    pub fn refresh(&mut self, facts: &TagFacts) {
        let view = facts.subject.view();
        let connection = view.and_then(|view| view.connection.clone());
        if connection.is_some() && self.connection != connection {
            *self = Self {
                connection,
                ..Self::default()
            };
        }
        self.refresh_rename(facts.open_rename(), facts.subject.since(), view);
        self.refresh_absence(facts);
    }

    /// Whether a tag that should be there is shown.
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

    /// What became of a rename. `noted`: the one that stands in the object's note.
    pub(super) fn refresh_rename(
        &mut self,
        noted: Option<Rename>,
        since: Duration,
        view: Option<&AccountView>,
    ) {
        let Some(noted) = noted else {
            self.unknown = None;
            return;
        };
        if self.settled.as_ref() == Some(&noted) {
            return;
        }
        let unknown = match self.unknown.take() {
            Some(unknown) if unknown.rename == noted => unknown,
            // An earlier process noted it, and may have sent it a moment ago.
            _ => UnknownRename {
                rename: noted,
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

    /// What a look shows of the rename of unknown outcome.
    fn resolve_rename(&mut self, began: Duration, tags: &TagsByName, spacing: Duration) {
        let Some(unknown) = &mut self.unknown else {
            return;
        };
        if began < unknown.since {
            return;
        }
        let to = &unknown.rename.to;
        // Neither of them is no answer: the list may be falsely empty.
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

/// What an effect brought to light.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagObservation {
    /// A write to the object, or a request of which nothing is to be remembered, ended so.
    Wrote(Ended),
    /// The note stands; it names this rename.
    Annotated(Option<Rename>),
    /// The tag is made, or another one renamed to it.
    Made {
        /// The tag.
        tag: String,
        /// When.
        at: Duration,
    },
    /// The tag is deleted.
    Deleted {
        /// The tag.
        tag: String,
        /// When.
        at: Duration,
    },
    /// The account is not as it was shown: it has a tag that was absent, or lacks one that was there.
    Differs {
        /// When.
        at: Duration,
    },
    /// The provider said no.
    Refused(TagRefusal),
    /// Nobody knows whether it was done.
    Unknown {
        /// The rename, where it was one.
        rename: Option<Rename>,
        /// When the call ended.
        at: Duration,
        /// What went wrong.
        last_error: LastError,
    },
}

impl TagMemory {
    /// Takes in what was observed. Returns how the effect ended.
    pub fn record_observation(&mut self, observation: TagObservation) -> Ended {
        self.is_fresh &= matches!(observation, TagObservation::Wrote(_));
        match observation {
            TagObservation::Wrote(ended) => return ended,
            TagObservation::Annotated(rename) => {
                // Noted here, and not sent yet.
                self.is_fresh = true;
                self.unknown = None;
                self.settled = rename;
                // It says from here on what was made.
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
                last_error: trouble,
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
                return Ended::Failed(trouble);
            }
        }
        Ended::Done
    }
}
