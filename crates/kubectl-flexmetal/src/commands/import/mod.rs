//! `import`: manifests for servers that no object owns.

mod terraform;

use crate::{
    account_client::{self, AccountArgs, list_servers},
    cluster_identity::{ClusterIdArgs, find_by_servers},
    context::PluginContext,
    exit::{Exit, PluginError},
    objects::ObjectKind,
    output::OutputForm,
    server_manifests::ManifestTarget,
    server_owners::{OrderFacts, ServerOwners},
};
use flexmetal_core::{account::ownership_tags, wording::counted};
use hosting_types::{Server, ServerFilter, ServerId};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
};
use terraform::StateServers;

/// Arguments of `import`.
#[derive(Clone, Debug, clap::Args)]
pub struct ImportArgs {
    /// Only servers with this tag; repeat it for servers with all of several
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Only servers in this Terraform state
    #[arg(long, value_name = "FILE")]
    terraform_state: Option<PathBuf>,
    /// Write one file per server into this folder instead of printing
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    #[command(flatten)]
    cluster_id: ClusterIdArgs,
    #[command(flatten)]
    account: AccountArgs,
}

/// What an import prints.
#[derive(Debug, Default)]
struct ImportPlan {
    /// Manifests by the names of their objects.
    manifests: BTreeMap<String, Value>,
    /// How many servers the operator would not adopt, by the reason.
    blocks: BTreeMap<&'static str, usize>,
    /// How many of the servers also lose the tag of a former object, or of retained servers.
    losing_tags: usize,
    /// The servers of the manifests.
    servers: BTreeSet<ServerId>,
}

/// Prints the manifests.
pub async fn run(context: &PluginContext, args: ImportArgs) -> Result<Exit, PluginError> {
    let state = args
        .terraform_state
        .as_deref()
        .map(load_state)
        .transpose()?;
    let client = account_client::connect(context, &args.account).await?;
    let servers = list_servers(&client, &ServerFilter::default()).await?;
    // After the servers: an object that was created meanwhile owns its server.
    let owners = ServerOwners::list(context).await?;
    let cluster = find_by_servers(context, &args.cluster_id, &servers, &owners).await?;
    let owners = owners.with_orders(OrderFacts {
        cluster: cluster.clone(),
        ..OrderFacts::default()
    });
    let target = ManifestTarget {
        namespace: context.namespace.clone(),
        account: args.account.reference(),
        cluster,
    };
    let plan = plan_import(&servers, &owners, &target, |server| {
        let is_in_state = state.as_ref().is_none_or(|it| it.contains_key(&server.id));
        is_in_state && args.tag.iter().all(|tag| server.has_tag(tag))
    });
    explain_plan(context, &plan, state.as_ref());
    match &args.to {
        Some(folder) => write_files(context, folder, &plan.manifests)?,
        None => print_manifests(context, &plan.manifests)?,
    }
    Ok(Exit::Fine)
}

fn load_state(path: &Path) -> Result<StateServers, PluginError> {
    let state = fs::read(path).map_err(|error| file_error(path, error))?;
    terraform::find_servers(&state).map_err(|why| {
        let path = path.display();
        PluginError::Usage(format!("--terraform-state {path} cannot be used: {why}"))
    })
}

fn file_error(path: &Path, source: std::io::Error) -> PluginError {
    PluginError::File {
        path: path.display().to_string(),
        source,
    }
}

/// The live servers without an object that are chosen.
fn plan_import(
    servers: &[Server],
    owners: &ServerOwners,
    target: &ManifestTarget,
    is_chosen: impl Fn(&Server) -> bool,
) -> ImportPlan {
    let mut plan = ImportPlan::default();
    let mut free = Vec::new();
    for server in servers {
        if !server.status.is_live() || !is_chosen(server) || owners.find(server).is_some() {
            continue;
        }
        let is_operators = |tag: &String| ownership_tags::is_operators(tag);
        let is_known = owners.is_complete && target.cluster.is_some();
        let block = match !is_known && server.tags.iter().any(is_operators) {
            true => Some(
                "tag of an operator, and not all objects or the cluster's identity are known, so they may have an object",
            ),
            false => target.find_block(server),
        };
        match block {
            Some(block) => *plan.blocks.entry(block).or_default() += 1,
            None => free.push(server),
        }
    }
    let names = target.choose_names(&free, servers, owners);
    for (server, name) in free.into_iter().zip(names) {
        if ownership_tags::is_retained(server) || ownership_tags::order_tag(server).is_some() {
            plan.losing_tags += 1;
        }
        plan.servers.insert(server.id.clone());
        let manifest = target.build_manifest(server, &name);
        plan.manifests.insert(name, manifest);
    }
    plan
}

/// Says what the manifests do, and what is left out.
fn explain_plan(context: &PluginContext, plan: &ImportPlan, state: Option<&StateServers>) {
    let printer = &context.printer;
    for (block, count) in &plan.blocks {
        let servers = counted(*count, "server");
        printer.warn(&format!("Left out {servers}: {block}"));
    }
    if plan.manifests.is_empty() {
        printer.inform(match plan.blocks.is_empty() {
            true => "Nothing to import: every such live server has an object",
            false => "Nothing to import: every other such live server has an object",
        });
        return;
    }
    if plan.losing_tags > 0 {
        let servers = counted(plan.losing_tags, "server");
        printer.inform(&format!(
            "The operator also replaces the tag of a former object on {servers}"
        ));
    }
    let Some(state) = state else { return };
    let managed = state.iter().filter(|(id, _)| plan.servers.contains(*id));
    let addresses: BTreeSet<&String> = managed.flat_map(|(_, addresses)| addresses).collect();
    printer.inform(
        "Terraform still manages these resources; remove them from its state, or it may destroy the servers:",
    );
    for address in addresses {
        printer.inform(&format!("  {address}"));
    }
}

