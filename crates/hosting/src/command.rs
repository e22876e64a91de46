//! Commands to servers: power, and the progress of re-installations (sections
//! 2.12 and 4.5 of `docs/hosting-api.md`).

use http::Method;
use jiff::Timestamp;
use serde::Serialize;

use super::client::{Call, Client};
use super::error::Error;
use super::identity::CommandId;
use super::page::Page;
use super::record::{self, Misfit, Record};
use super::server::ServerId;

/// A command for a server (2.12-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerCommand {
    /// `reboot`
    Reboot,
    /// `power_on`
    PowerOn,
    /// `power_off`
    PowerOff,
    /// `shutdown`
    Shutdown,
}

impl PowerCommand {
    /// The API's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reboot => "reboot",
            Self::PowerOn => "power_on",
            Self::PowerOff => "power_off",
            Self::Shutdown => "shutdown",
        }
    }
}

/// The state of a command (section 3.2).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CommandState {
    /// Neither done nor failed.
    Pending,
    /// Done.
    Finished,
    /// Failed.
    Failed,
    /// An unknown word, or none: counts as pending.
    Other(String),
}

impl CommandState {
    /// Reads the API's word; one that is not known is kept.
    pub fn parse(word: &str) -> Self {
        match word {
            "pending" => Self::Pending,
            "finished" => Self::Finished,
            "failed" => Self::Failed,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The API's word, unchanged.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Pending => "pending",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Other(word) => word,
        }
    }

    /// Whether the state is final.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Finished | Self::Failed)
    }
}

/// A command that was sent to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// `uuid`.
    pub id: CommandId,
    /// The server, where the answer names one.
    pub server: Option<ServerId>,
    /// The word of the payload; `None` for re-installations, whose payload is
    /// empty.
    pub command: Option<String>,
    /// Its state.
    pub state: CommandState,
    /// When it was sent.
    pub created_at: Option<Timestamp>,
    /// When its state changed.
    pub updated_at: Option<Timestamp>,
}

/// The kind of commands that re-installations make (4.5-3).
pub const REINSTALLATIONS: &str = "update-server";

#[derive(Serialize)]
struct CommandBody {
    command: &'static str,
}

impl Client {
    /// One page of a server's commands:
    /// `GET /v3/flexMetal/servers/{uuid}/commands` (4.5-1). `kind` is the query
    /// `type` (4.5-3), [`REINSTALLATIONS`] above all; an API that does not know
    /// it shows all commands. The order is not documented.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] for a server that this account does not have;
    /// [`Error::Undecodable`] when a single record cannot be read.
    pub async fn commands(
        &self,
        id: &ServerId,
        kind: Option<&str>,
        page: Page,
    ) -> Result<Vec<Command>, Error> {
        let path = ["flexMetal", "servers", id.as_str(), "commands"];
        let mut call = Call::new(Method::GET, &path).page(page);
        if let Some(kind) = kind {
            call = call.query("type", kind);
        }
        self.call(call).await?.decode_each(|it| of(it, id))
    }

    /// Sends a command: `POST /v3/flexMetal/servers/{uuid}/commands` (4.5-5).
    /// The answer shows its start; its end is seen in a later read.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] for a server that this account does not have,
    /// [`Error::Refused`] for one that is not delivered (4.5-9) or being
    /// re-installed (4.5-10).
    pub async fn send_command(
        &self,
        id: &ServerId,
        command: PowerCommand,
    ) -> Result<Command, Error> {
        let path = ["flexMetal", "servers", id.as_str(), "commands"];
        let body = CommandBody {
            command: command.as_str(),
        };
        let call = Call::new(Method::POST, &path).json(&body)?;
        self.call(call)
            .await?
            .decode(|body| of(&record::one(body)?, id))
    }

    /// One command:
    /// `GET /v3/flexMetal/servers/{uuid}/commands/{commandUuid}` (4.5-7).
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] for a server or a command that is not there (4.5-8);
    /// [`Error::Undecodable`] also when the answer shows another command.
    pub async fn command(&self, id: &ServerId, command: &CommandId) -> Result<Command, Error> {
        let path = [
            "flexMetal",
            "servers",
            id.as_str(),
            "commands",
            command.as_str(),
        ];
        self.get(&path).await?.decode(|body| {
            let found = of(&record::one(body)?, id)?;
            if found.id.is_same_as(command) {
                Ok(found)
            } else {
                Err("the answer shows a command other than the one asked for".to_owned())
            }
        })
    }
}

/// Reads a command of this server. Both styles of names occur (2.12-8).
fn of(record: &Record<'_>, id: &ServerId) -> Result<Command, Misfit> {
    let [server, created, updated] = [
        ["serverUuid", "server_uuid"],
        ["createdAt", "created_at"],
        ["updatedAt", "updated_at"],
    ]
    .map(|names| record.first_of(&names));
    let server = ServerId::parse(record.raw_text(server)).ok();
    // The end that is read here decides whether a re-installation is done.
    if let Some(other) = &server
        && !other.is_same_as(id)
    {
        return Err(format!("a command of server {id} names server {other}"));
    }
    Ok(Command {
        id: CommandId::parse(record.raw_text("uuid"))
            .map_err(|_| "a command has no usable uuid".to_owned())?,
        server,
        command: record
            .records("payload")
            .iter()
            .find_map(|payload| payload.optional_text("command")),
        state: CommandState::parse(&record.text("state")),
        created_at: record.time(created),
        updated_at: record.time(updated),
    })
}
