//! The order of a server, and what became of it.

use std::fmt;

use serde::Serialize;

use crate::hosting::error::Error;
use crate::hosting::identity::is_uuid;
use crate::hosting::request::InvalidRequest;
use crate::hosting::secret::SecretText;
use crate::hosting::server::Server;
use crate::hosting::server::partition::Partition;
use crate::hosting::server::system::{
    InvalidSystem, KernelParam, SystemFamily, SystemView, UserData, UserDataBody, check_script,
};
use crate::hosting::ssh_key::check_public_key;
use crate::hosting::tag::{InvalidTag, check_tag};

/// What to order (2.7). `Order::default()` is an empty one, for the fields that
/// an order has no use for.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Order {
    /// The host name.
    pub name: String,
    /// The `name` of a location.
    pub location: String,
    /// The `name` of an instance type.
    pub instance_type: String,
    /// The slug of an operating system.
    pub os_slug: String,
    /// Public keys, or UUIDs of stored ones, for root; may be empty.
    pub ssh_keys: Vec<String>,
    /// At most 60.
    pub tags: Vec<String>,
    /// The contract whose committed quota pays.
    pub contract_id: Option<String>,
    /// Take from the on-demand pool where the committed quota is used up.
    pub overflow: bool,
    /// Runs once, at the first boot: a shell script with a shebang on Linux,
    /// PowerShell on Windows (2.7-9 to 2.7-12).
    pub post_install_script: Option<SecretText>,
    /// What the machine reads from its metadata service (2.7-13).
    pub user_data: Option<UserData>,
    /// Parameters of the kernel (2.8-4).
    pub kernel_params: Vec<KernelParam>,
    /// Partitions of the first disk; none is the API's usual layout (2.8-11).
    pub partitions: Vec<Partition>,
    /// For the slug `custom-ipxe`, and only there (2.8-14). Secret, as such
    /// addresses often hold credentials.
    pub ipxe_script_url: Option<SecretText>,
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order")
            .field("name", &self.name)
            .field("location", &self.location)
            .field("instance_type", &self.instance_type)
            .field("os_slug", &self.os_slug)
            .field("ssh_keys", &self.ssh_keys)
            .field("tags", &self.tags)
            .field("contract_id", &self.contract_id)
            .field("overflow", &self.overflow)
            .field("has_script", &self.post_install_script.is_some())
            .field("has_user_data", &self.user_data.is_some())
            .field("kernel_params", &self.kernel_params)
            .field("partitions", &self.partitions)
            .field("has_ipxe_script_url", &self.ipxe_script_url.is_some())
            .finish()
    }
}

/// What became of an order: the four cases that the protocol tells apart.
#[derive(Debug)]
pub enum OrderOutcome {
    /// No byte left this process: there is no machine.
    NotSent(Error),
    /// The API said no in a way that leaves no doubt: there is no machine.
    Refused(Error),
    /// There is one machine, it has an identity and bears the order tag.
    Created(Box<Server>),
    /// There may be a machine. Says why; the text is safe to show.
    Unknown(String),
}

/// A rule that an order or a re-installation breaks: the API's, or where it
/// states none, what no such text can be without being a mistake. Names the
/// field as the API does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOrder {
    /// Not a host name, with the Kubernetes-focused system (2.7-1).
    #[error(
        "name must be a host name with this system: labels of 1 to 63 letters, digits and inner hyphens, joined by dots, 253 characters at most"
    )]
    Name,
    /// An empty text, one with control characters, or one of more than 255
    /// characters. The API states no such bound; a longer one is no name.
    #[error("{field} must be a text of 1 to 255 characters without control characters")]
    Text {
        /// `name`, `location`, `instanceType` or `os.slug`.
        field: &'static str,
    },
    /// Neither a stored key nor a public one (2.7-6, 2.7-23).
    #[error(
        "sshKey[{index}] must be the UUID of a stored key, or one line of a public key in OpenSSH form such as `ssh-ed25519 AAAA… comment`"
    )]
    SshKey {
        /// The zero-based place.
        index: usize,
    },
    /// A private key where a public one belongs.
    #[error("sshKey[{index}] holds a private key: give the public one, and replace the pair")]
    PrivateKey {
        /// The zero-based place.
        index: usize,
    },
    /// More than 60 tags.
    #[error("tags has {count} entries, the API takes 60 at most")]
    TooManyTags {
        /// How many there are.
        count: usize,
    },
    /// A tag that breaks the pattern.
    #[error("tags[{index}] breaks the rule")]
    Tag {
        /// The zero-based place.
        index: usize,
        /// The rule.
        #[source]
        rule: InvalidTag,
    },
    /// The order tag is not among the tags, so the machine could not be found
    /// again.
    #[error("tags must hold the order tag")]
    OrderTag,
    /// Not a contract identity.
    #[error("contractId must have at most 240 characters out of A-Z, 0-9, `_`, `.` and `-`")]
    ContractId,
    /// A rule about the system, the script or the user data.
    #[error(transparent)]
    System(#[from] InvalidSystem),
    /// Another Linux without a key to log in with.
    #[error("sshKey must have an entry where os names another Linux system")]
    SshKeysNeeded,
}

