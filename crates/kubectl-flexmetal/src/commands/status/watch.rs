//! `status --watch`: redraws on a terminal, and prints a line for each change elsewhere.

use super::{
    detail, exit_of, print,
    summary::{ObjectName, describe_change, find_problems, summarize, without_unused_accounts},
};
use crate::{
    ages,
    context::{Context, Scope},
    exit::{Exit, PluginError},
    objects::{self, Object, ObjectKind, WatchedObjects},
};
use api::conditions::{Type, is_true};
use futures::{StreamExt as _, stream::select_all};
use std::{collections::BTreeMap, io::IsTerminal as _, time::Duration};
use tokio::time::{MissedTickBehavior, interval};

/// How often the output is brought up to date.
const REFRESH: Duration = Duration::from_secs(2);

/// Shows all objects of these kinds until Ctrl-C.
pub async fn watch_all(
    context: &Context,
    scope: &Scope,
    kinds: &[ObjectKind],
) -> Result<Exit, PluginError> {
    follow(context, scope, kinds, None).await
}

/// Shows one object until Ctrl-C.
pub async fn watch_one(
    context: &Context,
    scope: &Scope,
    object: &Object,
) -> Result<Exit, PluginError> {
    follow(context, scope, &[object.kind()], Some(object.name())).await
}

async fn follow(
    context: &Context,
    scope: &Scope,
    kinds: &[ObjectKind],
    name: Option<&str>,
) -> Result<Exit, PluginError> {
    let streams = kinds.iter().map(|&kind| {
        let events = objects::watch(context, kind, scope, name);
        events.map(move |event| (kind, event)).boxed()
    });
    let mut events = select_all(streams);
    let mut watched: BTreeMap<ObjectKind, WatchedObjects> = kinds
        .iter()
        .map(|&kind| (kind, WatchedObjects::default()))
        .collect();
    let mut refresh = interval(REFRESH);
    refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut view = View {
        context,
        is_one: name.is_some(),
        is_terminal: std::io::stdout().is_terminal() && context.printer.is_for_people(),
        lines: BTreeMap::new(),
        is_fine: true,
    };
    let mut is_changed = true;
    let mut last_error = String::new();
    let ctrl_c = tokio::signal::ctrl_c();
    tokio::pin!(ctrl_c);
    loop {
        tokio::select! {
            end = &mut ctrl_c => {
                end?;
                return Ok(exit_of(view.is_fine));
            }
            Some((kind, event)) = events.next() => match event {
                Ok(event) => {
                    watched.entry(kind).or_default().apply(event);
                    is_changed = true;
                }
                Err(error) => {
                    let error = format!("watching {}: {error}; retrying", kind.plural());
                    if error != last_error {
                        context.printer.note(&error);
                        last_error = error;
                    }
                }
            },
            _ = refresh.tick() => {
                let is_complete = watched.values().all(WatchedObjects::is_complete);
                // A terminal shows elapsed times, too.
                if is_complete && (is_changed || view.is_terminal) {
                    let all = watched.values().flat_map(WatchedObjects::objects);
                    let mut all: Vec<Object> = all.cloned().collect();
                    if scope.namespace.is_some() && name.is_none() {
                        all = without_unused_accounts(all);
                    }
                    view.update(&all)?;
                    is_changed = false;
                }
            }
        }
    }
}

/// What was printed last.
struct View<'a> {
    context: &'a Context,
    is_one: bool,
    is_terminal: bool,
    lines: BTreeMap<ObjectName, String>,
    is_fine: bool,
}

impl View<'_> {
    fn update(&mut self, objects: &[Object]) -> Result<(), PluginError> {
        let printer = &self.context.printer;
        self.is_fine = objects.iter().all(|it| find_problems(it).is_empty());
        let lines = objects.iter().map(|object| {
            let name = ObjectName::from_object(object);
            (name, describe_state(object))
        });
        let lines: BTreeMap<_, _> = lines.collect();
        let changes = find_changed_lines(&self.lines, &lines);
        let is_changed = !changes.is_empty();
        self.lines = lines;
        if self.is_terminal {
            printer.clear_screen()?;
            return self.show(objects);
        }
        if !printer.is_for_people() {
            return match is_changed {
                true => self.show(objects),
                false => Ok(()),
            };
        }
        let now = ages::now();
        let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
        let changes = changes.iter().map(|line| format!("{now}  {line}\n"));
        printer.text(&changes.collect::<String>())
    }

    fn show(&self, objects: &[Object]) -> Result<(), PluginError> {
        match objects {
            [object] if self.is_one => detail::print(self.context, object),
            _ => print(self.context, &summarize(objects)),
        }
    }
}

/// The state of an object in one line.
fn describe_state(object: &Object) -> String {
    if let Some(problem) = find_problems(object).into_iter().next() {
        return format!("needs you: {}: {}", problem.reason, problem.message);
    }
    if is_true(object.conditions(), Type::Ready) && object.deleted_at().is_none() {
        return "ready".to_owned();
    }
    let change = describe_change(object);
    match change.reason.as_str() {
        "" => format!("changing: {}", change.message),
        reason => format!("changing: {reason}: {}", change.message),
    }
}

/// A line for each object that is new, gone or in another state.
fn find_changed_lines(
    before: &BTreeMap<ObjectName, String>,
    now: &BTreeMap<ObjectName, String>,
) -> Vec<String> {
    let changed = now
        .iter()
        .filter(|(name, line)| before.get(*name) != Some(*line));
    let changed = changed.map(|(name, line)| format!("{}  {line}", name.title()));
    let gone = before.keys().filter(|name| !now.contains_key(*name));
    let gone = gone.map(|name| format!("{}  gone", name.title()));
    changed.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(lines: &[(&str, &str)]) -> BTreeMap<ObjectName, String> {
        let lines = lines.iter().map(|(name, line)| {
            let name = ObjectName {
                kind: ObjectKind::BareMetalServer,
                namespace: Some("a".into()),
                name: (*name).into(),
            };
            (name, (*line).to_owned())
        });
        lines.collect()
    }

    #[test]
    fn only_changes_have_a_line() {
        let before = state(&[("same", "ready"), ("web", "changing"), ("old", "ready")]);
        let now = state(&[("same", "ready"), ("web", "ready"), ("new", "changing")]);
        assert_eq!(
            find_changed_lines(&before, &now),
            [
                "BareMetalServer a/new  changing",
                "BareMetalServer a/web  ready",
                "BareMetalServer a/old  gone",
            ]
        );
        assert!(find_changed_lines(&now, &now).is_empty());
    }
}
