//! What one process remembers of one object between passes.
//!
//! Losing it is always safe: every proof that is collected here starts again after a restart.

use super::{
    decide::{
        Effect,
        outputs::{OutputState, Outputs},
        sent::Hashes,
    },
    install_memory::{InstallMemory, InstallObservation},
    password_memory::{PasswordEnd, PasswordMemory},
    tag_changes::{TagChange, TagChanges, TagEnd},
};
use crate::{
    backoff::{Backoff, LONGEST_PAUSE},
    contest::Contest,
    mark::Mark,
    patience::Patience,
    request::Asked,
    stored_keys::Found,
    trouble::Trouble,
};
use api::{
    outputs::{OutputPlace, OutputRecord},
    root_password::Installed,
    server::{OrderOutcome, OrderRecord},
};
use hosting_types::{Server, ServerStatus};
use std::time::Duration;

/// What could not be read is tried again after this, where no order waits for it.
const READ_AGAIN: Duration = Duration::from_secs(300);

/// Memory of one object, by the process that holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// The last own order that this process has seen or made, with its outcome where that is known.
    /// Survives what is stripped from the object while the process lives.
    pub order: Option<OrderRecord>,
    /// The machine that it made.
    pub uuid: Option<String>,
    /// The search for an order of unknown outcome.
    pub search: Option<Box<Search>>,
    /// The recorded machine is not shown: what was tried.
    pub missing: Missing,
    /// The release under way.
    pub release: Release,
    /// An annotation of another mark: which, and since when.
    pub former: Option<(Mark, Duration)>,
    /// What a machine is installed with, as last read.
    pub installation: ReadInstallation,
    /// The last decision waits for that.
    pub wants_installation: bool,
    /// It has a place in the queue of its account.
    pub queued: bool,
    /// Effects that failed in a row.
    pub backoff: Backoff,
    /// Why the last one failed.
    pub trouble: Option<Trouble>,
    /// What it waits for, and since when.
    pub patience: Patience,
    /// Metadata that had to be put back.
    pub contest: Contest,
    /// The connection over which machines were looked for. What one showed proves nothing over another.
    pub connection: Option<String>,
    /// The attempt that is known to have made nothing, and since when this process knows.
    pub closed: Option<(String, Duration)>,
    /// Since when this process sees the object deleted, where its release is delayed.
    pub delayed_since: Option<Duration>,
    /// Since when an account that may keep a server of this object's name is not listed.
    pub unlisted_since: Option<Duration>,
    /// Since when this process sees an object deleted that names its machine.
    pub ending_since: Option<Duration>,
    /// The machine that `spec.externalID` names, and since when its marks are those of objects that are gone.
    pub unclaimed: Option<(String, Duration)>,
    /// The machine of the object is over.
    pub over: Option<Over>,
    /// The word by which somebody asks for a look, and since when.
    pub asked: Asked,
    /// The machine whose release people were told of.
    pub release_told: Option<String>,
    /// The ServerCommand that this process created for `spec.power`, by its name.
    pub powered: Option<String>,
    /// The re-installations of its machine.
    pub install: InstallMemory,
    /// What it wrote for `spec.outputs`.
    pub outputs: Outputs,
    /// What it knows of the root password.
    pub root_password: PasswordMemory,
    /// The changes of its machine's tags.
    pub tags: TagChanges,
}

/// What a machine is installed with, as it was last read: by hashes, never the text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReadInstallation {
    /// Hashes by the field of the spec.
    pub hashes: Option<Hashes>,
    /// The generation that it was read for.
    generation: Option<i64>,
    /// What the key objects showed then that the spec names.
    named_keys: Vec<Found>,
    /// When it was last read in vain.
    unread: Option<Duration>,
}

impl ReadInstallation {
    /// Whether this generation was read, or tried a moment ago.
    pub fn is_fresh(&self, generation: Option<i64>, named: &[Found], now: Duration) -> bool {
        let was_tried = |at: Duration| now < at + READ_AGAIN;
        self.generation == generation
            && self.named_keys == named
            && self.unread.is_none_or(was_tried)
    }

