//! About how much memory what a hosting API shows takes, in bytes.

use hosting_types::{
    Server, TagRecord,
    catalogue::{Location, OperatingSystem, Plan},
    host::Host,
    quota::LocationQuota,
    ssh_key::SshKey,
};

/// What a text takes besides its letters, where it is one of a list.
const TEXT: usize = size_of::<String>() + 8;
/// What an entry of a map, its key's copy and its share of the free places take.
const PLACE: usize = 128;

fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
    texts.into_iter().map(|text| text.len() + 8).sum()
}

/// A machine with its places in the snapshot.
pub(crate) fn server(server: &Server) -> usize {
    let own = [
        &server.name,
        &server.status_message,
        &server.location,
        &server.instance_type,
        &server.os_slug,
    ];
    let lists = server.tags.iter().chain(&server.addresses);
    size_of::<Server>()
        + PLACE
        + server.id.as_str().len()
        + texts(own.into_iter().map(String::as_str))
        + texts([server.status.as_str()])
        + texts(server.contract_id.as_deref())
        + lists.map(|text| TEXT + text.len()).sum::<usize>()
}

/// What a listing remembers of a record to know it again.
pub(crate) const SEEN: usize = 40;

/// A machine that the snapshot keeps, and what a change of it takes for a while: the former form, which a listing
/// keeps, and what the next listing remembers. So a record that changes, and weighs no more than before, always fits.
pub(crate) fn kept(record: &Server) -> usize {
    2 * server(record) - PLACE + SEEN
}

/// A tag with its place.
pub(crate) fn tag(tag: &TagRecord) -> usize {
    // It is the key of the map too.
    PLACE + size_of::<TagRecord>() + 2 * tag.tag.len()
}

/// A stored key, and what is read of it.
pub(crate) fn ssh_key(key: &SshKey) -> usize {
    size_of::<SshKey>() + PLACE + key.name.len() + 2 * key.public_key.len() + 64
}

/// A host with its place.
pub(crate) fn host(host: &Host) -> usize {
    let hardware = &host.hardware;
    let own = [
        &host.server_name,
        &host.live_host_name,
        &host.category,
        &host.instance_type,
        &host.status,
        &hardware.brand,
        &hardware.model,
        &hardware.service_tag,
        &hardware.rack,
        &hardware.cpu,
        &hardware.cpu_type,
    ];
    let disks = hardware.disks.iter();
    let disks = disks.map(|disk| {
        size_of_val(disk)
            + texts([
                disk.kind.as_str(),
                disk.medium.as_str(),
                disk.model.as_str(),
            ])
    });
    let addresses = host.addresses.iter().map(|at| {
        let optional = at
            .gateway
            .as_deref()
            .into_iter()
            .chain(at.netmask.as_deref());
        size_of_val(at)
            + texts([
                at.address.as_str(),
                at.interface.as_str(),
                at.mac_address.as_str(),
                at.reverse_dns.as_str(),
            ])
            + texts(optional)
    });
    let labels = host.labels.iter();
    size_of::<Host>()
        + PLACE
        + texts(own.into_iter().map(String::as_str))
        + size_of_val(&*hardware.memory)
        + disks.sum::<usize>()
        + addresses.sum::<usize>()
        + labels
            .map(|(key, value)| PLACE + key.len() + value.len())
            .sum::<usize>()
}

/// A plan with its places.
pub(crate) fn plan(plan: &Plan) -> usize {
    let parts = plan.disks.iter().chain(&plan.memory).chain(&plan.gpu);
    let cpu = plan.cpu.iter().map(|cpu| cpu.name.as_str());
    let interfaces = plan.network_interfaces.iter();
    let locations = plan.locations.iter().map(|at| {
        size_of_val(at)
            + texts([
                at.name.as_str(),
                at.data_centre.as_str(),
                at.availability.as_str(),
            ])
    });
    size_of::<Plan>()
        + texts([plan.name.as_str()])
        + texts(cpu)
        + parts
            .map(|part| size_of_val(part) + texts([part.kind.as_str()]))
            .sum::<usize>()
        + interfaces
            .map(|it| size_of_val(it) + texts([it.kind.as_str()]))
            .sum::<usize>()
        + locations.sum::<usize>()
}

/// A place.
pub(crate) fn location(location: &Location) -> usize {
    size_of::<Location>()
        + texts([
            location.name.as_str(),
            location.short_name.as_str(),
            location.display_name.as_str(),
            location.country_name.as_str(),
            location.country_short_name.as_str(),
        ])
}

/// A system.
pub(crate) fn system(system: &OperatingSystem) -> usize {
    size_of::<OperatingSystem>() + texts([system.name.as_str(), system.slug.as_str()])
}

/// The quotas of a place.
pub(crate) fn quota(quota: &LocationQuota) -> usize {
    let usages = quota.usages.iter().map(|usage| {
        let contract = usage.contract_id.as_deref().unwrap_or_default();
        size_of_val(usage)
            + texts([
                usage.instance_type.as_str(),
                usage.quota_type.as_str(),
                contract,
            ])
    });
    size_of::<LocationQuota>() + texts([quota.location.as_str()]) + usages.sum::<usize>()
}

/// The weights of a list together.
pub(crate) fn sum<T>(list: &[T], weight: impl Fn(&T) -> usize) -> usize {
    list.iter().map(weight).sum()
}
