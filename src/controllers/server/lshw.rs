//! What a listing by the program `lshw` says of a machine, in short. Pure.
//!
//! The listing comes from somebody's machine and is any JSON: whatever is not understood is left out, lists and texts are
//! bounded, and so is the number of parts that are looked at.

use api::hardware::{Disk, HardwareStatus, Interface, MOST_PARTS};
use serde_json::Value;

/// Most parts of a listing that are looked at.
const MOST_NODES: usize = 20_000;
/// Most bytes of a text.
const LONGEST: usize = 128;

/// The summary of a listing.
pub fn summary(machine: &str, created_at: Option<i64>, listing: &Value) -> HardwareStatus {
    let mut found = HardwareStatus {
        machine: machine.to_owned(),
        listed_at: created_at
            .and_then(|at| jiff::Timestamp::from_second(at).ok())
            .map(|at| at.to_string()),
        ..HardwareStatus::default()
    };
    // Some versions give a list of one. A stack, since how deep it goes is up to the machine.
    let mut rest: Vec<&Value> = vec![listing];
    for _ in 0..MOST_NODES {
        let Some(node) = rest.pop() else { break };
        if let Value::Array(nodes) = node {
            rest.extend(nodes.iter().rev().take(MOST_NODES));
            continue;
        }
        let is_whole = take(node, &mut found);
        if let Some(children) = node["children"].as_array().filter(|_| !is_whole) {
            rest.extend(children.iter().rev().take(MOST_NODES));
        }
    }
    found
}

/// Takes in what one part says. Returns whether what is below it is said already.
fn take(node: &Value, found: &mut HardwareStatus) -> bool {
    let id = node["id"].as_str().unwrap_or_default();
    match node["class"].as_str().unwrap_or_default() {
        // An empty socket is listed, too.
        "processor" if node["disabled"] != true => {
            let cpu = found.cpu.get_or_insert_default();
            cpu.count = cpu.count.saturating_add(1);
            cpu.model = cpu.model.take().or_else(|| text(&node["product"]));
            let settings = &node["configuration"];
            add(&mut cpu.cores, count(&settings["cores"]));
            add(&mut cpu.threads, count(&settings["threads"]));
            false
        }
        "memory" if id == "memory" || id.starts_with("memory:") => {
            add(&mut found.memory_bytes, size(node));
            true
        }
        "disk" if !id.starts_with("cdrom") => {
            if found.disks.len() < MOST_PARTS {
                found.disks.push(Disk {
                    name: name(node, id),
                    model: text(&node["product"]).or_else(|| text(&node["description"])),
                    size_bytes: size(node),
                });
            }
            true
        }
        "network" => {
            if found.interfaces.len() < MOST_PARTS {
                let settings = &node["configuration"];
                let speed = text(&settings["speed"]).or_else(|| text(&node["capacity"]));
                let counted = count(&node["capacity"]).map(|bits| format!("{bits} bit/s"));
                found.interfaces.push(Interface {
                    name: name(node, id),
                    mac: text(&node["serial"]),
                    speed: speed.or(counted),
                });
            }
            false
        }
        _ => false,
    }
}

fn name(node: &Value, id: &str) -> String {
    let names = &node["logicalname"];
    let first = names.as_array().and_then(|names| names.first());
    let shown = text(first.unwrap_or(names));
    shown.or_else(|| text(&id.into())).unwrap_or_default()
}

/// A text without control characters, cut to what a status may hold.
fn text(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    let cut = &text[..text.floor_char_boundary(LONGEST)];
    let clean: String = cut.chars().filter(|c| !c.is_control()).collect();
    let clean = clean.trim();
    (!clean.is_empty()).then(|| clean.to_owned())
}

/// A number, also one that is written as a text.
fn count(value: &Value) -> Option<i64> {
    let number = value.as_i64().or_else(|| value.as_str()?.parse().ok())?;
    (number >= 0).then_some(number)
}

/// A size, where it is one in bytes.
fn size(node: &Value) -> Option<i64> {
    let is_bytes = node["units"].as_str().is_none_or(|units| units == "bytes");
    count(&node["size"]).filter(|_| is_bytes)
}

