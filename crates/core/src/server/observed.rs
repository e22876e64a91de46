//! Puts the facts of a server together from what was read.

use super::{
    facts::{Installation, ServerFacts},
    memory::ServerMemory,
    refresh::{self, ServerIndex},
};
use crate::{
    cluster_id::ClusterId, explanation::Explanation, moment::Moment, power::KnownCommand,
    resolved_account::ResolvedAccount, server_commands::UnderWay, stored_keys::KeyLookup,
};
use api::{BareMetalServer, ServerCommand};
use std::{sync::Arc, time::Duration};

/// What was read of an object and around it.
pub struct ObservedServer {
    /// The object, as fresh as this process has seen it.
    pub object: Arc<BareMetalServer>,
    /// What this process remembers of it.
    pub memory: ServerMemory,
    /// The moment of the decision.
    pub now: Moment,
    /// The wall clock at the start of this process.
    pub wall_at_start: i64,
    /// UID of the object's namespace, or why it is not known.
    pub namespace_uid: Result<Arc<str>, String>,
    /// Since when, by the monotonic clock, this process acts for the namespace of the object; None: it does not.
    pub leader_since: Option<Duration>,
    /// When this process first saw the object; None: it does not know it.
    pub first_seen: Option<Duration>,
    /// When the listing began that did not show the object yet; None: each did.
    pub absent_from: Option<Duration>,
    /// Identity of the cluster that this process works for.
    pub cluster: ClusterId,
    /// Whether the kind itself is being deleted; None: it cannot be seen.
    pub kind_deleting: Option<bool>,
    /// The account that pays.
    pub account: ResolvedAccount,
    /// What a machine is installed with; None: it was not read.
    pub installation: Option<Result<Installation, Explanation>>,
    /// What the key objects show that the spec names.
    pub named_keys: Vec<KeyLookup>,
    /// What is known of the ServerCommands for the object.
    pub commands: UnderWay,
    /// The ServerCommand that `spec.power` came to, as the API server has it; None: it was not read.
    pub power_command: Option<Option<ServerCommand>>,
}

impl ObservedServer {
    /// The facts. `known` tells of machines and marks; None: there is no account.
    ///
    /// What the facts remember of that is in their `memory`, which the caller keeps.
    pub fn facts(self, known: Option<&impl ServerIndex>) -> ServerFacts {
        let acting_since = self.leader_since.unwrap_or(self.now.mono);
        let power =
            KnownCommand::from_command(self.object.metadata.uid.as_deref(), self.power_command);
        let mut facts = ServerFacts {
            now: self.now,
            wall_at_start: self.wall_at_start,
            namespace_uid: self.namespace_uid,
            leader_since: acting_since,
            first_seen: self.first_seen.unwrap_or(self.now.mono),
            created_since_leading: self.absent_from.is_some_and(|began| began >= acting_since),
            cluster: self.cluster,
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
