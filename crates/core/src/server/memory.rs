//! What one process remembers of one object between passes.
//!
//! Losing it is always safe: every proof that is collected here starts again after a restart.

use super::{
    decide::{
        ServerEffect,
        outputs::{OutputMemory, OutputState},
        sent_hashes::Hashes,
    },
    facts::is_same_uuid,
    install_memory::{InstallMemory, InstallObservation},
    ownership,
    password_memory::{PasswordEnd, PasswordMemory},
    tag_changes::{TagChange, TagChanges, TagEnd},
};
use crate::{
    backoff::{Backoff, LONGEST_PAUSE},
    last_error::{LastError, is_over_by_answers},
    protocol,
    reconcile_request::ReconcileRequest,
    reference_grace::ReferenceGrace,
    restore_backoff::RestoreBackoff,
    stored_keys::KeyLookup,
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
pub struct ServerMemory {
    /// What it knows of the order and the release, by the rules of the protocol.
    pub protocol: protocol::ProtocolMemory,
    /// Since when it leads, as far as the above knows.
    pub leader_since: Option<Duration>,
    /// The answer to the order of the open record, until it is recorded.
    pub answer: Option<Box<OrderRecord>>,
    /// The last DELETE.
    pub sent: Option<SentRelease>,
    /// What a machine is installed with, as last read.
    pub installation: ReadInstallation,
    /// The last decision waits for that.
    pub wants_installation: bool,
    /// It has a place in the queue of its account.
    pub queued: bool,
    /// Effects that failed in a row.
    pub backoff: Backoff,
    /// Why the last one failed.
    pub last_error: Option<LastError>,
    /// Since when its account has answers again, as far as the above knows.
    pub answers_since: Option<Duration>,
    /// What it waits for, and since when.
    pub reference_grace: ReferenceGrace,
    /// Metadata that had to be put back.
    pub restore_backoff: RestoreBackoff,
    /// The connection over which machines were looked for. What one showed proves nothing over another.
    pub connection: Option<String>,
    /// Since when this process sees the object deleted, where its release is delayed.
    pub delayed_since: Option<Duration>,
    /// The API server's clock in Unix seconds as last read, and when.
    pub server_time: Option<(i64, Duration)>,
    /// The machine of the object is over.
    pub ended_server: Option<EndedServer>,
    /// The word by which somebody asks for a look, and since when.
    pub asked: ReconcileRequest,
    /// The machine whose release people were told of.
    pub release_reported: Option<String>,
    /// The ServerCommand that this process created for `spec.power`, by its name.
    pub power_command: Option<String>,
    /// The re-installations of its machine.
    pub install: InstallMemory,
    /// What it wrote for `spec.outputs`.
    pub outputs: OutputMemory,
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
    named_keys: Vec<KeyLookup>,
    /// When it was last read in vain.
    unread: Option<Duration>,
}

impl ReadInstallation {
    /// Whether this generation was read, or tried a moment ago.
    pub fn is_fresh(&self, generation: Option<i64>, named: &[KeyLookup], now: Duration) -> bool {
        let was_tried = |at: Duration| now < at + READ_AGAIN;
        self.generation == generation
            && self.named_keys == named
            && self.unread.is_none_or(was_tried)
    }

    /// Takes in the hashes of what was read. A field that could not be read keeps its own, and where none is known what
    /// was last said of it.
    pub fn record_hashes(
        &mut self,
        generation: Option<i64>,
        named: &[KeyLookup],
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

/// A machine that is over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndedServer {
    /// Which.
    uuid: String,
    /// Whether it failed; else it is released, or being so.
    is_failed: bool,
    /// Since when this process sees it so.
    pub since: Duration,
}

impl EndedServer {
    /// Whether this is the machine, and as it is now.
    pub fn matches(&self, server: &Server) -> bool {
        server.id == *self.uuid && self.is_failed == (server.status == ServerStatus::Failed)
    }
}

/// A DELETE that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SentRelease {
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
pub enum ServerObservation {
    /// An order was sent, or not: the record as it has to become.
    Ordered(Box<OrderRecord>),
    /// The server was read.
    Read {
        /// Which.
        uuid: String,
        /// When it was asked for.
        at: Duration,
        /// Whether it is there.
        is_there: bool,
    },
    /// The tags of a server that is taken were put on, or were there.
    Claimed(String),
    /// The claim has to be made again.
    Unclaimed,
    /// The server that is taken is the object's: the record as it has to become.
    Adopted(protocol::ProtocolOrder),
    /// Another object has the server that was to be taken: the record is off again.
    Yielded,
    /// A DELETE ended.
    Released(SentRelease),
    /// The finalizer was put on.
    FinalizerAdded,
    /// The finalizer was put back.
    FinalizerRestored,
    /// The change of a tag that the spec wishes for ended.
    TagChanged(TagChange),
    /// The ServerCommand of this name was created, or was there.
    Commanded(String),
    /// A re-installation was tried or looked at.
    Reinstall(InstallObservation),
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
    /// What was to be done is not due by the API server's clock: its time in Unix seconds, and when it was read.
    NotDue(i64, Duration),
    /// An effect was done.
    Done,
    /// The object changed in between: the effect was not done, and the next pass sees the change.
    Stale,
    /// An effect failed without harm; the next one waits. Told when it persists.
    Failed(LastError),
}

impl ServerMemory {
    /// How long an effect waits after failures; None: not at all. What the object lost is put back whatever the calls to
    /// the provider do: without it a deletion would be over at once. The steps with a root password have pauses of their
    /// own: its day passes, whatever else of the object fails. So has the check of outputs that somebody deleted.
    pub fn remaining_backoff(&self, effect: &ServerEffect, now: Duration) -> Option<Duration> {
        let is_providers = self
            .last_error
            .as_ref()
            .is_some_and(LastError::is_providers);
        match effect {
            ServerEffect::AddFinalizer | ServerEffect::RecordOutput(_) if is_providers => None,
            ServerEffect::CheckDeletedOutputs(_)
            | ServerEffect::FindPassword { .. }
            | ServerEffect::FetchPassword { .. }
            | ServerEffect::ForgetPassword { .. } => None,
            _ => self.backoff.rest(now),
        }
    }

    /// Takes in what was observed by `now`.
    pub fn record_observation(&mut self, observation: ServerObservation, now: Duration) {
        match observation {
            ServerObservation::Ordered(order) => {
                let is_unsent = order.outcome == Some(OrderOutcome::NotSent);
                self.protocol.answered(ownership::to_protocol_order(&order));
                self.answer = Some(order);
                self.succeed();
                if is_unsent {
                    // Where even the record is lost, nothing on the object would set a pace.
                    self.fail(now);
                }
            }
            ServerObservation::Read { uuid, at, is_there } => {
                let is_recorded = self.protocol.recorded() == Some(ownership::server_id(&uuid));
                match is_there {
                    true if is_recorded => self.protocol.shown(at),
                    false if is_recorded => self.protocol.read_missing(at),
                    _ => {}
                }
                if !is_there {
                    self.ended_server = self
                        .ended_server
                        .take_if(|over| !is_same_uuid(&over.uuid, &uuid));
                }
                self.succeed();
            }
            ServerObservation::Claimed(uuid) => {
                self.protocol.claimed(ownership::server_id(&uuid), now);
                self.succeed();
            }
            ServerObservation::Unclaimed => {
                self.protocol.unclaimed();
                self.succeed();
            }
            ServerObservation::Adopted(order) => {
                self.protocol.answered(order);
                self.succeed();
            }
            // Whoever would take it again would meet the same.
            ServerObservation::Yielded => {
                self.record_written_order(None, now);
                self.fail(now);
                self.last_error = Some(LastError::unexpected(
                    "The server to adopt is not live, or another object owns it",
                ));
            }
            ServerObservation::FinalizerAdded => {
                self.protocol.added_finalizer();
                self.succeed();
            }
            ServerObservation::Released(sent) => {
                if sent.failed && sent.answer == ReleaseAnswer::Refused {
                    self.protocol.refused_release();
                }
                self.sent = Some(sent);
                self.succeed();
            }
            ServerObservation::Commanded(name) => {
                self.power_command = Some(name);
                self.succeed();
            }
            ServerObservation::Reinstall(observation) => {
                let unsent = match &observation {
                    InstallObservation::Sent(record, _) if !record.may_be_sent() => {
                        let why = record.message.as_deref().unwrap_or("it was not sent");
                        Some(LastError::unexpected(&format!(
                            "The server is not re-installed yet: {why}"
                        )))
                    }
                    _ => None,
                };
                self.install.record_observation(observation);
                match unsent {
                    Some(trouble) => {
                        self.fail(now);
                        self.last_error = Some(trouble);
                    }
                    None => self.succeed(),
                }
            }
            ServerObservation::Output {
                place,
                content,
                state,
            } => {
                self.outputs.record_check(place, content, state, now);
                self.succeed();
            }
            // It says nothing of what else may fail.
            ServerObservation::OutputsChecked(outputs) => {
                self.outputs.record_deletion_check(outputs, now)
            }
            ServerObservation::Password { of, end } => {
                // It says nothing of what else may fail.
                self.root_password.record_step_end(&of, end, now);
            }
            ServerObservation::NotDue(time, at) => {
                self.server_time = Some((time, at));
                self.succeed();
            }
            ServerObservation::Done => self.succeed(),
            ServerObservation::FinalizerRestored => {
                self.protocol.added_finalizer();
                self.restore_backoff.record_restore(now);
                // It says nothing of the calls to the provider that fail.
                if !self
                    .last_error
                    .as_ref()
                    .is_some_and(LastError::is_providers)
                {
                    self.succeed();
                }
            }
            ServerObservation::TagChanged(change) => {
                self.tags.record_change(&change, now);
                match change.end {
                    TagEnd::Made | TagEnd::NotDue => self.succeed(),
                    TagEnd::Unknown(trouble) | TagEnd::Refused(trouble) => {
                        self.fail(now);
                        self.last_error = Some(trouble);
                    }
                }
            }
            // What it rested on may change again: two that write against each other must not spin.
            ServerObservation::Stale => {
                self.fail(now);
                self.last_error =
                    Some(LastError::unexpected("The object changed before the write"));
            }
            ServerObservation::Failed(trouble) => {
                self.fail(now);
                self.last_error = Some(trouble);
            }
        }
    }

    fn fail(&mut self, now: Duration) {
        self.backoff.fail(now, LONGEST_PAUSE);
    }

    fn succeed(&mut self) {
        self.backoff.reset();
        self.last_error = None;
    }

    /// This process wrote this record of the order.
    pub fn record_written_order(&mut self, order: Option<protocol::ProtocolOrder>, now: Duration) {
        self.protocol.wrote(order, now);
        self.answer = None;
    }

    /// Its account has answers since then.
    pub fn record_answers_since(&mut self, since: Option<Duration>) {
        if is_over_by_answers(&mut self.answers_since, since, self.last_error.as_ref()) {
            self.succeed();
            self.root_password.try_again();
        }
    }

    /// Notes the connection by which servers are looked for. Another one starts every proof again.
    pub fn record_connection(&mut self, connection: &str) {
        if self.connection.as_deref() == Some(connection) {
            return;
        }
        if self.connection.replace(connection.to_owned()).is_some() {
            self.protocol.reset_absence();
        }
    }

    /// Notes since when this process leads. Whatever it knew before proves nothing: another one may have led.
    pub fn record_leadership(&mut self, since: Duration) {
        if self.leader_since == Some(since) {
            return;
        }
        *self = Self {
            leader_since: Some(since),
            // What came of its own order it knows whoever led since, and its place in the queue is its own.
            answer: self.answer.take(),
            queued: self.queued,
            ..Self::default()
        };
        if let Some(answer) = &self.answer {
            self.protocol.answered(ownership::to_protocol_order(answer));
        }
    }

    /// Notes how the machine of the object is over, or that it is not.
    pub fn record_ended_server(&mut self, server: Option<&Server>, now: Duration) {
        let same = self.ended_server.take();
        self.ended_server = server.map(|server| match same {
            Some(same) if same.matches(server) => same,
            _ => EndedServer {
                uuid: server.id.as_str().to_owned(),
                is_failed: server.status == ServerStatus::Failed,
                since: now,
            },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Reason;

    #[test]
    fn finalizer_is_restored_despite_provider_errors() {
        let secs = Duration::from_secs;
        let put_back = ServerEffect::AddFinalizer;
        let failed = |trouble: LastError| {
            let mut memory = ServerMemory::default();
            for _ in 0..9 {
                memory.record_observation(ServerObservation::Failed(trouble.clone()), secs(10));
            }
            memory
        };
        let reason = Reason::RequestRefused;
        let message = "no".into();
        let mut memory = failed(LastError { reason, message });
        assert!(
            memory
                .remaining_backoff(&ServerEffect::RemoveFinalizer, secs(11))
                .is_some()
        );
        assert_eq!(memory.remaining_backoff(&put_back, secs(11)), None);
        memory.record_observation(ServerObservation::FinalizerRestored, secs(11));
        assert!(
            memory
                .remaining_backoff(&ServerEffect::RemoveFinalizer, secs(12))
                .is_some(),
            "as before"
        );
        // What fails to be written waits as anything does.
        let memory = failed(LastError::from_write("no".into()));
        assert!(memory.remaining_backoff(&put_back, secs(11)).is_some());
    }

    #[test]
    fn only_own_order_answer_survives_leadership_change() {
        let secs = Duration::from_secs;
        let mut memory = ServerMemory::default();
        memory.record_leadership(secs(1));
        memory.ended_server = Some(EndedServer {
            uuid: "00000000-0000-4000-8000-000000000001".into(),
            is_failed: true,
            since: secs(2),
        });
        memory.delayed_since = Some(secs(2));
        memory.power_command = Some("on".into());
        memory.record_leadership(secs(1));
        assert!(memory.ended_server.is_some() && memory.delayed_since.is_some());
        memory.record_leadership(secs(9));
        let blank = ServerMemory {
            leader_since: Some(secs(9)),
            ..ServerMemory::default()
        };
        assert_eq!(memory, blank);
    }

    #[test]
    fn account_failure_is_retried_when_answers_return() {
        let secs = Duration::from_secs;
        let release = ServerEffect::RemoveFinalizer;
        let rests = |reason: Reason, since: u64| {
            let mut memory = ServerMemory::default();
            memory.record_answers_since(Some(secs(5)));
            for _ in 0..9 {
                let message = "no".into();
                memory.record_observation(
                    ServerObservation::Failed(LastError { reason, message }),
                    secs(10),
                );
            }
            memory.record_answers_since(Some(secs(since)));
            memory.remaining_backoff(&release, secs(20)).is_some()
        };
        assert!(rests(Reason::ProviderUnreachable, 5), "as before");
        assert!(!rests(Reason::ProviderUnreachable, 20));
        assert!(!rests(Reason::RateLimited, 20));
        assert!(rests(Reason::RequestRefused, 20), "an answer of its own");
    }

    #[test]
    fn unreadable_source_is_not_read_every_reconcile() {
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
        let (gone, said) = ([KeyLookup::Missing], hashes("-", "said"));
        assert!(!known.is_fresh(Some(1), &gone, secs(1)));
        let part = || (hashes("read", "-"), &["postInstallScript"][..]);
        known.record_hashes(Some(1), &gone, part(), &said, secs(1));
        assert_eq!(
            script(&known),
            ("read".into(), "said".into()),
            "each field by itself"
        );
        assert!(known.is_fresh(Some(1), &gone, secs(300)));
        assert!(!known.is_fresh(Some(1), &gone, secs(301)));
        assert!(!known.is_fresh(Some(2), &gone, secs(2)));
        assert!(!known.is_fresh(Some(1), &[KeyLookup::Ending], secs(2)));

        known.record_hashes(Some(1), &gone, (hashes("read", "all"), &[]), &said, secs(2));
        assert!(known.is_fresh(Some(1), &gone, secs(9000)));
        known.record_hashes(Some(1), &gone, part(), &said, secs(3));
        assert_eq!(
            script(&known),
            ("read".into(), "all".into()),
            "what was read stays"
        );
    }
}