    /// Takes in the hashes of what was read. A field that could not be read keeps its own, and where none is known what
    /// was last said of it.
    pub fn read(
        &mut self,
        generation: Option<i64>,
        named: &[Found],
        (mut hashes, unread): (Hashes, &[&str]),
        said: &Hashes,
        now: Duration,
    ) {
        let former = self.hashes.take();
        let former = former.as_ref().unwrap_or(said);
        for field in unread {
            match former.get(*field) {
                Some(hash) => _ = hashes.insert((*field).to_owned(), hash.clone()),
                None => _ = hashes.remove(*field),
            }
        }
        self.hashes = Some(hashes);
        self.generation = generation;
        self.named_keys = named.to_vec();
        self.unread = (!unread.is_empty()).then_some(now);
    }
}

/// The search for an order of unknown outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Search {
    /// The attempt, by its nonce; empty where only the finalizer tells of one.
    pub attempt: String,
    /// This process's first sight of it.
    pub first_seen: Duration,
    /// Starts of the proof listings that, with all else that was asked, showed nothing.
    pub samples: Vec<Duration>,
    /// Start of the listing of the last look, good or not.
    pub looked: Option<Duration>,
    /// What stands in the way of the proof.
    pub obstacle: Option<Obstacle>,
}

/// What stands in the way of a proof of absence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// The control machine's own tag was not shown: such look-ups prove nothing.
    NoControl,
    /// The order's tag exists although no machine with it is shown.
    TagExists,
    /// A live machine of this host name, made since the start of the order, bears no mark.
    Unmarked(String),
}

/// The recorded machine is not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Missing {
    /// Moments of reads that answered 404, spaced.
    pub reads: Vec<Duration>,
    /// Starts of proof listings, with control, that did not show it, spaced.
    pub listings: Vec<Duration>,
}

/// A machine that is over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Over {
    /// Which.
    uuid: String,
    /// Whether it failed; else it is released, or being so.
    is_failed: bool,
    /// Since when this process sees it so.
    pub since: Duration,
}

impl Over {
    /// Whether this is the machine, and as it is now.
    pub fn is(&self, server: &Server) -> bool {
        self.uuid == server.id.as_str() && self.is_failed == (server.status == ServerStatus::Failed)
    }
}

/// The release under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Release {
    /// The last DELETE.
    pub sent: Option<Sent>,
    /// Moments of reads that said failed and never delivered, spaced.
    pub failed_reads: Vec<Duration>,
}

/// A DELETE that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sent {
    /// Of which machine.
    pub uuid: String,
    /// Whether the machine was failed then.
    pub failed: bool,
    /// How it ended.
    pub answer: ReleaseAnswer,
    /// When it ended.
    pub at: Duration,
}

/// How a DELETE ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseAnswer {
    /// The provider took it.
    Accepted,
    /// The provider refused it.
    Refused,
    /// It is not known.
    Unknown,
}

/// What an effect or a look showed.
#[derive(Clone, Debug, PartialEq, Eq)]
// One of them lives for one pass; a box would save nothing.
#[allow(clippy::large_enum_variant)]
pub enum Observation {
    /// An order has this outcome now (none: unknown).
    Ordered {
        /// The order, with its outcome where there is one.
        order: OrderRecord,
        /// The machine, when one was made.
        uuid: Option<String>,
    },
    /// Look-ups for an order of unknown outcome.
    Looked {
        /// The attempt.
        attempt: String,
        /// Start of the proof listing that goes with it.
        proof_began: Duration,
        /// What stands in the way, if anything.
        obstacle: Option<Obstacle>,
    },
    /// The recorded machine was read and is not there.
    NotFound {
        /// When it was asked for.
        at: Duration,
        /// Start of the newest proof listing with control that does not show it either.
        listing: Option<Duration>,
    },
    /// The recorded machine was read.
    Found {
        /// When it was asked for.
        at: Duration,
        /// Whether it says failed and never delivered.
        failed: bool,
    },
    /// A DELETE ended.
    Released(Sent),
    /// Finalizer and annotation were put back.
    PutBack,
    /// The change of a tag that the spec wishes for ended.
    TagChanged(TagChange),
    /// The ServerCommand of this name was created, or was there.
    Commanded(String),
    /// A re-installation was tried or looked at.
    Installs(InstallObservation),
    /// What `spec.outputs` names holds what it should, or belongs to another.
    Output {
        /// As what it is written.
        place: OutputPlace,
        /// A short form of what it should hold.
        content: u64,
        /// How it was found, or left.
        state: OutputState,
    },
    /// It was checked whether somebody deleted these ConfigMaps and Secrets, and our finalizer was taken off those.
    OutputsChecked(Vec<OutputRecord>),
    /// A step with the root password ended.
    Password {
        /// Of which installation.
        of: Installed,
        /// How.
        end: PasswordEnd,
    },
    /// An effect was done.
    Done,
    /// The object changed in between: the effect was not done, and the next pass sees the change.
    Stale,
    /// An effect failed without harm; the next one waits. Told when it persists.
    Failed(Trouble),
}

