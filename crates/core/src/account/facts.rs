//! The facts on which a decision on an account is based.

use super::{
    decide::candidate::AccountKeys,
    view::{Catalogue, CompleteList},
};
use crate::{
    account::{
        key::AccountKey,
        key_state::KeyState,
        orphan_scan::{OrphanScanResult, Others},
        recorded::RecordedResources,
        usage::AccountUsage,
        view::AccountTimes,
    },
    acknowledgement::Acknowledgements,
    reconcile_request::ReconcileRequest,
    reference_grace::ReferenceGrace,
};
use api::{
    Reason,
    account::{AccountSpec, AccountStatus, Endpoint, KnownServer},
    names::{ACCOUNT_FINALIZER, SECRET_WITH_FINALIZER},
    references::KeySelector,
    timing::TimingInForce,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{sync::Arc, time::Duration};

/// The input of one decision.
#[derive(Clone)]
pub struct AccountFacts {
    /// The time of the decision, by the monotonic clock.
    pub now: Duration,
    /// When this process became leader, by the monotonic clock.
    pub leader_since: Duration,
    /// The wall clock in Unix seconds, without forward jumps since the process started.
    pub wall: i64,
    /// The name of the account object.
    pub key: AccountKey,
    /// Its metadata.
    pub meta: ObjectMeta,
    /// Its spec.
    pub spec: AccountSpec,
    /// Size of its whole spec in bytes, as the API server stores it.
    pub spec_size: usize,
    /// The times in force.
    pub timing: TimingInForce,
    /// Its status, as last written.
    pub status: AccountStatus,
    /// Namespace of the key Secret.
    pub secret_namespace: String,
    /// The key Secret, as last read.
    pub secret: SecretFact,
    /// The CA bundle that the spec refers to, as last read.
    pub bundle: BundleFact,
    /// The certificates in use, if the spec refers to a CA bundle.
    pub trusted: Option<String>,
    /// The key in use, and the candidate key.
    pub keys: AccountKeys,
    /// Whether base URL and CA bundle can be used, or what is wrong.
    pub endpoint: Result<(), String>,
    /// Number of objects that use the account; None: not known, or not every account object has been seen.
    pub users: Option<usize>,
    /// The same by kind; empty while it is not known.
    pub used_by: Vec<UsedBy>,
    /// The first of them by kind and name, while account or Secret is being deleted.
    pub named_users: Vec<(String, Vec<String>)>,
    /// Whether figures that change by themselves were not written for a while.
    pub figures_are_due: bool,
    /// When the catalogue that status shows was read; None: not known.
    pub offered: Option<Duration>,
    /// Whether another account in use also needs the finalizer on the Secret that has it for this one.
    pub secret_is_shared: bool,
    /// Whether the account was connected before, with the last good key.
    pub connected: bool,
    /// Base URL and key in use; they stay while the Secret has no usable others.
    pub in_force: Option<Endpoint>,
    /// What objects recorded at the account; None: not known, or not needed.
    pub on_record: Option<RecordedResources>,
    /// Start of the first complete list with the credentials in use that showed no recorded server.
    pub missed_since: Option<Duration>,
    /// Whether the operator is read-only.
    pub read_only: bool,
    /// A random account ID that is not used yet.
    pub next_account_id: String,
    /// State of the account; None before the first connection, and right after a new one.
    pub report: Option<AccountReport>,
    /// Number of effects that failed in a row, and the last error.
    pub failed: Option<(u32, String)>,
    /// What it waits for, and since when.
    pub grace: ReferenceGrace,
    /// The reconcile request of a user.
    pub request: ReconcileRequest,
}

/// State of the key Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretFact {
    /// It could not be read. Has the reason.
    Unread(String),
    /// It does not exist.
    Missing,
    /// It exists.
    Found {
        /// Short hash of its key, or why it has no usable one.
        key: Result<String, KeyFault>,
        /// Whether it is being deleted.
        deleting: bool,
        /// Whether our finalizer is on it.
        has_finalizer: bool,
    },
}

/// Why a Secret has no usable key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFault {
    /// The Secret has the wrong type.
    OtherType,
    /// The Secret has no such key.
    Absent,
    /// The value is no API key. Has the reason, without the value.
    Invalid(String),
}

