//! Reads the bytes of an answer as JSON within a memory limit. Only one record at a time is a JSON tree.

use std::fmt::{self, Debug};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hosting_types::list;
use serde::de::{Deserialize, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Deserializer, Map, Value};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task,
};

use super::record::DecodeError;

/// The longest text of one record, in bytes. As a tree it takes up to 130 times as much, which fits into the memory of
/// the operator's pod.
pub(super) const RECORD: usize = 128 << 10;
/// The most memory of all records of one body, in bytes. A month of usage of eight thousand servers fits.
pub(super) const RECORDS: usize = 12 << 20;

/// Bodies are decoded one at a time in this process: it is quick, but takes many times the memory of the text.
static DECODING: Mutex<()> = Mutex::new(());

/// From this size on, a body is decoded as blocking work.
pub(super) const LARGE: usize = 64 << 10;

/// Reads a whole body with `read`. It is at most as long as one record.
pub(super) fn read_whole<T>(
    bytes: &[u8],
    read: impl FnOnce(&Value) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let text = bytes.trim_ascii();
    if text.len() > RECORD {
        return Err(format!("the body is longer than {} KiB", RECORD >> 10));
    }
    run_blocking(text, || {
        let _decoding = begin(text)?;
        let tree = plain(text).map_err(|error| format!("the body {}", broken(&error)))?;
        read(&tree)
    })
}

/// Decoding a large body takes long. On a runtime with several threads, other tasks of this thread go on meanwhile.
fn run_blocking<T>(bytes: &[u8], work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    let is_long = bytes.len() >= LARGE || DECODING.try_lock().is_err();
    match flavor {
        Ok(RuntimeFlavor::MultiThread) if is_long => task::block_in_place(work),
        _ => work(),
    }
}

/// Reads a list record by record.
pub(super) fn read_list<T: Debug>(
    bytes: &[u8],
    mut read: impl FnMut(&Value, usize) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let whole = bytes.trim_ascii().strip_prefix(b"[");
    let whole = whole.and_then(|rest| rest.strip_suffix(b"]"));
    let mut rest = whole.ok_or("the body is not a whole list")?.trim_ascii();
    run_blocking(bytes, || {
        let _decoding = begin(bytes)?;
        let (mut records, mut size) = (Vec::new(), 0);
        while !rest.is_empty() {
            let index = records.len();
            let (text, behind) = first_value(rest, index)?;
            let tree = plain(text).map_err(|error| format!("entry {index} {}", broken(&error)))?;
            let record = read(&tree, index)?;
            size += list::record_size(&record);
            if size > RECORDS {
                return Err(format!("the records take more than {} MiB", RECORDS >> 20));
            }
            records.push(record);
            rest = match behind.strip_prefix(b",").map(<[u8]>::trim_ascii_start) {
                Some(next) if !next.is_empty() => next,
                None if behind.is_empty() => behind,
                _ => return Err(format!("the list is not JSON after entry {index}")),
            };
        }
        Ok(records)
    })
}

/// Splits the first value off the rest of a list, without making a tree of it.
fn first_value(rest: &[u8], index: usize) -> Result<(&[u8], &[u8]), DecodeError> {
    let mut values = Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
    if let Some(Err(error)) = values.next() {
        return Err(format!("entry {index} {}", broken(&error)));
    }
    let (text, behind) = rest.split_at(values.byte_offset());
    match text.len() <= RECORD {
        true => Ok((text, behind.trim_ascii_start())),
        false => Err(format!("entry {index} is longer than {} KiB", RECORD >> 10)),
    }
}

/// Whether a body is a list.
pub(super) fn is_list(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'[')
}

pub(super) fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_whitespace)
}

/// Waits until no other body is being decoded.
fn begin(bytes: &[u8]) -> Result<MutexGuard<'static, ()>, DecodeError> {
    match is_blank(bytes) {
        true => Err("the body is empty".to_owned()),
        false => Ok(DECODING.lock().unwrap_or_else(PoisonError::into_inner)),
    }
}

/// The parser's message has the position, but no text of the body.
fn broken(error: &serde_json::Error) -> DecodeError {
    format!("is not JSON: {error}")
}

/// Reads a value as plain JSON. `Value` itself gives some keys a special meaning if any crate of the build enables
/// that, and parses their texts again at any depth.
fn plain(text: &[u8]) -> serde_json::Result<Value> {
    let mut text = Deserializer::from_slice(text);
    let PlainValue(value) = PlainValue::deserialize(&mut text)?;
    text.end().map(|()| value)
}

struct PlainValue(Value);

impl<'de> Deserialize<'de> for PlainValue {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(PlainVisitor).map(Self)
    }
}

struct PlainVisitor;

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(PlainValue(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some((name, PlainValue(value))) = object.next_entry()? {
            fields.insert(name, value);
        }
        Ok(fields.into())
    }
}
