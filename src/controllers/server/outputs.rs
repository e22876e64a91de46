//! Writes what `spec.outputs` asks for.

use super::{
    ServerContext,
    owned::{self, Kept, SecretEntries},
};
use api::outputs::OutputPlace;
use flexmetal_core::{
    server::{decide::outputs::Output, facts::Facts, memory::Observation},
    trouble::Trouble,
};
use hosting_types::SecretText;

/// Brings it about that the ConfigMap or the Secret holds what it should. It is read first: one that belongs to another is
/// left alone.
pub(super) async fn write(ctx: &ServerContext, facts: &Facts, output: &Output) -> Observation {
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
    let seen = |is_ours| Observation::Output {
        place: *place,
        content: output.content(),
        is_ours,
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
            seen(true)
        }
        Kept::Stands => seen(true),
        Kept::NotOurs => seen(false),
        Kept::Stale => Observation::Stale,
        Kept::Failed(why) => {
            let field = place.field();
            Observation::Failed(Trouble::of_write(format!("{field}: {why}")))
        }
    }
}
