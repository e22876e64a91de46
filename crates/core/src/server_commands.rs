//! Whether a command runs for a server or a dedicated host.

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
