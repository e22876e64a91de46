//! The order of a server, and what became of it.

use serde::Serialize;

use crate::hosting::error::Error;
use crate::hosting::server::Server;
use crate::hosting::tag::{InvalidTag, check_tag};

/// What to order (section 2.7).
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// A rule of the API that an order breaks. Names the field as the API does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOrder {
    /// Not a host name.
    #[error(
        "name must be a host name: labels of 1 to 63 letters, digits and inner hyphens, joined by dots, 253 characters at most"
    )]
    Name,
    /// An empty text, one with control characters, or one of more than 255
    /// characters.
    #[error("{field} must be a text of 1 to 255 characters without control characters")]
    Text {
        /// `location`, `instanceType` or `os.slug`.
        field: &'static str,
    },
    /// A key that is empty or has more than one line.
    #[error(
        "sshKey[{index}] must be one line that is not empty, and have at most 16384 characters"
    )]
    SshKey {
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
}

impl Order {
    /// Checks the order by the API's rules (sections 2.7, 2.8 and 8), so that
    /// no call is spent on what can only be refused.
    ///
    /// # Errors
    ///
    /// [`InvalidOrder`] names the field and its rule.
    pub fn check(&self) -> Result<(), InvalidOrder> {
        if !is_host_name(&self.name) {
            return Err(InvalidOrder::Name);
        }
        for (field, text) in [
            ("location", &self.location),
            ("instanceType", &self.instance_type),
            ("os.slug", &self.os_slug),
        ] {
            if !is_line(text, 255) {
                return Err(InvalidOrder::Text { field });
            }
        }
        if let Some(index) = self.ssh_keys.iter().position(|key| !is_line(key, 16384)) {
            return Err(InvalidOrder::SshKey { index });
        }
        if self.tags.len() > 60 {
            return Err(InvalidOrder::TooManyTags {
                count: self.tags.len(),
            });
        }
        for (index, tag) in self.tags.iter().enumerate() {
            check_tag(tag).map_err(|rule| InvalidOrder::Tag { index, rule })?;
        }
        match &self.contract_id {
            Some(contract) if !is_contract_id(contract) => Err(InvalidOrder::ContractId),
            _ => Ok(()),
        }
    }

    /// The body of the request. `sshKey` is there even when it is empty, as
    /// section 2.7 demands.
    pub(super) fn body(&self) -> impl Serialize {
        OrderBody {
            name: &self.name,
            location: &self.location,
            instance_type: &self.instance_type,
            os: OsBody {
                slug: &self.os_slug,
            },
            ssh_key: &self.ssh_keys,
            tags: &self.tags,
            contract_id: self.contract_id.as_deref().filter(|id| !id.is_empty()),
            overflow: self.overflow,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OrderBody<'a> {
    name: &'a str,
    location: &'a str,
    instance_type: &'a str,
    os: OsBody<'a>,
    ssh_key: &'a [String],
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    contract_id: Option<&'a str>,
    overflow: bool,
}

#[derive(Serialize)]
struct OsBody<'a> {
    slug: &'a str,
}

fn is_host_name(name: &str) -> bool {
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

fn is_line(text: &str, longest: usize) -> bool {
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