impl Order {
    /// Checks the order by the API's rules (2.7, 2.8 and section 8), so that
    /// no call is spent on what can only be refused.
    ///
    /// # Errors
    ///
    /// [`InvalidOrder`] names the field and its rule.
    pub fn check(&self) -> Result<(), InvalidOrder> {
        let family = SystemFamily::of_slug(&self.os_slug);
        check_name(&self.name, Some(family))?;
        for (field, text) in [
            ("location", &self.location),
            ("instanceType", &self.instance_type),
            ("os.slug", &self.os_slug),
        ] {
            if !is_line(text, 255) {
                return Err(InvalidOrder::Text { field });
            }
        }
        check_keys(&self.ssh_keys)?;
        if self.tags.len() > 60 {
            return Err(InvalidOrder::TooManyTags {
                count: self.tags.len(),
            });
        }
        for (index, tag) in self.tags.iter().enumerate() {
            check_tag(tag).map_err(|rule| InvalidOrder::Tag { index, rule })?;
        }
        if let Some(contract) = &self.contract_id
            && !is_contract_id(contract)
        {
            return Err(InvalidOrder::ContractId);
        }
        self.system().check()?;
        if let Some(script) = &self.post_install_script {
            check_script(script, Some(family))?;
        }
        if let Some(data) = &self.user_data {
            data.check()?;
        }
        Ok(())
    }

    fn system(&self) -> SystemView<'_> {
        SystemView {
            slug: &self.os_slug,
            kernel_params: &self.kernel_params,
            partitions: &self.partitions,
            ipxe_script_url: self.ipxe_script_url.as_ref(),
        }
    }

    /// What no text may show, should the API echo the order.
    pub(super) fn secrets(&self) -> impl Iterator<Item = SecretText> {
        let params = self.kernel_params.iter().map(|param| &param.value);
        let data = self.user_data.iter().map(|data| &data.data);
        let secrets = self.post_install_script.iter().chain(data);
        secrets.chain(params).chain(&self.ipxe_script_url).cloned()
    }

    /// The body of the request. `sshKey` is there even when it is empty, as
    /// 2.7-5 demands.
    pub(super) fn body(&self) -> impl Serialize {
        OrderBody {
            name: &self.name,
            location: &self.location,
            instance_type: &self.instance_type,
            os: self.system().body(),
            ssh_key: &self.ssh_keys,
            tags: &self.tags,
            contract_id: self.contract_id.as_deref().filter(|id| !id.is_empty()),
            overflow: self.overflow,
            post_install_script: self.post_install_script.as_ref().map(SecretText::expose),
            user_data: self.user_data.as_ref().map(UserData::body),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OrderBody<'a, Os> {
    name: &'a str,
    location: &'a str,
    instance_type: &'a str,
    os: Os,
    ssh_key: &'a [String],
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    contract_id: Option<&'a str>,
    overflow: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    post_install_script: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_data: Option<UserDataBody<'a>>,
}

/// Checks a name for a system; `None` is one that nobody here knows.
pub(super) fn check_name(name: &str, family: Option<SystemFamily>) -> Result<(), InvalidOrder> {
    if family == Some(SystemFamily::Talos) && !is_host_name(name) {
        return Err(InvalidOrder::Name);
    }
    if !is_line(name, 255) {
        return Err(InvalidOrder::Text { field: "name" });
    }
    Ok(())
}

pub(super) fn check_keys(keys: &[String]) -> Result<(), InvalidOrder> {
    for (index, key) in keys.iter().enumerate() {
        match check_public_key(key) {
            Err(InvalidRequest::PrivateKey) => return Err(InvalidOrder::PrivateKey { index }),
            Err(_) if !is_uuid(key) => return Err(InvalidOrder::SshKey { index }),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a text is a host name: labels of 1 to 63 letters, digits and inner
/// hyphens, joined by dots, 253 characters at most. The API demands one of the
/// Kubernetes-focused system alone (2.7-1).
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

pub(in crate::hosting) fn is_line(text: &str, longest: usize) -> bool {
    !text.trim().is_empty()
        && text.chars().count() <= longest
        && !text.chars().any(char::is_control)
}

fn is_contract_id(text: &str) -> bool {
    text.len() <= 240
        && text.bytes().all(|byte| {
            byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'.' | b'-')
        })
}
