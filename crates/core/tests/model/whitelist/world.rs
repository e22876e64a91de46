//! The world of the model: the provider's list, the objects, the process and the calls in flight.

use flexmetal_core::whitelist::{
    decide::{lockout_guard::WhitelistStep, ranges::Range},
    memory::WhitelistMemory,
};
use std::sync::Arc;

/// Seconds of one tick. The spacing is two ticks.
pub const TICK: u64 = 10;

/// A list entry at the provider. Addresses are the last bytes of 192.0.2.0/24; there are four.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct There {
    pub id: u64,
    pub range: Range,
    pub active: bool,
    /// The owning object and the entry's name in it; none: a user's entry.
    pub of: Option<(usize, String)>,
}

/// An object at the API server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Index of its spec in the scene.
    pub spec: usize,
    pub generation: i64,
    pub finalizer: bool,
    pub deleting: bool,
    pub plan: Vec<String>,
    /// Whether status lists existing entries.
    pub had_entries: bool,
    /// What the provider does not keep, as status reports it.
    pub unkept: Option<String>,
}

/// A call that the provider executes later.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Late {
    pub slot: usize,
    pub step: WhitelistStep,
    /// The last tick in which it may arrive.
    pub until: u8,
    /// Whether a user or the declared addresses changed meanwhile, so that the judgement is outdated.
    pub is_overtaken: bool,
}

/// The remaining budget of faults and changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Lost calls, lost answers, late calls.
    pub faults: u8,
    pub crashes: u8,
    /// Edits of the list by a user.
    pub user_changes: u8,
    /// Spec edits, deletions, and changes of the declared addresses.
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
    /// Index of the declared addresses in the scene.
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

/// A user's edit of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hand {
    /// Adds an entry that admits all addresses, or one that is not the operator's.
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
    /// Whether the provider refuses this address.
    pub fn refuses(&self, address: u8) -> bool {
        let one = [range(address, address)].into_iter().collect();
        !self.is_open() && !self.admitted().covers_all(&one)
    }

    /// Whether the list is not enforced.
    pub fn is_open(&self) -> bool {
        self.list.iter().all(|there| !there.active)
    }

    pub fn admitted(&self) -> flexmetal_core::whitelist::decide::ranges::Addresses {
        let active = self.list.iter().filter(|there| there.active);
        active.map(|there| there.range).collect()
    }

    /// Applies a step of any sender.
    pub fn take_effect(&mut self, slot: usize, step: &WhitelistStep) {
        let of = |name: &str| Some((slot, name.to_owned()));
        match step {
            WhitelistStep::Add(desired) => {
                self.next_id += 1;
                self.list.push(There {
                    id: self.next_id,
                    range: desired.range,
                    active: desired.active,
                    of: of(&desired.name),
                });
            }
            WhitelistStep::Change(id, desired) => {
                if let Some(there) = self.list.iter_mut().find(|there| there.id == id.0) {
                    there.range = desired.range;
                    there.active = desired.active;
                    there.of = of(&desired.name);
                }
            }
            WhitelistStep::Remove(id) => self.list.retain(|there| there.id != id.0),
        }
    }
}
