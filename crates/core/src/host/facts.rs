//! The facts that a decision on a host uses, and what this process remembers of a host.

use crate::{
    account::view::{AccountView, HostsById},
    explanation::Explanation,
    ownership::ConflictingOwners,
    power::KnownCommand,
    reconcile::Subject,
    resolved_account::LiveAccount,
    server_commands::RunningCommand,
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

/// Pages of a log to read at first, about 100 entries.
pub const FEW_LOG_PAGES: u32 = 3;
/// Pages that are enough to find the end of a log of about 12,000 entries.
pub const MOST_LOG_PAGES: u32 = 20;

/// All facts that a decision uses.
#[derive(Clone)]
pub struct HostFacts {
    /// The facts that all kinds have.
    pub subject: Subject<DedicatedHost, HostMemory>,
    /// The other objects that name the same host.
    pub conflicting_owners: ConflictingOwners,
    /// Whether it is known if the owning object may use the host.
    pub is_owner_known: bool,
    /// The SshKey that the object names, if any.
    pub key: Option<KeyLookup>,
    /// The ServerCommands in progress for the host.
    pub commands: RunningCommand,
    /// The ServerCommand created for `spec.power`.
    pub power: KnownCommand,
}

/// What this process remembers of a host. Losing it is always safe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostMemory {
    /// Whether this process observed the host first, so the log at that time counts as known.
    pub is_first: bool,
    /// The installation that this process sent or was about to send, with its outcome if known.
    pub install: Option<HostInstallRecord>,
    /// Name of the ServerCommand that this process created for `spec.power`.
    pub powered: Option<String>,
    /// Name of the ServerCommand whose end this process has seen.
    pub ended: Option<String>,
    /// When the installation was answered. Lists that began earlier do not show it.
    pub changed: Option<Duration>,
    /// When the end of that command was seen. Lists that began earlier do not show it.
    pub switched: Option<Duration>,
    /// UID of the other object that owns the host, and whether the account permits the host for this object.
    pub owner: (Option<String>, bool),
    /// Why an installation could not be sent.
    pub blocked_install: Option<BlockedInstall>,
    /// The installation log as last read.
    pub log: Option<InstallLogSnapshot>,
    /// Whether the log is longer than a few pages.
    pub is_log_long: bool,
    /// When reading the log last failed, why, and whether the failure is lasting.
    pub log_error: Option<(Duration, String, bool)>,
    /// Start of the first list without the host.
    pub unseen: Option<Duration>,
    /// Nonce of the attempt whose outcome is unknown, and since when this process searches for it.
    pub searched_attempt: Option<(String, Duration)>,
}

/// Why something could not be sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlockedInstall {
    /// The generation of the object at that time.
    pub generation: Option<i64>,
    /// When it was blocked.
    pub at: Duration,
    /// Why it was blocked.
    pub explanation: Explanation,
}

/// An installation log as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InstallLogSnapshot {
    /// When the read began.
    pub at: Duration,
    /// How many entries it has, and the newest one.
    pub log: HostLog,
    /// The last error line of the open installation. None if a secret was sent.
    pub error: Option<String>,
}

/// What an effect found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostObservation {
    /// Nothing to record.
    Nothing,
    /// An installation was sent or was about to be sent, with its record and the time.
    Installed(Box<HostInstallRecord>, Duration),
    /// The ServerCommand with this name was created, or already existed.
    Powered(String),
    /// The installation could not be sent.
    Blocked(Box<BlockedInstall>),
    /// The log was read.
    Log(InstallLogSnapshot),
    /// The log is longer than a few pages; the next read allows more.
    LongLog,
    /// The log could not be read: when, why, and whether the failure is lasting.
    NoLog(Duration, String, bool),
}

impl HostMemory {
    /// Records what an effect found out.
    pub fn record_observation(&mut self, observation: HostObservation) {
        match observation {
            HostObservation::Nothing => {}
            HostObservation::Installed(record, at) => {
                self.install = Some(*record);
                self.changed = Some(at);
                self.blocked_install = None;
            }
            HostObservation::Powered(name) => self.powered = Some(name),
            HostObservation::Blocked(blocked) => self.blocked_install = Some(*blocked),
            HostObservation::Log(snapshot) => {
                self.log = Some(snapshot);
                self.log_error = None;
            }
            HostObservation::LongLog => self.is_log_long = true,
            HostObservation::NoLog(at, why, is_lasting) => {
                self.log_error = Some((at, why, is_lasting));
            }
        }
    }

    /// Updates the memory from the object and the account.
    pub fn refresh(&mut self, facts: &HostFacts) {
        let subject = &facts.subject;
        let status = subject.status();
        let known = status.records.install.as_ref();
        let own_record = known.filter(|known| is_same_uid(&known.uid, facts));
        // False once the log is recorded. A status without it later was restored from a backup.
        self.is_first = match own_record {
            None => true,
            Some(own_record) => self.is_first && own_record.log.is_none(),
        };
        if let (Some(own), Some(known)) = (&self.install, status.records.install.as_ref())
            && is_same_uid(&known.uid, facts)
            && is_reported(own, known)
        {
            self.install = None;
        }
        let awaited = status.records.power.as_ref().and_then(PowerRecord::awaited);
        let awaited = awaited.map(|command| command.name.clone());
        // The end is reported once a list that began later contains the host.
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
        let open = install.as_ref().and_then(HostInstallHistory::unfinished);
        self.searched_attempt = open.map(|record| {
            let attempt = &record.intent.attempt;
            let since = self.searched_since(attempt);
            (attempt.clone(), since.unwrap_or(subject.now.mono))
        });
    }