fn print_manifests(
    context: &PluginContext,
    manifests: &BTreeMap<String, Value>,
) -> Result<(), PluginError> {
    let printer = &context.printer;
    let text = match printer.form {
        // kubectl applies a list, but no array.
        OutputForm::Json => {
            let items: Vec<_> = manifests.values().collect();
            return printer.data(&json!({"apiVersion": "v1", "kind": "List", "items": items}));
        }
        OutputForm::Name => {
            let names = manifests.keys();
            let names = names.map(|it| ObjectKind::BareMetalServer.resource_name(it) + "\n");
            names.collect()
        }
        _ => {
            let documents = manifests.values().map(render_yaml);
            documents.collect::<Result<Vec<_>, _>>()?.join("---\n")
        }
    };
    printer.text(&text)
}

/// A manifest as YAML, with a newline at its end.
pub fn render_yaml(manifest: &Value) -> Result<String, PluginError> {
    let text = serde_saphyr::to_string(manifest)
        .map_err(|error| PluginError::Other(format!("no YAML: {error}")))?;
    Ok(text.trim_end().to_owned() + "\n")
}

/// Writes one file per manifest. A file that exists with other content stops the command.
fn write_files(
    context: &PluginContext,
    folder: &Path,
    manifests: &BTreeMap<String, Value>,
) -> Result<(), PluginError> {
    if !manifests.is_empty() {
        fs::create_dir_all(folder).map_err(|error| file_error(folder, error))?;
    }
    for (name, manifest) in manifests {
        let (text, ending) = match context.printer.form {
            OutputForm::Json => (format!("{manifest:#}\n"), "json"),
            _ => (render_yaml(manifest)?, "yaml"),
        };
        let path = folder.join(format!("{name}.{ending}"));
        match fs::File::create_new(&path) {
            Ok(mut file) => file.write_all(text.as_bytes()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if fs::read_to_string(&path).is_ok_and(|existing| existing == text) {
                    continue;
                }
                let path = path.display();
                return Err(PluginError::Usage(format!(
                    "{path} exists with other content; move it, or choose another folder"
                )));
            }
            Err(error) => Err(error),
        }
        .map_err(|error| file_error(&path, error))?;
        context.printer.text(&format!("{}\n", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        server_manifests::tests::default_target,
        server_owners::tests::{ordered, owners, server, uuid},
    };

    fn plan(servers: &[Server], owners: &ServerOwners) -> ImportPlan {
        plan_import(servers, owners, &default_target(), |_| true)
    }

    #[test]
    fn second_run_after_applying_finds_nothing() {
        let servers = [server(2, "delivered"), server(1, "provisioning")];
        let first = plan(&servers, &owners(&[])).manifests;
        assert_eq!(first.keys().collect::<Vec<_>>(), ["node-1", "node-2"]);
        let objects: Vec<_> = first
            .iter()
            .map(|(name, manifest)| ("a", name.as_str(), manifest["spec"].clone(), json!({})))
            .collect();
        assert!(plan(&servers, &owners(&objects)).manifests.is_empty());
    }

    #[test]
    fn only_live_servers_without_an_object_are_imported() {
        let servers = [
            server(1, "released"),
            server(3, "releasing"),
            server(4, "delivered"),
            ordered(5, "b", "web"),
        ];
        let objects = owners(&[
            ("b", "web", json!({}), json!({})),
            ("b", "db", json!({}), json!({"uuid": uuid(4)})),
        ]);
        assert!(plan(&servers, &objects).manifests.is_empty());
        assert_eq!(plan(&servers, &owners(&[])).manifests.len(), 2);
    }

    #[test]
    fn servers_that_others_may_own_are_left_out() {
        let foreign = Server {
            tags: vec!["fmo-cluster:ffffffffffffffff".into()],
            ..server(1, "delivered")
        };
        let servers = [foreign, server(2, "delivered"), ordered(3, "b", "web")];
        let names = |plan: &ImportPlan| plan.manifests.keys().cloned().collect::<Vec<_>>();
        let known = plan(&servers, &owners(&[]));
        assert_eq!(names(&known), ["node-2", "node-3"]);
        assert_eq!(known.blocks.len(), 1);
        let partly = ServerOwners::default();
        assert_eq!(names(&plan(&servers, &partly)), ["node-2"]);
        let unknown = ManifestTarget {
            cluster: None,
            ..default_target()
        };
        let unknown = plan_import(&servers, &owners(&[]), &unknown, |_| true);
        assert_eq!(names(&unknown), ["node-2"]);
    }

    #[test]
    fn tags_that_the_operator_replaces_are_counted() {
        let retained = Server {
            tags: vec!["fmo-retained".into()],
            ..server(1, "delivered")
        };
        let servers = [retained, ordered(2, "a", "gone"), server(3, "delivered")];
        assert_eq!(plan(&servers, &owners(&[])).losing_tags, 2);
    }
}
