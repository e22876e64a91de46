//! The decision: facts in, one decision out. No I/O, no clock, no randomness.
//!
//! [`crate::protocol`] says what may happen to the object's order and server; the files beside this one say the rest: when
//! and with what an order goes out, what is done with a server that is there, what a deletion waits for, and what is told
//! of all that.

pub mod delete_request;
pub mod desired_status;
pub mod effect;
pub mod existing;
pub mod expiry;
pub mod explain;
pub mod external;
pub mod finalizer;
pub mod order;
pub mod outputs;
pub mod placement_candidates;
mod policies;
pub mod power;
pub mod precondition;
mod reconcile_request;
pub mod reinstall;
pub mod release;
pub mod remedy;
mod repeated_failure;
pub mod replace;
pub mod request;
pub mod root_password;
pub mod sent_hashes;
mod size_limits;
mod stock;
pub mod tags;
mod terms;

#[cfg(test)]
pub(crate) mod tests;

use super::{
    facts::{ServerFacts, account_of, is_same_uuid},
    ownership,
};
use crate::{
    account::view::{AccountView, SeenServer},
    explanation::{Explanation, fall_back},
    owner::READ_NAMESPACE_AGAIN,
    protocol::{self, ProtocolStep, Wait, Why},
    requeue::Requeue,
    resolved_account::Purpose,
};
use api::{
    BareMetalServer, Interval, Reason,
    acknowledgement::AcknowledgementEffect::{Adopt, AssumeAbsent, OrderAnother},
    order::OrderAccount,
    server::{OrderOutcome, OrderRecord, PinnedAccount},
};
use desired_status::DesiredStatus;
pub use effect::{NewOrder, ServerEffect};
pub use reinstall::NewReinstall;
use std::{sync::Arc, time::Duration};

/// What to do now, what to say, and when to look again.
#[derive(Clone, Debug)]
pub struct ServerDecision {
    /// The next status.
    pub desired: DesiredStatus,
    /// At most one effect.
    pub effect: Option<ServerEffect>,
    /// A proof listing that starts at or after this moment is wanted.
    pub wants_complete_list: Option<Duration>,
    /// A look at the catalogue not older than this moment is wanted.
    pub wants_catalogue: Option<Duration>,
    /// A list of every machine of the account, whatever it bears, that starts at or after this moment
    /// is wanted.
    pub wants_servers: Option<Duration>,
    /// What a machine is installed with is needed by the next pass.
    pub wants_installation: bool,
    /// When to look again if nothing wakes the object before.
    pub requeue: Requeue,
    /// The same, once the status was written.
    pub requeue_once_written: Requeue,
}

impl ServerDecision {
    /// Looks again after this time at the latest.
    fn requeue_within(&mut self, rest: Duration) {
        if self.requeue != Requeue::Now {
            self.requeue = self.requeue.within(rest);
        }
    }
}

/// How long an object that needs nothing sleeps. The account wakes it when its machine changes.
const IDLE: Duration = Duration::from_secs(600);

