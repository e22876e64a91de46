//! The decision: facts in, one decision out. No I/O, no clock, no randomness.
//!
//! [`crate::protocol`] says what may happen to the object's order and server; the files beside this one say the rest: when
//! and with what an order goes out, what is done with a server that is there, what a deletion waits for, and what is told
//! of all that.

mod ask;
pub mod candidates;
pub mod draft;
pub mod effect;
pub mod expiry;
pub mod explain;
pub mod external;
mod failing;
pub mod fence;
pub mod machine;
pub mod metadata;
pub mod order;
pub mod outputs;
mod policies;
pub mod power;
pub mod reinstall;
pub mod release;
pub mod remedy;
pub mod replace;
pub mod request;
mod room;
pub mod root_password;
pub mod sending;
pub mod sent;
mod stock;
pub mod tags;
mod terms;

#[cfg(test)]
pub(crate) mod tests;

use super::{
    facts::{Facts, account_of, is_same_uuid},
    ownership,
};
use crate::{
    account::view::{Sighting, View},
    account_facts::Purpose,
    again::Again,
    cause::{Cause, fall_back},
    owner::READ_NAMESPACE_AGAIN,
    protocol::{self, Step, Wait, Why},
};
use api::{
    BareMetalServer, Interval, Reason,
    acknowledgement::AcknowledgementEffect::{Adopt, AssumeAbsent, OrderAnother},
    order::OrderAccount,
    server::{OrderOutcome, OrderRecord, PinnedAccount},
};
use draft::Draft;
pub use effect::{Effect, NewOrder};
pub use reinstall::NewInstall;
use std::{sync::Arc, time::Duration};

