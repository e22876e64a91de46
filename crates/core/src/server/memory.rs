//! What one process remembers about one server object between reconciles. Losing it is safe: after a restart the
//! operator collects all observations again.

use super::{
    decide::{
        ServerEffect,
        outputs::{OutputMemory, OutputState},
        sent_hashes::Hashes,
    },
    facts::is_same_uuid,
    install_memory::{InstallMemory, InstallObservation},
    password_memory::{PasswordEnd, PasswordMemory},
    protocol_facts,
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
    outputs::{OutputKind, OutputRecord},
    root_password::Installed,
    server::{OrderOutcome, OrderRecord},
};
use hosting_types::{Server, ServerStatus};
use std::time::Duration;

/// How long after a failed read the installation data is read again, if no order waits for it.
const READ_AGAIN: Duration = Duration::from_secs(300);

/// What this process remembers about one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServerMemory {
    /// Order and release, as the protocol tracks them.
    pub protocol: protocol::ProtocolMemory,
    /// Since when this process is leader, as last recorded.
    pub leader_since: Option<Duration>,
    /// The answer to the open order, until it is recorded in status.
    pub answer: Option<Box<OrderRecord>>,
    /// The last DELETE of a server.
    pub sent: Option<SentRelease>,
    /// Installation data of the server, as last read.
    pub installation: ReadInstallation,
    /// Whether the last decision waits for the installation data.
    pub wants_installation: bool,
    /// Whether the object is in the queue of its account.
    pub queued: bool,
    /// Backoff after consecutive failed effects.
    pub backoff: Backoff,
    /// Why the last effect failed.
    pub last_error: Option<LastError>,
    /// Since when the account gets answers, as last recorded.
    pub answers_since: Option<Duration>,
    /// Missing references, and since when.
    pub reference_grace: ReferenceGrace,
    /// Backoff for restoring lost metadata.
    pub restore_backoff: RestoreBackoff,
    /// Credentials hash of the last reads. Absence seen with other credentials does not count.
    pub connection: Option<String>,
    /// Since when this process sees a delayed release; none if no release is delayed.
    pub delayed_since: Option<Duration>,
    /// The API server's clock in Unix seconds, and when it was read.
    pub server_time: Option<(i64, Duration)>,
    /// The object's server, if it failed or is released.
    pub ended_server: Option<EndedServer>,
    /// The current reconcile request, and since when.
    pub asked: ReconcileRequest,
    /// UUID of the server whose release was already reported.
    pub release_reported: Option<String>,
    /// Name of the ServerCommand that this process created for `spec.power`.
    pub power_command: Option<String>,
    /// Re-installations of the server.
    pub install: InstallMemory,
    /// Written outputs of `spec.outputs`.
    pub outputs: OutputMemory,
    /// State of the root password.
    pub root_password: PasswordMemory,
    /// Changes of the server's tags.
    pub tags: TagChanges,
}

/// Installation data as last read: hashes only, never the text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReadInstallation {
    /// Hash of each spec field.
    pub hashes: Option<Hashes>,
    /// The generation at the last read.
    generation: Option<i64>,
    /// The named key objects at the last read.
    named_keys: Vec<KeyLookup>,
    /// When a field could last not be read; none if all were read.
    unread: Option<Duration>,
}

impl ReadInstallation {
    /// Whether this generation and these key objects were read completely, or tried within `READ_AGAIN`.
    pub fn is_fresh(&self, generation: Option<i64>, named: &[KeyLookup], now: Duration) -> bool {
        let was_tried = |at: Duration| now < at + READ_AGAIN;
        self.generation == generation
            && self.named_keys == named
            && self.unread.is_none_or(was_tried)
    }

