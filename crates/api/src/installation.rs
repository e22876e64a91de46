//! What a server is installed with: system, settings, script, and user data. The rules here go by the slug; the
//! operator checks against the provider's list of systems before the order.

use super::references::ValueLocation;
use kube_core::Rule;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The Kubernetes-focused systems, by their slug.
pub(super) const TALOS: &str = "startsWith('talos')";
const WINDOWS: &str = "startsWith('win')";
const CUSTOM_IPXE: &str = "== 'custom-ipxe'";

/// A CEL condition: whether the field at this path below `self` is set.
fn has(path: &str) -> String {
    let dots = path.match_indices('.').map(|(at, _)| at);
    let ends = dots.skip(1).chain([path.len()]);
    let each = ends.map(|end| format!("has({})", &path[..end]));
    each.collect::<Vec<_>>().join(" && ")
}

/// A CEL condition: whether the slug at this path is of one of these families.
pub(super) fn is_of(slug: &str, families: &[&str]) -> String {
    let each = families
        .iter()
        .map(|family| match family.starts_with("==") {
            true => format!("{slug}.lowerAscii() {family}"),
            false => format!("{slug}.lowerAscii().{family}"),
        });
    let each = each.collect::<Vec<_>>().join(" || ");
    format!("({} && ({each}))", has(slug))
}

/// The rule of a spec: no script for a system that runs none.
pub(super) fn script_is_run() -> Rule {
    let never = is_of("self.os.slug", &[TALOS, CUSTOM_IPXE]);
    Rule::new(format!("!has(self.postInstallScript) || !{never}"))
        .message("postInstallScript may not be set for the system of os.slug, which runs none; remove it, or choose another system")
        .field_path(".postInstallScript")
}

/// A shebang with an absolute path, in a CEL text, as in `names_interpreter` of the crate `hosting-types`. A byte order
/// mark before it and Windows line ends are not sent.
const SHEBANG: &str = r"^\uFEFF?#![ \\t]*/[!-~]+([ \\t\\n]|\\r\\n|$)";

/// The rule of a spec: a Linux script has a shebang. A referenced script is checked before the order.
pub(super) fn script_has_shebang() -> Rule {
    let others = is_of("self.os.slug", &[TALOS, WINDOWS, CUSTOM_IPXE]);
    Rule::new(format!(
        "!has(self.os) || !has(self.postInstallScript) || !has(self.postInstallScript.value) || {others} || self.postInstallScript.value.matches('{SHEBANG}')"
    ))
    .message("postInstallScript.value must begin with a shebang that names an absolute path, such as #!/bin/bash")
    .field_path(".postInstallScript")
}

/// The rule of a host's spec, where bash runs the script: a shebang is optional, but must be valid.
pub(super) fn shebang_is_right() -> Rule {
    Rule::new(format!(
        "!has(self.postInstallScript) || !has(self.postInstallScript.value) || !self.postInstallScript.value.matches('^\\uFEFF?#!') || self.postInstallScript.value.matches('{SHEBANG}')"
    ))
    .message("the shebang of postInstallScript.value must name an absolute path, such as #!/bin/bash")
    .field_path(".postInstallScript")
}

/// The rule of a spec: no keys for a system that installs none.
pub(super) fn keys_are_installed() -> Rule {
    let never = is_of("self.os.slug", &[TALOS, WINDOWS]);
    Rule::new(format!(
        "!has(self.sshKeys) || self.sshKeys.size() == 0 || !{never}"
    ))
    .message("sshKeys may not be set for the system of os.slug, which takes none; remove them, or choose another system")
    .field_path(".sshKeys")
}

/// The most bytes of all inline texts of a spec: an object stays below 64 KiB, with the exception in [`super::bounds`].
pub(super) const MOST_TEXT: u32 = 16_384;

/// A CEL term: the bytes of a text that may be unset.
fn text_size(text: &str) -> String {
    format!("(has({text}) ? bytes({text}).size() : 0)")
}

/// A CEL term: the characters of a text that may be unset.
fn size(text: &str) -> String {
    format!("(has({text}) ? {text}.size() : 0)")
}

