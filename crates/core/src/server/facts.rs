//! What a decision rests on: everything observe gathered, as plain data.

use super::memory::Memory;
pub use crate::account_facts::LiveAccount;
use crate::{
    account::{
        key::AccountKey,
        view::{Sighting, View},
    },
    account_facts::AccountFacts,
    acknowledgement::Acknowledgements,
    cause::Cause,
    mark::{ClusterId, Mark},
    moment::Moment,
    power::KnownCommand,
    request,
    server_commands::UnderWay,
    stored_keys::Found,
};
use api::{
    BareMetalServer, PoliciesInForce, Reason, conditions,
    names::{ORDER_ANNOTATION, OUTPUT_FINALIZER, SERVER_FINALIZER},
    order::OrderNote,
    references::PinnedAccount,
    server::BareMetalServerStatus,
};
use hosting_types::{
    SecretText, Server, ServerId,
    server::{KernelParam, UserData},
};
use std::{sync::Arc, time::Duration};

/// All that one decision is allowed to know.
#[derive(Clone)]
pub struct Facts {
    /// The moment of the decision.
    pub now: Moment,
    /// The wall clock at the start of this process.
    pub wall_at_start: i64,
    /// Identity of the cluster that this process works for.
    pub cluster: ClusterId,
    /// Whether this process sees the objects of all namespaces.
    pub all_namespaces: bool,
    /// Whether the kind itself is being deleted, which turns every object into Retain; None: it cannot be seen.
    pub kind_deleting: Option<bool>,
    /// Since when, by the monotonic clock, this process acts for the object's namespace.
    pub acting_since: Duration,
    /// When this process first saw the object.
    pub first_seen: Duration,
    /// Whether the object was not there when this process had begun to act: what ever ordered for it
    /// is this process. Told by a listing and not by clocks.
    pub is_newcomer: bool,
    /// The object, as fresh as this process has seen it.
    pub object: Arc<BareMetalServer>,
    /// The account that pays.
    pub account: AccountFacts,
    /// What a machine is installed with, read from where the spec says; None where this pass has no need of it.
    pub installation: Option<Result<Installation, Cause>>,
    /// Why the account lets no order start, where it was just asked.
    pub denied: Option<(Reason, String)>,
    /// What the key objects show that the spec names.
    pub named_keys: Vec<Found>,
    /// Every machine that is known to bear this object's mark, any state; but for those that are over and of an order
    /// before the one that the object speaks of now: they say nothing of that one.
    pub own: Vec<Sighting>,
    /// The machine that status names, whatever its tags.
    pub recorded: Option<Sighting>,
    /// Every live machine that an earlier object of this namespace and name left behind, in the order of their
    /// identifiers. Looked for only while the object has no live machine of its own.
    pub retained: Vec<Sighting>,
    /// The accounts that may have more of those: they were not listed yet. Looked for as above.
    pub unlisted: Vec<AccountKey>,
    /// What is known of the mark in an order annotation that is not this object's own.
    pub former: Option<Former>,
    /// What is known of the machine that `spec.externalID` names; None: it names none.
    pub external: Option<External>,
    /// The marks of other objects on every machine that this one has or may get.
    pub other_marks: Vec<OtherMark>,
    /// Those of its machines that another living object has on record.
    pub recorded_elsewhere: Vec<ServerId>,
    /// What is known of the ServerCommands for the object.
    pub commands: UnderWay,
    /// What is known of the ServerCommand that `spec.power` came to.
    pub power: KnownCommand,
    /// What this process remembers of the object.
    pub memory: Memory,
}

/// What is known of the machine that `spec.externalID` names.
#[derive(Clone, Debug, PartialEq)]
pub struct External {
    /// Its identifier, as the spec writes it.
    pub uuid: String,
    /// The machine, as last seen; None: it was not, or the last list of every machine does not show it.
    pub shown: Option<Sighting>,
    /// The moment of that list.
    pub looked: Option<Duration>,
}

/// The mark of another object on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherMark {
    /// The mark.
    pub mark: Mark,
    /// Whether a living object bears it; None where not all namespaces are visible.
    pub claimed: Option<bool>,
    /// Whether that object has the machine on record, or in its metadata.
    pub is_settled: bool,
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
}

/// What is known of another mark.
#[derive(Clone, Debug, PartialEq)]
pub struct Former {
    /// Whether a living object bears the mark; None where not all namespaces are visible.
    pub claimed: Option<bool>,
    /// Machines with that mark.
    pub machines: Vec<Sighting>,
}

impl Facts {
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

    /// Whether the status is this object's, and not that of an earlier one of this name, which was restored.
    pub fn has_own_status(&self) -> bool {
        let status = self.object.status.as_ref();
        let order = status.and_then(|status| status.records.order.as_ref());
        order.is_some_and(|order| order.intent.uid == self.uid())
    }

