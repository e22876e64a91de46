//! Machines that earlier objects of the same namespace and name left behind: paid for still, so that an object that is
//! applied again orders none beside them, unless a user acknowledges exactly those.

use super::{super::facts::Facts, Decision, remedy};
use crate::{
    account::view::View,
    acknowledgement::Situation,
    cause::Cause,
    patience::PATIENCE,
    wording::{counted, listed},
};
use api::{Interval, Reason, acknowledgement::AcknowledgementEffect::OrderAnother};

/// The situation in which another machine is ordered: all that are kept, and the accounts that may keep one and could
/// not be listed. None: nothing is in the way.
fn situation(facts: &Facts) -> Option<Situation> {
    let kept = identifiers(facts);
    let mut accounts: Vec<String> = facts.unlisted.iter().map(ToString::to_string).collect();
    accounts.sort_unstable();
    if kept.is_empty() && accounts.is_empty() {
        return None;
    }
    let all = |names: &[String]| listed(names.iter().map(String::as_str));
    let subject = match (kept.is_empty(), accounts.is_empty()) {
        (false, true) => format!("next to {}", all(&kept)),
        (true, _) => format!("without a list of {}", all(&accounts)),
        (false, false) => format!(
            "next to {}, without a list of {}",
            all(&kept),
            all(&accounts)
        ),
    };
    Some(Situation::new(
        OrderAnother,
        kept.into_iter().chain(accounts),
        subject,
    ))
}

/// Whether a user is asked now. What is only not listed for a moment, as after a start, is waited for: what a user gave
/// before that counts again after it.
fn is_asked(facts: &Facts) -> bool {
    let is_long = |since| facts.now.since(since) >= PATIENCE;
    facts.unlisted.is_empty() || facts.memory.unlisted_since.is_some_and(is_long)
}

/// Says in the next status what a user may acknowledge, whatever is decided of an object that may order.
pub fn ask(facts: &Facts, decision: &mut Decision) {
    match situation(facts) {
        None => decision.draft.withdraw(OrderAnother),
        Some(beside) if is_asked(facts) => decision.draft.ask(facts, &beside),
        Some(_) => {}
    }
}

/// What a user has to do, for the end of a message.
fn or_acknowledge(facts: &Facts, what: &str) -> String {
    let asked = situation(facts).filter(|_| is_asked(facts));
    let remedy = asked.map(|beside| facts.acknowledgements().remedy(&beside));
    remedy.map_or_else(String::new, |remedy| format!("; {what}, {remedy}"))
}

fn is_given(facts: &Facts) -> bool {
    let beside = situation(facts);
    beside.is_none_or(|beside| facts.acknowledgements().is_given(&beside))
}

/// The token by which another machine is ordered; None: nothing is in the way, or a user gave none.
pub fn token(facts: &Facts) -> Option<String> {
    let given = facts.acknowledgements();
    given.token(&situation(facts)?).map(str::to_owned)
}

/// Why nothing is ordered beside them, if anything.
pub fn against_order(facts: &Facts, view: &View) -> Option<Decision> {
    let kept = identifiers(facts);
    if kept.is_empty() || is_given(facts) {
        return None;
    }
    let first = kept.first().map(String::as_str).unwrap_or_default();
    let (namespace, name) = (facts.namespace(), facts.name());
    let are = if kept.len() == 1 { "is" } else { "are" };
    let message = format!(
        "{} of an earlier {namespace}/{name} {are} kept and still billed: {}; nothing is ordered; to take one back, {}; if none is wanted, delete this object; once they are released at the provider, looked at every {}, this object orders one{}",
        counted(kept.len(), "machine"),
        listed(kept.iter().map(String::as_str)),
        remedy::set("externalID", first),
        Interval(view.times.idle_poll_interval),
        or_acknowledge(facts, "to pay for another one now"),
    );
    let cause = Cause::needs_person(Reason::ServerExists, message);
    Some(Decision::hold(facts, cause).again(view.times.idle_poll_interval))
}

/// Why nothing is ordered while an account may have kept one that is not shown yet, if there is such an account.
pub fn unlisted(facts: &Facts, view: &View) -> Option<Decision> {
    let first = facts.unlisted.first().filter(|_| !is_given(facts))?;
    let accounts: Vec<String> = facts.unlisted.iter().map(ToString::to_string).collect();
    let message = format!(
        "nothing is ordered: {} may keep a machine of an earlier {}/{}, and no listing of it that can be believed is there yet; looked at every {}; if this stays, look at the conditions of {first}{}",
        listed(accounts.iter().map(String::as_str)),
        facts.namespace(),
        facts.name(),
        Interval(view.times.active_poll_interval),
        or_acknowledge(facts, "to order without knowing it"),
    );
    let cause = Cause::missing(Reason::WaitingForListing, message);
    let mut decision = Decision::hold(facts, cause).again(view.times.active_poll_interval);
    decision.wants_elsewhere = true;
    Some(decision)
}

/// The identifiers of all that are kept, sorted.
fn identifiers(facts: &Facts) -> Vec<String> {
    let kept = facts.retained.iter();
    let mut kept: Vec<String> = kept
        .map(|s| s.server.id.as_str().to_ascii_lowercase())
        .collect();
    kept.sort_unstable();
    kept.dedup();
    kept
}
