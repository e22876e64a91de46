//! The writes to a server object's metadata, each with what it means.

use super::ServerContext;
use crate::controllers::writes::{Written, with_finalizer, without_finalizer};
use api::{
    BareMetalServer,
    names::{ORDER_ANNOTATION, OUTPUT_FINALIZER, SERVER_FINALIZER},
    order::OrderNote,
    server::Intent,
};
use serde_json::json;

/// Finalizer and intent of a new order, in one write.
pub async fn start(
    ctx: &ServerContext,
    object: &BareMetalServer,
    intent: &Intent,
) -> Written<BareMetalServer> {
    write_order_note(ctx, object, &OrderNote::open(intent.clone())).await
}

/// Finalizer and order annotation, in one write: of a machine that is there, of an order that is known to have made none,
/// or put back.
pub async fn write_order_note(
    ctx: &ServerContext,
    object: &BareMetalServer,
    note: &OrderNote,
) -> Written<BareMetalServer> {
    let text = match serde_json::to_string(note) {
        Ok(text) => text,
        Err(_) => return Written::Stale,
    };
    let annotations = json!({ ORDER_ANNOTATION: text });
    let finalizers = with_finalizer(object, SERVER_FINALIZER);
    let metadata = json!({ "annotations": annotations, "finalizers": finalizers });
    ctx.write_metadata(object, metadata).await
}

/// The finalizer alone, before a machine of an earlier object is taken over.
pub async fn hold(ctx: &ServerContext, object: &BareMetalServer) -> Written<BareMetalServer> {
    let finalizers = with_finalizer(object, SERVER_FINALIZER);
    ctx.write_metadata(object, json!({ "finalizers": finalizers }))
        .await
}

/// The finalizer of an object that has outputs and no server of its own.
pub async fn hold_outputs(
    ctx: &ServerContext,
    object: &BareMetalServer,
) -> Written<BareMetalServer> {
    let finalizers = with_finalizer(object, OUTPUT_FINALIZER);
    ctx.write_metadata(object, json!({ "finalizers": finalizers }))
        .await
}

/// Takes our finalizers off.
pub async fn let_go(ctx: &ServerContext, object: &BareMetalServer) -> Written<BareMetalServer> {
    let mut finalizers = without_finalizer(object, SERVER_FINALIZER);
    finalizers.retain(|f| f != OUTPUT_FINALIZER);
    ctx.write_metadata(object, json!({ "finalizers": finalizers }))
        .await
}
