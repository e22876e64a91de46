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
        decide::outputs::{self, Output, OutputState},
        facts::Facts,
        memory::Observation,
    },
    trouble::Trouble,
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
        let may_write = may_write(ctx, facts, |fresh| !fresh.deleting());
        if let Err(observation) = free(ctx, &fresh, &former, Which::Any, may_write).await {
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
    for output in outputs {
        let may_write = may_write(ctx, facts, |fresh| !fresh.deleting());
        match free(ctx, facts, output, Which::Deleted, may_write).await {
            Ok(()) => {}
            Err(Observation::Failed(trouble)) => tracing::warn!(
                namespace = facts.namespace(),
                name = facts.name(),
                error = trouble.message,
                "a deleted output is not freed"
            ),
            Err(observation) => return observation,
        }
    }
    Observation::OutputsChecked(outputs.to_vec())
}

/// Takes our finalizer off all outputs of a server that ends, and then our finalizers off the server. Nothing is remembered in
/// between: the spec may name another one by the next try.
pub(super) async fn let_go(ctx: &ServerContext, facts: &Facts) -> Observation {
    let version = |of: &Facts| of.object.metadata.resource_version.clone();
    for output in outputs::at_the_end(facts) {
        let is_as_decided = |fresh: &Facts| fresh.deleting() && version(fresh) == version(facts);
        let may_write = may_write(ctx, facts, is_as_decided);
        if let Err(observation) = free(ctx, facts, &output, Which::Any, may_write).await {
            return observation;
        }
    }
    act::written(writes::let_go(ctx, &facts.object).await)
}

/// Asks the object as it is right before a write. What only looks needs no answer.
async fn may_write(
    ctx: &ServerContext,
    facts: &Facts,
    may_write: impl FnOnce(&Facts) -> bool,
) -> Result<(), Observation> {
    match may_write(&Box::pin(act::reread(ctx, facts)).await?) {
        true => Ok(()),
        false => Err(Observation::Stale),
    }
}

async fn free(
    ctx: &ServerContext,
    facts: &Facts,
    output: &OutputRecord,
    which: Which,
    may_write: impl Future<Output = Result<(), Observation>>,
) -> Result<(), Observation> {
    match owned::free_output(ctx, &facts.object, output, which, may_write).await {
        Kept::Written | Kept::Stands | Kept::NotOurs | Kept::WithoutFinalizer => Ok(()),
        Kept::Stale => Err(Observation::Stale),
        Kept::NotNow(observation) => Err(*observation),
        Kept::Failed(why) => {
            let (kind, name) = (output.kind.kind(), &output.name);
            let message = format!("{kind} {name}: its finalizer cannot be removed: {why}");
            Err(Observation::Failed(Trouble::of_write(message)))
        }
    }
}

/// Brings it about that the ConfigMap or the Secret holds what it should. It is read first: one that belongs to another is
/// left alone.
pub(super) async fn write(ctx: &ServerContext, facts: &Facts, output: &Output) -> Observation {
    let Output {
        place,
        name,
        entries,
    } = output;
    let server = &facts.object;
    let may_write = may_write(ctx, facts, |fresh| outputs::may_write(fresh, output));
    let kept = match place {
        OutputPlace::ConfigMap => {
            owned::keep_config_map(ctx, server, name, entries.clone(), may_write).await
        }
        OutputPlace::Secret => {
            let entries = entries.iter();
            let secret: SecretEntries = entries
                .map(|(key, value)| (key.clone(), SecretText::new(value.clone())))
                .collect();
            owned::keep_secret(ctx, server, name, &secret, may_write).await
        }
    };
    let seen = |state| Observation::Output {
        place: *place,
        content: output.content(),
        state,
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
            seen(OutputState::Written)
        }
        Kept::Stands => seen(OutputState::Written),
        Kept::NotOurs => seen(OutputState::NotOurs),
        Kept::WithoutFinalizer => seen(OutputState::WithoutFinalizer),
        Kept::Stale => Observation::Stale,
        Kept::NotNow(observation) => *observation,
        Kept::Failed(why) => {
            let field = place.field();
            Observation::Failed(Trouble::of_write(format!("{field}: {why}")))
        }
    }
}
