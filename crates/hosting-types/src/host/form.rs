//! How an installation request is written: two descriptions contradict each other (2.17), and an account may follow
//! either in each point.

/// The form of an installation request. The default follows the document in all three points (2.17-4, 2.17-7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InstallForm {
    /// The name of the field with the stored key.
    pub key_name: InstallKeyName,
    /// Which systems need a key.
    pub key_needed: InstallKeyNeeded,
    /// How kernel parameters are written.
    pub kernel_params: KernelParamsForm,
}

impl InstallForm {
    /// The form of machine-readable descriptions (2.17-5, 2.17-8).
    pub const OBSERVED: Self = Self {
        key_name: InstallKeyName::SshKeyUuid,
        key_needed: InstallKeyNeeded::Linux,
        kernel_params: KernelParamsForm::Array,
    };
}

/// The name of the field that holds the stored key's UUID.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InstallKeyName {
    /// `sshKeyId` (2.17-7).
    #[default]
    SshKeyId,
    /// `sshKeyUuid` (2.17-8).
    SshKeyUuid,
}

impl InstallKeyName {
    /// The API's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SshKeyId => "sshKeyId",
            Self::SshKeyUuid => "sshKeyUuid",
        }
    }
}

/// Which systems need a stored key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InstallKeyNeeded {
    /// All of them (2.17-7).
    #[default]
    Always,
    /// A Linux other than the Kubernetes-focused one (2.17-8).
    Linux,
}

/// How kernel parameters are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KernelParamsForm {
    /// One text with all of them (2.17-4).
    #[default]
    Text,
    /// An array of `{key, value}` (2.17-5).
    Array,
}
