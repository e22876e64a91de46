//! What a decision on a host rests on, as plain data, and what this process remembers of one.

use crate::{
    account::view::{AccountView, HostsById},
    explanation::Explanation,
    ownership::ConflictingOwners,
    pass::Subject,
    power::KnownCommand,
    resolved_account::LiveAccount,
    server_commands::UnderWay,
    stored_keys::KeyLookup,
};
use api::{
    DedicatedHost, PoliciesInForce,
    host_install::{HostInstallHistory, HostInstallRecord, HostLog},
    order::OrderAccount,
    power::PowerRecord,
    references::PinnedAccount,
};
use std::time::Duration;

/// So many pages of a log are allowed for at first: some 100 entries.
pub const FEW_LOG_PAGES: u32 = 3;
/// So many find the end of a longer one: of some 12,000 entries.
pub const MOST_LOG_PAGES: u32 = 20;

/// All that one decision may know.
#[derive(Clone)]
pub struct HostFacts {
    /// What every kind knows of its object.
    pub subject: Subject<DedicatedHost, HostMemory>,
    /// Who else wants the host.
    pub conflicting_owners: ConflictingOwners,
    /// Whether it is known by now that the one that has the host may have it.
    pub is_owner_known: bool,
    /// The SshKey that the object names, where it names one.
    pub key: Option<KeyLookup>,
    /// What is known of the ServerCommands for the object.
    pub commands: UnderWay,
    /// What is known of the ServerCommand that `spec.power` came to.
    pub power: KnownCommand,
}

/// What this process remembers of a host. To lose it is always safe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostMemory {
    /// Whether this process saw the host first: what its log shows then is accounted for.
    pub is_first: bool,
    /// The installation that this process sent, or was about to, as far as it knows what came of it.
    pub install: Option<HostInstallRecord>,
    /// The ServerCommand that this process created for `spec.power`, by its name.
    pub powered: Option<String>,
    /// The one whose end this process has seen, by its name.
    pub ended: Option<String>,
    /// When the installation was answered: looks that started before show nothing of it.
    pub changed: Option<Duration>,
    /// When the end of that command was seen: looks that started before show nothing of it.
    pub switched: Option<Duration>,
    /// The object that has the host in the place of this one, by its UID, and whether the account lets this one have it.
    pub owner: (Option<String>, bool),
    /// Why an installation could not be sent.
    pub blocked_install: Option<BlockedInstall>,
    /// The installation log.
    pub log: Option<InstallLogSnapshot>,
    /// Whether the log is longer than a few pages.
    pub is_log_long: bool,
    /// When a look at the log last failed, why, and whether more looks do not help.
    pub log_error: Option<(Duration, String, bool)>,
    /// The start of the first list that did not show the host.
    pub unseen: Option<Duration>,
    /// The attempt of unknown outcome that is looked for, by its nonce, and since when this process does.
    pub searched_attempt: Option<(String, Duration)>,
}

/// Why something could not be sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlockedInstall {
    /// The generation of the object of which that was found out.
    pub generation: Option<i64>,
    /// When.
    pub at: Duration,
    /// Why.
    pub explanation: Explanation,
}

/// An installation log as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InstallLogSnapshot {
    /// When the look began.
    pub at: Duration,
    /// How far it goes.
    pub log: HostLog,
    /// The last line that names an error, of the installation that is open; none where a secret text was sent.
    pub error: Option<String>,
}

/// What an effect brought to light.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostObservation {
    /// Nothing.
    Nothing,
    /// An installation was sent, or was about to be, with what came of it by then.
    Installed(Box<HostInstallRecord>, Duration),
    /// The ServerCommand of this name was created, or was there.
    Powered(String),
    /// It could not be sent.
    Blocked(Box<BlockedInstall>),
    /// The log was read.
    Log(InstallLogSnapshot),
    /// The log is longer than a few pages: more are asked for next time.
    LongLog,
    /// The log could not be read: when, why, and whether that stays so.
    NoLog(Duration, String, bool),
}

