//! Decides for one server object: facts in, one decision out, without I/O, clock or randomness.
//! [`crate::protocol`] decides the steps of order and server; the files here add policies, requests and messages.

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
mod read_only;
mod reconcile_request;
pub mod reinstall;
pub mod release;
pub mod remedy;
mod repeated_failure;
pub mod replace;
pub mod request_checks;
pub mod root_password;
pub mod sent_hashes;
mod stock;
mod tag_limit;
pub mod tags;
mod terms;

#[cfg(test)]
pub(crate) mod tests;

use super::{
    facts::{ServerFacts, account_of, is_same_uuid},
    protocol_facts,
};
use crate::{
    account::view::{AccountView, SeenServer},
    explanation::{Explanation, copy_synced_to_ready},
    owner::READ_NAMESPACE_AGAIN,
    protocol::{self, ProtocolStep, Wait, WaitReason},
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

/// What to do now, what to report, and when to reconcile again.
#[derive(Clone, Debug)]
pub struct ServerDecision {
    /// The next status.
    pub desired: DesiredStatus,
    /// At most one effect.
    pub effect: Option<ServerEffect>,
    /// Requests a complete list that starts at or after this moment.
    pub wants_complete_list: Option<Duration>,
    /// Requests a catalogue that is read at or after this moment.
    pub wants_catalogue: Option<Duration>,
    /// Requests a list of all servers of the account, with any tags, that starts at or after this moment.
    pub wants_servers: Option<Duration>,
    /// The next reconcile needs the installation data.
    pub wants_installation: bool,
    /// When to reconcile again, unless the object is enqueued before.
    pub requeue: Requeue,
    /// The same, if the status is written.
    pub requeue_once_written: Requeue,
}

impl ServerDecision {
    /// Reconciles again after this time at the latest.
    fn requeue_within(&mut self, rest: Duration) {
        if self.requeue != Requeue::Now {
            self.requeue = self.requeue.cap_delay(rest);
        }
    }
}

/// How long until the resync of an object that needs nothing. The account enqueues it when its server changes.
const IDLE: Duration = Duration::from_secs(600);

/// Decides what to do for one server object.
pub fn decide(facts: &ServerFacts) -> ServerDecision {
    let mut decision = decide_by_protocol(facts);
    // Status takes over a known answer in any case: the next process would not know it otherwise.
    if let Some(answer) = find_unrecorded_answer(facts) {
        let shown = &mut decision.desired.status.records.order;
        if shown
            .as_ref()
            .is_some_and(|shown| is_same_order(shown, &answer))
        {
            *shown = Some(answer);
        }
    }
    // The same for a known record of a re-installation.
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
    tag_limit::block_over_tag_limit(facts, &mut decision);
    finalizer::restore_finalizer(facts, &mut decision);
    read_only::block_change(facts, &mut decision);
    let checked_lately = outputs::reconcile_outputs(facts, &mut decision);
    let password = root_password::reconcile_password(facts, &mut decision);
    outputs::check_deleted(facts, &mut decision, &checked_lately);
    read_only::block_change(facts, &mut decision);
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
    let desired = &mut decision.desired;
    copy_synced_to_ready(&mut desired.conditions, &desired.status.conditions);
    if let Some(rest) = decision.desired.grace_left {
        decision.requeue = decision.requeue.cap_delay(rest);
    }
    decision
}

/// The answer to the order that status shows as open.
fn find_unrecorded_answer(facts: &ServerFacts) -> Option<OrderRecord> {
    let shown = facts.order().filter(|order| order.outcome.is_none())?;
    let answer = facts.memory.answer.as_deref()?;
    (is_same_order(shown, answer) && answer != shown).then(|| answer.clone())
}

fn is_same_order(one: &OrderRecord, other: &OrderRecord) -> bool {
    (&one.uid, one.seq, &one.nonce) == (&other.uid, other.seq, &other.nonce)
}

/// Uses up the token of an order that may have created a server, and withdraws what no longer applies.
fn settle_acknowledgements(facts: &ServerFacts, desired: &mut DesiredStatus) {
    if let Some(order) = facts.order()
        && matches!(order.outcome, None | Some(OrderOutcome::Created))
        && let Some(token) = &order.acknowledgement
    {
        desired.use_up_token(facts, token);
    }
    let complete_list = facts.view().and_then(|view| view.complete_list.as_ref());
    let is_listed = complete_list.is_some_and(|list| list.began > facts.leader_since);
    let is_adopting = |order: &OrderRecord| order.outcome == Some(OrderOutcome::Adopting);
    let adopts = desired
        .status
        .records
        .order
        .as_ref()
        .is_some_and(is_adopting);
    let has_server = adopts || facts.own.iter().any(|s| s.server.status.is_live());
    let is_named = facts.object.spec.external_id.is_some();
    let is_over = is_listed && explain::order_another_situation(facts).is_none();
    if is_over || has_server || is_named || facts.deleting() {
        desired.withdraw(OrderAnother);
        desired.withdraw(Adopt);
    }
    let account_id = facts.view().and_then(|view| view.account_id.as_ref());
    let is_here = facts
        .order()
        .is_some_and(|order| Some(&order.account_id) == account_id);
    // A replacement has to be sure that nothing was ordered since, so it may still need AssumeAbsent.
    let is_replaced = replace::is_due(facts);
    if is_here && explain::is_shown(facts) && !is_replaced {
        desired.withdraw(AssumeAbsent);
    }
}

/// The next step by the protocol, as far as policies and account allow it.
fn decide_by_protocol(facts: &ServerFacts) -> ServerDecision {
    if facts.deleting() && !facts.has_finalizer() {
        return release::decide_without_finalizer(facts);
    }
    // No order is open, and no server is recorded.
    let may_start = !facts.deleting() && facts.has_no_order_or_server();
    // An own live server is adopted even if an order is blocked.
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
        Err(explanation) => return decide_without_account(facts, explanation),
    };
    let Some(owner) = facts.owner() else {
        let why = facts.namespace_uid.as_ref().err();
        let text = format!(
            "Cannot read namespace {}, whose UID identifies its servers: {}; retrying every {}",
            facts.namespace(),
            why.map_or("", String::as_str),
            Interval(READ_NAMESPACE_AGAIN)
        );
        let explanation = Explanation::waits(Reason::Pending, text);
        return ServerDecision::wait_quietly(facts, explanation)
            .requeue_after(READ_NAMESPACE_AGAIN);
    };
    let shown = protocol_facts::collect_servers(facts, &owner);
    let Some(view) = protocol_facts::to_protocol_view(facts, account, &shown) else {
        let explanation = Explanation::waits(
            Reason::Pending,
            "Waiting for the account to be recorded; this goes on once it is",
        );
        return ServerDecision::wait_quietly(facts, explanation);
    };
    let step = protocol::decide(&view);
    let mut decision = match facts.deleting() {
        true => release::decide_deleted(facts, account, step),
        false => decide_living(facts, account, step),
    };
    // The order is allowed without the acknowledgement.
    if matches!(step, ProtocolStep::Order { .. }) && !view.object.acknowledged.assume_absent {
        decision.desired.withdraw(AssumeAbsent);
    }
    decision
}

