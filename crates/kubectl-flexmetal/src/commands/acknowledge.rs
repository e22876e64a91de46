//! `acknowledge`: shows what an object waits for, and gives the operator the token.

use crate::{
    confirm::{ChangeArgs, prompt_error},
    context::PluginContext,
    exit::{Exit, PluginError},
    object_changes::{NOTHING_DONE, ObjectChange, make_changes, send_changes},
    objects::{Object, ObjectArgs},
};
use api::{
    acknowledgement::{AcknowledgementEffect, PendingAcknowledgement},
    names::ACKNOWLEDGE,
};
use serde_json::{Value, json};
use std::io::IsTerminal as _;

/// Arguments of `acknowledge`.
#[derive(Clone, Debug, clap::Args)]
pub struct AcknowledgeArgs {
    #[command(flatten)]
    object: ObjectArgs,
    /// Acknowledge this one of several
    #[arg(long, value_name = "TOKEN", conflicts_with = "all")]
    token: Option<String>,
    /// Acknowledge everything that is pending
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Acknowledges what is pending, after a question.
pub async fn run(context: &PluginContext, args: AcknowledgeArgs) -> Result<Exit, PluginError> {
    let object = args.object.get(context).await?;
    let title = object.title();
    let (pending, _) = object.acknowledgements();
    if pending.is_empty() {
        let none = format!("{title} waits for no acknowledgement");
        context.printer.inform(&none);
        // As data, no changes are an empty list.
        send_changes(context, &[]).await?;
        return Ok(Exit::Fine);
    }
    if pending.len() > 1 {
        context.printer.inform(&format!("{title} waits for:"));
        for entry in pending {
            let effect = describe_effect(&object, entry);
            let name = name_entry(entry);
            context.printer.inform(&format!("  {name}: {effect}"));
        }
    }
    let chosen = match select(pending, args.token.as_deref(), args.all)? {
        Some(chosen) => chosen,
        None => match ask_which(&object, pending, args.change)? {
            Some(entry) => vec![entry],
            None => {
                context.printer.inform(NOTHING_DONE);
                return Ok(Exit::Error);
            }
        },
    };
    let effects = chosen.iter().map(|entry| describe_effect(&object, entry));
    let effects: Vec<_> = effects.collect();
    let consequence = format!("Acknowledge for {title}: {}.", effects.join("; "));
    let patch = acknowledge_patch(&object, pending, &chosen);
    let change =
        ObjectChange::guarded_while_unchanged(&object, patch, "acknowledged", extract_shown_facts);
    make_changes(context, args.change, &[consequence], &[change]).await
}

/// The entries that the arguments choose. None: one of several must be chosen.
fn select<'a>(
    pending: &'a [PendingAcknowledgement],
    token: Option<&str>,
    all: bool,
) -> Result<Option<Vec<&'a PendingAcknowledgement>>, PluginError> {
    if let Some(token) = token {
        let found = pending.iter().find(|entry| entry.token == token);
        let found = found.ok_or_else(|| {
            PluginError::Usage(format!(
                "{token:?} is not pending; pending: {}",
                list_tokens(pending)
            ))
        })?;
        return Ok(Some(vec![found]));
    }
    let is_contradiction = pending
        .iter()
        .any(|entry| pending.iter().any(|other| excludes(entry, other)));
    if all && is_contradiction {
        return Err(PluginError::Usage(format!(
            "these exclude each other: {}; choose with --token",
            list_tokens(pending)
        )));
    }
    Ok((all || pending.len() == 1).then(|| pending.iter().collect()))
}

/// Whether an acknowledgement of both would contradict itself.
fn excludes(one: &PendingAcknowledgement, other: &PendingAcknowledgement) -> bool {
    use AcknowledgementEffect::{Adopt, NewAccount, OrderAnother, SameAccount};
    matches!(
        (one.effect, other.effect),
        (Adopt, OrderAnother)
            | (OrderAnother, Adopt)
            | (SameAccount, NewAccount)
            | (NewAccount, SameAccount)
    )
}

fn list_tokens(pending: &[PendingAcknowledgement]) -> String {
    let tokens: Vec<_> = pending.iter().map(name_entry).collect();
    tokens.join(", ")
}

fn name_entry(entry: &PendingAcknowledgement) -> String {
    format!("{} ({:?})", entry.token, entry.effect)
}

/// Lets the user choose one. None: the user chose none.
fn ask_which<'a>(
    object: &Object,
    pending: &'a [PendingAcknowledgement],
    change: ChangeArgs,
) -> Result<Option<&'a PendingAcknowledgement>, PluginError> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if change.yes || change.dry_run || !is_terminal {
        return Err(PluginError::Usage(format!(
            "{} waits for several; add --token or --all: {}",
            object.title(),
            list_tokens(pending)
        )));
    }
    let items = pending.iter().map(name_entry);
    let chosen = dialoguer::Select::new()
        .with_prompt("Which one")
        .items(items)
        .default(0)
        .interact_opt()
        .map_err(prompt_error)?;
    Ok(chosen.and_then(|at| pending.get(at)))
}

/// What the operator does once the entry is acknowledged.
fn describe_effect(object: &Object, entry: &PendingAcknowledgement) -> String {
    use AcknowledgementEffect as Effect;
    let subject = &entry.subject;
    match entry.effect {
        Effect::OrderAnother => {
            format!("the operator orders a server {subject}, and all of them are billed")
        }
        Effect::Adopt => format!("the operator adopts {subject}"),
        Effect::AssumeAbsent if object.deleted_at().is_some() => format!(
            "the object goes; if the provider still has this, it stays and is billed: {subject}"
        ),
        Effect::AssumeAbsent => format!(
            "the operator orders again; if the provider still has this, both are billed: {subject}"
        ),
        Effect::SameAccount => format!("the operator keeps the account ID and forgets {subject}"),
        Effect::NewAccount => {
            format!("the operator uses the new key or URL as another account: {subject}")
        }
        Effect::LiftReleaseLimit => format!(
            "the operator begins as many releases as the limit allows once more, and they erase disks: {subject}"
        ),
        Effect::AllowLockout => {
            format!("the operator may lock itself out: it writes the {subject}")
        }
        Effect::RemoveOthersEntries => format!("the operator removes {subject}"),
    }
}

