//! The installation of a host (section 2.17).

use serde_json::Value;

use super::super::answer::Refusal;
use super::super::catalogue::{Catalogue, Family};
use super::super::profile::{
    FactoryParams, InstallKernelParams, InstallKey, InstallKeyNeeded, Switches,
};
use super::bodies::checked;
use super::fields::Fields;
use super::{object, system};

/// An installation of a host that breaks no rule (section 2.17).
#[derive(Debug)]
pub(crate) struct HostInstall {
    pub(crate) os: u32,
    /// Empty when the API has to generate one.
    pub(crate) hostname: String,
    /// The uuid of each stored key, with the name of its field.
    pub(crate) keys: Vec<(&'static str, String)>,
    /// The body, unchanged, for the answer.
    pub(crate) body: Value,
}

/// The body of an installation of a host.
///
/// # Errors
/// 400, 422.
pub(crate) fn host_install(
    body: &[u8],
    catalogue: &Catalogue,
    switches: &Switches,
) -> Result<HostInstall, Refusal> {
    let body = object(body)?;
    let names: &[&'static str] = match switches.install_key {
        InstallKey::SshKeyId => &["sshKeyId"],
        InstallKey::SshKeyUuid => &["sshKeyUuid"],
        InstallKey::Both => &["sshKeyId", "sshKeyUuid"],
    };
    let mut known = vec!["hostname", "os", "postInstallScript", "quickFormat"];
    known.extend(names);
    checked(&body, &known, switches, |fields| {
        let hostname = fields.text("hostname").unwrap_or_default();
        fields.text("postInstallScript");
        fields.flag("quickFormat");
        let os = fields.required_object("os");
        let system = os.and_then(|os| {
            let mut inner = Fields::new(os, "os.", fields.breaches());
            inner.only(&["id", "kernelParams"], switches);
            let id = inner.required_integer("id");
            let system = id.and_then(|id| catalogue.system_by_id(id));
            let system = system.filter(|system| system.active);
            inner.ensure(
                system.is_some() || id.is_none(),
                "id",
                "no such operating system",
            );
            let params = kernel_params(&mut inner, switches);
            if system.is_some_and(|system| system.family == Family::Talos) {
                talos(&mut inner, &params, switches);
            }
            system
        });
        let family = system.map(|system| system.family);
        super::host_name(
            fields,
            Some(&hostname)
                .filter(|name| !name.is_empty())
                .map(String::as_str),
            family,
        );
        let keys: Vec<_> = names
            .iter()
            .filter_map(|name| Some((*name, fields.text(name).filter(|key| !key.is_empty())?)))
            .collect();
        let needed = match switches.install_key_needed {
            InstallKeyNeeded::Always => true,
            InstallKeyNeeded::Linux => family == Some(Family::Linux),
        };
        let name = names.first().copied().unwrap_or_default();
        fields.ensure(!keys.is_empty() || !needed, name, "is required");
        for (name, key) in &keys {
            let uuid = key.parse::<uuid::Uuid>().is_ok();
            fields.ensure(uuid, name, "must be a UUID");
        }
        Some(HostInstall {
            os: system?.id,
            hostname,
            keys,
            body: body.clone(),
        })
    })
}

/// Names and values, in either form.
fn kernel_params(fields: &mut Fields<'_>, switches: &Switches) -> Vec<(String, String)> {
    let listed = fields.is_list("kernelParams");
    let allowed = match switches.install_kernel_params {
        InstallKernelParams::Text => !listed,
        InstallKernelParams::List => listed || fields.absent("kernelParams"),
        InstallKernelParams::Both => true,
    };
    fields.ensure(allowed, "kernelParams", "has the wrong form");
    if listed {
        return system::kernel_params(fields, true, switches);
    }
    let text = fields.text("kernelParams").unwrap_or_default();
    let words = text.split_ascii_whitespace();
    words
        .map(|word| match word.split_once('=') {
            Some((key, value)) => (key.to_owned(), value.to_owned()),
            None => (word.to_owned(), String::new()),
        })
        .collect()
}

/// Rules 12 and 13 of section 2.17: a factory image knows its own parameters, a
/// vanilla one must be told where its hub is.
fn talos(fields: &mut Fields<'_>, params: &[(String, String)], switches: &Switches) {
    let joins = system::value(params, "siderolink.api").is_some();
    match system::value(params, "factoryhash") {
        Some(hash) => {
            let one = !joins && !hash.is_empty();
            let message = "must name factoryhash with a value, or siderolink.api, not both";
            fields.ensure(one, "kernelParams", message);
            let others = switches.factory_params == FactoryParams::Accept;
            let message = "must be factoryhash alone: the factory image knows the others";
            fields.ensure(
                joins || others || params.len() == 1,
                "kernelParams",
                message,
            );
        }
        None => {
            let message = "must name siderolink.api with a URL, or factoryhash";
            fields.ensure(system::names_hub(params), "kernelParams", message);
        }
    }
}
