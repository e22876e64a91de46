//! From the small world to what the deciding code reads, and back: names, marks and moments here, each
//! thing that is converted in a file of its own.

mod account;
mod acknowledgements;
mod answers;
mod facts;
mod machine;
mod object;

pub use account::*;
pub use acknowledgements::*;
pub use answers::*;
pub use facts::*;
pub use machine::*;
pub use object::*;

use super::world::*;
use flexmetal_core::{
    account::view::Times,
    mark::{ClusterId, Mark},
    moment::Moment,
    server::memory::Memory,
};
use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

/// Values by small numbers, so that a state that holds them stays `Copy`.
pub struct Interner<K, V> {
    inner: Mutex<(HashMap<K, u32>, Vec<V>)>,
}

impl<K, V> Default for Interner<K, V> {
    fn default() -> Self {
        Self {
            inner: Mutex::new((HashMap::new(), Vec::new())),
        }
    }
}

impl<K: Hash + Eq, V: Clone> Interner<K, V> {
    pub fn put(&self, key: K, value: impl FnOnce() -> V) -> u32 {
        let mut inner = self.inner.lock().unwrap();
        let (numbers, values) = &mut *inner;
        *numbers.entry(key).or_insert_with(|| {
            values.push(value());
            u32::try_from(values.len() - 1).unwrap()
        })
    }
    pub fn get(&self, number: u32) -> V {
        self.inner.lock().unwrap().1[number as usize].clone()
    }
}

/// Memories; number 0 is the empty one.
pub static MEMORIES: LazyLock<Interner<Memory, Arc<Memory>>> = LazyLock::new(|| {
    let all = Interner::default();
    all.put(Memory::default(), Arc::default);
    all
});

/// Numbers a memory. Of its order only what a record holds is kept, as in a status.
pub fn keep(mut memory: Memory) -> u32 {
    memory.order = memory.order.map(|order| record(&record_of(&order)));
    MEMORIES.put(memory.clone(), || Arc::new(memory))
}

/// A memory that has forgotten its order.
pub fn without_order(number: u32) -> u32 {
    let mut memory = (*MEMORIES.get(number)).clone();
    memory.order = None;
    keep(memory)
}

const CLUSTER: &str = "0123456789abcdef";
const LIVES: u8 = 4;

pub fn cluster() -> ClusterId {
    ClusterId::parse(CLUSTER).unwrap()
}

static MARKS: LazyLock<Vec<(Who, Mark)>> = LazyLock::new(|| {
    let slots = u8::try_from(SLOTS).unwrap();
    (0..slots)
        .flat_map(|slot| (0..LIVES).map(move |life| Who { slot, life }))
        .map(|who| {
            let mark = cluster().object_mark("shop", &name(who.slot), &uid(who));
            (who, mark)
        })
        .collect()
});

pub fn mark(who: Who) -> &'static Mark {
    &MARKS[usize::from(who.slot * LIVES + who.life)].1
}

fn who_of(mark: &Mark) -> Who {
    MARKS.iter().find(|(_, m)| m == mark).unwrap().0
}

fn name(slot: u8) -> String {
    format!("server-{slot}")
}

/// The host name that is ordered.
fn hostname(slot: u8, renamed: bool) -> String {
    match renamed {
        true => RENAMED.into(),
        false => name(slot),
    }
}

/// The other host name.
const RENAMED: &str = "renamed";

fn uid(who: Who) -> String {
    format!("uid-{}-{}", who.slot, who.life)
}

/// A machine's identifier; [`CONTROL`] is the machine that everybody knows in the first account, the number
/// below it that of the second.
pub fn uuid(machine: u8) -> String {
    format!("00000000-0000-4000-8000-00000000000{machine}")
}

pub fn machine_of(uuid: &str) -> u8 {
    uuid.as_bytes().last().unwrap() - b'0'
}

const CONTROL: u8 = 9;

pub fn ticks(ticks: Tick) -> Duration {
    Duration::from_secs(u64::from(ticks) * TICK.unsigned_abs())
}

pub fn wall(now: Tick) -> i64 {
    BASE + i64::from(now) * TICK
}

fn offset(wall: i64) -> i16 {
    i16::try_from((wall - BASE).clamp(-1000, 30_000)).unwrap()
}

pub fn moment(now: Tick, started: Tick) -> Moment {
    Moment {
        wall: wall(now),
        mono: ticks(now - started),
    }
}

pub fn times() -> Times {
    Times {
        absence_grace_period: ticks(GRACE),
        absence_check_interval: ticks(1),
        send_window: ticks(1),
        order_timeout: ticks(1),
        active_poll_interval: ticks(1),
        idle_poll_interval: ticks(2),
        orphan_scan_interval: ticks(2),
    }
}
