//! Tests of the decision: the result for each state, and a simulated world that carries decisions out.

mod host_list;
mod installs;
mod powers;
pub(crate) mod readings;
mod sizes;
mod world;

use super::*;
use crate::{
    account::{
        terms::Terms,
        view::{AccountState, Catalogue},
    },
    cluster_id::ClusterId,
    host::facts::{BlockedInstall, HostMemory, HostObservation, InstallLogSnapshot},
    moment::Moment,
    ownership::{Claimant, ConflictingOwners},
    power::KnownCommand,
    reconcile::{Memory, Subject},
    resolved_account::ResolvedAccount,
    server_commands::RunningCommand,
    stored_keys::{KeyLookup, StoredKey},
};
use api::{
    DedicatedHost, ManagementPolicy,
    allowed::AllowedNamespaces,
    command::{CommandOutcome, PowerAction},
    host::DedicatedHostSpec,
    host_install::{HostInstallRecord, HostLog, HostSystem},
    install::{Install, InstallEnd},
    power::{Power, PowerCommandStatus, PowerRecord, PowerState},
    references::{AccountKind, AccountRef, PinnedAccount, SshKeyRef},
};
use hosting_types::{
    HostId,
    catalogue::OperatingSystem,
    host::{HostHardware, HostKind, InstallStatus},
    server::SystemFamily,
};
use std::{collections::BTreeMap, sync::Arc};

const NOW: Duration = Duration::from_secs(10_000);
const WALL: i64 = 1_800_000_000;
const KEY: &str = "0b2c4f5e-1111-4222-8333-444455556666";

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Host 7, which is running and was never installed.
fn host() -> Host {
    Host {
        id: HostId(7),
        kind: HostKind::Dedicated,
        server_id: Some(70),
        server_name: "db".into(),
        live_host_name: "db.example.com".into(),
        category: String::new(),
        order_id: None,
        os_id: Some(1),
        location_id: None,
        instance_type: String::new(),
        hardware: HostHardware::default(),
        addresses: Vec::new(),
        status: "running".into(),
        install_status: InstallStatus::None,
        uptime: None,
        uplinks: None,
        labels: BTreeMap::new(),
    }
}

fn system(id: i64, slug: &str) -> OperatingSystem {
    OperatingSystem {
        id: Some(id),
        name: slug.into(),
        slug: slug.into(),
        group: None,
        is_odp: false,
        for_servers: true,
        active: true,
    }
}

fn stored() -> StoredKey {
    StoredKey {
        uid: "key-uid".into(),
        uuid: KEY.into(),
        fingerprint: "SHA256:a".into(),
        account: PinnedAccount::from_reference(None),
        account_id: "account-id-1".into(),
    }
}

/// Facts under construction. They start with a new object `db` for host 7, which its account lists.
#[derive(Clone)]
struct Case(HostFacts);

impl Case {
    fn new() -> Self {
        let mut object = DedicatedHost::new(
            "db",
            DedicatedHostSpec {
                account_ref: None,
                host_id: 7,
                management_policy: None,
                suspend: None,
                power: None,
                hostname: None,
                os: None,
                ssh_key_ref: None,
                post_install_script: None,
                install: None,
            },
        );
        object.metadata.namespace = Some("shop".into());
        object.metadata.uid = Some("uid-1".into());
        object.metadata.generation = Some(1);
        let catalogue = Catalogue {
            systems: vec![
                system(12, "some-os"),
                system(13, "talos-1"),
                system(14, "custom-ipxe"),
            ],
            ..Catalogue::default()
        };
        let view = AccountView {
            catalogue: Some((NOW - secs(1), Arc::new(catalogue))),
            ..AccountView::usable()
        };
        let case = Self(HostFacts {
            subject: Subject {
                read_only: false,
                now: Moment {
                    wall: WALL,
                    mono: NOW,
                },
                leader_since: Duration::ZERO,
                first_seen: secs(9_000),
                cluster: ClusterId::parse("0123456789abcdef").unwrap(),
                kind_deleting: Some(false),
                account: ResolvedAccount::Found {
                    view,
                    terms: Terms::Own,
                },
                memory: Memory::default(),
                object: Arc::new(object),
            },
            conflicting_owners: ConflictingOwners::default(),
            is_owner_known: true,
            key: Some(KeyLookup::Ready(stored())),
            commands: RunningCommand::Nothing,
            power: KnownCommand::NotRead,
        });
        case.shows(host())
    }

    /// An observed host without requests.
    fn known() -> Self {
        Self::new().log(HostLog::default()).written()
    }

    /// An older object owns the host.
    fn owned_by_another(self) -> Self {
        let owner = Claimant {
            uid: "uid-0".into(),
            namespace: "shop".into(),
            name: "first".into(),
            account: crate::account::key::AccountKey::from_reference(
                &PinnedAccount::from_reference(None),
                "shop",
            ),
            is_deleting: false,
        };
        self.facts(|f| f.conflicting_owners.owner = Some(Arc::new(owner)))
    }

    fn facts(mut self, change: impl FnOnce(&mut HostFacts)) -> Self {
        change(&mut self.0);
        self
    }

    fn object(self, change: impl FnOnce(&mut DedicatedHost)) -> Self {
        self.facts(|f| change(Arc::make_mut(&mut f.subject.object)))
    }