impl HostMemory {
    /// Takes in what an effect brought to light.
    pub fn record_observation(&mut self, observation: HostObservation) {
        match observation {
            HostObservation::Nothing => {}
            HostObservation::Installed(record, at) => {
                self.install = Some(*record);
                self.changed = Some(at);
                self.blocked_install = None;
            }
            HostObservation::Powered(name) => self.powered = Some(name),
            HostObservation::Blocked(held) => self.blocked_install = Some(*held),
            HostObservation::Log(sight) => {
                self.log = Some(sight);
                self.log_error = None;
            }
            HostObservation::LongLog => self.is_log_long = true,
            HostObservation::NoLog(at, why, is_lasting) => {
                self.log_error = Some((at, why, is_lasting));
            }
        }
    }

    /// Brings what is remembered up to what the object and the account show.
    pub fn refresh(&mut self, facts: &HostFacts) {
        let subject = &facts.subject;
        let status = subject.status();
        let known = status.records.install.as_ref();
        let noted = known.filter(|known| is_own(&known.uid, facts));
        // Over once the log is on record: a status that has lost it later was restored.
        self.is_first = match noted {
            None => true,
            Some(noted) => self.is_first && noted.log.is_none(),
        };
        if let (Some(own), Some(known)) = (&self.install, status.records.install.as_ref())
            && is_own(&known.uid, facts)
            && is_reported(own, known)
        {
            self.install = None;
        }
        let awaited = status.records.power.as_ref().and_then(PowerRecord::awaited);
        let awaited = awaited.map(|command| command.name.clone());
        // Its end is told once a list that began later shows the host as it is since.
        if matches!(facts.power, KnownCommand::Ended(..)) && awaited != self.ended {
            self.ended = awaited;
            self.switched = Some(subject.now.mono);
        }
        if let Some((began, hosts)) = facts.hosts() {
            self.unseen = match hosts.contains_key(&facts.number()) {
                true => None,
                false => Some(self.unseen.unwrap_or(began)),
            };
        }
        let owner = facts.conflicting_owners.owner.as_ref();
        let terms = subject.account.terms();
        self.owner = (
            owner.map(|owner| owner.uid.to_string()),
            terms.is_some_and(|terms| terms.may_use_host(subject.object.spec.host_id)),
        );
        let install = facts.merged_install(self);
        let open = install.as_ref().and_then(HostInstallHistory::open);
        self.searched_attempt = open.map(|record| {
            let attempt = &record.intent.attempt;
            let since = self.searched_since(attempt);
            (attempt.clone(), since.unwrap_or(subject.now.mono))
        });
    }

    /// Since when this process sees an attempt whose outcome is open.
    pub fn searched_since(&self, attempt: &str) -> Option<Duration> {
        let known = self
            .searched_attempt
            .as_ref()
            .filter(|(known, _)| known == attempt);
        known.map(|(_, since)| *since)
    }
}

/// Whether status tells all that this process knows of its own installation: its end, or a later one.
fn is_reported(own: &HostInstallRecord, known: &HostInstallHistory) -> bool {
    let Some(last) = &known.last else {
        return own.intent.revision <= known.revision;
    };
    match last.intent.attempt == own.intent.attempt {
        true => !last.is_open(),
        false => own.intent.revision <= known.performed(),
    }
}

fn is_own(uid: &str, facts: &HostFacts) -> bool {
    uid == facts.subject.uid()
}

impl HostFacts {
    /// How many pages of the log are allowed for.
    pub fn log_pages(&self) -> u32 {
        match self.subject.memory.own.is_log_long {
            true => MOST_LOG_PAGES,
            false => FEW_LOG_PAGES,
        }
    }

    /// The provider's number of the host; 0, which no host has, where the schema was passed by.
    pub fn number(&self) -> u64 {
        u64::try_from(self.subject.object.spec.host_id).unwrap_or_default()
    }

    /// The hosts of the account, with the start of the look, where that may be relied on: it started after this process began
    /// to act for the object and after its last change.
    pub fn hosts(&self) -> Option<(Duration, &HostsById)> {
        let (began, hosts) = self.subject.view()?.hosts.as_ref()?;
        (*began >= self.not_before()).then_some((*began, hosts))
    }

