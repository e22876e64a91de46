//! The operating system of an order or a re-installation, with its settings
//! (sections 2.7 to 2.9 of `docs/contributing/hosting-api.md`).

use std::fmt;

use serde::Serialize;

use crate::{
    request::{InvalidRequest, check_line},
    secret::SecretText,
    server::partition::{Partition, check_partitions},
};

/// The kernel parameter with the hub that a server with the Kubernetes-focused system joins (2.8-16, 2.17-12).
pub(crate) const HUB: &str = "siderolink.api";

/// A shorter value of a kernel parameter is no token.
const SHORTEST_TOKEN: usize = 8;

/// The family of a system, by its slug. It decides the rules for scripts, keys and iPXE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemFamily {
    /// Any system that is not one of the others.
    Linux,
    /// Scripts are run by PowerShell (2.7-11), and no key is installed.
    Windows,
    /// The Kubernetes-focused system: no scripts, no keys, kernel parameters.
    Talos,
    /// The server boots from an iPXE script.
    CustomIpxe,
}

impl SystemFamily {
    /// The family, by the start of the slug; the API does not give it.
    pub fn of_slug(slug: &str) -> Self {
        let slug = slug.trim().to_ascii_lowercase();
        if slug == "custom-ipxe" {
            Self::CustomIpxe
        } else if slug.starts_with("talos") {
            Self::Talos
        } else if slug.starts_with("win") {
            Self::Windows
        } else {
            Self::Linux
        }
    }

    /// The script without Windows line ends and byte order mark, which editors add and a shell does not accept.
    pub fn runnable(self, script: &SecretText) -> SecretText {
        let text = script.expose();
        match self {
            Self::Windows => script.clone(),
            _ => script.with_text(
                text.strip_prefix('\u{feff}')
                    .unwrap_or(text)
                    .replace("\r\n", "\n"),
            ),
        }
    }
}

/// A kernel parameter (2.8-4). Its value may contain a token to join a cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct KernelParam {
    /// The name, for example `siderolink.api`.
    pub key: String,
    /// The value.
    pub value: SecretText,
}

impl fmt::Debug for KernelParam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelParam")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Data that the server can read from its metadata service (2.7-13). Nothing runs it.
#[derive(Clone, PartialEq, Eq)]
pub struct UserData {
    /// The data.
    pub data: SecretText,
    /// Whether `data` is base64.
    pub is_base64: bool,
}

/// A system with its settings (2.8).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SystemChoice {
    /// The slug.
    pub slug: String,
    /// Parameters of the kernel (2.8-4).
    pub kernel_params: Vec<KernelParam>,
    /// Partitions of the first disk; none is the API's usual layout (2.8-11).
    pub partitions: Vec<Partition>,
    /// Only for the slug `custom-ipxe` (2.8-14). Secret, since such URLs often contain credentials.
    pub ipxe_script_url: Option<SecretText>,
}

impl fmt::Debug for SystemChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemChoice")
            .field("slug", &self.slug)
            .field("kernel_params", &self.kernel_params)
            .field("partitions", &self.partitions)
            .field("has_ipxe_script_url", &self.ipxe_script_url.is_some())
            .finish()
    }
}

impl SystemChoice {
    /// A system without settings.
    pub fn of_slug(slug: impl Into<String>) -> Self {
        Self {
            slug: slug.into(),
            ..Self::default()
        }
    }

    pub(super) fn family(&self) -> SystemFamily {
        SystemFamily::of_slug(&self.slug)
    }

    pub(super) fn check(&self) -> Result<(), InvalidRequest> {
        check_line("os.slug", &self.slug)?;
        check_kernel_params(self.kernel_params.iter().map(KernelParam::body))?;
        check_partitions(&self.partitions)?;
        let family = self.family();
        let hub = self.kernel_params.iter().find(|param| param.key == HUB);
        if family == SystemFamily::Talos && !hub.is_some_and(|hub| is_hub(hub.value.expose())) {
            return Err(InvalidRequest::Hub);
        }
        let is_ipxe = family == SystemFamily::CustomIpxe;
        match &self.ipxe_script_url {
            None if is_ipxe => Err(InvalidRequest::IpxeMissing),
            Some(_) if !is_ipxe => Err(InvalidRequest::IpxeUnused),
            Some(url) if !is_address(url.expose()) => Err(InvalidRequest::IpxeUrl),
            _ => Ok(()),
        }
    }