/// A CEL term: the bytes of name and key of a reference that may be unset.
fn reference_size(reference: &str) -> String {
    let [name, key] = ["name", "key"].map(|field| size(&format!("{reference}.{field}")));
    format!("(has({reference}) ? {name} + {key} : 0)")
}

/// A CEL term: the bytes of the kernel parameters of a spec.
pub(super) fn params_size() -> String {
    let (key, value) = (size("p.key"), text_size("p.value"));
    let [secret, config_map] =
        ["secretKeyRef", "configMapKeyRef"].map(|of| reference_size(&format!("p.valueFrom.{of}")));
    format!(
        "(has(self.os) && has(self.os.kernelParams) ? self.os.kernelParams.map(p, {key} + {value} + (has(p.valueFrom) ? {secret} + {config_map} : 0)).sum() : 0)"
    )
}

/// A CEL term: the bytes of the script of a spec.
pub(super) fn script_size() -> String {
    let text = text_size("self.postInstallScript.value");
    format!("(has(self.postInstallScript) ? {text} : 0)")
}

/// The rule of a spec: its texts leave space for the rest of the object.
pub(super) fn texts_fit() -> Rule {
    let key = text_size("k.publicKey");
    let [secret, config_map] =
        ["secretKeyRef", "configMapKeyRef"].map(|of| reference_size(&format!("k.{of}")));
    let name = size("k.sshKeyRef.name");
    let keys = format!(
        "(has(self.sshKeys) ? self.sshKeys.map(k, {key} + {secret} + {config_map} + (has(k.sshKeyRef) ? {name} : 0)).sum() : 0)"
    );
    let data = text_size("self.userData.data.value");
    let data = format!("(has(self.userData) && has(self.userData.data) ? {data} : 0)");
    let url = text_size("self.os.ipxeScriptURL");
    let target = size("p.target");
    let system = format!(
        "(has(self.os) ? {url} + (has(self.os.partitions) ? self.os.partitions.map(p, {target}).sum() : 0) : 0)"
    );
    let (params, script) = (params_size(), script_size());
    Rule::new(format!(
        "{keys} + {params} + {system} + {data} + {script} <= {MOST_TEXT}"
    ))
    .message(&*format!(
        "the texts and names in sshKeys, os, postInstallScript and userData may not have more than {MOST_TEXT} bytes together; put the long ones into a Secret or a ConfigMap and refer to them (valueFrom), and make SshKey objects of the keys"
    ))
}

fn hub_is_named() -> Rule {
    let talos = is_of("self.slug", &[TALOS]);
    Rule::new(format!(
        "!{talos} || (has(self.kernelParams) && self.kernelParams.exists_one(p, has(p.key) && p.key == 'siderolink.api'))"
    ))
    .message("kernelParams must have siderolink.api exactly once for this system; set it to the URL of the hub that the server joins")
    .field_path(".kernelParams")
}

/// The rule of a system: no parameters for a system that reads none. A system by number is checked later.
pub(super) fn params_are_read() -> Rule {
    let talos = is_of("self.slug", &[TALOS]);
    Rule::new(format!(
        "!has(self.slug) || !has(self.kernelParams) || self.kernelParams.size() == 0 || {talos}"
    ))
    .message("kernelParams may be set for the systems talos-… only; remove them, or choose such a system")
    .field_path(".kernelParams")
}

fn ipxe_is_where_it_belongs() -> Rule {
    let ipxe = is_of("self.slug", &[CUSTOM_IPXE]);
    Rule::new(format!("{ipxe} == has(self.ipxeScriptURL)"))
        .message(
            "ipxeScriptURL is required for custom-ipxe and for no other system; set both or neither",
        )
        .field_path(".ipxeScriptURL")
}

