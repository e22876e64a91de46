//! The decision: facts in, one decision out. No I/O, no clock, no randomness.
//!
//! An object with a machine is tended; one without is searched for when an order of it may have
//! arrived, and ordered when it is certain that none has. A deleted object is released. Each of
//! these is a file beside this one; the checks that effects repeat on fresh data are in [`fence`].

pub mod absent;
pub mod adopt;
mod ask;
pub mod candidates;
pub mod draft;
pub mod effect;
pub mod evidence;
pub mod expiry;
pub mod external;
mod failing;
pub mod fence;
pub mod intent;
pub mod machine;
pub mod metadata;
pub mod missing;
pub mod order;
pub mod outputs;
mod own_marks;
mod policies;
pub mod power;
pub mod reinstall;
pub mod release;
pub mod remedy;
pub mod replace;
pub mod request;
pub mod resolve;
mod retained;
pub mod rivals;
mod room;
pub mod root_password;
pub mod sending;
pub mod sent;
mod stock;
pub mod tags;
mod terms;

#[cfg(test)]
pub(crate) mod tests;

use super::facts::{Facts, account_of};
use crate::{
    account::{marks, view::View},
    account_facts::AccountFacts,
    again::Again,
    cause::{Cause, fall_back},
};
use api::{
    Reason,
    account::KnownServer,
    acknowledgement::AcknowledgementEffect::AssumeAbsent,
    names::ORDER_ANNOTATION,
    order::OrderAccount,
    references::AccountKind,
    server::{OrderOutcome, PinnedAccount},
};
use draft::Draft;
pub use effect::{Effect, LookUp, NewOrder};
use evidence::{Evidence, evidence};
pub use reinstall::NewInstall;
use std::time::Duration;

/// What to do now, what to say, and when to look again.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The next status.
    pub draft: Draft,
    /// At most one effect.
    pub effect: Option<Effect>,
    /// A proof listing that starts at or after this moment is wanted.
    pub wants_proof: Option<Duration>,
    /// Listings of the other accounts that may keep a machine of this place are wanted.
    pub wants_elsewhere: bool,
    /// A look at the catalogue not older than this moment is wanted.
    pub wants_catalogue: Option<Duration>,
    /// A list of every machine of the account, whatever it bears, that starts at or after this moment
    /// is wanted.
    pub wants_servers: Option<Duration>,
    /// What a machine is installed with is needed by the next pass.
    pub wants_installation: bool,
    /// When to look again if nothing wakes the object before.
    pub again: Again,
    /// The same, once the status was written.
    pub once_written: Again,
}

impl Decision {
    /// Looks again after this time at the latest.
    fn look_within(&mut self, rest: Duration) {
        if self.again != Again::AtOnce {
            self.again = self.again.within(rest);
        }
    }
}

/// How long an object that needs nothing sleeps. The account wakes it when its machine changes.
const IDLE: Duration = Duration::from_secs(600);

/// Decides what to do for one server object.
pub fn decide(facts: &Facts) -> Decision {
    let evidence = evidence(facts);
    let mut decision = by_evidence(facts, &evidence);
    // What is known of an own order belongs into status, whatever is decided beside it: an outcome
    // that only this process remembers would be unknown to the next.
    let shown = facts
        .object
        .status
        .as_ref()
        .and_then(|s| s.records.order.as_ref());
    if let Evidence::Own(attempt) = &evidence
        && decision.draft.status.records.order.as_ref() == shown
        && (shown.is_some() || facts.memory.order.is_some() || may_be_open_here(facts))
    {
        decision.draft.status.records.order = Some(attempt.record.clone());
        // And which machine it was: the account may show none now.
        let uuid = &mut decision.draft.status.uuid;
        let is_replaced = matches!(decision.effect, Some(Effect::Order(_)));
        let is_created = attempt.record.outcome == Some(OrderOutcome::Created);
        if is_created && uuid.is_none() && !is_replaced {
            uuid.clone_from(&attempt.uuid);
        }
    }
    // A re-installation's record belongs into status, too.
    let install = &mut decision.draft.status.records.install;
    let shown = facts
        .object
        .status
        .as_ref()
        .and_then(|s| s.records.install.as_ref());
    if install.as_ref() == shown
        && let Some(known) = reinstall::of_status(facts)
    {
        *install = Some(known);
    }
    settle_acknowledgements(facts, &evidence, &mut decision.draft);
    room::check(facts, &mut decision);
    metadata::keep(facts, &evidence, &mut decision);
    let looked_at = outputs::keep(facts, &mut decision);
    let password = root_password::keep(facts, &mut decision);
    outputs::check_deleted(facts, &mut decision, &looked_at);
    ask::handle(facts, &mut decision);
    failing::show(facts, &mut decision);
    machine::tell_missed(facts, &mut decision);
    decision.tell_new(facts);
    policies::show(facts, &mut decision.draft);
    if !decision.draft.is_silent() {
        decision.draft.show_spec(&facts.object.spec);
    }
    decision.draft.conditions.extend(password);
    let draft = &mut decision.draft;
    fall_back(&mut draft.conditions, &draft.status.conditions);
    if let Some(rest) = decision.draft.patience {
        decision.again = decision.again.within(rest);
    }
    decision
}

