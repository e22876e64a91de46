//! The bytes of an answer, read as JSON within a limit of memory.
//!
//! Whatever a body holds, one record of it is a tree at a time, a record has a length, and what is read of all of them a
//! size.

use std::fmt::{self, Debug};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hosting_types::list;
use serde::de::{Deserializer as _, Error as _, SeqAccess, Visitor};
use serde_json::{Deserializer, Value, value::RawValue};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task,
};

use super::record::Misfit;

/// The longest text of one record, in bytes. As a tree it takes up to ninety times that.
const RECORD: usize = 512 << 10;
/// The most memory that the records of one body may take, in bytes. A month of usage of eight thousand servers fits.
const RECORDS: usize = 16 << 20;

/// One body after the other is decoded in this process: it takes moments, and many times the memory of the text.
static DECODING: Mutex<()> = Mutex::new(());

/// From this size on a body is decoded aside.
const LARGE: usize = 64 << 10;

/// Reads a body that is one record.
pub(super) fn read(bytes: &[u8]) -> Result<Value, Misfit> {
    let _decoding = begin(bytes)?;
    match bytes.trim_ascii().len() <= RECORD {
        true => serde_json::from_slice(bytes).map_err(|error| broken(&error)),
        false => Err(too_long()),
    }
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

/// Reads a list record by record.
pub(super) fn read_list<T: Debug>(
    bytes: &[u8],
    read: impl FnMut(&Value, usize) -> Result<T, Misfit>,
) -> Result<Vec<T>, Misfit> {
    aside(bytes, || {
        let _decoding = begin(bytes)?;
        let mut misfit = None;
        let mut text = Deserializer::from_slice(bytes);
        let list = List {
            read,
            misfit: &mut misfit,
        };
        let records = text.deserialize_seq(list);
        let records = records.and_then(|records| text.end().map(|()| records));
        records.map_err(|error| misfit.unwrap_or_else(|| broken(&error)))
    })
}

/// Whether a body is a list.
pub(super) fn is_list(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'[')
}

pub(super) fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_whitespace)
}

/// Waits until no other body is decoded.
fn begin(bytes: &[u8]) -> Result<MutexGuard<'static, ()>, Misfit> {
    match is_blank(bytes) {
        true => Err("the body is empty".to_owned()),
        false => Ok(DECODING.lock().unwrap_or_else(PoisonError::into_inner)),
    }
}

/// The parser's message has the position and no text of the body.
fn broken(error: &serde_json::Error) -> Misfit {
    format!("the body is not JSON: {error}")
}

fn too_long() -> Misfit {
    format!("a record is longer than {} KiB", RECORD >> 10)
}

struct List<'a, F> {
    read: F,
    misfit: &'a mut Option<Misfit>,
}

impl<'de, T: Debug, F: FnMut(&Value, usize) -> Result<T, Misfit>> Visitor<'de> for List<'_, F> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut records = Vec::new();
        let mut size = 0;
        while let Some(text) = list.next_element::<&RawValue>()? {
            let text = text.get();
            let read = match text.len() <= RECORD {
                true => {
                    let tree = serde_json::from_str(text).map_err(A::Error::custom)?;
                    (self.read)(&tree, records.len())
                }
                false => Err(too_long()),
            };
            let fits = read.and_then(|record| {
                size += list::size(&record);
                match size <= RECORDS {
                    true => Ok(record),
                    false => Err(format!("its records are more than {} MiB", RECORDS >> 20)),
                }
            });
            match fits {
                Ok(record) => records.push(record),
                Err(misfit) => {
                    *self.misfit = Some(misfit);
                    return Err(A::Error::custom("a record does not fit"));
                }
            }
        }
        Ok(records)
    }
}
