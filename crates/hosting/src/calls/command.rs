//! Commands to servers: power, and the progress of re-installations (sections 2.12 and 4.5 of
//! `docs/contributing/hosting-api.md`).

use crate::{
    client::{Call, Client},
    record::{self, DecodeError, Record},
};
use hosting_types::{command::*, error::Error, identity::CommandId, page::Page, server::ServerId};
use http::Method;
use serde::Serialize;

#[derive(Serialize)]
struct CommandBody {
    command: &'static str,
}

impl Client {
    /// One page of a server's commands: `GET /v3/flexMetal/servers/{uuid}/commands` (4.5-1), in no documented order.
    /// `kind` is the query `type` (4.5-3), such as [`REINSTALLATIONS`]; an API that does not know it shows all
    /// commands.
    ///
    /// # Errors
    /// [`Error::NotFound`]: the account has no such server. [`Error::Undecodable`]: one record or more cannot be read.
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
        self.call(call)
            .await?
            .decode_each(|it| decode_command(it, id))
    }

    /// Sends a command: `POST /v3/flexMetal/servers/{uuid}/commands` (4.5-5). The answer shows its start; a later read
    /// shows its end.
    ///
    /// # Errors
    /// [`Error::NotFound`]: the account has no such server. [`Error::Refused`]: it is not delivered (4.5-9) or being
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
            .decode(|body| decode_command(&record::one(body)?, id))
    }

    /// One command: `GET /v3/flexMetal/servers/{uuid}/commands/{commandUuid}` (4.5-7).
    ///
    /// # Errors
    /// [`Error::NotFound`]: no such server or command (4.5-8). [`Error::Undecodable`]: also if the answer shows another
    /// command.
    pub async fn command(&self, id: &ServerId, command: &CommandId) -> Result<Command, Error> {
        let path = [
            "flexMetal",
            "servers",
            id.as_str(),
            "commands",
            command.as_str(),
        ];
        self.get(&path).await?.decode(|body| {
            let found = decode_command(&record::one(body)?, id)?;
            if found.id == *command {
                Ok(found)
            } else {
                Err("the answer shows a command other than the one asked for".to_owned())
            }
        })
    }
}

/// Reads a command of this server. Both naming styles occur (2.12-8).
fn decode_command(record: &Record<'_>, id: &ServerId) -> Result<Command, DecodeError> {
    let [server, created, updated] = [
        ["serverUuid", "server_uuid"],
        ["createdAt", "created_at"],
        ["updatedAt", "updated_at"],
    ]
    .map(|names| record.first_of(&names));
    let server = ServerId::parse(record.raw_text(server)).ok();
    // The state read here decides whether a re-installation is done.
    if let Some(other) = &server
        && other != id
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
