//! The configurations, and the moves of the world in them.

use super::{
    reconcile::{Done, reconcile},
    variants::Variant,
    world::{Budget, Ends, Hand, Move, Object, State, There, range},
};
use api::whitelist::{EntryPolicy, IpWhitelistSpec, WhitelistEntrySpec};
use flexmetal_core::whitelist::decide::lockout_guard::WhitelistStep;
use std::sync::{Arc, atomic::AtomicU64};

/// One configuration.
#[derive(Clone)]
pub struct Scene {
    pub name: &'static str,
    /// The specs that objects may have; they start with the first one.
    pub specs: Vec<IpWhitelistSpec>,
    /// Possible declarations of the operator's addresses, starting with the first one; empty: none declared.
    pub egress: Vec<Vec<u8>>,
    /// Number of objects.
    pub objects: usize,
    /// Whether the objects do not know each other, as in two clusters.
    pub are_in_two_clusters: bool,
    /// The initial list.
    pub there: Vec<There>,
    pub left: Budget,
    pub variant: Variant,
    pub walks: Arc<AtomicU64>,
    pub longest: Arc<AtomicU64>,
}

impl Scene {
    pub fn new(name: &'static str, specs: Vec<IpWhitelistSpec>, left: Budget) -> Self {
        Self {
            name,
            specs,
            egress: vec![vec![0]],
            objects: 1,
            are_in_two_clusters: false,
            there: Vec::new(),
            left,
            variant: Variant::Ships,
            walks: Arc::default(),
            longest: Arc::default(),
        }
    }

    fn egress(mut self, declared: &[&[u8]]) -> Self {
        self.egress = declared.iter().map(|all| all.to_vec()).collect();
        self
    }

    fn there(mut self, ranges: &[(u8, u8)]) -> Self {
        let person = |(id, (first, last)): (u64, &(u8, u8))| There {
            id,
            range: range(*first, *last),
            active: true,
            of: None,
        };
        self.there = (1..).zip(ranges).map(person).collect();
        self
    }

    pub fn with(mut self, variant: Variant) -> Self {
        self.variant = variant;
        self
    }

    fn two(mut self) -> Self {
        self.objects = 2;
        self
    }

    fn in_two_clusters(mut self) -> Self {
        (self.objects, self.are_in_two_clusters) = (2, true);
        self
    }

    pub fn start(&self) -> State {
        let object = |slot: usize| {
            (slot < self.objects).then(|| Object {
                spec: slot.min(self.specs.len() - 1),
                generation: 1,
                finalizer: false,
                deleting: false,
                plan: Vec::new(),
                had_entries: false,
                unkept: None,
            })
        };
        State {
            now: 0,
            list: self.there.clone(),
            next_id: 10,
            objects: [object(0), object(1)],
            memory: [None, None],
            since: 0,
            wire: Vec::new(),
            egress: 0,
            left: self.left,
            broken: None,
        }
    }

    /// The declared addresses of the operator.
    pub fn addresses(&self, egress: usize) -> impl Iterator<Item = u8> {
        self.egress[egress].clone().into_iter()
    }

    pub fn declared(&self, egress: usize) -> Vec<String> {
        let net = |address: u8| format!("192.0.2.{address}/32");
        self.addresses(egress).map(net).collect()
    }

    pub fn moves(&self, state: &State, moves: &mut Vec<Move>) {
        for slot in 0..self.objects {
            let Some(object) = &state.objects[slot] else {
                continue;
            };
            moves.push(Move::Pass(slot, Ends::Ok));
            if state.left.faults > 0 {
                moves.extend(
                    [Ends::LostBefore, Ends::LostAfter, Ends::Later]
                        .map(|ends| Move::Pass(slot, ends)),
                );
            }
            if state.left.edits > 0 && !object.deleting {
                let others = (0..self.specs.len()).filter(|spec| *spec != object.spec);
                moves.extend(others.map(|spec| Move::Edit(slot, spec)));
                moves.push(Move::Delete(slot));
            }
        }
        moves.extend((0..state.wire.len()).map(Move::Arrive));
        if state.left.ticks > 0 {
            moves.push(Move::Tick);
        }
        if state.left.crashes > 0 {
            moves.push(Move::Crash);
        }
        if state.left.edits > 0 {
            let others = (0..self.egress.len()).filter(|egress| *egress != state.egress);
            moves.extend(others.map(Move::Egress));
        }
        if state.left.user_changes > 0 {
            let hands = [Hand::Add { wide: true }, Hand::Add { wide: false }];
            moves.extend(hands.map(Move::UserChange));
            for place in 0..state.list.len() {
                let hands = [
                    Hand::Remove(place),
                    Hand::Deactivate(place),
                    Hand::Narrow(place),
                ];
                moves.extend(hands.map(Move::UserChange));
            }
        }
    }

