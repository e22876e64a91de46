//! The re-installation of a server.

use std::fmt;

use serde::Serialize;

use crate::{
    request::{InvalidRequest, check_name},
    secret::SecretText,
    server::{
        order::check_keys,
        system::{OsBody, SystemChoice, SystemFamily, UserData, UserDataBody, check_script},
    },
};

/// How to re-install a server (2.9). All its data is lost. Without `os`, the current system is installed again (2.9-6).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Reinstall {
    /// The new host name.
    pub name: Option<String>,
    /// Public keys, or UUIDs of stored ones, that replace all keys of the server (2.9-7).
    pub ssh_keys: Option<Vec<String>>,
    /// Runs once, at the first boot.
    pub post_install_script: Option<SecretText>,
    /// Another system.
    pub os: Option<SystemChoice>,
    /// What the server reads from its metadata service.
    pub user_data: Option<UserData>,
    /// How the disks are cleared first.
    pub wipe: DiskWipe,
}

/// The query `wipeDisk` (4.4-17). Always sent, so nothing depends on a default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DiskWipe {
    /// The whole disk is wiped.
    #[default]
    Whole,
    /// The quick format before the installation is skipped.
    Skip,
}

impl DiskWipe {
    /// The value of the query parameter `wipeDisk`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "true",
            Self::Skip => "false",
        }
    }
}

impl fmt::Debug for Reinstall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reinstall")
            .field("name", &self.name)
            .field("ssh_keys", &self.ssh_keys)
            .field("os", &self.os)
            .field("has_script", &self.post_install_script.is_some())
            .field("has_user_data", &self.user_data.is_some())
            .field("wipe", &self.wipe)
            .finish()
    }
}

impl Reinstall {
    /// Checks the request by the API's rules (2.7 to 2.9). Err: the field and its rule.
    pub fn check(&self) -> Result<(), InvalidRequest> {
        let family = self.os.as_ref().map(SystemChoice::family);
        if let Some(name) = &self.name {
            check_name("name", name, family)?;
        }
        check_keys(self.ssh_keys.as_deref().unwrap_or_default())?;
        if let Some(os) = &self.os {
            os.check()?;
        }
        // The API would install a Linux that nobody can log in to.
        if family == Some(SystemFamily::Linux) && self.ssh_keys.as_ref().is_none_or(Vec::is_empty) {
            return Err(InvalidRequest::SshKeysNeeded);
        }
        if let Some(script) = &self.post_install_script {
            check_script(script, family)?;
        }
        if let Some(data) = &self.user_data {
            data.check()?;
        }
        Ok(())
    }

    /// The body of the request.
    pub fn body(&self) -> impl Serialize {
        ReinstallBody {
            name: self.name.as_deref(),
            ssh_key: self.ssh_keys.as_deref(),
            post_install_script: self.post_install_script.as_ref().map(SecretText::expose),
            os: self.os.as_ref().map(SystemChoice::body),
            user_data: self.user_data.as_ref().map(UserData::body),
        }
    }

    /// What no text may show if the API echoes the request.
    pub fn secrets(&self) -> impl Iterator<Item = SecretText> {
        let data = self.user_data.iter().map(|data| &data.data);
        let secrets = self.post_install_script.iter().chain(data).cloned();
        secrets.chain(self.os.iter().flat_map(SystemChoice::secrets))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReinstallBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssh_key: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    post_install_script: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    os: Option<OsBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_data: Option<UserDataBody<'a>>,
}