    /// Since when this process searches for this attempt.
    pub fn searched_since(&self, attempt: &str) -> Option<Duration> {
        let known = self
            .searched_attempt
            .as_ref()
            .filter(|(known, _)| known == attempt);
        known.map(|(_, since)| *since)
    }
}

/// Whether status has all that this process knows of its own installation: its end, or a later installation.
fn is_reported(own: &HostInstallRecord, known: &HostInstallHistory) -> bool {
    let Some(last) = &known.last else {
        return own.intent.revision <= known.revision;
    };
    match last.intent.attempt == own.intent.attempt {
        true => !last.is_open(),
        false => own.intent.revision <= known.performed(),
    }
}

fn is_same_uid(uid: &str, facts: &HostFacts) -> bool {
    uid == facts.subject.uid()
}

impl HostFacts {
    /// Updates the memory from the object and the account.
    pub fn refresh_memory(&mut self) {
        let mut own = self.subject.memory.own.clone();
        own.refresh(self);
        self.subject.memory.own = own;
    }

    /// Most pages of the log to read.
    pub fn log_pages(&self) -> u32 {
        match self.subject.memory.own.is_log_long {
            true => MOST_LOG_PAGES,
            false => FEW_LOG_PAGES,
        }
    }

    /// The provider's number of the host. 0, which no host has, if the schema was not enforced.
    pub fn number(&self) -> u64 {
        u64::try_from(self.subject.object.spec.host_id).unwrap_or_default()
    }

    /// The hosts of the account and the start of that list. None unless the list began after this process became
    /// responsible for the object and after its last change.
    pub fn hosts(&self) -> Option<(Duration, &HostsById)> {
        let (began, hosts) = self.subject.view()?.hosts.as_ref()?;
        (*began >= self.not_before()).then_some((*began, hosts))
    }

    /// Lists that began before this moment are not used.
    pub fn not_before(&self) -> Duration {
        let own = &self.subject.memory.own;
        let changed = own.changed.max(own.switched);
        self.subject
            .observations_count_from()
            .max(changed.unwrap_or_default())
    }

    /// The installation record: from the status, completed by what this process remembers.
    pub fn install(&self) -> Option<HostInstallHistory> {
        self.merged_install(&self.subject.memory.own)
    }

    fn merged_install(&self, memory: &HostMemory) -> Option<HostInstallHistory> {
        let known = self.subject.status().records.install;
        let mut known = known.filter(|known| is_same_uid(&known.uid, self))?;
        if let Some(own) = &memory.install
            && own.intent.uid == self.subject.uid()
            && !is_reported(own, &known)
        {
            let is_seen = known
                .last
                .as_ref()
                .is_some_and(|last| last.intent.attempt == own.intent.attempt && last.is_seen);
            let last = known.last.get_or_insert_with(|| own.clone());
            // `is_seen` of the status is kept.
            if last.intent.attempt != own.intent.attempt || last.outcome.is_none() {
                *last = own.clone();
                last.is_seen |= is_seen;
            }
        }
        Some(known)
    }

    /// Whether this process sent this installation and has had the lease since.
    pub fn has_sent(&self, record: &HostInstallRecord) -> bool {
        let own = self.subject.memory.own.install.as_ref();
        own.is_some_and(|own| own.intent.attempt == record.intent.attempt)
    }

    /// The time from which a list or log may show the outcome of an attempt.
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

    /// Whether the outcome of an attempt should be visible by now.
    pub fn is_overdue(&self, attempt: &str, view: &AccountView, began: Duration) -> bool {
        began >= self.begins(attempt, view) + view.times.absence_grace_period
    }

    /// The account that a request would use now. None while its account ID is unknown.
    pub fn order_account(&self) -> Option<OrderAccount> {
        let view = self.subject.view()?;
        let PinnedAccount { kind, name } = self.subject.object.account();
        Some(OrderAccount {
            kind,
            name,
            uid: view.uid.clone(),
            account_id: view.account_id.clone()?,
            credentials_hash: view.credentials_hash.clone()?,
        })
    }

    /// The policies in force: the object's, else the account's, else the operator's. Suspended if the account is
    /// stopped. While the account is unknown, the last ones in status apply; None if status has none.
    pub fn known_policies(&self) -> Option<PoliciesInForce> {
        let known = self.known_policies_without_stops()?;
        let suspend = known.suspend || self.subject.account.suspension().is_some();
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

    /// The policies in force, or the defaults if unknown. Do not use for changes that cannot be undone.
    pub fn policies(&self) -> PoliciesInForce {
        let own = self.subject.object.spec.policies();
        let unknown = || own.over(PoliciesInForce::default());
        self.known_policies().unwrap_or_else(unknown)
    }

    /// Sets what the account object says now.
    pub fn set_live(&mut self, live: LiveAccount) {
        self.subject.account.set_live(live);
    }
}