fn add(sum: &mut Option<i64>, more: Option<i64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or_default().saturating_add(more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_listing_is_told_in_short() {
        let listing = json!({"id": "web", "class": "system", "children": [{
            "id": "core", "class": "bus", "children": [
                {"id": "memory", "class": "memory", "units": "bytes", "size": 68_719_476_736_i64, "children": [
                    {"id": "bank:0", "class": "memory", "units": "bytes", "size": 34_359_738_368_i64},
                ]},
                {"id": "cache:0", "class": "memory", "size": 1024},
                {"id": "cpu:0", "class": "processor", "product": "EPYC", "configuration": {"cores": "8", "threads": "16"}},
                {"id": "cpu:1", "class": "processor", "product": "EPYC", "configuration": {"cores": "8", "threads": "16"}},
                {"id": "cpu:2", "class": "processor", "disabled": true},
                {"id": "nvme", "class": "storage", "children": [
                    {"id": "namespace:0", "class": "disk", "logicalname": "/dev/nvme0n1", "product": "P4510",
                     "serial": "S1", "units": "bytes", "size": 1_000_i64},
                ]},
                {"id": "cdrom", "class": "disk", "logicalname": ["/dev/sr0"]},
                {"id": "network:0", "class": "network", "logicalname": "eth0", "serial": "aa:bb",
                 "configuration": {"speed": "10Gbit/s"}},
                {"id": "network:1", "class": "network", "logicalname": ["eth1"], "capacity": 1_000_000_000_i64},
            ],
        }]});
        let found = summary("m", Some(1_790_000_000), &json!([listing]));
        assert_eq!(found.listed_at.as_deref(), Some("2026-09-21T14:13:20Z"));
        let cpu = found.cpu.unwrap();
        assert_eq!(cpu.model.as_deref(), Some("EPYC"));
        assert_eq!((cpu.count, cpu.cores, cpu.threads), (2, Some(16), Some(32)));
        assert_eq!(
            found.memory_bytes,
            Some(68_719_476_736),
            "not its banks as well"
        );
        let [disk] = &found.disks[..] else {
            panic!("{:?}", found.disks);
        };
        assert_eq!(
            (disk.name.as_str(), disk.size_bytes),
            ("/dev/nvme0n1", Some(1000))
        );
        let [one, two] = &found.interfaces[..] else {
            panic!("{:?}", found.interfaces);
        };
        assert_eq!(
            (one.mac.as_deref(), one.speed.as_deref()),
            (Some("aa:bb"), Some("10Gbit/s"))
        );
        assert_eq!(
            (two.name.as_str(), two.speed.as_deref()),
            ("eth1", Some("1000000000 bit/s"))
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let word = prop_oneof![
            Just("class"),
            Just("id"),
            Just("children"),
            Just("size"),
            Just("product"),
            Just("serial"),
            Just("processor"),
            Just("memory"),
            Just("disk"),
            Just("network"),
            Just("configuration"),
            Just("cores"),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            word.clone().prop_map(Value::from),
            "[\\x00-\\x7fäß]{0,300}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 200, 40, move |inner| {
            let pair = (word.clone(), inner.clone());
            prop_oneof![
                prop::collection::vec(inner, 0..40).prop_map(Value::from),
                prop::collection::vec(pair, 0..12).prop_map(|all| all
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_it_is_the_summary_is_bounded_and_clean(listing in any_json()) {
            let found = summary("m", Some(i64::MAX), &listing);
            prop_assert!(found.disks.len() <= MOST_PARTS && found.interfaces.len() <= MOST_PARTS);
            let texts = found.disks.iter().flat_map(|d| [Some(&d.name), d.model.as_ref()]);
            let texts = texts.chain(found.interfaces.iter().flat_map(|i| [Some(&i.name), i.mac.as_ref(), i.speed.as_ref()]));
            for text in texts.flatten() {
                prop_assert!(text.len() <= LONGEST && !text.contains(char::is_control), "{text:?}");
            }
            prop_assert!(found.memory_bytes.is_none_or(|bytes| bytes >= 0));
        }
    }

    #[test]
    fn a_listing_without_end_is_looked_at_in_part() {
        let disk = json!({"id": "disk", "class": "disk", "children": []});
        let many = Value::from(vec![disk; 100_000]);
        assert_eq!(summary("m", None, &many).disks.len(), MOST_PARTS);
    }
}
