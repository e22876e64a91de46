//! Writes what `spec.outputs` asks for, and takes our finalizer off what was written.

use super::{
    ServerContext, act,
    owned::{self, Kept, SecretEntries, Which},
    writes,
};
use crate::controllers::writes::Written;
use api::outputs::{OutputPlace, OutputRecord};
use flexmetal_core::{
    server::{
        decide::outputs::{self, Output, OutputSight},
        facts::Facts,
        memory::Observation,
    },
    trouble::Trouble,
};
use hosting_types::SecretText;

/// Puts on record that the server has this output, with a finalizer that keeps the server until it is freed.
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
    if !fresh.has_finalizer() && !fresh.has_output_finalizer() {
        match writes::hold_outputs(ctx, &object).await {
            Written::Done(held) => object = held,
            other => return act::written(other),
        }
    }
    let (status, former) = outputs::with_record(&fresh, output);
    if let Some(former) = former
        && let Err(observation) = remove_finalizers(ctx, &fresh, &[former], Which::Always).await
    {
        return observation;
    }
    match ctx.write_status(&object, &status).await {
        Some(written) => act::written(written),
        None => Observation::Done,
    }
}

/// Takes our finalizer off those of the outputs of a living server that somebody deleted.
pub(super) async fn check_deleted(
    ctx: &ServerContext,
    facts: &Facts,
    outputs: &[OutputRecord],
) -> Observation {
    match act::reread(ctx, facts).await {
        Ok(fresh) if !fresh.deleting() => {}
        Ok(_) => return Observation::Stale,
        Err(observation) => return observation,
    }
    match remove_finalizers(ctx, facts, outputs, Which::IfDeleted).await {
        Ok(()) => Observation::DeletedOutputsChecked,
        Err(observation) => observation,
    }
}

/// Takes our finalizer off these outputs, at the end of the server.
pub(super) async fn release(
    ctx: &ServerContext,
    facts: &Facts,
    outputs: &[OutputRecord],
) -> Observation {
    match act::reread(ctx, facts).await {
        Ok(fresh) if fresh.deleting() => {}
        Ok(_) => return Observation::Stale,
        Err(observation) => return observation,
    }
    match remove_finalizers(ctx, facts, outputs, Which::Always).await {
        Ok(()) => Observation::OutputsReleased(outputs.to_vec()),
        Err(observation) => observation,
    }
}

async fn remove_finalizers(
    ctx: &ServerContext,
    facts: &Facts,
    outputs: &[OutputRecord],
    which: Which,
) -> Result<(), Observation> {
    for output in outputs {
        match owned::remove_output_finalizer(ctx, &facts.object, output, which).await {
            Kept::Written | Kept::Stands | Kept::NotOurs | Kept::WithoutFinalizer => {}
            Kept::Stale => return Err(Observation::Stale),
            Kept::Failed(why) => {
                let (kind, name) = (output.kind.kind(), &output.name);
                let message = format!("{kind} {name}: its finalizer cannot be removed: {why}");
                return Err(Observation::Failed(Trouble::of_write(message)));
            }
        }
    }
    Ok(())
}

/// Brings it about that the ConfigMap or the Secret holds what it should. It is read first: one that belongs to another is
/// left alone.
pub(super) async fn write(ctx: &ServerContext, facts: &Facts, output: &Output) -> Observation {
    match act::reread(ctx, facts).await {
        Ok(fresh) if outputs::may_write(&fresh, output) => {}
        Ok(_) => return Observation::Stale,
        Err(observation) => return observation,
    }
    let Output {
        place,
        name,
        entries,
    } = output;
    let server = &facts.object;
    let kept = match place {
        OutputPlace::ConfigMap => owned::keep_config_map(ctx, server, name, entries.clone()).await,
        OutputPlace::Secret => {
            let entries = entries.iter();
            let secret: SecretEntries = entries
                .map(|(key, value)| (key.clone(), SecretText::new(value.clone())))
                .collect();
            owned::keep_secret(ctx, server, name, &secret).await
        }
    };
    let seen = |sight| Observation::Output {
        place: *place,
        content: output.content(),
        sight,
    };
    match kept {
        Kept::Written => {
            tracing::debug!(
                namespace = facts.namespace(),
                name = facts.name(),
                kind = place.kind(),
                output = name,
                "wrote an output"
            );
            seen(OutputSight::Written)
        }
        Kept::Stands => seen(OutputSight::Written),
        Kept::NotOurs => seen(OutputSight::NotOurs),
        Kept::WithoutFinalizer => seen(OutputSight::WithoutFinalizer),
        Kept::Stale => Observation::Stale,
        Kept::Failed(why) => {
            let field = place.field();
            Observation::Failed(Trouble::of_write(format!("{field}: {why}")))
        }
    }
}