/// How long after a moment it counts as past.
const PAST: Duration = Duration::from_millis(10);

/// The account is unavailable: the last known state of the server stays.
fn decide_without_account(facts: &ServerFacts, explanation: Explanation) -> ServerDecision {
    match facts.order().and_then(|order| order.created()) {
        Some(_) if !facts.deleting() => {
            existing::report_if_unreachable(facts, DesiredStatus::unchanged(facts))
        }
        _ => release::decide_without_account(facts, explanation),
    }
}

/// Decides the next step of a living object.
fn decide_living(facts: &ServerFacts, account: &AccountView, step: ProtocolStep) -> ServerDecision {
    match step {
        ProtocolStep::Reconcile(_)
        | ProtocolStep::Unretain(_)
        | ProtocolStep::Wait(Wait {
            why: WaitReason::Ended(_),
            ..
        }) => match existing::find_existing(facts) {
            Some(existing_server) => existing::reconcile_existing(facts, &existing_server),
            None => ServerDecision::unchanged(facts).requeue_now(),
        },
        ProtocolStep::Order { after, lost, cut } => replace::record_replaced_first(facts)
            .filter(|_| !facts.read_only)
            .unwrap_or_else(|| order::decide_next_order(facts, account, after, lost, cut)),
        ProtocolStep::Release(server) => {
            replace::release_failed_server(facts, account, &protocol_facts::uuid_of(facts, server))
        }
        ProtocolStep::Wait(Wait {
            why: WaitReason::Releasing,
            ..
        }) => match &facts.recorded {
            Some(recorded) => delete_request::wait_for_release(facts, account, &recorded.server),
            None => decide_any(facts, account, step),
        },
        // No list is needed before the next order is due.
        ProtocolStep::Wait(Wait {
            why: WaitReason::WaitingForList,
            ..
        }) => order::wait_between_orders(facts, account)
            .unwrap_or_else(|| decide_any(facts, account, step)),
        _ => decide_any(facts, account, step),
    }
}

