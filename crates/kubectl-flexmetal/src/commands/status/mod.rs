//! `status`: what needs the user first, then what changes, then what is ready.

mod detail;
mod summary;
mod text;
mod watch;

pub use summary::{describe_change, find, find_problems};

use crate::{
    ages,
    context::{Context, Scope, ScopeArgs},
    exit::{Exit, PluginError},
    objects::{self, Object, ObjectArgs, ObjectKind},
    output::OutputForm,
};
use summary::{Summary, summarize, used_cluster_accounts, without_unused_accounts};

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
pub async fn run(context: &Context, args: StatusArgs) -> Result<Exit, PluginError> {
    let mut scope = context.scope(&args.scope);
    let Some(name) = args.name else {
        let read = read_all(context, &scope).await?;
        if args.watch {
            return watch::watch_all(context, &scope, &read.kinds).await;
        }
        let summary = summarize(&read.objects);
        print(context, &summary)?;
        return Ok(exit_of(summary.needs_you.is_empty()));
    };
    let named = ObjectArgs { name, kind: None };
    let (kind, _) = named.parse()?;
    let kind = Some(kind.unwrap_or(ObjectKind::BareMetalServer));
    let object = ObjectArgs { kind, ..named }.get(context).await?;
    if args.watch {
        scope.namespace = Some(context.namespace.clone());
        return watch::watch_one(context, &scope, &object).await;
    }
    detail::print(context, &object)?;
    Ok(exit_of(find_problems(&object).is_empty()))
}

fn exit_of(is_fine: bool) -> Exit {
    match is_fine {
        true => Exit::Fine,
        false => Exit::Attention,
    }
}

/// The objects that the caller may list, and their kinds.
struct ReadObjects {
    objects: Vec<Object>,
    kinds: Vec<ObjectKind>,
}

/// Lists the objects of all kinds. Says which kinds the caller may not list.
async fn read_all(context: &Context, scope: &Scope) -> Result<ReadObjects, PluginError> {
    let lists = ObjectKind::ALL.map(|kind| objects::list(context, kind, scope));
    let lists = futures::future::join_all(lists).await;
    let mut read = ReadObjects {
        objects: Vec::new(),
        kinds: Vec::new(),
    };
    let mut forbidden = Vec::new();
    for (kind, list) in ObjectKind::ALL.into_iter().zip(lists) {
        match list {
            Ok(objects) => {
                read.kinds.push(kind);
                read.objects.extend(objects);
            }
            Err(error) if error.exit() == Exit::NotAllowed => forbidden.push((kind, error)),
            Err(error) => return Err(name_missing_kind(kind, error)),
        }
    }
    if read.kinds.is_empty()
        && let Some((_, error)) = forbidden.pop()
    {
        return Err(error);
    }
    for (kind, error) in forbidden {
        // Most users of a namespace may not list accounts of the cluster, and need not.
        let is_used = used_cluster_accounts(&read.objects).next().is_some();
        if !kind.is_of_cluster() || is_used || scope.namespace.is_none() {
            context.printer.note(&error.explain());
        }
    }
    if scope.namespace.is_some() {
        read.objects = without_unused_accounts(read.objects);
    }
    Ok(read)
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

fn print(context: &Context, summary: &Summary) -> Result<(), PluginError> {
    let printer = &context.printer;
    match printer.form {
        OutputForm::Name => {
            let names = summary.needs_you.iter();
            let names: Vec<_> = names.map(|it| it.object.resource_name() + "\n").collect();
            printer.text(&names.concat())
        }
        _ if !printer.is_for_people() => printer.data(summary),
        _ => {
            let text = text::render(printer, summary, ages::now());
            if text.is_empty() {
                printer.note("No objects of flexmetal.dev here; see --namespace and -A");
            }
            printer.text(&text)
        }
    }
}
