//! `servers`: all servers of the account, with or without an object.

use crate::{
    account_client::{self, AccountArgs, list_error},
    ages,
    context::Context,
    exit::{Exit, PluginError},
    output::{Column, Row, column, wide},
    server_objects::ServerObjects,
};
use hosting_types::{Server, ServerFilter, ServerStatus, StatusFilter};
use jiff::Timestamp;
use serde::Serialize;

/// Arguments of `servers`.
#[derive(Clone, Debug, clap::Args)]
pub struct ServersArgs {
    /// Released servers, too
    #[arg(long)]
    all: bool,
    /// Only servers in this state; the provider decides which states it covers
    #[arg(long, value_enum, ignore_case = true)]
    status: Option<StatusWord>,
    /// Only servers with this tag; repeat it for servers with all of several
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Only servers without an object that you can list
    #[arg(long)]
    without_object: bool,
    #[command(flatten)]
    account: AccountArgs,
}

/// A state that the provider filters by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum StatusWord {
    Creating,
    Provisioning,
    Delivered,
    Failed,
    Releasing,
    Released,
}

impl From<StatusWord> for StatusFilter {
    fn from(word: StatusWord) -> Self {
        match word {
            StatusWord::Creating => Self::Creating,
            StatusWord::Provisioning => Self::Provisioning,
            StatusWord::Delivered => Self::Delivered,
            StatusWord::Failed => Self::Failed,
            StatusWord::Releasing => Self::Releasing,
            StatusWord::Released => Self::Released,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerRow {
    uuid: String,
    name: String,
    status: String,
    /// Only with an object, whose status has it without secrets: the provider's own text may repeat user data.
    #[serde(skip_serializing_if = "Option::is_none")]
    status_message: Option<String>,
    instance_type: String,
    location: String,
    os: String,
    addresses: Vec<String>,
    tags: Vec<String>,
    #[serde(rename = "contractID", skip_serializing_if = "Option::is_none")]
    contract_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<String>,
    #[serde(with = "api::rfc3339::option", skip_serializing_if = "Option::is_none")]
    created_at: Option<i64>,
    #[serde(with = "api::rfc3339::option", skip_serializing_if = "Option::is_none")]
    delivered_at: Option<i64>,
    #[serde(with = "api::rfc3339::option", skip_serializing_if = "Option::is_none")]
    released_at: Option<i64>,
    #[serde(skip)]
    age: String,
}

impl Row for ServerRow {
    const COLUMNS: &'static [Column] = &[
        column("UUID"),
        column("NAME"),
        column("STATUS"),
        column("TYPE"),
        column("LOCATION"),
        column("AGE"),
        wide("OBJECT"),
        wide("ADDRESSES"),
        wide("OS"),
        wide("CONTRACT"),
        wide("TAGS"),
        wide("MESSAGE"),
    ];

    fn cells(&self) -> Vec<String> {
        let object = self.namespace.iter().zip(&self.object);
        let object = object.map(|(namespace, name)| format!("{namespace}/{name}"));
        vec![
            self.uuid.clone(),
            self.name.clone(),
            self.status.clone(),
            self.instance_type.clone(),
            self.location.clone(),
            self.age.clone(),
            object.collect(),
            self.addresses.join(","),
            self.os.clone(),
            self.contract_id.clone().unwrap_or_default(),
            self.tags.join(","),
            self.status_message.clone().unwrap_or_default(),
        ]
    }

    fn name(&self) -> String {
        self.uuid.clone()
    }
}

/// Prints the servers.
pub async fn run(context: &Context, args: ServersArgs) -> Result<Exit, PluginError> {
    let filter = ServerFilter {
        status: args.status.map(Into::into),
        tags: args.tag.clone(),
    };
    let client = account_client::connect(context, &args.account).await?;
    let list = client.all_servers(&filter).growing().collect().await;
    let list =
        list.map_err(|incomplete| list_error("list the servers of the account", incomplete))?;
    let objects = ServerObjects::read(context, &args.account).await?;
    let rows = build_rows(list.into_records(), &objects, &args, ages::now());
    context
        .printer
        .rows(&rows, "The account has no such servers")?;
    Ok(Exit::Fine)
}

/// The rows, the oldest server first.
fn build_rows(
    mut servers: Vec<Server>,
    objects: &ServerObjects,
    args: &ServersArgs,
    now: Timestamp,
) -> Vec<ServerRow> {
    let wants_released = args.all || args.status == Some(StatusWord::Released);
    servers.retain(|server| {
        (wants_released || server.status != ServerStatus::Released)
            && !(args.without_object && objects.find(&server.id).is_some())
    });
    servers.sort_by_cached_key(|server| (server.created_at, server.id.clone()));
    let rows = servers.into_iter().map(|server| {
        let object = objects.find(&server.id);
        let created = server.created_at.map(Timestamp::from_second);
        ServerRow {
            status_message: object.and_then(|object| object.message.clone()),
            namespace: object.map(|object| object.namespace.clone()),
            object: object.map(|object| object.name.clone()),
            age: match created {
                Some(Ok(created)) => ages::age(created, now),
                _ => String::new(),
            },
            uuid: server.id.to_string(),
            name: server.name,
            status: server.status.as_str().to_owned(),
            instance_type: server.instance_type,
            location: server.location,
            os: server.os_slug,
            addresses: server.addresses,
            tags: server.tags,
            contract_id: server.contract_id,
            created_at: server.created_at,
            delivered_at: server.delivered_at,
            released_at: server.released_at,
        }
    });
    rows.collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::server_objects::tests::{objects, uuid};
    use clap::Parser as _;
    use hosting_types::ServerId;
    use serde_json::json;

    #[derive(clap::Parser)]
    struct Words {
        #[command(flatten)]
        args: ServersArgs,
    }

    /// A server with this number in its UUID.
    pub fn server(number: u8, status: &str) -> Server {
        Server {
            id: ServerId::parse(&uuid(number)).unwrap(),
            name: format!("node-{number}"),
            status: ServerStatus::parse(status),
            status_message: "echo of user data".into(),
            location_id: None,
            location: "EU: Rotterdam".into(),
            instance_type_id: None,
            instance_type: "bm7.std.8".into(),
            os_slug: "debian-13".into(),
            addresses: vec!["192.0.2.1".into()],
            tags: vec!["a".into()],
            created_at: Some(1_790_000_000 - i64::from(number)),
            delivered_at: None,
            released_at: None,
            contract_id: None,
        }
    }

    fn rows(words: &[&str]) -> Vec<ServerRow> {
        let words = ["servers"].iter().chain(words);
        let args = Words::try_parse_from(words).unwrap().args;
        let servers = vec![
            server(1, "released"),
            server(2, "delivered"),
            server(3, "failed"),
        ];
        let status = json!({"uuid": uuid(3), "statusMessage": "no disk"});
        let now = Timestamp::from_second(1_790_000_057).unwrap();
        build_rows(servers, &objects(&[("team", "web", status)]), &args, now)
    }

    fn names(rows: &[ServerRow]) -> Vec<&str> {
        rows.iter().map(|row| row.name.as_str()).collect()
    }

    #[test]
    fn released_servers_are_shown_on_request() {
        assert_eq!(names(&rows(&[])), ["node-3", "node-2"]);
        assert_eq!(names(&rows(&["--all"])), ["node-3", "node-2", "node-1"]);
        assert_eq!(rows(&["--status", "released"]).len(), 3);
    }

    #[test]
    fn servers_have_the_names_of_their_objects() {
        let shown = rows(&[]);
        assert_eq!(shown[0].cells()[6], "team/web");
        assert_eq!(shown[0].cells()[5], "60s");
        assert_eq!(shown[1].cells()[6], "");
        assert_eq!(names(&rows(&["--without-object"])), ["node-2"]);
    }

    #[test]
    fn only_a_message_without_secrets_is_shown() {
        let shown = serde_json::to_value(rows(&["--all"])).unwrap();
        assert_eq!(shown[0]["statusMessage"], "no disk");
        assert!(!shown.to_string().contains("user data"), "{shown}");
        assert_eq!(shown[0]["createdAt"], "2026-09-21T14:13:17Z");
    }
}
