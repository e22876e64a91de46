//! The key calls of this process, current and recent: two objects with one key store it once, and a key that one
//! deletes is not used by another.

use crate::runtime::clock;
use flexmetal_core::{public_key::Fingerprint, ssh_key::facts::CallProgress};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How long an ended call is remembered. An older key list is not used after that anyway.
const KEPT: Duration = Duration::from_secs(3600);

/// The key calls of this process.
#[derive(Clone, Default)]
pub struct KeyCalls(Arc<Mutex<HashMap<KeyCall, CallProgress>>>);

/// What a call is about: the credentials hash, since each account has its own keys, and the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum KeyCall {
    Store(String, Fingerprint),
    Delete(String, String),
}

/// A call under way.
#[must_use]
pub struct RunningKeyCall {
    posts: KeyCalls,
    call: KeyCall,
    before: CallProgress,
    is_sent: bool,
}

impl KeyCalls {
    /// The progress of the call that stores a key with these credentials.
    pub fn store_progress(&self, connection: &str, key: &Fingerprint) -> CallProgress {
        let call = KeyCall::Store(connection.to_owned(), key.clone());
        self.lock().get(&call).copied().unwrap_or_default()
    }

    /// The stored keys that calls with these credentials delete or deleted, by lower-case identifier.
    pub fn list_deletions(&self, connection: &str) -> BTreeMap<String, CallProgress> {
        let all = self.lock();
        let leaving = all.iter().filter_map(|(call, posting)| match call {
            KeyCall::Delete(over, uuid) if over == connection => Some((uuid.clone(), *posting)),
            _ => None,
        });
        leaving.collect()
    }

    /// Starts a call that stores a key, after a list without it. None: another object's call came in between.
    pub fn start_store(
        &self,
        connection: &str,
        key: &Fingerprint,
        listed_at: Duration,
    ) -> Option<RunningKeyCall> {
        let call = KeyCall::Store(connection.to_owned(), key.clone());
        self.enter(call, |before| match before {
            CallProgress::InFlight(_) => false,
            CallProgress::Ended(at) => at < listed_at,
            CallProgress::None => true,
        })
    }

    /// Starts the deletion of a stored key: from now on no object counts it as stored. None: a deletion is under way.
    pub fn start_deletion(&self, connection: &str, uuid: &str) -> Option<RunningKeyCall> {
        let call = KeyCall::Delete(connection.to_owned(), uuid.to_ascii_lowercase());
        self.enter(call, |before| !matches!(before, CallProgress::InFlight(_)))
    }

    fn enter(
        &self,
        call: KeyCall,
        may: impl FnOnce(CallProgress) -> bool,
    ) -> Option<RunningKeyCall> {
        let now = clock::now().mono;
        let mut all = self.lock();
        all.retain(|_, posting| match posting {
            CallProgress::Ended(at) => now.saturating_sub(*at) < KEPT,
            CallProgress::None | CallProgress::InFlight(_) => true,
        });
        let before = all.get(&call).copied().unwrap_or_default();
        if !may(before) {
            return None;
        }
        all.insert(call.clone(), CallProgress::InFlight(now));
        Some(RunningKeyCall {
            posts: self.clone(),
            call,
            before,
            is_sent: false,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<KeyCall, CallProgress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningKeyCall {
    /// Records that the call is about to be sent.
    pub fn send(&mut self) {
        self.is_sent = true;
    }
}

impl Drop for RunningKeyCall {
    fn drop(&mut self) {
        let mut all = self.posts.lock();
        let after = match self.is_sent {
            true => CallProgress::Ended(clock::now().mono),
            false => self.before,
        };
        match after {
            CallProgress::None => all.remove(&self.call),
            after => all.insert(self.call.clone(), after),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flexmetal_core::public_key::PublicKey;

    const HERE: &str = "here";

    fn key() -> Fingerprint {
        PublicKey::parse(
            b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBv2kqKzv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1Z",
        )
        .unwrap()
        .fingerprint()
    }

    #[tokio::test(start_paused = true)]
    async fn key_is_stored_once_until_a_later_list() {
        let (key, posts) = (key(), KeyCalls::default());
        let listed_at = clock::now().mono;
        tokio::time::advance(Duration::from_secs(1)).await;
        let mut first = posts.start_store(HERE, &key, listed_at).unwrap();
        first.send();
        assert!(posts.start_store(HERE, &key, listed_at).is_none());
        assert_eq!(
            posts.store_progress(HERE, &key),
            CallProgress::InFlight(clock::now().mono)
        );
        drop(first);
        let ended = posts.store_progress(HERE, &key);
        assert_eq!(ended, CallProgress::Ended(clock::now().mono));
        assert!(
            posts.start_store(HERE, &key, listed_at).is_none(),
            "the look is older"
        );
        tokio::time::advance(Duration::from_secs(1)).await;
        let unsent = posts.start_store(HERE, &key, clock::now().mono).unwrap();
        drop(unsent);
        assert_eq!(
            posts.store_progress(HERE, &key),
            ended,
            "nothing was sent since"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_of_another_account_holds_nothing_up() {
        let (key, posts) = (key(), KeyCalls::default());
        let listed_at = clock::now().mono;
        let _hangs = posts.start_store("elsewhere", &key, listed_at).unwrap();
        assert_eq!(posts.store_progress(HERE, &key), CallProgress::None);
        assert!(posts.start_store(HERE, &key, listed_at).is_some());
        let _leaves = posts.start_deletion("elsewhere", "U1").unwrap();
        assert!(posts.list_deletions(HERE).is_empty());
        assert!(posts.list_deletions("elsewhere").contains_key("u1"));
    }

    #[tokio::test(start_paused = true)]
    async fn key_deletion_is_known_before_and_after_call() {
        let posts = KeyCalls::default();
        let mut leaves = posts.start_deletion(HERE, "U1").unwrap();
        assert!(posts.start_deletion(HERE, "u1").is_none());
        leaves.send();
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(leaves);
        let ended = CallProgress::Ended(clock::now().mono);
        assert_eq!(posts.list_deletions(HERE).get("u1"), Some(&ended));
        drop(posts.start_deletion(HERE, "u2"));
        assert_eq!(
            posts.list_deletions(HERE).get("u2"),
            None,
            "it was not sent"
        );
    }
}