/// An operating system to install, with its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = hub_is_named())]
#[x_kube(validation = params_are_read())]
#[x_kube(validation = ipxe_is_where_it_belongs())]
#[serde(rename_all = "camelCase")]
pub struct OperatingSystemSpec {
    /// The provider's short name of the system, for example `ubuntu-2404-lts`. A change after the order takes effect at
    /// the next re-installation (`install.revision`).
    #[schemars(
        length(min = 1, max = 128),
        regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    )]
    pub slug: String,

    /// Kernel parameters, at most 16. Only for the systems `talos-…`, which need `siderolink.api`. Default: none. A
    /// change after the order takes effect at the next re-installation (`install.revision`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub kernel_params: Vec<KernelParamSpec>,

    /// Partitions of the first disk, at most 16. Default: the layout of the provider: `/boot`, swap, and `/` with the
    /// rest. A change after the order takes effect at the next re-installation (`install.revision`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = Rule::new("self.all(p, !has(p.target) || self.exists_one(q, has(q.target) && q.target == p.target))").message("two partitions may not have the same target; change one of them"))]
    #[x_kube(validation = Rule::new("self.filter(p, !has(p.sizeMB)).size() <= 1").message("only one partition may take the rest of the disk; set sizeMB of all others"))]
    pub partitions: Vec<PartitionSpec>,

    /// Absolute URL, without user name and password, of the iPXE script that the system `custom-ipxe` boots from.
    /// Required for `custom-ipxe`. Not for secrets: everybody who may read the object can read it. Default: none. A
    /// change after the order takes effect at the next re-installation (`install.revision`).
    #[serde(
        default,
        rename = "ipxeScriptURL",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(
        length(min = 1, max = 2048),
        regex(pattern = r"^[A-Za-z][A-Za-z0-9+.-]*://[^/?#@\s]+([/?#]\S*)?$")
    )]
    pub ipxe_script_url: Option<String>,
}

/// A kernel parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = one_of_two())]
#[x_kube(validation = Rule::new("!has(self.key) || self.key != 'siderolink.api' || !has(self.value) || self.value.matches('^(https?|grpc)://[^/]')").message("siderolink.api must be a URL of http, https or grpc, such as https://hub.example.com"))]
#[serde(rename_all = "camelCase")]
pub struct KernelParamSpec {
    /// Name of the parameter, for example `siderolink.api`.
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[!-<>-~]+$"))]
    pub key: String,
    /// Value of the parameter; may be empty. Default: none; `valueFrom` is required then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = r"^[^\x00-\x1f\x7f]*$"))]
    pub value: Option<String>,
    /// Reference to the value in a Secret or ConfigMap of this namespace. One line break at its end is dropped.
    /// Default: none; `value` is required then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ValueLocation>,
}

/// A partition of the first disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartitionSpec {
    /// Mount point, for example `/var`.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[!-~]+$"))]
    pub target: String,
    /// File system: `ext2`, `ext3`, `ext4`, `xfs` or `swap`.
    pub filesystem: FileSystem,
    /// Size in megabytes, as the provider counts them; at least 1. Default: the rest of the disk.
    #[serde(default, rename = "sizeMB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_000_000_000))]
    pub size_mb: Option<i32>,
}

/// A file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// Second extended file system.
    Ext2,
    /// Third extended file system.
    Ext3,
    /// Fourth extended file system.
    #[default]
    Ext4,
    /// XFS.
    Xfs,
    /// Swap space.
    Swap,
}

impl FileSystem {
    /// The API's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ext2 => "ext2",
            Self::Ext3 => "ext3",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Swap => "swap",
        }
    }
}

/// The rule of a value that is either inline or referenced.
fn one_of_two() -> Rule {
    Rule::new("has(self.value) != has(self.valueFrom)")
        .message("set exactly one of value and valueFrom")
}

/// A text, given or said where it lies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = one_of_two())]
#[serde(rename_all = "camelCase")]
pub struct TextSource {
    /// The text, at most 16384 characters. Everybody who may read the object can read it. Default: none; `valueFrom` is
    /// required then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 16384),
        regex(pattern = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$")
    )]
    pub value: Option<String>,
    /// Reference to the text, at most 65536 bytes, in a Secret or ConfigMap of this namespace. Default: none; `value`
    /// is required then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ValueLocation>,
}

/// Data that the server reads from its metadata service. Nothing runs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserDataSpec {
    /// The data, inline or by reference.
    pub data: TextSource,
    /// Encoding of `data`: `Plain`, or `Base64` of what the server reads. Default: `Plain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Encoding")]
    pub encoding: Option<Encoding>,
}

/// How data is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Encoding {
    /// As the server reads it.
    #[default]
    Plain,
    /// In base64. The server reads it decoded.
    Base64,
}
