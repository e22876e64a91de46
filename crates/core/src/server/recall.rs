//! Brings what this process knows of an object's machines up to the moment of its facts.
//!
//! Pure, so that an effect can do it again right before what cannot be undone, and the model check too.

mod external;

use super::{
    decide::{
        evidence::{Evidence, evidence},
        fence, machine, reinstall,
    },
    facts::{Facts, Former},
    memory::Missing,
};
use crate::{
    account::{
        left_behind::{Left, LeftBehind},
        view::{Sighting, State, View},
    },
    mark::Mark,
};
use api::install::InstallHistory;

/// What is known outside of the object.
pub trait Known {
    /// Every machine that is known to bear this mark, any epoch, any state.
    fn bearing(&self, mark: &Mark) -> Vec<Sighting>;
    /// A machine by its identifier, whatever it bears.
    fn machine(&self, uuid: &str) -> Option<Sighting>;
    /// Every machine that objects of this place left behind, in any account that the namespace may use, any state; with
    /// the accounts that may have more, not being listed yet.
    fn left_behind(&self, of: &Left<'_>) -> LeftBehind;
    /// Whether a living object other than the one with this UID bears the mark; None: that cannot be seen.
    /// `is_of_namespace`: it could only be one of the same namespace.
    fn is_claimed(&self, mark: &Mark, except: &str, is_of_namespace: bool) -> Option<bool>;
    /// Whether the object of this mark has this machine on record, or in its metadata an order of this mark or the note of
    /// the machine's release.
    fn has_settled(&self, mark: &Mark, uuid: &str) -> bool;
    /// Whether an object other than the one with this UID has this machine on record.
    fn is_recorded(&self, uuid: &str, except: &str) -> bool;
}

/// Fills in the machines, and what is remembered from now on: since when an order is searched for, or
/// a former mark seen. None for `known`: there is no account, and what was known of machines stays.
///
/// Changes `facts.memory`, which the caller keeps.
pub fn recall(facts: &mut Facts, known: Option<&impl Known>) {
    let found = evidence(facts);
    let now = facts.now.mono;
    facts.memory.acts_since(facts.acting_since);
    if let Some(attempt) = found.open_attempt() {
        facts.memory.search_for(attempt, now);
    }
    facts.memory.former_seen(found.other_mark(), now);
    let asked = facts.reconcile_request().map(str::to_owned);
    facts.memory.asked.note(asked.as_deref(), now);
    facts.memory.closed_seen(found.closed_attempt(), now);
    let installs = reinstall::of_status(facts);
    let open = installs.as_ref().and_then(InstallHistory::open);
    facts.memory.install.follows(open, now);
    if let Some(connection) = facts.view().and_then(|v| v.connection.clone()) {
        facts.memory.looks_over(&connection);
    }
    match facts.release_due() {
        Some(_) => _ = facts.memory.delayed_since.get_or_insert(now),
        None => facts.memory.delayed_since = None,
    }
    if facts.view().is_some_and(is_blocked) {
        // Meanwhile it may be shown again, and nobody would see it: what was collected before proves nothing after it.
        facts.memory.missing = Missing::default();
    }
    let recorded = facts.object.status.as_ref().map(|s| &*s.records.tags);
    let (named, tags) = (&facts.object.spec.tags, &mut facts.memory.tags);
    tags.forget(now, named, recorded.unwrap_or_default());
    let Some(known) = known else { return };
    facts.recorded = match &found {
        Evidence::Own(attempt) => attempt.uuid.as_deref().and_then(|uuid| known.machine(uuid)),
        _ => None,
    };
    facts.own = known.bearing(&facts.mark());
    if let Some(read) = read_in_between(facts) {
        facts.own.push(read);
    }
    facts.external = external::named(facts, known);
    if let Some(shown) = external::marked(facts) {
        facts.own.push(shown);
    }
    let own = facts.mark();
    facts.own.retain(|s| !found.is_of_earlier(&own, &s.server));
    let over = machine::kept(facts, &found).map(|kept| kept.server);
    let over = over.filter(|server| !server.status.is_live());
    facts.memory.over_seen(over.as_deref(), now);
    if !facts.own.is_empty() {
        // It is shown again: an earlier search for it proves nothing any more.
        facts.memory.missing = Missing::default();
    }
    LeftBehind {
        machines: facts.retained,
        unlisted: facts.unlisted,
    } = left_behind(facts, known);
    facts.memory.unlisted_seen(!facts.unlisted.is_empty(), now);
    facts.former = found.other_mark().map(|mark| Former {
        claimed: known.is_claimed(mark, facts.uid(), false),
        machines: known.bearing(mark),
    });
    external::recall(facts, known);
}

/// The recorded machine, where it bears the object's mark and the search by mark does not show it: the two are asked for
/// one after the other, and it came or went in between.
fn read_in_between(facts: &Facts) -> Option<Sighting> {
    let recorded = facts.recorded.as_ref()?;
    let is_it = |s: &Sighting| s.server.id == recorded.server.id;
    let is_own = fence::bears(&recorded.server, &facts.mark());
    (is_own && !facts.own.iter().any(is_it)).then(|| recorded.clone())
}

/// Whether nobody looks at the machines of the account now.
fn is_blocked(view: &View) -> bool {
    matches!(view.state, State::Blocked(..))
}

/// What earlier objects of this place left behind, live machines alone. Only who has no live one may order one.
fn left_behind(facts: &Facts, known: &impl Known) -> LeftBehind {
    if facts.deleting() || facts.own.iter().any(|s| s.server.status.is_live()) {
        return LeftBehind::default();
    }
    let place = facts.cluster.place_mark(facts.namespace(), facts.name());
    let mut left = known.left_behind(&Left {
        namespace: facts.namespace(),
        place: place.as_str(),
        since: facts.acting_since,
    });
    let machines = &mut left.machines;
    machines.retain(|s| s.server.status.is_live());
    machines.sort_by(|a, b| a.server.id.as_str().cmp(b.server.id.as_str()));
    left
}
