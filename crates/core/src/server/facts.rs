//! The facts for a decision about one server object, as plain data.

use super::memory::ServerMemory;
pub use crate::resolved_account::LiveAccount;
use crate::{
    account::view::{AccountView, SeenServer},
    acknowledgement::Acknowledgements,
    cluster_id::ClusterId,
    explanation::Explanation,
    moment::Moment,
    owner::Owner,
    power::KnownCommand,
    reconcile_request,
    resolved_account::ResolvedAccount,
    server_commands::RunningCommand,
    stored_keys::KeyLookup,
};
use api::{
    BareMetalServer, PoliciesInForce, Reason, conditions,
    names::{OUTPUT_FINALIZER, SERVER_FINALIZER},
    order::OrderRecord,
    records::ReleaseRecord,
    references::PinnedAccount,
    server::{BareMetalServerStatus, OrderOutcome},
};
pub use hosting_types::identity::is_same_uuid;
use hosting_types::{
    SecretText, ServerId,
    server::{KernelParam, UserData},
};
use std::{sync::Arc, time::Duration};

/// All inputs of one decision.
#[derive(Clone)]
pub struct ServerFacts {
    /// The moment of the decision.
    pub now: Moment,
    /// The wall clock at the start of this process.
    pub wall_at_start: i64,
    /// ID of this cluster.
    pub cluster: ClusterId,
    /// Whether the CRD is being deleted, which makes every object use Retain; none if unknown.
    pub kind_deleting: Option<bool>,
    /// UID of the object's namespace, or why it is unknown.
    pub namespace_uid: Result<Arc<str>, String>,
    /// Since when this process is leader (monotonic clock).
    pub leader_since: Duration,
    /// When this process first saw the object.
    pub first_seen: Duration,
    /// Whether a list after this process became leader did not show the object yet. Then no other process can have
    /// ordered for it.
    pub created_since_leading: bool,
    /// Whether the operator is read-only.
    pub read_only: bool,
    /// The newest version of the object that this process has seen.
    pub object: Arc<BareMetalServer>,
    /// The account that pays for the server.
    pub account: ResolvedAccount,
    /// Installation data, read from the references of the spec; none if this reconcile does not need it.
    pub installation: Option<Result<Installation, Explanation>>,
    /// Why the account permits no order, if it was asked.
    pub denied: Option<(Reason, String)>,
    /// State of the key objects that the spec names.
    pub named_keys: Vec<KeyLookup>,
    /// All servers with an order tag of this owner, in any state.
    pub own: Vec<SeenServer>,
    /// The server in the order record, with any tags.
    pub recorded: Option<SeenServer>,
    /// Live servers with an order tag of this namespace and name, from before the namespace was recreated.
    pub previous: Vec<SeenServer>,
    /// Live servers without an order tag that have the object's host name. The open order may have created them.
    pub suspects: Vec<SeenServer>,
    /// The server of `spec.externalID`; none if it is not set.
    pub external: Option<ExternalServer>,
    /// Those of these servers that another live object has recorded.
    pub recorded_elsewhere: Vec<ServerId>,
    /// Those of these servers that have the order tag of another object, if that object exists or may exist.
    pub owned_elsewhere: Vec<ServerId>,
    /// Whether another live object in this namespace and account names the recorded server in `spec.externalID` and may
    /// adopt it: neither suspended nor observe-only.
    pub is_handed_over: bool,
    /// The ServerCommands of the object.
    pub commands: RunningCommand,
    /// The ServerCommand of `spec.power`.
    pub power: KnownCommand,
    /// What this process remembers about the object.
    pub memory: ServerMemory,
}

/// The server that `spec.externalID` names.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalServer {
    /// Its UUID, as the spec spells it.
    pub uuid: String,
    /// The server as last seen; none if it was not seen or the last complete list lacks it.
    pub shown: Option<SeenServer>,
    /// When that list began.
    pub listed_at: Option<Duration>,
}

/// Installation data that the spec only references. Contains secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Installation {
    /// SSH keys of the root user.
    pub ssh_keys: Vec<ServerKey>,
    /// Kernel parameters.
    pub kernel_params: Vec<KernelParam>,
    /// Script that runs once, at the first boot.
    pub post_install_script: Option<SecretText>,
    /// User data that the server reads from its metadata service.
    pub user_data: Option<UserData>,
}