/// Decides what to do for one server object.
pub fn decide(facts: &ServerFacts) -> ServerDecision {
    let mut decision = decide_by_protocol(facts);
    // What is known of the answer belongs into status, whatever is decided beside it: an outcome that only this process
    // remembers would be unknown to the next.
    if let Some(answer) = find_unrecorded_answer(facts) {
        let shown = &mut decision.desired.status.records.order;
        if shown
            .as_ref()
            .is_some_and(|shown| is_same_order(shown, &answer))
        {
            *shown = Some(answer);
        }
    }
    // A re-installation's record belongs into status, too.
    let install = &mut decision.desired.status.records.install;
    let shown = facts
        .object
        .status
        .as_ref()
        .and_then(|s| s.records.install.as_ref());
    if install.as_ref() == shown
        && let Some(known) = reinstall::find_history_of_status(facts)
    {
        *install = Some(known);
    }
    settle_acknowledgements(facts, &mut decision.desired);
    size_limits::block_full_server(facts, &mut decision);
    finalizer::restore_finalizer(facts, &mut decision);
    let looked_at = outputs::reconcile_outputs(facts, &mut decision);
    let password = root_password::reconcile_password(facts, &mut decision);
    outputs::check_deleted(facts, &mut decision, &looked_at);
    existing::read_unlisted_server(facts, &mut decision);
    reconcile_request::handle_reconcile_request(facts, &mut decision);
    repeated_failure::report_repeated_failure(facts, &mut decision);
    existing::report_missing_server(facts, &mut decision);
    decision.report_outage(facts);
    decision.report_new_object(facts);
    policies::show_policies(facts, &mut decision.desired);
    if !decision.desired.is_silent() {
        decision.desired.show_spec(&facts.object.spec);
    }
    decision.desired.conditions.extend(password);
    let draft = &mut decision.desired;
    fall_back(&mut draft.conditions, &draft.status.conditions);
    if let Some(rest) = decision.desired.grace_left {
        decision.requeue = decision.requeue.within(rest);
    }
    decision
}

/// The answer to the order that the object shows as open.
fn find_unrecorded_answer(facts: &ServerFacts) -> Option<OrderRecord> {
    let shown = facts.order().filter(|order| order.outcome.is_none())?;
    let answer = facts.memory.answer.as_deref()?;
    (is_same_order(shown, answer) && answer != shown).then(|| answer.clone())
}

fn is_same_order(one: &OrderRecord, other: &OrderRecord) -> bool {
    (&one.uid, one.seq, &one.nonce) == (&other.uid, other.seq, &other.nonce)
}