/// Decides a step that is the same for living and deleted objects.
fn decide_any(facts: &ServerFacts, account: &AccountView, step: ProtocolStep) -> ServerDecision {
    let unchanged = || ServerDecision::unchanged(facts);
    let adopting = |uuid: &str| {
        let text = format!(
            "Adopting server {uuid}; once its tags are set, it is read again after {}",
            Interval(protocol_facts::times(account).flight_time)
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
            let uuid = protocol_facts::uuid_of(facts, server);
            block_adoption(facts, &uuid)
                .unwrap_or_else(|| adopting(&uuid).with_effect(ServerEffect::Claim { uuid }))
        }
        ProtocolStep::Finish(server) => {
            let uuid = protocol_facts::uuid_of(facts, server);
            block_adoption(facts, &uuid)
                .unwrap_or_else(|| adopting(&uuid).with_effect(ServerEffect::Adopt { uuid }))
        }
        ProtocolStep::Read(server) => {
            let uuid = protocol_facts::uuid_of(facts, server);
            let mut decision =
                existing::report_if_unreachable(facts, DesiredStatus::unchanged(facts));
            decision.requeue = Requeue::After(account.times.absence_check_interval);
            decision.with_effect(ServerEffect::Read { uuid })
        }
        ProtocolStep::Retain(server) => {
            let uuid = protocol_facts::uuid_of(facts, server);
            unchanged().with_effect(ServerEffect::Retain { uuid })
        }
        // `decide_living` and `decide_deleted` decide these.
        ProtocolStep::Reconcile(_)
        | ProtocolStep::Unretain(_)
        | ProtocolStep::Order { .. }
        | ProtocolStep::Release(_) => unchanged(),
    }
}

/// Blocks the adoption of this server while nothing is sent for the object.
fn block_adoption(facts: &ServerFacts, uuid: &str) -> Option<ServerDecision> {
    if facts.read_only {
        let explanation = Explanation::read_only(&format!("would adopt server {uuid}"));
        return Some(ServerDecision::wait_with_reason(facts, explanation));
    }
    let explanation = match facts.deleting() {
        true => remedy::explain_blocked_deletion(facts, uuid),
        false => remedy::explain_blocked(facts, "nothing is adopted"),
    };
    Some(ServerDecision::wait_with_reason(facts, explanation?))
}

