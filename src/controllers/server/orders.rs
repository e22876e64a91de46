//! Records an order in status and sends it at most once (rule O3 of the protocol). An order costs money, so it is sent
//! only if the record in status is certainly its own.

use super::{ServerContext, act, observe, ssh_keys, writes};
use crate::{
    account::{Account, OrderPermit},
    controllers::writes::WriteOutcome,
    runtime::clock,
};
use api::{BareMetalServer, server::OrderRecord};
use flexmetal_core::{
    last_error::LastError,
    moment::Moment,
    protocol::order as rules,
    server::{
        answers,
        decide::{NewOrder, order, precondition},
        facts::{ServerFacts, account_of},
        memory::ServerObservation,
        protocol_facts,
    },
};
use hosting_types::OrderResult;
use std::{sync::Arc, time::Duration};

/// Starts a new order and sends it, at most once.
pub async fn order(
    ctx: &ServerContext,
    facts: &ServerFacts,
    account: &Account,
    permit: OrderPermit,
    planned: &NewOrder,
) -> ServerObservation {
    let fresh = match read_again(ctx, facts, account, planned).await {
        Ok(fresh) => with_finalizer(ctx, fresh).await,
        Err(observation) => Err(observation),
    };
    let fresh = match fresh {
        Ok(fresh) if is_planned(&permit, account, planned) => fresh,
        Ok(_) => {
            return ServerObservation::Failed(LastError::check_failed(
                "The account has another key or URL since the order was permitted",
            ));
        }
        Err(observation) => return observation,
    };
    let Some(owner) = fresh.owner() else {
        return ServerObservation::Stale;
    };
    let window = account.view().times.send_window;
    let since = clock::now();
    let nonce = uuid::Uuid::new_v4().simple().to_string();
    let record = order::open_record(&fresh, planned, &nonce, window);
    match write_record(ctx, &fresh, &record).await {
        Ok(()) => {}
        Err(observation) => return observation,
    }
    let keys = (&*planned.order.ssh_keys, &*planned.key_uids);
    let account_id = &planned.account.account_id;
    let keys_unchanged = ssh_keys::may_send_keys(ctx, &facts.object, account_id, keys).await;
    let now = clock::now();
    let is_in_time = is_in_time(since, now, window) && now.wall <= record.send_by;
    let against = match (
        is_in_time,
        keys_unchanged,
        is_planned(&permit, account, planned),
    ) {
        (false, _, _) => Some("it was started too long ago"),
        (_, false, _) => {
            Some("an SSH key of spec.sshKeys was replaced or deleted, or could not be read")
        }
        (_, _, false) => Some("the account has another key or URL since it was started"),
        (true, true, true) => None,
    };
    if let Some(why) = against {
        return answers::observe_unsent_order(record, why, now.wall);
    }
    let order_tag = owner.order_tag(record.seq);
    let mut request = planned.order.clone();
    request.tags.push(ctx.cluster.tag());
    request.tags.push(order_tag.clone());
    // The last trace if this process ends before the answer. Always logged, since orders are rate limited.
    tracing::info!(
        namespace = facts.namespace(),
        name = facts.name(),
        order = record.seq,
        tag = order_tag,
        "sending order"
    );
    let answer = account.order(permit, &request, &order_tag).await;
    ctx.metrics
        .record_order(&account.key().label(), outcome_of(&answer));
    if let OrderResult::Unknown(cause) = &answer {
        tracing::debug!(tag = order_tag, cause, "order answer lost");
    }
    answers::observe_order_answer(record, &answer, clock::now().wall)
}

/// The outcome of an order, as a label of metrics.
fn outcome_of(answer: &OrderResult) -> &'static str {
    match answer {
        OrderResult::Created(_) => "Created",
        OrderResult::Refused(_) => "Refused",
        OrderResult::NotSent(_) => "NotSent",
        OrderResult::Unknown(_) => "OutcomeUnknown",
    }
}

/// Whether less than the window has passed, by the monotonic clock.
fn is_in_time(since: Moment, now: Moment, window: Duration) -> bool {
    now.elapsed_since(since.mono) < window
}