/// The annotation of the object, if it has one.
fn find_given_tokens(object: &Object) -> Option<&String> {
    object.metadata().annotations.as_ref()?.get(ACKNOWLEDGE)
}

/// All that the question and the patch depend on.
fn extract_shown_facts(object: &Object) -> Value {
    let metadata = object.metadata();
    let given = find_given_tokens(object);
    let pending = object.acknowledgements().0;
    json!([metadata.uid, metadata.deletion_timestamp, given, pending])
}

/// The annotation with the chosen tokens, and those in it that the operator has not acted on yet.
fn acknowledge_patch(
    object: &Object,
    pending: &[PendingAcknowledgement],
    chosen: &[&PendingAcknowledgement],
) -> Value {
    let given = find_given_tokens(object);
    let given = given.iter().flat_map(|text| text.split(',')).map(str::trim);
    let open = given.filter(|token| {
        let entry = pending.iter().find(|entry| entry.token == *token);
        entry.is_some_and(|entry| !chosen.iter().any(|it| *it == entry || excludes(it, entry)))
    });
    let tokens: Vec<&str> = open
        .chain(chosen.iter().map(|entry| entry.token.as_str()))
        .collect();
    json!({"metadata": {"annotations": {ACKNOWLEDGE: tokens.join(",")}}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{ObjectKind, decode};
    use AcknowledgementEffect::{Adopt, AssumeAbsent, LiftReleaseLimit, OrderAnother};

    fn entry(token: &str, effect: AcknowledgementEffect) -> PendingAcknowledgement {
        serde_json::from_value(json!({
            "token": token, "effect": effect, "subject": "server u-1", "since": "1970-01-01T00:00:00Z",
        }))
        .unwrap()
    }

    fn object(annotations: &Value) -> Object {
        let value = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": "web", "resourceVersion": "7", "annotations": annotations},
            "spec": {},
        });
        decode(ObjectKind::BareMetalServer, value).unwrap()
    }

    fn tokens(
        pending: &[PendingAcknowledgement],
        token: Option<&str>,
        all: bool,
    ) -> Result<Option<Vec<String>>, Exit> {
        let selected = select(pending, token, all).map_err(|error| error.exit())?;
        Ok(selected.map(|all| all.iter().map(|entry| entry.token.clone()).collect()))
    }

    #[test]
    fn one_of_several_must_be_chosen() {
        let pending = [entry("a", AssumeAbsent), entry("b", LiftReleaseLimit)];
        let of = |all: &[&str]| Ok(Some(all.iter().map(|it| (*it).to_owned()).collect()));
        assert_eq!(tokens(&pending, None, false), Ok(None));
        assert_eq!(tokens(&pending, None, true), of(&["a", "b"]));
        assert_eq!(tokens(&pending, Some("b"), false), of(&["b"]));
        assert_eq!(tokens(&pending, Some("c"), false), Err(Exit::Usage));
        assert_eq!(tokens(&pending[..1], None, false), of(&["a"]));
    }

    #[test]
    fn contradictions_are_not_acknowledged_together() {
        let pending = [entry("a", Adopt), entry("b", OrderAnother)];
        assert_eq!(tokens(&pending, None, true), Err(Exit::Usage));
        let given = object(&json!({ACKNOWLEDGE: "a"}));
        let patch = acknowledge_patch(&given, &pending, &[&pending[1]]);
        assert_eq!(patch["metadata"]["annotations"][ACKNOWLEDGE], "b");
    }

    #[test]
    fn token_is_for_the_object_as_shown() {
        let pending = [entry("a", AssumeAbsent), entry("b", LiftReleaseLimit)];
        let given = object(&json!({ACKNOWLEDGE: "old, a"}));
        let patch = acknowledge_patch(&given, &pending, &[&pending[1]]);
        let change = ObjectChange::guarded_while_unchanged(
            &given,
            patch,
            "acknowledged",
            extract_shown_facts,
        );
        assert_eq!(
            *change.patch(),
            json!({"metadata": {"annotations": {ACKNOWLEDGE: "a,b"}, "resourceVersion": "7"}})
        );
    }

    #[test]
    fn deletion_changes_what_was_shown() {
        let shown = |metadata: &Value| {
            let value = json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
                "metadata": metadata, "spec": {}, "status": {"providerStatus": "delivered"},
            });
            extract_shown_facts(&decode(ObjectKind::BareMetalServer, value).unwrap())
        };
        let read = shown(&json!({"name": "web", "uid": "u", "resourceVersion": "7"}));
        let written =
            json!({"name": "web", "uid": "u", "resourceVersion": "8", "labels": {"a": "b"}});
        assert_eq!(shown(&written), read);
        let at = "1970-01-01T00:00:00Z";
        let deleted = json!({"name": "web", "uid": "u", "deletionTimestamp": at});
        assert_ne!(shown(&deleted), read);
    }

    #[test]
    fn effect_says_what_is_billed() {
        let object = object(&json!({}));
        let text = describe_effect(&object, &entry("a", AssumeAbsent));
        assert!(text.contains("both are billed: server u-1"), "{text}");
    }
}
