//! `orphans --adopt`: creates an object that adopts the server.

use super::{OrphansArgs, print_outcome, scan::OrphanScan};
use crate::{
    commands::import::render_yaml,
    context::{Context, api_error},
    exit::{Exit, PluginError},
    server_manifests::{AdoptionBlock, build_manifest, choose_names, find_adoption_block},
};
use api::BareMetalServer;
use hosting_types::ServerId;
use kube::api::{Patch, PatchParams};

/// Creates the object, after a question.
pub async fn adopt_server(
    context: &Context,
    args: &OrphansArgs,
    scan: &OrphanScan,
    id: &ServerId,
) -> Result<Exit, PluginError> {
    let server = scan.find_orphan(id)?;
    if let Some(owner) = scan.owners().find(server) {
        return Err(PluginError::Usage(format!(
            "{} waits for server {id}; acknowledge Adopt there",
            owner.title()
        )));
    }
    if let Some(block) = find_adoption_block(server, &scan.target, Some(&scan.cluster)) {
        let namespace = scan.find_namespace(server);
        let namespace = namespace.filter(|_| block == AdoptionBlock::OtherNamespace);
        let remedy = namespace.map_or_else(String::new, |name| format!(" (add -n {name})"));
        return Err(PluginError::Usage(format!(
            "server {id} has the {}{remedy}",
            block.explain()
        )));
    }
    let target = &scan.target;
    let names = choose_names(
        &[server],
        scan.servers(),
        scan.owners(),
        &target.namespace,
        Some(&scan.cluster),
    );
    let name = names.into_iter().next().unwrap_or_default();
    let manifest = build_manifest(server, &name, target);
    let resource = format!("baremetalserver.{}/{name}", api::GROUP);
    if args.change.dry_run {
        let text = render_yaml(&manifest)?;
        print_outcome(context, text.trim_end(), &resource, &manifest)?;
        return Ok(Exit::Attention);
    }
    let title = format!("BareMetalServer {}/{name}", target.namespace);
    let consequence = format!(
        "Create {title}, which adopts server {id} ({}, billed already) and retains it when the object is deleted.",
        server.name
    );
    if !args.change.confirm(&consequence)? {
        context.printer.note("Nothing was done");
        return Ok(Exit::Error);
    }
    let objects = context.api_in::<BareMetalServer>(&target.namespace);
    let params = PatchParams::apply("kubectl-flexmetal");
    objects
        .patch(&name, &params, &Patch::Apply(&manifest))
        .await
        .map_err(|error| api_error(format!("create {title}"), error))?;
    print_outcome(
        context,
        &format!("{resource} created"),
        &resource,
        &manifest,
    )?;
    Ok(Exit::Fine)
}
