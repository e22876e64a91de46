//! `hardware`: what a server reports about its own hardware.

use crate::{
    account_client::{self, AccountArgs, hosting_error},
    ages,
    context::PluginContext,
    exit::{Exit, PluginError},
    fields::{Field, field},
    output::OutputForm,
    server_owners::locate_server,
    sizes,
};
use api::BareMetalServer;
use hosting_types::{Error, ServerId};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Arguments of `hardware`.
#[derive(Clone, Debug, clap::Args)]
pub struct HardwareArgs {
    /// BareMetalServer
    #[arg(
        required_unless_present = "uuid",
        conflicts_with_all = ["uuid", "account", "cluster_account"]
    )]
    name: Option<String>,
    /// Server of the account instead, with or without an object
    #[arg(long, value_parser = ServerId::parse)]
    uuid: Option<ServerId>,
    #[command(flatten)]
    account: AccountArgs,
}

const FIELDS: &[Field] = &[
    field("CLASS", "class"),
    field("COUNT", "count"),
    field("PRODUCT", "product"),
    field("SIZE", "size"),
    field("DEVICE", "device").wide(),
];

/// Prints the hardware: as a table of its parts, or with `-o json` and `-o yaml` the whole listing.
pub async fn run(context: &PluginContext, args: HardwareArgs) -> Result<Exit, PluginError> {
    let (id, account) = match (args.uuid, &args.name) {
        (Some(id), _) => (id, args.account),
        (None, name) => {
            let name = name.as_deref().unwrap_or_default();
            let object: BareMetalServer = context.get(name).await?;
            locate_server(&object, &args.account)?
        }
    };
    let client = account_client::connect(context, &account).await?;
    let found = client.hardware_listing(&id).await;
    let found = found.map_err(|error| match error {
        Error::NotFound(_) => PluginError::Other(format!("the account has no server {id}")),
        error => hosting_error(format!("read the hardware of server {id}"), error),
    })?;
    let Some(listing) = found.listing else {
        context.printer.warn(&format!(
            "Server {id} has not reported its hardware yet; it does so when it runs for the first time"
        ));
        if !context.printer.is_table() {
            context.printer.data(&Value::Null)?;
        }
        return Ok(Exit::Fine);
    };
    if matches!(context.printer.form, OutputForm::Json | OutputForm::Yaml) {
        context.printer.data(&listing)?;
        return Ok(Exit::Fine);
    }
    let created = found.created_at.map(Timestamp::from_second);
    if let Some(Ok(created)) = created {
        let age = ages::age(created, ages::now());
        context
            .printer
            .inform(&format!("Server {id} reported this {age} ago"));
    }
    let none = "The listing has no known parts; see all of it with -o json";
    context
        .printer
        .records(FIELDS, group_parts(&listing), none)?;
    Ok(Exit::Fine)
}

/// The classes of `lshw` that a table shows, in its order.
const CLASSES: [&str; 7] = [
    "system",
    "processor",
    "memory",
    "disk",
    "storage",
    "network",
    "display",
];

/// The parts of a listing, equal ones in one record.
fn group_parts(listing: &Value) -> Vec<Value> {
    let mut parts = Vec::new();
    collect_parts(listing, &mut parts);
    let mut groups: Vec<Value> = Vec::new();
    for class in CLASSES {
        for part in parts.iter().filter(|part| part["class"] == class) {
            let is_same = |group: &&mut Value| {
                ["class", "product", "size"]
                    .iter()
                    .all(|field| group[*field] == part[*field])
            };
            match groups.iter_mut().find(is_same) {
                Some(group) => {
                    group["count"] = json!(group["count"].as_u64().unwrap_or_default() + 1);
                    let devices = [&group["device"], &part["device"]];
                    let devices: Vec<_> = devices.into_iter().filter_map(Value::as_str).collect();
                    group["device"] = json!(devices.join(","));
                }
                None => groups.push(part.clone()),
            }
        }
    }
    groups
}

