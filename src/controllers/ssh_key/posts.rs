//! What this process stores at the moment, and did a moment ago: two objects that stand for one key store it once.

use super::public_key::Fingerprint;
use crate::runtime::clock;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// So long an end is kept; a look of before is not believed for that long anyway.
const KEPT: Duration = Duration::from_secs(3600);

/// What became of the calls that store a key, for whatever object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Posting {
    /// None was made.
    #[default]
    None,
    /// One is under way.
    InFlight,
    /// The last one ended at this moment. Only a look that started later shows what came of it.
    Ended(Duration),
}

/// The calls of this process.
#[derive(Clone, Default)]
pub struct Posts(Arc<Mutex<HashMap<Fingerprint, Posting>>>);

/// A call under way.
#[must_use]
pub struct Started {
    posts: Posts,
    key: Fingerprint,
}

impl Posts {
    /// What became of the calls that store a key.
    pub fn of(&self, key: &Fingerprint) -> Posting {
        self.lock().get(key).copied().unwrap_or_default()
    }

    /// A call that stores a key starts, on a look that did not show it; None where a call for another object
    /// came in between.
    pub fn start(&self, key: &Fingerprint, looked: Duration) -> Option<Started> {
        let now = clock::now().mono;
        let mut all = self.lock();
        all.retain(|_, posting| match posting {
            Posting::Ended(at) => now.saturating_sub(*at) < KEPT,
            Posting::None | Posting::InFlight => true,
        });
        match all.get(key) {
            Some(Posting::InFlight) => return None,
            Some(Posting::Ended(at)) if *at >= looked => return None,
            _ => {}
        }
        all.insert(key.clone(), Posting::InFlight);
        Some(Started {
            posts: self.clone(),
            key: key.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Fingerprint, Posting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let ended = Posting::Ended(clock::now().mono);
        self.posts.lock().insert(self.key.clone(), ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::ssh_key::public_key::PublicKey;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_stored_by_one_object_at_a_time_and_again_only_on_a_later_look() {
        let key = PublicKey::parse(
            b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBv2kqKzv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1Z",
        )
        .unwrap()
        .fingerprint();
        let posts = Posts::default();
        let looked = clock::now().mono;
        tokio::time::advance(Duration::from_secs(1)).await;
        let first = posts.start(&key, looked).unwrap();
        assert!(posts.start(&key, looked).is_none());
        assert_eq!(posts.of(&key), Posting::InFlight);
        drop(first);
        assert!(posts.start(&key, looked).is_none(), "the look is older");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(posts.start(&key, clock::now().mono).is_some());
    }
}
