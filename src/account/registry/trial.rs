//! The trial of candidate credentials next to those in use. It shares their rate limiter, its failures do not affect
//! them, and nothing that it reads is kept.

use super::{Accounts, Core};
use flexmetal_core::account::{
    decide::candidate::{TrialResult, VerificationServer},
    key::AccountKey,
    ownership_tags,
    priority::Priority,
};
use hosting::Client;
use hosting_types::{Error, Page, ServerFilter};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::task::JoinSet;

/// Longest wait at the end of a trial.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A running trial. Dropping it ends it.
pub(super) struct Trial {
    /// Hash of the candidate connection.
    connection_hash: String,
    result: Arc<Mutex<Option<TrialResult>>>,
    _task: JoinSet<()>,
}

impl Accounts {
    /// Tries candidate credentials, and enqueues the account object once there is a result. Replaces an earlier trial.
    /// Does nothing without a connection, or if the UID is not the current object's.
    pub fn try_candidate(
        &self,
        (key, uid): (&AccountKey, &str),
        connection_hash: String,
        client: Client,
        servers: Vec<VerificationServer>,
    ) {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(key).filter(|e| e.account.uid() == uid) else {
            return;
        };
        let Some((live, _)) = entry.account.connected() else {
            return;
        };
        let core = live.core;
        let account = entry.account.clone();
        let result = Arc::<Mutex<Option<TrialResult>>>::default();
        let shared_result = result.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let tried = try_key(&core, &client, &servers).await;
            *shared_result.lock().unwrap_or_else(PoisonError::into_inner) = Some(tried);
            account.enqueue_account_object();
        });
        entry.trial = Some(Trial {
            connection_hash,
            result,
            _task: task,
        });
    }

    /// Result of the trial with this connection hash: None without a trial, Some(None) while it runs.
    pub fn trial_result(
        &self,
        key: &AccountKey,
        connection_hash: &str,
    ) -> Option<Option<TrialResult>> {
        let entries = self.entries();
        let trial = entries.get(key)?.trial.as_ref()?;
        let result = trial.result.lock();
        let result = result.unwrap_or_else(PoisonError::into_inner).clone();
        (trial.connection_hash == connection_hash).then_some(result)
    }

    /// Ends the trial.
    pub fn end_trial(&self, key: &AccountKey) {
        if let Some(entry) = self.entries().get_mut(key) {
            entry.trial = None;
        }
    }

    /// Whether the API rejects the key in use.
    pub fn is_refused(&self, key: &AccountKey) -> bool {
        let connected = self.get(key).and_then(|account| account.connected());
        connected.is_some_and(|(live, _)| live.core.check_key().is_err())
    }

    /// UUIDs of the live servers that the connection in use shows, in lower case.
    pub fn live_servers(&self, key: &AccountKey) -> HashSet<String> {
        let connected = self.get(key).and_then(|account| account.connected());
        let Some((live, _)) = connected else {
            return HashSet::new();
        };
        let state = live.core.state();
        let present = state.servers.snapshot().unreleased_servers();
        let present = present.filter(|shown| shown.server.status.is_live());
        let ids = present.map(|shown| shown.server.id.as_str().to_ascii_lowercase());
        ids.collect()
    }

    /// Whether the account object has an open order, or a sent one that is not settled.
    pub fn is_ordering(&self, key: &AccountKey) -> bool {
        let account = self.get(key);
        account.is_some_and(|account| !account.reservations().ordering_name_hashes().is_empty())
    }

    /// Whether the previous connection has calls in flight, or permits for more.
    pub fn is_draining(&self, key: &AccountKey) -> bool {
        let entries = self.entries();
        entries
            .get(key)
            .is_some_and(|e| e.previous_connection.upgrade().is_some())
    }
}

async fn try_key(core: &Core, client: &Client, servers: &[VerificationServer]) -> TrialResult {
    // While the key in use is rejected, everything waits for this result.
    let priority = match core.check_key() {
        Ok(()) => Priority::Catalogue,
        Err(_) => Priority::Resolve,
    };
    // A key that may not read servers is useless.
    core.rate_limiter.wait(priority).await;
    let all = ServerFilter::default();
    match client.servers(&all, Page::new(0, 1)).await {
        Ok(_) if servers.is_empty() => return TrialResult::Accepted,
        Ok(_) => {}
        Err(Error::AccessDenied(refusal)) => return TrialResult::Refused(refusal),
        Err(error) => return failed(&error).await,
    }
    let mut failure = None;
    for VerificationServer { id, name_hash } in servers {
        core.rate_limiter.wait(priority).await;
        match client.server(id).await {
            Ok(server) => {
                let mut hashes = ownership_tags::name_hashes(&server);
                let name_hash = name_hash.as_deref();
                if name_hash.is_none_or(|name_hash| hashes.any(|hash| hash == name_hash)) {
                    return TrialResult::Shows;
                }
            }
            Err(Error::NotFound(_)) => {}
            Err(Error::AccessDenied(refusal)) => return TrialResult::Refused(refusal),
            Err(error) if is_too_much(&error) => return failed(&error).await,
            Err(error) => failure = Some(error.explain()),
        }
    }
    match failure {
        Some(why) => TrialResult::Failed(why),
        None => TrialResult::ShowsNone,
    }
}

/// Whether the API asks for fewer calls.
fn is_too_much(error: &Error) -> bool {
    matches!(error, Error::RateLimited(_)) || error.retry_after().is_some()
}

/// Ends the trial after the wait that the API asks for. The key in use keeps its pace: the candidate may belong to
/// another account, and a shared limit affects the key in use anyway.
async fn failed(error: &Error) -> TrialResult {
    let pause = error.retry_after().unwrap_or_default();
    tokio::time::sleep(pause.min(LONGEST_WAIT)).await;
    TrialResult::Failed(error.explain())
}
