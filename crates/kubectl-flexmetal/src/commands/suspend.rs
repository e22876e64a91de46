//! `suspend`, `resume` and `reconcile`: stop what the operator sends, let it go on, or ask it to read again.

use super::{reinstall::performed_revision, status::find, wait::describe_reason};
use crate::{
    ages,
    confirm::ChangeArgs,
    context::PluginContext,
    exit::{Exit, PluginError},
    object_changes::{ObjectChange, ObjectsArgs, make_changes, send_changes},
    object_wait::{AwaitedObject, Progress, wait_for_each},
    objects::Object,
};
use api::{Interval, conditions::Type, names::RECONCILE_REQUEST};
use serde_json::{Value, json};
use tokio::time::Instant;

/// Arguments of `suspend` and `resume`.
#[derive(Clone, Debug, clap::Args)]
pub struct SuspendArgs {
    #[command(flatten)]
    objects: ObjectsArgs,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Arguments of `reconcile`.
#[derive(Clone, Debug, clap::Args)]
pub struct ReconcileArgs {
    #[command(flatten)]
    objects: ObjectsArgs,
    /// Wait until the operator has read them
    #[arg(long)]
    wait: bool,
    /// How long to wait, such as 90s or 10m
    #[arg(long, default_value = "5m", value_name = "DURATION", requires = "wait")]
    timeout: Interval,
}

/// Suspends the objects, after a question.
pub async fn suspend(context: &PluginContext, args: SuspendArgs) -> Result<Exit, PluginError> {
    let objects = args.objects.get(context).await?;
    let mut changing = Vec::new();
    for object in &objects {
        match own_suspension(object)? {
            Some(true) => inform_unchanged(context, object, "is suspended already"),
            _ => changing.push(object),
        }
    }
    let consequences: Vec<_> = changing.iter().map(|it| describe_suspension(it)).collect();
    // Without a precondition: this must not fail because a status changes.
    let change = |object: &&Object| ObjectChange::new(object, suspend_patch(true), "suspended");
    let changes: Vec<_> = changing.iter().map(change).collect();
    change_all(context, args.change, &consequences, &changes).await
}

/// Resumes the objects, after a question.
pub async fn resume(context: &PluginContext, args: SuspendArgs) -> Result<Exit, PluginError> {
    let objects = args.objects.get(context).await?;
    let mut changing = Vec::new();
    for object in &objects {
        match is_suspended(object)? {
            true => changing.push(object),
            false => inform_unchanged(context, object, "is not suspended"),
        }
    }
    let consequences: Vec<_> = changing.iter().map(|it| describe_resumption(it)).collect();
    let change = |object: &&Object| ObjectChange::guarded(object, suspend_patch(false), "resumed");
    let changes: Vec<_> = changing.iter().map(change).collect();
    change_all(context, args.change, &consequences, &changes).await
}

/// Requests a reconcile of the objects. It only makes the operator read, so nobody is asked.
pub async fn reconcile(context: &PluginContext, args: ReconcileArgs) -> Result<Exit, PluginError> {
    let started = Instant::now();
    let objects = args.objects.get(context).await?;
    let request = ages::now().to_string();
    let change = |object| {
        let patch = json!({"metadata": {"annotations": {RECONCILE_REQUEST: request}}});
        ObjectChange::new(object, patch, "reconcile requested")
    };
    let changes: Vec<_> = objects.iter().map(change).collect();
    send_changes(context, &changes).await?;
    if args.wait {
        let awaited: Vec<_> = objects.iter().map(AwaitedObject::from_object).collect();
        let time = (started, args.timeout);
        let check = |object: Option<&Object>| check_request(&request, object);
        wait_for_each(context, &awaited, "reconciled", time, check).await?;
    }
    Ok(Exit::Fine)
}

fn check_request(request: &str, object: Option<&Object>) -> Progress {
    match object {
        None => Progress::Failed("it was deleted".to_owned()),
        Some(object) if object.handled_request() == Some(request) => Progress::Reached,
        Some(object) => Progress::Waiting(describe_reason(object)),
    }
}

async fn change_all(
    context: &PluginContext,
    args: ChangeArgs,
    consequences: &[String],
    changes: &[ObjectChange],
) -> Result<Exit, PluginError> {
    match changes {
        // As data, no changes are an empty list.
        [] => send_changes(context, changes).await.map(|()| Exit::Fine),
        changes => make_changes(context, args, consequences, changes).await,
    }
}

fn inform_unchanged(context: &PluginContext, object: &Object, why: &str) {
    context.printer.inform(&format!("{} {why}", object.title()));
}

fn suspend_patch(suspend: bool) -> Value {
    json!({"spec": {"suspend": suspend}})
}

/// `spec.suspend`, if it is set.
fn own_suspension(object: &Object) -> Result<Option<bool>, PluginError> {
    match object {
        Object::BareMetalServer(server) => Ok(server.spec.suspend),
        Object::DedicatedHost(host) => Ok(host.spec.suspend),
        other => match other.account_spec() {
            Some(account) => Ok(Some(account.suspend)),
            None => Err(PluginError::Usage(format!(
                "a {} cannot be suspended; suspend its account, or a server or host",
                other.kind().as_str()
            ))),
        },
    }
}

/// Whether it is suspended, by its own spec or by a default of its account.
fn is_suspended(object: &Object) -> Result<bool, PluginError> {
    let by_account = || {
        let condition = find(object.conditions(), Type::Suspended);
        condition.is_some_and(|condition| condition.status == "True")
    };
    Ok(own_suspension(object)?.unwrap_or_else(by_account))
}

fn describe_suspension(object: &Object) -> String {
    let stopped = match object {
        Object::BareMetalServer(_) => {
            "the operator sends no orders, changes or releases for it; its server is still billed"
        }
        Object::DedicatedHost(_) => "the operator sends no commands or installations for it",
        _ => {
            "the operator sends no orders, changes or releases through it; servers are still billed"
        }
    };
    format!("Suspend {}: {stopped}.", object.title())
}

/// What the operator does once the object is resumed; above all what erases data.
fn describe_resumption(object: &Object) -> String {
    let title = object.title();
    let mut effects = Vec::new();
    match object {
        Object::BareMetalServer(server) => {
            let status = server.status.clone().unwrap_or_default();
            let own = server.spec.policies();
            let is_retained = own.over(status.policies.unwrap_or_default()).retain();
            if object.deleted_at().is_some()
                && let Some(uuid) = &status.uuid
            {
                effects.push(match is_retained {
                    true => format!("its deletion retains server {uuid}"),
                    false => format!("its deletion releases server {uuid} and erases its disks"),
                });
            }
            let install = status.install.as_ref();
            let performed = install.map(|install| {
                performed_revision(
                    install.revision,
                    install.last.as_ref().map(|it| &it.install),
                )
            });
            effects.extend(describe_install(server.spec.install, performed));
        }
        Object::DedicatedHost(host) => {
            let install = host.status.as_ref().and_then(|it| it.install.as_ref());
            let performed =
                install.map(|install| performed_revision(install.revision, install.last.as_ref()));
            effects.extend(describe_install(host.spec.install, performed));
        }
        _ => effects
            .push("releases and re-installations that wait begin, and they erase disks".to_owned()),
    }
    match effects.is_empty() {
        true => format!("Resume {title}: the operator sends what waits."),
        false => format!("Resume {title}: {}.", effects.join("; ")),
    }
}

/// An installation that begins once the object is resumed.
fn describe_install(
    install: Option<api::install::Install>,
    performed: Option<i64>,
) -> Option<String> {
    let revision = install?.revision;
    (revision > performed?)
        .then(|| format!("re-installation {revision} begins and erases its disks"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{ObjectKind, decode};

    fn object(kind: ObjectKind, metadata: Value, spec: &Value, status: &Value) -> Object {
        let mut metadata = metadata;
        metadata["name"] = json!("web");
        metadata["resourceVersion"] = json!("7");
        let value = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": kind.as_str(),
            "metadata": metadata, "spec": spec, "status": status,
        });
        decode(kind, value).unwrap()
    }

    fn server(metadata: Value, spec: &Value, status: &Value) -> Object {
        object(ObjectKind::BareMetalServer, metadata, spec, status)
    }

    #[test]
    fn only_kinds_with_the_field_are_suspended() {
        let own = |kind, spec| own_suspension(&object(kind, json!({}), &spec, &json!({})));
        let suspended = json!({"suspend": true});
        assert_eq!(
            own(ObjectKind::BareMetalServer, suspended).unwrap(),
            Some(true)
        );
        assert_eq!(own(ObjectKind::BareMetalServer, json!({})).unwrap(), None);
        let error = own(ObjectKind::ServerTag, json!({})).unwrap_err();
        assert_eq!(error.exit(), Exit::Usage);
    }

    #[test]
    fn default_of_the_account_can_be_resumed() {
        let suspended = json!({"conditions": [{
            "type": "Suspended", "status": "True", "reason": "Suspended", "message": "",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }]});
        let is = |spec, status| is_suspended(&server(json!({}), &spec, &status)).unwrap();
        assert!(is(json!({}), suspended.clone()));
        assert!(!is(json!({"suspend": false}), suspended));
        assert!(!is(json!({}), json!({})));
    }

    #[test]
    fn only_resume_depends_on_what_was_shown() {
        let object = server(json!({}), &json!({}), &json!({}));
        let resumed = ObjectChange::guarded(&object, suspend_patch(false), "resumed");
        assert_eq!(
            *resumed.patch(),
            json!({"metadata": {"resourceVersion": "7"}, "spec": {"suspend": false}})
        );
        let suspended = ObjectChange::new(&object, suspend_patch(true), "suspended");
        assert_eq!(*suspended.patch(), json!({"spec": {"suspend": true}}));
    }

    #[test]
    fn resume_says_what_erases_disks() {
        let status = json!({"uuid": "u-1", "install": {"revision": 1}});
        let describe = |metadata, spec| describe_resumption(&server(metadata, &spec, &status));
        let idle = describe(json!({}), json!({"install": {"revision": 1}}));
        assert!(idle.ends_with("sends what waits."), "{idle}");
        let install = describe(json!({}), json!({"install": {"revision": 2}}));
        assert!(install.contains("re-installation 2 begins"), "{install}");
        let deleted = json!({"deletionTimestamp": "1970-01-01T00:00:00Z"});
        let release = describe(deleted, json!({}));
        assert!(
            release.contains("releases server u-1 and erases"),
            "{release}"
        );
    }

    #[test]
    fn request_is_handled_once_status_repeats_it() {
        let of = |handled: &str| {
            let status = json!({"lastHandledReconcileAt": handled});
            check_request("now", Some(&server(json!({}), &json!({}), &status)))
        };
        assert_eq!(of("now"), Progress::Reached);
        assert!(matches!(of("then"), Progress::Waiting(_)));
        assert!(matches!(check_request("now", None), Progress::Failed(_)));
    }
}