/// State of the CA bundle that a spec refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BundleFact {
    /// It was read, or the spec refers to none.
    Known,
    /// It could not be read. Has the reason.
    Unread(String),
    /// The object does not exist.
    NoObject,
    /// The object has no such key.
    NoKey,
    /// It cannot be used. Has the reason.
    Unusable(String),
}

impl AccountFacts {
    /// Whether our finalizer is on the account.
    pub fn has_finalizer(&self) -> bool {
        let finalizers = self.meta.finalizers.iter().flatten();
        finalizers.into_iter().any(|f| f == ACCOUNT_FINALIZER)
    }

    /// The Secret that has our finalizer for this account.
    pub fn finalized_secret(&self) -> Option<&str> {
        let annotations = self.meta.annotations.as_ref()?;
        annotations.get(SECRET_WITH_FINALIZER).map(String::as_str)
    }

    /// Whether the account is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    /// The account's times.
    pub fn times(&self) -> AccountTimes {
        AccountTimes::from(self.timing)
    }

    /// Name of the Secret, for messages.
    pub fn secret_name(&self) -> String {
        format!(
            "Secret {}/{}",
            self.secret_namespace, self.spec.api_key_secret_ref.name
        )
    }

    /// Name of the object with the CA bundle, for messages, and its key; None: the spec refers to none.
    pub fn bundle_name(&self) -> Option<(String, String)> {
        let reference = self.spec.ca_bundle_ref.as_ref()?;
        let KeySelector { name, key } = reference.selector();
        let kind = reference.kind.as_str();
        Some((format!("{kind} {}/{name}", self.secret_namespace), key))
    }

    /// The certificates that `spec.caBundleRef` gave, for the status: another process trusts them while the object is
    /// missing.
    pub fn ca_bundle(&self) -> Option<String> {
        self.spec.ca_bundle_ref.as_ref()?;
        (self.trusted.clone()).or_else(|| self.status.ca_bundle.clone())
    }

    /// UID of the account.
    pub fn uid(&self) -> &str {
        self.meta.uid.as_deref().unwrap_or_default()
    }

    /// The hash of the credentials in use.
    pub fn connection(&self) -> Option<String> {
        let in_force = self.in_force.as_ref();
        in_force.map(|endpoint| endpoint.hash_credentials(self.uid()))
    }

    /// The account's acknowledgements.
    pub fn acknowledgements(&self) -> Acknowledgements<'_> {
        acknowledgements(&self.meta, &self.status, self.wall)
    }
}

/// The acknowledgements of an account object. `now`: Unix seconds by the wall clock.
pub fn acknowledgements<'a>(
    meta: &'a ObjectMeta,
    status: &'a AccountStatus,
    now: i64,
) -> Acknowledgements<'a> {
    let (pending, used) = (&status.pending_acknowledgements, &status.acknowledged);
    Acknowledgements::from_meta(meta, pending, used, now)
}

/// Number of objects of one kind that use an account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsedBy {
    /// The kind.
    pub kind: String,
    /// The number.
    pub count: usize,
}

/// State of an account, for its status.
#[derive(Clone, Debug)]
pub struct AccountReport {
    /// State of the key.
    pub key: KeyState,
    /// Why polls fail.
    pub error: Option<(Reason, String)>,
    /// The last complete list.
    pub complete_list: Option<Arc<CompleteList>>,
    /// The result of the last orphan scan.
    pub orphan_scan: OrphanScanResult,
    /// The server counts.
    pub counts: CountedServers,
    /// The known servers to record.
    pub known: Vec<KnownServer>,
    /// Whether the known servers were asked for one by one after a complete list without them, and none was found. If one
    /// is, the list is too old, or wrong.
    pub are_known_lost: bool,
    /// What can be ordered, and when it was read; None: not read yet.
    pub catalogue: Option<(Duration, Arc<Catalogue>)>,
    /// The call budget.
    pub calls: Calls,
    /// What the servers have used; None: it is not read.
    pub usage: Option<Arc<AccountUsage>>,
}

/// How many calls an account may make per minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// While the API does not ask for fewer.
    pub full: u32,
    /// Now.
    pub in_force: u32,
}

/// The cluster's servers in an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedServers {
    /// Live ones.
    pub live: usize,
    /// Live ones that were retained by policy.
    pub retained: usize,
    /// Live ones beyond the first with the same owner.
    pub duplicates: usize,
    /// Live servers that are not the cluster's; None before the first count.
    pub others: Option<Others>,
}
