//! The slow lists of an account.

/// A list that is looked at when somebody wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// What can be ordered.
    Catalogue,
    /// Every machine of the account, whatever it bears, read to an empty page.
    Servers,
    /// Every tag, with the number of those that bear it.
    Tags,
    /// Every stored SSH key.
    SshKeys,
    /// Every host.
    Hosts,
}

impl List {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Catalogue,
        Self::Servers,
        Self::Tags,
        Self::SshKeys,
        Self::Hosts,
    ];
}