/// Uses up the token of an order that may have made a server, and withdraws what is asked of a server that is shown.
fn settle_acknowledgements(facts: &Facts, evidence: &Evidence, draft: &mut Draft) {
    if let Evidence::Own(attempt) = evidence
        && attempt.may_have_made_one()
        && let Some(token) = &attempt.record.acknowledgement
    {
        draft.use_up_token(facts, token);
    }
    let is_recorded = evidence.outcome() == Some(OrderOutcome::Created);
    let is_shown = !facts.own.is_empty() || (is_recorded && facts.recorded.is_some());
    if is_shown || !evidence.may_be_absent() {
        draft.withdraw(AssumeAbsent);
    }
}

/// Whether an order that only the annotation tells of may be written into status. What stands there is on record at
/// the account, and a namespace that an account of the cluster does not serve must not put anything on record there:
/// anybody may write an annotation.
fn may_be_open_here(facts: &Facts) -> bool {
    match &facts.account {
        AccountFacts::Found { .. } => true,
        AccountFacts::Closed { .. } => false,
        AccountFacts::Missing(_) | AccountFacts::NotServed(_) => {
            account_of(&facts.object).kind == AccountKind::ProviderAccount
        }
    }
}

fn by_evidence(facts: &Facts, evidence: &Evidence) -> Decision {
    if facts.deleting() {
        return release::release(facts, evidence);
    }
    if let Some(machine) = machine::kept(facts, evidence) {
        return machine::tend(facts, evidence, &machine);
    }
    if let Some(external) = facts
        .external
        .as_ref()
        .filter(|_| external::counts(facts, evidence))
    {
        return external::decide(facts, evidence, external);
    }
    match evidence {
        Evidence::Own(attempt) if attempt.is_to_be_found() => resolve::resolve(facts, evidence),
        Evidence::Own(attempt) => match attempt.record.outcome {
            Some(OrderOutcome::Created) => missing::look(facts, attempt),
            _ => order::next(facts, evidence),
        },
        Evidence::Bare => resolve::resolve(facts, evidence),
        Evidence::None => order::next(facts, evidence),
        Evidence::Former(intent, mark) => adopt::former(facts, evidence, intent, mark),
        Evidence::Stranger(intent, mark) => adopt::stranger(facts, evidence, intent, mark),
        Evidence::Foreign(intent) => {
            let cluster = &intent.cluster;
            let why = absent::NoProof::OfCluster(cluster.clone());
            absent::unless_given(facts, evidence, &why, |remedy| {
                let text = format!(
                    "the order on record was written by cluster {cluster}, and its machine may be in use there; if this object shall order a machine of its own all the same, {remedy}"
                );
                Cause::needs_person(Reason::OwnershipConflict, text)
            })
        }
        Evidence::Garbled(text) => Decision::hold(
            facts,
            Cause::needs_person(
                Reason::OwnershipConflict,
                format!(
                    "the annotation {ORDER_ANNOTATION} cannot be read ({text:?}); restore it, or remove it if this object has no machine",
                ),
            ),
        ),
    }
}

impl Decision {
    /// Wait, and say why; what is known of the machine stays as it was.
    pub fn hold(facts: &Facts, cause: Cause) -> Self {
        Self::of(Draft::holding(facts, cause)).again(IDLE)
    }

    /// Wait, and of a new object say so only after a while: its first steps are not worth a write.
    pub fn hold_quietly(facts: &Facts, cause: Cause) -> Self {
        if facts.is_new() && facts.until_told().is_some() {
            return Self::unchanged(facts);
        }
        Self::hold(facts, cause)
    }

