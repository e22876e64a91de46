//! `hardware`: what a server reports about its own hardware.

use crate::{
    account_client::{self, AccountArgs, hosting_error},
    ages,
    context::Context,
    exit::{Exit, PluginError},
    output::{Column, OutputForm, Row, column, wide},
    server_objects::locate_server,
    sizes,
};
use api::BareMetalServer;
use hosting_types::{Error, ServerId};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

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
    #[arg(long)]
    uuid: Option<String>,
    #[command(flatten)]
    account: AccountArgs,
}

/// Parts of the same kind.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct HardwareRow {
    class: String,
    count: usize,
    #[serde(skip_serializing_if = "String::is_empty")]
    product: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    size: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    device: String,
}

impl Row for HardwareRow {
    const COLUMNS: &'static [Column] = &[
        column("CLASS"),
        column("COUNT"),
        column("PRODUCT"),
        column("SIZE"),
        wide("DEVICE"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.class.clone(),
            self.count.to_string(),
            self.product.clone(),
            self.size.clone(),
            self.device.clone(),
        ]
    }

    fn name(&self) -> String {
        self.product.clone()
    }
}

/// Prints the hardware: as a table of its parts, or with `-o json` and `-o yaml` the whole listing.
pub async fn run(context: &Context, args: HardwareArgs) -> Result<Exit, PluginError> {
    let (id, account) = match (&args.uuid, &args.name) {
        (None, Some(name)) => {
            let object: BareMetalServer = context.get(name).await?;
            locate_server(&object, &args.account)?
        }
        (uuid, _) => {
            let uuid = uuid.as_deref().unwrap_or_default();
            let id = ServerId::parse(uuid)
                .map_err(|error| PluginError::Usage(format!("--uuid: {error}")))?;
            (id, args.account.clone())
        }
    };
    let client = account_client::connect(context, &account).await?;
    let found = client
        .hardware_listing(&id)
        .await
        .map_err(|error| match error {
            Error::NotFound(_) => PluginError::Other(format!("the account has no server {id}")),
            error => hosting_error(format!("read the hardware of server {id}"), error),
        })?;
    let Some(listing) = found.listing else {
        context.printer.warn(&format!(
            "Server {id} has not reported its hardware yet; it does so when it runs for the first time"
        ));
        return Ok(Exit::Fine);
    };
    let created = found.created_at.map(Timestamp::from_second);
    if let Some(Ok(created)) = created {
        let age = ages::age(created, ages::now());
        context
            .printer
            .note(&format!("Server {id} reported this {age} ago"));
    }
    if matches!(context.printer.form, OutputForm::Json | OutputForm::Yaml) {
        context.printer.data(&listing)?;
        return Ok(Exit::Fine);
    }
    let rows = group_parts(&listing);
    let none = "The listing has no known parts; see all of it with -o json";
    context.printer.rows(&rows, none)?;
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

/// The parts of a listing, equal ones in one row.
fn group_parts(listing: &Value) -> Vec<HardwareRow> {
    let mut parts = Vec::new();
    collect_parts(listing, &mut parts);
    let mut rows: Vec<HardwareRow> = Vec::new();
    for part in parts {
        let is_same = |row: &&mut HardwareRow| {
            (&row.class, &row.product, &row.size) == (&part.class, &part.product, &part.size)
        };
        match rows.iter_mut().find(is_same) {
            Some(row) => {
                row.count += 1;
                let devices = [row.device.as_str(), &part.device];
                let devices = devices.into_iter().filter(|device| !device.is_empty());
                row.device = devices.collect::<Vec<_>>().join(",");
            }
            None => rows.push(part),
        }
    }
    let rank = |row: &HardwareRow| CLASSES.iter().position(|class| *class == row.class);
    rows.sort_by_key(rank);
    rows
}

/// Walks the tree. Its fields are those of `lshw -json`; the provider documents none.
fn collect_parts(node: &Value, parts: &mut Vec<HardwareRow>) {
    if let Value::Array(nodes) = node {
        nodes.iter().for_each(|node| collect_parts(node, parts));
        return;
    }
    parts.extend(read_part(node));
    if let Some(children) = node.get("children") {
        collect_parts(children, parts);
    }
}

fn read_part(node: &Value) -> Option<HardwareRow> {
    let text = |field: &str| match node.get(field) {
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(Value::Number(number)) => number.to_string(),
        // A disk may have several names.
        Some(Value::Array(names)) => names
            .first()
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        _ => String::new(),
    };
    let class = text("class");
    let is_shown = CLASSES.contains(&class.as_str());
    // The firmware and the caches are memory, too; an empty slot has no size.
    let has_size = node.get("size").is_some();
    if !is_shown || (class == "memory" && (!has_size || is_cache_or_firmware(node))) {
        return None;
    }
    let product = [text("vendor"), text("product")]
        .join(" ")
        .trim()
        .to_owned();
    Some(HardwareRow {
        class,
        count: 1,
        product: match product.is_empty() {
            true => text("description"),
            false => product,
        },
        size: read_size(node).unwrap_or_default(),
        device: text("logicalname"),
    })
}

fn is_cache_or_firmware(node: &Value) -> bool {
    let id = node.get("id").and_then(Value::as_str).unwrap_or_default();
    id.starts_with("cache") || id.starts_with("firmware")
}

/// The size in the units that the listing names; for a network interface its greatest speed.
fn read_size(node: &Value) -> Option<String> {
    let number = ["size", "capacity"]
        .iter()
        .find_map(|field| node.get(*field));
    if let Some(Value::String(text)) = number {
        return Some(text.clone());
    }
    let number = number?.as_i64()?;
    let is_memory = node.get("class").and_then(Value::as_str) == Some("memory");
    Some(match node.get("units").and_then(Value::as_str) {
        Some("bytes") if is_memory => sizes::binary(number),
        Some("bytes") => sizes::decimal(number),
        Some(unit) => sizes::with_unit(number, unit),
        None => number.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rows(listing: &Value) -> Vec<String> {
        let rows = group_parts(listing);
        rows.iter().map(|row| row.cells().join("|")).collect()
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
        assert_eq!(
            rows(&listing),
            [
                "system|1|PowerEdge||",
                "processor|1|EPYC 7443P|2.8 GHz|",
                "memory|1|DDR4|512 GiB|",
                "disk|2|Samsung PM9A3|3.8 TB|/dev/nvme0n1,/dev/nvme1n1",
                "network|1|Ethernet interface|2x 10 Gbps|",
            ]
        );
    }

    #[test]
    fn unknown_listing_has_no_rows() {
        for listing in [json!({"cpus": [1]}), json!([]), json!("text")] {
            assert!(rows(&listing).is_empty(), "{listing}");
        }
    }
}
