//! What a decision rests on: everything observe gathered, as plain data.

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
    server_commands::UnderWay,
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

/// All that one decision is allowed to know.
#[derive(Clone)]
pub struct ServerFacts {
    /// The moment of the decision.
    pub now: Moment,
    /// The wall clock at the start of this process.
    pub wall_at_start: i64,
    /// Identity of the cluster that this process works for.
    pub cluster: ClusterId,
    /// Whether the kind itself is being deleted, which turns every object into Retain; None: it cannot be seen.
    pub kind_deleting: Option<bool>,
    /// UID of the object's namespace, or why it is not known.
    pub namespace_uid: Result<Arc<str>, String>,
    /// Since when, by the monotonic clock, this process leads.
    pub leader_since: Duration,
    /// When this process first saw the object.
    pub first_seen: Duration,
    /// Whether the object was not there when this process had begun to act: what ever ordered for it
    /// is this process. Told by a listing and not by clocks.
    pub created_since_leading: bool,
    /// The object, as fresh as this process has seen it.
    pub object: Arc<BareMetalServer>,
    /// The account that pays.
    pub account: ResolvedAccount,
    /// What a machine is installed with, read from where the spec says; None where this pass has no need of it.
    pub installation: Option<Result<Installation, Explanation>>,
    /// Why the account lets no order start, where it was just asked.
    pub denied: Option<(Reason, String)>,
    /// What the key objects show that the spec names.
    pub named_keys: Vec<KeyLookup>,
    /// Every server with an order tag of this owner, any state.
    pub own: Vec<SeenServer>,
    /// The server that the record of the order names, whatever its tags.
    pub recorded: Option<SeenServer>,
    /// Every server with an order tag of this namespace and name from before the namespace was made again.
    pub previous: Vec<SeenServer>,
    /// Live servers without an order tag that have the host name of the object, and may be what its order made.
    pub suspects: Vec<SeenServer>,
    /// What is known of the server that `spec.externalID` names; none: it names none.
    pub external: Option<ExternalServer>,
    /// Those of all these servers that another living object has on record.
    pub recorded_elsewhere: Vec<ServerId>,
    /// Those of all these servers that have the order tag of another object that exists, or may: not all are seen.
    pub owned_elsewhere: Vec<ServerId>,
    /// Whether another living object of the namespace and account names the recorded server in its `spec.externalID`, and may
    /// take it: it is neither suspended nor only looks at it.
    pub is_handed_over: bool,
    /// What is known of the ServerCommands for the object.
    pub commands: UnderWay,
    /// What is known of the ServerCommand that `spec.power` came to.
    pub power: KnownCommand,
    /// What this process remembers of the object.
    pub memory: ServerMemory,
}

/// What is known of the server that the spec names.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalServer {
    /// Its UUID, as it is written there.
    pub uuid: String,
    /// The server, as last seen; none: it was not, or the last list of every server does not show it.
    pub shown: Option<SeenServer>,
    /// The moment of that list.
    pub listed_at: Option<Duration>,
}

/// What a machine is installed with besides the fields of the spec that say it all. Holds secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Installation {
    /// Keys for the root user.
    pub ssh_keys: Vec<ServerKey>,
    /// Parameters of the kernel.
    pub kernel_params: Vec<KernelParam>,
    /// What runs once, at the first boot.
    pub post_install_script: Option<SecretText>,
    /// What the machine reads from its metadata service.
    pub user_data: Option<UserData>,
}

/// One SSH key of an order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerKey {
    /// What is sent: a public key, or the identifier of a stored one.
    pub sent: String,
    /// By what an edit is seen. Of a key that is named, what it is: the same key may be stored again under another
    /// identifier.
    pub known_by: String,
    /// UID of its SshKey object, of a key that is named.
    pub object: Option<String>,
}

impl Installation {
    /// The UIDs of the SshKey objects of its keys.
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

    /// The object's own record of its order. That of an earlier object, as after a restore, is none.
    pub fn order(&self) -> Option<&OrderRecord> {
        let status = self.object.status.as_ref()?;
        let order = status.records.order.as_ref();
        order.filter(|order| order.uid == self.uid())
    }

    /// Whether a text that was sent, or is to be, came from a Secret or ConfigMap: of a server that the object did not order
    /// nobody knows.
    pub fn had_secret_texts(&self) -> bool {
        let status = self.object.status.as_ref();
        let install = status.and_then(|status| status.records.install.as_ref());
        let last = install.and_then(|install| install.last.as_ref());
        self.object.spec.has_secret_texts()
            || self.order().is_none_or(|order| order.secret_texts)
            || last.is_some_and(|last| last.intent.secret_texts)
    }

    /// Whether nothing of an order is open, and none made a server.
    pub fn has_no_order_or_server(&self) -> bool {
        let mut outcome = self.order().map(|order| order.outcome).into_iter();
        outcome.all(|outcome| outcome.is_some_and(OrderOutcome::made_no_server))
    }

    /// Whether the object has this server by its record.
    pub fn has_recorded(&self, uuid: &str) -> bool {
        let recorded = self.order().and_then(OrderRecord::created);
        recorded.is_some_and(|recorded| is_same_uuid(recorded, uuid))
    }

