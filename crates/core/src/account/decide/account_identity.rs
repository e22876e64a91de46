//! Whether a URL and key lead to the same account as before, by its account ID. New credentials keep the account ID
//! only if they show a server that was recorded under it.

use super::super::facts::{AccountFacts, AccountReport};
use crate::{
    account::{
        ownership_tags,
        recorded::{OpenOrder, RecordedResources},
        view::CompleteList,
    },
    acknowledgement::Situation,
    owner,
    wording::listed,
};
use api::{
    account::{AccountStatus, Endpoint, KnownServer},
    acknowledgement::AcknowledgementEffect,
};
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

/// Whether the account is the same as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountIdentity {
    /// The same URL and key as before, or they show a recorded server.
    Same,
    /// The status lost its account ID, and the account shows a server or an order that objects recorded under one. It
    /// gets that ID again.
    Recovered,
    /// A new account ID: nothing was recorded here before, no live server has to be shown, or a user acknowledges the
    /// change.
    New,
    /// URL or key are new. It is not known yet which account they lead to.
    Unchecked,
    /// URL or key are new, and show none of the recorded servers.
    Changed,
}

impl AccountIdentity {
    /// Whether what these credentials show belongs to this account.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Same | Self::Recovered | Self::New)
    }
}

/// Compares the verified URL and key with those in use.
pub fn identify_account(facts: &AccountFacts) -> AccountIdentity {
    let Some(present) = &facts.in_force else {
        return AccountIdentity::Same;
    };
    let has_account_id = facts.status.account_id.is_some();
    if facts.status.verified.as_ref() == Some(present) {
        return match has_account_id {
            true => AccountIdentity::Same,
            false => AccountIdentity::New,
        };
    }
    // The key showed a recorded server while it was a candidate.
    if facts.keys.is_verified && has_account_id {
        return AccountIdentity::Same;
    }
    // Not all objects are known yet.
    let Some(on_record) = &facts.on_record else {
        return AccountIdentity::Unchecked;
    };
    let servers = list_expected_servers(&facts.status, on_record);
    let is_open = !on_record.open_orders.is_empty();
    if servers.is_empty() && !is_open {
        return AccountIdentity::New;
    }
    let list = facts
        .report
        .as_ref()
        .and_then(|r| r.complete_list.as_deref());
    let Some(list) = list else {
        return AccountIdentity::Unchecked;
    };
    match (
        recover_account_id(on_record, list),
        &facts.status.account_id,
    ) {
        (Some(_), None) => return AccountIdentity::Recovered,
        (Some(shown), Some(known)) if shown == *known => return AccountIdentity::Same,
        (_, Some(_)) if is_any_shown(&servers, list) => return AccountIdentity::Same,
        _ => {}
    }
    // A single list may be wrong.
    let spacing = facts.times().absence_check_interval;
    if facts
        .missed_since
        .is_none_or(|first| list.began < first + spacing)
    {
        return AccountIdentity::Unchecked;
    }
    let hash = present.hash_credentials(facts.uid());
    let given_up = giving_up(&facts.status, &hash, &servers);
    let is_meant = facts.acknowledgements().is_given(&given_up);
    match (is_open || servers.iter().any(|m| m.live)) && !is_meant {
        true => AccountIdentity::Changed,
        false => AccountIdentity::New,
    }
}

/// The account ID under which objects recorded what this complete list shows. None: the list shows nothing of it, or
/// two IDs qualify.
pub(super) fn recover_account_id(
    on_record: &RecordedResources,
    list: &CompleteList,
) -> Option<String> {
    let is_shown = |uuid: &str, hash: &str| {
        let mut shown = list.servers.iter();
        shown.any(|s| {
            s.id.as_str().eq_ignore_ascii_case(uuid)
                && ownership_tags::name_hashes(s).any(|it| it == hash)
        })
    };
    let is_ordered = |order: &OpenOrder| {
        let tags = list.servers.iter().flat_map(|server| &server.tags);
        let mut ordered = tags.filter_map(|tag| owner::parse_order_tag(tag));
        ordered.any(|(owner, seq)| owner.starts_with(&order.name_hash) && seq == order.seq)
    };
    let of_servers = on_record.servers.iter();
    let of_servers = of_servers.filter(|server| is_shown(&server.uuid, &server.name_hash));
    let of_orders = on_record
        .open_orders
        .iter()
        .filter(|order| is_ordered(order));
    let account_ids: HashSet<&str> = of_servers
        .filter_map(|server| server.account_id.as_deref())
        .chain(of_orders.map(|order| order.account_id.as_str()))
        .collect();
    let mut account_ids = account_ids.into_iter();
    account_ids
        .next()
        .filter(|_| account_ids.next().is_none())
        .map(str::to_owned)
}

/// A server recorded under this account ID. If an object recorded it, one of its order tags must have this name hash.
pub(super) struct ExpectedServer {
    pub(super) uuid: String,
    pub(super) name_hash: Option<String>,
    pub(super) live: bool,
}

