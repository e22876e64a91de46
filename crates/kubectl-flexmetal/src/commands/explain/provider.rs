//! The provider's own record of a server, host or command.

use super::timeline::{Entry, EntrySource, second};
use crate::{
    account_client::{AccountArgs, NamedAccount, hosting_error, list_error},
    context::PluginContext,
    exit::PluginError,
    objects::Object,
};
use flexmetal_core::host_record::word;
use hosting::Client;
use hosting_types::{
    Error as HostingError,
    command::Command,
    host::Host,
    identity::HostId,
    server::{Server, ServerId},
};
use std::fmt::Display;

/// What the provider shows.
pub struct ProviderRecord {
    /// Its state now, in one line.
    pub state: String,
    /// The moments in its record.
    pub entries: Vec<Entry>,
}

/// Reads the provider's record, with the key of the account. None: the provider has none of this object.
pub async fn read_record(
    context: &PluginContext,
    object: &Object,
) -> Result<Option<ProviderRecord>, PluginError> {
    let (uuid, is_hidden) = match object {
        Object::BareMetalServer(server) => {
            let status = server.status.as_ref();
            let uuid = status.and_then(|status| status.uuid.as_deref());
            // The provider's message may repeat a text from a Secret.
            (uuid, server.had_secret_texts())
        }
        Object::ServerCommand(command) => {
            let target = command.status.as_ref();
            let target = target.and_then(|status| status.records.target.as_ref());
            (target.and_then(|target| target.server.as_deref()), true)
        }
        Object::DedicatedHost(host) => {
            let id = HostId(host.spec.host_id.unsigned_abs());
            let found = connect(context, object).await?.host(id).await;
            let state = describe(id, found, |host| describe_host(&host))?;
            let entries = Vec::new();
            return Ok(Some(ProviderRecord { state, entries }));
        }
        _ => return Ok(None),
    };
    let Some(id) = uuid.and_then(|uuid| ServerId::parse(uuid).ok()) else {
        return Ok(None);
    };
    let client = connect(context, object).await?;
    let found = client.server(&id).await;
    let mut entries = Vec::new();
    if let Ok(server) = &found {
        if matches!(object, Object::BareMetalServer(_)) {
            entries = entries_of_server(server);
        }
        let commands = list_commands(&client, &id).await?;
        entries.extend(commands.iter().flat_map(entries_of_command));
    }
    let state = describe(&id, found, |server| describe_server(&server, is_hidden))?;
    Ok(Some(ProviderRecord { state, entries }))
}

async fn connect(context: &PluginContext, object: &Object) -> Result<Client, PluginError> {
    let mut args = AccountArgs {
        account: String::new(),
        cluster_account: None,
        base_url: None,
    };
    if let Some(account) = object.account() {
        args = args.of_object(&account);
    }
    NamedAccount::get(context, &args)
        .await?
        .connect(context)
        .await
}

/// The state of a record, also if there is none.
fn describe<T>(
    id: impl Display,
    found: Result<T, HostingError>,
    describe: impl FnOnce(T) -> String,
) -> Result<String, PluginError> {
    match found {
        Ok(found) => Ok(describe(found)),
        Err(HostingError::NotFound(_)) => Ok(format!("no record with the ID {id}")),
        Err(error) => Err(hosting_error(format!("read {id}"), error)),
    }
}

async fn list_commands(client: &Client, id: &ServerId) -> Result<Vec<Command>, PluginError> {
    let commands = client.all_commands(id, None).collect().await;
    let act = format!("list the commands of server {id}");
    let commands = commands.map_err(|gap| list_error(&act, gap))?;
    Ok(commands.into_records())
}

fn describe_server(server: &Server, is_hidden: bool) -> String {
    let mut state = format!(
        "server {} is {:?}, {} at {}, {} tags",
        server.id,
        server.status.as_str(),
        server.instance_type,
        server.location,
        server.tags.len()
    );
    if !server.status_message.is_empty() && !is_hidden {
        state += &format!(": {}", server.status_message);
    }
    state
}

fn entries_of_server(server: &Server) -> Vec<Entry> {
    let moment = |unix, what| {
        let id = server.id.as_str();
        Entry::new(second(unix), EntrySource::Provider, what, id)
    };
    let moments = [
        moment(server.created_at, "Server created"),
        moment(server.delivered_at, "Server delivered"),
        moment(server.released_at, "Server released"),
    ];
    moments.into_iter().flatten().collect()
}

/// When a command was sent, and when its state changed last.
fn entries_of_command(command: &Command) -> Vec<Entry> {
    let what = command.command.as_deref().unwrap_or("re-installation");
    let id = command.id.as_str();
    let state = command.state.as_str();
    let moment = |at, what| Entry::new(at, EntrySource::Provider, what, id);
    let sent = moment(command.created_at, format!("Command {what}"));
    let changed = moment(command.updated_at, format!("Command {what}: {state}"));
    sent.into_iter().chain(changed).collect()
}

fn describe_host(host: &Host) -> String {
    let install = word(&host.install_status);
    let log = "kubectl flexmetal hosts log shows its log";
    let install = install.map_or_else(String::new, |word| {
        format!(", installation {word:?}; {log}")
    });
    format!("host {} is {:?}{install}", host.id, host.status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hosting_types::{command::CommandState, identity::CommandId, server::ServerStatus};
    use jiff::Timestamp;

    const UUID: &str = "01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f";

    fn server() -> Server {
        Server {
            id: ServerId::parse(UUID).unwrap(),
            name: "web".into(),
            status: ServerStatus::Failed,
            status_message: "the script said: hunter2".into(),
            location_id: None,
            location: "L".into(),
            instance_type_id: None,
            instance_type: "t".into(),
            os_slug: String::new(),
            addresses: Vec::new(),
            tags: vec!["a".into()],
            created_at: Some(100),
            delivered_at: None,
            released_at: None,
            contract_id: None,
        }
    }

    #[test]
    fn provider_words_that_may_hold_secrets_are_hidden() {
        assert!(describe_server(&server(), false).ends_with(": the script said: hunter2"));
        let hidden = describe_server(&server(), true);
        assert!(
            hidden.contains("failed") && !hidden.contains("hunter2"),
            "{hidden}"
        );
    }

    #[test]
    fn unknown_times_are_no_moments() {
        let whats: Vec<_> = entries_of_server(&server())
            .into_iter()
            .map(|it| it.what)
            .collect();
        assert_eq!(whats, ["Server created"]);
    }

    #[test]
    fn command_without_a_word_is_a_reinstallation() {
        let command = Command {
            id: CommandId::parse(UUID).unwrap(),
            server: None,
            command: None,
            state: CommandState::Finished,
            created_at: Timestamp::from_second(1).ok(),
            updated_at: Timestamp::from_second(2).ok(),
        };
        let whats: Vec<_> = entries_of_command(&command)
            .into_iter()
            .map(|it| it.what)
            .collect();
        assert_eq!(
            whats,
            [
                "Command re-installation",
                "Command re-installation: finished"
            ]
        );
    }
}
