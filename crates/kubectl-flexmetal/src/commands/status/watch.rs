//! `status --watch`: redraws on a terminal, and prints a line for each change elsewhere.

use super::{
    detail,
    findings::{find_problems, find_state},
    print,
    summary::{summarize, without_unused_accounts},
};
use crate::{
    ages,
    context::{ListScope, PluginContext},
    exit::{Exit, PluginError},
    objects::{self, Object, ObjectKind, ObjectName, WatchedObjects},
};
use futures::{StreamExt as _, stream::select_all};
use std::{collections::BTreeMap, io::IsTerminal as _, time::Duration};
use tokio::time::{MissedTickBehavior, interval};

/// How often the output is brought up to date.
const REFRESH: Duration = Duration::from_secs(2);

/// Shows the objects of these kinds, or the one of this name, until Ctrl-C.
pub async fn watch(
    context: &PluginContext,
    scope: &ListScope,
    kinds: &[ObjectKind],
    name: Option<&str>,
) -> Result<Exit, PluginError> {
    let mut watched = Vec::new();
    let streams = kinds.iter().enumerate().map(|(at, &kind)| {
        watched.push(WatchedObjects::default());
        let events = objects::watch(context, kind, scope, name);
        events.map(move |event| (at, event)).boxed()
    });
    let mut events = select_all(streams.collect::<Vec<_>>());
    let mut refresh = interval(REFRESH);
    refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let is_terminal = std::io::stdout().is_terminal() && context.printer.is_table();
    let mut states = BTreeMap::new();
    let mut is_fine = true;
    let mut last_error = String::new();
    let ctrl_c = tokio::signal::ctrl_c();
    tokio::pin!(ctrl_c);
    loop {
        tokio::select! {
            end = &mut ctrl_c => {
                end?;
                return Ok(Exit::attention_if(!is_fine));
            }
            Some((at, event)) = events.next() => match event {
                Ok(event) => watched[at].apply(event),
                Err(error) => {
                    let error = format!("watching {}: {error}; retrying", kinds[at].plural());
                    if error != last_error {
                        context.printer.inform(&error);
                        last_error = error;
                    }
                }
            },
            _ = refresh.tick() => {
                if !watched.iter().all(WatchedObjects::is_complete) {
                    continue;
                }
                let all = watched.iter().flat_map(WatchedObjects::objects);
                let mut all: Vec<Object> = all.cloned().collect();
                if scope.namespace.is_some() && name.is_none() {
                    all = without_unused_accounts(all);
                }
                is_fine = all.iter().all(|it| find_problems(it).is_empty());
                let now = all.iter().map(|it| (it.full_name(), describe_state(it)));
                let now: BTreeMap<_, _> = now.collect();
                let changes = find_changed_lines(&states, &now);
                states = now;
                if is_terminal {
                    // It shows elapsed times, too.
                    context.printer.clear_screen()?;
                    show(context, &all, name)?;
                } else if context.printer.is_table() {
                    context.printer.text(&changes)?;
                } else if !changes.is_empty() {
                    show(context, &all, name)?;
                }
            }
        }
    }
}

fn show(
    context: &PluginContext,
    objects: &[Object],
    name: Option<&str>,
) -> Result<(), PluginError> {
    match objects {
        [object] if name.is_some() => detail::print(context, object),
        _ => print(context, &summarize(objects)),
    }
}

/// The state of an object in one line.
fn describe_state(object: &Object) -> String {
    match find_state(object) {
        Some(state) if state.needs_you => format!("needs you: {}", state.text()),
        Some(state) => format!("changing: {}", state.text()),
        None => "ready".to_owned(),
    }
}

/// A line for each object that is new, gone or in another state.
fn find_changed_lines(
    before: &BTreeMap<ObjectName, String>,
    now: &BTreeMap<ObjectName, String>,
) -> String {
    let time = ages::now().strftime("%FT%TZ");
    let changed = now
        .iter()
        .filter(|(name, line)| before.get(*name) != Some(*line));
    let changed = changed.map(|(name, line)| (name, line.as_str()));
    let gone = before.keys().filter(|name| !now.contains_key(*name));
    let lines = changed.chain(gone.map(|name| (name, "gone")));
    let lines = lines.map(|(name, line)| format!("{time}  {}  {line}\n", name.title()));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_have_a_line() {
        let state = |lines: &[(&str, &str)]| {
            let lines = lines.iter().map(|(name, line)| {
                let name = ObjectName {
                    kind: ObjectKind::BareMetalServer,
                    namespace: Some("a".into()),
                    name: (*name).into(),
                };
                (name, (*line).to_owned())
            });
            lines.collect::<BTreeMap<_, _>>()
        };
        let before = state(&[("same", "ready"), ("web", "changing"), ("old", "ready")]);
        let now = state(&[("same", "ready"), ("web", "ready"), ("new", "changing")]);
        let text = find_changed_lines(&before, &now);
        let lines: Vec<_> = text
            .lines()
            .filter_map(|line| line.split_once("  "))
            .collect();
        let lines: Vec<_> = lines.into_iter().map(|(_, line)| line).collect();
        assert_eq!(
            lines,
            [
                "BareMetalServer a/new  changing",
                "BareMetalServer a/web  ready",
                "BareMetalServer a/old  gone",
            ]
        );
        assert_eq!(find_changed_lines(&now, &now), "");
    }
}
