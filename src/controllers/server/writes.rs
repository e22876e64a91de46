//! The writes to a server object's metadata, each with what it means.

use super::ServerContext;
use crate::controllers::writes::{WriteOutcome, with_finalizer, without_finalizer};
use api::{
    BareMetalServer,
    names::{OUTPUT_FINALIZER, SERVER_FINALIZER},
};
use serde_json::json;

/// The finalizer, before the first record of an order, or put back.
pub async fn add_finalizer(
    ctx: &ServerContext,
    object: &BareMetalServer,
) -> WriteOutcome<BareMetalServer> {
    let finalizers = with_finalizer(object, SERVER_FINALIZER);
    ctx.write_metadata(object, json!({ "finalizers": finalizers }))
        .await
}

/// The finalizer of an object that has outputs and no server of its own.
pub async fn add_output_finalizer(
    ctx: &ServerContext,
    object: &BareMetalServer,
) -> WriteOutcome<BareMetalServer> {
    let finalizers = with_finalizer(object, OUTPUT_FINALIZER);
    ctx.write_metadata(object, json!({ "finalizers": finalizers }))
        .await
}

/// Takes our finalizers off.
pub async fn remove_finalizers(
    ctx: &ServerContext,
    object: &BareMetalServer,
) -> WriteOutcome<BareMetalServer> {
    let mut finalizers = without_finalizer(object, SERVER_FINALIZER);
    finalizers.retain(|f| f != OUTPUT_FINALIZER);
    ctx.write_metadata(object, json!({ "finalizers": finalizers }))
        .await
}
