//! `plan`: what the operator would send to the provider. It only reads, and has manifests admitted without storing them.

mod account;
mod effects;
mod facts;
mod kinds;
mod limits;
mod manifests;
mod predict;
mod server;
mod server_index;
mod values;
mod whitelist;

use crate::{
    cluster_identity::{ClusterIdArgs, find_cluster_id, unknown_cluster_id},
    context::PluginContext,
    exit::{Exit, PluginError},
    objects::ObjectArgs,
    output::OutputForm,
};
use clap::ArgGroup;
use effects::{ApplyResult, ObjectPlan};
use facts::Gatherer;
use manifests::PlanItem;
use std::path::{Path, PathBuf};

/// The field manager of this plugin.
const FIELD_MANAGER: &str = "kubectl-flexmetal";

/// Arguments of `plan`.
#[derive(Clone, Debug, clap::Args)]
#[command(group = ArgGroup::new("source").required(true).args(["name", "filename", "kustomize"]))]
pub struct PlanArgs {
    /// An object as it is: name, or kind and name such as skey/admin
    name: Option<String>,
    /// Manifests to apply: a file, a folder without the folders in it, or - for standard input
    #[arg(short, long, value_name = "FILE")]
    filename: Vec<String>,
    /// Folder with a kustomization to apply
    #[arg(short, long, value_name = "DIR")]
    kustomize: Option<PathBuf>,
    /// Field manager that will apply the manifests, so that the fields that they no longer have count
    #[arg(long, value_name = "NAME", default_value = FIELD_MANAGER)]
    field_manager: String,
    /// Ask this hosting API with the key in FLEXMETAL_API_KEY, instead of the accounts' own
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    #[command(flatten)]
    cluster: ClusterIdArgs,
}

/// Prints the plan.
pub async fn run(context: &PluginContext, args: PlanArgs) -> Result<Exit, PluginError> {
    let mut items = Vec::new();
    if let Some(name) = args.name {
        if name.contains('/') && Path::new(&name).exists() {
            let text = format!("{name} is a file or folder; give it to --filename or --kustomize");
            return Err(PluginError::Usage(text));
        }
        let object = ObjectArgs { name, kind: None }.get(context).await?;
        items.push(PlanItem::from_object(object));
    } else {
        let manifests = match &args.kustomize {
            Some(folder) => manifests::build_kustomization(folder)?,
            None => manifests::read_files(&args.filename)?,
        };
        for manifest in manifests {
            items.push(manifests::dry_run(context, manifest, &args.field_manager).await?);
        }
    }
    let cluster = find_cluster_id(context, &args.cluster).await?;
    let cluster = cluster.ok_or_else(|| unknown_cluster_id(context))?;
    let mut gatherer = Gatherer::new(context, cluster, &items, args.base_url);
    let mut plans = Vec::new();
    for PlanItem {
        object, mut plan, ..
    } in items
    {
        match object {
            Some(object) => kinds::plan_object(&mut gatherer, object, &mut plan).await?,
            // One of another API group, unless it is refused.
            None if plan.apply != ApplyResult::Refused => continue,
            None => {}
        }
        plans.push(plan);
    }
    print(context, &plans)
}

fn print(context: &PluginContext, plans: &[ObjectPlan]) -> Result<Exit, PluginError> {
    let printer = &context.printer;
    let none = "There is no object of flexmetal.dev to plan";
    match printer.form {
        OutputForm::Json | OutputForm::Yaml => printer.data(&plans)?,
        form => {
            let rows = plans.iter().flat_map(|plan| {
                // Each object has one name.
                let most = match form {
                    OutputForm::Name => 1,
                    _ => usize::MAX,
                };
                plan.rows().into_iter().take(most)
            });
            printer.rows(&rows.collect::<Vec<_>>(), none)?;
        }
    }
    printer.inform(&effects::summarize(plans));
    Ok(exit_of(plans))
}

/// Whether something would be sent, may be sent later, is refused, or cannot be as declared.
fn exit_of(plans: &[ObjectPlan]) -> Exit {
    let is_something = |plan: &ObjectPlan| {
        let is_sent = !plan.effects.is_empty() || plan.may_continue;
        is_sent || !plan.why.is_empty() || plan.apply == ApplyResult::Refused
    };
    Exit::attention_if(plans.iter().any(is_something))
}

#[cfg(test)]
mod tests {
    use super::{effects::tests::plan, *};
    use clap::Parser as _;

    #[derive(Debug, clap::Parser)]
    struct PlanLine {
        #[command(flatten)]
        args: PlanArgs,
    }

    fn parse(words: &[&str]) -> Result<PlanArgs, clap::Error> {
        let words = ["plan"].iter().chain(words);
        PlanLine::try_parse_from(words).map(|words| words.args)
    }

    #[test]
    fn exactly_one_source_is_given() {
        assert!(parse(&[]).is_err());
        assert!(parse(&["web", "-f", "a.yaml"]).is_err());
        assert!(parse(&["-k", "base", "-f", "a.yaml"]).is_err());
        let files = parse(&["-f", "a.yaml", "-f", "-"]).unwrap();
        assert_eq!(files.filename, ["a.yaml", "-"]);
        assert_eq!(files.field_manager, FIELD_MANAGER);
        assert!(parse(&["skey/web"]).is_ok());
    }

    #[test]
    fn refusal_or_request_needs_attention() {
        let mut fine = plan(ApplyResult::Created);
        fine.why.clear();
        assert_eq!(exit_of(&[fine]), Exit::Fine);
        assert_eq!(exit_of(&[plan(ApplyResult::Refused)]), Exit::Attention);
        assert_eq!(exit_of(&[plan(ApplyResult::Created)]), Exit::Attention);
        let mut waiting = plan(ApplyResult::Configured);
        waiting.may_continue = true;
        waiting.why.clear();
        assert_eq!(exit_of(&[waiting]), Exit::Attention);
        let mut sending = plan(ApplyResult::Unchanged);
        sending.effects = vec![effects::tests::release()];
        sending.why.clear();
        assert_eq!(exit_of(&[sending]), Exit::Attention);
    }
}
