//! The record of a host (section 2.20), of both kinds.

use std::borrow::Cow;

use serde::Serialize;

use super::super::catalogue::{Catalogue, Counted, Offer, Sized as Part};
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
    name: Cow<'a, str>,
    offer: Offer,
    /// 1 dedicated, 2 on demand.
    kind: u8,
    addresses: Vec<Cow<'a, str>>,
    order: Option<u64>,
    os: Option<u32>,
    install: Option<&'static str>,
    on: bool,
    uptime: u64,
    /// When it was added to the account.
    since: Moment,
    /// Empty with an on-demand machine.
    labels: &'a [Label],
}

/// The record of a host (seen in clients). Sizes of disks and memory are in
/// bytes, of `mem…` in MB; dates are texts.
///
/// Written straight to text: building a tree of values first would make a page of
/// hosts many times slower.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostRecord<'a> {
    id: u64,
    user_id: u32,
    server_id: u64,
    server_name: Cow<'a, str>,
    server_type: u8,
    pub(crate) live_host_name: Cow<'a, str>,
    category: &'static str,
    pub(crate) os_id: u32,
    dc_location_id: u32,
    pub(crate) instance_type: &'a str,
    rack_name: String,
    date_active: String,
    price_per_month: &'static str,
    currency_id: u32,
    ip_address: Vec<Address<'a>>,
    brand: &'static str,
    model: &'static str,
    num_cpu: u32,
    cpu_info: &'a str,
    cpu_type: &'a str,
    cpu: Processor<'a>,
    cpu_load: u32,
    mem_used: u64,
    mem_max: u64,
    mem_free: u64,
    disk: Vec<Disk<'a>>,
    memory: [Memory<'a>; 1],
    labels: &'a [Label],
    service_tag: String,
    fm_order_id: Option<u64>,
    pub(crate) install_status: Option<&'static str>,
    /// A switch may change the word.
    pub(crate) status: &'static str,
    uptime: u64,
    uplinks: &'a [Counted],
}
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Address<'a> {
    ip_address: Cow<'a, str>,
    version: u8,
    #[serde(rename = "type")]
    kind: u8,
    private: u8,
    interface: u8,
    mac_address: &'static str,
    #[serde(rename = "rDns")]
    reverse: &'static str,
    vlan_id: (),
    gateway: (),
    netmask: (),
    prefix: (),
}

#[derive(Debug, Serialize)]
struct Processor<'a> {
    socket: u32,
    cores: u32,
    threads: u32,
    info: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Disk<'a> {
    size: u64,
    disk_type: &'a str,
    disk_medium: &'static str,
    model: &'static str,
    disk_serial: String,
}

#[derive(Debug, Serialize)]
struct Memory<'a> {
    size: u64,
    #[serde(rename = "type")]
    kind: &'a str,
}

/// The hardware of a host, from the catalogue.
fn record<'a>(catalogue: &'a Catalogue, facts: Facts<'a>) -> HostRecord<'a> {
    const GB: u64 = 1_000_000_000;
    let kind = catalogue.kind(facts.offer.instance_type);
    let cpu = kind.map(|kind| &kind.cpu);
    let (sockets, cores) = cpu.map_or((0, 0), |cpu| (cpu.cpu_count, cpu.cpu_cores));
    let processor = cpu.map_or("", |cpu| cpu.name.as_str());
    let memory = kind.map_or(0, |kind| u64::from(kind.memory.size));
    let disks = kind.map_or(&[][..], |kind| &kind.disks);
    let disk = |(number, disk): (usize, &'a Part)| Disk {
        size: u64::from(disk.size) * GB,
        disk_type: &disk.kind,
        disk_medium: "ssd",
        model: "",
        disk_serial: format!("SIM{}-{number}", facts.id),
    };
    let address = |address: Cow<'a, str>| Address {
        version: if address.contains(':') { 6 } else { 4 },
        ip_address: address,
        kind: 1,
        private: 0,
        interface: 1,
        mac_address: "",
        reverse: "",
        vlan_id: (),
        gateway: (),
        netmask: (),
        prefix: (),
    };
    HostRecord {
        id: facts.id,
        user_id: 1,
        server_id: facts.id,
        server_name: facts.name.clone(),
        server_type: facts.kind,
        live_host_name: facts.name,
        category: "Dedicated Servers",
        os_id: facts.os.unwrap_or_default(),
        dc_location_id: facts.offer.location,
        instance_type: kind.map_or("", |kind| &kind.name),
        rack_name: format!("R{}", facts.offer.location),
        date_active: facts.since.iso(),
        price_per_month: "0",
        currency_id: 1,
        ip_address: facts.addresses.into_iter().map(address).collect(),
        brand: "",
        model: "",
        num_cpu: sockets,
        cpu_info: processor,
        cpu_type: processor,
        cpu: Processor {
            socket: sockets,
            cores,
            threads: cores * 2,
            info: processor,
            kind: processor,
        },
        cpu_load: 0,
        mem_used: 0,
        mem_max: memory * 1024,
        mem_free: memory * 1024,
        disk: disks.iter().enumerate().map(disk).collect(),
        memory: [Memory {
            size: memory << 30,
            kind: kind.map_or("", |kind| &kind.memory.kind),
        }],
        labels: facts.labels,
        service_tag: format!("SIM{}", facts.id),
        fm_order_id: facts.order,
        install_status: facts.install,
        status: running(facts.on),
        uptime: facts.uptime,
        uplinks: kind.map_or(&[][..], |kind| &kind.network_interfaces),
    }
}

impl Account {
    /// The record of a dedicated host.
    pub(crate) fn dedicated_record<'a>(&'a self, host: &'a Host, now: Moment) -> HostRecord<'a> {
        let last = host.installations.last();
        let mut backwards = host.installations.iter().rev();
        // The installed system, not the wanted one.
        let runs = backwards.find(|one| one.finished(now));
        record(
            &self.catalogue,
            Facts {
                id: host.id,
                name: match runs {
                    Some(one) => Cow::from(&one.hostname),
                    None => Cow::from(format!("host-{}", host.id)),
                },
                offer: host.offer,
                kind: 1,
                addresses: vec![Cow::from(host_address(host.id))],
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
    pub(super) fn machine_record<'a>(
        &'a self,
        machine: &'a Machine,
        now: Moment,
    ) -> HostRecord<'a> {
        let system = self.catalogue.system(&machine.slug);
        let since = machine.entered(Status::Delivered, now).unwrap_or(now);
        let uptime = machine.running_since(now);
        record(
            &self.catalogue,
            Facts {
                id: host_id(machine.number),
                name: Cow::from(&machine.name),
                offer: machine.offer,
                kind: 2,
                addresses: machine.addresses.iter().map(Cow::from).collect(),
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