    fn spec(self, change: impl FnOnce(&mut DedicatedHostSpec)) -> Self {
        self.object(|o| change(&mut o.spec))
    }

    fn status(self, change: impl FnOnce(&mut DedicatedHostStatus)) -> Self {
        self.object(|o| change(o.status.get_or_insert_default()))
    }

    fn view(self, change: impl FnOnce(&mut AccountView)) -> Self {
        self.facts(|f| {
            if let ResolvedAccount::Found { view, .. } = &mut f.subject.account {
                change(view);
            }
        })
    }

    fn terms(self, new: Terms) -> Self {
        self.facts(|f| {
            if let ResolvedAccount::Found { terms, .. } = &mut f.subject.account {
                *terms = new;
            }
        })
    }

    fn own(self, change: impl FnOnce(&mut HostMemory)) -> Self {
        self.facts(|f| change(&mut f.subject.memory.own))
    }

    /// The account's list began at `began` and contains these hosts.
    fn list(self, began: Duration, hosts: &[Host]) -> Self {
        let hosts = hosts.iter().map(|host| (host.id.0, host.clone()));
        let hosts: HostsById = hosts.collect();
        self.view(|v| v.hosts = Some((began, Arc::new(hosts))))
    }

    fn shows(self, host: Host) -> Self {
        self.list(NOW - secs(1), &[host])
    }

    fn shown(self, change: impl FnOnce(&mut Host)) -> Self {
        let mut host = host();
        change(&mut host);
        self.shows(host)
    }

    fn log(self, log: HostLog) -> Self {
        self.own(|own| {
            own.log = Some(InstallLogSnapshot {
                at: NOW - secs(1),
                log,
                error: None,
            });
        })
    }

    fn at(self, mono: Duration) -> Self {
        self.facts(|f| f.subject.now.mono = mono)
    }

    fn installs(self, revision: i64) -> Self {
        self.spec(|s| {
            s.install = Some(Install {
                revision,
                ..Install::default()
            });
            s.os = Some(HostSystem {
                slug: Some("some-os".into()),
                ..HostSystem::default()
            });
            s.ssh_key_ref = Some(SshKeyRef { name: "ops".into() });
        })
    }

    /// Refreshes the memory, as a reconcile does.
    fn refreshed(mut self) -> Self {
        let subject = &mut self.0.subject;
        subject.memory.set_leader_since(subject.leader_since);
        let facts = self.0.clone();
        self.own(|own| own.refresh(&facts))
    }

    fn decide(&self) -> HostDecision {
        decide(&self.0)
    }

    /// Writes the decided status until it no longer changes.
    fn written(mut self) -> Self {
        for _ in 0..5 {
            self = self.refreshed();
            let decision = self.decide();
            let (status, _) = decision.status(&self.0.subject, jiff::Timestamp::UNIX_EPOCH);
            let is_done = self.0.subject.object.status.as_ref() == Some(&status);
            self = self.object(|o| o.status = Some(status));
            if is_done {
                return self;
            }
        }
        panic!("it never rests: {:?}", self.decide());
    }

    /// The reason and the ready state.
    fn reason_and_state(&self) -> (Option<Reason>, Option<crate::explanation::ReadyState>) {
        let explanation = self.decide().explanation;
        let state = explanation
            .as_ref()
            .map(|explanation| explanation.ready_state);
        (explanation.map(|explanation| explanation.reason), state)
    }

    fn reason(&self) -> Option<Reason> {
        self.reason_and_state().0
    }

    fn effect(&self) -> Option<HostEffect> {
        self.decide().effect
    }

    fn message(&self) -> String {
        self.decide()
            .explanation
            .map(|explanation| explanation.message)
            .unwrap_or_default()
    }

    fn install_status(&self) -> HostInstallHistory {
        self.0.subject.status().records.install.unwrap()
    }

    fn power_record(&self) -> PowerRecord {
        self.0.subject.status().records.power.unwrap()
    }
}

/// The open record of an installation of this revision, started a minute ago.
fn record(case: &Case, revision: i64, attempt: &str) -> HostInstallRecord {
    HostInstallRecord::unfinished(api::host_install::HostInstallIntent {
        uid: "uid-1".into(),
        host_id: 7,
        revision,
        os_id: 12,
        attempt: attempt.into(),
        started_at: WALL - 60,
        send_by: WALL - 30,
        account: case.0.order_account().unwrap(),
        key_uid: None,
        before: None,
        log: HostLog::default(),
        secret_texts: false,
    })
}

/// An installation that this process sent, with the outcome of its answer.
fn sent(revision: i64, outcome: Option<CommandOutcome>) -> Case {
    let case = Case::known().installs(revision);
    let mut open = record(&case, revision, "a1");
    let recorded = open.clone();
    open.outcome = outcome;
    let case = case.status(|s| s.records.install.as_mut().unwrap().last = Some(recorded));
    case.own(|own| {
        own.record_observation(HostObservation::Installed(Box::new(open), NOW - secs(10)))
    })
    .refreshed()
}

/// An installation that another process sent or was about to send.
fn found(revision: i64) -> Case {
    let case = Case::known().installs(revision);
    let open = record(&case, revision, "a1");
    case.status(|s| s.records.install.as_mut().unwrap().last = Some(open))
        .refreshed()
}
