//! `power`: creates ServerCommands.

use super::{
    status::find,
    wait::{check_progress, describe_reason},
};
use crate::{
    commands::{import::render_yaml, wait::Goal},
    confirm::ChangeArgs,
    context::{PluginContext, api_error},
    exit::{Exit, PluginError},
    object_changes::{FIELD_MANAGER, NOTHING_DONE, ObjectsArgs},
    object_wait::{AwaitedObject, Progress, wait_for_each},
    objects::{Object, ObjectKind},
    output::OutputForm,
};
use api::{
    Interval, ServerCommand,
    command::{PowerAction, ServerCommandSpec},
    conditions::Type,
    target::{TargetKind, TargetRef},
};
use flexmetal_core::command::adoption::explain_missing_adoption;
use kube::api::PostParams;
use tokio::time::Instant;

/// How long a command stays after its end.
const KEPT_SECONDS: i32 = 86_400;

/// Arguments of `power`.
#[derive(Clone, Debug, clap::Args)]
pub struct PowerArgs {
    /// What to do
    #[arg(value_enum)]
    action: Action,
    #[command(flatten)]
    objects: ObjectsArgs,
    /// Wait until the commands have ended
    #[arg(long)]
    wait: bool,
    /// How long to wait, such as 90s or 10m
    #[arg(
        long,
        default_value = "30m",
        value_name = "DURATION",
        requires = "wait"
    )]
    timeout: Interval,
    #[command(flatten)]
    change: ChangeArgs,
}

/// What is done to a server or host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Action {
    /// Switch it on
    On,
    /// Switch it off at once
    Off,
    /// Restart it
    Reboot,
    /// Let its operating system shut down; not for a DedicatedHost
    Shutdown,
}

impl Action {
    fn to_api(self) -> PowerAction {
        match self {
            Self::On => PowerAction::PowerOn,
            Self::Off => PowerAction::PowerOff,
            Self::Reboot => PowerAction::Reboot,
            Self::Shutdown => PowerAction::Shutdown,
        }
    }

    /// The middle of the names of such commands.
    fn as_str(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Reboot => "reboot",
            Self::Shutdown => "shutdown",
        }
    }
}

/// Creates a command for each server or host, after a question.
pub async fn run(context: &PluginContext, args: PowerArgs) -> Result<Exit, PluginError> {
    for (kind, name) in args.objects.parse()? {
        check_target(args.action, kind, &name)?;
    }
    let targets = args.objects.get(context).await?;
    let mut commands = Vec::new();
    for target in &targets {
        commands.push(build_command(args.action, target)?);
    }
    let printer = &context.printer;
    let consequence = describe_consequence(args.action, &targets);
    if args.change.dry_run {
        printer.inform(&consequence);
        print_manifests(context, &commands)?;
        return Ok(Exit::Attention);
    }
    if !args.change.confirm(&consequence)? {
        printer.inform(NOTHING_DONE);
        return Ok(Exit::Error);
    }
    let created = create_commands(context, commands).await?;
    if !args.wait {
        return Ok(Exit::Fine);
    }
    let time = (Instant::now(), args.timeout);
    wait_for_each(context, &created, "complete", time, check_command).await?;
    Ok(Exit::Fine)
}

/// Refuses what has no such command.
fn check_target(action: Action, kind: ObjectKind, name: &str) -> Result<TargetKind, PluginError> {
    match (kind, action) {
        (ObjectKind::DedicatedHost, Action::Shutdown) => Err(PluginError::Usage(format!(
            "DedicatedHost {name} has no shutdown; use power off"
        ))),
        (ObjectKind::DedicatedHost, _) => Ok(TargetKind::DedicatedHost),
        (ObjectKind::BareMetalServer, _) => Ok(TargetKind::BareMetalServer),
        (other, _) => Err(PluginError::Usage(format!(
            "{} {name} has no power; use a BareMetalServer or a DedicatedHost",
            other.as_str()
        ))),
    }
}

fn build_command(action: Action, target: &Object) -> Result<ServerCommand, PluginError> {
    let kind = check_target(action, target.kind(), target.name())?;
    if target.deleted_at().is_some() {
        return Err(PluginError::Other(format!(
            "{} is being deleted, so no command is sent to it",
            target.title()
        )));
    }
    if let Object::BareMetalServer(server) = target
        && let Some(why) = explain_missing_adoption(server)
    {
        return Err(PluginError::Other(why));
    }
    let spec = ServerCommandSpec {
        target_ref: TargetRef {
            kind: Some(kind),
            name: target.name().to_owned(),
        },
        action: action.to_api(),
        timeout: None,
        escalate_after: None,
        ttl_seconds_after_finished: Some(KEPT_SECONDS),
    };
    let mut command = ServerCommand::new("", spec);
    command.metadata.name = None;
    command.metadata.namespace = target.namespace().map(str::to_owned);
    command.metadata.generate_name = Some(format!("{}-{}-", target.name(), action.as_str()));
    Ok(command)
}

fn describe_consequence(action: Action, targets: &[Object]) -> String {
    let titles: Vec<_> = targets.iter().map(Object::title).collect();
    let titles = titles.join(", ");
    match action {
        Action::On => format!("Switch on {titles}."),
        Action::Off => format!(
            "Switch off {titles} at once, which can lose data that is not on disk; billing goes on."
        ),
        Action::Reboot => format!("Reboot {titles}, which interrupts what runs there."),
        Action::Shutdown => {
            format!("Shut down {titles}, which ends what runs there; billing goes on.")
        }
    }
}

