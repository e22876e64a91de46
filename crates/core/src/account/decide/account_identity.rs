//! Whether a URL and key lead to the account that was there before.
//!
//! The *lineage* is the account ID in the account's status, a random word. Whatever was ordered names it, and nothing is
//! concluded from what another lineage shows: its listings say nothing of machines that are elsewhere. A new connection
//! keeps the lineage only by showing a machine that was recorded under it, and an account whose status was lost gets the one
//! back under which its objects recorded a server or an order that it shows.

use super::super::facts::AccountFacts;
use crate::{
    account::{
        on_record::{OnRecord, OpenOrder},
        ownership_tags,
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

/// Whether the account is the one that it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountIdentity {
    /// It is: the same connection, or one that shows a machine on record.
    Same,
    /// The account lost its ID, and shows a server or an order that objects have recorded under one: it has that again.
    Recovered,
    /// A new lineage begins: nothing was seen here before, no live machine is on record that would have to be
    /// shown, or a user acknowledges the change.
    New,
    /// URL or key are new, and what they lead to is not known yet.
    Unchecked,
    /// URL or key are new, and they show none of the machines on record.
    Changed,
}

impl AccountIdentity {
    /// Whether what the connection shows may be believed to be this account.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Same | Self::Recovered | Self::New)
    }
}

/// Compares where the account was last seen with where it is now.
pub fn identify_account(facts: &AccountFacts) -> AccountIdentity {
    let Some(present) = &facts.in_force else {
        return AccountIdentity::Same;
    };
    let has_lineage = facts.status.account_id.is_some();
    if facts.status.verified.as_ref() == Some(present) {
        return match has_lineage {
            true => AccountIdentity::Same,
            false => AccountIdentity::New,
        };
    }
    // It has shown one while it was tried beside the key that was in use then.
    if facts.keys.is_verified && has_lineage {
        return AccountIdentity::Same;
    }
    // The objects are not all known yet.
    let Some(on_record) = &facts.on_record else {
        return AccountIdentity::Unchecked;
    };
    let machines = list_expected_servers(&facts.status, on_record);
    let is_open = !on_record.open_orders.is_empty();
    if machines.is_empty() && !is_open {
        return AccountIdentity::New;
    }
    let proof = facts
        .report
        .as_ref()
        .and_then(|r| r.complete_list.as_deref());
    let Some(proof) = proof else {
        return AccountIdentity::Unchecked;
    };
    match (
        recover_account_id(on_record, proof),
        &facts.status.account_id,
    ) {
        (Some(_), None) => return AccountIdentity::Recovered,
        (Some(shown), Some(known)) if shown == *known => return AccountIdentity::Same,
        (_, Some(_)) if is_any_shown(&machines, proof) => return AccountIdentity::Same,
        _ => {}
    }
    // One listing may be false.
    let spacing = facts.times().absence_check_interval;
    if facts
        .missed_since
        .is_none_or(|first| proof.began < first + spacing)
    {
        return AccountIdentity::Unchecked;
    }
    let word = present.hash_credentials(facts.uid());
    let given_up = giving_up(&facts.status, &word, &machines);
    let is_meant = facts.acknowledgements().is_given(&given_up);
    match (is_open || machines.iter().any(|m| m.live)) && !is_meant {
        true => AccountIdentity::Changed,
        false => AccountIdentity::New,
    }
}

/// The one lineage under which objects have recorded what this complete listing shows; None: nothing of it is shown, or of
/// two.
pub(super) fn recover_account_id(on_record: &OnRecord, proof: &CompleteList) -> Option<String> {
    let is_shown = |uuid: &str, place: &str| {
        let mut shown = proof.servers.iter();
        shown.any(|s| {
            s.id.as_str().eq_ignore_ascii_case(uuid)
                && ownership_tags::name_hashes(s).any(|it| it == place)
        })
    };
    let is_ordered = |order: &OpenOrder| {
        let tags = proof.servers.iter().flat_map(|server| &server.tags);
        let mut ordered = tags.filter_map(|tag| owner::parse_order_tag(tag));
        ordered.any(|(owner, seq)| owner.starts_with(&order.name_hash) && seq == order.seq)
    };
    let of_machines = on_record.servers.iter();
    let of_machines = of_machines.filter(|machine| is_shown(&machine.uuid, &machine.name_hash));
    let of_orders = on_record
        .open_orders
        .iter()
        .filter(|order| is_ordered(order));
    let lineages: HashSet<&str> = of_machines
        .filter_map(|machine| machine.account_id.as_deref())
        .chain(of_orders.map(|order| order.account_id.as_str()))
        .collect();
    let mut lineages = lineages.into_iter();
    lineages
        .next()
        .filter(|_| lineages.next().is_none())
        .map(str::to_owned)
}

/// A machine on record under the lineage of the account. That of an object has to have its place in an order tag.
pub(super) struct ExpectedServer {
    pub(super) uuid: String,
    pub(super) name_hash: Option<String>,
    pub(super) live: bool,
}