    /// Records the hashes that were read. An unreadable field keeps its last hash, or else the hash in `reported`.
    pub fn record_hashes(
        &mut self,
        generation: Option<i64>,
        named: &[KeyLookup],
        (mut hashes, unread): (Hashes, &[&str]),
        reported: &Hashes,
        now: Duration,
    ) {
        let previous = self.hashes.take();
        let previous = previous.as_ref().unwrap_or(reported);
        for field in unread {
            match previous.get(*field) {
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

/// A server that failed or is released.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndedServer {
    /// Its UUID.
    uuid: String,
    /// Whether it failed; otherwise it is released or being released.
    is_failed: bool,
    /// Since when this process sees that state.
    pub since: Duration,
}

impl EndedServer {
    /// Whether this is the same server in the same state.
    pub fn matches(&self, server: &Server) -> bool {
        server.id == *self.uuid && self.is_failed == (server.status == ServerStatus::Failed)
    }
}

/// A DELETE that was sent for a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SentRelease {
    /// UUID of the server.
    pub uuid: String,
    /// Whether the server was failed at that time.
    pub failed: bool,
    /// How it ended.
    pub answer: ReleaseAnswer,
    /// When it ended.
    pub at: Duration,
}

/// How a DELETE ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseAnswer {
    /// The provider accepted it.
    Accepted,
    /// The provider refused it.
    Refused,
    /// The outcome is unknown: the error.
    Unknown(LastError),
}

/// What an effect or a read showed.
#[derive(Clone, Debug, PartialEq, Eq)]
// Each value lives for one reconcile only, so boxing saves nothing.
#[allow(clippy::large_enum_variant)]
pub enum ServerObservation {
    /// An order was sent or dropped: the record to write.
    Ordered(Box<OrderRecord>),
    /// The server was read.
    Read {
        /// Its UUID.
        uuid: String,
        /// When the read started.
        at: Duration,
        /// Whether the server exists.
        is_there: bool,
    },
    /// The server to adopt has our tags.
    Claimed(String),
    /// The server to adopt must be tagged again.
    Unclaimed,
    /// The server is adopted: the record to write.
    Adopted(protocol::ProtocolOrder),
    /// Another object owns the server to adopt; the record was removed.
    Yielded,
    /// A DELETE ended.
    Released(SentRelease),
    /// The finalizer was added.
    FinalizerAdded,
    /// The lost finalizer was restored.
    FinalizerRestored,
    /// A tag change for the spec ended.
    TagChanged(TagChange),
    /// The ServerCommand of this name exists.
    Commanded(String),
    /// A re-installation was requested or polled.
    Reinstall(InstallObservation),
    /// An output of `spec.outputs` was written or checked.
    Output {
        /// Which output.
        place: OutputKind,
        /// Hash of the desired content.
        content: u64,
        /// Its state afterwards.
        state: OutputState,
    },
    /// These outputs were checked for deletion. Our finalizer was removed from the deleted ones.
    OutputsChecked(Vec<OutputRecord>),
    /// A step of the root password ended.
    Password {
        /// For which installation.
        of: Installed,
        /// The result.
        end: PasswordEnd,
    },
    /// The effect is not due by the API server's clock: its Unix time in seconds, and when it was read.
    NotDue(i64, Duration),
    /// The effect succeeded.
    Done,
    /// The object changed before the effect, so nothing was done. The change triggers the next reconcile.
    Stale,
    /// The effect failed and may be repeated. The error is reported if it persists.
    Failed(LastError),
}

impl ServerMemory {
    /// How long an effect still waits after failures; none if it is due. A lost finalizer is restored despite provider
    /// errors. Password steps and output checks have their own backoff.
    pub fn remaining_backoff(&self, effect: &ServerEffect, now: Duration) -> Option<Duration> {
        let is_providers = self
            .last_error
            .as_ref()
            .is_some_and(LastError::is_provider_error);
        match effect {
            ServerEffect::AddFinalizer | ServerEffect::RecordOutput(_) if is_providers => None,
            ServerEffect::CheckDeletedOutputs(_)
            | ServerEffect::FindPassword { .. }
            | ServerEffect::FetchPassword { .. }
            | ServerEffect::ForgetPassword { .. } => None,
            _ => self.backoff.remaining(now),
        }
    }