fn print_manifests(context: &PluginContext, commands: &[ServerCommand]) -> Result<(), PluginError> {
    let printer = &context.printer;
    if printer.form == OutputForm::Json {
        return printer.data(&commands);
    }
    let mut documents = Vec::new();
    for command in commands {
        let value = serde_json::to_value(command)
            .map_err(|error| PluginError::Other(format!("no JSON: {error}")))?;
        documents.push(render_yaml(&value)?);
    }
    printer.text(&documents.join("---\n"))
}

/// Creates the commands in their order, and prints each that was created, also if a later one fails.
async fn create_commands(
    context: &PluginContext,
    commands: Vec<ServerCommand>,
) -> Result<Vec<AwaitedObject>, PluginError> {
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let mut created = Vec::new();
    let mut failure = None;
    for command in commands {
        let name = &command.spec.target_ref.name;
        match context.api().create(&params, &command).await {
            Ok(command) => created.push(command),
            Err(error) => {
                let act = format!("create the ServerCommand for {name}");
                failure = Some(api_error(act, error));
                break;
            }
        }
    }
    print_created(context, &created)?;
    match failure {
        Some(error) => Err(error),
        None => Ok(created
            .into_iter()
            .map(|command| AwaitedObject::from_object(&command.into()))
            .collect()),
    }
}

fn print_created(context: &PluginContext, created: &[ServerCommand]) -> Result<(), PluginError> {
    let printer = &context.printer;
    let is_name = printer.form == OutputForm::Name;
    if !is_name && !printer.is_table() {
        return printer.data(&created);
    }
    let ending = if is_name { "" } else { " created" };
    let lines = created.iter().map(|command| {
        let name = command.metadata.name.as_deref().unwrap_or_default();
        ObjectKind::ServerCommand.resource_name(name) + ending + "\n"
    });
    printer.text(&lines.collect::<String>())
}

/// A command ends like a Job: it is Complete or Failed.
fn check_command(object: Option<&Object>) -> Progress {
    let Some(command) = object else {
        return check_progress(Goal::Ready, None);
    };
    let is_true = |kind| find(command.conditions(), kind).filter(|it| it.status == "True");
    if is_true(Type::Complete).is_some() {
        return Progress::Reached;
    }
    match is_true(Type::Failed) {
        Some(failed) => Progress::Failed(format!("{}: {}", failed.reason, failed.message)),
        None => Progress::Waiting(describe_reason(command)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::decode;
    use serde_json::{Value, json};

    fn target(kind: ObjectKind, deleted: bool) -> Object {
        let mut metadata = json!({"name": "web.x", "namespace": "a"});
        if deleted {
            metadata["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
        }
        let value = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": kind.as_str(),
            "metadata": metadata, "spec": {"hostID": 1},
        });
        decode(kind, value).unwrap()
    }

    fn command(conditions: &Value) -> Object {
        let value = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
            "metadata": {"name": "web-off-1"},
            "spec": {"targetRef": {"name": "web"}, "action": "PowerOff"},
            "status": {"conditions": conditions},
        });
        decode(ObjectKind::ServerCommand, value).unwrap()
    }

    #[test]
    fn command_names_its_target_and_action() {
        let built = build_command(Action::Off, &target(ObjectKind::DedicatedHost, false)).unwrap();
        let value = serde_json::to_value(built).unwrap();
        assert_eq!(
            value["metadata"],
            json!({"generateName": "web.x-off-", "namespace": "a"})
        );
        assert_eq!(
            value["spec"],
            json!({
                "targetRef": {"kind": "DedicatedHost", "name": "web.x"}, "action": "PowerOff",
                "ttlSecondsAfterFinished": 86400,
            })
        );
    }

    #[test]
    fn targets_without_such_a_command_are_refused() {
        use ObjectKind::{BareMetalServer, DedicatedHost, ServerTag};
        let exit = |action, kind, deleted| {
            let built = build_command(action, &target(kind, deleted));
            built.map_err(|error| error.exit()).err()
        };
        assert_eq!(exit(Action::Shutdown, BareMetalServer, false), None);
        assert_eq!(
            exit(Action::Shutdown, DedicatedHost, false),
            Some(Exit::Usage)
        );
        assert_eq!(exit(Action::Off, BareMetalServer, true), Some(Exit::Error));
        let tag = check_target(Action::On, ServerTag, "x").unwrap_err();
        assert_eq!(tag.exit(), Exit::Usage);
    }

    #[test]
    fn unadopted_server_gets_no_command() {
        let value = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": "web", "namespace": "a"}, "spec": {"externalID": "u-1"},
        });
        let imported = decode(ObjectKind::BareMetalServer, value).unwrap();
        let error = build_command(Action::Reboot, &imported).unwrap_err();
        assert!(error.to_string().contains("not adopted its server yet"));
    }

    #[test]
    fn command_ends_complete_or_failed() {
        let of = |kind: &str| {
            check_command(Some(&command(&json!([{
                "type": kind, "status": "True", "reason": "NotRepeated", "message": "words",
                "lastTransitionTime": "1970-01-01T00:00:00Z",
            }]))))
        };
        assert_eq!(of("Complete"), Progress::Reached);
        assert_eq!(of("Failed"), Progress::Failed("NotRepeated: words".into()));
        assert!(matches!(of("Reconciling"), Progress::Waiting(_)));
        assert!(matches!(check_command(None), Progress::Failed(_)));
    }
}
