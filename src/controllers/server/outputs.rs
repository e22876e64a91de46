//! Writes what `spec.outputs` asks for, and takes our finalizer off what was written.

use super::{
    ServerContext, act,
    owned::{Owned, SecretEntries, Which},
    writes,
};
use crate::controllers::writes::Written;
use api::outputs::{OutputPlace, OutputRecord};
use flexmetal_core::server::{
    decide::outputs::{self, Output},
    facts::Facts,
    memory::Observation,
};
use hosting_types::SecretText;

/// Puts on record that the server has this output, with a finalizer that keeps the server until it is freed, or puts that
/// back. A user may take the other one off, where the provider keeps the record of a failed machine.
pub(super) async fn record_output(
    ctx: &ServerContext,
    facts: &Facts,
    output: &OutputRecord,
) -> Observation {
    let fresh = match act::reread(ctx, facts).await {
        Ok(fresh) if outputs::may_record(&fresh, output) => fresh,
        Ok(_) => return Observation::Stale,
        Err(observation) => return observation,
    };
    let mut object = fresh.object.clone();
    if !fresh.has_output_finalizer() {
        match writes::hold_outputs(ctx, &object).await {
            Written::Done(held) => object = held,
            other => return act::written(other),
        }
    }
    let (status, former) = outputs::with_record(&fresh, output);
    if let Some(former) = former {
        let owned = Owned {
            ctx,
            facts: &fresh,
            may_write: &|fresh| !fresh.deleting(),
        };
        if let Err(observation) = owned.free_output(&former, Which::Any).await {
            return observation;
        }
    }
    match ctx.write_status(&object, &status).await {
        Some(written) => act::written(written),
        None if fresh.has_output_finalizer() => Observation::Done,
        None => Observation::PutBack,
    }
}

/// Takes our finalizer off those of these outputs that somebody deleted. What cannot be freed is tried again at the next
/// check.
pub(super) async fn check_deleted(
    ctx: &ServerContext,
    facts: &Facts,
    outputs: &[OutputRecord],
) -> Observation {
    let owned = Owned {
        ctx,
        facts,
        may_write: &|fresh| !fresh.deleting(),
    };
    for output in outputs {
        match owned.free_output(output, Which::Deleted).await {
            Ok(()) => {}
            Err(Observation::Failed(trouble)) => tracing::warn!(
                namespace = facts.namespace(),
                name = facts.name(),
                error = trouble.message,
                "cannot remove the finalizer of a deleted output"
            ),
            Err(observation) => return observation,
        }
    }
    Observation::OutputsChecked(outputs.to_vec())
}

/// Takes our finalizer off all outputs of a server that ends, and then our finalizers off the server. Nothing is remembered in
/// between: the spec may name another one by the next try.
pub(super) async fn remove_finalizers(ctx: &ServerContext, facts: &Facts) -> Observation {
    let version = |of: &Facts| of.object.metadata.resource_version.clone();
    let owned = Owned {
        ctx,
        facts,
        may_write: &|fresh| fresh.deleting() && version(fresh) == version(facts),
    };
    for output in outputs::at_the_end(facts) {
        if let Err(observation) = owned.free_output(&output, Which::Any).await {
            return observation;
        }
    }
    act::written(writes::remove_finalizers(ctx, &facts.object).await)
}

/// Brings it about that the ConfigMap or the Secret holds what it should, or only looks, where the server is suspended. It is
/// read first: one that belongs to another is left alone.
pub(super) async fn write(ctx: &ServerContext, facts: &Facts, output: &Output) -> Observation {
    let Output {
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
        OutputPlace::ConfigMap => owned.keep_config_map(name, entries.clone()).await,
        OutputPlace::Secret => {
            let entries = entries.iter();
            let secret: SecretEntries = entries
                .map(|(key, value)| (key.clone(), SecretText::new(value.clone())))
                .collect();
            owned.keep_secret(name, &secret).await
        }
    };
    match kept {
        Ok(state) => Observation::Output {
            place: *place,
            content: output.content(),
            state,
        },
        Err(undone) => undone.observed(place.field()),
    }
}
