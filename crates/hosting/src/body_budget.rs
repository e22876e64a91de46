//! Bounds the memory of incoming bodies over all clients of the process: at the limit, the oldest body is given up,
//! since a sound API answers quickly. Answers to changes are small and have their own limit.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// The most bytes of all answers to reads at a time: one of the largest kind, and many pages of lists.
const MOST_OF_READS: usize = 12 << 20;

/// The most bytes of all answers to changes at a time. A usual one has some KiB.
const MOST_OF_CHANGES: usize = 2 << 20;

/// The limits of all clients of this process, unless they get others.
static OF_PROCESS: LazyLock<Gates> = LazyLock::new(Gates::default);

/// The limits for incoming bodies. A clone shares them.
#[derive(Clone)]
pub struct Gates {
    inner: Arc<Both>,
}

struct Both {
    reads: Gate,
    changes: Gate,
}

impl Gates {
    /// The limits of this process.
    pub fn of_process() -> Self {
        OF_PROCESS.clone()
    }

    /// The limit for answers to reads, or to changes.
    pub(super) fn gate_for(&self, is_read: bool) -> &Gate {
        match is_read {
            true => &self.inner.reads,
            false => &self.inner.changes,
        }
    }
}

impl Default for Gates {
    /// Separate limits.
    fn default() -> Self {
        Self {
            inner: Arc::new(Both {
                reads: Gate::new(MOST_OF_READS),
                changes: Gate::new(MOST_OF_CHANGES),
            }),
        }
    }
}

/// Why a body is incomplete.
#[derive(Debug, thiserror::Error)]
#[error("the answer was dropped, because too many others arrived at the same time")]
pub(super) struct BodyDropped;

/// The incoming bodies.
pub(super) struct Gate {
    most: usize,
    state: Mutex<GateState>,
}

struct GateState {
    /// The number of the next body.
    next: u64,
    /// The memory of all bodies.
    held: usize,
    /// Oldest first.
    bodies: BTreeMap<u64, Vec<u8>>,
}

/// An incoming body. Its memory is freed on drop.
pub(super) struct Incoming<'a> {
    gate: &'a Gate,
    number: u64,
    cap: usize,
}

impl Gate {
    fn new(most: usize) -> Self {
        Self {
            most,
            state: Mutex::new(GateState {
                next: 0,
                held: 0,
                bodies: BTreeMap::new(),
            }),
        }
    }

    /// Opens a body of which at most `cap` bytes are kept.
    pub(super) fn open(&self, cap: usize) -> Incoming<'_> {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.bodies.insert(number, Vec::new());
        Incoming {
            gate: self,
            number,
            cap,
        }
    }

    /// The memory of all bodies.
    #[cfg(test)]
    pub(super) fn reserved_bytes(&self) -> usize {
        self.state().held
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GateState {
    fn remove(&mut self, number: u64) -> Option<Vec<u8>> {
        let body = self.bodies.remove(&number)?;
        self.held -= body.capacity();
        Some(body)
    }

    /// Gives up the oldest bodies until `more` bytes fit.
    fn free_memory(&mut self, more: usize, most: usize) {
        while self.held + more > most {
            let oldest = self
                .bodies
                .iter()
                .find(|(_, body)| body.capacity() > 0)
                .map(|(number, _)| *number);
            let Some(oldest) = oldest else {
                return;
            };
            self.remove(oldest);
        }
    }
}

impl Incoming<'_> {
    /// Adds received bytes. Err: the body was given up for others.
    pub(super) fn push(&self, chunk: &[u8]) -> Result<(), BodyDropped> {
        let mut state = self.gate.state();
        let body = state.bodies.get(&self.number).ok_or(BodyDropped)?;
        let (length, before) = (body.len(), body.capacity());
        let needed = length + chunk.len();
        if needed > before {
            // Doubled, so that small pieces do not copy a body again and again; but no more than can come.
            let after = needed.max((2 * before).min(self.cap));
            state.free_memory(after - before, self.gate.most);
            let body = state.bodies.get_mut(&self.number).ok_or(BodyDropped)?;
            body.reserve_exact(after - length);
            let grown = body.capacity() - before;
            state.held += grown;
        }
        let body = state.bodies.get_mut(&self.number).ok_or(BodyDropped)?;
        body.extend_from_slice(chunk);
        Ok(())
    }

    /// The number of received bytes.
    pub(super) fn length(&self) -> usize {
        let state = self.gate.state();
        state.bodies.get(&self.number).map_or(0, Vec::len)
    }

    /// Returns the complete body, which is decoded at once. Err: it was given up for others.
    pub(super) fn close(self) -> Result<Vec<u8>, BodyDropped> {
        self.gate.state().remove(self.number).ok_or(BodyDropped)
    }
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        self.gate.state().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: [u8; 100] = [b' '; 100];

    #[test]
    fn oldest_read_is_dropped_for_others() {
        let gate = Gate::new(1000);
        let slow: Vec<_> = (0..10).map(|_| gate.open(500)).collect();
        for body in &slow {
            body.push(&CHUNK).unwrap();
        }
        let sound = gate.open(500);
        for _ in 0..4 {
            sound.push(&CHUNK).unwrap();
        }
        assert!(gate.state().held <= 1000);
        assert_eq!(sound.close().unwrap().len(), 400);
        assert!(slow[0].push(&CHUNK).is_err());
        assert!(slow[9].push(&[]).is_ok());
        drop(slow);
        assert_eq!(gate.state().held, 0);
    }

    #[test]
    fn fitting_read_survives_while_it_grows() {
        let gate = Gate::new(1200);
        for length in 1..=8 {
            let alone = gate.open(800);
            for _ in 0..length {
                alone.push(&CHUNK).unwrap();
                assert!(gate.state().held <= 800);
            }
            assert_eq!(alone.close().unwrap().len(), 100 * length);
        }
    }

    #[test]
    fn body_over_the_limit_is_dropped_itself() {
        let gate = Gate::new(1000);
        let large = gate.open(2000);
        let pushed = (0..20).map(|_| large.push(&CHUNK)).find(Result::is_err);
        assert!(pushed.is_some());
        assert_eq!(large.length(), 0);
        assert!(large.close().is_err());
    }
}
