//! Bodies that are nearly right: stored ones with mutations.

use proptest::prelude::*;
use proptest::sample::Index;

/// One mutation of a body.
#[derive(Clone, Debug)]
enum Change {
    /// Flips one bit.
    Flip(Index, u8),
    /// Replaces one byte.
    Put(Index, u8),
    /// Cuts off the end.
    Cut(Index),
    /// Removes a part.
    Take(Index, Index),
    /// Repeats a part.
    Repeat(Index, Index),
    /// Continues with another stored body.
    Splice(Index, Index, Index),
    /// Inserts a word of JSON.
    Word(Index, &'static str),
    /// Wraps a part this many times.
    Nest(Index, u8),
    /// Replaces a value after a colon by a word.
    Value(Index, &'static str),
}

const WORDS: [&str; 22] = [
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "-1",
    "0",
    "1e308",
    "1e400",
    "9223372036854775808",
    "18446744073709551615",
    "-0.0",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "\u{feff}",
    "[null]",
    "[[]]",
    "{\"\":null}",
    ",",
    "\"/v3\"",
    "NaN",
    "\"01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f\"",
];

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    let word = || prop::sample::select(WORDS.to_vec());
    prop_oneof![
        1 => (at(), 0u8..8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        1 => (at(), any::<u8>()).prop_map(|(at, byte)| Change::Put(at, byte)),
        1 => at().prop_map(Change::Cut),
        1 => (at(), at()).prop_map(|(from, to)| Change::Take(from, to)),
        1 => (at(), at()).prop_map(|(from, to)| Change::Repeat(from, to)),
        1 => (at(), at(), at()).prop_map(|(at, other, from)| Change::Splice(at, other, from)),
        1 => (at(), word()).prop_map(|(at, word)| Change::Word(at, word)),
        1 => (at(), 1u8..200).prop_map(|(at, times)| Change::Nest(at, times)),
        // Mostly this: the result is JSON again.
        6 => (at(), word()).prop_map(|(at, word)| Change::Value(at, word)),
    ]
}

/// One of the seeds, with up to three changes.
pub(crate) fn near(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec(change(), 1..4);
    (any::<Index>(), changes).prop_map(move |(which, changes)| {
        let mut body = seeds[which.index(seeds.len())].clone();
        for change in changes {
            body = changed(body, &change, &seeds);
        }
        body
    })
}

fn part(body: &[u8], from: &Index, to: &Index) -> (usize, usize) {
    let (from, to) = (from.index(body.len() + 1), to.index(body.len() + 1));
    (from.min(to), from.max(to))
}

fn changed(mut body: Vec<u8>, change: &Change, seeds: &[Vec<u8>]) -> Vec<u8> {
    if body.is_empty() {
        return body;
    }
    match change {
        Change::Flip(at, bit) => {
            let at = at.index(body.len());
            body[at] ^= 1 << bit;
        }
        Change::Put(at, byte) => {
            let at = at.index(body.len());
            body[at] = *byte;
        }
        Change::Cut(at) => body.truncate(at.index(body.len())),
        Change::Take(from, to) => {
            let (from, to) = part(&body, from, to);
            body.drain(from..to);
        }
        Change::Repeat(from, to) => {
            let (from, to) = part(&body, from, to);
            let twice = body[from..to].to_vec();
            body.splice(to..to, twice);
        }
        Change::Splice(at, other, from) => {
            let other = &seeds[other.index(seeds.len())];
            let from = from.index(other.len() + 1);
            body.truncate(at.index(body.len()));
            body.extend_from_slice(&other[from..]);
        }
        Change::Word(at, word) => {
            let at = at.index(body.len());
            body.splice(at..at, word.bytes());
        }
        Change::Nest(at, times) => {
            let at = at.index(body.len());
            let end = body.split_off(at);
            body.extend(std::iter::repeat_n(b'[', usize::from(*times)));
            body.extend(std::iter::repeat_n(b']', usize::from(*times)));
            body.extend(end);
        }
        Change::Value(at, word) => {
            let colons: Vec<usize> = (0..body.len()).filter(|at| body[*at] == b':').collect();
            if !colons.is_empty() {
                let from = colons[at.index(colons.len())] + 1;
                let rest = body[from..].iter();
                let length = rest.take_while(|byte| !b",}]".contains(byte)).count();
                body.splice(from..from + length, word.bytes());
            }
        }
    }
    body
}
