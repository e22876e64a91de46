//! `import`: manifests for servers that no object owns.

mod terraform;

use crate::{
    account_client::{self, AccountArgs, list_error},
    cluster_identity::{ClusterIdArgs, find_cluster_id, infer_cluster_id, unknown_cluster_id},
    context::Context,
    exit::{Exit, PluginError},
    output::OutputForm,
    server_manifests::{
        AdoptionBlock, ManifestTarget, build_manifest, choose_names, count_blocks,
        find_adoption_block, has_operator_tag,
    },
    server_owners::ServerOwners,
};
use flexmetal_core::{account::ownership_tags, cluster_id::ClusterId, wording::counted};
use hosting_types::{Server, ServerFilter, ServerId};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
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

/// What an import prints and says.
#[derive(Debug, Default)]
struct ImportPlan {
    /// Names and manifests, by name.
    manifests: Vec<(String, Value)>,
    /// Servers that the operator would not adopt.
    blocks: Vec<AdoptionBlock>,
    /// How many of the servers also lose a tag: that of a former object, or of retained servers.
    losing_tags: usize,
    /// The servers of the manifests.
    servers: BTreeSet<ServerId>,
}

/// Prints the manifests.
pub async fn run(context: &Context, args: ImportArgs) -> Result<Exit, PluginError> {
    let state = match &args.terraform_state {
        Some(path) => Some(load_state(path)?),
        None => None,
    };
    let client = account_client::connect(context, &args.account).await?;
    let filter = ServerFilter::default();
    let list = client.all_servers(&filter).growing().collect().await;
    let servers = list
        .map_err(|incomplete| list_error("list the servers of the account", incomplete))?
        .into_records();
    // After the servers: an object that was created meanwhile owns its server.
    let owners = ServerOwners::list(context).await?;
    let cluster = match find_cluster_id(context, &args.cluster_id).await? {
        Some(cluster) => Some(cluster),
        None => infer_cluster_id(&servers, &owners),
    };
    let owners = match &cluster {
        Some(cluster) => owners.with_cluster(cluster),
        None => owners,
    };
    let is_chosen = |server: &Server| {
        args.tag.iter().all(|tag| server.has_tag(tag))
            && state
                .as_ref()
                .is_none_or(|state| state.contains_key(&server.id))
    };
    let target = ManifestTarget::new(&context.namespace, &args.account);
    let plan = plan_import(&servers, &owners, &target, cluster.as_ref(), is_chosen);
    let plan = plan.ok_or_else(|| unknown_cluster_id(context))?;
    explain_plan(context, &plan, state.as_ref());
    match &args.to {
        Some(folder) => write_files(context, folder, &plan.manifests)?,
        None => print_manifests(context, &plan.manifests)?,
    }
    Ok(Exit::Fine)
}

fn load_state(path: &Path) -> Result<StateServers, PluginError> {
    let shown = path.display().to_string();
    let state = fs::read(path).map_err(|source| PluginError::File {
        path: shown.clone(),
        source,
    })?;
    terraform::find_servers(&state).map_err(|why| {
        PluginError::Usage(format!("--terraform-state {shown} cannot be used: {why}"))
    })
}

/// The live servers without an object that are chosen. None: some have tags of an operator, and the cluster is not
/// known.
fn plan_import(
    servers: &[Server],
    owners: &ServerOwners,
    target: &ManifestTarget,
    cluster: Option<&ClusterId>,
    is_chosen: impl Fn(&Server) -> bool,
) -> Option<ImportPlan> {
    let mut plan = ImportPlan::default();
    let mut free = Vec::new();
    for server in servers {
        if !server.status.is_live() || !is_chosen(server) || owners.find(server).is_some() {
            continue;
        }
        if cluster.is_none() && has_operator_tag(server) {
            return None;
        }
        match find_adoption_block(server, target, cluster) {
            Some(block) => plan.blocks.push(block),
            None => free.push(server),
        }
    }
    let names = choose_names(&free, servers, owners, &target.namespace, cluster);
    for (server, name) in free.into_iter().zip(names) {
        if ownership_tags::is_retained(server) || ownership_tags::order_tag(server).is_some() {
            plan.losing_tags += 1;
        }
        plan.servers.insert(server.id.clone());
        let manifest = build_manifest(server, &name, target);
        plan.manifests.push((name, manifest));
    }
    plan.manifests.sort_by(|one, other| one.0.cmp(&other.0));
    Some(plan)
}

/// Says what the manifests do, and what is left out.
fn explain_plan(context: &Context, plan: &ImportPlan, state: Option<&StateServers>) {
    let printer = &context.printer;
    for (block, count) in count_blocks(plan.blocks.iter().copied()) {
        printer.warn(&format!(
            "Left out {}: {}",
            counted(count, "server"),
            block.explain()
        ));
    }
    if plan.manifests.is_empty() {
        let which = if plan.blocks.is_empty() {
            "every"
        } else {
            "every other"
        };
        printer.note(&format!(
            "Nothing to import: {which} such live server has an object"
        ));
        return;
    }
    if plan.losing_tags > 0 {
        printer.note(&format!(
            "{} also had an object before or was retained: the operator replaces its former tag",
            counted(plan.losing_tags, "server")
        ));
    }
    let Some(state) = state else { return };
    let managed = state.iter().filter(|(id, _)| plan.servers.contains(*id));
    let addresses: BTreeSet<&str> = managed
        .flat_map(|(_, addresses)| addresses)
        .map(String::as_str)
        .collect();
    printer.note(
        "Terraform still manages these resources; remove them from its state, or it may destroy the servers:",
    );
    for address in addresses {
        printer.note(&format!("  {address}"));
    }
}

