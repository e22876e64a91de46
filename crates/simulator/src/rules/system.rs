//! The `os` object of section 2.8.

use std::collections::HashSet;

use serde_json::Value;

use super::super::answer::Breach;
use super::super::catalogue::{Catalogue, Family, OperatingSystem};
use super::super::profile::{FileSystems, IpxeUrl, SiderolinkApi, Switches};
use super::fields::Fields;

const KNOWN: &[&str] = &["slug", "kernelParams", "partitions", "ipxeScriptUrl"];

/// Records every broken rule; returns the system if its slug is known and can be
/// ordered.
pub(super) fn check<'c>(
    os: &Value,
    breaches: &mut Vec<Breach>,
    catalogue: &'c Catalogue,
    switches: &Switches,
) -> Option<&'c OperatingSystem> {
    let mut fields = Fields::new(os, "os.", breaches);
    fields.only(KNOWN, switches);
    let system = fields.required_text("slug").and_then(|slug| {
        let known = catalogue.system(&slug).filter(|system| system.orderable());
        fields.ensure(
            known.is_some(),
            "slug",
            "no such operating system for servers",
        );
        known
    });
    let params = kernel_params(&mut fields, false, switches);
    let joins = system.is_some_and(|system| system.family == Family::Talos);
    if joins && switches.siderolink_api == SiderolinkApi::Required {
        let message = "must name siderolink.api with a URL";
        fields.ensure(names_hub(&params), "kernelParams", message);
    }
    partitions(&mut fields, switches);
    let url = fields.text("ipxeScriptUrl").filter(|url| !url.is_empty());
    if switches.ipxe_url == IpxeUrl::Enforce
        && let Some(system) = system
    {
        let needed = system.family == Family::CustomIpxe;
        fields.ensure(
            !needed || url.is_some(),
            "ipxeScriptUrl",
            "is required by this system",
        );
        fields.ensure(
            needed || url.is_none(),
            "ipxeScriptUrl",
            "is only for custom-ipxe",
        );
        let readable = url
            .as_deref()
            .is_none_or(|text| url::Url::parse(text).is_ok());
        fields.ensure(readable, "ipxeScriptUrl", "must be a URL");
    }
    system
}

/// Names and values of a list of kernel parameters. A value may be empty, but
/// must be present unless `bare` ones are allowed.
pub(super) fn kernel_params(
    fields: &mut Fields<'_>,
    bare: bool,
    switches: &Switches,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (index, entry) in fields
        .list("kernelParams")
        .unwrap_or_default()
        .iter()
        .enumerate()
    {
        let prefix = format!("os.kernelParams[{index}].");
        let mut param = Fields::new(entry, &prefix, fields.breaches());
        param.only(&["key", "value"], switches);
        let key = param.required_text("key");
        let value = param.text("value");
        param.ensure(value.is_some() || bare, "value", "must be a string");
        found.extend(key.zip(value.or_else(|| bare.then(String::new))));
    }
    found
}

/// The value of the first parameter of this name.
pub(super) fn value<'p>(params: &'p [(String, String)], name: &str) -> Option<&'p str> {
    let named = params.iter().find(|(key, _)| key == name);
    named.map(|(_, value)| value.as_str())
}

/// Whether they say which hub the machine joins.
pub(super) fn names_hub(params: &[(String, String)]) -> bool {
    let hub = value(params, "siderolink.api").and_then(|hub| url::Url::parse(hub).ok());
    hub.is_some_and(|hub| hub.has_host() && ["http", "https", "grpc"].contains(&hub.scheme()))
}

fn partitions(fields: &mut Fields<'_>, switches: &Switches) {
    let all = fields.list("partitions").unwrap_or_default();
    let targets = all.iter().filter_map(|one| one.get("target")?.as_str());
    let mut seen = HashSet::new();
    let twice = !targets.into_iter().all(|target| seen.insert(target));
    fields.ensure(!twice, "partitions", "must not name a target twice");
    let rests = all.iter().filter(|one| one["size"] == -1).count();
    fields.ensure(rests <= 1, "partitions", "must have one rest at the most");
    for (index, entry) in fields
        .list("partitions")
        .unwrap_or_default()
        .iter()
        .enumerate()
    {
        let prefix = format!("os.partitions[{index}].");
        let mut partition = Fields::new(entry, &prefix, fields.breaches());
        partition.only(&["target", "filesystem", "size"], switches);
        partition.required_text("target");
        let file_system = partition.required_text("filesystem");
        if switches.file_systems == FileSystems::Enforce {
            let known = ["ext2", "ext3", "ext4", "xfs", "swap"];
            let valid = file_system.is_none_or(|name| known.contains(&name.as_str()));
            partition.ensure(valid, "filesystem", "must be ext2, ext3, ext4, xfs or swap");
        }
        // In MB; -1 is the rest of the disk.
        let size = partition.required_integer("size");
        let valid = size.is_none_or(|size| size > 0 || size == -1);
        partition.ensure(valid, "size", "must be positive, or -1 for the rest");
    }
}