    /// Looks that started before this moment may not be relied on.
    pub fn not_before(&self) -> Duration {
        let own = &self.subject.memory.own;
        let changed = own.changed.max(own.switched);
        self.subject.since().max(changed.unwrap_or_default())
    }

    /// What is known of installations: by the status, which goes ahead, and what this process knows beside it.
    pub fn install(&self) -> Option<HostInstallHistory> {
        self.merged_install(&self.subject.memory.own)
    }

    fn merged_install(&self, memory: &HostMemory) -> Option<HostInstallHistory> {
        let known = self.subject.status().records.install;
        let mut known = known.filter(|known| is_own(&known.uid, self))?;
        if let Some(own) = &memory.install
            && own.intent.uid == self.subject.uid()
            && !is_reported(own, &known)
        {
            let is_seen = known
                .last
                .as_ref()
                .is_some_and(|last| last.intent.attempt == own.intent.attempt && last.is_seen);
            let last = known.last.get_or_insert_with(|| own.clone());
            // What was seen of it since stays.
            if last.intent.attempt != own.intent.attempt || last.outcome.is_none() {
                *last = own.clone();
                last.is_seen |= is_seen;
            }
        }
        Some(known)
    }

    /// Whether this process sent this installation, while it has had the lease ever since.
    pub fn has_sent(&self, record: &HostInstallRecord) -> bool {
        let own = self.subject.memory.own.install.as_ref();
        own.is_some_and(|own| own.intent.attempt == record.intent.attempt)
    }

    /// From when on a look may show what became of an attempt.
    pub fn begins(&self, attempt: &str, view: &AccountView) -> Duration {
        let own = &self.subject.memory.own;
        let is_installed = own.install.as_ref();
        let is_installed = is_installed.is_some_and(|own| own.intent.attempt == attempt);
        match own.changed.filter(|_| is_installed) {
            Some(at) => at,
            // Another process may be about to send it.
            None => {
                let since = own.searched_since(attempt);
                since.unwrap_or(self.subject.now.mono) + view.times.send_window
            }
        }
    }

    /// Whether what an attempt led to would show by now.
    pub fn is_overdue(&self, attempt: &str, view: &AccountView, began: Duration) -> bool {
        began >= self.begins(attempt, view) + view.times.absence_grace_period
    }

    /// The account as a request that goes out now names it; None while its lineage is not on record.
    pub fn order_account(&self) -> Option<OrderAccount> {
        let view = self.subject.view()?;
        let PinnedAccount { kind, name } = self.subject.object.account();
        Some(OrderAccount {
            kind,
            name,
            uid: view.uid.clone(),
            account_id: view.account_id.clone()?,
            credentials_hash: view.connection.clone()?,
        })
    }

    /// The policies in force: the object's own, else its account's, else the operator's; suspended where the account is
    /// stopped. While the account is not known, what was in force last stays; None: nobody knows.
    pub fn known_policies(&self) -> Option<PoliciesInForce> {
        let known = self.known_policies_without_stops()?;
        let suspend = known.suspend || self.subject.account.stopped().is_some();
        Some(PoliciesInForce { suspend, ..known })
    }

    fn known_policies_without_stops(&self) -> Option<PoliciesInForce> {
        let own = self.subject.object.spec.policies();
        let defaults = self.subject.view().and_then(|view| view.defaults);
        if let Some(defaults) = defaults {
            return Some(own.or(defaults).over(PoliciesInForce::default()));
        }
        let last = self.subject.status().policies?;
        Some(own.over(PoliciesInForce {
            management_policy: last.management_policy,
            suspend: last.suspend,
            ..PoliciesInForce::default()
        }))
    }

    /// The policies in force, with the operator's where nobody knows them. Not for what cannot be undone.
    pub fn policies(&self) -> PoliciesInForce {
        let own = self.subject.object.spec.policies();
        let unknown = || own.over(PoliciesInForce::default());
        self.known_policies().unwrap_or_else(unknown)
    }

    /// Takes in what the account object says now.
    pub fn set_live(&mut self, live: LiveAccount) {
        self.subject.account.set_live(live);
    }
}
