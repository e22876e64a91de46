//! Machines that earlier objects of the same namespace and name left behind: paid for still, so that an object that is
//! applied again orders none beside them, unless a person names them all.

use super::{super::facts::Facts, Decision, remedy};
use crate::{
    account::{key::AccountKey, view::View},
    cause::Cause,
    wording::{counted, listed},
};
use api::{Interval, Reason, names::ORDER_ANOTHER};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;

/// Up to so many are named one by one in the command; a longer one would be cut off in an event.
const MOST_NAMED: usize = 4;

/// Why nothing is ordered while an account may have kept one that is not shown yet, if there is such an account that no
/// person names.
pub fn unlisted(facts: &Facts, view: &View) -> Option<Decision> {
    let said = facts.order_another().unwrap_or_default().to_lowercase();
    let named = words(&said);
    let is_open = |key: &&AccountKey| !named.contains(word_for(key).as_str());
    let open: Vec<&AccountKey> = facts.unlisted.iter().filter(is_open).collect();
    let first = open.first()?;
    let accounts: Vec<String> = open.iter().map(|key| key.to_string()).collect();
    let mut all: Vec<String> = Vec::new();
    let kept = identifiers(facts);
    if !kept.is_empty() {
        all.push(word(&kept));
    }
    let unnamed = open.iter().take(MOST_NAMED).map(|key| word_for(key));
    let said = facts.unlisted.iter().map(word_for);
    all.extend(
        said.filter(|word| named.contains(word.as_str()))
            .chain(unnamed),
    );
    let message = format!(
        "nothing is ordered: {} may keep a machine of an earlier {}/{}, and no listing of it that can be believed is there yet; looked at every {}; if this stays, see why: {}; to order without knowing it: {}",
        listed(accounts.iter().map(String::as_str)),
        facts.namespace(),
        facts.name(),
        Interval(view.times.active_poll_interval),
        first.command("describe", ""),
        remedy::order_another(facts, &all.join(",")),
    );
    let cause = Cause::missing(Reason::WaitingForListing, message);
    let mut decision = Decision::hold(facts, cause).again(view.times.active_poll_interval);
    decision.wants_elsewhere = true;
    Some(decision)
}

/// What a person writes to order without knowing what this account keeps.
fn word_for(key: &AccountKey) -> String {
    format!("{}/{}", key.kind.as_str().to_lowercase(), key.name)
}

/// Why nothing is ordered beside them, if anything.
pub fn against_order(facts: &Facts, view: &View) -> Option<Decision> {
    let kept = identifiers(facts);
    if kept.is_empty() || names_all(facts.order_another().unwrap_or_default(), &kept) {
        return None;
    }
    let first = kept.first().map(String::as_str).unwrap_or_default();
    let (namespace, name) = (facts.namespace(), facts.name());
    let are = if kept.len() == 1 { "is" } else { "are" };
    let not_all = match facts.order_another() {
        Some(_) => format!(": its annotation {ORDER_ANOTHER} does not name all of these machines"),
        None => String::new(),
    };
    let message = format!(
        "{} of an earlier {namespace}/{name} {are} kept and still billed: {}; nothing is ordered{not_all}; to take one back: {}; if none is wanted, delete this object: {}; once they are released at the provider, looked at every {}, this object orders one; to pay for another one now: {}",
        counted(kept.len(), "machine"),
        listed(kept.iter().map(String::as_str)),
        remedy::set(facts, "externalID", &format!("{first:?}")),
        remedy::delete(facts),
        Interval(view.times.idle_poll_interval),
        remedy::order_another(facts, &word(&kept)),
    );
    let cause = Cause::needs_person(Reason::RetainedMachine, message);
    Some(Decision::hold(facts, cause).again(view.times.idle_poll_interval))
}

fn identifiers(facts: &Facts) -> BTreeSet<String> {
    let kept = facts.retained.iter();
    kept.map(|s| s.server.id.as_str().to_ascii_lowercase())
        .collect()
}

/// What a person writes to name all of them: their identifiers, or for many their number and a hash.
pub fn word(kept: &BTreeSet<String>) -> String {
    match kept.len() <= MOST_NAMED {
        true => kept.iter().cloned().collect::<Vec<_>>().join(","),
        false => short_word(kept),
    }
}

/// Whether a person's words name every one of them. What is released by now may be named, too: who ordered beside it
/// would order beside less.
fn names_all(said: &str, kept: &BTreeSet<String>) -> bool {
    let said = said.to_ascii_lowercase();
    let words = words(&said);
    kept.iter().all(|uuid| words.contains(uuid.as_str()))
        || words.contains(short_word(kept).as_str())
}

fn words(said: &str) -> BTreeSet<&str> {
    let words = said.split(|c: char| c == ',' || c.is_whitespace());
    words.filter(|word| !word.is_empty()).collect()
}

fn short_word(kept: &BTreeSet<String>) -> String {
    let mut hash = Sha256::new();
    for uuid in kept {
        hash.update(uuid.as_bytes());
        hash.update([0]);
    }
    let digits = hash.finalize();
    let digits: String = digits.iter().take(8).map(|b| format!("{b:02x}")).collect();
    format!("{}-{digits}", kept.len())
}