/// The servers recorded under this account ID. The records of objects win over the account's own: they are newer.
pub(super) fn list_expected_servers(
    status: &AccountStatus,
    on_record: &RecordedResources,
) -> Vec<ExpectedServer> {
    let account_id = status.account_id.as_ref();
    let of_objects = on_record.servers.iter();
    // Without an account ID all count: it is unknown which were recorded under it.
    let of_objects =
        of_objects.filter(|m| account_id.is_none() || m.account_id.as_ref() == account_id);
    let mut servers: Vec<ExpectedServer> = of_objects
        .map(|m| ExpectedServer {
            uuid: m.uuid.clone(),
            name_hash: Some(m.name_hash.clone()),
            live: m.live,
        })
        .collect();
    let of_objects: HashSet<String> = servers.iter().map(|m| m.uuid.clone()).collect();
    for KnownServer { uuid, live, .. } in &status.records.known_servers {
        let uuid = uuid.to_ascii_lowercase();
        if !of_objects.contains(&uuid) {
            servers.push(ExpectedServer {
                uuid,
                name_hash: None,
                live: *live,
            });
        }
    }
    servers
}

/// Whether the complete list shows one of these servers.
fn is_any_shown(servers: &[ExpectedServer], list: &CompleteList) -> bool {
    let shown = list.servers.iter();
    let shown: HashMap<String, _> = shown
        .map(|s| (s.id.as_str().to_ascii_lowercase(), s))
        .collect();
    servers.iter().any(|server| {
        shown.get(&server.uuid).is_some_and(|found| {
            let mut hashes = ownership_tags::name_hashes(found);
            let hash = server.name_hash.as_deref();
            hash.is_none_or(|hash| hashes.any(|of| of == hash))
        })
    })
}

/// Start of the complete list, if it shows no recorded server.
pub fn missing_since(facts: &AccountFacts) -> Option<Duration> {
    let on_record = facts.on_record.as_ref()?;
    let list = facts.report.as_ref()?.complete_list.as_deref()?;
    (!is_any_shown(&list_expected_servers(&facts.status, on_record), list)).then_some(list.began)
}

/// The first live recorded servers, for a message.
pub(super) fn to_be_shown(facts: &AccountFacts) -> Vec<String> {
    let on_record = facts.on_record.clone().unwrap_or_default();
    let servers = list_expected_servers(&facts.status, &on_record).into_iter();
    servers.filter(|m| m.live).take(3).map(|m| m.uuid).collect()
}

/// The situation of an account whose credentials show none of the recorded servers.
pub(super) fn changed(facts: &AccountFacts, identity: AccountIdentity) -> Option<Situation> {
    let hash = facts.connection()?;
    let on_record = facts.on_record.as_ref()?;
    (identity == AccountIdentity::Changed).then(|| new_account(&facts.status, &hash, on_record))
}

/// The situation in which these credentials are used as a new account. This gives up the live recorded servers.
pub fn new_account(status: &AccountStatus, hash: &str, on_record: &RecordedResources) -> Situation {
    giving_up(status, hash, &list_expected_servers(status, on_record))
}

fn giving_up(status: &AccountStatus, hash: &str, servers: &[ExpectedServer]) -> Situation {
    let live = servers.iter().filter(|server| server.live);
    let mut live: Vec<&str> = live.map(|server| server.uuid.as_str()).collect();
    live.sort_unstable();
    let subject = format!(
        "connection {hash}; gives up {}",
        listed(live.iter().copied())
    );
    let account_id = status.account_id.as_deref().unwrap_or_default();
    let exact = [hash, account_id].into_iter().chain(live);
    Situation::new(AcknowledgementEffect::NewAccount, exact, subject)
}

/// The situation of an account that shows none of its known servers with the recorded credentials. None: the list or a
/// later read shows one, they were not all asked for, none is live, or there is no complete list.
pub(super) fn unshown(facts: &AccountFacts) -> Option<Situation> {
    let report = facts.report.as_ref();
    unshown_by(&facts.status, facts.uid(), facts.in_force.as_ref(), report)
}

/// The same for a given status, credentials and report.
pub fn unshown_by(
    status: &AccountStatus,
    uid: &str,
    in_force: Option<&Endpoint>,
    report: Option<&AccountReport>,
) -> Option<Situation> {
    let report = report?;
    let list = report.complete_list.as_deref()?;
    let (account_id, recorded) = (status.account_id.as_deref()?, status.verified.as_ref()?);
    let known = &status.records.known_servers;
    let is_shown = |known: &KnownServer| {
        let mut shown = list.servers.iter();
        shown.any(|server| server.id.as_str().eq_ignore_ascii_case(&known.uuid))
    };
    let is_lost = known.iter().any(|known| known.live)
        && !known.iter().any(is_shown)
        && report.are_known_lost;
    if in_force != Some(recorded) || !is_lost {
        return None;
    }
    let mut uuids: Vec<&str> = known.iter().map(|known| known.uuid.as_str()).collect();
    uuids.sort_unstable();
    let subject = format!("known servers {}", listed(uuids.iter().copied()));
    let hash = recorded.hash_credentials(uid);
    let exact = [hash.as_str(), account_id].into_iter().chain(uuids);
    let effect = AcknowledgementEffect::SameAccount;
    Some(Situation::new(effect, exact, subject))
}
