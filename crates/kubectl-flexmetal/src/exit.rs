//! How a command ends.

use std::{error::Error as _, process::ExitCode};

/// The exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything is fine, or the command did its work.
    Fine = 0,
    /// The command failed.
    Error = 1,
    /// The arguments cannot be used.
    Usage = 2,
    /// Something needs attention, or would change.
    Attention = 3,
    /// The caller lacks a right, at the API server or at the hosting API.
    NotAllowed = 4,
    /// What was waited for did not happen in time.
    TimedOut = 5,
}

impl Exit {
    /// [`Exit::Attention`] if something needs it, otherwise [`Exit::Fine`].
    pub fn attention_if(is_needed: bool) -> Self {
        match is_needed {
            true => Self::Attention,
            false => Self::Fine,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig cannot be used")]
    Kubeconfig(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A call to the API server failed.
    #[error("cannot {act}")]
    ApiServer {
        /// What was tried, such as `list servers in namespace a`.
        act: String,
        /// The error.
        #[source]
        source: Box<kube::Error>,
    },
    /// A call to the hosting API failed.
    #[error("cannot {act}")]
    HostingApi {
        /// What was tried.
        act: String,
        /// The error.
        #[source]
        source: Box<hosting_types::Error>,
    },
    /// The arguments do not fit each other, or not what they name.
    #[error("{0}")]
    Usage(String),
    /// The caller lacks a right: which one, and what gives it.
    #[error("{0}")]
    NotAllowed(String),
    /// Not done in time.
    #[error("{0}")]
    TimedOut(String),
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
    /// A file cannot be read or written.
    #[error("{path}")]
    File {
        /// Which file.
        path: String,
        /// The error.
        #[source]
        source: std::io::Error,
    },
    /// The output cannot be written.
    #[error("the output cannot be written")]
    Output(#[from] std::io::Error),
}

impl PluginError {
    /// The exit code of a command that ends with this error.
    pub fn exit(&self) -> Exit {
        use hosting_types::Error as Hosting;
        match self {
            Self::ApiServer { source, .. } => match source.as_ref() {
                kube::Error::Api(status) if matches!(status.code, 401 | 403) => Exit::NotAllowed,
                _ => Exit::Error,
            },
            Self::HostingApi { source, .. } => match source.as_ref() {
                Hosting::AccessDenied(_) | Hosting::Forbidden { .. } => Exit::NotAllowed,
                _ => Exit::Error,
            },
            Self::Usage(_) => Exit::Usage,
            Self::NotAllowed(_) => Exit::NotAllowed,
            Self::TimedOut(_) => Exit::TimedOut,
            Self::Kubeconfig(_) | Self::Other(_) | Self::File { .. } | Self::Output(_) => {
                Exit::Error
            }
        }
    }

    /// The error and its causes in one line.
    pub fn explain(&self) -> String {
        let mut line = self.to_string();
        if let Self::HostingApi { source, .. } = self {
            return format!("{line}: {}", source.explain());
        }
        if let Self::ApiServer { source, .. } = self
            && let kube::Error::Api(status) = source.as_ref()
        {
            return format!("{line}: {}", status.message);
        }
        let mut cause = self.source();
        while let Some(next) = cause {
            line = format!("{line}: {next}");
            cause = next.source();
        }
        line
    }
}
