//! The bytes of an answer, read as JSON within a limit of memory.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::de::{Deserializer as _, Error as _, SeqAccess, Visitor};
use serde_json::{Deserializer, Value};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task,
};

use super::record::Misfit;

/// The most memory that one tree may take, in bytes: a whole body, or one entry of a list.
const TREE: usize = 12 << 20;
/// The most memory that what is read of a body may take. A month of usage of eight thousand servers fits.
const RECORDS: usize = 24 << 20;

/// About what the parts of a tree take: an object is a node with room for eleven fields, and a list grows by
/// doubling.
const IN_TREE: Parts = Parts {
    object: 640,
    list: 128,
    entry: 64,
    text: 24,
};
/// About what they take once they are read into records.
const IN_RECORDS: Parts = Parts {
    object: 128,
    list: 32,
    entry: 8,
    text: 16,
};

/// One body after the other is decoded in this process: it takes moments, and many times the memory of the text.
static DECODING: Mutex<()> = Mutex::new(());

/// From this size on a body is decoded aside.
const LARGE: usize = 64 << 10;

/// Reads a whole body.
pub(super) fn read(bytes: &[u8]) -> Result<Value, Misfit> {
    aside(bytes, || {
        let _decoding = begin(bytes, |weights| weights.whole)?;
        serde_json::from_slice(bytes).map_err(|error| broken(&error))
    })
}

/// Large bodies take long, and wait for each other: other tasks of the thread go on meanwhile, where the runtime has
/// several threads.
fn aside<T>(bytes: &[u8], work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) if bytes.len() >= LARGE => task::block_in_place(work),
        _ => work(),
    }
}

/// Reads a list entry by entry, so that no more than one of them is a tree at a time.
pub(super) fn read_entries(
    bytes: &[u8],
    take: impl FnMut(&Value) -> Result<(), Misfit>,
) -> Result<(), Misfit> {
    aside(bytes, || entries(bytes, take))
}

fn entries(bytes: &[u8], take: impl FnMut(&Value) -> Result<(), Misfit>) -> Result<(), Misfit> {
    let _decoding = begin(bytes, |weights| weights.largest)?;
    let mut misfit = None;
    let mut text = Deserializer::from_slice(bytes);
    let entries = Entries {
        take,
        misfit: &mut misfit,
    };
    let read = text.deserialize_seq(entries).and_then(|()| text.end());
    match (misfit, read) {
        (Some(misfit), _) => Err(misfit),
        (None, read) => read.map_err(|error| broken(&error)),
    }
}

/// Whether a body is a list.
pub(super) fn is_list(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'[')
}

pub(super) fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_whitespace)
}

/// Checks the weight of a body, and waits until no other one is decoded.
fn begin(
    bytes: &[u8],
    tree: impl FnOnce(&Weights) -> usize,
) -> Result<MutexGuard<'static, ()>, Misfit> {
    if is_blank(bytes) {
        return Err("the body is empty".to_owned());
    }
    let weights = Weights::of(bytes);
    if tree(&weights) > TREE || weights.records > RECORDS {
        return Err("the body has more values than any answer".to_owned());
    }
    Ok(DECODING.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The parser's message has the position and no text of the body.
fn broken(error: &serde_json::Error) -> Misfit {
    format!("the body is not JSON: {error}")
}

struct Entries<'a, F> {
    take: F,
    misfit: &'a mut Option<Misfit>,
}

impl<'de, F: FnMut(&Value) -> Result<(), Misfit>> Visitor<'de> for Entries<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        while let Some(entry) = entries.next_element::<Value>()? {
            if let Err(misfit) = (self.take)(&entry) {
                *self.misfit = Some(misfit);
                return Err(A::Error::custom("an entry does not fit"));
            }
        }
        Ok(())
    }
}

/// About what the parts of a body take, in bytes.
struct Parts {
    object: usize,
    list: usize,
    entry: usize,
    text: usize,
}

/// About the memory that a body takes, in bytes, however few its text has.
#[derive(Default)]
struct Weights {
    /// The tree of all of it.
    whole: usize,
    /// The largest tree of one entry, where the body is a list.
    largest: usize,
    /// The records that are read of it.
    records: usize,
}

impl Weights {
    fn of(bytes: &[u8]) -> Self {
        let mut weights = Self::default();
        let (mut tree, mut records) = (0_usize, 0_usize);
        let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
        for byte in bytes {
            tree += 1;
            records += 1;
            let mut add = |part: fn(&Parts) -> usize| {
                tree += part(&IN_TREE);
                records += part(&IN_RECORDS);
            };
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_text => is_escaped = true,
                b'"' => {
                    is_text = !is_text;
                    if is_text {
                        add(|parts| parts.text);
                    }
                }
                _ if is_text => {}
                b'{' => add(|parts| parts.object),
                b'[' => add(|parts| parts.list),
                b',' => add(|parts| parts.entry),
                _ => {}
            }
            match byte {
                _ if is_text => {}
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b',' if depth == 1 => {
                    weights.end_entry(std::mem::take(&mut tree));
                }
                _ => {}
            }
        }
        weights.end_entry(tree);
        weights.records = records;
        weights
    }

    fn end_entry(&mut self, tree: usize) {
        self.whole += tree;
        self.largest = self.largest.max(tree);
    }
}