/// Uses up the token of an order that may have made a server, and withdraws what is not asked any more.
fn settle_acknowledgements(facts: &ServerFacts, draft: &mut DesiredStatus) {
    if let Some(order) = facts.order()
        && matches!(order.outcome, None | Some(OrderOutcome::Created))
        && let Some(token) = &order.acknowledgement
    {
        draft.use_up_token(facts, token);
    }
    let proof = facts.view().and_then(|view| view.complete_list.as_ref());
    let is_listed = proof.is_some_and(|proof| proof.began > facts.leader_since);
    let is_adopting = |order: &OrderRecord| order.outcome == Some(OrderOutcome::Adopting);
    let adopts = draft.status.records.order.as_ref().is_some_and(is_adopting);
    let has_server = adopts || facts.own.iter().any(|s| s.server.status.is_live());
    let is_named = facts.object.spec.external_id.is_some();
    let is_over = is_listed && explain::order_another_situation(facts).is_none();
    if is_over || has_server || is_named || facts.deleting() {
        draft.withdraw(OrderAnother);
        draft.withdraw(Adopt);
    }
    let lineage = facts.view().and_then(|view| view.account_id.as_ref());
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
fn decide_by_protocol(facts: &ServerFacts) -> ServerDecision {
    if facts.deleting() && !facts.has_finalizer() {
        return release::decide_without_finalizer(facts);
    }
    // Nothing is under way, and no server is recorded.
    let may_start = !facts.deleting() && facts.has_no_order_or_server();
    // What is its own already it takes back, whatever stands against an order.
    let has_own = facts.own.iter().any(|s| s.server.status.is_live());
    if may_start
        && !has_own
        && let Some(wait) = order::block_order(facts)
    {
        return wait;
    }
    if facts.policies().observe_only()
        && may_start
        && let Some(named) = &facts.external
    {
        return external::show_external_server(facts, named);
    }
    let account = match facts.account.usable(Purpose::End) {
        Ok(account) => account,
        Err(cause) => return decide_without_account(facts, cause),
    };
    let Some(owner) = facts.owner() else {
        let why = facts.namespace_uid.as_ref().err();
        let text = format!(
            "Cannot read namespace {}, whose UID identifies its servers: {}; retrying every {}",
            facts.namespace(),
            why.map_or("", String::as_str),
            Interval(READ_NAMESPACE_AGAIN)
        );
        let cause = Explanation::waits(Reason::Pending, text);
        return ServerDecision::wait_quietly(facts, cause).requeue_after(READ_NAMESPACE_AGAIN);
    };
    let shown = ownership::collect_servers(facts, &owner);
    let Some(view) = ownership::to_protocol_view(facts, account, &shown) else {
        let cause = Explanation::waits(
            Reason::Pending,
            "Waiting for the account to be recorded; this goes on once it is",
        );
        return ServerDecision::wait_quietly(facts, cause);
    };
    let step = protocol::decide(&view);
    let mut decision = match facts.deleting() {
        true => release::decide_deleted(facts, account, step),
        false => decide_living(facts, account, step),
    };
    // What may be ordered without it needs none any more.
    if matches!(step, ProtocolStep::Order { .. }) && !view.object.acknowledged.assume_absent {
        decision.desired.withdraw(AssumeAbsent);
    }
    decision
}

/// So long after a moment is past it.
const PAST: Duration = Duration::from_millis(10);

/// Nothing can be asked of the account: what was shown last of a server stays.
fn decide_without_account(facts: &ServerFacts, cause: Explanation) -> ServerDecision {
    match facts.order().and_then(|order| order.created()) {
        Some(_) if !facts.deleting() => {
            existing::out_of_touch(facts, DesiredStatus::unchanged(facts))
        }
        _ => release::decide_without_account(facts, cause),
    }
}

/// The next step of a living object.
fn decide_living(facts: &ServerFacts, account: &AccountView, step: ProtocolStep) -> ServerDecision {
    match step {
        ProtocolStep::Keep(_)
        | ProtocolStep::Unretain(_)
        | ProtocolStep::Wait(Wait {
            why: Why::Ended(_), ..
        }) => match existing::find_existing(facts) {
            Some(machine) => existing::reconcile_existing(facts, &machine),
            None => ServerDecision::unchanged(facts).requeue_now(),
        },
        ProtocolStep::Order { after, lost, cut } => replace::record_replaced_first(facts)
            .unwrap_or_else(|| order::decide_next_order(facts, account, after, lost, cut)),
        ProtocolStep::Release(server) => {
            replace::release_failed_server(facts, account, &ownership::uuid_of(facts, server))
        }
        ProtocolStep::Wait(Wait {
            why: Why::Releasing,
            ..
        }) => match &facts.recorded {
            Some(recorded) => delete_request::wait_for_release(facts, account, &recorded.server),
            None => decide_any(facts, account, step),
        },
        // Nothing is looked for before the next order is due.
        ProtocolStep::Wait(Wait {
            why: Why::WaitingForList,
            ..
        }) => order::wait_between_orders(facts, account)
            .unwrap_or_else(|| decide_any(facts, account, step)),
        _ => decide_any(facts, account, step),
    }
}

/// The next step of any object.
fn decide_any(facts: &ServerFacts, account: &AccountView, step: ProtocolStep) -> ServerDecision {
    let unchanged = || ServerDecision::unchanged(facts);
    let adopting = |uuid: &str| {
        let text = format!(
            "Adopting server {uuid}; once its tags are set, it is read again after {}",
            Interval(ownership::times(account).spacing)
        );
        ServerDecision::wait_with_reason(facts, Explanation::waits(Reason::Progressing, text))
    };
    match step {
        ProtocolStep::Wait(wait) => decide_wait(facts, account, &wait),
        ProtocolStep::AddFinalizer => unchanged().with_effect(ServerEffect::AddFinalizer),
        ProtocolStep::RemoveFinalizer => unchanged().with_effect(ServerEffect::RemoveFinalizer),
        ProtocolStep::ForgetRelease => {
            let mut decision = unchanged().requeue_now();
            decision.desired.status.records.release = None;
            decision
        }
        ProtocolStep::Record(next) => record_order(facts, account, next),
        ProtocolStep::Claim(server) => {
            let uuid = ownership::uuid_of(facts, server);
            block_adoption(facts, &uuid)
                .unwrap_or_else(|| adopting(&uuid).with_effect(ServerEffect::Claim { uuid }))
        }
        ProtocolStep::Finish(server) => {
            let uuid = ownership::uuid_of(facts, server);
            block_adoption(facts, &uuid)
                .unwrap_or_else(|| adopting(&uuid).with_effect(ServerEffect::Adopt { uuid }))
        }
        ProtocolStep::Read(server) => {
            let uuid = ownership::uuid_of(facts, server);
            let mut decision = existing::out_of_touch(facts, DesiredStatus::unchanged(facts));
            decision.requeue = Requeue::After(account.times.absence_check_interval);
            decision.with_effect(ServerEffect::Read { uuid })
        }
        ProtocolStep::Retain(server) => {
            let uuid = ownership::uuid_of(facts, server);
            unchanged().with_effect(ServerEffect::Retain { uuid })
        }
        // Those of the living and of the deleted are decided there.
        ProtocolStep::Keep(_)
        | ProtocolStep::Unretain(_)
        | ProtocolStep::Order { .. }
        | ProtocolStep::Release(_) => unchanged(),
    }
}

/// Nothing is sent for the object now, so it does not adopt this server.
fn block_adoption(facts: &ServerFacts, uuid: &str) -> Option<ServerDecision> {
    let cause = match facts.deleting() {
        true => remedy::explain_blocked_deletion(facts, uuid),
        false => remedy::explain_blocked(facts, "nothing is adopted"),
    };
    Some(ServerDecision::wait_with_reason(facts, cause?))
}

/// The record of the order becomes another one.
fn record_order(
    facts: &ServerFacts,
    account: &AccountView,
    next: Option<protocol::ProtocolOrder>,
) -> ServerDecision {
    if let Some(order) = &next
        && let protocol::ProtocolOutcome::Adopting(server) = order.outcome
        && let Some(held) = block_adoption(facts, &ownership::uuid_of(facts, server))
    {
        return held;
    }
    let mut draft = DesiredStatus::unchanged(facts);
    if next.is_some_and(|order| matches!(order.outcome, protocol::ProtocolOutcome::Adopting(_))) {
        draft.use_up(facts, Adopt);
        if !facts.has_own_record() {
            // What was restored with the status of another object is not true of this one.
            draft.forget_server();
        }
    }
    let is_acknowledged = facts.memory.answer.is_none()
        && next.is_some_and(|order| order.outcome == protocol::ProtocolOutcome::Absent)
        && facts
            .acknowledgements()
            .is_given(&explain::assume_absent_situation(facts));
    draft.status.records.order = next.map(|next| ownership::to_order_record(facts, account, &next));
    if is_acknowledged {
        draft.forget_server();
        draft.use_up(facts, AssumeAbsent);
    }
    draft
        .status
        .account_ref
        .get_or_insert_with(|| account_of(&facts.object));
    match next {
        Some(next) if next.outcome != protocol::ProtocolOutcome::Open => {
            decide_after_record(facts, next, draft)
        }
        _ => ServerDecision::from_status(draft).requeue_now(),
    }
}

/// The whole status that records this. It says what is so from then on: another write right after it would say no more.
fn decide_after_record(
    facts: &ServerFacts,
    next: protocol::ProtocolOrder,
    mut draft: DesiredStatus,
) -> ServerDecision {
    let mut memory = facts.memory.clone();
    memory.record_written_order(Some(next), facts.now.mono);
    let mut shown = None;
    if let protocol::ProtocolOutcome::Created(server) = next.outcome {
        let uuid = ownership::uuid_of(facts, server);
        if draft
            .status
            .uuid
            .as_ref()
            .is_some_and(|shown| !is_same_uuid(shown, &uuid))
        {
            draft.forget_server();
        }
        draft.status.uuid = Some(uuid);
        let is_it = |s: &&SeenServer| ownership::server_id(s.server.id.as_str()) == server;
        shown = ownership::list_seen_servers(facts).find(is_it).cloned();
    }
    let mut object = BareMetalServer::clone(&facts.object);
    object.status = Some(draft.status);
    let mut decision = decide_by_protocol(&ServerFacts {
        object: Arc::new(object),
        recorded: shown,
        memory,
        ..facts.clone()
    });
    decision.effect = None;
    decision.requeue_once_written = Requeue::Now;
    decision.requeue_now()
}

/// The object waits.
fn decide_wait(facts: &ServerFacts, account: &AccountView, wait: &Wait) -> ServerDecision {
    let said = explain::explain_wait(facts, account, wait);
    let mut decision = match wait.why {
        Why::WaitingForList | Why::Settling | Why::Missing(_)
            if !facts.deleting() && facts.order().is_some_and(|o| o.created().is_some()) =>
        {
            existing::out_of_touch(facts, DesiredStatus::unchanged(facts))
        }
        Why::WaitingForList if account.last_error.is_none() => ServerDecision::unchanged(facts),
        _ if explain::is_first_step(facts, wait) => {
            ServerDecision::wait_quietly(facts, said.explanation)
        }
        _ => ServerDecision::wait_with_reason(facts, said.explanation),
    };
    for asked in &said.situations {
        decision.desired.request_acknowledgement(facts, asked);
    }
    if let Why::TagsMissing(server) | Why::Conflict(server) = wait.why
        && let Some(sighting) = facts.recorded.as_ref()
        && ownership::server_id(sighting.server.id.as_str()) == server
    {
        decision.desired.show_server(facts, &sighting.server);
    }
    decision.requeue = Requeue::After(account.times.idle_poll_interval);
    if let Some(until) = wait.until {
        // Past it, and not at it.
        let rest = until.saturating_sub(facts.now.mono) + PAST;
        decision.requeue = decision.requeue.within(rest);
    }
    if let Some(wanted) = wait.list {
        // One that began at the very moment is none: its answer may be of before.
        let from = wanted.after + PAST;
        match wanted.whole {
            true => decision.wants_servers = Some(from),
            false => decision.wants_complete_list = Some(from),
        }
        // Once the moment is past the account wakes it, as soon as it has a list.
        let rest = from.saturating_sub(facts.now.mono);
        decision.requeue = match rest.is_zero() {
            true => Requeue::After(account.times.active_poll_interval),
            false => decision.requeue.within(rest),
        };
    }
    decision
}

impl ServerDecision {
    /// Wait, and say why; what is known of the machine stays as it was.
    pub fn wait_with_reason(facts: &ServerFacts, cause: Explanation) -> Self {
        Self::from_status(DesiredStatus::waiting(facts, cause)).requeue_after(IDLE)
    }

    /// Wait, and of a new object say so only after a while: its first steps are not worth a write.
    pub fn wait_quietly(facts: &ServerFacts, cause: Explanation) -> Self {
        if facts.is_new() && facts.time_until_report().is_some() {
            return Self::unchanged(facts);
        }
        Self::wait_with_reason(facts, cause)
    }

    /// An effect after a pause. It goes before what waits after failures, which may fail for ever; all else goes before it.
    fn schedule_effect(&mut self, facts: &ServerFacts, pause: Duration, effect: ServerEffect) {
        if !pause.is_zero() {
            return self.requeue_within(pause.min(IDLE));
        }
        if let Some(other) = &self.effect {
            let Some(rest) = facts.memory.remaining_backoff(other, facts.now.mono) else {
                return;
            };
            self.requeue_within(rest.min(IDLE));
        }
        self.effect = Some(effect);
    }

    /// What waits for an account without answers says why. What is there stays as it was.
    fn report_outage(&mut self, facts: &ServerFacts) {
        let wants = [
            self.wants_complete_list,
            self.wants_catalogue,
            self.wants_servers,
        ];
        let waits = self.effect.is_some() || wants.iter().any(Option::is_some);
        let is_kept = facts.status().uuid.is_some() && !facts.deleting();
        if waits
            && !is_kept
            && self.desired.conditions.is_empty()
            && let Some(cause) = explain_outage(facts)
        {
            self.desired.set(facts, cause, None);
        }
    }

    /// A new object of which nothing else is to be said waits for its turn, and says so in time.
    fn report_new_object(&mut self, facts: &ServerFacts) {
        if !self.desired.is_silent() || facts.deleting() || !facts.is_new() {
            return;
        }
        match facts.time_until_report() {
            Some(rest) => self.desired.grace_left = Some(rest),
            None => self.desired.set(facts, Explanation::queued(), None),
        }
    }

    /// The account has no turn for the effect yet. Returns how long nothing is said of that.
    pub fn report_queued(&mut self, facts: &ServerFacts) -> Option<Duration> {
        let is_order = matches!(self.effect, Some(ServerEffect::Order(_)));
        if !facts.is_new() && !is_order {
            return None;
        }
        if let Some(cause) = explain_outage(facts) {
            self.desired.set(facts, cause, None);
            policies::show_policies(facts, &mut self.desired);
            return None;
        }
        let is_silent = facts.status().conditions.is_empty();
        if let Some(rest) = facts.time_until_report().filter(|_| is_silent) {
            return Some(rest);
        }
        self.desired.set(facts, Explanation::queued(), None);
        policies::show_policies(facts, &mut self.desired);
        None
    }

    /// Keep the status as it is.
    pub fn unchanged(facts: &ServerFacts) -> Self {
        Self::from_status(DesiredStatus::unchanged(facts)).requeue_after(IDLE)
    }

    /// Say this and do nothing.
    pub fn from_status(draft: DesiredStatus) -> Self {
        Self {
            desired: draft,
            effect: None,
            wants_complete_list: None,
            wants_catalogue: None,
            wants_servers: None,
            wants_installation: false,
            requeue: Requeue::After(IDLE),
            requeue_once_written: Requeue::After(IDLE),
        }
    }

    /// With an effect.
    #[must_use]
    pub fn with_effect(mut self, effect: ServerEffect) -> Self {
        self.effect = Some(effect);
        self
    }

    /// Look again after this time.
    #[must_use]
    pub fn requeue_after(mut self, after: Duration) -> Self {
        self.requeue = Requeue::After(after);
        self
    }

    /// Look again at once.
    #[must_use]
    pub fn requeue_now(mut self) -> Self {
        self.requeue = Requeue::Now;
        self
    }
}

/// The account has no answers now.
fn explain_outage(facts: &ServerFacts) -> Option<Explanation> {
    let (reason, message) = facts.view()?.outage.clone()?;
    Some(Explanation::waits(reason, message))
}

/// Whether what this account shows now says something of what went to that account: the same connection, or a later one of
/// its ID.
fn is_same_account(view: &AccountView, ordered: Option<&OrderAccount>) -> bool {
    ordered.is_some_and(|ordered| {
        view.connection.as_ref() == Some(&ordered.credentials_hash)
            || view.account_id.as_ref() == Some(&ordered.account_id)
    })
}

/// The account as an order that goes out now names it; None while its lineage is not on record.
fn order_account(facts: &ServerFacts) -> Option<OrderAccount> {
    let view = facts.view()?;
    let PinnedAccount { kind, name } = account_of(&facts.object);
    Some(OrderAccount {
        kind,
        name,
        uid: view.uid.clone(),
        account_id: view.account_id.clone()?,
        credentials_hash: view.connection.clone()?,
    })
}
