//! Whether a URL and key lead to the account that was there before.
//!
//! The *lineage* is the account ID in the account's status, a random word. Whatever was ordered names it, and nothing is
//! concluded from what another lineage shows: its listings say nothing of machines that are elsewhere. A new connection
//! keeps the lineage only by showing a machine that was recorded under it, and an account whose status was lost gets the one
//! back under which its objects recorded a server or an order that it shows.

use super::super::facts::Facts;
use crate::{
    account::{
        marks,
        on_record::{OnRecord, OpenOrder},
        view::Proof,
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
pub enum Identity {
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

impl Identity {
    /// Whether what the connection shows may be believed to be this account.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Same | Self::Recovered | Self::New)
    }
}

/// Compares where the account was last seen with where it is now.
pub fn identity(facts: &Facts) -> Identity {
    let Some(present) = &facts.in_force else {
        return Identity::Same;
    };
    let has_lineage = facts.status.account_id.is_some();
    if facts.status.verified.as_ref() == Some(present) {
        return match has_lineage {
            true => Identity::Same,
            false => Identity::New,
        };
    }
    // It has shown one while it was tried beside the key that was in use then.
    if facts.keys.is_verified && has_lineage {
        return Identity::Same;
    }
    // The objects are not all known yet.
    let Some(on_record) = &facts.on_record else {
        return Identity::Unchecked;
    };
    let machines = machines(&facts.status, on_record);
    let is_open = !on_record.open.is_empty();
    if machines.is_empty() && !is_open {
        return Identity::New;
    }
    let proof = facts.report.as_ref().and_then(|r| r.proof.as_deref());
    let Some(proof) = proof else {
        return Identity::Unchecked;
    };
    match (recovered(on_record, proof), &facts.status.account_id) {
        (Some(_), None) => return Identity::Recovered,
        (Some(shown), Some(known)) if shown == *known => return Identity::Same,
        (_, Some(_)) if is_any_shown(&machines, proof) => return Identity::Same,
        _ => {}
    }
    // One listing may be false.
    let spacing = facts.times().absence_check_interval;
    if facts
        .missed_since
        .is_none_or(|first| proof.began < first + spacing)
    {
        return Identity::Unchecked;
    }
    let word = present.connection(facts.uid());
    let given_up = giving_up(&facts.status, &word, &machines);
    let is_meant = facts.acknowledgements().is_given(&given_up);
    match (is_open || machines.iter().any(|m| m.live)) && !is_meant {
        true => Identity::Changed,
        false => Identity::New,
    }
}

/// The one lineage under which objects have recorded what this complete listing shows; None: nothing of it is shown, or of
/// two.
pub(super) fn recovered(on_record: &OnRecord, proof: &Proof) -> Option<String> {
    let is_shown = |uuid: &str, place: &str| {
        let mut shown = proof.servers.iter();
        shown.any(|s| {
            s.id.as_str().eq_ignore_ascii_case(uuid) && marks::places(s).any(|it| it == place)
        })
    };
    let is_ordered = |order: &OpenOrder| {
        let tags = proof.servers.iter().flat_map(|server| &server.tags);
        let mut ordered = tags.filter_map(|tag| owner::parse_order_tag(tag));
        ordered.any(|(owner, seq)| owner.starts_with(&order.place) && seq == order.seq)
    };
    let of_machines = on_record.machines.iter();
    let of_machines = of_machines.filter(|machine| is_shown(&machine.uuid, &machine.place));
    let of_orders = on_record.open.iter().filter(|order| is_ordered(order));
    let lineages: HashSet<&str> = of_machines
        .filter_map(|machine| machine.lineage.as_deref())
        .chain(of_orders.map(|order| order.lineage.as_str()))
        .collect();
    let mut lineages = lineages.into_iter();
    lineages
        .next()
        .filter(|_| lineages.next().is_none())
        .map(str::to_owned)
}

/// A machine on record under the lineage of the account. That of an object has to have its place in an order tag.
pub(super) struct Machine {
    pub(super) uuid: String,
    pub(super) place: Option<String>,
    pub(super) live: bool,
}

/// The machines on record under the lineage of the account, with the word of the objects first: they
/// know better than the account's memory what became of a machine.
pub(super) fn machines(status: &AccountStatus, on_record: &OnRecord) -> Vec<Machine> {
    let lineage = status.account_id.as_ref();
    let of_objects = on_record.machines.iter();
    // Without a lineage nobody knows which of them were recorded under it.
    let of_objects = of_objects.filter(|m| lineage.is_none() || m.lineage.as_ref() == lineage);
    let mut machines: Vec<Machine> = of_objects
        .map(|m| Machine {
            uuid: m.uuid.clone(),
            place: Some(m.place.clone()),
            live: m.live,
        })
        .collect();
    let of_objects: HashSet<String> = machines.iter().map(|m| m.uuid.clone()).collect();
    for KnownServer { uuid, live, .. } in &status.records.known_servers {
        let uuid = uuid.to_ascii_lowercase();
        if !of_objects.contains(&uuid) {
            machines.push(Machine {
                uuid,
                place: None,
                live: *live,
            });
        }
    }
    machines
}

/// Whether the complete listing shows one of them.
fn is_any_shown(machines: &[Machine], proof: &Proof) -> bool {
    let shown = proof.servers.iter();
    let shown: HashMap<String, _> = shown
        .map(|s| (s.id.as_str().to_ascii_lowercase(), s))
        .collect();
    machines.iter().any(|machine| {
        shown.get(&machine.uuid).is_some_and(|server| {
            let mut places = marks::places(server);
            let place = machine.place.as_deref();
            place.is_none_or(|place| places.any(|of| of == place))
        })
    })
}

/// Start of the complete listing, if it shows no machine on record.
pub fn missed(facts: &Facts) -> Option<Duration> {
    let on_record = facts.on_record.as_ref()?;
    let proof = facts.report.as_ref()?.proof.as_deref()?;
    (!is_any_shown(&machines(&facts.status, on_record), proof)).then_some(proof.began)
}

/// What the account has to show, for a message: the first live machines on record.
pub(super) fn to_be_shown(facts: &Facts) -> Vec<String> {
    let on_record = facts.on_record.clone().unwrap_or_default();
    let machines = machines(&facts.status, &on_record).into_iter();
    machines
        .filter(|m| m.live)
        .take(3)
        .map(|m| m.uuid)
        .collect()
}

/// The situation of an account whose connection shows none of the machines on record.
pub(super) fn changed(facts: &Facts, identity: Identity) -> Option<Situation> {
    let word = facts.connection()?;
    let on_record = facts.on_record.as_ref()?;
    (identity == Identity::Changed).then(|| new_account(&facts.status, &word, on_record))
}

/// The situation in which the connection of this word is used as another account: the live machines on record are given
/// up by that.
pub fn new_account(status: &AccountStatus, word: &str, on_record: &OnRecord) -> Situation {
    giving_up(status, word, &machines(status, on_record))
}

fn giving_up(status: &AccountStatus, word: &str, machines: &[Machine]) -> Situation {
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
pub(super) fn unshown(facts: &Facts) -> Option<Situation> {
    let proof = facts.report.as_ref()?.proof.as_deref();
    unshown_by(&facts.status, facts.uid(), facts.in_force.as_ref(), proof)
}

/// The same of a status, a connection and a listing.
pub fn unshown_by(
    status: &AccountStatus,
    uid: &str,
    in_force: Option<&Endpoint>,
    proof: Option<&Proof>,
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
    let word = recorded.connection(uid);
    let exact = [word.as_str(), lineage].into_iter().chain(uuids);
    let effect = AcknowledgementEffect::SameAccount;
    Some(Situation::new(effect, exact, subject))
}
