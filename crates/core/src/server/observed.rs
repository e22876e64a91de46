//! Builds the facts of a server object from what the controller read.

use super::{
    facts::{Installation, ServerFacts},
    memory::ServerMemory,
    refresh::{self, ServerIndex},
};
use crate::{
    cluster_id::ClusterId, explanation::Explanation, moment::Moment, power::KnownCommand,
    resolved_account::ResolvedAccount, server_commands::RunningCommand, stored_keys::KeyLookup,
};
use api::{BareMetalServer, ServerCommand};
use std::{sync::Arc, time::Duration};

/// What the controller read about an object and its references.
pub struct ObservedServer {
    /// The newest version of the object that this process has seen.
    pub object: Arc<BareMetalServer>,
    /// What this process remembers about the object.
    pub memory: ServerMemory,
    /// The moment of the decision.
    pub now: Moment,
    /// The wall clock at the start of this process.
    pub wall_at_start: i64,
    /// UID of the object's namespace, or why it is unknown.
    pub namespace_uid: Result<Arc<str>, String>,
    /// Since when this process is leader for the object's namespace (monotonic clock); none if it is not.
    pub leader_since: Option<Duration>,
    /// When this process first saw the object; none if it never did.
    pub first_seen: Option<Duration>,
    /// Start of the last list without the object; none if every list shows it.
    pub absent_from: Option<Duration>,
    /// ID of this cluster.
    pub cluster: ClusterId,
    /// Whether the operator is read-only.
    pub read_only: bool,
    /// Whether the CRD is being deleted; none if unknown.
    pub kind_deleting: Option<bool>,
    /// The account that pays for the server.
    pub account: ResolvedAccount,
    /// Installation data of the server; none if it was not read.
    pub installation: Option<Result<Installation, Explanation>>,
    /// State of the key objects that the spec names.
    pub named_keys: Vec<KeyLookup>,
    /// The ServerCommands of the object.
    pub commands: RunningCommand,
    /// The ServerCommand of `spec.power`, as the API server has it; none if it was not read.
    pub power_command: Option<Option<ServerCommand>>,
}

impl ObservedServer {
    /// Builds the facts. `known` is the index of servers and owners; none without an account. The updated memory is in
    /// the facts.
    pub fn facts(self, known: Option<&impl ServerIndex>) -> ServerFacts {
        let leader_since = self.leader_since.unwrap_or(self.now.mono);
        let power =
            KnownCommand::from_command(self.object.metadata.uid.as_deref(), self.power_command);
        let mut facts = ServerFacts {
            now: self.now,
            wall_at_start: self.wall_at_start,
            namespace_uid: self.namespace_uid,
            leader_since,
            first_seen: self.first_seen.unwrap_or(self.now.mono),
            created_since_leading: self.absent_from.is_some_and(|began| began >= leader_since),
            cluster: self.cluster,
            read_only: self.read_only,
            kind_deleting: self.kind_deleting,
            account: self.account,
            installation: self.installation,
            denied: None,
            named_keys: self.named_keys,
            own: Vec::new(),
            recorded: None,
            previous: Vec::new(),
            suspects: Vec::new(),
            external: None,
            recorded_elsewhere: Vec::new(),
            owned_elsewhere: Vec::new(),
            is_handed_over: false,
            commands: self.commands,
            power,
            memory: self.memory,
            object: self.object,
        };
        refresh::refresh_facts(&mut facts, known);
        facts
    }
}
