//! The order of a server: its rules, its body, and its four possible outcomes.

use std::fmt;

use serde::Serialize;

use crate::{
    error::Error,
    identity::is_uuid,
    request::{InvalidRequest, check_line, check_name},
    secret::SecretText,
    server::{
        Server,
        system::{OsBody, SystemChoice, UserData, UserDataBody, check_script},
    },
    ssh_key::{is_key_line, is_private_key},
    tag::{MOST_TAGS, is_tag},
};

/// What to order (2.7). `Order::default()` is empty, to fill unused fields.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Order {
    /// The host name.
    pub name: String,
    /// The `name` of a location.
    pub location: String,
    /// The `name` of an instance type.
    pub instance_type: String,
    /// The operating system and its settings.
    pub os: SystemChoice,
    /// Public keys, or UUIDs of stored ones, for root; may be empty.
    pub ssh_keys: Vec<String>,
    /// At most [`MOST_TAGS`].
    pub tags: Vec<String>,
    /// The contract whose committed quota pays.
    pub contract_id: Option<String>,
    /// Use the on-demand pool if the committed quota is used up.
    pub overflow: bool,
    /// Runs once, at the first boot: a shell script with a shebang on Linux,
    /// PowerShell on Windows (2.7-9 to 2.7-12).
    pub post_install_script: Option<SecretText>,
    /// What the server reads from its metadata service (2.7-13).
    pub user_data: Option<UserData>,
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order")
            .field("name", &self.name)
            .field("location", &self.location)
            .field("instance_type", &self.instance_type)
            .field("os", &self.os)
            .field("ssh_keys", &self.ssh_keys)
            .field("tags", &self.tags)
            .field("contract_id", &self.contract_id)
            .field("overflow", &self.overflow)
            .field("has_script", &self.post_install_script.is_some())
            .field("has_user_data", &self.user_data.is_some())
            .finish()
    }
}

/// The outcome of an order: the four cases of the order protocol.
#[derive(Debug)]
pub enum OrderResult {
    /// No byte left this process: no server exists.
    NotSent(Error),
    /// The API certainly refused the order: no server exists.
    Refused(Error),
    /// One server exists, with a UUID and the order tag.
    Created(Box<Server>),
    /// A server may exist. The text says why, and is safe to show.
    Unknown(String),
}

impl Order {
    /// Checks the order by the API's rules (2.7, 2.8 and section 8) before a call. Err: the field and its rule.
    pub fn check(&self) -> Result<(), InvalidRequest> {
        let family = self.os.family();
        check_name("name", &self.name, Some(family))?;
        check_line("location", &self.location)?;
        check_line("instanceType", &self.instance_type)?;
        check_keys(&self.ssh_keys)?;
        if self.tags.len() > MOST_TAGS {
            return Err(InvalidRequest::TooManyTags {
                count: self.tags.len(),
            });
        }
        for (index, tag) in self.tags.iter().enumerate() {
            if !is_tag(tag) {
                let field = format!("tags[{index}]");
                return Err(InvalidRequest::Tag { field });
            }
        }
        if let Some(contract) = &self.contract_id
            && !is_contract_id(contract)
        {
            return Err(InvalidRequest::ContractId);
        }
        self.os.check()?;
        if let Some(script) = &self.post_install_script {
            check_script(script, Some(family))?;
        }
        if let Some(data) = &self.user_data {
            data.check()?;
        }
        Ok(())
    }

    /// What no text may show if the API echoes the order.
    pub fn secrets(&self) -> impl Iterator<Item = SecretText> {
        let data = self.user_data.iter().map(|data| &data.data);
        let secrets = self.post_install_script.iter().chain(data).cloned();
        secrets.chain(self.os.secrets())
    }

    /// The body of the request. `sshKey` is present even if empty (2.7-5).
    pub fn body(&self) -> impl Serialize {
        OrderBody {
            name: &self.name,
            location: &self.location,
            instance_type: &self.instance_type,
            os: self.os.body(),
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
    #[serde(skip_serializing_if = "Option::is_none")]
    post_install_script: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_data: Option<UserDataBody<'a>>,
}

pub(super) fn check_keys(keys: &[String]) -> Result<(), InvalidRequest> {
    for (index, key) in keys.iter().enumerate() {
        if is_private_key(key) {
            let field = format!("sshKey[{index}]");
            return Err(InvalidRequest::PrivateKey { field });
        }
        if !is_key_line(key) && !is_uuid(key) {
            return Err(InvalidRequest::SshKey { index });
        }
    }
    Ok(())
}

fn is_contract_id(text: &str) -> bool {
    text.len() <= 240
        && text.bytes().all(|byte| {
            byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'.' | b'-')
        })
}