/// Changes the order record.
fn record_order(
    facts: &ServerFacts,
    account: &AccountView,
    next: Option<protocol::ProtocolOrder>,
) -> ServerDecision {
    if let Some(order) = &next
        && let protocol::ProtocolOutcome::Adopting(server) = order.outcome
        && let Some(wait) = block_adoption(facts, &protocol_facts::uuid_of(facts, server))
    {
        return wait;
    }
    let mut desired = DesiredStatus::unchanged(facts);
    if next.is_some_and(|order| matches!(order.outcome, protocol::ProtocolOutcome::Adopting(_))) {
        desired.record_acknowledged(facts, Adopt);
        if !facts.has_own_record() {
            // Fields that were restored with the status of another object are wrong here.
            desired.forget_server();
        }
    }
    let is_acknowledged = facts.memory.answer.is_none()
        && next.is_some_and(|order| order.outcome == protocol::ProtocolOutcome::Absent)
        && facts
            .acknowledgements()
            .is_given(&explain::assume_absent_situation(facts));
    desired.status.records.order =
        next.map(|next| protocol_facts::to_order_record(facts, account, &next));
    if is_acknowledged {
        desired.forget_server();
        desired.record_acknowledged(facts, AssumeAbsent);
    }
    desired
        .status
        .account_ref
        .get_or_insert_with(|| account_of(&facts.object));
    match next {
        Some(next) if next.outcome != protocol::ProtocolOutcome::Open => {
            decide_after_record(facts, next, desired)
        }
        _ => ServerDecision::from_status(desired).requeue_now(),
    }
}

/// Records the order in the status that follows from it, so no second write comes right after.
fn decide_after_record(
    facts: &ServerFacts,
    next: protocol::ProtocolOrder,
    mut desired: DesiredStatus,
) -> ServerDecision {
    let mut memory = facts.memory.clone();
    memory.record_written_order(Some(next), facts.now.mono);
    let mut shown = None;
    if let protocol::ProtocolOutcome::Created(server) = next.outcome {
        let uuid = protocol_facts::uuid_of(facts, server);
        if desired
            .status
            .uuid
            .as_ref()
            .is_some_and(|shown| !is_same_uuid(shown, &uuid))
        {
            desired.forget_server();
        }
        desired.status.uuid = Some(uuid);
        let is_it = |s: &&SeenServer| protocol_facts::server_id(s.server.id.as_str()) == server;
        shown = protocol_facts::list_seen_servers(facts)
            .find(is_it)
            .cloned();
    }
    let mut object = BareMetalServer::clone(&facts.object);
    object.status = Some(desired.status);
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
        WaitReason::WaitingForList | WaitReason::Settling | WaitReason::Missing(_)
            if !facts.deleting() && facts.order().is_some_and(|o| o.created().is_some()) =>
        {
            existing::report_if_unreachable(facts, DesiredStatus::unchanged(facts))
        }
        WaitReason::WaitingForList if account.last_error.is_none() => {
            ServerDecision::unchanged(facts)
        }
        _ if explain::is_first_step(facts, wait) => {
            ServerDecision::wait_quietly(facts, said.explanation)
        }
        _ => ServerDecision::wait_with_reason(facts, said.explanation),
    };
    for asked in &said.situations {
        decision.desired.request_acknowledgement(facts, asked);
    }
    if let WaitReason::TagsMissing(server) | WaitReason::Conflict(server) = wait.why
        && let Some(recorded) = facts.recorded.as_ref()
        && protocol_facts::server_id(recorded.server.id.as_str()) == server
    {
        decision.desired.show_server(facts, &recorded.server);
    }
    decision.requeue = Requeue::After(account.times.idle_poll_interval);
    if let Some(until) = wait.until {
        // Right after the moment, not at it.
        let rest = until.saturating_sub(facts.now.mono) + PAST;
        decision.requeue = decision.requeue.cap_delay(rest);
    }
    if let Some(wanted) = wait.list {
        // A list that began at that very moment may show the state before it.
        let from = wanted.after + PAST;
        match wanted.whole {
            true => decision.wants_servers = Some(from),
            false => decision.wants_complete_list = Some(from),
        }
        // After that moment the account enqueues the object as soon as it has a list.
        let rest = from.saturating_sub(facts.now.mono);
        decision.requeue = match rest.is_zero() {
            true => Requeue::After(account.times.active_poll_interval),
            false => decision.requeue.cap_delay(rest),
        };
    }
    decision
}

