//! The servers in a Terraform state.

use hosting_types::ServerId;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The format that this reads.
const VERSION: u64 = 4;

/// The UUIDs in a state, with the addresses of the resources that have them.
pub type StateServers = BTreeMap<ServerId, BTreeSet<String>>;

/// Every UUID in the attributes of a managed resource, of any provider. Err: why the file is no state, without words of
/// it, since a state has secrets.
pub fn find_servers(state: &[u8]) -> Result<StateServers, String> {
    let state: Value = serde_json::from_slice(state).map_err(|error| {
        format!(
            "it is no JSON (line {}, column {}); pull a state from its backend with terraform state pull",
            error.line(),
            error.column()
        )
    })?;
    match state["version"].as_u64() {
        Some(VERSION) => {}
        Some(other) => {
            return Err(format!(
                "it has the state format {other}; format {VERSION} is needed, which Terraform 0.12 and later write"
            ));
        }
        None => return Err("it is no Terraform state: it has no version".into()),
    }
    let mut found = StateServers::new();
    for resource in state["resources"].as_array().into_iter().flatten() {
        if resource["mode"] != "managed" {
            continue;
        }
        for instance in resource["instances"].as_array().into_iter().flatten() {
            let address = build_address(resource, instance);
            for attributes in [&instance["attributes"], &instance["attributes_flat"]] {
                add_uuids(attributes, &address, &mut found);
            }
        }
    }
    Ok(found)
}

fn build_address(resource: &Value, instance: &Value) -> String {
    let text = |field: &str| resource[field].as_str().unwrap_or_default();
    let module = match text("module") {
        "" => String::new(),
        module => format!("{module}."),
    };
    let key = match &instance["index_key"] {
        Value::Null => String::new(),
        key => format!("[{key}]"),
    };
    format!("{module}{}.{}{key}", text("type"), text("name"))
}

fn add_uuids(value: &Value, address: &str, found: &mut StateServers) {
    match value {
        Value::Array(values) => values.iter().for_each(|it| add_uuids(it, address, found)),
        Value::Object(fields) => fields.values().for_each(|it| add_uuids(it, address, found)),
        Value::String(text) => {
            // Some providers put a region before the UUID.
            let ids = text.split(['/', ':', ',']).map(ServerId::parse);
            for id in ids.flatten() {
                found.entry(id).or_default().insert(address.to_owned());
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_owners::tests::uuid;
    use serde_json::json;

    #[test]
    fn uuids_of_managed_resources_are_found() {
        let state = json!({"version": 4, "resources": [
            {"mode": "managed", "type": "metal_server", "name": "web", "instances": [
                {"index_key": 0, "attributes": {"id": uuid(1), "tags": ["a"]}},
                {"index_key": "b", "attributes": {"nested": [{"server": format!("eu/{}", uuid(2))}]}},
            ]},
            {"mode": "managed", "module": "module.m", "type": "dns", "name": "a",
             "instances": [{"attributes_flat": {"target": uuid(1)}}]},
            {"mode": "data", "type": "metal_server", "name": "read",
             "instances": [{"attributes": {"id": uuid(3)}}]},
        ]});
        let found = find_servers(state.to_string().as_bytes()).unwrap();
        let found = found
            .iter()
            .map(|(id, addresses)| (id.to_string(), addresses.clone()));
        let addresses = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect();
        let expected = [
            (
                uuid(1),
                addresses(&["metal_server.web[0]", "module.m.dns.a"]),
            ),
            (uuid(2), addresses(&["metal_server.web[\"b\"]"])),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn other_files_are_refused_without_their_words() {
        let refused = |text: &str| find_servers(text.as_bytes()).unwrap_err();
        let broken = refused("{\"password\": hunter2}");
        assert!(broken.starts_with("it is no JSON") && !broken.contains("hunter2"));
        assert!(refused("{\"version\": 3}").contains("format 3"));
        assert!(refused("{}").contains("no version"));
    }
}
