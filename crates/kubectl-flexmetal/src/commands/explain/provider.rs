//! The provider's own record of a server, host or command.

use super::timeline::{Entry, Source, second};
use crate::{
    account_client::{Account, AccountArgs, hosting_error, list_error},
    context::Context,
    exit::PluginError,
    objects::Object,
};
use api::{BareMetalServer, DedicatedHost, ServerCommand, references::PinnedAccount};
use flexmetal_core::host_record::word;
use hosting::Client;
use hosting_types::{
    Error as HostingError,
    command::Command,
    host::{Host, InstallLogEntry},
    identity::HostId,
    server::{Server, ServerId},
};

/// What the provider shows.
#[derive(Debug, Default, PartialEq)]
pub struct ProviderRecord {
    /// Its state now, in one line.
    pub state: String,
    /// The moments in its record.
    pub entries: Vec<Entry>,
}

/// Reads the provider's record, with the key of the account. None: the provider has none of this object.
pub async fn read(
    context: &Context,
    object: &Object,
) -> Result<Option<ProviderRecord>, PluginError> {
    let Some(account) = object.account() else {
        return Ok(None);
    };
    match object {
        Object::BareMetalServer(server) => read_server(context, &account, server).await,
        Object::DedicatedHost(host) => read_host(context, &account, host).await,
        Object::ServerCommand(command) => read_command(context, &account, command).await,
        _ => Ok(None),
    }
}

async fn connect(context: &Context, account: &PinnedAccount) -> Result<Client, PluginError> {
    let args = AccountArgs {
        account: account.name.clone(),
        cluster_account: None,
        base_url: None,
    };
    let account = Account::read(context, &args.of_object(account)).await?;
    account.connect(context).await
}

async fn read_server(
    context: &Context,
    account: &PinnedAccount,
    object: &BareMetalServer,
) -> Result<Option<ProviderRecord>, PluginError> {
    let status = object.status.as_ref();
    let Some(id) = status.and_then(|status| ServerId::parse(status.uuid.as_deref()?).ok()) else {
        return Ok(None);
    };
    let client = connect(context, account).await?;
    let server = match client.server(&id).await {
        Ok(server) => server,
        Err(HostingError::NotFound(_)) => {
            return Ok(Some(ProviderRecord {
                state: format!("the account has no server {id}"),
                entries: Vec::new(),
            }));
        }
        Err(error) => return Err(hosting_error(format!("read server {id}"), error)),
    };
    let commands = list_commands(&client, &id).await?;
    let order = status.and_then(|status| status.records.order.as_ref());
    // The provider's message may repeat a text from a Secret.
    let is_hidden = object.spec.has_secret_texts() || order.is_some_and(|order| order.secret_texts);
    let mut entries = entries_of_server(&server);
    entries.extend(commands.iter().flat_map(entries_of_command));
    Ok(Some(ProviderRecord {
        state: describe_server(&server, is_hidden),
        entries,
    }))
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
    let moment = |unix, what: &str| {
        Entry::new(
            second(unix),
            Source::Provider,
            what,
            server.id.as_str().to_owned(),
        )
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
    let sent = Entry::new(
        command.created_at,
        Source::Provider,
        format!("Command {what}"),
        id,
    );
    let changed = Entry::new(
        command.updated_at,
        Source::Provider,
        format!("Command {what}: {state}"),
        id,
    );
    sent.into_iter().chain(changed).collect()
}

async fn read_command(
    context: &Context,
    account: &PinnedAccount,
    object: &ServerCommand,
) -> Result<Option<ProviderRecord>, PluginError> {
    let records = object.status.as_ref().map(|status| &status.records);
    let target = records.and_then(|records| records.target.as_ref()?.server.as_deref());
    let own: Vec<&str> = records
        .iter()
        .flat_map(|records| records.sent.iter().filter_map(|sent| sent.id.as_deref()))
        .collect();
    let Some(id) = target.and_then(|target| ServerId::parse(target).ok()) else {
        return Ok(None);
    };
    if own.is_empty() {
        return Ok(None);
    }
    let client = connect(context, account).await?;
    let commands = list_commands(&client, &id).await?;
    let is_own = |command: &&Command| own.iter().any(|id| command.id == **id);
    let own: Vec<_> = commands.iter().filter(is_own).collect();
    let states: Vec<_> = own.iter().map(|it| it.state.as_str()).collect();
    Ok(Some(ProviderRecord {
        state: match states.as_slice() {
            [] => format!("server {id} does not show the command"),
            states => format!("the command is {}", states.join(", ")),
        },
        entries: own.into_iter().flat_map(entries_of_command).collect(),
    }))
}

async fn read_host(
    context: &Context,
    account: &PinnedAccount,
    object: &DedicatedHost,
) -> Result<Option<ProviderRecord>, PluginError> {
    let Ok(number) = u64::try_from(object.spec.host_id) else {
        return Ok(None);
    };
    let id = HostId(number);
    let client = connect(context, account).await?;
    let host = match client.host(id).await {
        Ok(host) => host,
        Err(HostingError::NotFound(_)) => {
            return Ok(Some(ProviderRecord {
                state: format!("the account has no host {id}"),
                entries: Vec::new(),
            }));
        }
        Err(error) => return Err(hosting_error(format!("read host {id}"), error)),
    };
    let install = object.status.as_ref();
    let install = install.and_then(|status| status.records.install.as_ref()?.last.as_ref());
    // The log may repeat the script.
    let is_hidden = object.spec.has_secret_texts()
        || install.is_some_and(|install| install.intent.secret_texts);
    let mut entries = Vec::new();
    if !is_hidden {
        let log = client.all_of_install_log(id).collect().await;
        let act = format!("list the installation log of host {id}");
        let log = log.map_err(|gap| list_error(&act, gap))?;
        entries.extend(log.records().iter().filter_map(entry_of_log));
    }
    Ok(Some(ProviderRecord {
        state: describe_host(&host),
        entries,
    }))
}

fn describe_host(host: &Host) -> String {
    let install = word(&host.install_status);
    let install = install.map_or_else(String::new, |word| format!(", installation {word:?}"));
    format!("host {} is {:?}{install}", host.id, host.status)
}

fn entry_of_log(line: &InstallLogEntry) -> Option<Entry> {
    let parts = [line.description.as_str(), line.resolved.as_str()];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let what = match line.category.as_str() {
        "" => "Installation log".to_owned(),
        category => format!("Installation log: {category}"),
    };
    Entry::new(
        second(line.written_at),
        Source::Provider,
        what,
        parts.join("; "),
    )
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
    fn words_of_the_provider_are_left_out_where_they_may_repeat_a_secret() {
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
