//! Changes of objects: which ones, what is sent, and what is printed of it.

use crate::{
    confirm::ChangeArgs,
    context::{PluginContext, api_error},
    exit::{Exit, PluginError},
    objects::{Object, ObjectArgs, ObjectKind, read_object},
    output::OutputForm,
};
use kube::api::{Patch, PatchParams};
use serde::Serialize;
use serde_json::{Value, json};

/// The field manager of the plugin's writes.
pub const FIELD_MANAGER: &str = "kubectl-flexmetal";
/// How often a change is sent while others change its object.
pub const MOST_TRIES: usize = 5;
/// Said when the user declines.
pub const NOTHING_DONE: &str = "Nothing was done";

/// Which objects.
#[derive(Clone, Debug, clap::Args)]
pub struct ObjectsArgs {
    /// Names, or kind and name such as dhost/db
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Kind of those without one; default: BareMetalServer
    #[arg(long, value_enum, ignore_case = true, hide_possible_values = true)]
    pub kind: Option<ObjectKind>,
}

impl ObjectsArgs {
    /// Reads the objects, each once.
    pub async fn get(&self, context: &PluginContext) -> Result<Vec<Object>, PluginError> {
        let mut objects: Vec<Object> = Vec::new();
        for (kind, name) in self.parse()? {
            let kind = Some(kind);
            objects.push(ObjectArgs { name, kind }.get(context).await?);
        }
        Ok(objects)
    }

    /// The kinds and names, each once.
    pub fn parse(&self) -> Result<Vec<(ObjectKind, String)>, PluginError> {
        let mut parsed = Vec::new();
        for name in &self.names {
            let named = ObjectArgs {
                name: name.clone(),
                kind: self.kind.filter(|_| !name.contains('/')),
            };
            let (kind, name) = named.parse()?;
            let object = (kind.unwrap_or(ObjectKind::BareMetalServer), name.to_owned());
            if !parsed.contains(&object) {
                parsed.push(object);
            }
        }
        Ok(parsed)
    }
}

/// One change of an object.
#[derive(Clone, Debug, Serialize)]
pub struct ObjectChange {
    kind: ObjectKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    patch: Value,
    #[serde(skip)]
    done: String,
    #[serde(skip)]
    title: String,
    /// What the change depends on of the object, and what that was.
    #[serde(skip)]
    depends_on: Option<(ObjectPart, Value)>,
}

/// Takes a part from an object.
type ObjectPart = fn(&Object) -> Value;

impl ObjectChange {
    /// A merge patch. `done`: what happened to the object after it, such as `suspended`.
    pub fn new(object: &Object, patch: Value, done: impl Into<String>) -> Self {
        Self {
            kind: object.kind(),
            namespace: object.namespace().map(str::to_owned),
            name: object.name().to_owned(),
            patch,
            done: done.into(),
            title: object.title(),
            depends_on: None,
        }
    }

    /// The same, only for the object as it was read.
    pub fn guarded(object: &Object, patch: Value, done: impl Into<String>) -> Self {
        let mut change = Self::new(object, patch, done);
        change.patch["metadata"]["resourceVersion"] = json!(object.metadata().resource_version);
        change
    }

    /// The same, only while this part of the object is as it was read: the operator may write the rest at any time.
    pub fn guarded_while_unchanged(
        object: &Object,
        patch: Value,
        done: impl Into<String>,
        part: ObjectPart,
    ) -> Self {
        let mut change = Self::guarded(object, patch, done);
        change.depends_on = Some((part, part(object)));
        change
    }

    /// The merge patch.
    #[cfg(test)]
    pub fn patch(&self) -> &Value {
        &self.patch
    }

