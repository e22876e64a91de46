//! A scene: how the world starts, which faults it may meet, and every step that can be taken in it.

use super::{pass::Variant, step::Hand, world::*};
use std::sync::{Arc, atomic::AtomicUsize};

/// A machine that is there before the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brought {
    /// It bears no mark. So many objects name it.
    Unmarked(usize),
    /// An object left it behind. It was restored, and another object names the machine.
    Kept,
}

/// One configuration of the model.
#[derive(Clone)]
pub struct Scene {
    pub name: &'static str,
    pub processes: usize,
    /// The last tick.
    pub ticks: Tick,
    pub faults: Vec<(Fault, u8)>,
    /// The watch may lag behind.
    pub stale: bool,
    /// A process lists once a tick, at its first pass; else whenever it comes to it.
    pub regular: bool,
    /// There is a machine that everybody knows.
    pub control: bool,
    /// The other account has one too.
    pub other_control: bool,
    /// One process acts, by a lease; else each believes that it does.
    pub lease: bool,
    /// The delivered machine has a twin.
    pub twin: bool,
    /// A new key leads to the same account, and nobody is needed after it.
    pub ordinary: bool,
    /// The object was there long before, held, and an earlier process has used the account.
    pub aged: bool,
    /// The machine is ordered and delivered already.
    pub delivered: bool,
    /// The ticks before a release may begin.
    pub delay: Tick,
    /// The machine is ordered and not delivered yet, and another one is ordered in its place if it comes to nothing.
    pub replaces: bool,
    /// When the object ends by itself; 0: never.
    pub expires: Tick,
    /// There is a second object with a machine, and the account lets one release begin.
    pub release_limited: bool,
    /// A machine is there before the objects, which name it.
    pub brought: Option<Brought>,
    /// A process may stand still between clock and socket.
    pub freezes: bool,
    /// A request may be on its way for longer than a tick.
    pub slow: bool,
    pub variant: Variant,
    /// Most writes of one object in a state that is walked on from; an order and its end take six.
    pub writes: u8,
    /// Of how many states one is walked to its end by the fair schedule.
    pub every: u64,
    /// The longest such walk, in rounds, and how many there were.
    pub longest: Arc<AtomicUsize>,
    pub walks: Arc<AtomicUsize>,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            name: "",
            processes: 1,
            ticks: 4,
            faults: Vec::new(),
            stale: false,
            regular: false,
            control: true,
            other_control: false,
            lease: false,
            twin: false,
            ordinary: false,
            aged: false,
            delivered: false,
            delay: 0,
            replaces: false,
            release_limited: false,
            expires: 0,
            brought: None,
            freezes: false,
            slow: false,
            variant: Variant::Honest,
            writes: 10,
            every: 16,
            longest: Arc::default(),
            walks: Arc::default(),
        }
    }
}

impl Scene {
    /// In which accounts there is a machine that everybody knows.
    pub fn controls(&self) -> [bool; 2] {
        [self.control, self.other_control]
    }

    pub fn hand<'a>(&self, world: &'a mut World, process: usize, slot: usize) -> Hand<'a> {
        Hand {
            kind_deleting: world.kind_deleting,
            world,
            process,
            slot,
            variant: self.variant,
            prompt: !self.stale,
            freezes: self.freezes,
            parts_marks: self.brought.is_some(),
        }
    }
}
