//! Everything a simulator knows, behind one lock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::rngs::StdRng;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::clock::{Clock, Moment};
use super::faults::Faults;
use super::ledger::Ledger;
use super::profile::Switches;
use super::state::{Account, Settings};

/// The keys of the account. Whether one is valid can change at any time.
#[derive(Debug, Default)]
pub(crate) struct Keys(BTreeMap<String, bool>);

/// A key as the control port shows it.
#[derive(Debug, Serialize)]
pub(crate) struct KeyRecord {
    id: String,
    valid: bool,
}

impl Keys {
    /// Adds a key, revokes it or takes it back.
    pub(crate) fn set(&mut self, key: String, valid: bool) {
        self.0.insert(key, valid);
    }

    /// Whether requests with this key are let in.
    pub(crate) fn accept(&self, key: &str) -> bool {
        self.0.get(key).copied().unwrap_or_default()
    }

    /// All keys, without their text.
    pub(crate) fn records(&self) -> Vec<KeyRecord> {
        self.0
            .iter()
            .map(|(key, valid)| KeyRecord {
                id: key_id(key),
                valid: *valid,
            })
            .collect()
    }
}

/// What stands for a key in the ledger: the first 8 hex of its SHA-256.
pub(crate) fn key_id(key: &str) -> String {
    let hash = Sha256::digest(key.as_bytes());
    hash.iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The whole simulator.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) switches: Switches,
    pub(crate) settings: Settings,
    pub(crate) keys: Keys,
    pub(crate) account: Account,
    pub(crate) faults: Faults,
    pub(crate) ledger: Ledger,
    pub(crate) rng: StdRng,
}

impl World {
    /// Brings the account up to the present moment.
    pub(crate) fn settle(&mut self) -> Moment {
        let now = self.clock.now();
        self.account.settle(now, &self.switches);
        now
    }
}

/// The world, shared by all requests. No lock is held across an await.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub(crate) fn new(world: World) -> Self {
        Self(Arc::new(Mutex::new(world)))
    }

    /// The world as it is. A request that panicked has not left it half
    /// changed: every operation checks first and then changes.
    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The world with everything done that is due, and the present moment.
    pub(crate) fn settled(&self) -> (MutexGuard<'_, World>, Moment) {
        let mut world = self.lock();
        let now = world.settle();
        (world, now)
    }
}
