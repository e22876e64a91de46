//! An object that does not decode: say so on that object alone; all others go on.

use super::{Context, objects::Shown, writes};
use crate::{
    controllers::events::Severity,
    kinds::{
        BareMetalServer, Reason,
        conditions::{self, Type, Wanted},
    },
};
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde_json::json;

/// Tells of it in log, event and status, by what can be written without reading the object.
pub async fn report(ctx: &Context, shown: &Shown, error: &str) {
    let api: Api<DynamicObject> = Api::namespaced_with(
        ctx.client.clone(),
        &shown.namespace().unwrap_or_default(),
        &ApiResource::erase::<BareMetalServer>(&()),
    );
    // The watch's own error has no path; the object is read once more to find it.
    let found = match writes::bounded(api.get(&shown.name_any())).await {
        Ok(object) => defect(&object),
        Err(_) => None,
    };
    let error = found.unwrap_or_else(|| error.to_owned());
    tracing::warn!(
        namespace = shown.namespace(),
        name = shown.name_any(),
        error,
        "a server object does not decode"
    );
    let note = format!(
        "the object does not decode: {error}; correct the field, or apply the manifest again"
    );
    let reference = shown.object_ref(&());
    let reason = Reason::Undecodable;
    ctx.events
        .publish(Severity::Warning, reason, "Hold", &note, &reference)
        .await;
    write(&api, shown, &note).await;
}

/// Where the object does not decode, and why.
fn defect(object: &DynamicObject) -> Option<String> {
    let object = serde_json::to_value(object).ok()?;
    let read: Result<BareMetalServer, _> = serde_path_to_error::deserialize(&object);
    let error = read.err()?;
    Some(format!("{}: {}", error.path(), error.inner()))
}

async fn write(api: &Api<DynamicObject>, shown: &Shown, note: &str) {
    let generation = shown.meta().generation;
    let wanted = [
        Wanted::new(Type::Ready, false, Reason::Undecodable, note),
        Wanted::new(Type::Reconciling, false, Reason::Settled, ""),
        Wanted::new(Type::Stalled, true, Reason::Undecodable, note),
    ];
    let conditions = conditions::merge(&[], &wanted, generation, jiff::Timestamp::now());
    let patch = Patch::Merge(json!({
        "metadata": { "resourceVersion": shown.meta().resource_version },
        "status": { "conditions": conditions, "observedGeneration": generation },
    }));
    let params = PatchParams::default();
    if let Err(error) = writes::bounded(api.patch_status(&shown.name_any(), &params, &patch)).await
    {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "a status could not be written"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_defect_is_told_with_its_path() {
        let object = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": "n", "namespace": "n"},
            "spec": {"location": "l", "instanceType": "t", "os": "word"},
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let told = defect(&object).unwrap();
        assert!(told.starts_with("spec.os: "), "{told}");
    }
}