    /// The object's mark.
    pub fn mark(&self) -> Mark {
        self.cluster
            .object_mark(self.namespace(), self.name(), self.uid())
    }

    /// The tag of a machine that the object leaves behind.
    pub fn tag_of_retained(&self) -> String {
        self.cluster.tag_of_retained(self.namespace(), self.name())
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
        bears(&self.object, OUTPUT_FINALIZER)
    }

    /// The order annotation: absent, readable, or the text that could not be read.
    pub fn annotation(&self) -> Option<Result<OrderNote, String>> {
        order_annotation(&self.object)
    }

    /// The machine whose release has begun.
    pub fn release_begun(&self) -> Option<&str> {
        recorded_release(&self.object)
    }

    /// What the object has of acknowledgements.
    pub fn acknowledgements(&self) -> Acknowledgements<'_> {
        let status = self.object.status.as_ref();
        Acknowledgements::of(
            &self.object.metadata,
            status.map_or(&[], |s| &s.pending_acknowledgements),
            status.map_or(&[], |s| &s.acknowledged),
            self.now.wall,
        )
    }

    /// The word by which somebody asks for a look now.
    pub fn reconcile_request(&self) -> Option<&str> {
        request::word(&self.object.metadata)
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
    pub fn until_told(&self) -> Option<Duration> {
        let since = self.first_seen.max(self.acting_since);
        let rest = Cause::queued_after(self.now.since(since));
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
        let known = self.known_but_for_stops()?;
        let suspend = known.suspend || self.account.stopped().is_some();
        Some(PoliciesInForce { suspend, ..known })
    }

    fn known_but_for_stops(&self) -> Option<PoliciesInForce> {
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

    /// The wall clock, without what it was turned forward since the process started: for what must not come too early.
    pub fn steady_wall(&self) -> i64 {
        let ran = i64::try_from(self.now.mono.as_secs()).unwrap_or(i64::MAX);
        self.now.wall.min(self.wall_at_start.saturating_add(ran))
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

    /// What is known of another object's mark.
    pub fn other_mark(&self, mark: &str) -> Option<&OtherMark> {
        self.other_marks
            .iter()
            .find(|other| other.mark.as_str() == mark)
    }

    /// Whether a mark is this object's, or that of one that is gone.
    pub fn is_left(&self, mark: &Mark) -> bool {
        let other = self.other_mark(mark.as_str());
        *mark == self.mark() || other.is_some_and(|other| other.claimed == Some(false))
    }

    /// Whether another living object has this machine on record.
    pub fn is_recorded_elsewhere(&self, server: &Server) -> bool {
        self.recorded_elsewhere.contains(&server.id)
    }

    /// Whether `spec.externalID` names this machine.
    pub fn names(&self, server: &Server) -> bool {
        let named = self.object.spec.external_id.as_deref();
        named.is_some_and(|named| is_same_uuid(named, server.id.as_str()))
    }

    /// The account's view, where there is an account.
    pub fn view(&self) -> Option<&View> {
        self.account.view()
    }
}

fn annotation<'a>(object: &'a BareMetalServer, name: &str) -> Option<&'a str> {
    object
        .metadata
        .annotations
        .as_ref()?
        .get(name)
        .map(String::as_str)
}

/// Whether our finalizer is on the object.
pub fn has_finalizer(object: &BareMetalServer) -> bool {
    bears(object, SERVER_FINALIZER)
}

fn bears(object: &BareMetalServer, finalizer: &str) -> bool {
    let mut all = object.metadata.finalizers.iter().flatten();
    all.any(|f| f == finalizer)
}

/// The account that pays. That of the order stays it, whatever the reference says by now.
pub fn account_of(object: &BareMetalServer) -> PinnedAccount {
    let pinned = object.status.as_ref().and_then(|s| s.account_ref.as_ref());
    PinnedAccount::in_force(pinned, object.spec.account_ref.as_ref())
}

/// Whether two texts are the same UUID: case does not matter.
pub fn is_same_uuid(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// The server whose release is on record in an object that is being deleted. A living object releases nothing, whatever
/// its status says.
pub fn recorded_release(object: &BareMetalServer) -> Option<&str> {
    let record = object.status.as_ref()?.records.release.as_ref()?;
    let is_own = object.metadata.uid.as_ref() == Some(&record.uid);
    (is_own && object.metadata.deletion_timestamp.is_some()).then_some(record.server.as_str())
}

/// The order annotation of an object: absent, readable, or the text that could not be read.
pub fn order_annotation(object: &BareMetalServer) -> Option<Result<OrderNote, String>> {
    let text = annotation(object, ORDER_ANNOTATION)?;
    Some(serde_json::from_str(text).map_err(|_| text.chars().take(120).collect()))
}
