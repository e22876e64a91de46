//! The trial of another key beside the one in use.
//!
//! It takes its turns where the key in use takes them, so that two keys make no more calls than one. What comes of
//! it says nothing of the key in use: a wrong one closes nothing. Nothing of what it shows is kept.

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

/// The longest pause at the end of a trial that the API asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A trial. Dropped, it ends.
pub(super) struct Trial {
    /// The word for the connection that is tried.
    connection_hash: String,
    result: Arc<Mutex<Option<TrialResult>>>,
    _task: JoinSet<()>,
}

impl Accounts {
    /// Tries a key beside the one in use; the account object is woken when it is known what came of it. Another trial of
    /// the object ends. Nothing happens without a connection, or if this object is not the present one.
    pub fn try_candidate(
        &self,
        (key, uid): (&AccountKey, &str),
        word: String,
        client: Client,
        evidence: Vec<VerificationServer>,
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
        let told = result.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let tried = try_key(&core, &client, &evidence).await;
            *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(tried);
            account.enqueue_account_object();
        });
        entry.trial = Some(Trial {
            connection_hash: word,
            result,
            _task: task,
        });
    }

    /// What came of the trial of the connection of this word: None without a trial, Some(None) while it is under way.
    pub fn trial_result(&self, key: &AccountKey, word: &str) -> Option<Option<TrialResult>> {
        let entries = self.entries();
        let trial = entries.get(key)?.trial.as_ref()?;
        let result = trial.result.lock();
        let result = result.unwrap_or_else(PoisonError::into_inner).clone();
        (trial.connection_hash == word).then_some(result)
    }

    /// Nothing is to be tried beside the key in use any more.
    pub fn end_trial(&self, key: &AccountKey) {
        if let Some(entry) = self.entries().get_mut(key) {
            entry.trial = None;
        }
    }

    /// Whether the key in use is refused.
    pub fn is_refused(&self, key: &AccountKey) -> bool {
        let connected = self.get(key).and_then(|account| account.connected());
        connected.is_some_and(|(live, _)| live.core.check_key().is_err())
    }

    /// The live machines that the connection in use shows.
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

    /// Whether an order of the account object is under way, or may have been sent and is not settled.
    pub fn is_ordering(&self, key: &AccountKey) -> bool {
        let account = self.get(key);
        account.is_some_and(|account| !account.reservations().ordering_name_hashes().is_empty())
    }

    /// Whether calls over the former connection are still under way, or may follow by permits that were given.
    pub fn is_draining(&self, key: &AccountKey) -> bool {
        let entries = self.entries();
        entries
            .get(key)
            .is_some_and(|e| e.previous_connection.upgrade().is_some())
    }
}

async fn try_key(core: &Core, client: &Client, evidence: &[VerificationServer]) -> TrialResult {
    // While the key in use is refused, this is what everything waits for.
    let lane = match core.check_key() {
        Ok(()) => Priority::Catalogue,
        Err(_) => Priority::Resolve,
    };
    // A key that may not read servers is of no use, whatever else it may read.
    core.rate_limiter.wait(lane).await;
    let all = ServerFilter::default();
    match client.servers(&all, Page::new(0, 1)).await {
        Ok(_) if evidence.is_empty() => return TrialResult::Accepted,
        Ok(_) => {}
        Err(Error::AccessDenied(refusal)) => return TrialResult::Refused(refusal),
        Err(error) => return failed(&error).await,
    }
    let mut failure = None;
    for VerificationServer {
        id,
        name_hash: place,
    } in evidence
    {
        core.rate_limiter.wait(lane).await;
        match client.server(id).await {
            Ok(server) => {
                let mut places = ownership_tags::name_hashes(&server);
                let place = place.as_deref();
                if place.is_none_or(|place| places.any(|of| of == place)) {
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

/// The trial ends, after the pause that the API asks for. The key in use goes on at its pace: the other one may be of another
/// account, and a limit that both share is met by the key in use as well.
async fn failed(error: &Error) -> TrialResult {
    let pause = error.retry_after().unwrap_or_default();
    tokio::time::sleep(pause.min(LONGEST_WAIT)).await;
    TrialResult::Failed(error.explain())
}