impl Memory {
    /// How long an effect waits after failures; None: not at all. What the object lost is put back whatever the calls to
    /// the provider do: without it a deletion would be over at once. The steps with a root password have pauses of their
    /// own: its day passes, whatever else of the object fails. So has the check of outputs that somebody deleted.
    pub fn holds_back(&self, effect: &Effect, now: Duration) -> Option<Duration> {
        let is_providers = self.trouble.as_ref().is_some_and(Trouble::is_providers);
        match effect {
            Effect::PutBack(_) | Effect::RecordOutput(_) if is_providers => None,
            Effect::CheckDeletedOutputs(_)
            | Effect::FindPassword { .. }
            | Effect::FetchPassword { .. }
            | Effect::ForgetPassword { .. } => None,
            _ => self.backoff.rest(now),
        }
    }

    /// Takes in what was observed by `now`. `spacing` is the least time between two looks that
    /// together prove something.
    pub fn note(&mut self, observation: Observation, now: Duration, spacing: Duration) {
        match observation {
            Observation::Ordered { order, uuid } => {
                let came_to_nothing = order.outcome == Some(OrderOutcome::NotSent);
                self.order = Some(order);
                self.uuid = uuid;
                self.search = None;
                // What was missed was the machine of an order before.
                self.missing = Missing::default();
                self.succeed();
                if came_to_nothing {
                    // Where even the record is lost, nothing on the object would set a pace.
                    self.fail(now);
                }
            }
            Observation::Looked {
                attempt,
                proof_began,
                obstacle,
            } => {
                if let Some(search) = self.search.as_mut().filter(|s| s.attempt == attempt) {
                    if obstacle.is_none() {
                        push_spaced(&mut search.samples, proof_began, spacing);
                    } else {
                        // A contradiction voids what was collected before it.
                        search.samples.clear();
                    }
                    search.looked = Some(proof_began);
                    search.obstacle = obstacle;
                }
                self.succeed();
            }
            Observation::NotFound { at, listing } => {
                push_spaced(&mut self.missing.reads, at, spacing);
                if let Some(began) = listing {
                    push_spaced(&mut self.missing.listings, began, spacing);
                }
                self.succeed();
            }
            Observation::Found { at, failed } => {
                self.missing = Missing::default();
                if failed {
                    push_spaced(&mut self.release.failed_reads, at, spacing);
                } else {
                    self.release.failed_reads.clear();
                }
                self.succeed();
            }
            Observation::Released(sent) => {
                self.release.sent = Some(sent);
                self.succeed();
            }
            Observation::Commanded(name) => {
                self.powered = Some(name);
                self.succeed();
            }
            Observation::Installs(observation) => {
                let unsent = match &observation {
                    InstallObservation::Sent(record, _) if !record.may_be_sent() => {
                        let why = record.message.as_deref().unwrap_or("it was not sent");
                        Some(Trouble::unexpected(&format!(
                            "the machine is not installed again yet: {why}"
                        )))
                    }
                    _ => None,
                };
                self.install.note(observation);
                match unsent {
                    Some(trouble) => {
                        self.fail(now);
                        self.trouble = Some(trouble);
                    }
                    None => self.succeed(),
                }
            }
            Observation::Output {
                place,
                content,
                state,
            } => {
                self.outputs.note(place, content, state, now);
                self.succeed();
            }
            // It says nothing of what else may fail.
            Observation::OutputsChecked(outputs) => self.outputs.note_checked(outputs, now),
            Observation::Password { of, end } => {
                // It says nothing of what else may fail.
                self.root_password.note(&of, end, now);
            }
            Observation::Done => self.succeed(),
            Observation::PutBack => {
                self.contest.put_back(now);
                // It says nothing of the calls to the provider that fail.
                if !self.trouble.as_ref().is_some_and(Trouble::is_providers) {
                    self.succeed();
                }
            }
            Observation::TagChanged(change) => {
                self.tags.note(&change, now);
                match change.end {
                    TagEnd::Made | TagEnd::NotDue => self.succeed(),
                    TagEnd::Unknown(trouble) | TagEnd::Refused(trouble) => {
                        self.fail(now);
                        self.trouble = Some(trouble);
                    }
                }
            }
            // What it rested on may change again: two that write against each other must not spin.
            Observation::Stale => {
                self.fail(now);
                self.trouble = Some(Trouble::unexpected("the object changed in between"));
            }
            Observation::Failed(trouble) => {
                self.fail(now);
                self.trouble = Some(trouble);
            }
        }
    }

