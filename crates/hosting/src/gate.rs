//! How much memory the bodies of answers take while they come in, over all clients of the process.
//!
//! A body holds what has come of it, and no more. When all of them together reach the bound, the read that was
//! begun first is given up: an API that answers soundly is done within moments, and one that sends a byte
//! now and then, or without end, is what stands there longest. So nobody waits for anybody else, however many
//! answer slowly. What was to change something is never given up for others: then nobody would know whether it did.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most bytes of all bodies at once. Room for one answer of the largest kind, and many pages of lists.
const MOST: usize = 12 << 20;

/// The gate of this process.
pub(super) static GATE: Gate = Gate::new(MOST);

/// Why a body is not whole.
#[derive(Debug, thiserror::Error)]
#[error("the answer was given up, since too many others were coming in at the same time")]
pub(super) struct GivenUp;

/// The bodies that are coming in.
pub(super) struct Gate {
    most: usize,
    state: Mutex<State>,
}

struct State {
    /// The number of the next body.
    next: u64,
    /// The memory of all bodies.
    held: usize,
    /// Oldest first.
    bodies: BTreeMap<u64, Body>,
}

struct Body {
    bytes: Vec<u8>,
    is_read: bool,
}

/// A body that is coming in. Dropped, it gives its memory back.
pub(super) struct Incoming<'a> {
    gate: &'a Gate,
    number: u64,
}

impl Gate {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            most,
            state: Mutex::new(State {
                next: 0,
                held: 0,
                bodies: BTreeMap::new(),
            }),
        }
    }

    /// Lets a body in. `is_read`: the call changes nothing, so it may be given up.
    pub(super) fn open(&self, is_read: bool) -> Incoming<'_> {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        let bytes = Vec::new();
        state.bodies.insert(number, Body { bytes, is_read });
        Incoming { gate: self, number }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remove(&mut self, number: u64) -> Option<Vec<u8>> {
        let body = self.bodies.remove(&number)?;
        self.held -= body.bytes.capacity();
        Some(body.bytes)
    }

    /// Gives up reads, oldest first, until so many bytes more fit.
    fn make_room(&mut self, more: usize, most: usize) {
        while self.held + more > most {
            let oldest = self
                .bodies
                .iter()
                .find(|(_, body)| body.is_read && body.bytes.capacity() > 0)
                .map(|(number, _)| *number);
            let Some(oldest) = oldest else {
                return;
            };
            self.remove(oldest);
        }
    }
}

impl Incoming<'_> {
    /// Adds what has come.
    ///
    /// # Errors
    /// When the body was given up for others.
    pub(super) fn push(&self, chunk: &[u8]) -> Result<(), GivenUp> {
        let mut state = self.gate.state();
        let body = state.bodies.get(&self.number).ok_or(GivenUp)?;
        let (length, before) = (body.bytes.len(), body.bytes.capacity());
        let needed = length + chunk.len();
        if needed > before {
            // Doubled, so that a body in small pieces is not copied again and again.
            let after = needed.max(2 * before);
            state.make_room(after - before, self.gate.most);
            let body = state.bodies.get_mut(&self.number).ok_or(GivenUp)?;
            body.bytes.reserve_exact(after - length);
            let grown = body.bytes.capacity() - before;
            state.held += grown;
        }
        let body = state.bodies.get_mut(&self.number).ok_or(GivenUp)?;
        body.bytes.extend_from_slice(chunk);
        Ok(())
    }

    /// How much has come.
    pub(super) fn length(&self) -> usize {
        let state = self.gate.state();
        state
            .bodies
            .get(&self.number)
            .map_or(0, |body| body.bytes.len())
    }

    /// Hands the body out, which is decoded at once. Nothing is left of one that was given up.
    pub(super) fn close(self) -> Vec<u8> {
        self.gate.state().remove(self.number).unwrap_or_default()
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
    fn the_read_that_was_begun_first_makes_room_for_the_others() {
        let gate = Gate::new(1000);
        let slow: Vec<_> = (0..10).map(|_| gate.open(true)).collect();
        for body in &slow {
            body.push(&CHUNK).unwrap();
        }
        let sound = gate.open(true);
        for _ in 0..4 {
            sound.push(&CHUNK).unwrap();
        }
        assert!(gate.state().held <= 1000);
        assert_eq!(sound.close().len(), 400);
        assert!(slow[0].push(&CHUNK).is_err());
        assert!(slow[9].push(&[]).is_ok());
        drop(slow);
        assert_eq!(gate.state().held, 0);
    }

    #[test]
    fn an_answer_to_a_change_is_never_given_up_for_others() {
        let gate = Gate::new(1000);
        let change = gate.open(false);
        change.push(&CHUNK).unwrap();
        let reads: Vec<_> = (0..20).map(|_| gate.open(true)).collect();
        for body in &reads {
            body.push(&CHUNK).unwrap();
            assert!(gate.state().held <= 1000);
        }
        assert_eq!(change.length(), 100);
        assert_eq!(change.close().len(), 100);
    }

    #[test]
    fn a_body_that_would_not_fit_even_alone_is_given_up_itself() {
        let gate = Gate::new(1000);
        let large = gate.open(true);
        let pushed = (0..20).map(|_| large.push(&CHUNK)).find(Result::is_err);
        assert!(pushed.is_some());
        assert_eq!(large.length(), 0);
        assert!(large.close().is_empty());
    }
}
