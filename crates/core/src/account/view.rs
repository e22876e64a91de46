//! A snapshot of an account for the rest of the operator: pure data.

use super::order_supply::Demand;
use api::{
    Reason,
    account::KnownServer,
    host_install::RequestForm,
    limits::Limits,
    policies::Policies,
    release_limit::{ReleaseLimit, ReleaseLimitStatus},
    timing::TimingInForce,
};
use hosting_types::{
    TagRecord,
    catalogue::{Location, OperatingSystem, Plan},
    host::Host,
    quota::LocationQuota,
    server::Server,
    ssh_key::SshKey,
};
use std::{collections::HashMap, sync::Arc, time::Duration};

/// A snapshot of an account.
#[derive(Clone)]
pub struct AccountView {
    /// Whether calls may be made.
    pub state: AccountState,
    /// The account's times, with the relations between them enforced.
    pub times: AccountTimes,
    /// The last complete list that this process made; None before the first.
    pub complete_list: Option<Arc<CompleteList>>,
    /// The known servers: a list that shows none of them does not count.
    pub known: Vec<KnownServer>,
    /// What can be ordered, and when it was read.
    pub catalogue: Option<(Duration, Arc<Catalogue>)>,
    /// What was refused since the catalogue was read, and when: perhaps for want of stock or quota.
    pub refused: Vec<(Demand, Duration)>,
    /// The limits of the account object.
    pub limits: Limits,
    /// All servers of the account, with any tags, and when they were listed.
    pub servers: Option<(Duration, Arc<Vec<Server>>)>,
    /// All tags of the account but the operator's own, and when they were listed.
    pub tags: Option<(Duration, Arc<TagsByName>)>,
    /// All SSH keys stored in the account, and when they were listed.
    pub ssh_keys: Option<(Duration, Arc<Vec<SshKey>>)>,
    /// All hosts of the account, and when they were listed.
    pub hosts: Option<(Duration, Arc<HostsById>)>,
    /// UID of the account object.
    pub uid: String,
    /// Hash of the credentials in use, which orders record.
    pub credentials_hash: Option<String>,
    /// The account ID of these credentials; None until it is known and recorded.
    pub account_id: Option<String>,
    /// Why the last call failed, or the last read of what orders need: reason and message.
    pub last_error: Option<(Reason, String)>,
    /// Why the last read of each list failed, if an object waits for it; see [`AccountView::list_error`].
    pub list_errors: [Option<(Reason, String)>; ListKind::ALL.len()],
    /// Whether polls of the servers have failed for a while. Other lists that fail do not count.
    pub is_unreachable: bool,
    /// Why the account is unreachable, in a message that stays the same meanwhile; objects that wait show it.
    pub outage: Option<(Reason, String)>,
    /// When the account became reachable again; None: this process saw no outage.
    pub answers_since: Option<Duration>,
    /// Why nothing may be ordered; releases go on.
    pub no_orders: Option<(Reason, String)>,
    /// The default policies of its servers; None: not read yet.
    pub defaults: Option<Policies>,
    /// How the installation of a host is requested.
    pub install_form: RequestForm,
    /// Its release limit, and what that has counted; None: it has none.
    pub release_limit: Option<(ReleaseLimit, ReleaseLimitStatus)>,
    /// The addresses from which the operator calls, as CIDRs; empty: not known.
    pub egress: Vec<String>,
}

impl AccountView {
    /// Why there is no newer read of a list: the last call failed, or the last read of it.
    pub fn list_error(&self, list: ListKind) -> Option<&(Reason, String)> {
        let of_list = self.list_errors[list as usize].as_ref();
        self.last_error.as_ref().or(of_list)
    }

