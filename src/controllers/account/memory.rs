//! What is remembered of an account object between two reconciles.

use super::{ca_bundle::Bundle, candidate::Trials, secret::KeySecretContent};
use crate::runtime::clock;
use api::account::{CaBundleRef, Endpoint};
use flexmetal_core::{
    account::{operator, recheck_interval::RecheckInterval},
    backoff::Backoff,
    reconcile_request::ReconcileRequest,
    reference_grace::ReferenceGrace,
};
use std::time::Duration;

/// Memory of one account object.
#[derive(Clone, Default)]
pub struct AccountMemory {
    /// The Secret as last read, by its name.
    pub(super) reading: Option<Cached<String, KeySecretContent>>,
    /// The CA bundle that the spec refers to, as last read, by its reference.
    pub(super) bundle: Option<Cached<CaBundleRef, Bundle>>,
    /// Maximum age of both at the next reconcile.
    pub(super) inputs_age: Duration,
    /// How often a missing input is read again.
    pub(super) recheck_interval: RecheckInterval,
    /// The parameters of the connection in use.
    pub(super) connected: Option<ConnectionParams>,
    /// The trials of the candidate credentials.
    pub(super) trials: Trials,
    /// When the account began to answer again, as last observed. A change starts the next trial at once.
    pub(super) answers_since: Option<Duration>,
    /// The generation that was last reconciled.
    pub(super) generation: Option<i64>,
    /// When the status was last updated.
    pub(super) written: Option<Duration>,
    /// When the call figures or the catalogue in status last changed.
    pub(super) figures_written: Option<Duration>,
    /// When the catalogue that status shows was read.
    pub(super) offered: Option<Duration>,
    /// The next account ID, until status records it.
    pub(super) next_account_id: Option<String>,
    /// The endpoint that showed no recorded server, and the start of the first such list.
    pub(super) missed: Option<(Endpoint, Duration)>,
    /// Backoff after failed effects.
    pub(super) backoff: Backoff,
    /// Reason of the last failed effect.
    pub(super) failure: Option<String>,
    /// The missing reference and since when it is missing.
    pub(super) grace: ReferenceGrace,
    /// The reconcile that a user requested.
    pub(super) request: ReconcileRequest,
    /// The leadership term in which this process serves the account.
    pub(super) served_in: Option<Duration>,
    /// The observed Lease of another operator that serves the account.
    pub(super) other: operator::SeenLease,
    /// The Lease of the last published conflict event.
    pub(super) conflict: Option<String>,
}

/// All parameters of a client, with the hash of the key instead of the key.
#[derive(Clone, PartialEq)]
pub(super) struct ConnectionParams {
    pub(super) base_url: String,
    pub(super) credentials_hash: String,
    pub(super) ca_bundle: Option<Vec<u8>>,
    pub(super) order_timeout: Duration,
}

impl ConnectionParams {
    /// The endpoint, as in status.
    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint {
            base_url: self.base_url.clone(),
            credentials_hash: self.credentials_hash.clone(),
        }
    }

    /// The CA bundle, as text.
    pub(super) fn trusted(&self) -> Option<String> {
        let pem = self.ca_bundle.clone()?;
        String::from_utf8(pem).ok()
    }
}

impl AccountMemory {
    /// Makes the next reconcile read Secret and CA bundle again.
    pub(super) fn forget_inputs(&mut self) {
        self.reading = None;
        self.bundle = None;
    }
}

/// The last read value of something that the spec refers to.
#[derive(Clone)]
pub(super) struct Cached<W, V> {
    at: Duration,
    wanted: W,
    value: V,
}

impl<W: PartialEq, V: Clone> Cached<W, V> {
    /// Returns the value, read again if it is older than `age`. Keeps the old value if the API server does not answer.
    pub(super) async fn get_or_read(
        cached: &mut Option<Self>,
        wanted: W,
        age: Duration,
        is_unread: impl Fn(&V) -> bool,
        read: impl Future<Output = V>,
    ) -> V {
        let now = clock::now().mono;
        let previous = cached.take().filter(|previous| previous.wanted == wanted);
        let (at, value) = match previous {
            Some(previous) if now.saturating_sub(previous.at) < age => {
                (previous.at, previous.value)
            }
            previous => match (read.await, previous) {
                (value, Some(previous)) if is_unread(&value) => {
                    tracing::debug!("reference read failed");
                    (previous.at, previous.value)
                }
                (value, _) => (now, value),
            },
        };
        let shown = value.clone();
        *cached = Some(Self { at, wanted, value });
        shown
    }
}
