//! The installation of a dedicated host (2.17).

use std::fmt;

use serde::Serialize;

use crate::{
    host::{InstallForm, InstallKeyName, InstallKeyNeeded, InstallParam, KernelParamsForm},
    identity::SshKeyId,
    request::{InvalidRequest, check_name},
    secret::SecretText,
    server::{
        HUB, KernelParamBody, SystemFamily, check_kernel_params, check_script, is_hub,
        names_interpreter,
    },
};

/// The parameter that names a factory image (2.17-13).
const FACTORY: &str = "factoryhash";

/// How to install a host. All its data is lost.
#[derive(Clone, PartialEq, Eq)]
pub struct HostInstall {
    /// The number of the operating system.
    pub os_id: u64,
    /// Its family, which decides the rules and does not follow from the number. See [`SystemFamily::of_slug`].
    pub family: SystemFamily,
    /// The host name; without one the API invents one. Only the Kubernetes-focused system needs a valid one, since its
    /// first label names the node (2.17-2).
    pub hostname: Option<String>,
    /// Kernel parameters, for the Kubernetes-focused system.
    pub kernel_params: Vec<InstallParam>,
    /// A script for bash that runs after the installation.
    pub post_install_script: Option<SecretText>,
    /// The stored key for root.
    pub ssh_key: Option<SshKeyId>,
    /// Whether the disks get a quick format first; the API's default is true (2.17-10).
    pub quick_format: Option<bool>,
    /// How the request is written.
    pub form: InstallForm,
}

impl fmt::Debug for HostInstall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostInstall")
            .field("os_id", &self.os_id)
            .field("family", &self.family)
            .field("hostname", &self.hostname)
            .field("kernel_params", &self.kernel_params)
            .field("has_script", &self.post_install_script.is_some())
            .field("ssh_key", &self.ssh_key)
            .field("quick_format", &self.quick_format)
            .field("form", &self.form)
            .finish()
    }
}

impl HostInstall {
    /// An installation with only the required fields, without its key.
    pub fn new(os_id: u64, family: SystemFamily) -> Self {
        Self {
            os_id,
            family,
            hostname: None,
            kernel_params: Vec::new(),
            post_install_script: None,
            ssh_key: None,
            quick_format: None,
            form: InstallForm::default(),
        }
    }

    /// Checks the request by the API's rules (2.17). Err: the field and its rule.
    pub fn check(&self) -> Result<(), InvalidRequest> {
        let is_talos = self.family == SystemFamily::Talos;
        if let Some(name) = &self.hostname {
            check_name("hostname", name, Some(self.family))?;
        }
        let needs_key = match self.form.key_needed {
            InstallKeyNeeded::Always => true,
            InstallKeyNeeded::Linux => self.family == SystemFamily::Linux,
        };
        if needs_key && self.ssh_key.is_none() {
            let field = self.form.key_name.as_str();
            return Err(InvalidRequest::InstallKey { field });
        }
        check_kernel_params(self.kernel_params.iter().map(InstallParam::body))?;
        if is_talos {
            self.check_image()?;
        }
        if self.form.kernel_params == KernelParamsForm::Text
            && let Some(index) = self.kernel_params.iter().position(needs_quotes)
        {
            return Err(InvalidRequest::KernelText { index });
        }
        if let Some(script) = &self.post_install_script {
            // Only on-demand servers need a shebang: here bash runs any script (2.17-6). An existing shebang must be
            // valid.
            check_script(script, None)?;
            if is_talos {
                return Err(InvalidRequest::ScriptUnused);
            }
            let text = script.expose();
            if text.starts_with("#!") && !names_interpreter(text) {
                return Err(InvalidRequest::Shebang);
            }
        }
        Ok(())
    }

    fn check_image(&self) -> Result<(), InvalidRequest> {
        let values = |key: &'static str| {
            let params = self.kernel_params.iter();
            params
                .filter(move |param| param.key == key)
                .map(InstallParam::as_given)
        };
        // With two, it would be unclear which one counts.
        if values(HUB).count() > 1 {
            return Err(InvalidRequest::Image);
        }
        let value = |key: &'static str| values(key).next();
        match (value(HUB), value(FACTORY)) {
            (Some(hub), None) if is_hub(hub) => Ok(()),
            (Some(_), None) => Err(InvalidRequest::Hub),
            (None, Some(_)) if self.kernel_params.len() > 1 => Err(InvalidRequest::FactoryParams),
            (None, Some(hash)) if !hash.is_empty() => Ok(()),
            _ => Err(InvalidRequest::Image),
        }
    }

    /// The body of the request, in the form of this account.
    pub fn body(&self) -> impl Serialize {
        let key = self.ssh_key.as_ref().map(SshKeyId::as_str);
        let (ssh_key_id, ssh_key_uuid) = match self.form.key_name {
            InstallKeyName::SshKeyId => (key, None),
            InstallKeyName::SshKeyUuid => (None, key),
        };
        let kernel_params = match self.form.kernel_params {
            _ if self.kernel_params.is_empty() => None,
            KernelParamsForm::Text => Some(KernelParamsBody::Text(self.kernel_text())),
            KernelParamsForm::Array => {
                let params = self.kernel_params.iter().map(InstallParam::body);
                Some(KernelParamsBody::Array(params.collect()))
            }
        };
        InstallBody {
            hostname: self.hostname.as_deref(),
            os: InstallOsBody {
                id: self.os_id,
                kernel_params,
            },
            post_install_script: self.post_install_script.as_ref().map(SecretText::expose),
            ssh_key_id,
            ssh_key_uuid,
            quick_format: self.quick_format,
        }
    }

    /// All parameters in one text, with blanks between.
    fn kernel_text(&self) -> String {
        let params: Vec<_> = self.kernel_params.iter().map(InstallParam::text).collect();
        params.join(" ")
    }

    /// The parts that may be secret: the script, and the values of the kernel parameters.
    pub fn secrets(&self) -> impl Iterator<Item = SecretText> {
        let params = self.kernel_params.iter();
        let params = params.filter_map(|param| param.value.as_ref());
        self.post_install_script.iter().chain(params).cloned()
    }
}

fn needs_quotes(param: &InstallParam) -> bool {
    let value = param.as_given();
    value.contains(|letter: char| letter.is_whitespace() || letter == '"' || letter == '\'')
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InstallBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<&'a str>,
    os: InstallOsBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    post_install_script: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssh_key_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssh_key_uuid: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quick_format: Option<bool>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InstallOsBody<'a> {
    id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_params: Option<KernelParamsBody<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum KernelParamsBody<'a> {
    Text(String),
    Array(Vec<KernelParamBody<'a>>),
}
