//! Waits for one object, and shows how far it is.

use crate::{
    context::{ListScope, PluginContext, api_error},
    exit::{Exit, PluginError},
    objects::{self, Object, ObjectKind, WatchedObjects},
};
use api::Interval;
use futures::StreamExt as _;
use indicatif::{ProgressBar, ProgressStyle};
use kube::runtime::watcher;
use serde::Serialize;
use std::{io::IsTerminal as _, time::Duration};
use tokio::time::{Instant, timeout_at};

/// How far an object is.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
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
pub struct AwaitedObject {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its namespace, unless it is of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    #[serde(skip)]
    uid: String,
    /// Such as `BareMetalServer team-a/web`.
    #[serde(skip)]
    pub title: String,
    /// Shown before the first event of the watch, so that an early timeout has a reason. None after a change.
    #[serde(skip)]
    pub first_message: Option<String>,
}

/// Waits until the check says that the object is as waited for, or never will be. `goal`: one word for that. `time`:
/// the start, and how long after it the wait ends. The check gets the object, or none once it is gone.
pub async fn wait_until(
    context: &PluginContext,
    awaited: &AwaitedObject,
    goal: &str,
    time: (Instant, Interval),
    check: impl FnMut(Option<&Object>) -> Progress,
) -> Result<(), PluginError> {
    let (started, timeout) = time;
    let mut display = Display::new(context, &awaited.title, goal);
    if let Some(message) = &awaited.first_message {
        display.show(message);
    }
    // A time beyond the clock's end is no deadline that anybody lives to see.
    let deadline = started.checked_add(timeout.0);
    let deadline = deadline.unwrap_or_else(|| started + Duration::from_secs(365 * 86_400));
    let end = timeout_at(deadline, follow(context, awaited, check, &mut display)).await;
    display.finish();
    end.unwrap_or_else(|_| {
        Err(PluginError::TimedOut(format!(
            "{} is not {goal} after {timeout}: {}",
            awaited.title, display.last
        )))
    })
}

/// Waits for each object, all within the same time. Reports every one that did not get there.
pub async fn wait_for_each(
    context: &PluginContext,
    awaited: &[AwaitedObject],
    goal: &str,
    time: (Instant, Interval),
    check: impl Fn(Option<&Object>) -> Progress,
) -> Result<(), PluginError> {
    let mut errors = Vec::new();
    for object in awaited {
        match wait_until(context, object, goal, time, &check).await {
            Ok(()) => context
                .printer
                .inform(&format!("{} is {goal}", object.title)),
            Err(error) => errors.push(error),
        }
    }
    // A failure decides the exit code.
    errors.sort_by_key(|error| error.exit() == Exit::TimedOut);
    let mut errors = errors.into_iter();
    let Some(first) = errors.next() else {
        return Ok(());
    };
    for other in errors {
        context.printer.warn(&format!("error: {}", other.explain()));
    }
    Err(first)
}

impl AwaitedObject {
    /// The object, as it is told apart from another one of its name.
    pub fn from_object(object: &Object) -> Self {
        Self {
            kind: object.kind(),
            namespace: object.namespace().map(str::to_owned),
            name: object.name().to_owned(),
            uid: object.metadata().uid.clone().unwrap_or_default(),
            title: object.title(),
            first_message: None,
        }
    }

    /// The object, unless another one has its name.
    pub fn filter<'a>(&self, object: Option<&'a Object>) -> Option<&'a Object> {
        object.filter(|object| object.metadata().uid.as_deref() == Some(&self.uid))
    }
}

/// Watches the object until it is as waited for, or never will be.
async fn follow(
    context: &PluginContext,
    awaited: &AwaitedObject,
    mut check: impl FnMut(Option<&Object>) -> Progress,
    display: &mut Display<'_>,
) -> Result<(), PluginError> {
    let scope = ListScope {
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
        match check(awaited.filter(watched.objects().next())) {
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
fn check_error(awaited: &AwaitedObject, error: watcher::Error) -> Result<String, PluginError> {
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

/// Shows what is waited for: a spinner on a terminal, and a line for each change elsewhere.
struct Display<'a> {
    context: &'a PluginContext,
    title: &'a str,
    spinner: Option<ProgressBar>,
    last: String,
}

impl<'a> Display<'a> {
    fn new(context: &'a PluginContext, title: &'a str, goal: &str) -> Self {
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
        display.show(&format!("waiting until it is {goal}"));
        display
    }

    fn show(&mut self, message: &str) {
        if message.is_empty() || self.last == message {
            return;
        }
        message.clone_into(&mut self.last);
        let line = format!("{}: {message}", self.title);
        match &self.spinner {
            Some(spinner) => spinner.set_message(line),
            None => self.context.printer.inform(&line),
        }
    }

    fn finish(&self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}
