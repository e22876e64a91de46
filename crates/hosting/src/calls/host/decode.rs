//! Reads host records.

use crate::record::{DecodeError, Record};
use hosting_types::{
    host::{
        Host, HostAddress, HostDisk, HostHardware, HostKind, HostResult, InstallLogEntry,
        InstallStatus,
    },
    identity::HostId,
};

/// The most labels, disks and memory modules of a host.
const MOST_PARTS: usize = 128;

/// Reads one host. Only a bad `id` or a list that is too long makes it unreadable.
pub(super) fn host(record: &Record<'_>) -> Result<Host, DecodeError> {
    let id = record
        .identity("id")
        .ok_or_else(|| "a host has no usable id".to_owned())?;
    Ok(Host {
        id: HostId(id),
        kind: match record.number("serverType") {
            Some(1) => HostKind::Dedicated,
            Some(2) => HostKind::OnDemand,
            Some(3) => HostKind::Virtual,
            other => HostKind::Other(other),
        },
        server_id: record.number("serverId"),
        server_name: record.text("serverName"),
        live_host_name: record.text("liveHostName"),
        category: record.text("category"),
        order_id: record
            .optional_text("fmOrderId")
            .filter(|order| order != "0"),
        os_id: record.number("osId"),
        location_id: record.number("dcLocationId"),
        instance_type: record.inner_text("instanceType", "name"),
        hardware: hardware(record)?,
        addresses: record
            .records("ipAddress")
            .iter()
            .filter_map(address)
            .collect(),
        status: record.text("status"),
        install_status: InstallStatus::parse(&record.text("installStatus")),
        uptime: record.number("uptime"),
        uplinks: record.value("uplinks").as_array().map(Vec::len),
        labels: record
            .records_up_to("labels", MOST_PARTS)?
            .iter()
            .filter_map(|label| Some((label.optional_text("key")?, label.text("value"))))
            .collect(),
    })
}

fn hardware(record: &Record<'_>) -> Result<HostHardware, DecodeError> {
    let cpu = record.record("cpu");
    let count = |field: &str| cpu.as_ref().and_then(|cpu| cpu.number(field));
    // Some answers repeat these outside of `cpu`.
    let words = |inner: &str, outer: &str| {
        let text = cpu.as_ref().and_then(|cpu| cpu.optional_text(inner));
        text.unwrap_or_else(|| record.text(outer))
    };
    Ok(HostHardware {
        brand: record.text("brand"),
        model: record.text("model"),
        service_tag: record.text("serviceTag"),
        rack: record.text("rackName"),
        cpu: words("info", "cpuInfo"),
        cpu_type: words("type", "cpuType"),
        sockets: count("socket").or_else(|| record.number("numCpu")),
        cores: count("cores"),
        threads: count("threads"),
        memory: record
            .records_up_to("memory", MOST_PARTS)?
            .iter()
            .filter_map(|module| module.number("size"))
            .collect(),
        disks: record
            .records_up_to("disk", MOST_PARTS)?
            .iter()
            .map(|disk| HostDisk {
                kind: disk.text("diskType"),
                medium: disk.text("diskMedium"),
                model: disk.text("model"),
                size: disk.number("size"),
            })
            .collect(),
    })
}

fn address(record: &Record<'_>) -> Option<HostAddress> {
    Some(HostAddress {
        address: record.optional_text("ipAddress")?,
        version: record.number("version"),
        kind: record.number("type"),
        is_private: record.flag("private"),
        interface: record.text("interface"),
        mac_address: record.text("macAddress"),
        reverse_dns: record.text("rDns"),
        gateway: record.optional_text("gateway"),
        netmask: record.optional_text("netmask"),
        prefix: record.number("prefix"),
        vlan_id: record.number("vlanId"),
    })
}

pub(super) fn result(record: &Record<'_>) -> HostResult {
    HostResult {
        result: record.text("result"),
        timestamp: record.seconds("timestamp"),
    }
}

/// The fields of a log entry (2.22).
const LOG_FIELDS: [&str; 7] = [
    "id",
    "issueOpen",
    "dateStamp",
    "issueCategory",
    "issueDescription",
    "issueResolved",
    "catName",
];

/// Reads a log entry. It contains text of a host that ran our script, so it is treated as a message.
pub(super) fn log_entry(record: &Record<'_>) -> Result<InstallLogEntry, DecodeError> {
    if !record.has_any(&LOG_FIELDS) {
        return Err("a log entry has no field of one".to_owned());
    }
    let words = |field: &str| record.message(field);
    Ok(InstallLogEntry {
        id: record.number("id"),
        is_open: record.flag("issueOpen"),
        written_at: record.seconds("dateStamp"),
        category: words("issueCategory"),
        category_name: words("catName"),
        description: words("issueDescription"),
        resolved: words("issueResolved"),
    })
}
