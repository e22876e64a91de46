//! Everything a simulator knows, behind one lock.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::clock::{Clock, Moment};
use super::exchange::Broken;
use super::faults::Faults;
use super::journal::{Journal, Line, Written};
use super::keys::Keys;
use super::ledger::Ledger;
use super::profile::Switches;
use super::state::{Account, Settings};
use super::strangers::Strangers;

/// Randomness that continues after a restart: every draw has a number, and gives a
/// generator of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Luck {
    pub(crate) seed: u64,
    pub(crate) draws: u64,
}

impl Luck {
    /// The next generator.
    pub(crate) fn draw(&mut self) -> StdRng {
        // An odd factor keeps neighbouring numbers far apart.
        const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
        self.draws = self.draws.wrapping_add(1);
        StdRng::seed_from_u64(self.seed ^ self.draws.wrapping_mul(SPREAD))
    }
}

/// Who makes a request: the index of the key's account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller(pub(crate) usize);

/// The whole simulator.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) switches: Switches,
    pub(crate) settings: Settings,
    pub(crate) keys: Keys,
    /// Never empty.
    pub(crate) accounts: Vec<Account>,
    pub(crate) faults: Faults,
    pub(crate) ledger: Ledger,
    pub(crate) strangers: Strangers,
    pub(crate) luck: Luck,
    /// Whose `X-Forwarded-For` is believed.
    pub(crate) proxies: Vec<IpNet>,
    pub(crate) journal: Option<Journal>,
}

impl World {
    /// Brings all accounts up to the present moment.
    pub(crate) fn settle(&mut self) -> Moment {
        let now = self.clock.now();
        for account in &mut self.accounts {
            account.settle(now, &self.switches);
        }
        now
    }

    /// The account of a key that may be used from this address.
    pub(crate) fn admit(&self, key: &str, from: IpAddr) -> Option<Caller> {
        let name = self.keys.accept(key, from)?;
        self.account_named(name).map(Caller)
    }

    /// The index of an account.
    pub(crate) fn account_named(&self, name: &str) -> Option<usize> {
        let mut accounts = self.accounts.iter();
        accounts.position(|account| account.name == name)
    }

    /// Time past its horizon counts as a change: what was shown as ended stays
    /// ended, and most of that follows from the time alone.
    fn changed(&self) -> bool {
        self.clock.beyond() || self.keys.changed() || self.accounts.iter().any(Account::changed)
    }

    /// Passes all changes so far to the journal: those of requests, of time (a GET
    /// also carries out what is due), and how far the clock may have been shown.
    /// The caller waits even when nothing changed: another request's change may
    /// still be on its way to disk, and an answer must not show what a crash could
    /// undo.
    pub(crate) fn record(&mut self) -> Option<Written> {
        if self.journal.is_none() {
            self.accounts.iter_mut().for_each(Account::unwritten);
            return None;
        }
        let changed = self.changed();
        let journal = self.journal.as_mut()?;
        if changed {
            let accounts = self.accounts.iter_mut();
            let accounts = accounts.map(|account| (account.name.clone(), account.changes()));
            let line = Line {
                at: self.clock.look_ahead(),
                draws: self.luck.draws,
                keys: self.keys.changes(),
                accounts: accounts
                    .filter(|(_, changes)| !changes.is_empty())
                    .collect(),
            };
            journal.append(&line);
        }
        Some(journal.written())
    }
}

/// The world, shared by all requests. No lock is held across an await.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub(crate) fn new(world: World) -> Self {
        Self(Arc::new(Mutex::new(world)))
    }

    /// The present world. A request that panicked has not left it half changed:
    /// every operation checks first and then changes.
    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all that was changed so far is on disk.
    ///
    /// # Errors
    /// Nothing may be acknowledged that a restart would forget.
    pub(crate) async fn on_disk(&self) -> Result<(), Broken> {
        let written = self.lock().record();
        match written {
            Some(written) => written.wait().await.map_err(|_| Broken),
            None => Ok(()),
        }
    }

    /// The world after everything due is done, and the present moment.
    pub(crate) fn settled(&self) -> (MutexGuard<'_, World>, Moment) {
        let mut world = self.lock();
        let now = world.settle();
        (world, now)
    }
}