    /// Whether the status is this object's, and not that of an earlier one of this name, which was restored.
    pub fn has_own_record(&self) -> bool {
        self.order().is_some()
    }

    /// Whose the object's servers are; none while the namespace was not read.
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

    /// Whether our finalizer is on the object.
    pub fn has_finalizer(&self) -> bool {
        has_finalizer(&self.object)
    }

    /// Whether the finalizer is on the object that it has for its outputs where it has no other one.
    pub fn has_output_finalizer(&self) -> bool {
        has_named_finalizer(&self.object, OUTPUT_FINALIZER)
    }

    /// The release that has begun.
    pub fn release_begun(&self) -> Option<&ReleaseRecord> {
        recorded_release(&self.object)
    }

    /// What the object has of acknowledgements.
    pub fn acknowledgements(&self) -> Acknowledgements<'_> {
        let status = self.object.status.as_ref();
        Acknowledgements::from_meta(
            &self.object.metadata,
            status.map_or(&[], |s| &s.pending_acknowledgements),
            status.map_or(&[], |s| &s.acknowledged),
            self.now.wall,
        )
    }

    /// The word by which somebody asks for a look now.
    pub fn reconcile_request(&self) -> Option<&str> {
        reconcile_request::find_request(&self.object.metadata)
    }

    /// The status, empty when there is none.
    pub fn status(&self) -> BareMetalServerStatus {
        self.object.status.clone().unwrap_or_default()
    }

    /// Whether nothing was said of the object yet but that it waits for its turn.
    pub fn is_new(&self) -> bool {
        let status = self.object.status.as_ref();
        status.is_none_or(|s| s.uuid.is_none() && conditions::is_new(&s.conditions))
    }

    /// How long nothing is said of a new object; None: no longer.
    pub fn time_until_report(&self) -> Option<Duration> {
        let since = self.first_seen.max(self.leader_since);
        let rest = Explanation::queued_after(self.now.since(since));
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

    /// The policies in force: the object's own, else its account's, else the operator's; suspended where the account is
    /// stopped. While the account is not known, what was in force last stays; None: nobody knows.
    pub fn known_policies(&self) -> Option<PoliciesInForce> {
        let known = self.known_policies_of_spec()?;
        let suspend = known.suspend || self.account.stopped().is_some();
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

    /// The policies in force, with the operator's where nobody knows them. Not for what cannot be undone.
    pub fn policies(&self) -> PoliciesInForce {
        let own = self.object.spec.policies();
        let unknown = || own.over(PoliciesInForce::default());
        self.known_policies().unwrap_or_else(unknown)
    }

    /// Takes in what the account object says now.
    pub fn set_live(&mut self, live: LiveAccount) {
        self.account.set_live(live);
    }

    /// The wall clock, without what it was turned forward since the process started and what it is ahead of the API
    /// server's, where that was read: for what must not come too early.
    pub fn steady_wall(&self) -> i64 {
        let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        let own = self.wall_at_start.saturating_add(seconds(self.now.mono));
        let servers = self.memory.server_time.map_or(i64::MAX, |(time, at)| {
            time.saturating_add(seconds(self.now.since(at)))
        });
        self.now.wall.min(own).min(servers)
    }

    /// When the release of a deleted object may begin, by its delay; None: it waits for nothing.
    pub fn release_due(&self) -> Option<i64> {
        let deleted = self.object.metadata.deletion_timestamp.as_ref()?;
        let delay = self.policies().release_delay?.0.as_secs();
        let delay = i64::try_from(delay).unwrap_or(i64::MAX);
        let due = deleted.0.as_second().saturating_add(delay);
        (delay > 0).then_some(due)
    }

    /// When the object ends by itself.
    pub fn expires_at(&self) -> Option<i64> {
        let at = self.object.spec.expires_at.as_ref()?;
        Some(at.0.as_second())
    }

    /// The account's view, where there is an account.
    pub fn view(&self) -> Option<&AccountView> {
        self.account.view()
    }
}

/// Whether our finalizer is on the object.
pub fn has_finalizer(object: &BareMetalServer) -> bool {
    has_named_finalizer(object, SERVER_FINALIZER)
}

fn has_named_finalizer(object: &BareMetalServer, finalizer: &str) -> bool {
    let mut all = object.metadata.finalizers.iter().flatten();
    all.any(|f| f == finalizer)
}

/// The account that pays. That of the order stays it, whatever the reference says by now.
pub fn account_of(object: &BareMetalServer) -> PinnedAccount {
    let pinned = object.status.as_ref().and_then(|s| s.account_ref.as_ref());
    PinnedAccount::in_force(pinned, object.spec.account_ref.as_ref())
}

/// The release that is on record in an object, as its own.
pub fn recorded_release(object: &BareMetalServer) -> Option<&ReleaseRecord> {
    let record = object.status.as_ref()?.records.release.as_ref()?;
    (object.metadata.uid.as_ref() == Some(&record.uid)).then_some(record)
}