    /// An account that may be called, and of which nothing was read.
    pub fn usable() -> Self {
        Self {
            state: AccountState::Usable,
            times: AccountTimes::default(),
            complete_list: None,
            known: Vec::new(),
            catalogue: None,
            refused: Vec::new(),
            limits: Limits::default(),
            servers: None,
            tags: None,
            ssh_keys: None,
            hosts: None,
            uid: "account-1".into(),
            credentials_hash: Some("c0ffee".into()),
            account_id: Some("account-id-1".into()),
            last_error: None,
            outage: None,
            list_errors: Default::default(),
            is_unreachable: false,
            answers_since: None,
            no_orders: None,
            defaults: Some(Policies::default()),
            install_form: RequestForm::default(),
            release_limit: None,
            egress: Vec::new(),
        }
    }
}

/// Whether calls may be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountState {
    /// Calls may be made.
    Usable,
    /// No object may change state. Has the reason and the message.
    Blocked(Reason, String),
}

/// The account's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountTimes {
    /// How long after the first observation an order of unknown outcome may count as absent.
    pub absence_grace_period: Duration,
    /// Least time between two reads that together confirm absence.
    pub absence_check_interval: Duration,
    /// How long after its start an order may still be sent.
    pub send_window: Duration,
    /// How long to wait for the answer to an order.
    pub order_timeout: Duration,
    /// Time between reads of pending servers.
    pub active_poll_interval: Duration,
    /// Time between lists of delivered servers.
    pub idle_poll_interval: Duration,
    /// Time between complete lists for orphan scans.
    pub orphan_scan_interval: Duration,
}

impl From<TimingInForce> for AccountTimes {
    /// Send window and order timeout together stay below the absence grace period: an order that can still arrive must
    /// not count as absent.
    fn from(timing: TimingInForce) -> Self {
        let grace = timing.absence_grace_period.0;
        Self {
            absence_grace_period: grace,
            absence_check_interval: timing.absence_check_interval.0,
            send_window: Duration::from_secs(30).min(grace / 4),
            order_timeout: timing.order_timeout.0,
            active_poll_interval: timing.active_poll_interval.0,
            idle_poll_interval: timing.idle_poll_interval.0,
            orphan_scan_interval: timing.orphan_scan_interval.0,
        }
    }
}

impl Default for AccountTimes {
    /// The times of an account that sets none.
    fn default() -> Self {
        Self::from(TimingInForce::default())
    }
}

/// A complete list of the servers with this cluster's tag, in every state.
#[derive(Clone, Debug)]
pub struct CompleteList {
    /// When its first page was requested.
    pub began: Duration,
    /// When its empty last page arrived.
    pub ended: Duration,
    /// The servers that it shows.
    pub servers: Vec<Arc<Server>>,
}

impl CompleteList {
    /// Whether it shows the server with this UUID, in upper or lower case.
    pub fn shows(&self, uuid: &str) -> bool {
        let mut servers = self.servers.iter();
        servers.any(|s| s.id.as_str().eq_ignore_ascii_case(uuid))
    }
}

/// A server, as last read.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenServer {
    /// The provider's server.
    pub server: Arc<Server>,
    /// When it was requested.
    pub seen: Duration,
}

/// What can be ordered at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    /// Locations.
    pub locations: Vec<Location>,
    /// Instance types with their availability by location.
    pub plans: Vec<Plan>,
    /// Operating systems that can be installed.
    pub systems: Vec<OperatingSystem>,
    /// Quota and its use by location.
    pub quotas: Vec<LocationQuota>,
}

/// All hosts of an account by ID.
pub type HostsById = HashMap<u64, Host>;

/// All tags of an account by name, without the operator's own.
pub type TagsByName = HashMap<String, TagRecord>;

/// A list that is read on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListKind {
    /// What can be ordered.
    Catalogue,
    /// All servers of the account, with any tags; complete.
    Servers,
    /// All tags, with the number of resources that have them.
    Tags,
    /// All stored SSH keys.
    SshKeys,
    /// All hosts.
    Hosts,
}

impl ListKind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Catalogue,
        Self::Servers,
        Self::Tags,
        Self::SshKeys,
        Self::Hosts,
    ];

    /// Its name, for the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Catalogue => "Catalogue",
            Self::Servers => "Servers",
            Self::Tags => "Tags",
            Self::SshKeys => "SshKeys",
            Self::Hosts => "Hosts",
        }
    }
}
