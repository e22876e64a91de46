//! Rules of requests that are checked before anything is sent.

use super::server::InvalidSystem;

/// A rule of the API that a request breaks. Names the field as the API does,
/// and never repeats a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    /// A text that is missing, too long, or has control characters.
    #[error("{field} must be a text of 1 to 255 characters without control characters")]
    Text {
        /// The field.
        field: &'static str,
    },
    /// A secret that is missing.
    #[error("{field} must not be empty")]
    Empty {
        /// The field.
        field: &'static str,
    },
    /// Two addresses that make no range (2.1-10).
    #[error("ipStart and ipEnd must be of one address family, and in this order")]
    AddressSpan,
    /// Not an e-mail address (4.2-6).
    #[error("emailAddress must be an e-mail address")]
    EmailAddress,
    /// Not one line of a public key (2.19-3).
    #[error("publicKey must be one line in OpenSSH form, such as `ssh-ed25519 AAAA… comment`")]
    PublicKey,
    /// A private key where a public one belongs.
    #[error("publicKey holds a private key: give the public one, and replace the pair")]
    PrivateKey,
    /// Dates the wrong way round (4.7-4).
    #[error("endDate must not be before startDate")]
    Dates,
    /// Not a host name (2.17-1).
    #[error("hostname must be a host name")]
    HostName,
    /// The document's form of an installation needs a key (2.17-7).
    #[error("{field} is needed to install this system")]
    InstallKey {
        /// `sshKeyId` or `sshKeyUuid`.
        field: &'static str,
    },
    /// A parameter that one text with all of them cannot hold (2.17-4).
    #[error("os.kernelParams[{index}] must have a value without blanks and quotes in this form")]
    KernelText {
        /// The zero-based place.
        index: usize,
    },
    /// Neither of the two kinds of images, or both (2.17-12, 2.17-13).
    #[error(
        "os.kernelParams must hold either siderolink.api (vanilla image) or factoryhash (factory image)"
    )]
    Image,
    /// `siderolink.api` without an address (2.17-12).
    #[error("os.kernelParams: siderolink.api must be an absolute URL")]
    JoinAddress,
    /// Parameters that a factory image would forget (2.17-13).
    #[error(
        "os.kernelParams must hold factoryhash alone: other parameters belong into the factory image"
    )]
    FactoryParams,
    /// A token whose time is over (4.8-3).
    #[error("the PAGE-TOKEN has expired: begin the list anew")]
    PageToken,
    /// A rule about scripts or kernel parameters.
    #[error(transparent)]
    System(#[from] InvalidSystem),
}

/// Whether a text may go into a field for people: not empty, one line, at most
/// 255 characters.
pub(super) fn is_free_text(text: &str) -> bool {
    super::server::is_line(text, 255)
}
