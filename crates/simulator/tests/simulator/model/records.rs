//! What single records must show.

use serde_json::{Value, json};

use super::rig::Rig;
use super::world::{Machine, OFFERS, REASON, RELEASE, Shows, State, World};

/// Words of a machine that is on its way, in the long view.
const LONG: [&str; 9] = [
    "created",
    "discovering",
    "discovered",
    "allocating",
    "allocated",
    "configuring_network",
    "network_configured",
    "provisioning",
    "provisioned",
];

/// A public key; the name is its comment.
pub(crate) fn public_key(name: &str) -> String {
    format!("ssh-ed25519 AAAAC3 {name}")
}

/// The one record of an answer, bare or in an array of one.
pub(crate) fn single(answer: &Value) -> &Value {
    match answer.as_array() {
        Some(records) => {
            assert_eq!(records.len(), 1, "{answer}");
            &records[0]
        }
        None => answer,
    }
}

fn sorted(tags: &[String]) -> Vec<&str> {
    let mut tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    tags.sort_unstable();
    tags
}

impl World {
    fn status(&self, machine: &Machine) -> &'static str {
        match self.state(machine) {
            State::Waiting => "created",
            State::Delivered => "delivered",
            State::Failed => "failed",
            State::Releasing => "releasing",
            State::Released => "released",
        }
    }

    /// The status in a record; the steps of the long view count as the first.
    fn status_shown(&self, record: &Value) -> String {
        let word = record["status"].as_str().unwrap();
        match LONG.contains(&word) && self.is("stateView", "long") {
            true => "created".to_owned(),
            false => word.to_owned(),
        }
    }

    pub(crate) fn check_machine(&self, place: usize, rig: &Rig, record: &Value) {
        let machine = &self.machines[place];
        let state = self.state(machine);
        let absent = |empty: Value| match self.is("absentFields", "omit") {
            true => Value::Null,
            false => empty,
        };
        let time = |at: Option<u64>| at.map_or_else(|| absent(json!(0)), Value::from);
        let contract = Some(&machine.contract).filter(|contract| !contract.is_empty());
        let released = machine.given_back.map(|at| at + RELEASE);
        let idle = match self.setup.switch("idleMessage").as_str() {
            "ok" => json!("OK"),
            "null" => Value::Null,
            _ => json!(""),
        };
        let expected = json!({
            "uuid": rig.machines[place],
            "name": machine.name,
            "status": self.status(machine),
            "statusMessage": if state == State::Failed { json!(REASON) } else { idle },
            "location": OFFERS[machine.offer].0,
            "instanceType": OFFERS[machine.offer].1,
            "os": {"slug": machine.slug},
            "tags": sorted(&machine.tags),
            "createdAt": machine.created,
            "deliveredAt": time(self.delivered(machine)),
            "releasedAt": time(released.filter(|_| state == State::Released)),
            "contractId": contract.map_or_else(|| absent(json!("")), |text| json!(text)),
        });
        let tags: Vec<String> = serde_json::from_value(record["tags"].clone()).unwrap();
        let shown = json!({
            "uuid": record["uuid"],
            "name": record["name"],
            "status": self.status_shown(record),
            "statusMessage": record["statusMessage"],
            "location": record["location"]["name"],
            "instanceType": record["instanceType"]["name"],
            "os": record["os"],
            "tags": sorted(&tags),
            "createdAt": record["createdAt"],
            "deliveredAt": record["deliveredAt"],
            "releasedAt": record["releasedAt"],
            "contractId": record["contractId"],
        });
        assert_eq!(shown, expected, "machine {place}");
        let addresses = record["ipAddresses"].as_array().unwrap().len();
        if state == State::Delivered {
            assert_eq!(addresses, 2, "machine {place} is delivered");
        } else if record["status"] == "created" {
            assert_eq!(addresses, 0, "machine {place} is only created");
        }
    }

    pub(crate) fn check_tag(&self, tag: &str, record: &Value) {
        let count = self.count(tag);
        let resources = json!({"count": count, "flexMetalServers": {"count": count}});
        assert_eq!(record, &json!({"tag": tag, "resources": resources}));
    }

    pub(crate) fn check_command(&self, place: usize, number: usize, rig: &Rig, record: &Value) {
        let machine = &self.machines[place];
        let command = &machine.commands[number];
        let key = match self.is("commandKeys", "camel") {
            true => "serverUuid",
            false => "server_uuid",
        };
        let whose = (&record["uuid"], &record[key], &record["state"]);
        let progress = self.progress(machine, command);
        let expected = (
            &json!(rig.commands[place][number]),
            &json!(rig.machines[place]),
            &json!(progress),
        );
        assert_eq!(whose, expected, "command {number} of machine {place}");
        if command.word != "update-server" {
            assert_eq!(record["payload"], json!({"command": command.word}));
        }
    }

    pub(crate) fn check_key(&self, place: usize, rig: &Rig, record: &Value) {
        let key = &self.ssh_keys[place];
        let expected = json!({
            "uuid": rig.ssh_keys[place],
            "name": key.name,
            "publicKey": public_key(&key.name),
            "createdAt": key.stored,
        });
        assert_eq!(record, &expected, "SSH key {place}");
    }

    pub(crate) fn check_entry(&self, place: usize, rig: &Rig, record: &Value) {
        let entry = &self.whitelist[place];
        let shown = json!([
            record["id"],
            record["ipRange"],
            record["active"],
            record["updatedAt"]
        ]);
        let expected = json!([
            rig.entries[place],
            entry.range,
            u8::from(entry.active),
            entry.changed
        ]);
        assert_eq!(shown, expected, "whitelist entry {place}");
    }

    /// Compares the record of an answer with what it has to show.
    pub(crate) fn check_shown(&self, shows: &Shows, rig: &Rig, answer: &Value) {
        match shows {
            Shows::Nothing => assert_eq!(answer, &Value::Null),
            Shows::Machine(place) => self.check_machine(*place, rig, single(answer)),
            Shows::Tag(tag) => self.check_tag(tag, single(answer)),
            Shows::Command(place, number) => {
                self.check_command(*place, *number, rig, single(answer));
            }
            Shows::SshKey(place) => self.check_key(*place, rig, single(answer)),
            Shows::Entry(place) => self.check_entry(*place, rig, single(answer)),
        }
    }
}
