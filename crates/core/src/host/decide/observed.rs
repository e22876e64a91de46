//! The status fields that show the provider's record of a host.

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

/// Changes of `upSince` up to this many seconds are not written. The clock of a list is not exact.
const SLACK: i64 = 300;
/// First second of the year 2000. An earlier start time is wrong, and the API server rejects a status with a date
/// before year 0.
const EARLIEST: i64 = 946_684_800;
/// The provider's address type for a console.
const CONSOLE: i64 = 2;

/// Copies the record from a list that began at `began` into the status.
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

/// Time of the last start. Keeps the previous value if it differs by at most `SLACK`.
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
