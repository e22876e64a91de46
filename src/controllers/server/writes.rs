//! The writes to a server object's metadata.

use super::ServerContext;
use crate::controllers::writes::{WriteOutcome, with_finalizer, without_finalizer};
use api::{
    BareMetalServer,
    names::{OUTPUT_FINALIZER, SERVER_FINALIZER},
};
use serde_json::json;

/// Adds the finalizer, before the first order record or after it was removed.
pub async fn add_finalizer(
    ctx: &ServerContext,
    object: &BareMetalServer,
) -> WriteOutcome<BareMetalServer> {
    let finalizers = with_finalizer(object, SERVER_FINALIZER);
    ctx.write_metadata(object, json!({ "finalizers": finalizers }))
        .await
}

/// Adds the finalizer of an object that has outputs but no server.
pub async fn add_output_finalizer(
    ctx: &ServerContext,
    object: &BareMetalServer,
) -> WriteOutcome<BareMetalServer> {
    let finalizers = with_finalizer(object, OUTPUT_FINALIZER);
    ctx.write_metadata(object, json!({ "finalizers": finalizers }))
        .await
}

/// Removes our finalizers.
pub async fn remove_finalizers(
    ctx: &ServerContext,
    object: &BareMetalServer,
) -> WriteOutcome<BareMetalServer> {
    let mut finalizers = without_finalizer(object, SERVER_FINALIZER);
    finalizers.retain(|f| f != OUTPUT_FINALIZER);
    ctx.write_metadata(object, json!({ "finalizers": finalizers }))
        .await
}