/// What to do now, what to say, and when to look again.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The next status.
    pub draft: Draft,
    /// At most one effect.
    pub effect: Option<Effect>,
    /// A proof listing that starts at or after this moment is wanted.
    pub wants_proof: Option<Duration>,
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
    let mut decision = by_protocol(facts);
    // What is known of the answer belongs into status, whatever is decided beside it: an outcome that only this process
    // remembers would be unknown to the next.
    if let Some(answer) = unrecorded(facts) {
        let shown = &mut decision.draft.status.records.order;
        if shown
            .as_ref()
            .is_some_and(|shown| is_same_order(shown, &answer))
        {
            *shown = Some(answer);
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
    settle_acknowledgements(facts, &mut decision.draft);
    room::check(facts, &mut decision);
    metadata::keep(facts, &mut decision);
    let looked_at = outputs::keep(facts, &mut decision);
    let password = root_password::keep(facts, &mut decision);
    outputs::check_deleted(facts, &mut decision, &looked_at);
    machine::read_alone(facts, &mut decision);
    ask::handle(facts, &mut decision);
    failing::show(facts, &mut decision);
    machine::tell_missed(facts, &mut decision);
    decision.tell_outage(facts);
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

/// The answer to the order that the object shows as open.
fn unrecorded(facts: &Facts) -> Option<OrderRecord> {
    let shown = facts.order().filter(|order| order.outcome.is_none())?;
    let answer = facts.memory.answer.as_deref()?;
    (is_same_order(shown, answer) && answer != shown).then(|| answer.clone())
}

fn is_same_order(one: &OrderRecord, other: &OrderRecord) -> bool {
    (&one.uid, one.seq, &one.nonce) == (&other.uid, other.seq, &other.nonce)
}

/// Uses up the token of an order that may have made a server, and withdraws what is not asked any more.
fn settle_acknowledgements(facts: &Facts, draft: &mut Draft) {
    if let Some(order) = facts.order()
        && matches!(order.outcome, None | Some(OrderOutcome::Created))
        && let Some(token) = &order.acknowledgement
    {
        draft.use_up_token(facts, token);
    }
    let proof = facts.view().and_then(|view| view.proof.as_ref());
    let is_listed = proof.is_some_and(|proof| proof.began > facts.acting_since);
    let is_adopting = |order: &OrderRecord| order.outcome == Some(OrderOutcome::Adopting);
    let adopts = draft.status.records.order.as_ref().is_some_and(is_adopting);
    let has_server = adopts || facts.own.iter().any(|s| s.server.status.is_live());
    let is_named = facts.object.spec.external_id.is_some();
    let is_over = is_listed && explain::order_another(facts).is_none();
    if is_over || has_server || is_named || facts.deleting() {
        draft.withdraw(OrderAnother);
        draft.withdraw(Adopt);
    }
    let lineage = facts.view().and_then(|view| view.lineage.as_ref());
    let is_here = facts
        .order()
        .is_some_and(|order| Some(&order.account_id) == lineage);
    // One that is over may be replaced, which takes the proof that nothing was ordered since.
    let is_replaced = replace::is_due(facts);
    if is_here && explain::is_shown(facts) && !is_replaced {
        draft.withdraw(AssumeAbsent);
    }
}

/// What the protocol lets happen next, as far as policies and the account let it.
fn by_protocol(facts: &Facts) -> Decision {
    if facts.deleting() && !facts.has_finalizer() {
        return release::without_finalizer(facts);
    }
    // Nothing is under way, and no server is recorded.
    let may_start = !facts.deleting() && facts.has_nothing();
    // What is its own already it takes back, whatever stands against an order.
    let has_own = facts.own.iter().any(|s| s.server.status.is_live());
    if may_start
        && !has_own
        && let Some(wait) = order::against(facts)
    {
        return wait;
    }
    if facts.policies().observe_only()
        && may_start
        && let Some(named) = &facts.named
    {
        return external::show(facts, named);
    }
    let account = match facts.account.usable(Purpose::End) {
        Ok(account) => account,
        Err(cause) => return without_account(facts, cause),
    };
    let Some(owner) = facts.owner() else {
        let why = facts.namespace_uid.as_ref().err();
        let text = format!(
            "Cannot read namespace {}, whose UID identifies its servers: {}; retrying every {}",
            facts.namespace(),
            why.map_or("", String::as_str),
            Interval(READ_NAMESPACE_AGAIN)
        );
        let cause = Cause::waits(Reason::Pending, text);
        return Decision::hold_quietly(facts, cause).again(READ_NAMESPACE_AGAIN);
    };
    let shown = ownership::shown(facts, &owner);
    let Some(view) = ownership::view(facts, account, &shown) else {
        let cause = Cause::waits(
            Reason::Pending,
            "Waiting for the account to be recorded; this goes on once it is",
        );
        return Decision::hold_quietly(facts, cause);
    };
    let step = protocol::decide(&view);
    let mut decision = match facts.deleting() {
        true => release::decide(facts, account, step),
        false => living(facts, account, step),
    };
    // What may be ordered without it needs none any more.
    if matches!(step, Step::Order { .. }) && !view.object.acknowledged.assume_absent {
        decision.draft.withdraw(AssumeAbsent);
    }
    decision
}

/// So long after a moment is past it.
const PAST: Duration = Duration::from_millis(10);

/// Nothing can be asked of the account: what was shown last of a server stays.
fn without_account(facts: &Facts, cause: Cause) -> Decision {
    match facts.order().and_then(|order| order.created()) {
        Some(_) if !facts.deleting() => machine::out_of_touch(facts, Draft::unchanged(facts)),
        _ => release::without_account(facts, cause),
    }
}

/// The next step of a living object.
fn living(facts: &Facts, account: &View, step: Step) -> Decision {
    match step {
        Step::Keep(_)
        | Step::Unretain(_)
        | Step::Wait(Wait {
            why: Why::Ended(_), ..
        }) => match machine::kept(facts) {
            Some(machine) => machine::tend(facts, &machine),
            None => Decision::unchanged(facts).at_once(),
        },
        Step::Order { after, lost, cut } => replace::note_first(facts)
            .unwrap_or_else(|| order::next(facts, account, after, lost, cut)),
        Step::Release(server) => {
            replace::release(facts, account, &ownership::uuid_of(facts, server))
        }
        Step::Wait(Wait {
            why: Why::Releasing,
            ..
        }) => match &facts.recorded {
            Some(recorded) => sending::under_way(facts, account, &recorded.server),
            None => common(facts, account, step),
        },
        // Nothing is looked for before the next order is due.
        Step::Wait(Wait {
            why: Why::WaitingForList,
            ..
        }) => order::paced(facts, account).unwrap_or_else(|| common(facts, account, step)),
        _ => common(facts, account, step),
    }
}

/// The next step of any object.
fn common(facts: &Facts, account: &View, step: Step) -> Decision {
    let unchanged = || Decision::unchanged(facts);
    let adopting = |uuid: &str| {
        let text = format!(
            "Adopting server {uuid}; once its tags are set, it is read again after {}",
            Interval(ownership::times(account).spacing)
        );
        Decision::hold(facts, Cause::waits(Reason::Progressing, text))
    };
    match step {
        Step::Wait(wait) => waiting(facts, account, &wait),
        Step::AddFinalizer => unchanged().with(Effect::AddFinalizer),
        Step::RemoveFinalizer => unchanged().with(Effect::RemoveFinalizer),
        Step::ForgetRelease => {
            let mut decision = unchanged().at_once();
            decision.draft.status.records.release = None;
            decision
        }
        Step::Record(next) => record(facts, account, next),
        Step::Claim(server) => {
            let uuid = ownership::uuid_of(facts, server);
            held(facts, &uuid).unwrap_or_else(|| adopting(&uuid).with(Effect::Claim { uuid }))
        }
        Step::Finish(server) => {
            let uuid = ownership::uuid_of(facts, server);
            held(facts, &uuid).unwrap_or_else(|| adopting(&uuid).with(Effect::Adopt { uuid }))
        }
        Step::Read(server) => {
            let uuid = ownership::uuid_of(facts, server);
            let mut decision = machine::out_of_touch(facts, Draft::unchanged(facts));
            decision.again = Again::After(account.times.absence_check_interval);
            decision.with(Effect::Read { uuid })
        }
        Step::Retain(server) => {
            let uuid = ownership::uuid_of(facts, server);
            unchanged().with(Effect::Retain { uuid })
        }
        // Those of the living and of the deleted are decided there.
        Step::Keep(_) | Step::Unretain(_) | Step::Order { .. } | Step::Release(_) => unchanged(),
    }
}

/// Nothing is sent for the object now, so it does not adopt this server.
fn held(facts: &Facts, uuid: &str) -> Option<Decision> {
    let cause = match facts.deleting() {
        true => remedy::held_at_the_end(facts, uuid),
        false => remedy::held(facts, "nothing is adopted"),
    };
    Some(Decision::hold(facts, cause?))
}

/// The record of the order becomes another one.
fn record(facts: &Facts, account: &View, next: Option<protocol::Order>) -> Decision {
    if let Some(order) = &next
        && let protocol::Outcome::Adopting(server) = order.outcome
        && let Some(held) = held(facts, &ownership::uuid_of(facts, server))
    {
        return held;
    }
    let mut draft = Draft::unchanged(facts);
    if next.is_some_and(|order| matches!(order.outcome, protocol::Outcome::Adopting(_))) {
        draft.use_up(facts, Adopt);
        if !facts.has_own_record() {
            // What was restored with the status of another object is not true of this one.
            draft.forget_machine();
        }
    }
    let is_acknowledged = facts.memory.answer.is_none()
        && next.is_some_and(|order| order.outcome == protocol::Outcome::Absent)
        && facts
            .acknowledgements()
            .is_given(&explain::assume_absent(facts));
    draft.status.records.order = next.map(|next| ownership::record(facts, account, &next));
    if is_acknowledged {
        draft.forget_machine();
        draft.use_up(facts, AssumeAbsent);
    }
    draft
        .status
        .account_ref
        .get_or_insert_with(|| account_of(&facts.object));
    match next {
        Some(next) if next.outcome != protocol::Outcome::Open => recorded(facts, next, draft),
        _ => Decision::of(draft).at_once(),
    }
}

/// The whole status that records this. It says what is so from then on: another write right after it would say no more.
fn recorded(facts: &Facts, next: protocol::Order, mut draft: Draft) -> Decision {
    let mut memory = facts.memory.clone();
    memory.recorded(Some(next), facts.now.mono);
    let mut shown = None;
    if let protocol::Outcome::Created(server) = next.outcome {
        let uuid = ownership::uuid_of(facts, server);
        if draft
            .status
            .uuid
            .as_ref()
            .is_some_and(|shown| !is_same_uuid(shown, &uuid))
        {
            draft.forget_machine();
        }
        draft.status.uuid = Some(uuid);
        let is_it = |s: &&Sighting| ownership::server_id(s.server.id.as_str()) == server;
        shown = ownership::sightings(facts).find(is_it).cloned();
    }
    let mut object = BareMetalServer::clone(&facts.object);
    object.status = Some(draft.status);
    let mut decision = by_protocol(&Facts {
        object: Arc::new(object),
        recorded: shown,
        memory,
        ..facts.clone()
    });
    decision.effect = None;
    decision.once_written = Again::AtOnce;
    decision.at_once()
}

/// The object waits.
fn waiting(facts: &Facts, account: &View, wait: &Wait) -> Decision {
    let said = explain::said(facts, account, wait);
    let mut decision = match wait.why {
        Why::WaitingForList | Why::Settling | Why::Missing(_)
            if !facts.deleting() && facts.order().is_some_and(|o| o.created().is_some()) =>
        {
            machine::out_of_touch(facts, Draft::unchanged(facts))
        }
        Why::WaitingForList if account.last_error.is_none() => Decision::unchanged(facts),
        _ if explain::is_first_step(facts, wait) => Decision::hold_quietly(facts, said.cause),
        _ => Decision::hold(facts, said.cause),
    };
    for asked in &said.asks {
        decision.draft.ask(facts, asked);
    }
    if let Why::TagsMissing(server) | Why::Conflict(server) = wait.why
        && let Some(sighting) = facts.recorded.as_ref()
        && ownership::server_id(sighting.server.id.as_str()) == server
    {
        decision.draft.show(facts, &sighting.server);
    }
    decision.again = Again::After(account.times.idle_poll_interval);
    if let Some(until) = wait.until {
        // Past it, and not at it.
        let rest = until.saturating_sub(facts.now.mono) + PAST;
        decision.again = decision.again.within(rest);
    }
    if let Some(wanted) = wait.list {
        // One that began at the very moment is none: its answer may be of before.
        let from = wanted.after + PAST;
        match wanted.whole {
            true => decision.wants_servers = Some(from),
            false => decision.wants_proof = Some(from),
        }
        // Once the moment is past the account wakes it, as soon as it has a list.
        let rest = from.saturating_sub(facts.now.mono);
        decision.again = match rest.is_zero() {
            true => Again::After(account.times.active_poll_interval),
            false => decision.again.within(rest),
        };
    }
    decision
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

    /// What waits for an account without answers says why. What is there stays as it was.
    fn tell_outage(&mut self, facts: &Facts) {
        let wants = [self.wants_proof, self.wants_catalogue, self.wants_servers];
        let waits = self.effect.is_some() || wants.iter().any(Option::is_some);
        let is_kept = facts.status().uuid.is_some() && !facts.deleting();
        if waits
            && !is_kept
            && self.draft.conditions.is_empty()
            && let Some(cause) = outage(facts)
        {
            self.draft.set(facts, cause, None);
        }
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
        if let Some(cause) = outage(facts) {
            self.draft.set(facts, cause, None);
            policies::show(facts, &mut self.draft);
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
}

/// The account has no answers now.
fn outage(facts: &Facts) -> Option<Cause> {
    let (reason, message) = facts.view()?.outage.clone()?;
    Some(Cause::waits(reason, message))
}

/// Whether what this account shows now says something of what went to that account: the same connection, or a later one of
/// its ID.
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
