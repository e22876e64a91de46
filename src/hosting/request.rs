//! Rules of requests that are checked before anything is sent.

use super::server::InvalidSystem;

/// A rule that a request breaks: the API's, or where it states none, what no
/// such value can be without being a mistake. Names the field as the API does,
/// and never repeats a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    /// A text that is missing, too long, or has control characters. The API
    /// states no such bound; a longer one is no name.
    #[error("{field} must be a text of 1 to 255 characters without control characters")]
    Text {
        /// The field.
        field: &'static str,
    },
    /// A text that must be there.
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
    /// Not a public key (2.19-3).
    #[error(
        "publicKey must be a public key: one line in OpenSSH form, such as `ssh-ed25519 AAAA… comment`, or a block that begins with `BEGIN … PUBLIC KEY`"
    )]
    PublicKey,
    /// A private key where a public one belongs.
    #[error("publicKey holds a private key: give the public one, and replace the pair")]
    PrivateKey,
    /// Dates the wrong way round (4.7-4).
    #[error("endDate must not be before startDate")]
    Dates,
    /// Not a host name, with the Kubernetes-focused system (2.17-2).
    #[error("hostname must be a host name with this system")]
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
    /// Neither of the two kinds of images, or both, or one twice (2.17-12,
    /// 2.17-13).
    #[error(
        "os.kernelParams must hold either siderolink.api (vanilla image) or factoryhash (factory image), once"
    )]
    Image,
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