    /// Sends the patch.
    pub async fn send(&self, context: &PluginContext) -> Result<(), PluginError> {
        let objects = self.kind.objects(context, self.namespace.as_deref());
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let (mut patch, mut tries) = (self.patch.clone(), 1);
        loop {
            let merge = Patch::Merge(&patch);
            let sent = objects.patch(&self.name, &params, &merge).await;
            let Err(error) = sent else { return Ok(()) };
            let title = &self.title;
            if !is_conflict(&error) {
                return Err(api_error(format!("change {title}"), error));
            }
            let version = match tries < MOST_TRIES {
                true => self.get_version_if_unchanged(context).await?,
                false => None,
            };
            let Some(version) = version else {
                let act = format!("change {title}, which changed meanwhile; run the command again");
                return Err(api_error(act, error));
            };
            patch["metadata"]["resourceVersion"] = json!(version);
            tries += 1;
        }
    }

    /// The version of the object now. None: what the change depends on is not as it was.
    async fn get_version_if_unchanged(
        &self,
        context: &PluginContext,
    ) -> Result<Option<String>, PluginError> {
        let Some((part, before)) = &self.depends_on else {
            return Ok(None);
        };
        let now = read_object(context, self.kind, &self.name).await?;
        let now = now.filter(|object| part(object) == *before);
        Ok(now.and_then(|object| object.metadata().resource_version.clone()))
    }
}

/// Whether the object is no longer as it was read, or exists already.
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Sends the changes after a question, or prints what would be sent. `consequences`: what each change means.
pub async fn make_changes(
    context: &PluginContext,
    args: ChangeArgs,
    consequences: &[String],
    changes: &[ObjectChange],
) -> Result<Exit, PluginError> {
    let printer = &context.printer;
    if args.dry_run {
        consequences.iter().for_each(|text| printer.inform(text));
        print_changes(context, changes, " (dry run)")?;
        return Ok(Exit::Attention);
    }
    let question = match consequences {
        [one] => one.clone(),
        several => {
            several.iter().for_each(|text| printer.warn(text));
            format!("Change these {} objects.", several.len())
        }
    };
    if !args.confirm(&question)? {
        printer.inform(NOTHING_DONE);
        return Ok(Exit::Error);
    }
    send_changes(context, changes).await?;
    Ok(Exit::Fine)
}

/// Sends the changes in their order, and prints those that were sent.
pub async fn send_changes(
    context: &PluginContext,
    changes: &[ObjectChange],
) -> Result<(), PluginError> {
    for (sent, change) in changes.iter().enumerate() {
        if let Err(error) = change.send(context).await {
            print_changes(context, &changes[..sent], "")?;
            return Err(error);
        }
    }
    print_changes(context, changes, "")
}

fn print_changes(
    context: &PluginContext,
    changes: &[ObjectChange],
    ending: &str,
) -> Result<(), PluginError> {
    let printer = &context.printer;
    let is_name = printer.form == OutputForm::Name;
    if !is_name && !printer.is_table() {
        return printer.data(&changes);
    }
    let lines = changes.iter().map(|change| {
        let name = change.kind.resource_name(&change.name);
        match is_name {
            true => name + "\n",
            false => format!("{name} {}{ending}\n", change.done),
        }
    });
    printer.text(&lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(names: &[&str], kind: Option<ObjectKind>) -> Result<Vec<(ObjectKind, String)>, Exit> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let parsed = ObjectsArgs { names, kind }.parse();
        parsed.map_err(|error| error.exit())
    }

    #[test]
    fn name_without_kind_is_of_a_server() {
        use ObjectKind::{BareMetalServer, DedicatedHost};
        let of = |kind, name: &str| (kind, name.to_owned());
        assert_eq!(
            parse(&["web", "dhost/db", "bms/web"], None),
            Ok(vec![of(BareMetalServer, "web"), of(DedicatedHost, "db")])
        );
        assert_eq!(
            parse(&["db", "bms/web"], Some(DedicatedHost)),
            Ok(vec![of(DedicatedHost, "db"), of(BareMetalServer, "web")])
        );
        assert_eq!(parse(&["web", "a b"], None), Err(Exit::Usage));
    }
}
