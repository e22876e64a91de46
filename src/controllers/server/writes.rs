//! The writes to a server object's metadata, each with what it means.

use super::ServerContext;
use crate::controllers::writes::{Written, with_finalizer, without_finalizer};
use api::{
    BareMetalServer,
    names::{ACKNOWLEDGE_ABSENT, ORDER_ANNOTATION, RELEASE_ANNOTATION, SERVER_FINALIZER},
    order::OrderNote,
    server::Intent,
};
use serde_json::{Value, json};

/// Finalizer and intent of a new order, in one write. A person's word about the last one is used up by it.
pub async fn start(
    ctx: &ServerContext,
    object: &BareMetalServer,
    intent: &Intent,
) -> Written<BareMetalServer> {
    let note = OrderNote::open(intent.clone());
    let more = json!({ ACKNOWLEDGE_ABSENT: Value::Null });
    write_note(ctx, object, &note, more).await
}

/// Finalizer and the note of a machine that is there, or of an order that is known to have made none. A person's
/// word that there is no machine is void where there is one.
pub async fn record(
    ctx: &ServerContext,
    object: &BareMetalServer,
    note: &OrderNote,
) -> Written<BareMetalServer> {
    let more = match note.outcome {
        None => json!({ ACKNOWLEDGE_ABSENT: Value::Null }),
        // It still counts for the next order: it breaks the row of unknown outcomes.
        Some(_) => json!({}),
    };
    write_note(ctx, object, note, more).await
}

/// Finalizer and order annotation, put back in one write.
pub async fn note(
    ctx: &ServerContext,
    object: &BareMetalServer,
    note: &OrderNote,
) -> Written<BareMetalServer> {
    write_note(ctx, object, note, json!({})).await
}

async fn write_note(
    ctx: &ServerContext,
    object: &BareMetalServer,
    note: &OrderNote,
    mut annotations: Value,
) -> Written<BareMetalServer> {
    let text = match serde_json::to_string(note) {
        Ok(text) => text,
        Err(_) => return Written::Stale,
    };
    annotations[ORDER_ANNOTATION] = json!(text);
    annotations[RELEASE_ANNOTATION] = Value::Null;
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

/// The machine whose release has begun.
pub async fn release_begun(
    ctx: &ServerContext,
    object: &BareMetalServer,
    uuid: &str,
) -> Written<BareMetalServer> {
    let annotations = json!({ RELEASE_ANNOTATION: uuid });
    ctx.write_metadata(object, json!({ "annotations": annotations }))
        .await
}

/// Takes our finalizer off.
pub async fn let_go(ctx: &ServerContext, object: &BareMetalServer) -> Written<BareMetalServer> {
    let finalizers = without_finalizer(object, SERVER_FINALIZER);
    ctx.write_metadata(object, json!({ "finalizers": finalizers }))
        .await
}
