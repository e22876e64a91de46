//! The one effect that costs money: the start of an order and its send, as one.
//!
//! The permit was taken before; then come the two writes of the intent, then the order, once. At every step
//! the pass goes on only if it is certain that the step before was its own: the steps are those of
//! [`once::Stage`], and this file does what each of them asks for. See the protocol in
//! `docs/architecture.md`.

use super::{ServerContext, act, observe, ssh_keys, writes};
use crate::{
    account::{Account, OrderPermit},
    controllers::writes::Written,
    runtime::clock,
};
use api::{
    BareMetalServer,
    server::{Intent, OrderRecord},
};
use flexmetal_core::{
    moment::Moment,
    once::{self, Closed, Reply, Stage},
    server::{
        answers,
        decide::{NewOrder, fence, intent},
        facts::{Facts, account_of},
        memory::Observation,
    },
    trouble::Trouble,
};
use hosting_types::OrderOutcome;
use std::sync::Arc;

/// Starts a new epoch and sends the order, at most once.
pub async fn order(
    ctx: &ServerContext,
    facts: &Facts,
    account: &Account,
    permit: OrderPermit,
    planned: &NewOrder,
) -> Observation {
    let mark = facts.mark();
    let mut attempt = match OrderStart::start(ctx, facts, account, planned).await {
        Ok(attempt) if is_planned(&permit, account, planned) => attempt,
        Ok(_) => {
            return Observation::Failed(Trouble::unexpected(
                "the account has another key or URL since the order was permitted",
            ));
        }
        Err(observation) => return observation,
    };
    let stage = attempt.write(ctx).await;
    let now = clock::now();
    let window = account.view().times.send_window;
    let OrderStart {
        record,
        since,
        refusal,
        ..
    } = attempt;
    // Known for certain: this pass alone could have sent it.
    if let Stage::Closed(closed) = stage {
        let why = match closed {
            Closed::NotStarted => refusal,
            Closed::NotSent => refusal.map(|why| {
                format!("that it is under way could not be noted in the object's status: {why}")
            }),
        };
        return answers::of_unsent(record, closed, why, now.wall);
    }
    let in_time = once::may_send(since, record.intent.send_by, now, window);
    let (lineage, sent) = (&planned.account.lineage, &planned.order.ssh_keys);
    let keys_stand = ssh_keys::stand(&ctx.stored_keys, &facts.object, lineage, sent);
    let against = match (in_time, keys_stand, is_planned(&permit, account, planned)) {
        (false, _, _) => Some("it was started too long ago"),
        (_, false, _) => Some("an SSH key that it names was replaced or deleted meanwhile"),
        (_, _, false) => Some("the account has another key or URL since it was started"),
        (true, true, true) => None,
    };
    if let Some(why) = against {
        return answers::of_unsent(record, Closed::NotSent, Some(why.into()), now.wall);
    }
    let order_tag = mark.order_tag(record.intent.epoch);
    let mut request = planned.order.clone();
    request.tags.push(ctx.cluster.tag());
    request.tags.push(order_tag.clone());
    // The last that is known if this process ends before the answer. Always written: orders are paced.
    tracing::info!(
        namespace = facts.namespace(),
        name = facts.name(),
        order = order_tag,
        "sending an order"
    );
    let answer = account.order(permit, &request, &order_tag).await;
    if let OrderOutcome::Unknown(why) = &answer {
        tracing::debug!(order = order_tag, why, "the answer to an order was lost");
    }
    answers::of_order(record, &answer, clock::now().wall)
}

/// Whether the permit is for the very connection that the intent names, and the account still stands on it.
fn is_planned(permit: &OrderPermit, account: &Account, planned: &NewOrder) -> bool {
    permit.connection() == planned.account.connection && permit.is_of(account)
}

/// An attempt that this pass started.
struct OrderStart {
    /// The facts that it was started on.
    fresh: Facts,
    /// The object that the next write rests on.
    object: Arc<BareMetalServer>,
    record: OrderRecord,
    since: Moment,
    /// Why the API server refused a write, in its words.
    refusal: Option<String>,
}

impl OrderStart {
    /// Reads the object and decides once more: the order must still be due on what was read.
    async fn start(
        ctx: &ServerContext,
        facts: &Facts,
        account: &Account,
        planned: &NewOrder,
    ) -> Result<Self, Observation> {
        let object = match ctx.read(&facts.object).await {
            Ok(Some(object)) => object,
            Ok(None) => return Err(Observation::Stale),
            Err(failure) => {
                return Err(Observation::Failed(Trouble::of_write(failure.explain())));
            }
        };
        let mut fresh = Facts {
            object: object.clone(),
            ..facts.clone()
        };
        observe::recall(ctx, &mut fresh, Some(account));
        if account_of(&object) != account_of(&facts.object) {
            return Err(Observation::Stale);
        }
        let fresh = act::with_live_account(ctx, account, fresh).await?;
        let window = account.view().times.send_window;
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let Some(intent) = fence::start(&fresh, planned, &nonce, window) else {
            return Err(Observation::Failed(Trouble::unexpected(
                "the order is not due any more on what was read right before it",
            )));
        };
        Ok(Self {
            object,
            record: intent::open(&fresh, &intent, planned),
            since: fresh.now,
            fresh,
            refusal: None,
        })
    }

    /// Writes the intent, stage by stage, until it may be sent or is closed.
    async fn write(&mut self, ctx: &ServerContext) -> Stage {
        let mut stage = Stage::default();
        loop {
            let reply = match stage {
                Stage::WriteMetadata => {
                    let written = writes::start(ctx, &self.object, self.intent()).await;
                    self.reply(written)
                }
                Stage::WriteStatus => {
                    let status = intent::status(&self.fresh, &self.record);
                    match ctx.write_status(&self.object, &status).await {
                        Some(written) => self.reply(written),
                        // A new nonce is a difference; without one nothing was written.
                        None => Reply::Stale,
                    }
                }
                Stage::ReadMetadata | Stage::ReadStatus => self.read(ctx).await,
                Stage::Send | Stage::Closed(_) => return stage,
            };
            stage = stage.after(reply);
        }
    }

    fn intent(&self) -> &Intent {
        &self.record.intent
    }

    /// What a write says; the next one rests on what it made.
    fn reply(&mut self, written: Written<BareMetalServer>) -> Reply {
        match written {
            Written::Done(object) => {
                self.object = object;
                Reply::Done
            }
            Written::Stale => Reply::Stale,
            // This write was not done, as after a conflict; and it will not be for as long as nobody may write it.
            Written::Unknown(failure) if failure.is_refusal() => {
                self.refusal = Some(failure.explain());
                Reply::Stale
            }
            Written::Unknown(failure) => {
                tracing::warn!(
                    error = &failure as &dyn std::error::Error,
                    "the answer to the write that starts an order was lost"
                );
                Reply::Unknown
            }
        }
    }

    /// What a read says; the next write rests on what it shows.
    async fn read(&mut self, ctx: &ServerContext) -> Reply {
        let Ok(found) = ctx.read(&self.object).await else {
            return Reply::Unknown;
        };
        let reply = intent::shown(found.as_deref(), self.intent());
        if let Some(found) = found {
            self.object = found;
        }
        reply
    }
}
