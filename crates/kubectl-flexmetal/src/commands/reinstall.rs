//! `reinstall`: raises `spec.install.revision`, which installs a server again.

use super::{
    status::{find, message_of},
    wait::{Goal, check_progress},
};
use crate::{
    account_client::{AccountArgs, NamedAccount},
    confirm::ChangeArgs,
    context::PluginContext,
    exit::{Exit, PluginError},
    object_changes::{NOTHING_DONE, ObjectChange, make_changes},
    object_wait::{AwaitedObject, Progress, wait_until},
    objects::{Object, ObjectArgs, ObjectKind},
};
use api::{
    BareMetalServer, Interval, Reason,
    catalog::Catalog,
    command::CommandOutcome,
    conditions::Type,
    install::{InstallEnd, LastInstall},
    references::PinnedAccount,
    server::BareMetalServerStatus,
};
use hosting_types::ServerStatus;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Arguments of `reinstall`.
#[derive(Clone, Debug, clap::Args)]
pub struct ReinstallArgs {
    /// Name of the BareMetalServer
    name: String,
    /// System to install, a slug of `catalog systems`; default: the one of the spec
    #[arg(long, value_name = "SLUG")]
    os: Option<String>,
    /// Wait until the server is installed and ready
    #[arg(long)]
    wait: bool,
    /// How long to wait, such as 45m or 1h30m
    #[arg(
        long,
        default_value = "45m",
        value_name = "DURATION",
        requires = "wait"
    )]
    timeout: Interval,
    #[command(flatten)]
    change: ChangeArgs,
}

/// What is sent, and what it means.
struct ReinstallPlan {
    revision: i64,
    consequence: String,
    patch: Value,
}

/// Installs the server again, after its name was typed.
pub async fn run(context: &PluginContext, args: ReinstallArgs) -> Result<Exit, PluginError> {
    let named = ObjectArgs {
        name: args.name,
        kind: Some(ObjectKind::BareMetalServer),
    };
    let (_, name) = named.parse()?;
    let server: BareMetalServer = context.get(name).await?;
    let object = Object::from(server.clone());
    if let Some((slug, account)) = args.os.as_ref().zip(object.account()) {
        check_system(context, slug, &account).await?;
    }
    let reinstall = plan_reinstall(&server, args.os.as_deref())?;
    let revision = reinstall.revision;
    let done = format!("re-installation {revision} requested");
    let change = ObjectChange::guarded(&object, reinstall.patch, done);
    let asked = args.change;
    if !asked.dry_run && !asked.confirm_by_name(&reinstall.consequence, name)? {
        context.printer.inform(NOTHING_DONE);
        return Ok(Exit::Error);
    }
    let started = Instant::now();
    let asked = ChangeArgs { yes: true, ..asked };
    let exit = make_changes(context, asked, &[reinstall.consequence], &[change]).await?;
    if args.wait && exit == Exit::Fine {
        let awaited = AwaitedObject::from_object(&object);
        let time = (started, args.timeout);
        let check = |object: Option<&Object>| check_install(revision, object);
        wait_until(context, &awaited, "re-installed", time, check).await?;
        let title = object.title();
        context.printer.inform(&format!("{title} is re-installed"));
    }
    Ok(exit)
}

/// Refuses a system that the account does not offer. Without a complete catalog in its status the operator judges.
async fn check_system(
    context: &PluginContext,
    slug: &str,
    account: &PinnedAccount,
) -> Result<(), PluginError> {
    let args = AccountArgs::from_reference(account);
    let Ok(account) = NamedAccount::get(context, &args).await else {
        return Ok(());
    };
    let catalog = account.status.catalog.unwrap_or_default();
    match is_unknown_system(&catalog, slug) {
        true => Err(PluginError::Usage(format!(
            "unknown system {slug:?} for spec.os.slug; set --os to one that {} offers: kubectl flexmetal catalog systems",
            account.title
        ))),
        false => Ok(()),
    }
}

fn is_unknown_system(catalog: &Catalog, slug: &str) -> bool {
    let is_complete = catalog.omitted == 0 && !catalog.systems.is_empty();
    is_complete && catalog.systems.iter().all(|it| it.slug != slug)
}

/// The highest revision that was or may have been performed. The operator sends none of them again.
pub fn performed_revision(revision: i64, last: Option<&LastInstall>) -> i64 {
    let sent = last.filter(|last| last.outcome != Some(CommandOutcome::NotSent));
    sent.map_or(revision, |last| revision.max(last.revision))
}