    /// An effect after a pause. It goes before what waits after failures, which may fail for ever; all else goes before it.
    fn due_after(&mut self, facts: &Facts, pause: Duration, effect: Effect) {
        if !pause.is_zero() {
            return self.look_within(pause.min(IDLE));
        }
        if let Some(other) = &self.effect {
            let Some(rest) = facts.memory.holds_back(other, facts.now.mono) else {
                return;
            };
            self.look_within(rest.min(IDLE));
        }
        self.effect = Some(effect);
    }

    /// A new object of which nothing else is to be said waits for its turn, and says so in time.
    fn tell_new(&mut self, facts: &Facts) {
        if !self.draft.is_silent() || facts.deleting() || !facts.is_new() {
            return;
        }
        match facts.until_told() {
            Some(rest) => self.draft.patience = Some(rest),
            None => self.draft.set(facts, Cause::queued(), None),
        }
    }

    /// The account has no turn for the effect yet. Returns how long nothing is said of that.
    pub fn queued(&mut self, facts: &Facts) -> Option<Duration> {
        let is_order = matches!(self.effect, Some(Effect::Order(_)));
        if !facts.is_new() && !is_order {
            return None;
        }
        let is_silent = facts.status().conditions.is_empty();
        if let Some(rest) = facts.until_told().filter(|_| is_silent) {
            return Some(rest);
        }
        self.draft.set(facts, Cause::queued(), None);
        policies::show(facts, &mut self.draft);
        None
    }

    /// Keep the status as it is.
    pub fn unchanged(facts: &Facts) -> Self {
        Self::of(Draft::unchanged(facts)).again(IDLE)
    }

    /// Say this and do nothing.
    pub fn of(draft: Draft) -> Self {
        Self {
            draft,
            effect: None,
            wants_proof: None,
            wants_elsewhere: false,
            wants_catalogue: None,
            wants_servers: None,
            wants_installation: false,
            again: Again::After(IDLE),
            once_written: Again::After(IDLE),
        }
    }

    /// With an effect.
    #[must_use]
    pub fn with(mut self, effect: Effect) -> Self {
        self.effect = Some(effect);
        self
    }

    /// Look again after this time.
    #[must_use]
    pub fn again(mut self, after: Duration) -> Self {
        self.again = Again::After(after);
        self
    }

    /// Look again at once.
    #[must_use]
    pub fn at_once(mut self) -> Self {
        self.again = Again::AtOnce;
        self
    }

    /// With the wish for a proof listing that starts at or after this moment.
    #[must_use]
    pub fn proof(mut self, not_before: Duration) -> Self {
        self.wants_proof = Some(not_before);
        self
    }
}

/// Whether what this account shows now can prove that an order or a machine of that account is not there: it is
/// the connection that the order went over, or a later one of its lineage.
fn leads_to(view: &View, ordered: Option<&OrderAccount>) -> bool {
    ordered.is_some_and(|ordered| {
        view.connection.as_ref() == Some(&ordered.connection)
            || view.lineage.as_ref() == Some(&ordered.lineage)
    })
}

/// The account as an order that goes out now names it; None while its lineage is not on record.
fn order_account(facts: &Facts) -> Option<OrderAccount> {
    let view = facts.view()?;
    let PinnedAccount { kind, name } = account_of(&facts.object);
    Some(OrderAccount {
        kind,
        name,
        uid: view.uid.clone(),
        lineage: view.lineage.clone()?,
        connection: view.connection.clone()?,
    })
}

/// The machine that shows that a listing tells the truth: one that we know, and that the listing shows.
///
/// With the tag that it bears in that listing, which a take-over may have changed. The tag of a live
/// machine is in use; that of a released one may be gone from the account, and one without a tag shows
/// nothing of tags: so these come last.
fn control(view: &View) -> Option<KnownServer> {
    let proof = view.proof.as_ref()?;
    let shown = view.known.iter().filter_map(|known| {
        let server = proof.servers.iter().find(|s| s.id.as_str() == known.uuid)?;
        let tag = marks::order_tag(server);
        let control = KnownServer {
            uuid: known.uuid.clone(),
            order_tag: tag.unwrap_or(&known.order_tag).to_owned(),
            live: server.status.is_live(),
        };
        let worth = (tag.is_some(), server.status.is_live());
        Some((std::cmp::Reverse(worth), control))
    });
    shown
        .min_by_key(|(worth, _)| *worth)
        .map(|(_, control)| control)
}
