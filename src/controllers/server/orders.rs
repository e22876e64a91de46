//! The one effect that costs money: begin and send, as one.
//!
//! The permit comes first, then the two writes of the intent, then the order, once. At every step
//! the pass goes on only if it is certain that the step before was its own. See the protocol in
//! `docs/architecture.md`.

use super::{
    Context,
    decide::{NewOrder, fence, request::keys_hash},
    facts::Facts,
    memory::{Denied, Observation},
    observe,
    writes::{self, Written},
};
use crate::{
    account::{self, Account},
    kinds::{
        BareMetalServer, Reason,
        server::{Intent, OrderOutcome, OrderRecord},
    },
    runtime::clock,
};
use hosting::{self, OrderOutcome as Answer};
use std::sync::Arc;

/// Begins a new epoch and sends the order, at most once.
pub async fn order(
    ctx: &Context,
    facts: &Facts,
    account: &Account,
    planned: &NewOrder,
) -> Observation {
    let mark = facts.mark();
    let permit = match account.reserve(mark.as_str()).await {
        Ok(permit) => permit,
        Err(denied) => return Observation::Denied(explain(denied)),
    };
    let Some(begun) = begin(ctx, facts, account, planned).await else {
        return Observation::Failed {
            at: clock::now().mono,
        };
    };
    let Begun {
        intent,
        since,
        confirmed,
    } = begun;
    let record = record(&intent, planned);
    if !confirmed
        || !fence::may_send(
            &intent,
            since,
            clock::now(),
            account.view().times.send_window,
        )
    {
        // Known for certain: this pass alone could have sent it, and did not.
        return settled(
            record,
            OrderOutcome::NotSent,
            "the order was not sent: its intent could not be confirmed in time",
        );
    }
    let order_tag = mark.order_tag(intent.epoch);
    let mut request = planned.order.clone();
    request.tags.push(ctx.cluster.tag());
    request.tags.push(order_tag.clone());
    tracing::info!(
        namespace = facts.namespace(),
        name = facts.name(),
        order = order_tag,
        "sending an order"
    );
    let answer = account.order(permit, &request, &order_tag).await;
    outcome(record, answer)
}

/// An attempt whose begin this pass made.
struct Begun {
    intent: Intent,
    since: crate::runtime::Moment,
    /// Both writes are known to stand.
    confirmed: bool,
}

/// Writes the intent: metadata, then status. None: nothing was written that anybody could mistake for an intent of ours.
async fn begin(
    ctx: &Context,
    facts: &Facts,
    account: &Account,
    planned: &NewOrder,
) -> Option<Begun> {
    let object = writes::read(ctx, &facts.object).await.ok()??;
    let mut fresh = Facts {
        object,
        ..facts.clone()
    };
    observe::recall(ctx, &mut fresh, Some(account));
    let window = fresh.view()?.times.send_window;
    let attempt = uuid::Uuid::new_v4().simple().to_string();
    let since = fresh.now;
    let intent = fence::begin(&fresh, planned, &attempt, window)?;
    let begun = |confirmed| {
        Some(Begun {
            intent: intent.clone(),
            since,
            confirmed,
        })
    };

    let object = match writes::intent(ctx, &fresh.object, &intent).await {
        Written::Done(object) => object,
        Written::Stale => return None,
        Written::Unknown(_) => match writes::read(ctx, &fresh.object).await {
            Ok(Some(object)) if fence::is_ours(&object, &intent) => object,
            // The write may still arrive: the attempt is closed as not sent, by its word.
            _ => return begun(false),
        },
    };
    begun(confirm(ctx, &fresh, &object, &intent, planned).await)
}

/// The second write. True when the object shows both.
async fn confirm(
    ctx: &Context,
    facts: &Facts,
    object: &Arc<BareMetalServer>,
    intent: &Intent,
    planned: &NewOrder,
) -> bool {
    let draft = super::decide::decide(facts).draft;
    let mut status = draft.finish(jiff::Timestamp::now());
    status.order = Some(record(intent, planned));
    match writes::status(ctx, object, &status).await {
        Some(Written::Done(_)) => true,
        Some(Written::Unknown(_)) => matches!(
            writes::read(ctx, object).await,
            Ok(Some(now)) if fence::is_ours(&now, intent)
                && now.status.as_ref().and_then(|s| s.order.as_ref()).is_some_and(|o| o.intent == *intent)
        ),
        Some(Written::Stale) | None => false,
    }
}

fn record(intent: &Intent, planned: &NewOrder) -> OrderRecord {
    OrderRecord {
        intent: intent.clone(),
        outcome: None,
        settled_at: None,
        message: None,
        failures: planned.failures,
        ssh_keys_hash: Some(keys_hash(&planned.order.ssh_keys)),
    }
}

/// What the answer means for the epoch.
fn outcome(record: OrderRecord, answer: Answer) -> Observation {
    match answer {
        Answer::Created(server) => {
            let uuid = Some(server.id.as_str().to_owned());
            let mut order = OrderRecord {
                outcome: Some(OrderOutcome::Created),
                failures: 0,
                ..record
            };
            order.settled_at = Some(clock::now().wall);
            Observation::Ordered { order, uuid }
        }
        Answer::Refused(error) => settled(record, OrderOutcome::Refused, &error.explain()),
        Answer::NotSent(hosting::Error::NotSent(error)) => settled(
            record,
            OrderOutcome::NotSent,
            &hosting::Error::NotSent(error).explain(),
        ),
        Answer::NotSent(error) => settled(record, OrderOutcome::NotSent, &error.explain()),
        Answer::Unknown(why) => {
            tracing::warn!(why, "the outcome of an order is not known");
            Observation::Ordered {
                order: record,
                uuid: None,
            }
        }
    }
}

fn settled(mut order: OrderRecord, outcome: OrderOutcome, message: &str) -> Observation {
    order.outcome = Some(outcome);
    order.settled_at = Some(clock::now().wall);
    order.message = Some(message.to_owned());
    order.failures = order.failures.saturating_add(1);
    Observation::Ordered { order, uuid: None }
}

fn explain(denied: account::Denied) -> Denied {
    let at = clock::now().mono;
    match denied {
        account::Denied::Limit(message) => Denied {
            reason: Reason::LimitReached,
            message,
            at,
        },
        account::Denied::Blocked(reason, message) => Denied {
            reason,
            message,
            at,
        },
        account::Denied::Busy => Denied {
            reason: Reason::Ordering,
            message: "other orders of this account go first".into(),
            at,
        },
    }
}
