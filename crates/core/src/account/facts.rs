//! What a decision on an account rests on, as plain data.

use super::{
    decide::candidate::AccountKeys,
    view::{Catalogue, CompleteList},
};
use crate::{
    account::{
        key::AccountKey,
        key_state::KeyState,
        on_record::OnRecord,
        orphans::{OrphanScanResult, Others},
        view::AccountTimes,
    },
    acknowledgement::Acknowledgements,
    reconcile_request::ReconcileRequest,
    reference_grace::ReferenceGrace,
};
use api::{
    Reason,
    account::{AccountSpec, AccountStatus, Endpoint, KnownServer},
    names::{ACCOUNT_FINALIZER, HELD_SECRET},
    references::KeySelector,
    timing::TimingInForce,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{sync::Arc, time::Duration};

/// All that one decision may know.
#[derive(Clone)]
pub struct AccountFacts {
    /// The monotonic moment of the decision.
    pub now: Duration,
    /// Since when, by the monotonic clock, this process acts.
    pub leader_since: Duration,
    /// The wall clock, without what it was turned forward since the process started.
    pub wall: i64,
    /// Which account object.
    pub key: AccountKey,
    /// Its metadata.
    pub meta: ObjectMeta,
    /// What it asks for.
    pub spec: AccountSpec,
    /// How many bytes the API server stores for its whole spec.
    pub spec_size: usize,
    /// The times in force.
    pub timing: TimingInForce,
    /// What was last written of it.
    pub status: AccountStatus,
    /// Namespace of the key Secret.
    pub secret_namespace: String,
    /// The key Secret, as last read.
    pub secret: SecretFact,
    /// The CA bundle that the spec refers to, as last read.
    pub bundle: BundleFact,
    /// The certificates in use, where the spec refers to a CA bundle.
    pub trusted: Option<String>,
    /// The key in use, and the one that is tried beside it.
    pub keys: AccountKeys,
    /// Base URL and CA bundle: whether they can be used, or what is wrong.
    pub endpoint: Result<(), String>,
    /// Objects that use the account; None while nobody knows, or not every account object has been seen.
    pub users: Option<usize>,
    /// The same, kind by kind. Empty while nobody knows.
    pub used_by: Vec<UsedBy>,
    /// The first of them by name, kind by kind, while account or Secret is being deleted.
    pub named_users: Vec<(String, Vec<String>)>,
    /// Whether figures that change by themselves were not written for a while.
    pub figures_are_due: bool,
    /// The look at the catalogue that status shows; None: not known.
    pub offered: Option<Duration>,
    /// Whether another account object that is in use stands on the Secret that bears the finalizer for this one.
    pub secret_is_shared: bool,
    /// Whether a connection was made before, with the last good key.
    pub connected: bool,
    /// URL and key of the connection in force, which stays while the Secret gives no other.
    pub in_force: Option<Endpoint>,
    /// What the objects have on record at the account; None while that is not known, or not asked for.
    pub on_record: Option<OnRecord>,
    /// Start of the first complete listing over the connection in force that showed no machine on record.
    pub missed_since: Option<Duration>,
    /// A random word that nobody has used: the next lineage.
    pub next_account_id: String,
    /// How the account stands; None before the first connection, and right after a new one.
    pub report: Option<AccountReport>,
    /// Effects that failed in a row, and why the last one did.
    pub failed: Option<(u32, String)>,
    /// What it waits for, and since when.
    pub grace: ReferenceGrace,
    /// The look that somebody asks for.
    pub request: ReconcileRequest,
}

/// What the key Secret is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretFact {
    /// It could not be read. Says why.
    Unread(String),
    /// There is none.
    Missing,
    /// There is one.
    Found {
        /// Short hash of the key that counts, or why there is no usable one.
        key: Result<String, KeyFault>,
        /// Whether it is being deleted.
        deleting: bool,
        /// Whether our finalizer is on it.
        has_finalizer: bool,
    },
}

/// Why a Secret gives no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFault {
    /// The Secret is of another type than key Secrets.
    OtherType,
    /// It has no such key.
    Absent,
    /// What is under it is no API key. Says why, without the text.
    Invalid(String),
}