    /// The object `os`, without absent fields.
    pub(super) fn body(&self) -> OsBody<'_> {
        OsBody {
            slug: &self.slug,
            kernel_params: self.kernel_params.iter().map(KernelParam::body).collect(),
            partitions: &self.partitions,
            ipxe_script_url: self.ipxe_script_url.as_ref().map(SecretText::expose),
        }
    }

    /// What no text may show if the API echoes the request.
    pub(super) fn secrets(&self) -> impl Iterator<Item = SecretText> {
        let params = self.kernel_params.iter().map(|param| &param.value);
        // Shorter ones are switches and words; masking them would blank the API's texts.
        let is_secret =
            |it: &&SecretText| it.is_referred_to() || it.expose().len() >= SHORTEST_TOKEN;
        let params = params.filter(is_secret);
        params.chain(&self.ipxe_script_url).cloned()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OsBody<'a> {
    slug: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kernel_params: Vec<KernelParamBody<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    partitions: &'a [Partition],
    #[serde(skip_serializing_if = "Option::is_none")]
    ipxe_script_url: Option<&'a str>,
}

/// A kernel parameter on the wire.
#[derive(Serialize)]
pub(crate) struct KernelParamBody<'a> {
    pub(crate) key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<&'a str>,
}

impl KernelParam {
    fn body(&self) -> KernelParamBody<'_> {
        KernelParamBody {
            key: &self.key,
            value: Some(self.value.expose()),
        }
    }
}

/// User data on the wire.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UserDataBody<'a> {
    data: &'a str,
    is_base64: bool,
}

impl UserData {
    pub(super) fn body(&self) -> UserDataBody<'_> {
        UserDataBody {
            data: self.data.expose(),
            is_base64: self.is_base64,
        }
    }

    pub(super) fn check(&self) -> Result<(), InvalidRequest> {
        if self.data.is_blank() {
            return Err(InvalidRequest::UserData);
        }
        if self.is_base64 && !is_base64(self.data.expose()) {
            return Err(InvalidRequest::UserDataBase64);
        }
        Ok(())
    }
}

/// Checks a script for a system. `None` is a re-installation with the current, unknown system: only the rules of all
/// systems apply.
pub(crate) fn check_script(
    script: &SecretText,
    family: Option<SystemFamily>,
) -> Result<(), InvalidRequest> {
    if script.is_blank() || script.expose().contains('\0') {
        return Err(InvalidRequest::Script);
    }
    match family {
        Some(SystemFamily::Talos | SystemFamily::CustomIpxe) => Err(InvalidRequest::ScriptUnused),
        Some(SystemFamily::Linux) if !names_interpreter(script.expose()) => {
            Err(InvalidRequest::Shebang)
        }
        _ => Ok(()),
    }
}

/// Whether a script has a shebang with an absolute path.
pub(crate) fn names_interpreter(script: &str) -> bool {
    let line = script
        .strip_prefix("#!")
        .and_then(|rest| rest.split('\n').next());
    let path = line.and_then(|line| line.split([' ', '\t']).find(|word| !word.is_empty()));
    path.is_some_and(|path| {
        path.len() > 1 && path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic())
    })
}

pub(crate) fn check_kernel_params<'a>(
    mut params: impl Iterator<Item = KernelParamBody<'a>>,
) -> Result<(), InvalidRequest> {
    let fits = |param: KernelParamBody<'a>| {
        let key = param.key;
        (1..=255).contains(&key.len())
            && !key
                .chars()
                .any(|letter| letter.is_whitespace() || letter.is_control() || letter == '=')
            && !param
                .value
                .is_some_and(|value| value.contains(char::is_control))
    };
    match params.position(|param| !fits(param)) {
        Some(index) => Err(InvalidRequest::KernelParam { index }),
        None => Ok(()),
    }
}

/// Whether a text is the URL of a hub (2.17-20).
pub(crate) fn is_hub(text: &str) -> bool {
    let is_called =
        |url: url::Url| url.has_host() && ["http", "https", "grpc"].contains(&url.scheme());
    url::Url::parse(text).is_ok_and(is_called)
}

/// Whether a text is an absolute URL, of any scheme: iPXE reads more than http, and the API names none (2.8-13).
fn is_address(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| url.has_host())
}

/// The usual alphabet, padded, without line breaks.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - digits.len() <= 2
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}
