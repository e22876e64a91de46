//! Writes what `spec.outputs` asks for, and removes our finalizer from what was written.

use super::{
    ServerContext, act,
    output_objects::{OutputFilter, Owned, SecretEntries},
    writes,
};
use crate::controllers::writes::WriteOutcome;
use api::outputs::{OutputKind, OutputRecord};
use flexmetal_core::server::{
    decide::outputs::{self, DesiredOutput},
    facts::ServerFacts,
    memory::ServerObservation,
};
use hosting_types::SecretText;

/// Records an output in status, and adds the finalizer that keeps the server object until the output is freed. The
/// server finalizer does not suffice: a user may remove it while the provider keeps a failed server's record.
pub(super) async fn record_output(
    ctx: &ServerContext,
    facts: &ServerFacts,
    output: &OutputRecord,
) -> ServerObservation {
    let fresh = match act::get_live(ctx, facts).await {
        Ok(fresh) if outputs::may_record(&fresh, output) => fresh,
        Ok(_) => return ServerObservation::Stale,
        Err(observation) => return observation,
    };
    let mut object = fresh.object.clone();
    if !fresh.has_output_finalizer() {
        match writes::add_output_finalizer(ctx, &object).await {
            WriteOutcome::Done(updated) => object = updated,
            other => return act::written(other),
        }
    }
    let (status, previous) = outputs::add_record(&fresh, output);
    if let Some(previous) = previous {
        let owned = Owned {
            ctx,
            facts: &fresh,
            may_write: &|fresh| !fresh.deleting(),
        };
        if let Err(observation) = owned.free_output(&previous, OutputFilter::Any).await {
            return observation;
        }
    }
    match ctx.write_status(&object, &status).await {
        Some(written) => act::written(written),
        None if fresh.has_output_finalizer() => ServerObservation::Done,
        None => ServerObservation::FinalizerRestored,
    }
}

/// Removes our finalizer from those outputs that a user deleted. What fails is retried at the next check.
pub(super) async fn check_deleted(
    ctx: &ServerContext,
    facts: &ServerFacts,
    outputs: &[OutputRecord],
) -> ServerObservation {
    let owned = Owned {
        ctx,
        facts,
        may_write: &|fresh| !fresh.deleting(),
    };
    for output in outputs {
        match owned.free_output(output, OutputFilter::Deleted).await {
            Ok(()) => {}
            Err(ServerObservation::Failed(last_error)) => tracing::warn!(
                namespace = facts.namespace(),
                name = facts.name(),
                output = output.name,
                cause = last_error.message,
                "finalizer removal failed"
            ),
            Err(observation) => return observation,
        }
    }
    ServerObservation::OutputsChecked(outputs.to_vec())
}

/// Removes our finalizer from all outputs of a server that ends, then our finalizers from the server. Remembers nothing
/// in between, since spec may name another output by the next try.
pub(super) async fn remove_finalizers(
    ctx: &ServerContext,
    facts: &ServerFacts,
) -> ServerObservation {
    let version = |of: &ServerFacts| of.object.metadata.resource_version.clone();
    let owned = Owned {
        ctx,
        facts,
        may_write: &|fresh| fresh.deleting() && version(fresh) == version(facts),
    };
    for output in outputs::list_outputs_to_free(facts) {
        if let Err(observation) = owned.free_output(&output, OutputFilter::Any).await {
            return observation;
        }
    }
    act::written(writes::remove_finalizers(ctx, &facts.object).await)
}

/// Makes the ConfigMap or Secret contain what it should; while the server is suspended, only reads it. An object of
/// another owner stays untouched.
pub(super) async fn write(
    ctx: &ServerContext,
    facts: &ServerFacts,
    output: &DesiredOutput,
) -> ServerObservation {
    let DesiredOutput {
        place,
        name,
        entries,
    } = output;
    let owned = Owned {
        ctx,
        facts,
        may_write: &|fresh| outputs::may_write(facts, fresh, output),
    };
    let kept = match place {
        OutputKind::ConfigMap => owned.reconcile_config_map(name, entries.clone()).await,
        OutputKind::Secret => {
            let entries = entries.iter();
            let secret: SecretEntries = entries
                .map(|(key, value)| (key.clone(), SecretText::new(value.clone())))
                .collect();
            owned.reconcile_secret(name, &secret).await
        }
    };
    match kept {
        Ok(state) => ServerObservation::Output {
            place: *place,
            content: output.content_hash(),
            state,
        },
        Err(undone) => undone.observed(place.field()),
    }
}
