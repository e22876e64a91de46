//! `orphans --release`: releases a server that no object owns.

use super::{OrphansArgs, print_outcome, scan::OrphanScan};
use crate::{
    account_client::hosting_error,
    context::Context,
    exit::{Exit, PluginError},
};
use hosting_types::{Error, Server, ServerId, ServerStatus};
use serde::Serialize;

/// The server of a release.
#[derive(Debug, Serialize)]
struct ReleasedServer<'a> {
    uuid: &'a str,
    hostname: &'a str,
    status: &'a str,
}

/// Releases the server, after its host name was typed.
pub async fn release_server(
    context: &Context,
    args: &OrphansArgs,
    scan: &OrphanScan,
    id: &ServerId,
) -> Result<Exit, PluginError> {
    scan.find_orphan(id)?;
    let server = get_server(scan, id).await?;
    let consequence = format!(
        "Release server {id} ({}, {}, {}), which erases its disks for good.",
        server.name, server.instance_type, server.location
    );
    if args.change.dry_run {
        print_server(
            context,
            &format!("Would {}", lower_first(&consequence)),
            &server,
        )?;
        return Ok(Exit::Attention);
    }
    // A server without a name is confirmed by its UUID.
    let name = match server.name.trim() {
        "" => id.as_str(),
        name => name,
    };
    if !args.change.confirm_by_name(&consequence, name)? {
        context.printer.note("Nothing was done");
        return Ok(Exit::Error);
    }
    // The answer may have taken long.
    let server = get_server(scan, id).await?;
    scan.check_again(context, &server).await?;
    match scan.client.release(id).await {
        Ok(server) => {
            print_server(context, &describe_start(&server), &server)?;
            Ok(Exit::Fine)
        }
        Err(error) if error.may_have_taken_effect() => {
            // A read repeats nothing.
            let now = scan.client.server(id).await.ok();
            conclude(context, id, &error, now.as_ref())
        }
        Err(error) => Err(hosting_error(format!("release server {id}"), error)),
    }
}

async fn get_server(scan: &OrphanScan, id: &ServerId) -> Result<Server, PluginError> {
    let server = scan.client.server(id).await;
    server.map_err(|error| hosting_error(format!("read server {id}"), error))
}

/// The outcome after an answer that leaves it open. `now`: the server after it.
fn conclude(
    context: &Context,
    id: &ServerId,
    error: &Error,
    now: Option<&Server>,
) -> Result<Exit, PluginError> {
    if let Some(server) = now.filter(|server| is_ending(server)) {
        print_server(context, &describe_start(server), server)?;
        return Ok(Exit::Fine);
    }
    Err(PluginError::Other(format!(
        "it is not known whether the release of server {id} began, and it is not repeated: {}; check with kubectl flexmetal servers --all in a minute",
        error.explain()
    )))
}

fn print_server(context: &Context, sentence: &str, server: &Server) -> Result<(), PluginError> {
    let data = ReleasedServer {
        uuid: server.id.as_str(),
        hostname: &server.name,
        status: server.status.as_str(),
    };
    print_outcome(context, sentence, server.id.as_str(), &data)
}

fn is_ending(server: &Server) -> bool {
    matches!(
        server.status,
        ServerStatus::Releasing | ServerStatus::Released
    )
}

fn describe_start(server: &Server) -> String {
    match server.status {
        ServerStatus::Released => format!("Server {} is released", server.id),
        _ => format!(
            "The release of server {} began; it is {}",
            server.id,
            server.status.as_str()
        ),
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_ascii_lowercase());
    first.into_iter().chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::servers::tests::server;

    #[test]
    fn only_a_server_that_ends_shows_that_the_release_began() {
        assert!(is_ending(&server(1, "releasing")));
        assert!(is_ending(&server(1, "released")));
        assert!(!is_ending(&server(1, "delivered")));
        assert!(!is_ending(&server(1, "failed")));
    }

    #[test]
    fn start_of_a_release_names_server_and_state() {
        let text = describe_start(&server(1, "releasing"));
        assert!(
            text.contains("0001 began") && text.ends_with("releasing"),
            "{text}"
        );
    }
}
