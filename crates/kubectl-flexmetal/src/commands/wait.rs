//! `wait`: until an object is ready, or gone.

use crate::{
    ages::shorten,
    commands::status::{find, findings::find_state},
    context::PluginContext,
    exit::{Exit, PluginError},
    object_wait::{AwaitedObject, Progress, wait_until},
    objects::{Object, ObjectArgs},
    output::OutputForm,
};
use api::{Interval, conditions::Type};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use std::time::Duration;
use tokio::time::Instant;

/// Arguments of `wait`.
#[derive(Clone, Debug, clap::Args)]
pub struct WaitArgs {
    #[command(flatten)]
    object: ObjectArgs,
    /// What to wait for
    #[arg(long = "for", value_enum, value_name = "STATE")]
    goal: Goal,
    /// How long, such as 45m or 1h30m
    #[arg(long, default_value = "45m", value_name = "DURATION")]
    timeout: Interval,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Goal {
    /// Ready, with the present spec
    Ready,
    /// The object is gone
    Released,
}

/// What `-o json` prints at the end.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Waited<'a> {
    #[serde(flatten)]
    object: &'a AwaitedObject,
    state: &'static str,
    seconds: u64,
}

/// Waits until the object is ready or gone.
pub async fn run(context: &PluginContext, args: WaitArgs) -> Result<Exit, PluginError> {
    let started = Instant::now();
    let Some(object) = args.object.find(context).await? else {
        return match args.goal {
            Goal::Released => {
                let name = &args.object.name;
                context.printer.inform(&format!("{name} does not exist"));
                Ok(Exit::Fine)
            }
            Goal::Ready => Err(args.object.not_found(context)),
        };
    };
    let mut awaited = AwaitedObject::from_object(&object);
    if let Progress::Waiting(message) = check_progress(args.goal, Some(&object)) {
        awaited.first_message = Some(message);
    }
    let goal = args.goal.as_str();
    let time = (started, args.timeout);
    wait_until(context, &awaited, goal, time, |object| {
        check_progress(args.goal, object)
    })
    .await?;
    report(context, &awaited, args.goal, started.elapsed())?;
    Ok(Exit::Fine)
}

fn report(
    context: &PluginContext,
    awaited: &AwaitedObject,
    goal: Goal,
    elapsed: Duration,
) -> Result<(), PluginError> {
    let printer = &context.printer;
    let seconds = elapsed.as_secs();
    match printer.form {
        OutputForm::Name => printer.text(&(awaited.kind.resource_name(&awaited.name) + "\n")),
        _ if !printer.is_table() => printer.data(&Waited {
            object: awaited,
            state: goal.as_str(),
            seconds,
        }),
        _ => {
            let elapsed = shorten(i64::try_from(seconds).unwrap_or(i64::MAX));
            let state = goal.as_str();
            printer.inform(&format!("{} is {state} after {elapsed}", awaited.title));
            Ok(())
        }
    }
}

/// How far the object is.
pub fn check_progress(goal: Goal, object: Option<&Object>) -> Progress {
    match (goal, object) {
        (Goal::Released, None) => Progress::Reached,
        (Goal::Ready, None) => Progress::Failed("it was deleted".to_owned()),
        (Goal::Ready, Some(object)) if object.deleted_at().is_some() => {
            Progress::Failed("it is being deleted".to_owned())
        }
        (Goal::Ready, Some(object)) if is_current(object, Type::Ready) => Progress::Reached,
        (_, Some(object)) if is_current(object, Type::Stalled) => {
            Progress::Failed(describe_reason(object))
        }
        (Goal::Released, Some(object)) if object.deleted_at().is_none() => {
            Progress::Waiting("it is not being deleted; kubectl delete begins that".to_owned())
        }
        (_, Some(object)) => Progress::Waiting(describe_reason(object)),
    }
}

/// Why the object is not ready, in the operator's words.
pub fn describe_reason(object: &Object) -> String {
    find_state(object).map_or_else(String::new, |state| state.text())
}

/// Whether a condition is True for the present spec. Right after an edit it is still about the former one.
fn is_current(object: &Object, kind: Type) -> bool {
    let generation = object.metadata().generation;
    let is_about_spec =
        |it: &&Condition| generation.is_none() || it.observed_generation == generation;
    find(object.conditions(), kind)
        .filter(is_about_spec)
        .is_some_and(|condition| condition.status == "True")
}

impl Goal {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Released => "released",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::status::findings::tests::server;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::json;

    fn live(generation: i64, ready: &str, stalled: &str) -> Object {
        let ready = ["Ready", ready, "InvalidSpec", "words"];
        let object = server(
            "web",
            &[ready, ["Stalled", stalled, "InvalidSpec", "words"]],
        );
        change(object, |metadata| metadata.generation = Some(generation))
    }

    fn deleted() -> Object {
        let at = serde_json::from_value(json!("2026-11-01T10:00:00Z")).unwrap();
        change(live(2, "True", "False"), |it| it.deletion_timestamp = at)
    }

    fn change(object: Object, change: impl FnOnce(&mut ObjectMeta)) -> Object {
        let Object::BareMetalServer(mut server) = object else {
            panic!("no server");
        };
        change(&mut server.metadata);
        Object::BareMetalServer(server)
    }

    fn is_waiting(progress: &Progress) -> bool {
        matches!(progress, Progress::Waiting(_))
    }

    #[test]
    fn ready_counts_for_the_present_spec_only() {
        let check = |object: &Object| check_progress(Goal::Ready, Some(object));
        assert_eq!(check(&live(2, "True", "False")), Progress::Reached);
        assert!(is_waiting(&check(&live(3, "True", "False"))));
        assert!(is_waiting(&check(&server("web", &[]))));
    }

    #[test]
    fn stalled_object_ends_the_wait_with_its_reason() {
        let check = |object: &Object| check_progress(Goal::Ready, Some(object));
        let failed = Progress::Failed("InvalidSpec: words".into());
        assert_eq!(check(&live(2, "False", "True")), failed);
        assert!(
            is_waiting(&check(&live(3, "False", "True"))),
            "edited since"
        );
    }

    #[test]
    fn release_ends_when_the_object_is_gone() {
        let object = live(2, "True", "False");
        let awaited = AwaitedObject::from_object(&object);
        let check =
            |object: Option<&Object>| check_progress(Goal::Released, awaited.filter(object));
        assert_eq!(check(None), Progress::Reached);
        let other = change(object.clone(), |it| it.uid = Some("2".into()));
        assert_eq!(check(Some(&other)), Progress::Reached);
        assert!(is_waiting(&check(Some(&deleted()))));
        let Progress::Waiting(message) = check(Some(&object)) else {
            panic!("a live object is not released");
        };
        assert!(message.contains("not being deleted"), "{message}");
    }

    #[test]
    fn deleted_object_never_becomes_ready() {
        for object in [None, Some(&deleted())] {
            let progress = check_progress(Goal::Ready, object);
            assert!(matches!(progress, Progress::Failed(_)), "{object:?}");
        }
    }
}
