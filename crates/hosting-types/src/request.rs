//! Rules of requests that are checked before a request is sent.

use super::{server::SystemFamily, tag::MOST_TAGS};
use std::time::Duration;

/// How long a change may take.
pub const CHANGE_TIMEOUT: Duration = Duration::from_secs(180);

/// A rule that a request breaks: the API's, or, if it states none, ours against an obvious mistake. Names the field as
/// the API does, and never repeats a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    /// A text that is missing, too long, or has control characters. The API states no limit.
    #[error("{field} must be a text of 1 to 255 characters without control characters")]
    Text {
        /// The field.
        field: &'static str,
    },
    /// A required text that is empty.
    #[error("{field} must not be empty")]
    Empty {
        /// The field.
        field: &'static str,
    },
    /// Not a host name, with the Kubernetes-focused system (2.7-1, 2.17-2).
    #[error(
        "{field} must be a host name with this system: labels of 1 to 63 letters, digits and inner hyphens, joined by dots, 253 characters at most"
    )]
    HostName {
        /// `name` or `hostname`.
        field: &'static str,
    },
    /// A tag that breaks the pattern (8-2).
    #[error("{field} must have 1 to 64 characters of letters, digits, `_`, `:` and `-`")]
    Tag {
        /// The field.
        field: String,
    },
    /// More tags than a server may have (8-1).
    #[error("tags has {count} entries; the API accepts at most {MOST_TAGS}")]
    TooManyTags {
        /// How many there are.
        count: usize,
    },
    /// The order tag is missing, so the server could not be found again.
    #[error("tags must include the order tag")]
    OrderTag,
    /// Not a contract id.
    #[error("contractId must have at most 240 characters of A-Z, 0-9, `_`, `.` and `-`")]
    ContractId,
    /// Neither a stored key nor a public one (2.7-6, 2.7-23).
    #[error(
        "sshKey[{index}] must be the UUID of a stored key, or one line of a public key in OpenSSH form such as `ssh-ed25519 AAAA… comment`"
    )]
    SshKey {
        /// The zero-based index.
        index: usize,
    },
    /// Another Linux without a key to log in with (2.9-8).
    #[error("sshKey must have an entry for this Linux system")]
    SshKeysNeeded,
    /// Not a public key (2.19-3).
    #[error(
        "publicKey must be a public key: one line in OpenSSH form, such as `ssh-ed25519 AAAA… comment`"
    )]
    PublicKey,
    /// A private key where a public one belongs.
    #[error("{field} has a private key; put the public key there, and replace the pair")]
    PrivateKey {
        /// The field.
        field: String,
    },
    /// The document's form of an installation needs a key (2.17-7).
    #[error("{field} is needed to install this system")]
    InstallKey {
        /// `sshKeyId` or `sshKeyUuid`.
        field: &'static str,
    },
    /// Blank, or contains NUL.
    #[error("postInstallScript must not be blank or contain NUL")]
    Script,
    /// A Linux script without its first line (2.7-10), or with one that names no absolute path.
    #[error(
        "postInstallScript must begin with a shebang that names an absolute path, such as #!/bin/bash"
    )]
    Shebang,
    /// This system would never run it.
    #[error(
        "postInstallScript has no effect with this system; remove it, or choose another system"
    )]
    ScriptUnused,
    /// Blank.
    #[error("userData.data must not be blank")]
    UserData,
    /// Declared as base64, but it is not.
    #[error(
        "userData.data is not base64 in one line; remove line breaks and blanks within it, or set encoding to Plain"
    )]
    UserDataBase64,
    /// A parameter without a name, or with control characters.
    #[error(
        "os.kernelParams[{index}] must have a key without blanks and `=`, and a value without control characters"
    )]
    KernelParam {
        /// The zero-based index.
        index: usize,
    },
    /// A parameter that does not fit into one text with all of them (2.17-4).
    #[error("os.kernelParams[{index}] must have a value without blanks and quotes in this form")]
    KernelText {
        /// The zero-based index.
        index: usize,
    },
    /// No hub to join, or one with an invalid URL (2.8-16, 2.17-20).
    #[error(
        "os.kernelParams must have siderolink.api with a URL of http, https or grpc, such as https://hub.example.com"
    )]
    Hub,
    /// Neither kind of image, both, or one of them twice (2.17-12, 2.17-13).
    #[error(
        "os.kernelParams must have either siderolink.api (vanilla image) or factoryhash (factory image), once"
    )]
    Image,
    /// Parameters that a factory image would ignore (2.17-13).
    #[error(
        "os.kernelParams must have only factoryhash; other parameters belong in the factory image"
    )]
    FactoryParams,
    /// A partition that is incomplete or has no size.
    #[error(
        "os.partitions[{index}] must have a target, a filesystem, and a size of at least 1 megabyte"
    )]
    Partition {
        /// The zero-based index.
        index: usize,
    },
    /// Two partitions with the same target.
    #[error("os.partitions[{index}] has the target of another partition")]
    PartitionTwice {
        /// The zero-based index of the second one.
        index: usize,
    },
    /// Two partitions that take the rest of the disk.
    #[error("os.partitions has more than one entry that takes the rest of the disk")]
    PartitionRest,
    /// `custom-ipxe` without a URL.
    #[error("os.ipxeScriptUrl is needed by the system custom-ipxe")]
    IpxeMissing,
    /// A URL with another system.
    #[error("os.ipxeScriptUrl is only for the system custom-ipxe")]
    IpxeUnused,
    /// Not a URL.
    #[error("os.ipxeScriptUrl must be an absolute URL, such as https://boot.example.com/a.ipxe")]
    IpxeUrl,
    /// Two addresses that make no range (2.1-10).
    #[error("ipStart and ipEnd must be of one address family, and in this order")]
    AddressSpan,
    /// Not an e-mail address (4.2-6).
    #[error("emailAddress must be an e-mail address")]
    EmailAddress,
    /// Dates the wrong way round (4.7-4).
    #[error("endDate must not be before startDate")]
    Dates,
    /// An expired token (4.8-3).
    #[error("the PAGE-TOKEN has expired; start the list again")]
    PageToken,
}

/// Checks the name of a server for a system; `None` is an unknown system.
pub fn check_name(
    field: &'static str,
    name: &str,
    family: Option<SystemFamily>,
) -> Result<(), InvalidRequest> {
    if family == Some(SystemFamily::Talos) && !is_host_name(name) {
        return Err(InvalidRequest::HostName { field });
    }
    check_line(field, name)
}

/// Checks a text that is a name.
pub fn check_line(field: &'static str, text: &str) -> Result<(), InvalidRequest> {
    let fits = !text.trim().is_empty()
        && text.chars().count() <= 255
        && !text.chars().any(char::is_control);
    if fits {
        Ok(())
    } else {
        Err(InvalidRequest::Text { field })
    }
}

/// Whether a text is a host name: labels of 1 to 63 letters, digits and inner hyphens, joined by dots, at most 253
/// characters. Only the Kubernetes-focused system needs one (2.7-1).
pub fn is_host_name(name: &str) -> bool {
    (1..=253).contains(&name.len())
        && name.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}
