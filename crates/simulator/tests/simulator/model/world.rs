//! What the account should look like: lists, and linear searches in them.
//!
//! Written from `docs/contributing/hosting-api.md` and `docs/contributing/simulator.md`.

use super::setup::Setup;

/// Virtual time at the start: the month ends four hours later.
pub(crate) const START: u64 = 1_701_374_401;
/// The moment in which that month ends: 2023-12-01T00:00:00Z.
pub(crate) const MONTH_END: u64 = 1_701_388_800;
/// What every delivery takes, in seconds.
pub(crate) const DELIVERY: u64 = 300;
/// What every release takes.
pub(crate) const RELEASE: u64 = 5;
/// What every power command takes.
pub(crate) const COMMAND: u64 = 10;
/// What every re-installation takes.
pub(crate) const INSTALL: u64 = 120;
/// Why a delivery fails.
pub(crate) const REASON: &str = "disk is broken";

/// What can be ordered, by number: location and instance type.
pub(crate) const OFFERS: [(&str, &str); 3] = [
    ("EU: Rotterdam", "bm7.std.8"),
    ("EU: Rotterdam", "bm9.std.32"),
    ("JP: Tokyo", "bm7.std.8"),
];

/// The state of a machine; the steps of the long view are one here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Delivered,
    Failed,
    Releasing,
    Released,
}

#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) offer: usize,
    pub(crate) slug: String,
    pub(crate) contract: String,
    pub(crate) tags: Vec<String>,
    pub(crate) created: u64,
    /// Its delivery is going to fail.
    pub(crate) doomed: bool,
    /// When DELETE was accepted.
    pub(crate) given_back: Option<u64>,
    /// Oldest first.
    pub(crate) commands: Vec<Command>,
}

#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) word: &'static str,
    pub(crate) sent: u64,
    pub(crate) lasts: u64,
    pub(crate) doomed: bool,
}

/// The quota of one offer; no contract is the on-demand pool.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) offer: usize,
    pub(crate) contract: String,
    pub(crate) quota: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct SshKey {
    pub(crate) name: String,
    pub(crate) stored: u64,
    pub(crate) deleted: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) range: &'static str,
    pub(crate) active: bool,
    pub(crate) changed: u64,
    pub(crate) removed: bool,
}

/// What an answer must show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    Nothing,
    Machine(usize),
    Tag(String),
    /// A command of a machine.
    Command(usize, usize),
    SshKey(usize),
    Entry(usize),
}

/// The expected answer to a request.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    /// More than one where two rules are broken and no page says which counts.
    pub(crate) statuses: Vec<u16>,
    pub(crate) shows: Shows,
}

impl Expected {
    pub(crate) fn refused(status: u16) -> Self {
        Self {
            statuses: vec![status],
            shows: Shows::Nothing,
        }
    }

    pub(crate) fn showing(shows: Shows) -> Self {
        let status = if shows == Shows::Nothing { 204 } else { 200 };
        Self {
            statuses: vec![status],
            shows,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) now: u64,
    /// In order of creation.
    pub(crate) machines: Vec<Machine>,
    /// The account's list.
    pub(crate) tags: Vec<String>,
    pub(crate) pools: Vec<Pool>,
    /// Of each offer: how many machines there are, taken ones included.
    pub(crate) stock: Vec<Option<usize>>,
    pub(crate) ssh_keys: Vec<SshKey>,
    pub(crate) whitelist: Vec<Entry>,
    /// Every tag that came with an accepted order.
    pub(crate) ordered_tags: Vec<String>,
    /// Marks that two live machines ever bore at once.
    pub(crate) twice_live: Vec<String>,
    /// Machines released without a mark.
    pub(crate) unmarked: Vec<usize>,
    /// The expected answer to the last transition.
    pub(crate) expected: Vec<Expected>,
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let pool = |offer, contract: &str, quota| Pool {
            offer,
            contract: contract.to_owned(),
            quota,
        };
        Self {
            setup,
            now: START,
            machines: Vec::new(),
            tags: Vec::new(),
            pools: vec![
                pool(0, "", 200),
                pool(1, "", 3),
                pool(2, "", 100),
                pool(0, "C-1", 2),
                pool(1, "C-1", 1),
                pool(0, "C-2", 3),
            ],
            stock: vec![None, None, Some(6)],
            ssh_keys: Vec::new(),
            whitelist: Vec::new(),
            ordered_tags: Vec::new(),
            twice_live: Vec::new(),
            unmarked: Vec::new(),
            expected: Vec::new(),
        }
    }

    /// Whether a switch has that value.
    pub(crate) fn is(&self, switch: &str, value: &str) -> bool {
        self.setup.switch(switch) == value
    }

    pub(crate) fn state(&self, machine: &Machine) -> State {
        match machine.given_back {
            Some(at) if at + RELEASE <= self.now => State::Released,
            Some(_) => State::Releasing,
            None if machine.created + DELIVERY > self.now => State::Waiting,
            None if machine.doomed => State::Failed,
            None => State::Delivered,
        }
    }

    /// When it was delivered, if it was.
    pub(crate) fn delivered(&self, machine: &Machine) -> Option<u64> {
        let at = machine.created + DELIVERY;
        let before = machine.given_back.is_none_or(|back| at <= back);
        (at <= self.now && before && !machine.doomed).then_some(at)
    }

    /// The state of a command. Releasing a machine ends its commands.
    pub(crate) fn progress(&self, machine: &Machine, command: &Command) -> &'static str {
        let ends = command.sent + command.lasts;
        match machine.given_back {
            Some(at) if at < ends => "failed",
            _ if ends > self.now => "pending",
            _ if command.doomed => "failed",
            _ => "finished",
        }
    }

    /// Machines of an offer that count against a quota; those on demand (no
    /// contract) against the stock as well.
    pub(crate) fn taken(&self, offer: usize, contract: &str) -> usize {
        let counts = |machine: &&Machine| {
            let state = self.state(machine);
            // The API itself releases a failed one.
            let held = state != State::Failed && state != State::Released;
            held && machine.offer == offer && machine.contract == contract
        };
        self.machines.iter().filter(counts).count()
    }

    pub(crate) fn quota(&self, offer: usize, contract: &str) -> Option<usize> {
        let mut pools = self.pools.iter();
        let pool = pools.find(|pool| pool.offer == offer && pool.contract == contract);
        pool.map(|pool| pool.quota)
    }

    pub(crate) fn set_quota(&mut self, offer: usize, contract: &str, quota: usize) {
        self.pools
            .retain(|pool| pool.offer != offer || pool.contract != contract);
        self.pools.push(Pool {
            offer,
            contract: contract.to_owned(),
            quota,
        });
    }

    /// How many more of an offer are in stock; `None` means no limit.
    pub(crate) fn free(&self, offer: usize) -> Option<usize> {
        let all = self.stock[offer]?;
        Some(all.saturating_sub(self.taken(offer, "")))
    }
}