/// The machines on record under the lineage of the account, with the word of the objects first: they
/// know better than the account's memory what became of a machine.
pub(super) fn list_expected_servers(
    status: &AccountStatus,
    on_record: &OnRecord,
) -> Vec<ExpectedServer> {
    let lineage = status.account_id.as_ref();
    let of_objects = on_record.servers.iter();
    // Without a lineage nobody knows which of them were recorded under it.
    let of_objects = of_objects.filter(|m| lineage.is_none() || m.account_id.as_ref() == lineage);
    let mut machines: Vec<ExpectedServer> = of_objects
        .map(|m| ExpectedServer {
            uuid: m.uuid.clone(),
            name_hash: Some(m.name_hash.clone()),
            live: m.live,
        })
        .collect();
    let of_objects: HashSet<String> = machines.iter().map(|m| m.uuid.clone()).collect();
    for KnownServer { uuid, live, .. } in &status.records.known_servers {
        let uuid = uuid.to_ascii_lowercase();
        if !of_objects.contains(&uuid) {
            machines.push(ExpectedServer {
                uuid,
                name_hash: None,
                live: *live,
            });
        }
    }
    machines
}

/// Whether the complete listing shows one of them.
fn is_any_shown(machines: &[ExpectedServer], proof: &CompleteList) -> bool {
    let shown = proof.servers.iter();
    let shown: HashMap<String, _> = shown
        .map(|s| (s.id.as_str().to_ascii_lowercase(), s))
        .collect();
    machines.iter().any(|machine| {
        shown.get(&machine.uuid).is_some_and(|server| {
            let mut places = ownership_tags::name_hashes(server);
            let place = machine.name_hash.as_deref();
            place.is_none_or(|place| places.any(|of| of == place))
        })
    })
}

/// Start of the complete listing, if it shows no machine on record.
pub fn missed(facts: &AccountFacts) -> Option<Duration> {
    let on_record = facts.on_record.as_ref()?;
    let proof = facts.report.as_ref()?.complete_list.as_deref()?;
    (!is_any_shown(&list_expected_servers(&facts.status, on_record), proof)).then_some(proof.began)
}

/// What the account has to show, for a message: the first live machines on record.
pub(super) fn to_be_shown(facts: &AccountFacts) -> Vec<String> {
    let on_record = facts.on_record.clone().unwrap_or_default();
    let machines = list_expected_servers(&facts.status, &on_record).into_iter();
    machines
        .filter(|m| m.live)
        .take(3)
        .map(|m| m.uuid)
        .collect()
}

/// The situation of an account whose connection shows none of the machines on record.
pub(super) fn changed(facts: &AccountFacts, identity: AccountIdentity) -> Option<Situation> {
    let word = facts.connection()?;
    let on_record = facts.on_record.as_ref()?;
    (identity == AccountIdentity::Changed).then(|| new_account(&facts.status, &word, on_record))
}

/// The situation in which the connection of this word is used as another account: the live machines on record are given
/// up by that.
pub fn new_account(status: &AccountStatus, word: &str, on_record: &OnRecord) -> Situation {
    giving_up(status, word, &list_expected_servers(status, on_record))
}

fn giving_up(status: &AccountStatus, word: &str, machines: &[ExpectedServer]) -> Situation {
    let live = machines.iter().filter(|machine| machine.live);
    let mut live: Vec<&str> = live.map(|machine| machine.uuid.as_str()).collect();
    live.sort_unstable();
    let subject = format!(
        "connection {word}; gives up {}",
        listed(live.iter().copied())
    );
    let lineage = status.account_id.as_deref().unwrap_or_default();
    let exact = [word, lineage].into_iter().chain(live);
    Situation::new(AcknowledgementEffect::NewAccount, exact, subject)
}

/// The situation of an account that shows none of its known machines over the connection on record; None: it shows one,
/// or nobody knows.
pub(super) fn unshown(facts: &AccountFacts) -> Option<Situation> {
    let proof = facts.report.as_ref()?.complete_list.as_deref();
    unshown_by(&facts.status, facts.uid(), facts.in_force.as_ref(), proof)
}

/// The same of a status, a connection and a listing.
pub fn unshown_by(
    status: &AccountStatus,
    uid: &str,
    in_force: Option<&Endpoint>,
    proof: Option<&CompleteList>,
) -> Option<Situation> {
    let (lineage, recorded) = (status.account_id.as_deref()?, status.verified.as_ref()?);
    let known = &status.records.known_servers;
    let is_shown = |known: &KnownServer| {
        let mut shown = proof.into_iter().flat_map(|proof| &proof.servers);
        shown.any(|server| server.id.as_str().eq_ignore_ascii_case(&known.uuid))
    };
    let is_lost = known.iter().any(|known| known.live) && !known.iter().any(is_shown);
    if proof.is_none() || in_force != Some(recorded) || !is_lost {
        return None;
    }
    let mut uuids: Vec<&str> = known.iter().map(|known| known.uuid.as_str()).collect();
    uuids.sort_unstable();
    let subject = format!("known servers {}", listed(uuids.iter().copied()));
    let word = recorded.hash_credentials(uid);
    let exact = [word.as_str(), lineage].into_iter().chain(uuids);
    let effect = AcknowledgementEffect::SameAccount;
    Some(Situation::new(effect, exact, subject))
}
