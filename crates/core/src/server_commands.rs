//! Whether a command runs for a server or a dedicated host.

use crate::account::key::AccountKey;

/// Whether a command runs for a server or a dedicated host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RunningCommand {
    /// The commands are not listed yet, so it is unknown.
    NotListed,
    /// No command runs.
    Nothing,
    /// The command of this name may run.
    Command(String),
}

/// What a command may switch.
#[derive(Clone, Debug)]
pub enum PowerTarget {
    /// The provider's server of an object. No other object has it.
    Server {
        /// Namespace of the server.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A dedicated host, whatever object has it now, or had it when the command was sent.
    Host {
        /// Its number.
        number: String,
        /// The names of its account.
        accounts: Vec<AccountKey>,
    },
}
