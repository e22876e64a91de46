//! What is remembered of an account object between two passes.

use super::{bundle::Bundle, candidate::Trials, secret::KeySecretContent};
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
    /// The CA bundle that the spec refers to as last read, by where it is.
    pub(super) bundle: Option<Cached<CaBundleRef, Bundle>>,
    /// How old both may be at the next pass.
    pub(super) inputs_age: Duration,
    /// What is looked for, and since when.
    pub(super) recheck_interval: RecheckInterval,
    /// What the present connection was made of.
    pub(super) connected: Option<ConnectionParams>,
    /// The trials of another key than the one in use.
    pub(super) trials: Trials,
    /// Since when the account has answers again, as far as those know.
    pub(super) answers_since: Option<Duration>,
    /// The generation that was last looked at.
    pub(super) generation: Option<i64>,
    /// When a status was last written.
    pub(super) written: Option<Duration>,
    /// When figures that change by themselves were last written.
    pub(super) figures_written: Option<Duration>,
    /// The look at the catalogue that status shows.
    pub(super) offered: Option<Duration>,
    /// The next lineage, until it is on record.
    pub(super) next_account_id: Option<String>,
    /// The connection over which no machine on record was shown, and the start of the first such listing.
    pub(super) missed: Option<(Endpoint, Duration)>,
    /// Effects that failed in a row.
    pub(super) backoff: Backoff,
    /// Why the last one failed.
    pub(super) failure: Option<String>,
    /// What it waits for, and since when.
    pub(super) grace: ReferenceGrace,
    /// The look that somebody asks for.
    pub(super) request: ReconcileRequest,
    /// The term of this process in which it serves the account.
    pub(super) served_in: Option<Duration>,
    /// The Lease of another operator that serves it.
    pub(super) other: operator::SeenLease,
    /// The Lease of which an event told.
    pub(super) conflict: Option<String>,
}

/// All that a client is made of. The key by its hash.
#[derive(Clone, PartialEq)]
pub(super) struct ConnectionParams {
    pub(super) base_url: String,
    pub(super) credentials_hash: String,
    pub(super) ca_bundle: Option<Vec<u8>>,
    pub(super) order_timeout: Duration,
}

impl ConnectionParams {
    /// Where it leads, as the status shows it.
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
    /// Secret and CA bundle are read again at the next pass.
    pub(super) fn forget_inputs(&mut self) {
        self.reading = None;
        self.bundle = None;
    }
}

/// What was last read of something that the spec names.
#[derive(Clone)]
pub(super) struct Cached<W, V> {
    at: Duration,
    wanted: W,
    value: V,
}

impl<W: PartialEq, V: Clone> Cached<W, V> {
    /// The value, read again where it is older than this. A silent API server says nothing of it: what was read holds.
    pub(super) async fn get_or_read(
        cached: &mut Option<Self>,
        wanted: W,
        age: Duration,
        is_unread: impl Fn(&V) -> bool,
        read: impl Future<Output = V>,
    ) -> V {
        let now = clock::now().mono;
        let former = cached.take().filter(|former| former.wanted == wanted);
        let (at, value) = match former {
            Some(former) if now.saturating_sub(former.at) < age => (former.at, former.value),
            former => match (read.await, former) {
                (value, Some(former)) if is_unread(&value) => {
                    tracing::debug!("cannot read again what an account refers to");
                    (former.at, former.value)
                }
                (value, _) => (now, value),
            },
        };
        let shown = value.clone();
        *cached = Some(Self { at, wanted, value });
        shown
    }
}
