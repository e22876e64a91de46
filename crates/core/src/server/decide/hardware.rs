//! The hardware of a machine: one look when its listing can be there, and none afterwards.

use super::{
    super::facts::{Facts, is_same_uuid},
    Effect,
};
use api::hardware::HardwareStatus;
use hosting_types::{Server, ServerStatus};
use std::time::Duration;

/// The first listing is there a minute after the delivery (2.10-4); by clocks that may differ a little.
const LISTED_AFTER: i64 = 120;
/// Where there is none yet, or it cannot be had, another look after each of these; then none any more.
const AGAIN: [Duration; 3] = [
    Duration::from_secs(600),
    Duration::from_secs(3600),
    Duration::from_secs(6 * 3600),
];

/// What one process remembers of the looks at the hardware of one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HardwareMemory {
    /// The machine.
    machine: String,
    /// What it showed.
    found: Option<HardwareStatus>,
    /// The ConfigMap that was asked for at the last look.
    wanted: Option<String>,
    /// How many looks there were, for that ConfigMap.
    looks: usize,
    /// When the last one was.
    looked: Duration,
}

impl HardwareMemory {
    /// All looks at this machine were in vain: none is due any more, unless it is to go into a ConfigMap.
    pub fn given_up(machine: &str) -> Self {
        Self {
            machine: machine.to_owned(),
            looks: AGAIN.len() + 1,
            ..Self::default()
        }
    }

    /// Takes in a look at a machine: what it showed, if anything.
    pub fn note(
        &mut self,
        machine: &str,
        wanted: Option<String>,
        found: Option<HardwareStatus>,
        at: Duration,
    ) {
        if self.machine != machine {
            *self = Self {
                machine: machine.to_owned(),
                ..Self::default()
            };
        }
        if self.wanted != wanted {
            self.wanted = wanted;
            self.looks = 0;
        }
        self.found = found.or(self.found.take());
        self.looks += 1;
        self.looked = at;
    }
}

/// What is known of the hardware, and the look that is due.
pub struct Looks {
    /// What is shown of it.
    pub status: Option<HardwareStatus>,
    /// The look.
    pub effect: Option<Effect>,
    /// When the next one is due.
    pub rest: Option<Duration>,
}

/// What is to be shown and done for a machine.
pub fn hardware(facts: &Facts, server: &Server) -> Looks {
    let id = server.id.as_str();
    let memory = Some(&facts.memory.hardware).filter(|memory| memory.machine == id);
    let shown = facts.status().hardware;
    let shown = shown.filter(|shown| is_same_uuid(&shown.machine, id));
    let status = memory.and_then(|memory| memory.found.clone()).or(shown);
    let mut looks = Looks {
        status,
        effect: None,
        rest: None,
    };
    let wanted = facts.object.spec.hardware.as_ref();
    let wanted = wanted.and_then(|wish| Some(wish.config_map_ref.as_ref()?.name.clone()));
    // Once written it is not looked at again, whatever becomes of it.
    let is_done = looks
        .status
        .as_ref()
        .is_some_and(|known| wanted.is_none() || known.config_map == wanted);
    if is_done || server.status != ServerStatus::Delivered || facts.policies().suspend {
        return looks;
    }
    let tried = memory.filter(|memory| memory.wanted == wanted);
    let rest = match tried {
        None => {
            let due = server
                .delivered_at
                .map_or(0, |at| at.saturating_add(LISTED_AFTER));
            let rest = due.saturating_sub(facts.steady_wall());
            Duration::from_secs(u64::try_from(rest).unwrap_or(0))
        }
        Some(memory) => {
            let Some(pause) = memory.looks.checked_sub(1).and_then(|last| AGAIN.get(last)) else {
                return looks;
            };
            (memory.looked + *pause).saturating_sub(facts.now.mono)
        }
    };
    match rest.is_zero() {
        true => {
            looks.effect = Some(Effect::LookAtHardware {
                uuid: id.to_owned(),
                config_map: wanted,
            });
        }
        false => looks.rest = Some(rest),
    }
    looks
}
