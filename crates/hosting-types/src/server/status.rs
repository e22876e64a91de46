//! The states of a server, and the words that filter the list.

/// The state of a server (section 3.1), in both views of the API.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ServerStatus {
    /// Accepted; provisioning has started.
    Created,
    /// In progress; a word of the list filter.
    Creating,
    /// In progress.
    Discovering,
    /// In progress.
    Discovered,
    /// In progress.
    Allocating,
    /// In progress.
    Allocated,
    /// In progress.
    ConfiguringNetwork,
    /// In progress.
    NetworkConfigured,
    /// In progress.
    Provisioning,
    /// In progress.
    Provisioned,
    /// Usable.
    Delivered,
    /// Provisioning failed; the status message has the reason.
    Failed,
    /// Being released.
    Releasing,
    /// Released; the record stays.
    Released,
    /// An unknown word: counts as in progress.
    Other(String),
}

impl ServerStatus {
    /// Reads the API's word and keeps an unknown one.
    pub fn parse(word: &str) -> Self {
        match word {
            "created" => Self::Created,
            "creating" => Self::Creating,
            "discovering" => Self::Discovering,
            "discovered" => Self::Discovered,
            "allocating" => Self::Allocating,
            "allocated" => Self::Allocated,
            "configuring_network" => Self::ConfiguringNetwork,
            "network_configured" => Self::NetworkConfigured,
            "provisioning" => Self::Provisioning,
            "provisioned" => Self::Provisioned,
            "delivered" => Self::Delivered,
            "failed" => Self::Failed,
            "releasing" => Self::Releasing,
            "released" => Self::Released,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The API's word, unchanged.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Created => "created",
            Self::Creating => "creating",
            Self::Discovering => "discovering",
            Self::Discovered => "discovered",
            Self::Allocating => "allocating",
            Self::Allocated => "allocated",
            Self::ConfiguringNetwork => "configuring_network",
            Self::NetworkConfigured => "network_configured",
            Self::Provisioning => "provisioning",
            Self::Provisioned => "provisioned",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Releasing => "releasing",
            Self::Released => "released",
            Self::Other(word) => word,
        }
    }

    /// Whether the server exists or is being provisioned: not failed, releasing or released. An unknown word counts as
    /// live, since missing a paid server is the worse mistake.
    pub fn is_live(&self) -> bool {
        !matches!(self, Self::Failed | Self::Releasing | Self::Released)
    }
}

/// A word that filters the list of servers (4.4-2). Which states it covers is not documented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StatusFilter {
    /// `creating`
    Creating,
    /// `provisioning`
    Provisioning,
    /// `delivered`
    Delivered,
    /// `failed`
    Failed,
    /// `releasing`
    Releasing,
    /// `released`
    Released,
}

impl StatusFilter {
    /// The API's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Provisioning => "provisioning",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Releasing => "releasing",
            Self::Released => "released",
        }
    }
}