    fn fail(&mut self, now: Duration) {
        self.backoff.fail(now, LONGEST_PAUSE);
    }

    fn succeed(&mut self) {
        self.backoff.reset();
        self.trouble = None;
    }

    /// Notes the connection by which machines are looked for. Another one starts every proof again.
    pub fn looks_over(&mut self, connection: &str) {
        if self.connection.as_deref() == Some(connection) {
            return;
        }
        if self.connection.replace(connection.to_owned()).is_none() {
            return;
        }
        self.missing = Missing::default();
        self.release.failed_reads.clear();
        if let Some(search) = &mut self.search {
            search.samples.clear();
            search.looked = None;
            search.obstacle = None;
        }
    }

    /// Notes since when this process acts. What it collected before proves nothing: another one may have acted.
    pub fn acts_since(&mut self, since: Duration) {
        if self.search.as_ref().is_some_and(|s| s.first_seen < since) {
            self.search = None;
        }
        let reads = &self.missing.reads;
        if reads.first().is_some_and(|read| *read < since) {
            self.missing = Missing::default();
        }
    }

    /// Notes how the machine of the object is over, or that it is not.
    pub fn over_seen(&mut self, server: Option<&Server>, now: Duration) {
        let same = self.over.take();
        self.over = server.map(|server| match same {
            Some(same) if same.is(server) => same,
            _ => Over {
                uuid: server.id.as_str().to_owned(),
                is_failed: server.status == ServerStatus::Failed,
                since: now,
            },
        });
    }

    /// Notes the attempt that is known to have made nothing, or that there is none.
    pub fn closed_seen(&mut self, attempt: Option<&str>, now: Duration) {
        let is_same = |(known, _): &(String, Duration)| attempt == Some(known);
        if self.closed.as_ref().is_some_and(is_same) {
            return;
        }
        self.closed = attempt.map(|attempt| (attempt.to_owned(), now));
    }

    /// Starts the search for an attempt, or goes on with it.
    pub fn search_for(&mut self, attempt: &str, now: Duration) {
        if self.search.as_ref().is_none_or(|s| s.attempt != attempt) {
            self.search = Some(Box::new(Search {
                attempt: attempt.into(),
                first_seen: now,
                samples: Vec::new(),
                looked: None,
                obstacle: None,
            }));
        }
    }

    /// Notes whether an account that may keep a server of this object's name is not listed.
    pub fn unlisted_seen(&mut self, is_unlisted: bool, now: Duration) {
        match is_unlisted {
            true => _ = self.unlisted_since.get_or_insert(now),
            false => self.unlisted_since = None,
        }
    }

