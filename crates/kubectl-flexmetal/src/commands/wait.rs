//! `wait`: until an object is ready, or gone.

use crate::{
    ages::shorten,
    commands::status::{describe_change, find, find_problems},
    context::{Context, Scope, api_error},
    exit::{Exit, PluginError},
    objects::{self, Object, ObjectArgs, ObjectKind, WatchedObjects},
    output::OutputForm,
};
use api::{Interval, conditions::Type};
use futures::StreamExt as _;
use indicatif::{ProgressBar, ProgressStyle};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::watcher;
use serde::Serialize;
use std::{io::IsTerminal as _, time::Duration};
use tokio::time::{Instant, timeout_at};

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
enum Goal {
    /// Ready, with the present spec
    Ready,
    /// The object is gone
    Released,
}

/// How far an object is.
#[derive(Clone, Debug, PartialEq)]
enum Progress {
    /// It is as waited for.
    Reached,
    /// It does not get there without the user. Why, and what to do.
    Failed(String),
    /// It may get there. What the operator says.
    Waiting(String),
}

/// The object that is waited for.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Awaited {
    kind: ObjectKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    #[serde(skip)]
    uid: String,
    #[serde(skip)]
    title: String,
}

/// What `-o json` prints at the end.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Waited<'a> {
    #[serde(flatten)]
    object: &'a Awaited,
    state: &'static str,
    seconds: u64,
}

/// Waits until the object is ready or gone.
pub async fn run(context: &Context, args: WaitArgs) -> Result<Exit, PluginError> {
    let started = Instant::now();
    let Some(object) = args.object.find(context).await? else {
        return match args.goal {
            Goal::Released => {
                let name = &args.object.name;
                context.printer.note(&format!("{name} does not exist"));
                Ok(Exit::Fine)
            }
            Goal::Ready => Err(args.object.not_found(context)),
        };
    };
    let awaited = Awaited {
        kind: object.kind(),
        namespace: object.namespace().map(str::to_owned),
        name: object.name().to_owned(),
        uid: object.metadata().uid.clone().unwrap_or_default(),
        title: object.title(),
    };
    let mut display = Display::new(context, &awaited.title, args.goal);
    // A time beyond the clock's end is no deadline that anybody lives to see.
    let deadline = started.checked_add(args.timeout.0);
    let deadline = deadline.unwrap_or_else(|| started + Duration::from_secs(365 * 86_400));
    let follow = follow(context, &awaited, args.goal, &mut display);
    let end = timeout_at(deadline, follow).await;
    display.finish();
    let Ok(end) = end else {
        return Err(PluginError::TimedOut(format!(
            "{} is not {} after {}: {}",
            awaited.title,
            args.goal.as_str(),
            args.timeout,
            display.last
        )));
    };
    end?;
    report(context, &awaited, args.goal, started.elapsed())?;
    Ok(Exit::Fine)
}

fn report(
    context: &Context,
    awaited: &Awaited,
    goal: Goal,
    elapsed: Duration,
) -> Result<(), PluginError> {
    let printer = &context.printer;
    let seconds = elapsed.as_secs();
    match printer.form {
        OutputForm::Name => printer.text(&(awaited.kind.resource_name(&awaited.name) + "\n")),
        _ if !printer.is_for_people() => printer.data(&Waited {
            object: awaited,
            state: goal.as_str(),
            seconds,
        }),
        _ => {
            let elapsed = shorten(i64::try_from(seconds).unwrap_or(i64::MAX));
            let state = goal.as_str();
            printer.note(&format!("{} is {state} after {elapsed}", awaited.title));
            Ok(())
        }
    }
}

/// Watches the object until it is as waited for, or never will be.
async fn follow(
    context: &Context,
    awaited: &Awaited,
    goal: Goal,
    display: &mut Display<'_>,
) -> Result<(), PluginError> {
    let scope = Scope {
        namespace: awaited.namespace.clone(),
        selector: None,
    };
    let mut events = objects::watch(context, awaited.kind, &scope, Some(&awaited.name));
    let mut watched = WatchedObjects::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => watched.apply(event),
            Err(error) => display.show(&check_error(awaited, error)?),
        }
        if !watched.is_complete() {
            continue;
        }
        match check_progress(goal, &awaited.uid, watched.objects().next()) {
            Progress::Reached => return Ok(()),
            Progress::Failed(why) => {
                return Err(PluginError::Other(format!("{}: {why}", awaited.title)));
            }
            Progress::Waiting(message) => display.show(&message),
        }
    }
    Err(PluginError::Other(format!(
        "the watch of {} ended",
        awaited.title
    )))
}

/// An error of the watch in words, unless it is a missing right, which no retry gives.
fn check_error(awaited: &Awaited, error: watcher::Error) -> Result<String, PluginError> {
    let is_forbidden = |error: &kube::Error| matches!(error, kube::Error::Api(status) if matches!(status.code, 401 | 403));
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)
            if is_forbidden(&error) =>
        {
            Err(api_error(format!("watch {}", awaited.title), error))
        }
        error => Ok(format!("{error}; retrying")),
    }
}

