//! Tests of the plan and the decision.

mod deletion;
mod plans;
pub(crate) mod readings;
mod reconcile_request;
mod sizes;
mod steps;

use super::{
    super::{
        facts::WhitelistFacts,
        memory::{StepAnswer, WhitelistMemory, WhitelistSnapshot},
    },
    WhitelistDecision, WhitelistEffect, decide,
    desired_entries::{AddressForm, DesiredEntry, DesiredWhitelist},
    list::{ListedEntry, ProviderWhitelist, comments},
    lockout_guard::WhitelistStep,
    ranges::Range,
};
use crate::{
    account::{key::AccountKey, view::AccountView},
    cluster_id::{ClusterId, OwnerHash},
    moment::Moment,
    ownership::{Claimant, ConflictingOwners},
    reconcile::{Memory, Subject},
    resolved_account::ResolvedAccount,
};
use api::{
    IpWhitelist,
    names::OBJECT_FINALIZER,
    references::PinnedAccount,
    whitelist::{EntryPolicy, IpWhitelistStatus},
};
use hosting_types::WhitelistEntryId;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// The time of the decision, by the monotonic clock of the process.
const NOW: Duration = Duration::from_secs(10_000);

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn connection() -> Option<String> {
    AccountView::usable().credentials_hash
}

fn cluster() -> ClusterId {
    ClusterId::parse("0123456789abcdef").unwrap()
}

fn owner_hash() -> OwnerHash {
    cluster().name_hash("shop", "office")
}

/// A range of IPv4 addresses in the last byte of 192.0.2.0/24.
fn range(first: u8, last: u8) -> Range {
    let at = |n: u8| [192, 0, 2, n].into();
    Range::between(at(first), at(last)).unwrap()
}

fn desired_entry(name: &str, range: Range) -> DesiredEntry {
    DesiredEntry {
        name: name.into(),
        form: AddressForm::Span,
        range,
        active: true,
        comments: comments(None, &owner_hash(), name),
    }
}

fn entry(id: u64, desired: &DesiredEntry) -> ListedEntry {
    ListedEntry {
        id: WhitelistEntryId(id),
        range: Some(desired.range),
        active: Some(desired.active),
        comments: desired.comments.clone(),
        name: Some(desired.name.clone()),
        is_of_other: false,
    }
}

/// An entry of another object.
fn of_other(id: u64, range: Range) -> ListedEntry {
    ListedEntry {
        is_of_other: true,
        ..foreign(id, range)
    }
}

fn foreign(id: u64, range: Range) -> ListedEntry {
    ListedEntry {
        name: None,
        comments: "by hand".into(),
        ..entry(id, &desired_entry("", range))
    }
}

fn list(entries: &[ListedEntry]) -> ProviderWhitelist {
    ProviderWhitelist {
        entries: entries.to_vec(),
    }
}

fn target(entries: &[DesiredEntry], egress: &[Range]) -> DesiredWhitelist {
    DesiredWhitelist {
        entries: entries.to_vec(),
        mode: EntryPolicy::Additive,
        egress: (!egress.is_empty()).then(|| egress.iter().copied().collect()),
        is_guarded: true,
        is_end: false,
        owner_hash: owner_hash(),
    }
}

/// Facts under construction. The first list was just read, and no status is written yet.
#[derive(Clone)]
struct Case(WhitelistFacts);

