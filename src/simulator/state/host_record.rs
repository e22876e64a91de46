//! The record of a host (section 2.20), of both kinds.

use serde_json::{Value, json};

use super::super::catalogue::{Catalogue, Offer};
use super::super::clock::Moment;
use super::Account;
use super::hosts::Host;
use super::labels::Label;
use super::machine::Machine;
use super::numbers::{host_address, host_id};
use super::status::Status;

/// Whether it runs (section 2.20).
pub(super) fn running(on: bool) -> &'static str {
    if on { "running" } else { "stopped" }
}

/// What differs from host to host.
#[derive(Debug)]
struct Facts<'a> {
    id: u64,
    name: String,
    offer: Offer,
    category: &'static str,
    /// 1 dedicated, 2 on demand.
    kind: u8,
    addresses: &'a [String],
    order: Option<u64>,
    os: Option<u32>,
    install: Option<&'static str>,
    on: bool,
    uptime: u64,
    /// When it came to the account.
    since: Moment,
    /// Empty with an on-demand machine.
    labels: &'a [Label],
}

/// The record of a host (seen in clients). Sizes of disks and memory are in
/// bytes, of `mem…` in MB; dates are texts.
fn record(catalogue: &Catalogue, facts: &Facts<'_>) -> Value {
    const GB: u64 = 1_000_000_000;
    let kind = catalogue.kind(facts.offer.instance_type);
    let cpu = kind.map(|kind| &kind.cpu);
    let (sockets, cores) = cpu.map_or((0, 0), |cpu| (cpu.cpu_count, cpu.cpu_cores));
    let processor = cpu.map_or("", |cpu| cpu.name.as_str());
    let memory = kind.map_or(0, |kind| u64::from(kind.memory.size));
    let disks = kind.map_or(&[][..], |kind| &kind.disks);
    let disks: Vec<Value> = disks
        .iter()
        .enumerate()
        .map(|(number, disk)| {
            json!({
                "size": u64::from(disk.size) * GB, "diskType": disk.kind, "diskMedium": "ssd",
                "model": "", "diskSerial": format!("SIM{}-{number}", facts.id),
            })
        })
        .collect();
    let addresses: Vec<Value> = facts
        .addresses
        .iter()
        .map(|address| {
            json!({
                "ipAddress": address, "version": if address.contains(':') { 6 } else { 4 },
                "type": 1, "private": 0, "interface": 1, "macAddress": "", "rDns": "",
                "vlanId": null, "gateway": null, "netmask": null, "prefix": null,
            })
        })
        .collect();
    let uplinks = kind.map_or(&[][..], |kind| &kind.network_interfaces);
    json!({
        "id": facts.id,
        "userId": 1,
        "serverId": facts.id,
        "serverName": facts.name,
        "serverType": facts.kind,
        "liveHostName": facts.name,
        "category": facts.category,
        "osId": facts.os.unwrap_or_default(),
        "dcLocationId": facts.offer.location,
        "instanceType": kind.map_or("", |kind| &kind.name),
        "rackName": format!("R{}", facts.offer.location),
        "dateActive": facts.since.iso(),
        "pricePerMonth": "0",
        "currencyId": 1,
        "ipAddress": addresses,
        "brand": "",
        "model": "",
        "numCpu": sockets,
        "cpuInfo": processor,
        "cpuType": processor,
        "cpu": {"socket": sockets, "cores": cores, "threads": cores * 2, "info": processor, "type": processor},
        "cpuLoad": 0,
        "memUsed": 0,
        "memMax": memory * 1024,
        "memFree": memory * 1024,
        "disk": disks,
        "memory": [{"size": memory << 30, "type": kind.map_or("", |kind| &kind.memory.kind)}],
        "labels": facts.labels,
        "serviceTag": format!("SIM{}", facts.id),
        "fmOrderId": facts.order,
        "installStatus": facts.install,
        "status": running(facts.on),
        "uptime": facts.uptime,
        "uplinks": uplinks,
    })
}

impl Account {
    /// The record of a dedicated host.
    pub(super) fn dedicated_record(&self, host: &Host, now: Moment) -> Value {
        let last = host.installations.last();
        let mut backwards = host.installations.iter().rev();
        // What is on its disks, and not what is wanted there.
        let runs = backwards.find(|one| one.finished(now));
        record(
            &self.catalogue,
            &Facts {
                id: host.id,
                name: runs.map_or_else(|| format!("host-{}", host.id), |one| one.hostname.clone()),
                offer: host.offer,
                category: "Dedicated Servers",
                kind: 1,
                addresses: &[host_address(host.id)],
                order: None,
                os: runs.map(|one| one.os),
                install: last.map(|one| one.status(now)),
                on: host.on,
                uptime: if host.on {
                    now.since(host.since).as_secs()
                } else {
                    0
                },
                since: host.came,
                labels: &host.labels,
            },
        )
    }

    /// The record of an on-demand machine among the hosts.
    pub(super) fn machine_record(&self, machine: &Machine, now: Moment) -> Value {
        let system = self.catalogue.system(&machine.slug);
        let since = machine.entered(Status::Delivered, now).unwrap_or(now);
        let uptime = machine.running_since(now);
        record(
            &self.catalogue,
            &Facts {
                id: host_id(machine.number),
                name: machine.name.clone(),
                offer: machine.offer,
                category: "Dedicated Servers",
                kind: 2,
                addresses: &machine.addresses,
                order: Some(machine.number),
                os: system.map(|system| system.id),
                install: None,
                on: uptime.is_some(),
                uptime: uptime.map_or(0, |at| now.since(at).as_secs()),
                since,
                labels: &[],
            },
        )
    }
}
