//! `rescue`: keeps the server of a deleted object, and creates the object again. The server's order tag is of the
//! namespace and the name, so the new object takes it back and orders nothing.

mod plan;

use super::{
    import::render_yaml,
    wait::{Goal, check_progress},
};
use crate::{
    ages,
    confirm::ChangeArgs,
    context::{ListScope, PluginContext, api_error},
    exit::{Exit, PluginError},
    object_changes::{FIELD_MANAGER, MOST_TRIES, NOTHING_DONE, ObjectChange, is_conflict},
    object_wait::{AwaitedObject, Progress, wait_until},
    objects::{Object, ObjectArgs, ObjectKind},
    output::OutputForm,
};
use api::{BareMetalServer, Interval};
use kube::{
    Api,
    api::{DynamicObject, PostParams},
};
use plan::{RescuePlan, build_plan, find_end};
use serde_json::{Value, json};
use std::{fs, io::ErrorKind};
use tokio::time::Instant;

/// Arguments of `rescue`.
#[derive(Clone, Debug, clap::Args)]
pub struct RescueArgs {
    /// Name of the BareMetalServer
    name: String,
    /// How long each of the two waits may take: until the object is gone, and until the new one is ready
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    timeout: Interval,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Keeps the server, and creates the object again.
pub async fn run(context: &PluginContext, args: RescueArgs) -> Result<Exit, PluginError> {
    let printer = &context.printer;
    let named = ObjectArgs {
        name: args.name,
        kind: Some(ObjectKind::BareMetalServer),
    };
    let (_, name) = named.parse()?;
    let kind = ObjectKind::BareMetalServer;
    let objects = kind.objects(context, Some(&context.namespace));
    let plan = read_plan(context, &objects, &named).await?;
    let (title, uuid) = (plan.object.title(), &plan.uuid);
    refuse_other_owner(context, name, uuid).await?;
    let text = render_yaml(&plan.manifest)?;
    let mut consequence = format!(
        "Keep server {uuid} ({}), which stays billed: let {title} go without it, and create the object again.",
        plan.hostname
    );
    for difference in &plan.differences {
        consequence += &format!(" The new object differs: {difference}.");
    }
    if args.change.dry_run {
        printer.inform(&consequence);
        match printer.form {
            OutputForm::Json => printer.data(&plan.manifest)?,
            _ => printer.text(&text)?,
        }
        return Ok(Exit::Attention);
    }
    if !args.change.confirm(&consequence)? {
        printer.inform(NOTHING_DONE);
        return Ok(Exit::Error);
    }
    let file = format!("{name}-rescued.yaml");
    save(&file, &text)?;
    printer.inform(&format!("The manifest is in {file}"));
    let saved = plan.manifest.clone();
    let plan = keep_server(context, &objects, &named, plan).await?;
    if plan.manifest != saved {
        write_file(&file, &render_yaml(&plan.manifest)?)?;
    }
    let resume = format!(
        "If this is interrupted, wait until {title} is gone, and run: kubectl apply -f {file}"
    );
    printer.warn(&resume);
    wait_until_gone(context, &plan, &file, args.timeout).await?;
    printer.inform(&format!("{title} is gone, and its server stays"));
    let awaited = create_again(context, &objects, name, &plan.manifest).await;
    let awaited = awaited.inspect_err(|_| {
        printer.warn(&format!("Its server stays. Run: kubectl apply -f {file}"));
    })?;
    let time = (Instant::now(), args.timeout);
    let check = |object: Option<&Object>| check_progress(Goal::Ready, object);
    wait_until(context, &awaited, "ready", time, check).await?;
    let server: BareMetalServer = context.get(name).await?;
    let now = server.status.unwrap_or_default().uuid.unwrap_or_default();
    if !now.eq_ignore_ascii_case(&plan.uuid) {
        return Err(PluginError::Other(format!(
            "{title} is ready with server {now}, not with {uuid}; look at both with kubectl flexmetal servers --all",
            uuid = plan.uuid
        )));
    }
    match printer.form {
        OutputForm::Name => printer.text(&(kind.resource_name(name) + "\n"))?,
        _ if !printer.is_table() => printer.data(&json!({
            "kind": kind.as_str(), "namespace": context.namespace, "name": name,
            "uuid": now, "file": file,
        }))?,
        _ => printer.inform(&format!("{title} is ready, with server {now}")),
    }
    Ok(Exit::Fine)
}

/// Reads the object as the API server has it, with fields that this version does not know.
async fn read_plan(
    context: &PluginContext,
    objects: &Api<DynamicObject>,
    named: &ObjectArgs,
) -> Result<RescuePlan, PluginError> {
    let (_, name) = named.parse()?;
    let found = objects.get_opt(name).await;
    let found = found.map_err(|error| api_error(format!("read BareMetalServer {name}"), error))?;
    let found = found.ok_or_else(|| named.not_found(context))?;
    let value = serde_json::to_value(&found);
    let plan = value.map_err(|error| PluginError::Other(error.to_string()));
    build_plan(&plan?, ages::now())
}

/// Another object that adopts the server would get it first, and the new object would order another one.
async fn refuse_other_owner(
    context: &PluginContext,
    name: &str,
    uuid: &str,
) -> Result<(), PluginError> {
    let scope = ListScope {
        namespace: Some(context.namespace.clone()),
        selector: None,
    };
    let servers: Vec<BareMetalServer> = context.list(&scope).await?;
    let adopts = |server: &&BareMetalServer| {
        let id = server.spec.external_id.as_deref();
        server.metadata.name.as_deref() != Some(name)
            && id.is_some_and(|id| id.eq_ignore_ascii_case(uuid))
    };
    match servers.into_iter().find(|server| adopts(&server)) {
        None => Ok(()),
        Some(other) => Err(PluginError::Other(format!(
            "{} adopts server {uuid} (spec.externalID), so {name} is not created again",
            Object::from(other).title()
        ))),
    }
}

/// Saves the manifest. A file with another content stays as it is.
fn save(file: &str, text: &str) -> Result<(), PluginError> {
    match fs::read_to_string(file) {
        Ok(existing) if existing == text => Ok(()),
        Ok(_) => Err(PluginError::Usage(format!(
            "{file} exists with another content; move it away"
        ))),
        Err(error) if error.kind() == ErrorKind::NotFound => write_file(file, text),
        Err(source) => Err(file_error(file, source)),
    }
}

fn write_file(file: &str, text: &str) -> Result<(), PluginError> {
    fs::write(file, text).map_err(|source| file_error(file, source))
}

fn file_error(file: &str, source: std::io::Error) -> PluginError {
    PluginError::File {
        path: file.to_owned(),
        source,
    }
}

/// Lets the object go without its server. The precondition proves that no release was recorded before.
async fn keep_server(
    context: &PluginContext,
    objects: &Api<DynamicObject>,
    named: &ObjectArgs,
    mut plan: RescuePlan,
) -> Result<RescuePlan, PluginError> {
    for tries in 1.. {
        if plan.edit.is_empty() {
            break;
        }
        let patch = json!({"spec": plan.edit});
        match ObjectChange::guarded(&plan.object, patch, "")
            .send(context)
            .await
        {
            Ok(()) => {
                let fields: Vec<_> = plan.edit.keys().map(String::as_str).collect();
                let fields = fields.join(", ");
                let title = plan.object.title();
                context.printer.inform(&format!("Set {fields} of {title}"));
                break;
            }
            Err(PluginError::ApiServer { source, .. })
                if is_conflict(&source) && tries < MOST_TRIES =>
            {
                let uuid = plan.uuid.clone();
                plan = read_plan(context, objects, named).await?;
                if plan.uuid != uuid {
                    return Err(PluginError::Other(format!(
                        "{} has another server now; run the command again",
                        plan.object.title()
                    )));
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(plan)
}

/// Waits until the object is gone. An error if its server went, too: the manifest would then order another one.
async fn wait_until_gone(
    context: &PluginContext,
    plan: &RescuePlan,
    file: &str,
    timeout: Interval,
) -> Result<(), PluginError> {
    let awaited = AwaitedObject::from_object(&plan.object);
    let time = (Instant::now(), timeout);
    let mut end = None;
    let check = |object: Option<&Object>| {
        if let Some(object) = object {
            end = find_end_of(object);
        }
        match &end {
            Some(why) => Progress::Failed(format!(
                "{why}, so it is not created again; {file} would order another server"
            )),
            None => check_progress(Goal::Released, object),
        }
    };
    wait_until(context, &awaited, "gone", time, check).await
}

fn find_end_of(object: &Object) -> Option<String> {
    match object {
        Object::BareMetalServer(server) => find_end(object, server.status.as_ref()?),
        _ => None,
    }
}

/// Creates the object, unless another client did already.
async fn create_again(
    context: &PluginContext,
    objects: &Api<DynamicObject>,
    name: &str,
    manifest: &Value,
) -> Result<AwaitedObject, PluginError> {
    let object: DynamicObject = serde_json::from_value(manifest.clone())
        .map_err(|error| PluginError::Other(error.to_string()))?;
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let title = format!("BareMetalServer {}/{name}", context.namespace);
    match objects.create(&params, &object).await {
        Ok(_) => context.printer.inform(&format!("Created {title}")),
        Err(error) if is_conflict(&error) => {
            let note = format!("Another client has created {title}");
            context.printer.inform(&note);
        }
        Err(error) => return Err(api_error(format!("create {title}"), error)),
    }
    let server: BareMetalServer = context.get(name).await?;
    Ok(AwaitedObject::from_object(&server.into()))
}