impl Case {
    fn new(spec: &Value, entries: &[ListedEntry]) -> Self {
        let object: IpWhitelist = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "IpWhitelist",
            "metadata": {
                "name": "office", "namespace": "shop", "uid": "uid-1", "generation": 3,
                "finalizers": [OBJECT_FINALIZER],
            },
            "spec": spec, "status": {"observedGeneration": -1},
        }))
        .unwrap();
        let view = AccountView::usable();
        let mut own = WhitelistMemory::default();
        own.start_reconcile(secs(10), false);
        let subject = Subject {
            read_only: false,
            now: Moment {
                wall: 1_790_000_000,
                mono: NOW,
            },
            leader_since: secs(10),
            first_seen: secs(10),
            cluster: cluster(),
            kind_deleting: Some(false),
            account: ResolvedAccount::Found {
                view,
                terms: crate::account::terms::Terms::Own,
            },
            memory: Memory {
                own,
                ..Memory::default()
            },
            object: Arc::new(object),
        };
        let case = Self(WhitelistFacts {
            subject,
            conflicting_owners: ConflictingOwners::default(),
            is_account_in_namespace: true,
            is_listed: true,
        });
        case.shows(entries, NOW)
    }

    /// A list with these entries was read at `at`.
    fn shows(mut self, entries: &[ListedEntry], at: Duration) -> Self {
        let snapshot = WhitelistSnapshot {
            list: Arc::new(list(entries)),
            began: at,
            ended: at,
            connection: AccountView::usable().credentials_hash,
        };
        self.0 = self.0.with_snapshot(snapshot);
        self
    }

    fn at(mut self, now: Duration) -> Self {
        self.0.subject.now.mono = now;
        self
    }

    fn object(mut self, change: impl FnOnce(&mut IpWhitelist)) -> Self {
        change(Arc::make_mut(&mut self.0.subject.object));
        self
    }

    fn status(self, change: impl FnOnce(&mut IpWhitelistStatus)) -> Self {
        self.object(|object| change(object.status.get_or_insert_default()))
    }

    fn annotated(self, name: &str, value: &str) -> Self {
        self.object(|object| {
            let annotations = object.metadata.annotations.get_or_insert_default();
            annotations.insert(name.into(), value.into());
        })
    }

    fn deleted(self) -> Self {
        self.object(|object| {
            object.metadata.deletion_timestamp =
                Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        })
    }

    fn own(mut self, change: impl FnOnce(&mut WhitelistMemory)) -> Self {
        change(&mut self.0.subject.memory.own);
        self
    }

    /// An older object owns the whitelist of the key.
    fn owned(mut self) -> Self {
        let owner = Claimant {
            uid: "older".into(),
            namespace: "shop".into(),
            name: "first".into(),
            account: AccountKey::from_reference(&PinnedAccount::from_reference(None), "shop"),
            is_deleting: false,
        };
        self.0.conflicting_owners.owner = Some(Arc::new(owner));
        self
    }

    /// Writes the decided status.
    fn written(self) -> Self {
        let (status, _) = decide(&self.0).status(&self.0.subject, jiff::Timestamp::UNIX_EPOCH);
        self.status(|kept| *kept = status)
    }

    fn decide(&self) -> WhitelistDecision {
        decide(&self.0)
    }

    /// The first pending acknowledgement token in status.
    fn pending(&self) -> Option<String> {
        let status = self.0.subject.status();
        let shown = status.pending_acknowledgements.first();
        shown.map(|asked| asked.token.clone())
    }

    /// The reason of Ready, with the message.
    fn explanation(&self) -> (api::Reason, String) {
        let explanation = self.decide().explanation.expect("something is said");
        (explanation.reason, explanation.message)
    }

    /// The step that would be sent after this list.
    fn sends(&self) -> Option<WhitelistStep> {
        let list = self.0.usable_snapshot().unwrap().list.clone();
        super::sendable(&self.0, &list)
    }

    fn sent(self, step: &WhitelistStep, is_answered: bool, at: Duration) -> Self {
        let list = self.0.usable_snapshot().unwrap().list.clone();
        let answer = match is_answered {
            true => StepAnswer::Done,
            false => StepAnswer::Unknown,
        };
        self.own(|own| own.record_sent_step(step, &list, answer, at))
    }
}

/// A spec with one entry that admits the operator.
fn plain() -> Value {
    json!({
        "apiKeyID": 7,
        "entries": [{"name": "all", "cidr": "192.0.2.0/24"}],
        "egressCIDRs": ["192.0.2.8/32"],
    })
}

fn all() -> DesiredEntry {
    let net = "192.0.2.0/24".parse().unwrap();
    DesiredEntry {
        form: AddressForm::Net(net),
        ..desired_entry("all", Range::of_net(net))
    }
}
