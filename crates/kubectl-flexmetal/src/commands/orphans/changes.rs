//! `orphans --adopt` and `--release`: what is done with one orphan.

use super::{OrphansArgs, scan::OrphanScan};
use crate::{
    account_client::hosting_error,
    commands::import::render_yaml,
    context::{PluginContext, api_error},
    exit::{Exit, PluginError},
    object_changes::{FIELD_MANAGER, NOTHING_DONE},
    objects::ObjectKind,
    output::OutputForm,
};
use hosting_types::{Server, ServerId, ServerStatus};
use kube::api::PostParams;
use serde_json::{Value, json};

/// Creates an object that adopts the server, after a question.
pub(super) async fn adopt_server(
    context: &PluginContext,
    args: &OrphansArgs,
    id: &ServerId,
) -> Result<Exit, PluginError> {
    let (_, scan) = OrphanScan::start(context, args, Some(id)).await?;
    let (server, target) = (scan.find_orphan(id)?, &scan.target);
    if let Some(block) = target.find_block(server) {
        let namespace = scan.find_namespace(server);
        let namespace = namespace.filter(|name| **name != *target.namespace);
        let remedy = namespace.map_or_else(String::new, |name| format!(" (add -n {name})"));
        return Err(PluginError::Usage(format!(
            "server {id} has the {block}{remedy}"
        )));
    }
    let names = target.choose_names(&[server], &scan.servers, &scan.owners);
    let name = names.concat();
    let manifest = target.build_manifest(server, &name);
    let resource = ObjectKind::BareMetalServer.resource_name(&name);
    if args.change.dry_run {
        let text = render_yaml(&manifest)?;
        print_outcome(context, text.trim_end(), &resource, &manifest)?;
        return Ok(Exit::Attention);
    }
    let namespace = &target.namespace;
    let title = format!("BareMetalServer {namespace}/{name}");
    let consequence = format!(
        "Create {title}, which adopts server {id} ({}, billed already) and retains it when the object is deleted.",
        server.name
    );
    if !args.change.confirm(&consequence)? {
        context.printer.inform(NOTHING_DONE);
        return Ok(Exit::Error);
    }
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let object = serde_json::from_value(manifest.clone())
        .map_err(|error| PluginError::Other(format!("no manifest: {error}")))?;
    let objects = ObjectKind::BareMetalServer.objects(context, Some(namespace));
    let created = objects.create(&params, &object).await;
    created.map_err(|error| api_error(format!("create {title}"), error))?;
    let sentence = format!("{resource} created");
    print_outcome(context, &sentence, &resource, &manifest)?;
    Ok(Exit::Fine)
}

/// Releases the server, after its host name was typed.
pub(super) async fn release_server(
    context: &PluginContext,
    args: &OrphansArgs,
    id: &ServerId,
) -> Result<Exit, PluginError> {
    let (_, scan) = OrphanScan::start(context, args, Some(id)).await?;
    let server = scan.find_own_orphan(id)?;
    let what = format!(
        "elease server {id} ({}, {}, {}), which erases its disks for good.",
        server.name, server.instance_type, server.location
    );
    if args.change.dry_run {
        print_server(context, &format!("Would r{what}"), server)?;
        return Ok(Exit::Attention);
    }
    // A server without a name is confirmed by its UUID.
    let name = match server.name.trim() {
        "" => id.as_str(),
        name => name,
    };
    if !args.change.confirm_by_name(&format!("R{what}"), name)? {
        context.printer.inform(NOTHING_DONE);
        return Ok(Exit::Error);
    }
    // The answer may have taken long: reads everything again, the server last.
    let (client, again) = OrphanScan::start(context, args, Some(id)).await?;
    let now = again.find_own_orphan(id)?;
    if (&now.name, &now.tags) != (&server.name, &server.tags) {
        return Err(PluginError::Other(format!(
            "server {id} changed while you answered; run the command again"
        )));
    }
    let released = client.release(id).await;
    let error = match released {
        Ok(server) => return print_release(context, &server),
        Err(error) if error.may_have_taken_effect() => error,
        Err(error) => return Err(hosting_error(format!("release server {id}"), error)),
    };
    // A read repeats nothing.
    match client.server(id).await {
        Ok(server) if is_ending(&server) => print_release(context, &server),
        _ => Err(PluginError::Other(format!(
            "it is not known whether the release of server {id} began, and it is not repeated: {}; check with kubectl flexmetal servers --all in a minute",
            error.explain()
        ))),
    }
}

fn print_release(context: &PluginContext, server: &Server) -> Result<Exit, PluginError> {
    let sentence = match server.status {
        ServerStatus::Released => format!("Server {} is released", server.id),
        _ => format!("The release of server {} began", server.id),
    };
    print_server(context, &sentence, server)?;
    Ok(Exit::Fine)
}

fn print_server(
    context: &PluginContext,
    sentence: &str,
    server: &Server,
) -> Result<(), PluginError> {
    let (id, status) = (server.id.as_str(), server.status.as_str());
    let data = json!({"uuid": id, "hostname": server.name, "status": status});
    print_outcome(context, sentence, id, &data)
}

/// Prints what was done: a sentence for people, else a name or the data.
fn print_outcome(
    context: &PluginContext,
    sentence: &str,
    name: &str,
    data: &Value,
) -> Result<(), PluginError> {
    let printer = &context.printer;
    match printer.form {
        OutputForm::Json | OutputForm::Yaml => printer.data(data),
        OutputForm::Name => printer.text(&format!("{name}\n")),
        _ => printer.text(&format!("{sentence}\n")),
    }
}

fn is_ending(server: &Server) -> bool {
    matches!(
        server.status,
        ServerStatus::Releasing | ServerStatus::Released
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_owners::tests::server;

    #[test]
    fn only_an_ending_server_shows_a_begun_release() {
        assert!(is_ending(&server(1, "releasing")) && is_ending(&server(1, "released")));
        assert!(!is_ending(&server(1, "delivered")) && !is_ending(&server(1, "failed")));
    }
}