/// Walks the tree. Its fields are those of `lshw -json`; the provider documents none.
fn collect_parts(node: &Value, parts: &mut Vec<Value>) {
    let children = node.get("children").unwrap_or(node).as_array();
    parts.extend(read_part(node));
    for child in children.into_iter().flatten() {
        collect_parts(child, parts);
    }
}

fn read_part(node: &Value) -> Option<Value> {
    let text = |field: &str| match &node[field] {
        Value::String(text) => text.trim(),
        // A disk may have several names.
        Value::Array(names) => names.first().and_then(Value::as_str).unwrap_or_default(),
        _ => "",
    };
    let class = text("class");
    // The firmware and the caches are memory, too; an empty slot has no size.
    let is_part = ["cache", "firmware"]
        .iter()
        .all(|id| !text("id").starts_with(id));
    if class == "memory" && (!is_part || node["size"].is_null()) {
        return None;
    }
    let product = [text("vendor"), text("product")].join(" ");
    let product = [product.trim(), text("description")];
    let product = product.into_iter().find(|text| !text.is_empty());
    let device = Some(text("logicalname")).filter(|text| !text.is_empty());
    Some(json!({
        "class": class, "count": 1, "product": product, "size": read_size(node), "device": device,
    }))
}

/// The size in the units that the listing names; for a network interface its greatest speed.
fn read_size(node: &Value) -> Option<String> {
    let sizes = [&node["size"], &node["capacity"]];
    let size = sizes.into_iter().find(|size| !size.is_null())?;
    let Some(number) = size.as_i64() else {
        return size.as_str().map(str::to_owned);
    };
    Some(match node["units"].as_str() {
        Some("bytes") if node["class"] == "memory" => sizes::binary(number),
        Some("bytes") => sizes::decimal(number),
        Some(unit) => sizes::with_unit(number, unit),
        None => number.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(listing: &Value) -> Vec<String> {
        let row = |part: &Value| {
            let cells: Vec<_> = FIELDS.iter().map(|field| field.cell(part)).collect();
            cells.join("|")
        };
        group_parts(listing).iter().map(row).collect()
    }

    #[test]
    fn equal_parts_are_one_row() {
        let disk = |name: &str| {
            json!({"id": "disk", "class": "disk", "product": "PM9A3", "vendor": "Samsung",
                "units": "bytes", "size": 3_840_000_000_000_i64, "logicalname": [name, "/mnt"]})
        };
        let listing = json!({
            "id": "node", "class": "system", "product": "PowerEdge",
            "children": [{"id": "core", "class": "bus", "children": [
                disk("/dev/nvme0n1"),
                {"id": "memory", "class": "memory", "description": "DDR4", "units": "bytes",
                    "size": 549_755_813_888_i64},
                {"id": "cache:0", "class": "memory", "units": "bytes", "size": 1024},
                {"id": "bank:7", "class": "memory", "description": "empty"},
                {"id": "cpu", "class": "processor", "product": "EPYC 7443P", "units": "Hz",
                    "size": 2_850_000_000_i64},
                disk("/dev/nvme1n1"),
                {"id": "network", "class": "network", "description": "Ethernet interface",
                    "capacity": "2x 10 Gbps"},
            ]}],
        });
        let expected = [
            "system|1|PowerEdge||",
            "processor|1|EPYC 7443P|2.8 GHz|",
            "memory|1|DDR4|512 GiB|",
            "disk|2|Samsung PM9A3|3.8 TB|/dev/nvme0n1,/dev/nvme1n1",
            "network|1|Ethernet interface|2x 10 Gbps|",
        ];
        assert_eq!(rows(&listing), expected);
        assert_eq!(rows(&json!([listing])), expected);
    }

    #[test]
    fn unknown_listing_has_no_rows() {
        for listing in [json!({"cpus": [1]}), json!([]), json!("text")] {
            assert!(rows(&listing).is_empty(), "{listing}");
        }
    }
}
