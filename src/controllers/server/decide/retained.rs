//! Machines that earlier objects of the same namespace and name left behind: paid for still, so that an object that is
//! applied again orders none beside them, unless a person names them all.

use super::{super::facts::Facts, Decision, remedy};
use crate::{
    account::view::View,
    controllers::cause::Cause,
    kinds::{
        Interval, Reason,
        wording::{counted, listed},
    },
};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;

/// Up to so many are named one by one in the command; a longer one would be cut off in an event.
const MOST_NAMED: usize = 4;

/// Why nothing is ordered beside them, if anything.
pub fn against_order(facts: &Facts, view: &View) -> Option<Decision> {
    let kept = identifiers(facts);
    if kept.is_empty() || names_all(facts.order_another().unwrap_or_default(), &kept) {
        return None;
    }
    let (namespace, name) = (facts.namespace(), facts.name());
    let are = if kept.len() == 1 { "is" } else { "are" };
    let message = format!(
        "{} of an earlier {namespace}/{name} {are} kept and still billed: {}; nothing is ordered; to order another one all the same: {}; to take a kept one back, apply its saved manifest with the annotation flexmetal.dev/order (docs/gitops.md); or release it at the provider, which is looked at every {}",
        counted(kept.len(), "machine"),
        listed(kept.iter().map(String::as_str)),
        remedy::order_another(facts, &word(&kept)),
        Interval(view.times.idle_poll_interval),
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
    let words = said.split(|c: char| c == ',' || c.is_whitespace());
    let words: BTreeSet<&str> = words.filter(|word| !word.is_empty()).collect();
    kept.iter().all(|uuid| words.contains(uuid.as_str()))
        || words.contains(short_word(kept).as_str())
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
