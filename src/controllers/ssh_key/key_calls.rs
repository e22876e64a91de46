//! What this process stores at the moment, and did a moment ago: two objects that stand for one key store it once, and what one
//! deletes is no key of another.

use crate::runtime::clock;
use flexmetal_core::{public_key::Fingerprint, ssh_key::facts::CallProgress};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// So long an end is kept; a look of before is not believed for that long anyway.
const KEPT: Duration = Duration::from_secs(3600);

/// The calls of this process.
#[derive(Clone, Default)]
pub struct KeyCalls(Arc<Mutex<HashMap<KeyCall, CallProgress>>>);

/// What a call is about: the word for the connection that it goes over, since other accounts have nothing to do
/// with it, and the thing.
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
    /// What became of the calls that store a key over this connection.
    pub fn get_posting(&self, connection: &str, key: &Fingerprint) -> CallProgress {
        let call = KeyCall::Store(connection.to_owned(), key.clone());
        self.lock().get(&call).copied().unwrap_or_default()
    }

    /// The stored keys that calls over this connection delete or deleted, by identifier in lower case.
    pub fn list_deletions(&self, connection: &str) -> BTreeMap<String, CallProgress> {
        let all = self.lock();
        let leaving = all.iter().filter_map(|(call, posting)| match call {
            KeyCall::Delete(over, uuid) if over == connection => Some((uuid.clone(), *posting)),
            _ => None,
        });
        leaving.collect()
    }

    /// A call that stores a key starts, on a look that did not show it; None where a call for another object
    /// came in between.
    pub fn start_store(
        &self,
        connection: &str,
        key: &Fingerprint,
        looked: Duration,
    ) -> Option<RunningKeyCall> {
        let call = KeyCall::Store(connection.to_owned(), key.clone());
        self.enter(call, |before| match before {
            CallProgress::InFlight(_) => false,
            CallProgress::Ended(at) => at < looked,
            CallProgress::None => true,
        })
    }

    /// A stored key is about to be deleted: from now on no object takes it for stored. None where a call that does
    /// is under way.
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
    /// The call is about to be made.
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
        let looked = clock::now().mono;
        tokio::time::advance(Duration::from_secs(1)).await;
        let mut first = posts.start_store(HERE, &key, looked).unwrap();
        first.send();
        assert!(posts.start_store(HERE, &key, looked).is_none());
        assert_eq!(
            posts.get_posting(HERE, &key),
            CallProgress::InFlight(clock::now().mono)
        );
        drop(first);
        let ended = posts.get_posting(HERE, &key);
        assert_eq!(ended, CallProgress::Ended(clock::now().mono));
        assert!(
            posts.start_store(HERE, &key, looked).is_none(),
            "the look is older"
        );
        tokio::time::advance(Duration::from_secs(1)).await;
        let unsent = posts.start_store(HERE, &key, clock::now().mono).unwrap();
        drop(unsent);
        assert_eq!(
            posts.get_posting(HERE, &key),
            ended,
            "nothing was sent since"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_of_another_account_holds_nothing_up() {
        let (key, posts) = (key(), KeyCalls::default());
        let looked = clock::now().mono;
        let _hangs = posts.start_store("elsewhere", &key, looked).unwrap();
        assert_eq!(posts.get_posting(HERE, &key), CallProgress::None);
        assert!(posts.start_store(HERE, &key, looked).is_some());
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