/// The change, or why the operator would not install the server now.
fn plan_reinstall(
    server: &BareMetalServer,
    os: Option<&str>,
) -> Result<ReinstallPlan, PluginError> {
    let title = Object::from(server.clone()).title();
    let status = server.status.clone().unwrap_or_default();
    if server.spec.os.is_none() && os.is_none() {
        return Err(PluginError::Usage(format!(
            "{title} has no spec.os; add --os with the system to install"
        )));
    }
    let performed = find_performed(server, &status)
        .map_err(|why| PluginError::Other(format!("{title} is not re-installed: {why}")))?;
    let revision = performed.saturating_add(1);
    let spec_os = server.spec.os.as_ref().map(|os| os.slug.as_str());
    let uuid = status.uuid.as_deref().unwrap_or_default();
    let hostname = status.hostname.as_deref().unwrap_or("no host name");
    let consequence = format!(
        "Install {} on {title}, server {uuid} ({hostname}), which erases all data on its disks for good.",
        os.or(spec_os).unwrap_or_default()
    );
    let mut patch = json!({"spec": {"install": {"revision": revision}}});
    if let Some(slug) = os {
        patch["spec"]["os"] = json!({"slug": slug});
    }
    Ok(ReinstallPlan {
        revision,
        consequence,
        patch,
    })
}

/// The highest revision that counts as performed. The error: why no higher one would begin now. A revision that only
/// waits would erase the disks later, when nobody expects it.
fn find_performed(server: &BareMetalServer, status: &BareMetalServerStatus) -> Result<i64, String> {
    if server.metadata.deletion_timestamp.is_some() {
        return Err("it is being deleted".to_owned());
    }
    let own = server.spec.policies();
    let policies = own.over(status.policies.unwrap_or_default());
    if policies.deletion_protection {
        return Err("it is protected; set spec.deletionProtection to false first".to_owned());
    }
    let is_suspended = find(&status.conditions, Type::Suspended);
    if policies.suspend || is_suspended.is_some_and(|it| it.status == "True") {
        return Err("it is suspended; resume it first".to_owned());
    }
    if policies.observe_only() {
        return Err("it is only observed; set spec.managementPolicy to Full first".to_owned());
    }
    let provider_status = status.provider_status.as_deref().unwrap_or("not known");
    let is_delivered = ServerStatus::parse(provider_status) == ServerStatus::Delivered;
    let install = status.install.as_ref().filter(|_| is_delivered);
    let Some(install) = install else {
        return Err(format!(
            "its server is not delivered (provider status: {provider_status}), and a revision set before that installs nothing"
        ));
    };
    let last = install.last.as_ref().map(|last| &last.install);
    let performed = performed_revision(install.revision, last);
    if let Some(last) = last.filter(|last| last.result.is_none())
        && last.outcome != Some(CommandOutcome::NotSent)
    {
        return Err(format!("re-installation {} is under way", last.revision));
    }
    let wanted = server.spec.install.map_or(0, |install| install.revision);
    if wanted > performed {
        return Err(format!(
            "re-installation {wanted} is requested already, and waits: {}",
            message_of_synced(status)
        ));
    }
    Ok(performed)
}

fn message_of_synced(status: &BareMetalServerStatus) -> String {
    let synced = find(&status.conditions, Type::Synced).filter(|it| it.status == "False");
    let message = synced.map(|synced| message_of(&status.conditions, synced));
    message.unwrap_or_else(|| "the operator has not started it".to_owned())
}

/// How far the re-installation is.
fn check_install(revision: i64, object: Option<&Object>) -> Progress {
    let progress = check_progress(Goal::Ready, object);
    let Some(Object::BareMetalServer(server)) = object else {
        return progress;
    };
    let status = server.status.clone().unwrap_or_default();
    let last = status.install.as_ref().and_then(|it| it.last.as_ref());
    let last = last.map(|last| &last.install);
    let ended = last.filter(|last| last.revision >= revision && last.result.is_some());
    match (ended, progress) {
        (Some(last), progress) if last.result == Some(InstallEnd::Finished) => progress,
        (Some(last), _) => Progress::Failed(describe_end(last)),
        // It is Ready until the operator starts.
        (None, Progress::Reached) => {
            let message = message_of_synced(&status);
            match needs_user(server, &status) {
                true => Progress::Failed(format!(
                    "re-installation {revision} waits: {message}. To withdraw it, set spec.install.revision below {revision}"
                )),
                false => Progress::Waiting(message),
            }
        }
        (None, progress) => progress,
    }
}

/// Whether the operator cannot start without the user.
fn needs_user(server: &BareMetalServer, status: &BareMetalServerStatus) -> bool {
    let synced = find(&status.conditions, Type::Synced)
        .filter(|it| it.status == "False" && it.observed_generation == server.metadata.generation);
    let reason = synced.and_then(|synced| Reason::parse(&synced.reason));
    matches!(
        reason,
        Some(Reason::InvalidSpec | Reason::NotAllowed | Reason::RequestRefused)
    )
}