    pub fn go(&self, state: &State, chosen: &Move) -> Option<State> {
        let mut next = state.clone();
        match *chosen {
            Move::Pass(slot, ends) => {
                let done = reconcile(self, &mut next, slot, ends)?;
                if ends != Ends::Ok {
                    // Nothing was sent, so no call can be lost.
                    matches!(done, Done::Sent).then_some(())?;
                    next.left.faults -= 1;
                }
            }
            Move::Arrive(place) => {
                let late = next.wire.remove(place);
                self.effect(&mut next, late.slot, &late.step, late.is_overtaken);
            }
            Move::Tick => {
                // A late call arrives in time.
                if next.wire.iter().any(|late| late.until <= next.now) {
                    return None;
                }
                next.now += 1;
                next.left.ticks -= 1;
            }
            Move::Crash => {
                next.memory = [None, None];
                next.since = next.now;
                next.left.crashes -= 1;
            }
            Move::UserChange(hand) => {
                next.left.user_changes -= 1;
                by_hand(&mut next, hand);
                overtake(&mut next);
            }
            Move::Edit(slot, spec) => {
                let object = next.objects[slot].as_mut()?;
                object.spec = spec;
                object.generation += 1;
                next.left.edits -= 1;
            }
            Move::Delete(slot) => {
                next.objects[slot].as_mut()?.deleting = true;
                next.left.edits -= 1;
            }
            Move::Egress(egress) => {
                next.egress = egress;
                next.left.edits -= 1;
                overtake(&mut next);
            }
        }
        Some(next)
    }

    /// Whether our step is permitted: foreign entries are removed only in exclusive mode, and never changed.
    pub fn may_touch(&self, state: &State, slot: usize, step: &WhitelistStep) -> bool {
        let (WhitelistStep::Remove(id) | WhitelistStep::Change(id, _)) = step else {
            return true;
        };
        let there = state.list.iter().find(|there| there.id == id.0);
        let of = there.and_then(|there| there.of.as_ref());
        let is_exclusive = state.objects[slot].as_ref().is_some_and(|object| {
            !object.deleting && self.specs[object.spec].entry_policy == Some(EntryPolicy::Exact)
        });
        match (there, of) {
            (None, _) => true,
            (Some(_), None) => is_exclusive && matches!(step, WhitelistStep::Remove(_)),
            (Some(_), Some((of, _))) => *of == slot || self.variant == Variant::Trusting,
        }
    }

    /// Applies our step and judges it, by the actual list and the declared addresses.
    pub fn effect(&self, state: &mut State, slot: usize, step: &WhitelistStep, is_overtaken: bool) {
        let before = state.clone();
        let mut states = vec![];
        if let WhitelistStep::Change(id, _) = step {
            // The provider may execute a change as a removal and an addition.
            let mut between = before.clone();
            between.list.retain(|there| there.id != id.0);
            states.push(between);
        }
        state.take_effect(slot, step);
        states.push(state.clone());
        let known = self.addresses(state.egress).count() > 0;
        // Without a declaration the operator may have any address.
        let anywhere: Vec<u8> = (0..4).collect();
        let own = match known {
            true => self.egress[state.egress].clone(),
            false => anywhere,
        };
        let is_locked_out = own.iter().any(|address| {
            let was_in = !before.refuses(*address);
            was_in
                && states.iter().any(|after| {
                    // An enforced list that becomes empty may admit nobody.
                    let is_emptied = after.is_open() && !before.is_open();
                    is_emptied || after.refuses(*address)
                })
        });
        if is_locked_out && !is_overtaken {
            state.broken = Some("a step locked the operator out");
        }
    }
}

fn by_hand(state: &mut State, hand: Hand) {
    match hand {
        Hand::Add { wide } => {
            state.next_id += 1;
            state.list.push(There {
                id: state.next_id,
                range: if wide { range(0, 3) } else { range(3, 3) },
                active: true,
                of: None,
            });
        }
        Hand::Remove(place) => drop(state.list.remove(place)),
        Hand::Deactivate(place) => state.list[place].active = false,
        Hand::Narrow(place) => state.list[place].range = range(3, 3),
    }
}

