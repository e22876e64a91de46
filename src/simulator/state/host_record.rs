//! The record of a host (section 2.20), of both kinds.

use serde_json::{Value, json};

use super::super::catalogue::{Catalogue, Offer};
use super::super::clock::Moment;
use super::labels::Label;

/// Whether it runs (section 2.20).
pub(super) fn running(on: bool) -> &'static str {
    if on { "running" } else { "stopped" }
}

/// What differs from host to host.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) offer: Offer,
    pub(super) category: &'static str,
    /// 1 dedicated, 2 on demand.
    pub(super) kind: u8,
    pub(super) addresses: &'a [String],
    pub(super) order: Option<u64>,
    pub(super) os: Option<u32>,
    pub(super) install: Option<&'static str>,
    pub(super) on: bool,
    pub(super) uptime: u64,
    pub(super) since: Moment,
    /// Empty with an on-demand machine.
    pub(super) labels: &'a [Label],
}

/// The record of a host (seen in clients). Sizes of disks and memory are in
/// bytes, of `mem…` in MB; dates are texts.
pub(super) fn record(catalogue: &Catalogue, facts: &Facts<'_>) -> Value {
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