/// What the CA bundle is that a spec refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BundleFact {
    /// It was read, or the spec refers to none.
    Known,
    /// It could not be read. Says why.
    Unread(String),
    /// The object does not exist.
    NoObject,
    /// The object has no such key.
    NoKey,
    /// It cannot be used. Says why.
    Unusable(String),
}

impl AccountFacts {
    /// Whether our finalizer is on the account.
    pub fn has_finalizer(&self) -> bool {
        let finalizers = self.meta.finalizers.iter().flatten();
        finalizers.into_iter().any(|f| f == ACCOUNT_FINALIZER)
    }

    /// The Secret that bears our finalizer for this account.
    pub fn finalized_secret(&self) -> Option<&str> {
        let annotations = self.meta.annotations.as_ref()?;
        annotations.get(HELD_SECRET).map(String::as_str)
    }

    /// Whether the account is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    /// The account's times.
    pub fn times(&self) -> AccountTimes {
        AccountTimes::from(self.timing)
    }

    /// Name of the Secret for messages.
    pub fn secret_name(&self) -> String {
        format!(
            "Secret {}/{}",
            self.secret_namespace, self.spec.api_key_secret_ref.name
        )
    }

    /// Name of the object with the CA bundle for messages, and the key in it; None: the spec refers to none.
    pub fn bundle_name(&self) -> Option<(String, String)> {
        let of = self.spec.ca_bundle_ref.as_ref()?;
        let KeySelector { name, key } = of.selector();
        let kind = of.kind.as_str();
        Some((format!("{kind} {}/{name}", self.secret_namespace), key))
    }

    /// The certificates that `spec.caBundleRef` gave, for the status: another process trusts them while that object is not
    /// there.
    pub fn ca_bundle(&self) -> Option<String> {
        self.spec.ca_bundle_ref.as_ref()?;
        (self.trusted.clone()).or_else(|| self.status.ca_bundle.clone())
    }

    /// UID of the account.
    pub fn uid(&self) -> &str {
        self.meta.uid.as_deref().unwrap_or_default()
    }

    /// The word for the connection in force.
    pub fn connection(&self) -> Option<String> {
        let in_force = self.in_force.as_ref();
        in_force.map(|endpoint| endpoint.hash_credentials(self.uid()))
    }

    /// What the account has of acknowledgements.
    pub fn acknowledgements(&self) -> Acknowledgements<'_> {
        acknowledgements(&self.meta, &self.status, self.wall)
    }
}

/// What an account object has of acknowledgements, at this moment of the wall clock.
pub fn acknowledgements<'a>(
    meta: &'a ObjectMeta,
    status: &'a AccountStatus,
    now: i64,
) -> Acknowledgements<'a> {
    let (pending, used) = (&status.pending_acknowledgements, &status.acknowledged);
    Acknowledgements::from_meta(meta, pending, used, now)
}

/// How many objects of a kind use an account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsedBy {
    /// The kind.
    pub kind: String,
    /// How many.
    pub count: usize,
}

/// How an account stands, for its status.
#[derive(Clone, Debug)]
pub struct AccountReport {
    /// What is known of the key.
    pub key: KeyState,
    /// The rounds fail.
    pub error: Option<(Reason, String)>,
    /// The last complete listing.
    pub complete_list: Option<Arc<CompleteList>>,
    /// The result of the last look for orphans.
    pub orphan_scan: OrphanScanResult,
    /// How many machines there are.
    pub counts: CountedServers,
    /// The machines to remember from now on.
    pub known: Vec<KnownServer>,
    /// What can be ordered, with the moment of the look; None: nobody has looked.
    pub catalogue: Option<(Duration, Arc<Catalogue>)>,
    /// How many calls may be made.
    pub calls: Calls,
}

/// How many calls an account may make, each minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// While the API does not ask for fewer.
    pub full: u32,
    /// Now.
    pub in_force: u32,
}

/// How many machines of the cluster an account has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedServers {
    /// Live ones.
    pub live: usize,
    /// Live ones that were retained by policy.
    pub retained: usize,
    /// Live ones with the mark of an object that has another one, too.
    pub duplicates: usize,
    /// Live machines that are not the cluster's; None before the first count.
    pub others: Option<Others>,
}