/// The live object, for which the same order must still be due.
async fn read_again(
    ctx: &ServerContext,
    facts: &ServerFacts,
    account: &Account,
    planned: &NewOrder,
) -> Result<ServerFacts, ServerObservation> {
    let object = match ctx.read_object(&facts.object).await {
        Ok(Some(object)) => object,
        Ok(None) => return Err(ServerObservation::Stale),
        Err(failure) => {
            return Err(ServerObservation::Failed(LastError::from_write(
                failure.explain(),
            )));
        }
    };
    let mut fresh = ServerFacts {
        object: object.clone(),
        ..facts.clone()
    };
    observe::refresh_facts(ctx, &mut fresh, Some(account));
    if account_of(&object) != account_of(&facts.object) {
        return Err(ServerObservation::Stale);
    }
    let fresh = act::with_live_account(ctx, account, fresh).await?;
    match precondition::may_start(&fresh, planned) {
        true => Ok(fresh),
        false => Err(ServerObservation::Failed(LastError::check_failed(
            "The order is not due by what was read right before it",
        ))),
    }
}

/// The object with our finalizer, without which no order starts.
async fn with_finalizer(
    ctx: &ServerContext,
    mut fresh: ServerFacts,
) -> Result<ServerFacts, ServerObservation> {
    if fresh.has_finalizer() {
        return Ok(fresh);
    }
    let written = writes::add_finalizer(ctx, &fresh.object).await;
    // Also if the answer is lost: the finalizer may be from this process.
    fresh.memory.protocol.added_finalizer();
    ctx.objects.remember(fresh.uid(), |memory| {
        memory.protocol.added_finalizer();
    });
    match written {
        WriteOutcome::Done(object) => fresh.object = object,
        other => return Err(act::written(other)),
    }
    Ok(fresh)
}

/// Writes the open record. If the answer is lost, reads the object to see whether it has the record.
async fn write_record(
    ctx: &ServerContext,
    fresh: &ServerFacts,
    record: &OrderRecord,
) -> Result<(), ServerObservation> {
    let status = order::starting_status(fresh, record);
    let is_recorded = match ctx.write_status(&fresh.object, &status).await {
        Some(WriteOutcome::Done(_)) => true,
        // A new nonce is always a difference, so None means that nothing was written.
        None | Some(WriteOutcome::Stale) => return Err(ServerObservation::Stale),
        // The API server refused this write, and refuses it until a user changes that.
        Some(WriteOutcome::Unknown(failure)) if failure.is_refusal() => {
            let why = format!(
                "Cannot record the order in status, so it is not sent; {}",
                failure.explain()
            );
            return Err(ServerObservation::Failed(LastError::from_write(why)));
        }
        Some(WriteOutcome::Unknown(failure)) => {
            tracing::warn!(
                namespace = fresh.namespace(),
                name = fresh.name(),
                error = &failure as &dyn std::error::Error,
                "order record unconfirmed"
            );
            is_written(ctx, &fresh.object, record).await
        }
    };
    if !is_recorded {
        return Err(ServerObservation::Stale);
    }
    let uid = fresh.uid().to_owned();
    let now = clock::now().mono;
    ctx.objects.remember(&uid, |memory| {
        memory.record_written_order(Some(protocol_facts::to_protocol_order(record)), now);
    });
    Ok(())
}

/// Whether the object has this very record.
async fn is_written(
    ctx: &ServerContext,
    object: &Arc<BareMetalServer>,
    record: &OrderRecord,
) -> bool {
    let Ok(Some(found)) = ctx.read_object(object).await else {
        return false;
    };
    let found = found.status.as_ref().and_then(|s| s.records.order.as_ref());
    let found = found.map(protocol_facts::to_protocol_order);
    rules::may_send(
        &protocol_facts::to_protocol_order(record),
        found.as_ref(),
        clock::now().wall,
    )
}

/// Whether the permit is for the credentials that the order was planned with, and the account still uses them.
fn is_planned(permit: &OrderPermit, account: &Account, planned: &NewOrder) -> bool {
    permit.connection() == planned.account.credentials_hash && permit.is_current_for(account)
}
