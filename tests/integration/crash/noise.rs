//! What befalls calls by chance: a fifth of them is dropped, delayed or cut.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The longest delay of a call.
const LONGEST: Duration = Duration::from_secs(2);

/// What befalls one call.
#[derive(Clone, Copy)]
pub(crate) enum Fate {
    /// It never arrives.
    Dropped,
    /// It arrives late.
    Delayed(Duration),
    /// It arrives, and its answer does not. A watch ends at once.
    Cut,
}

/// The chance that all proxies of a world share; none at first.
#[derive(Clone, Default)]
pub(crate) struct Noise(Arc<Mutex<Option<StdRng>>>);

impl Noise {
    /// From now on a fifth of all calls is befallen.
    pub(crate) fn begin(&self, seed: u64) {
        *self.lock() = Some(StdRng::seed_from_u64(seed));
    }

    /// From now on every call goes through.
    pub(crate) fn end(&self) {
        *self.lock() = None;
    }

    pub(crate) fn fate(&self) -> Option<Fate> {
        let mut chance = self.lock();
        let chance = chance.as_mut()?;
        match chance.random_range(0..15) {
            0 => Some(Fate::Dropped),
            1 => Some(Fate::Delayed(chance.random_range(Duration::ZERO..LONGEST))),
            2 => Some(Fate::Cut),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<StdRng>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