fn print_manifests(context: &Context, manifests: &[(String, Value)]) -> Result<(), PluginError> {
    let printer = &context.printer;
    let items: Vec<&Value> = manifests.iter().map(|(_, manifest)| manifest).collect();
    match printer.form {
        // kubectl applies a list, but no array.
        OutputForm::Json => {
            printer.data(&json!({"apiVersion": "v1", "kind": "List", "items": items}))
        }
        OutputForm::Name => {
            let names = manifests.iter();
            let names: String = names
                .map(|(name, _)| format!("baremetalserver.{}/{name}\n", api::GROUP))
                .collect();
            printer.text(&names)
        }
        OutputForm::Table | OutputForm::Wide | OutputForm::Yaml | OutputForm::Csv => {
            let documents = items.into_iter().map(render_yaml);
            let documents: Vec<String> = documents.collect::<Result<_, _>>()?;
            printer.text(&documents.join("---\n"))
        }
    }
}

/// A manifest as YAML, with a newline at its end.
pub fn render_yaml(manifest: &Value) -> Result<String, PluginError> {
    let text = serde_saphyr::to_string(manifest)
        .map_err(|error| PluginError::Other(format!("no YAML: {error}")))?;
    Ok(text.trim_end().to_owned() + "\n")
}

/// Writes one file per manifest. A file with other content stops the command before anything is written.
fn write_files(
    context: &Context,
    folder: &Path,
    manifests: &[(String, Value)],
) -> Result<(), PluginError> {
    let failed = |path: &Path, source| PluginError::File {
        path: path.display().to_string(),
        source,
    };
    let is_json = context.printer.form == OutputForm::Json;
    let mut files = Vec::new();
    for (name, manifest) in manifests {
        let (text, ending) = match is_json {
            true => (format!("{manifest:#}\n"), "json"),
            false => (render_yaml(manifest)?, "yaml"),
        };
        let path = folder.join(format!("{name}.{ending}"));
        match fs::read_to_string(&path) {
            Ok(existing) if existing == text => continue,
            Ok(_) => {
                return Err(PluginError::Usage(format!(
                    "{} exists with other content; move it, or choose another folder",
                    path.display()
                )));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => files.push((path, text)),
            Err(error) => return Err(failed(&path, error)),
        }
    }
    if !files.is_empty() {
        fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    }
    for (path, text) in &files {
        let file = fs::File::create_new(path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| failed(path, error))?;
        context.printer.text(&format!("{}\n", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        commands::servers::tests::server,
        server_manifests::tests::target,
        server_objects::tests::uuid,
        server_owners::tests::{cluster, ordered, owners},
    };

    fn plan(servers: &[Server], owners: &ServerOwners) -> ImportPlan {
        plan_import(servers, owners, &target(), Some(&cluster()), |_| true).unwrap()
    }

    fn names(plan: &ImportPlan) -> Vec<&str> {
        plan.manifests
            .iter()
            .map(|(name, _)| name.as_str())
            .collect()
    }

    #[test]
    fn second_run_after_applying_finds_nothing() {
        let servers = [server(2, "delivered"), server(1, "provisioning")];
        let first = plan(&servers, &owners(&[]));
        assert_eq!(names(&first), ["node-1", "node-2"]);
        let objects: Vec<_> = first
            .manifests
            .iter()
            .map(|(name, manifest)| ("a", name.as_str(), manifest["spec"].clone(), json!({})))
            .collect();
        assert!(plan(&servers, &owners(&objects)).manifests.is_empty());
    }

    #[test]
    fn only_live_servers_without_an_object_are_imported() {
        let servers = [
            server(1, "released"),
            server(2, "failed"),
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
    fn server_of_another_cluster_is_left_out() {
        let foreign = Server {
            tags: vec!["fmo-cluster:ffffffffffffffff".into()],
            ..server(1, "delivered")
        };
        let plan = plan(&[foreign.clone(), server(2, "delivered")], &owners(&[]));
        assert_eq!(names(&plan), ["node-2"]);
        assert_eq!(plan.blocks, [AdoptionBlock::OtherCluster]);
        let unknown = plan_import(&[foreign], &owners(&[]), &target(), None, |_| true);
        assert!(unknown.is_none(), "needs the identity of the cluster");
    }

    #[test]
    fn former_tags_that_the_operator_replaces_are_counted() {
        let retained = Server {
            tags: vec!["fmo-retained".into()],
            ..server(1, "delivered")
        };
        let plan = plan(
            &[retained, ordered(2, "a", "gone"), server(3, "delivered")],
            &owners(&[]),
        );
        assert_eq!((plan.manifests.len(), plan.losing_tags), (3, 2));
    }
}
