//! `plan`: what the operator would send to the provider. It only reads, and has manifests admitted without storing them.

mod account;
mod effects;
mod facts;
mod gather;
mod installation;
mod kinds;
mod limits;
mod manifests;
mod server;
mod server_index;
mod steps;
mod whitelist;

use crate::{
    cluster_identity::{ClusterIdArgs, find_cluster_id, unknown_cluster_id},
    context::Context,
    exit::{Exit, PluginError},
    objects::{Object, ObjectArgs, ObjectKind},
    output::OutputForm,
};
use api::conditions::Type;
use clap::ArgGroup;
use effects::{Admission, ObjectPlan};
use facts::{Gatherer, PlannedObjects};
use manifests::{DryRun, Manifest};
use std::path::PathBuf;

/// The field manager of this plugin.
const FIELD_MANAGER: &str = "kubectl-flexmetal";

/// Arguments of `plan`.
#[derive(Clone, Debug, clap::Args)]
#[command(group = ArgGroup::new("source").required(true).args(["name", "filename", "kustomize"]))]
pub struct PlanArgs {
    /// An object as it is: name, or kind and name such as skey/admin
    name: Option<String>,
    /// Manifests to apply; - for standard input
    #[arg(short, long, value_name = "FILE")]
    filename: Vec<String>,
    /// Folder with a kustomization to apply
    #[arg(short, long, value_name = "DIR")]
    kustomize: Option<PathBuf>,
    /// Kind of the object; default: a server of this name, or else any kind
    #[arg(
        long,
        value_enum,
        ignore_case = true,
        hide_possible_values = true,
        conflicts_with_all = ["filename", "kustomize"]
    )]
    kind: Option<ObjectKind>,
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
pub async fn run(context: &Context, args: PlanArgs) -> Result<Exit, PluginError> {
    let runs = match &args.name {
        Some(name) => vec![read_object(context, name, args.kind).await?],
        None => {
            let manifests = match &args.kustomize {
                Some(folder) => manifests::build_kustomization(folder)?,
                None => manifests::read_files(&args.filename)?,
            };
            let mut runs = Vec::with_capacity(manifests.len());
            for manifest in manifests {
                runs.push(manifests::dry_run(context, manifest, &args.field_manager).await?);
            }
            runs
        }
    };
    let cluster = find_cluster_id(context, &args.cluster).await?;
    let cluster = cluster.ok_or_else(|| unknown_cluster_id(context))?;
    let planned = PlannedObjects::new(&runs);
    let mut gatherer = Gatherer::new(context, cluster, planned, args.base_url);
    let mut plans = Vec::new();
    for run in runs {
        plans.extend(plan_run(&mut gatherer, run).await?);
    }
    print(context, &plans)
}

/// An object without a manifest.
async fn read_object(
    context: &Context,
    name: &str,
    kind: Option<ObjectKind>,
) -> Result<DryRun, PluginError> {
    let args = ObjectArgs {
        name: name.to_owned(),
        kind,
    };
    let object = args.get(context).await?;
    Ok(DryRun {
        manifest: Manifest {
            api_version: api::GROUP.to_owned(),
            kind: object.kind().as_str().to_owned(),
            namespace: object.namespace().map(str::to_owned),
            name: object.name().to_owned(),
            body: serde_json::Value::Null,
        },
        admission: Admission::NotApplied,
        object: Some(object),
        refusal: None,
    })
}

/// The plan of one manifest. None: an object of another API group that is admitted.
async fn plan_run(
    gatherer: &mut Gatherer<'_>,
    run: DryRun,
) -> Result<Option<ObjectPlan>, PluginError> {
    let DryRun {
        manifest,
        admission,
        object,
        refusal,
    } = run;
    let mut plan = ObjectPlan {
        kind: manifest.kind,
        namespace: manifest.namespace,
        name: manifest.name,
        apply: admission,
        effects: Vec::new(),
        reason: None,
        message: refusal,
        pending_acknowledgements: Vec::new(),
        assumptions: Vec::new(),
    };
    match object {
        Some(object) => gather::plan_object(gatherer, object, &mut plan).await?,
        None if plan.message.is_none() => return Ok(None),
        None => {}
    }
    Ok(Some(plan))
}