fn overtake(state: &mut State) {
    for late in &mut state.wire {
        late.is_overtaken = true;
    }
}

/// A spec with these entries.
fn spec(entries: &[(&str, u8, u8)]) -> IpWhitelistSpec {
    let entry = |(name, first, last): &(&str, u8, u8)| WhitelistEntrySpec {
        name: (*name).into(),
        start: Some(format!("192.0.2.{first}")),
        end: Some(format!("192.0.2.{last}")),
        ..WhitelistEntrySpec::default()
    };
    IpWhitelistSpec {
        account_ref: None,
        api_key_id: 7,
        entry_policy: None,
        entries: entries.iter().map(entry).collect(),
        egress_cidrs: Vec::new(),
        lockout_guard: None,
    }
}

fn exclusive(spec: IpWhitelistSpec) -> IpWhitelistSpec {
    IpWhitelistSpec {
        entry_policy: Some(EntryPolicy::Exact),
        ..spec
    }
}

pub fn edits() -> Scene {
    let specs = vec![
        spec(&[("me", 0, 0), ("x", 2, 2)]),
        spec(&[("me", 0, 1)]),
        spec(&[("x", 0, 3), ("me", 2, 3)]),
    ];
    let left = Budget {
        faults: 2,
        crashes: 1,
        edits: 1,
        ticks: 6,
        ..Budget::default()
    };
    Scene::new("edits", specs, left)
}

pub fn user_changes() -> Scene {
    let specs = vec![spec(&[("me", 0, 0), ("x", 1, 2)]), spec(&[("me", 0, 2)])];
    let left = Budget {
        faults: 1,
        user_changes: 1,
        edits: 1,
        ticks: 4,
        ..Budget::default()
    };
    Scene::new("people", specs, left)
}

pub fn busy() -> Scene {
    let left = Budget {
        user_changes: 3,
        ticks: 3,
        ..Budget::default()
    };
    Scene::new("busy", vec![spec(&[("me", 0, 0), ("x", 1, 2)])], left)
}

pub fn only() -> Scene {
    let specs = vec![exclusive(spec(&[("me", 0, 1)])), spec(&[("me", 0, 0)])];
    let left = Budget {
        faults: 1,
        crashes: 1,
        user_changes: 1,
        edits: 1,
        ticks: 5,
    };
    Scene::new("exclusive", specs, left).there(&[(0, 3), (2, 2)])
}

pub fn halves() -> Scene {
    let specs = vec![
        spec(&[("low", 0, 3)]),
        spec(&[("low", 0, 1), ("high", 2, 3)]),
    ];
    let left = Budget {
        faults: 2,
        crashes: 1,
        edits: 1,
        ticks: 5,
        ..Budget::default()
    };
    Scene::new("halves", specs, left).egress(&[&[0, 3]])
}

pub fn unsaid() -> Scene {
    let specs = vec![spec(&[("me", 0, 0), ("x", 1, 2)]), spec(&[("me", 0, 2)])];
    let left = Budget {
        faults: 1,
        user_changes: 1,
        edits: 2,
        ticks: 4,
        ..Budget::default()
    };
    Scene::new("unsaid", specs, left).egress(&[&[], &[0]])
}

pub fn moved() -> Scene {
    let specs = vec![spec(&[("me", 0, 0), ("you", 1, 1)]), spec(&[("me", 0, 1)])];
    let left = Budget {
        faults: 1,
        crashes: 1,
        edits: 2,
        ticks: 5,
        ..Budget::default()
    };
    Scene::new("moved", specs, left).egress(&[&[0], &[1]])
}

pub fn two() -> Scene {
    let specs = vec![spec(&[("me", 0, 1)]), exclusive(spec(&[("me", 0, 0)]))];
    let left = Budget {
        faults: 1,
        edits: 1,
        ticks: 4,
        ..Budget::default()
    };
    Scene::new("two", specs, left).two()
}

/// Two objects in two clusters; both are deleted.
pub fn two_clusters() -> Scene {
    let specs = vec![exclusive(spec(&[("me", 0, 1)])), spec(&[("me", 0, 0)])];
    let left = Budget {
        faults: 1,
        edits: 2,
        ..Budget::default()
    };
    Scene::new("strangers", specs, left).in_two_clusters()
}

/// Every configuration.
pub fn all() -> Vec<Scene> {
    vec![
        edits(),
        user_changes(),
        only(),
        halves(),
        unsaid(),
        moved(),
        two(),
        two_clusters(),
        busy(),
    ]
}