    /// Notes that the annotation speaks of another mark, or of none.
    pub fn former_seen(&mut self, mark: Option<&Mark>, now: Duration) {
        match mark {
            None => self.former = None,
            Some(mark) => {
                if self.former.as_ref().is_none_or(|(m, _)| m != mark) {
                    self.former = Some((mark.clone(), now));
                }
            }
        }
    }
}

/// Keeps at most the moments that matter: each at least `spacing` after the one before.
/// The first stays, since it says how long something lasts.
fn push_spaced(moments: &mut Vec<Duration>, at: Duration, spacing: Duration) {
    if moments.last().is_none_or(|last| at >= *last + spacing) {
        if moments.len() >= 8 {
            moments.remove(1);
        }
        moments.push(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Reason;

    #[test]
    fn of_many_looks_the_first_and_the_last_are_kept() {
        let secs = Duration::from_secs;
        let mut memory = Memory::default();
        for at in 1..=100 {
            let (at, listing) = (secs(at), Some(secs(at)));
            memory.note(Observation::NotFound { at, listing }, at, secs(1));
        }
        let Missing { reads, listings } = &memory.missing;
        for kept in [reads, listings] {
            assert_eq!(
                (kept[0], kept[kept.len() - 1], kept.len()),
                (secs(1), secs(100), 8)
            );
        }
    }

    #[test]
    fn what_the_object_lost_is_put_back_whatever_the_provider_refuses() {
        let secs = Duration::from_secs;
        let note = serde_json::json!({"cluster": "c", "uid": "u", "mark": "m", "epoch": 1,
            "attempt": "a", "sendBy": "2026-01-01T00:00:00Z"});
        let put_back = Effect::PutBack(Box::new(serde_json::from_value(note).unwrap()));
        let failed = |trouble: Trouble| {
            let mut memory = Memory::default();
            for _ in 0..9 {
                memory.note(Observation::Failed(trouble.clone()), secs(10), secs(1));
            }
            memory
        };
        let reason = Reason::RequestRefused;
        let message = "no".into();
        let mut memory = failed(Trouble { reason, message });
        assert!(memory.holds_back(&Effect::LetGo, secs(11)).is_some());
        assert_eq!(memory.holds_back(&put_back, secs(11)), None);
        memory.note(Observation::PutBack, secs(11), secs(1));
        assert!(
            memory.holds_back(&Effect::LetGo, secs(12)).is_some(),
            "as before"
        );
        // What fails to be written waits as anything does.
        let memory = failed(Trouble::of_write("no".into()));
        assert!(memory.holds_back(&put_back, secs(11)).is_some());
    }

    #[test]
    fn what_cannot_be_read_is_not_read_in_every_pass() {
        let secs = Duration::from_secs;
        let hashes = |keys: &str, script: &str| {
            let field = |name: &str, hash: &str| (name.to_owned(), hash.to_owned());
            Hashes::from([field("sshKeys", keys), field("postInstallScript", script)])
        };
        let script = |known: &ReadInstallation| {
            let hashes = known.hashes.as_ref().unwrap();
            (
                hashes["sshKeys"].clone(),
                hashes["postInstallScript"].clone(),
            )
        };
        let mut known = ReadInstallation::default();
        let (gone, said) = ([Found::Missing], hashes("-", "said"));
        assert!(!known.is_fresh(Some(1), &gone, secs(1)));
        let part = || (hashes("read", "-"), &["postInstallScript"][..]);
        known.read(Some(1), &gone, part(), &said, secs(1));
        assert_eq!(
            script(&known),
            ("read".into(), "said".into()),
            "each field by itself"
        );
        assert!(known.is_fresh(Some(1), &gone, secs(300)));
        assert!(!known.is_fresh(Some(1), &gone, secs(301)));
        assert!(!known.is_fresh(Some(2), &gone, secs(2)));
        assert!(!known.is_fresh(Some(1), &[Found::Ending], secs(2)));

        known.read(Some(1), &gone, (hashes("read", "all"), &[]), &said, secs(2));
        assert!(known.is_fresh(Some(1), &gone, secs(9000)));
        known.read(Some(1), &gone, part(), &said, secs(3));
        assert_eq!(
            script(&known),
            ("read".into(), "all".into()),
            "what was read stays"
        );
    }
}
