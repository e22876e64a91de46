//! What status shows of a host: its record in short.

use super::super::facts::HostFacts;
use crate::{host_record::word, wording::omitted};
use api::{
    address::{Address, AddressType},
    host::{DedicatedHostStatus, HostDiskInfo, HostHardwareInfo, MOST_ADDRESSES, MOST_DISKS},
};
use hosting_types::host::{Host, HostAddress};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

/// By how many seconds the start of a host has to move until that is written: the clock of a list is not exact, and a world
/// in which nothing happens writes nothing.
const SLACK: i64 = 300;
/// Before this, the first second of the year 2000, no host was started. What a list shows instead is a mistake, and the API
/// server takes no date before year 0, and nothing else of a status with one.
const EARLIEST: i64 = 946_684_800;
/// The kind of an address of a console.
const CONSOLE: i64 = 2;

/// Takes in the record, as a look that began then shows it.
pub(super) fn fill(
    status: &mut DedicatedHostStatus,
    facts: &HostFacts,
    began: Duration,
    host: &Host,
) {
    status.name = text(&host.server_name);
    status.hostname = text(&host.live_host_name);
    status.server_id = host.server_id.or(status.server_id);
    status.provider_status = text(&host.status);
    status.provider_install_status = word(&host.install_status).map(str::to_owned);
    status.up_since = up_since(status.up_since.as_ref(), facts, began, host);
    status.os_id = host.os_id;
    status.location_id = host.location_id;
    status.instance_type = text(&host.instance_type);
    let addresses = host.addresses.iter();
    let addresses = addresses.filter(|address| address.kind != Some(CONSOLE));
    status.addresses_omitted = omitted(addresses.clone().count(), MOST_ADDRESSES);
    status.addresses = addresses.take(MOST_ADDRESSES).map(address).collect();
    status.hardware = Some(hardware(host)).filter(|it| *it != HostHardwareInfo::default());
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn address(given: &HostAddress) -> Address {
    let mut address = Address::from_text(&given.address);
    if given.is_private && address.kind == AddressType::ExternalIP {
        address.kind = AddressType::InternalIP;
    }
    address
}

/// Since when it runs, as it stood there before where it moved little.
fn up_since(
    before: Option<&Time>,
    facts: &HostFacts,
    began: Duration,
    host: &Host,
) -> Option<Time> {
    let uptime = host.uptime.filter(|seconds| *seconds > 0)?;
    let age = facts.subject.now.mono.saturating_sub(began).as_secs();
    let age = i64::try_from(age).unwrap_or(i64::MAX);
    let now = facts.subject.now.wall;
    let since = now.saturating_sub(age).saturating_sub(uptime);
    if !(EARLIEST..=now).contains(&since) {
        return None;
    }
    if let Some(before) = before
        && before.0.as_second().abs_diff(since) <= SLACK.unsigned_abs()
    {
        return Some(before.clone());
    }
    Timestamp::from_second(since).ok().map(Time)
}

fn hardware(host: &Host) -> HostHardwareInfo {
    let shown = &host.hardware;
    let memory = shown.memory.iter().copied().fold(0, i64::saturating_add);
    let disks = shown.disks.iter().take(MOST_DISKS).map(|disk| {
        let kinds = [disk.medium.as_str(), disk.kind.as_str()];
        let kinds: Vec<&str> = kinds.into_iter().filter(|kind| !kind.is_empty()).collect();
        HostDiskInfo {
            kind: text(&kinds.join(" ")),
            model: text(&disk.model),
            size_bytes: disk.size,
        }
    });
    HostHardwareInfo {
        brand: text(&shown.brand),
        model: text(&shown.model),
        rack: text(&shown.rack),
        cpu: text(&shown.cpu),
        sockets: shown.sockets,
        cores: shown.cores,
        threads: shown.threads,
        memory_bytes: (memory > 0).then_some(memory),
        disks: disks.collect(),
        disks_omitted: omitted(shown.disks.len(), MOST_DISKS),
    }
}
