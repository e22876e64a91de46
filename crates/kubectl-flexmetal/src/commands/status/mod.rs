//! `status`: what needs the user first, then what changes, then what is ready.

mod detail;
pub mod findings;
mod summary;
mod watch;

pub use api::conditions::find_condition as find;
pub use findings::message_of;

use crate::{
    context::{ListScope, PluginContext, ScopeArgs},
    exit::{Exit, PluginError},
    objects::{self, Object, ObjectArgs, ObjectKind},
    output::OutputForm,
};
use findings::find_problems;
use summary::{Summary, render, summarize, used_cluster_accounts, without_unused_accounts};

/// Arguments of `status`.
#[derive(Clone, Debug, clap::Args)]
pub struct StatusArgs {
    /// One server in detail, or another object such as skey/admin
    #[arg(conflicts_with_all = ["all_namespaces", "selector"])]
    name: Option<String>,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Show changes as they happen, until Ctrl-C
    #[arg(short, long)]
    watch: bool,
}

/// Prints what needs attention, what changes, and what is ready.
pub async fn run(context: &PluginContext, args: StatusArgs) -> Result<Exit, PluginError> {
    let mut scope = context.scope(&args.scope);
    let Some(name) = args.name else {
        let (objects, kinds) = read_all(context, &scope).await?;
        if args.watch {
            return watch::watch(context, &scope, &kinds, None).await;
        }
        let summary = summarize(&objects);
        print(context, &summary)?;
        return Ok(Exit::attention_if(!summary.needs_you.is_empty()));
    };
    let mut named = ObjectArgs { name, kind: None };
    let (kind, _) = named.parse()?;
    named.kind = kind.or(Some(ObjectKind::BareMetalServer));
    let object = named.get(context).await?;
    if args.watch {
        scope.namespace = Some(context.namespace.clone());
        return watch::watch(context, &scope, &[object.kind()], Some(object.name())).await;
    }
    detail::print(context, &object)?;
    Ok(Exit::attention_if(!find_problems(&object).is_empty()))
}

/// The objects that the caller may list, and their kinds. Says which kinds the caller may not list.
async fn read_all(
    context: &PluginContext,
    scope: &ListScope,
) -> Result<(Vec<Object>, Vec<ObjectKind>), PluginError> {
    let (mut objects, mut forbidden) = objects::list_all(context, scope).await;
    let other = |(_, error): &(_, PluginError)| error.exit() != Exit::NotAllowed;
    if let Some(at) = forbidden.iter().position(other) {
        let (kind, error) = forbidden.swap_remove(at);
        return Err(name_missing_kind(kind, error));
    }
    let mut kinds = ObjectKind::ALL.to_vec();
    kinds.retain(|kind| !forbidden.iter().any(|(it, _)| it == kind));
    if kinds.is_empty()
        && let Some((_, error)) = forbidden.pop()
    {
        return Err(error);
    }
    // Most users of a namespace may not list accounts of the cluster, and need not.
    let is_used = used_cluster_accounts(&objects).next().is_some();
    let missed = forbidden.iter().map(|(kind, _)| kind);
    let missed = missed.filter(|it| !it.is_of_cluster() || is_used || scope.namespace.is_none());
    let missed: Vec<String> = missed.map(|kind| kind.plural()).collect();
    if !missed.is_empty() {
        let missed = missed.join(", ");
        context
            .printer
            .inform(&format!("Not shown, as you may not list them: {missed}"));
    }
    if scope.namespace.is_some() {
        objects = without_unused_accounts(objects);
    }
    Ok((objects, kinds))
}

/// If the cluster does not have the kind: what is missing.
fn name_missing_kind(kind: ObjectKind, error: PluginError) -> PluginError {
    let PluginError::ApiServer { source, .. } = &error else {
        return error;
    };
    match source.as_ref() {
        kube::Error::Api(status) if status.code == 404 => PluginError::Other(format!(
            "the cluster has no {}.{}; kubectl flexmetal doctor says what is missing",
            kind.plural(),
            api::GROUP
        )),
        _ => error,
    }
}

fn print(context: &PluginContext, summary: &Summary) -> Result<(), PluginError> {
    let printer = &context.printer;
    match printer.form {
        OutputForm::Name => {
            let names = summary.needs_you.iter().map(|it| &it.object);
            let names = names.map(|it| it.kind.resource_name(&it.name) + "\n");
            printer.text(&names.collect::<String>())
        }
        _ if !printer.is_table() => printer.data(summary),
        _ => {
            let text = render(printer, summary);
            if text.is_empty() {
                printer.inform("No objects of flexmetal.dev here; see --namespace and -A");
            }
            printer.text(&text)
        }
    }
}