fn print(context: &Context, plans: &[ObjectPlan]) -> Result<Exit, PluginError> {
    let printer = &context.printer;
    let none = "There is no object of flexmetal.dev to plan";
    match printer.form {
        OutputForm::Json | OutputForm::Yaml => printer.data(&plans)?,
        // Each object once.
        OutputForm::Name => {
            let rows = plans
                .iter()
                .filter_map(|plan| plan.rows().into_iter().next());
            printer.rows(&rows.collect::<Vec<_>>(), none)?;
        }
        OutputForm::Table | OutputForm::Wide | OutputForm::Csv => {
            let rows: Vec<_> = plans.iter().flat_map(ObjectPlan::rows).collect();
            printer.rows(&rows, none)?;
        }
    }
    for plan in plans {
        for assumption in &plan.assumptions {
            printer.note(&format!("{}: the plan assumes: {assumption}", plan.title()));
        }
    }
    printer.note(&effects::summarise(plans));
    Ok(exit_of(plans))
}

/// Whether something would be sent, or is refused.
fn exit_of(plans: &[ObjectPlan]) -> Exit {
    let is_something =
        |plan: &ObjectPlan| !plan.effects.is_empty() || plan.apply == Admission::Refused;
    match plans.iter().any(is_something) {
        true => Exit::Attention,
        false => Exit::Fine,
    }
}

/// The reason and message of an object's state, and its pending acknowledgements.
fn describe_state(object: &Object, plan: &mut ObjectPlan) {
    let find = |kind: Type, status: &str| {
        let mut conditions = object.conditions().iter();
        conditions.find(|it| it.type_ == kind.as_str() && it.status == status)
    };
    // A suspended object keeps its other conditions; a ready one may have changes that are not sent.
    let shown = find(Type::DeletionBlocked, "True")
        .or_else(|| find(Type::Failed, "True"))
        .or_else(|| find(Type::Suspended, "True"))
        .or_else(|| find(Type::Ready, "False"))
        .or_else(|| find(Type::Synced, "False"))
        .or_else(|| find(Type::Ready, "True"));
    if let Some(condition) = shown {
        plan.reason = Some(condition.reason.clone());
        plan.message = Some(condition.message.clone());
    }
    plan.pending_acknowledgements = object.acknowledgements().0.to_vec();
}

#[cfg(test)]
mod tests {
    use super::{effects::tests::plan, *};
    use clap::Parser as _;
    use serde_json::json;

    #[derive(Debug, clap::Parser)]
    struct Words {
        #[command(flatten)]
        args: PlanArgs,
    }

    fn parse(words: &[&str]) -> Result<PlanArgs, clap::Error> {
        let words = ["plan"].iter().chain(words);
        Words::try_parse_from(words).map(|words| words.args)
    }

    #[test]
    fn exactly_one_source_is_given() {
        assert!(parse(&[]).is_err());
        assert!(parse(&["web", "-f", "a.yaml"]).is_err());
        assert!(parse(&["-k", "base", "-f", "a.yaml"]).is_err());
        let files = parse(&["-f", "a.yaml", "-f", "-"]).unwrap();
        assert_eq!(files.filename, ["a.yaml", "-"]);
        assert_eq!(files.field_manager, FIELD_MANAGER);
        assert!(parse(&["web", "--kind", "skey"]).is_ok());
        assert!(parse(&["-k", "base", "--kind", "skey"]).is_err());
    }

    #[test]
    fn refusal_or_request_needs_attention() {
        assert_eq!(exit_of(&[plan(Admission::Created)]), Exit::Fine);
        assert_eq!(exit_of(&[plan(Admission::Refused)]), Exit::Attention);
        let mut sending = plan(Admission::Unchanged);
        sending.effects = vec![effects::PlannedEffect::of_release("u1")];
        assert_eq!(exit_of(&[sending]), Exit::Attention);
    }

    #[test]
    fn unsent_changes_of_a_ready_object_are_shown() {
        let condition = |kind: &str, status: &str, reason: &str| {
            json!({"type": kind, "status": status, "reason": reason, "message": reason,
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let reason = |conditions: serde_json::Value| {
            let tag = json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerTag",
                "metadata": {"name": "blue", "namespace": "a"}, "spec": {},
                "status": {"conditions": conditions},
            });
            let object = crate::objects::decode(ObjectKind::ServerTag, tag).unwrap();
            let mut plan = plan(Admission::Unchanged);
            describe_state(&object, &mut plan);
            plan.reason.unwrap()
        };
        let ready = condition("Ready", "True", "Available");
        let unsent = condition("Synced", "False", "PendingChanges");
        assert_eq!(reason(json!([ready])), "Available");
        assert_eq!(reason(json!([ready, unsent])), "PendingChanges");
        let waits = condition("Ready", "False", "NoStock");
        assert_eq!(reason(json!([waits, unsent])), "NoStock");
    }
}