/// How far the object is. `uid`: of the object that is waited for, as another one may have its name.
fn check_progress(goal: Goal, uid: &str, object: Option<&Object>) -> Progress {
    let is_it = |object: &&Object| object.metadata().uid.as_deref() == Some(uid);
    match (goal, object.filter(is_it)) {
        (Goal::Released, None) => Progress::Reached,
        (Goal::Ready, None) => Progress::Failed("it was deleted".to_owned()),
        (Goal::Ready, Some(object)) if object.deleted_at().is_some() => {
            Progress::Failed("it is being deleted".to_owned())
        }
        (Goal::Ready, Some(object)) if is_current(object, Type::Ready) => Progress::Reached,
        (_, Some(object)) if is_current(object, Type::Stalled) => {
            Progress::Failed(describe_stall(object))
        }
        (Goal::Released, Some(object)) if object.deleted_at().is_none() => {
            Progress::Waiting("it is not being deleted; kubectl delete begins that".to_owned())
        }
        (_, Some(object)) => {
            let change = describe_change(object);
            let message = match change.reason.as_str() {
                "" => change.message,
                reason => format!("{reason}: {}", change.message),
            };
            Progress::Waiting(message)
        }
    }
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

fn describe_stall(object: &Object) -> String {
    let Some(problem) = find_problems(object).into_iter().next() else {
        return "it is Stalled".to_owned();
    };
    format!(
        "{}: {}. Next: {}",
        problem.reason,
        problem.message.trim_end_matches('.'),
        problem.next_step
    )
}

impl Goal {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Released => "released",
        }
    }
}

/// Shows what is waited for: a spinner on a terminal, and a line for each change elsewhere.
struct Display<'a> {
    context: &'a Context,
    title: &'a str,
    spinner: Option<ProgressBar>,
    last: String,
}

impl<'a> Display<'a> {
    fn new(context: &'a Context, title: &'a str, goal: Goal) -> Self {
        let is_wanted = std::io::stderr().is_terminal() && !context.printer.is_quiet;
        let spinner = is_wanted.then(|| {
            let spinner = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
                spinner.set_style(style);
            }
            spinner.enable_steady_tick(Duration::from_millis(200));
            spinner
        });
        let mut display = Self {
            context,
            title,
            spinner,
            last: String::new(),
        };
        display.show(&format!("waiting until it is {}", goal.as_str()));
        display
    }

    fn show(&mut self, message: &str) {
        if self.last == message {
            return;
        }
        message.clone_into(&mut self.last);
        let line = format!("{}: {message}", self.title);
        match &self.spinner {
            Some(spinner) => spinner.set_message(line),
            None => self.context.printer.note(&line),
        }
    }

    fn finish(&self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::advise;
    use api::{BareMetalServer, Reason};
    use serde_json::{Value, json};

    fn server(metadata: Value, conditions: &[(&str, &str, &str, i64)]) -> Object {
        let mut metadata = metadata;
        for (field, value) in [
            ("name", json!("web")),
            ("namespace", json!("a")),
            ("generation", json!(2)),
        ] {
            metadata[field] = value;
        }
        let conditions = conditions.iter().map(|(kind, status, reason, generation)| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": "words",
                "observedGeneration": generation, "lastTransitionTime": "1970-01-01T00:00:00Z",
            })
        });
        let server: BareMetalServer = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": metadata, "spec": {}, "status": {"conditions": conditions.collect::<Vec<_>>()},
        }))
        .unwrap();
        server.into()
    }

    fn live(conditions: &[(&str, &str, &str, i64)]) -> Object {
        server(json!({"uid": "1"}), conditions)
    }

    fn deleted(conditions: &[(&str, &str, &str, i64)]) -> Object {
        let metadata = json!({"uid": "1", "deletionTimestamp": "1970-01-01T00:00:00Z"});
        server(metadata, conditions)
    }

    fn is_waiting(progress: &Progress) -> bool {
        matches!(progress, Progress::Waiting(_))
    }

    #[test]
    fn ready_counts_for_the_present_spec_only() {
        let of = |object: &Object| check_progress(Goal::Ready, "1", Some(object));
        assert_eq!(
            of(&live(&[("Ready", "True", "Delivered", 2)])),
            Progress::Reached
        );
        assert!(is_waiting(&of(&live(&[("Ready", "True", "Delivered", 1)]))));
        assert!(is_waiting(&of(&live(&[]))));
    }

    #[test]
    fn stalled_object_ends_the_wait_with_its_remedy() {
        let conditions = |generation| {
            [
                ("Ready", "False", "InvalidSpec", generation),
                ("Stalled", "True", "InvalidSpec", generation),
            ]
        };
        let progress = check_progress(Goal::Ready, "1", Some(&live(&conditions(2))));
        let step = advise(Reason::InvalidSpec, ObjectKind::BareMetalServer).next_step;
        assert_eq!(
            progress,
            Progress::Failed(format!("InvalidSpec: words. Next: {step}"))
        );
        let before_edit = check_progress(Goal::Ready, "1", Some(&live(&conditions(1))));
        assert!(is_waiting(&before_edit), "{before_edit:?}");
    }

    #[test]
    fn release_ends_when_the_object_is_gone_or_another_one() {
        let of = |object: Option<&Object>| check_progress(Goal::Released, "1", object);
        assert_eq!(of(None), Progress::Reached);
        let other = server(json!({"uid": "2"}), &[]);
        assert_eq!(of(Some(&other)), Progress::Reached);
        let releasing = deleted(&[("Reconciling", "True", "Releasing", 2)]);
        assert_eq!(
            of(Some(&releasing)),
            Progress::Waiting("Releasing: words".into())
        );
        let Progress::Waiting(message) = of(Some(&live(&[("Ready", "True", "Delivered", 2)])))
        else {
            panic!("a live object is not released");
        };
        assert!(message.contains("not being deleted"), "{message}");
    }

    #[test]
    fn deleted_object_never_becomes_ready() {
        let of = |object: Option<&Object>| check_progress(Goal::Ready, "1", object);
        for object in [None, Some(&deleted(&[("Ready", "True", "Delivered", 2)]))] {
            assert!(matches!(of(object), Progress::Failed(_)), "{object:?}");
        }
    }
}