impl ServerDecision {
    /// Waits for this reason. The fields of the server stay.
    pub fn wait_with_reason(facts: &ServerFacts, explanation: Explanation) -> Self {
        Self::from_status(DesiredStatus::waiting(facts, explanation)).requeue_after(IDLE)
    }

    /// Waits, but reports a new object only after a while: its first steps are not worth a write.
    pub fn wait_quietly(facts: &ServerFacts, explanation: Explanation) -> Self {
        if facts.is_new() && facts.time_until_report().is_some() {
            return Self::unchanged(facts);
        }
        Self::wait_with_reason(facts, explanation)
    }

    /// Schedules an effect after a pause. Any other effect goes first, unless it is in backoff and may fail forever.
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

    /// Reports an outage of the account as the reason of the wait. An object with a server keeps its conditions.
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
            && let Some(explanation) = explain_outage(facts)
        {
            self.desired.set(facts, explanation, None);
        }
    }

    /// Reports a new object as queued after a while, if nothing else is reported.
    fn report_new_object(&mut self, facts: &ServerFacts) {
        if !self.desired.is_silent() || facts.deleting() || !facts.is_new() {
            return;
        }
        match facts.time_until_report() {
            Some(rest) => self.desired.grace_left = Some(rest),
            None => self.desired.set(facts, Explanation::queued(), None),
        }
    }

    /// The account has no permit for the effect yet. Returns how long this is not reported.
    pub fn report_queued(&mut self, facts: &ServerFacts) -> Option<Duration> {
        let is_order = matches!(self.effect, Some(ServerEffect::Order(_)));
        if !facts.is_new() && !is_order {
            return None;
        }
        if let Some(explanation) = explain_outage(facts) {
            self.desired.set(facts, explanation, None);
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

    /// Keeps the status as it is.
    pub fn unchanged(facts: &ServerFacts) -> Self {
        Self::from_status(DesiredStatus::unchanged(facts)).requeue_after(IDLE)
    }

    /// Reports this status and does nothing.
    pub fn from_status(desired: DesiredStatus) -> Self {
        Self {
            desired,
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

    /// Reconciles again after this time.
    #[must_use]
    pub fn requeue_after(mut self, after: Duration) -> Self {
        self.requeue = Requeue::After(after);
        self
    }

    /// Reconciles again now.
    #[must_use]
    pub fn requeue_now(mut self) -> Self {
        self.requeue = Requeue::Now;
        self
    }
}

/// The account lacks answers now.
fn explain_outage(facts: &ServerFacts) -> Option<Explanation> {
    let (reason, message) = facts.view()?.outage.clone()?;
    Some(Explanation::waits(reason, message))
}

/// Whether this account shows what was sent to that one: same credentials hash, or same account ID.
fn is_same_account(view: &AccountView, ordered: Option<&OrderAccount>) -> bool {
    ordered.is_some_and(|ordered| {
        view.credentials_hash.as_ref() == Some(&ordered.credentials_hash)
            || view.account_id.as_ref() == Some(&ordered.account_id)
    })
}

/// The account as a new order records it. None: its account ID is not recorded yet.
fn order_account(facts: &ServerFacts) -> Option<OrderAccount> {
    let view = facts.view()?;
    let PinnedAccount { kind, name } = account_of(&facts.object);
    Some(OrderAccount {
        kind,
        name,
        uid: view.uid.clone(),
        account_id: view.account_id.clone()?,
        credentials_hash: view.credentials_hash.clone()?,
    })
}
