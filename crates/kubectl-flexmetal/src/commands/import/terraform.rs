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
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let module = match text(&resource["module"]) {
        module if module.is_empty() => module,
        module => format!("{module}."),
    };
    let key = match &instance["index_key"] {
        Value::Null => String::new(),
        key => format!("[{key}]"),
    };
    let (kind, name) = (text(&resource["type"]), text(&resource["name"]));
    format!("{module}{kind}.{name}{key}")
}

fn add_uuids(value: &Value, address: &str, found: &mut StateServers) {
    match value {
        Value::Array(values) => values.iter().for_each(|it| add_uuids(it, address, found)),
        Value::Object(fields) => fields.values().for_each(|it| add_uuids(it, address, found)),
        Value::String(text) => {
            // Some providers put a region before the UUID.
            for id in text
                .split(['/', ':', ','])
                .filter_map(|it| ServerId::parse(it).ok())
            {
                let addresses = found.entry(id).or_default();
                addresses.insert(address.to_owned());
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

    fn find(state: &Value) -> Vec<(String, Vec<String>)> {
        let found = find_servers(state.to_string().as_bytes()).unwrap();
        let entries = found.into_iter();
        entries
            .map(|(id, addresses)| (id.to_string(), addresses.into_iter().collect()))
            .collect()
    }

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
        let expected = [
            (
                uuid(1),
                vec![
                    "metal_server.web[0]".to_owned(),
                    "module.m.dns.a".to_owned(),
                ],
            ),
            (uuid(2), vec!["metal_server.web[\"b\"]".to_owned()]),
        ];
        assert_eq!(find(&state), expected);
    }

    #[test]
    fn other_files_are_refused_without_their_words() {
        let refused = |text: &str| find_servers(text.as_bytes()).unwrap_err();
        assert!(refused("{\"password\": hunter2}").starts_with("it is no JSON"));
        assert!(!refused("{\"password\": hunter2}").contains("hunter2"));
        assert!(refused("{\"version\": 3}").contains("format 3"));
        assert!(refused("{}").contains("no version"));
    }
}
