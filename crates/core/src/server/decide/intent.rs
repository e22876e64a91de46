//! The intent of an order on the object: what is written of it, and whether the object shows it.
//!
//! Pure, and used by the model check as well as by the effect: see [`crate::once`].

use super::{super::facts::order_annotation, NewOrder, decide, retained};
use crate::{once::Reply, server::facts::Facts};
use api::{
    BareMetalServer,
    acknowledgement::AcknowledgementEffect::AssumeAbsent,
    order::OrderNote,
    server::{BareMetalServerStatus, Intent, OrderRecord},
};
use jiff::Timestamp;

/// The record of an order that is about to be sent, on the facts that it was started on: no outcome yet.
pub fn open(fresh: &Facts, intent: &Intent, planned: &NewOrder) -> OrderRecord {
    OrderRecord {
        failures: planned.failures,
        acknowledgement: retained::token(fresh),
        request_hash: Some(planned.request_hash.clone()),
        location: Some(planned.order.location.clone()),
        instance_type: Some(planned.order.instance_type.clone()),
        sent: planned.sent.clone(),
        ..OrderRecord::open(intent.clone())
    }
}

/// The status that the second write of the intent makes, on the facts that the order was started on.
///
/// With it stands an order of this very object, so what a user acknowledged of an earlier one is used up.
pub fn status(fresh: &Facts, record: &OrderRecord) -> BareMetalServerStatus {
    let now = Timestamp::from_second(fresh.now.wall).unwrap_or_default();
    let mut draft = decide(fresh).draft;
    draft.use_up(fresh, AssumeAbsent);
    let mut tags = fresh.object.spec.tags.clone();
    tags.sort_unstable();
    let mut status = draft.finish(now);
    status.records.order = Some(record.clone());
    // Those of the request: it is decided on these very facts. Noted before it is sent, so no lost answer and
    // no crash hides which tags of the machine came from this object.
    status.records.tags = tags;
    status
}

/// Where the object shows this very attempt; None: it is gone.
pub fn shown(object: Option<&BareMetalServer>, intent: &Intent) -> Reply {
    let annotated = object.and_then(order_annotation);
    let recorded = object
        .and_then(|o| o.status.as_ref())
        .and_then(|s| s.records.order.as_ref());
    Reply::Shows {
        metadata: matches!(annotated, Some(Ok(found)) if found == OrderNote::open(intent.clone())),
        status: recorded.is_some_and(|record| record.intent == *intent),
    }
}
