//! What the rest of the operator may know of an account: pure data, taken at one moment.

use super::supply::Demand;
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

/// An account at one moment.
#[derive(Clone)]
pub struct AccountView {
    /// Whether calls may be made.
    pub state: AccountState,
    /// The account's times, with the relations between them enforced.
    pub times: AccountTimes,
    /// The last complete proof listing that this process made; None before the first.
    pub complete_list: Option<Arc<CompleteList>>,
    /// Machines that show that a listing is the right one and tells the truth.
    pub known: Vec<KnownServer>,
    /// What can be ordered, with the moment of the look.
    pub catalogue: Option<(Duration, Arc<Catalogue>)>,
    /// What was refused, perhaps for want of stock or quota, with the moment: the catalogue was not looked at since.
    pub refused: Vec<(Demand, Duration)>,
    /// The limits of the account object.
    pub limits: Limits,
    /// Every machine of the account, whatever it bears, with the moment of the look.
    pub servers: Option<(Duration, Arc<Vec<Server>>)>,
    /// Every tag of the account but the operator's own, with the moment of the look.
    pub tags: Option<(Duration, Arc<TagsByName>)>,
    /// Every SSH key that is stored in the account, with the moment of the look.
    pub ssh_keys: Option<(Duration, Arc<Vec<SshKey>>)>,
    /// Every host of the account, with the moment of the look.
    pub hosts: Option<(Duration, Arc<HostsById>)>,
    /// UID of the account object.
    pub uid: String,
    /// The word for the connection in force, which orders name.
    pub connection: Option<String>,
    /// The lineage to which that connection leads; None until it is known and on record.
    pub account_id: Option<String>,
    /// The last exchange went wrong, or a look at what orders need: the reason, and what a person should read.
    pub last_error: Option<(Reason, String)>,
    /// Why the last look at a list failed, where somebody waits for it; see [`View::error_of`].
    pub list_errors: [Option<(Reason, String)>; ListKind::ALL.len()],
    /// Whether the machines have not been seen for a while: polls fail. A list that fails is another matter.
    pub is_unreachable: bool,
    /// Why the account has no answers, in words that stay while it lasts. Objects that wait show it.
    pub outage: Option<(Reason, String)>,
    /// Since when the account has answers again; None: it never lacked them, as far as this process knows.
    pub answers_since: Option<Duration>,
    /// Why nothing may be ordered, though releases go on.
    pub no_orders: Option<(Reason, String)>,
    /// What its servers do where they do not say it themselves; None: that was not read yet.
    pub defaults: Option<Policies>,
    /// How the installation of a host is asked for.
    pub install_form: RequestForm,
    /// What its release limit is, and what that has counted; None: it has none.
    pub release_limit: Option<(ReleaseLimit, ReleaseLimitStatus)>,
    /// The addresses from which the operator calls, as CIDRs; none: they are not known.
    pub egress: Vec<String>,
}

impl AccountView {
    /// Why there is no newer look at a list: the last exchange went wrong, or the last look at it.
    pub fn error_of(&self, list: ListKind) -> Option<&(Reason, String)> {
        let of_list = self.list_errors[list as usize].as_ref();
        self.last_error.as_ref().or(of_list)
    }

    /// An account that may be called, and of which nothing else is known: what tests start from.
    #[doc(hidden)]
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
            connection: Some("c0ffee".into()),
            account_id: Some("lineage-1".into()),
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
    /// No object changes state until this is over.
    Blocked(Reason, String),
}

/// The account's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountTimes {
    /// How long after the first sight of an order of unknown outcome its absence may be believed.
    pub absence_grace_period: Duration,
    /// Least time between two looks that together prove something.
    pub absence_check_interval: Duration,
    /// How long after its start an order may still be sent.
    pub send_window: Duration,
    /// How long the answer to an order is awaited.
    pub order_timeout: Duration,
    /// Time between reads of pending servers.
    pub active_poll_interval: Duration,
    /// Time between lists of delivered servers.
    pub idle_poll_interval: Duration,
    /// Time between complete listings that look for orphans.
    pub orphan_scan_interval: Duration,
}

impl From<TimingInForce> for AccountTimes {
    /// The send window and the order's time-out, half the absence grace period at most, together stay below
    /// it: absence must not be believed while an order can still arrive.
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
    /// Those of an account that asks for none.
    fn default() -> Self {
        Self::from(TimingInForce::default())
    }
}

/// A complete listing of the machines that bear this cluster's mark, in every state.
#[derive(Clone, Debug)]
pub struct CompleteList {
    /// When its first page was asked for.
    pub began: Duration,
    /// When its empty page came.
    pub ended: Duration,
    /// Everything it showed.
    pub servers: Vec<Arc<Server>>,
}

impl CompleteList {
    /// Whether it shows the machine with this identifier, in any case of its letters.
    pub fn shows(&self, uuid: &str) -> bool {
        let mut servers = self.servers.iter();
        servers.any(|s| s.id.as_str().eq_ignore_ascii_case(uuid))
    }
}

/// A machine, as last seen.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenServer {
    /// The record.
    pub server: Arc<Server>,
    /// When it was asked for.
    pub seen: Duration,
}

/// What can be ordered at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    /// Places.
    pub locations: Vec<Location>,
    /// Instance types with their availability per place.
    pub plans: Vec<Plan>,
    /// Systems that can be installed.
    pub systems: Vec<OperatingSystem>,
    /// Quota and its use per place.
    pub quotas: Vec<LocationQuota>,
}

/// Every host of an account by its number.
pub type HostsById = HashMap<u64, Host>;

/// Every tag of an account by its name, without the operator's own.
pub type TagsByName = HashMap<String, TagRecord>;

/// A list that is looked at when somebody wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListKind {
    /// What can be ordered.
    Catalogue,
    /// Every machine of the account, whatever it bears, read to an empty page.
    Servers,
    /// Every tag, with the number of those that bear it.
    Tags,
    /// Every stored SSH key.
    SshKeys,
    /// Every host.
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
}
