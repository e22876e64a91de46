//! Commands to servers: power, and the progress of re-installations (sections
//! 2.12 and 4.5 of `docs/contributing/hosting-api.md`).

use super::{identity::CommandId, server::ServerId};
use jiff::Timestamp;

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
    /// Reads the API's word and keeps an unknown one.
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
    /// The server, if the answer has it.
    pub server: Option<ServerId>,
    /// The word of the payload; `None` for re-installations, whose payload is empty.
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
