//! The world of the model: the list at the provider, the objects, the process, and what is on the wire.

use flexmetal_core::whitelist::{
    decide::{lockout_guard::WhitelistStep, ranges::Range},
    memory::WhitelistMemory,
};
use std::sync::Arc;

/// Seconds of one tick. The spacing is two of them.
pub const TICK: u64 = 10;

/// An entry at the provider. Addresses are the last bytes of 192.0.2.0/24, of which there are four.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct There {
    pub id: u64,
    pub range: Range,
    pub active: bool,
    /// The object that it belongs to, and its name within that; None: a person's.
    pub of: Option<(usize, String)>,
}

/// An object at the API server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Which spec of the scene.
    pub spec: usize,
    pub generation: i64,
    pub finalizer: bool,
    pub deleting: bool,
    pub plan: Vec<String>,
    /// Status tells of entries that are there.
    pub had_entries: bool,
    /// Status tells of what the provider does not keep.
    pub unkept: Option<String>,
}

/// A call that the provider carries out later.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Late {
    pub slot: usize,
    pub step: WhitelistStep,
    /// The last tick in which it may arrive.
    pub until: u8,
    /// Whether a person, or the declared addresses, changed meanwhile: what was judged is not what it meets.
    pub is_overtaken: bool,
}

/// What is left of everything that may go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Lost calls, lost answers, late calls.
    pub faults: u8,
    pub crashes: u8,
    /// Edits of the list by a person.
    pub user_changes: u8,
    /// Edits of a spec, deletions, changes of the declared addresses.
    pub edits: u8,
    /// Ticks of time.
    pub ticks: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub now: u8,
    pub list: Vec<There>,
    pub next_id: u64,
    pub objects: [Option<Object>; 2],
    pub memory: [Option<Arc<WhitelistMemory>>; 2],
    /// When the process started.
    pub since: u8,
    pub wire: Vec<Late>,
    /// Which addresses are declared as the operator's: an index into the scene's.
    pub egress: usize,
    pub left: Budget,
    pub broken: Option<&'static str>,
}

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ends {
    Ok,
    /// The call is lost.
    LostBefore,
    /// The answer is lost.
    LostAfter,
    /// The answer is lost, and the effect comes later.
    Later,
}

/// What a person does to the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hand {
    /// An entry that admits everybody, or just one address that is not the operator's.
    Add {
        wide: bool,
    },
    Remove(usize),
    Deactivate(usize),
    /// Other addresses.
    Narrow(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Move {
    Pass(usize, Ends),
    Arrive(usize),
    Tick,
    Crash,
    UserChange(Hand),
    Edit(usize, usize),
    Delete(usize),
    Egress(usize),
}

/// Addresses from the first to the last.
pub fn range(first: u8, last: u8) -> Range {
    Range::between([192, 0, 2, first].into(), [192, 0, 2, last].into()).unwrap()
}

impl State {
    /// Whether an address is refused, as the provider sees it.
    pub fn refuses(&self, address: u8) -> bool {
        let one = [range(address, address)].into_iter().collect();
        !self.is_open() && !self.admitted().covers_all(&one)
    }

    /// Whether nothing counts.
    pub fn is_open(&self) -> bool {
        self.list.iter().all(|there| !there.active)
    }

    pub fn admitted(&self) -> flexmetal_core::whitelist::decide::ranges::Addresses {
        let active = self.list.iter().filter(|there| there.active);
        active.map(|there| there.range).collect()
    }

    /// A step takes effect, whoever sent it.
    pub fn take_effect(&mut self, slot: usize, step: &WhitelistStep) {
        let of = |name: &str| Some((slot, name.to_owned()));
        match step {
            WhitelistStep::Add(wished) => {
                self.next_id += 1;
                self.list.push(There {
                    id: self.next_id,
                    range: wished.range,
                    active: wished.active,
                    of: of(&wished.name),
                });
            }
            WhitelistStep::Change(id, wished) => {
                if let Some(there) = self.list.iter_mut().find(|there| there.id == id.0) {
                    there.range = wished.range;
                    there.active = wished.active;
                    there.of = of(&wished.name);
                }
            }
            WhitelistStep::Remove(id) => self.list.retain(|there| there.id != id.0),
        }
    }
}