fn describe_end(last: &LastInstall) -> String {
    let result = last.result.map(|result| format!("{result:?}"));
    let result = result.unwrap_or_default();
    let message = last.message.as_deref().unwrap_or("no reason given");
    format!(
        "re-installation {} ended as {result}: {message}",
        last.revision
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A delivered server at revision 1, with these changes.
    fn server(spec: &Value, status: &Value) -> BareMetalServer {
        let mut value = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": "web", "namespace": "a", "generation": 2},
            "spec": {"os": {"slug": "debian-13"}},
            "status": {
                "uuid": "u-1", "hostname": "web.example.com", "providerStatus": "delivered",
                "install": {"revision": 1},
            },
        });
        for (part, changes) in [("spec", spec), ("status", status)] {
            for (field, change) in changes.as_object().unwrap() {
                value[part][field] = change.clone();
            }
        }
        serde_json::from_value(value).unwrap()
    }

    fn ready(status: &str) -> Value {
        json!([{
            "type": "Ready", "status": status, "reason": "Reinstalling", "message": "words",
            "observedGeneration": 2, "lastTransitionTime": "1970-01-01T00:00:00Z",
        }])
    }

    fn last(result: Option<&str>) -> Value {
        let mut last = json!({"revision": 2, "outcome": "Accepted", "message": "words"});
        if let Some(result) = result {
            last["result"] = json!(result);
        }
        json!({"revision": 1, "last": last})
    }

    #[test]
    fn next_revision_and_system_are_one_patch() {
        let plan = plan_reinstall(&server(&json!({}), &json!({})), Some("talos-1")).unwrap();
        assert_eq!(
            plan.patch,
            json!({"spec": {"install": {"revision": 2}, "os": {"slug": "talos-1"}}})
        );
        for part in ["talos-1", "u-1", "web.example.com", "erases all data"] {
            assert!(plan.consequence.contains(part), "{}", plan.consequence);
        }
        let after_failure = server(
            &json!({"install": {"revision": 2}}),
            &json!({"install": last(Some("Failed"))}),
        );
        let plan = plan_reinstall(&after_failure, None).unwrap();
        assert_eq!(plan.patch, json!({"spec": {"install": {"revision": 3}}}));
    }

    #[test]
    fn revision_that_would_wait_is_refused() {
        let none = json!({});
        let cases = [
            (json!({"suspend": true}), none.clone(), "suspended"),
            (
                json!({"deletionProtection": true}),
                none.clone(),
                "protected",
            ),
            (
                json!({"managementPolicy": "ObserveOnly"}),
                none.clone(),
                "observed",
            ),
            (
                json!({"install": {"revision": 2}}),
                none.clone(),
                "requested already",
            ),
            (
                none.clone(),
                json!({"providerStatus": "provisioning"}),
                "not delivered",
            ),
            (none.clone(), json!({"install": null}), "not delivered"),
            (none.clone(), json!({"install": last(None)}), "under way"),
            (none, json!({"policies": {"suspend": true}}), "suspended"),
        ];
        for (spec, status, why) in cases {
            let Err(error) = plan_reinstall(&server(&spec, &status), None) else {
                panic!("not refused: {why}");
            };
            assert_eq!(error.exit(), Exit::Error);
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    #[test]
    fn only_a_complete_catalog_refuses_systems() {
        let catalog = |slugs: &[&str], omitted| Catalog {
            systems: slugs
                .iter()
                .map(|slug| serde_json::from_value(json!({"slug": slug, "name": ""})).unwrap())
                .collect(),
            omitted,
            ..Catalog::default()
        };
        for (slugs, omitted, expected) in [
            (&["debian-13"][..], 0, false),
            (&["talos-1"], 0, true),
            (&["talos-1"], 1, false),
            (&[], 0, false),
        ] {
            let found = is_unknown_system(&catalog(slugs, omitted), "debian-13");
            assert_eq!(found, expected, "{slugs:?} {omitted}");
        }
    }

    #[test]
    fn system_is_needed() {
        let Err(error) = plan_reinstall(&server(&json!({"os": null}), &json!({})), None) else {
            panic!("nothing to install");
        };
        assert_eq!(error.exit(), Exit::Usage);
    }

    #[test]
    fn installation_is_over_once_finished_and_ready() {
        let check = |install: Value, conditions: Value| {
            let status = json!({"install": install, "conditions": conditions});
            check_install(2, Some(&server(&json!({}), &status).into()))
        };
        let before = json!({"revision": 1});
        assert!(matches!(check(before, ready("True")), Progress::Waiting(_)));
        assert!(matches!(
            check(last(None), ready("False")),
            Progress::Waiting(_)
        ));
        assert!(matches!(
            check(last(Some("Finished")), ready("False")),
            Progress::Waiting(_)
        ));
        assert_eq!(
            check(last(Some("Finished")), ready("True")),
            Progress::Reached
        );
        let mut blocked = ready("True");
        blocked[0]["type"] = json!("Synced");
        blocked[0]["status"] = json!("False");
        blocked[0]["reason"] = json!("InvalidSpec");
        let blocked = json!([blocked[0], ready("True")[0]]);
        assert!(matches!(
            check(json!({"revision": 1}), blocked),
            Progress::Failed(_)
        ));
        let failed = check(last(Some("Refused")), ready("True"));
        assert_eq!(
            failed,
            Progress::Failed("re-installation 2 ended as Refused: words".into())
        );
    }
}
