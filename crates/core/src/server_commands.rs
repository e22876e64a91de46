//! What is known of the commands for a server or a dedicated host.

/// What is known of the commands for a server or a dedicated host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UnderWay {
    /// They are not listed yet, so nobody knows.
    NotListed,
    /// None is under way.
    Nothing,
    /// This one may be, by its name.
    Command(String),
}
