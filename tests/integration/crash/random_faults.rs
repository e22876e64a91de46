//! Random faults: a fifth of all calls is dropped, delayed or cut.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The longest delay of a call.
const LONGEST: Duration = Duration::from_secs(2);

/// The fault of one call.
#[derive(Clone, Copy)]
pub(crate) enum RandomFault {
    /// The call never arrives.
    Dropped,
    /// The call arrives late.
    Delayed(Duration),
    /// The call arrives, and its answer is lost. A watch ends at once.
    Cut,
}

/// The random faults that all proxies of a world share. None at first.
#[derive(Clone, Default)]
pub(crate) struct RandomFaults(Arc<Mutex<Option<StdRng>>>);

impl RandomFaults {
    /// Starts to inject faults into a fifth of all calls.
    pub(crate) fn begin(&self, seed: u64) {
        *self.lock() = Some(StdRng::seed_from_u64(seed));
    }

    /// Stops injecting faults.
    pub(crate) fn end(&self) {
        *self.lock() = None;
    }

    pub(crate) fn draw_fault(&self) -> Option<RandomFault> {
        let mut chance = self.lock();
        let chance = chance.as_mut()?;
        match chance.random_range(0..15) {
            0 => Some(RandomFault::Dropped),
            1 => Some(RandomFault::Delayed(
                chance.random_range(Duration::ZERO..LONGEST),
            )),
            2 => Some(RandomFault::Cut),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<StdRng>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