/// One SSH key of an order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerKey {
    /// What is sent: a public key, or the ID of a stored key.
    pub sent: String,
    /// Identity of the key, to detect edits. For a named key this is its fingerprint, since its ID can change.
    pub known_by: String,
    /// UID of its SshKey object, if the key is named.
    pub object: Option<String>,
}

impl Installation {
    /// UIDs of the named keys' SshKey objects.
    pub fn key_uids(&self) -> Vec<String> {
        let keys = self.ssh_keys.iter();
        keys.filter_map(|key| key.object.clone()).collect()
    }
}

impl ServerFacts {
    /// Namespace of the object.
    pub fn namespace(&self) -> &str {
        self.object
            .metadata
            .namespace
            .as_deref()
            .unwrap_or_default()
    }

    /// Name of the object.
    pub fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    /// UID of the object.
    pub fn uid(&self) -> &str {
        self.object.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The object's own order record. A record of an earlier object, as after a restore, does not count.
    pub fn order(&self) -> Option<&OrderRecord> {
        self.object.own_order()
    }

    /// Whether a sent or desired text came from a Secret or ConfigMap. True for a server that the object did not order.
    pub fn had_secret_texts(&self) -> bool {
        self.object.had_secret_texts()
    }

    /// Whether no order is open and the last one created no server.
    pub fn has_no_order_or_server(&self) -> bool {
        let mut outcome = self.order().map(|order| order.outcome).into_iter();
        outcome.all(|outcome| outcome.is_some_and(OrderOutcome::made_no_server))
    }

    /// Whether the object's record names this server as created.
    pub fn has_recorded(&self, uuid: &str) -> bool {
        let recorded = self.order().and_then(OrderRecord::created);
        recorded.is_some_and(|recorded| is_same_uuid(recorded, uuid))
    }

    /// Whether the status belongs to this object, and not to an earlier one of this name that was restored.
    pub fn has_own_record(&self) -> bool {
        self.order().is_some()
    }

    /// The owner in the tags of the object's servers; none while the namespace was not read.
    pub fn owner(&self) -> Option<Owner> {
        let uid = self.namespace_uid.as_deref().ok()?;
        let owner = Owner::new(&self.cluster, self.namespace(), self.name(), uid);
        Some(owner)
    }

    /// The order tag of the object's record.
    pub fn order_tag(&self, order: &OrderRecord) -> Option<String> {
        self.owner().map(|owner| owner.order_tag(order.seq))
    }

    /// Whether the object is being deleted.
    pub fn deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// Whether the object has our finalizer.
    pub fn has_finalizer(&self) -> bool {
        has_finalizer(&self.object)
    }

    /// Whether the object has the finalizer for its outputs. It is used only without the server finalizer.
    pub fn has_output_finalizer(&self) -> bool {
        has_named_finalizer(&self.object, OUTPUT_FINALIZER)
    }

    /// The object's recorded release.
    pub fn release_begun(&self) -> Option<&ReleaseRecord> {
        recorded_release(&self.object)
    }

    /// The acknowledgements of the object.
    pub fn acknowledgements(&self) -> Acknowledgements<'_> {
        let status = self.object.status.as_ref();
        Acknowledgements::from_meta(
            &self.object.metadata,
            status.map_or(&[], |s| &s.pending_acknowledgements),
            status.map_or(&[], |s| &s.acknowledged),
            self.now.wall,
        )
    }

    /// The value of the reconcile request annotation.
    pub fn reconcile_request(&self) -> Option<&str> {
        reconcile_request::find_request(&self.object.metadata)
    }

    /// The status; empty if not set.
    pub fn status(&self) -> BareMetalServerStatus {
        self.object.status.clone().unwrap_or_default()
    }

    /// Whether the status reports nothing yet, except that the object is queued.
    pub fn is_new(&self) -> bool {
        let status = self.object.status.as_ref();
        status.is_none_or(|s| s.uuid.is_none() && conditions::is_new(&s.conditions))
    }