    /// Records what was observed by `now`.
    pub fn record_observation(&mut self, observation: ServerObservation, now: Duration) {
        match observation {
            ServerObservation::Ordered(order) => {
                let is_unsent = order.outcome == Some(OrderOutcome::NotSent);
                self.protocol
                    .record_answer(protocol_facts::to_protocol_order(&order));
                self.answer = Some(order);
                self.succeed();
                if is_unsent {
                    // If the record is lost too, nothing on the object limits the rate of orders.
                    self.fail(now);
                }
            }
            ServerObservation::Read { uuid, at, is_there } => {
                let is_recorded =
                    self.protocol.recorded() == Some(protocol_facts::server_id(&uuid));
                match is_there {
                    true if is_recorded => self.protocol.record_seen(at),
                    false if is_recorded => self.protocol.read_missing(at),
                    _ => {}
                }
                if !is_there {
                    self.ended_server = self
                        .ended_server
                        .take_if(|ended| !is_same_uuid(&ended.uuid, &uuid));
                }
                self.succeed();
            }
            ServerObservation::Claimed(uuid) => {
                self.protocol
                    .record_claim(protocol_facts::server_id(&uuid), now);
                self.succeed();
            }
            ServerObservation::Unclaimed => {
                self.protocol.unclaimed();
                self.succeed();
            }
            ServerObservation::Adopted(order) => {
                self.protocol.record_answer(order);
                self.succeed();
            }
            // Without backoff the next reconcile would meet the same conflict.
            ServerObservation::Yielded => {
                self.record_written_order(None, now);
                self.fail(now);
                self.last_error = Some(LastError::check_failed(
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
                        Some(LastError::check_failed(&format!(
                            "The server is not re-installed yet: {why}"
                        )))
                    }
                    _ => None,
                };
                self.install.record_observation(observation);
                match unsent {
                    Some(error) => {
                        self.fail(now);
                        self.last_error = Some(error);
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
            // The result says nothing about other effects, so their backoff stays.
            ServerObservation::OutputsChecked(outputs) => {
                self.outputs.record_deletion_check(outputs, now)
            }
            ServerObservation::Password { of, end } => {
                // The result says nothing about other effects, so their backoff stays.
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
                // A restored finalizer does not clear a provider error.
                if !self
                    .last_error
                    .as_ref()
                    .is_some_and(LastError::is_provider_error)
                {
                    self.succeed();
                }
            }
            ServerObservation::TagChanged(change) => {
                self.tags.record_change(&change, now);
                match change.end {
                    TagEnd::Made | TagEnd::NotDue => self.succeed(),
                    TagEnd::Unknown(error) | TagEnd::Refused(error) => {
                        self.fail(now);
                        self.last_error = Some(error);
                    }
                }
            }
            // Back off, so that two conflicting writers do not spin.
            ServerObservation::Stale => {
                self.fail(now);
                self.last_error = Some(LastError::check_failed(
                    "The object changed before the write",
                ));
            }
            ServerObservation::Failed(error) => {
                self.fail(now);
                self.last_error = Some(error);
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

    /// Records that this process wrote this order record.
    pub fn record_written_order(&mut self, order: Option<protocol::ProtocolOrder>, now: Duration) {
        self.protocol.record_written(order, now);
        self.answer = None;
    }

    /// Records since when the account gets answers.
    pub fn record_answers_since(&mut self, since: Option<Duration>) {
        if is_over_by_answers(&mut self.answers_since, since, self.last_error.as_ref()) {
            self.succeed();
            self.root_password.try_again();
        }
    }

    /// Records the credentials hash of the reads. With new credentials the collected absence starts again.
    pub fn record_connection(&mut self, connection: &str) {
        if self.connection.as_deref() == Some(connection) {
            return;
        }
        if self.connection.replace(connection.to_owned()).is_some() {
            self.protocol.reset_absence();
        }
    }

    /// Records since when this process is leader, and forgets what is older: another process may have led since.
    pub fn record_leadership(&mut self, since: Duration) {
        if self.leader_since == Some(since) {
            return;
        }
        *self = Self {
            leader_since: Some(since),
            // The answer to its own order and the queue position stay valid.
            answer: self.answer.take(),
            queued: self.queued,
            ..Self::default()
        };
        if let Some(answer) = &self.answer {
            self.protocol
                .record_answer(protocol_facts::to_protocol_order(answer));
        }
    }

    /// Records the object's server if it failed or is released, else none.
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
        let restore = ServerEffect::AddFinalizer;
        let failed = |error: LastError| {
            let mut memory = ServerMemory::default();
            for _ in 0..9 {
                memory.record_observation(ServerObservation::Failed(error.clone()), secs(10));
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
        assert_eq!(memory.remaining_backoff(&restore, secs(11)), None);
        memory.record_observation(ServerObservation::FinalizerRestored, secs(11));
        assert!(
            memory
                .remaining_backoff(&ServerEffect::RemoveFinalizer, secs(12))
                .is_some(),
            "as before"
        );
        // A failed write waits like any other effect.
        let memory = failed(LastError::from_write("no".into()));
        assert!(memory.remaining_backoff(&restore, secs(11)).is_some());
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
        let waits = |reason: Reason, since: u64| {
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
        assert!(waits(Reason::ProviderUnreachable, 5), "as before");
        assert!(!waits(Reason::ProviderUnreachable, 20));
        assert!(!waits(Reason::RateLimited, 20));
        assert!(waits(Reason::RequestRefused, 20), "an answer of its own");
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
