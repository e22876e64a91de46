//! `servers`: all servers of the account, with or without an object.

use crate::{
    account_client::{self, AccountArgs, list_servers},
    context::PluginContext,
    exit::{Exit, PluginError},
    fields::{Field, field, text, time},
    server_owners::ServerOwners,
};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use hosting_types::{Server, ServerFilter, ServerStatus, StatusFilter};
use serde_json::{Value, json};

/// Arguments of `servers`.
#[derive(Clone, Debug, clap::Args)]
pub struct ServersArgs {
    /// Released servers, too
    #[arg(long)]
    all: bool,
    /// Only servers in this state; the provider decides which states it covers
    #[arg(long, value_parser = parse_state())]
    status: Option<StatusFilter>,
    /// Only servers with this tag; repeat it for servers with all of several
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Only servers without an object that you can list
    #[arg(long)]
    without_object: bool,
    #[command(flatten)]
    account: AccountArgs,
}

/// The states that the provider filters by.
const STATES: [StatusFilter; 6] = [
    StatusFilter::Creating,
    StatusFilter::Provisioning,
    StatusFilter::Delivered,
    StatusFilter::Failed,
    StatusFilter::Releasing,
    StatusFilter::Released,
];

fn parse_state() -> impl TypedValueParser<Value = StatusFilter> {
    let words = PossibleValuesParser::new(STATES.map(StatusFilter::as_str));
    words.try_map(|word| {
        let mut states = STATES.into_iter();
        states.find(|it| it.as_str() == word).ok_or("unknown")
    })
}

const FIELDS: &[Field] = &[
    field("UUID", "uuid"),
    field("NAME", "name"),
    field("STATUS", "status"),
    field("TYPE", "instanceType").wide(),
    field("LOCATION", "location"),
    field("OBJECT", "object"),
    field("AGE", "createdAt").age(),
    field("ADDRESSES", "addresses").wide(),
    field("OS", "os").wide(),
    field("CONTRACT", "contractID").wide(),
    field("TAGS", "tags").wide(),
    field("MESSAGE", "statusMessage").wide(),
];

/// Prints the servers.
pub async fn run(context: &PluginContext, args: ServersArgs) -> Result<Exit, PluginError> {
    let filter = ServerFilter {
        status: args.status,
        tags: args.tag.clone(),
    };
    let client = account_client::connect(context, &args.account).await?;
    let servers = list_servers(&client, &filter).await?;
    let owners = ServerOwners::list_allowed(context).await?;
    let records = build_records(servers, &owners, &args);
    let none = "The account has no such servers";
    context.printer.records(FIELDS, records, none)?;
    Ok(Exit::Fine)
}

/// The records, the oldest server first.
fn build_records(
    mut servers: Vec<Server>,
    owners: &ServerOwners,
    args: &ServersArgs,
) -> Vec<Value> {
    let wants_released = args.all || args.status == Some(StatusFilter::Released);
    servers.retain(|server| {
        (wants_released || server.status != ServerStatus::Released)
            && !(args.without_object && owners.find_recorded(&server.id).is_some())
    });
    servers.sort_by_cached_key(|server| (server.created_at, server.id.clone()));
    let records = servers.into_iter().map(|server| {
        let owner = owners.find_recorded(&server.id);
        json!({
            "uuid": server.id.to_string(), "name": server.name, "status": server.status.as_str(),
            // The provider's own text may repeat user data, the object's has no secrets.
            "statusMessage": owner.and_then(|it| it.message.as_deref()),
            "instanceType": server.instance_type, "location": server.location,
            "os": server.os_slug, "addresses": server.addresses, "tags": server.tags,
            "contractID": text(server.contract_id.unwrap_or_default()),
            "object": owner.map(|it| format!("{}/{}", it.namespace, it.name)),
            "createdAt": time(server.created_at), "deliveredAt": time(server.delivered_at),
            "releasedAt": time(server.released_at),
        })
    });
    records.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_owners::tests::{owners, server, uuid};
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct ServersLine {
        #[command(flatten)]
        args: ServersArgs,
    }

    fn records(words: &[&str]) -> Vec<Value> {
        let words = ["servers"].iter().chain(words);
        let args = ServersLine::try_parse_from(words).unwrap().args;
        let states = ["released", "delivered", "failed"];
        let servers = (1..).zip(states).map(|(at, state)| server(at, state));
        let status = json!({"uuid": uuid(3), "statusMessage": "no disk"});
        let owners = owners(&[("team", "web", json!({}), status)]);
        build_records(servers.collect(), &owners, &args)
    }

    fn names(words: &[&str]) -> Vec<String> {
        let records = records(words).into_iter();
        let names = records.map(|it| it["name"].as_str().unwrap_or_default().to_owned());
        names.collect()
    }

    #[test]
    fn released_servers_are_shown_on_request() {
        assert_eq!(names(&[]), ["node-3", "node-2"]);
        assert_eq!(names(&["--all"]), ["node-3", "node-2", "node-1"]);
        assert_eq!(names(&["--status", "released"]).len(), 3);
        assert_eq!(names(&["--without-object"]), ["node-2"]);
    }

    #[test]
    fn message_is_the_one_of_the_object() {
        let shown = records(&["--all"]);
        assert_eq!(shown[0]["object"], "team/web");
        assert_eq!(shown[0]["statusMessage"], "no disk");
        assert!(!json!(shown).to_string().contains("user data"), "{shown:?}");
        assert_eq!(shown[0]["createdAt"], "2026-09-21T14:13:17Z");
    }
}