    /// How long the status of a new object still stays empty; none if it is reported now.
    pub fn time_until_report(&self) -> Option<Duration> {
        let since = self.first_seen.max(self.leader_since);
        let rest = Explanation::time_until_first_status(self.now.elapsed_since(since));
        (!rest.is_zero()).then_some(rest)
    }

    /// The host name that the spec asks for.
    pub fn hostname(&self) -> &str {
        self.object
            .spec
            .hostname
            .as_deref()
            .unwrap_or_else(|| self.name())
    }

    /// The policies in force: the object's, else its account's, else the operator's; suspended if the account is
    /// stopped. Without a known account the last reported ones; none if none were reported.
    pub fn known_policies(&self) -> Option<PoliciesInForce> {
        let known = self.known_policies_of_spec()?;
        let suspend = known.suspend || self.account.suspension().is_some();
        Some(PoliciesInForce { suspend, ..known })
    }

    fn known_policies_of_spec(&self) -> Option<PoliciesInForce> {
        let own = self.object.spec.policies();
        let defaults = self.view().and_then(|view| view.defaults);
        if let Some(defaults) = defaults {
            return Some(own.or(defaults).over(PoliciesInForce::default()));
        }
        let status = self.object.status.as_ref();
        let last = status.and_then(|s| s.policies);
        match last {
            Some(last) => Some(own.over(last)),
            None if own.are_complete() => Some(own.over(PoliciesInForce::default())),
            None => None,
        }
    }

    /// The policies in force, or the operator's if unknown. Not for irreversible actions.
    pub fn policies(&self) -> PoliciesInForce {
        let own = self.object.spec.policies();
        let unknown = || own.over(PoliciesInForce::default());
        self.known_policies().unwrap_or_else(unknown)
    }

    /// Whether outputs are only compared: the server is suspended, or the operator is read-only.
    pub fn writes_no_outputs(&self) -> bool {
        self.policies().suspend || self.read_only
    }

    /// Sets the account as read live.
    pub fn set_live(&mut self, live: LiveAccount) {
        self.account.set_live(live);
    }

    /// The wall clock, limited by the elapsed monotonic time and by the API server's clock. For what must not happen
    /// too early.
    pub fn steady_wall(&self) -> i64 {
        let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        let own = self.wall_at_start.saturating_add(seconds(self.now.mono));
        let servers = self.memory.server_time.map_or(i64::MAX, |(time, at)| {
            time.saturating_add(seconds(self.now.elapsed_since(at)))
        });
        self.now.wall.min(own).min(servers)
    }

    /// When the delayed release of a deleted object may begin; none if not delayed.
    pub fn release_due(&self) -> Option<i64> {
        let deleted = self.object.metadata.deletion_timestamp.as_ref()?;
        let delay = self.policies().release_delay?.0.as_secs();
        let delay = i64::try_from(delay).unwrap_or(i64::MAX);
        let due = deleted.0.as_second().saturating_add(delay);
        (delay > 0).then_some(due)
    }

    /// When the object expires, in Unix seconds.
    pub fn expires_at(&self) -> Option<i64> {
        let at = self.object.spec.expires_at.as_ref()?;
        Some(at.0.as_second())
    }

    /// The account's view, if the account is known.
    pub fn view(&self) -> Option<&AccountView> {
        self.account.view()
    }
}

/// Whether the object has our finalizer.
pub fn has_finalizer(object: &BareMetalServer) -> bool {
    has_named_finalizer(object, SERVER_FINALIZER)
}

fn has_named_finalizer(object: &BareMetalServer, finalizer: &str) -> bool {
    let mut all = object.metadata.finalizers.iter().flatten();
    all.any(|f| f == finalizer)
}

/// The account that pays. The account of the order stays, even if the reference changes.
pub fn account_of(object: &BareMetalServer) -> PinnedAccount {
    let pinned = object.status.as_ref().and_then(|s| s.account_ref.as_ref());
    PinnedAccount::in_force(pinned, object.spec.account_ref.as_ref())
}

/// The recorded release, if it belongs to this object.
pub fn recorded_release(object: &BareMetalServer) -> Option<&ReleaseRecord> {
    let record = object.status.as_ref()?.records.release.as_ref()?;
    (object.metadata.uid.as_ref() == Some(&record.uid)).then_some(record)
}
