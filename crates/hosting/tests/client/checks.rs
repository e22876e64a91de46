//! What a good answer of each operation shows in a fresh scene.

use hosting::page::HostPage;
use hosting_types::{
    HostId, OrderResult, Server, ServerStatus, TagRecord,
    capacity::{CapacityCommit, InstanceType},
    catalogue::{Availability, Location, OperatingSystem, Plan, SystemGroup},
    command::{Command, CommandState},
    health::Health,
    host::{Host, HostKind, HostResult, InstallLogEntry, InstallStatus},
    quota::LocationQuota,
    server::HardwareListing,
    ssh_key::SshKey,
    usage::Usage,
    whitelist::WhitelistEntry,
};

use crate::{
    calls::Kept,
    canaries,
    rig::{CONTRACT, KIND, LASTING, LOCATION, START},
    scene::{AGE, DEBIAN, ORDER_TAG, PUBLIC_KEY, SPARE, Scene, USED},
};

const NET: &str = "127.0.0.0/8";

/// A 204 has nothing to check; its effect is in the ledger.
pub(crate) fn nothing(_: &Scene, (): ()) {}

fn one<T>(records: Vec<T>) -> T {
    let [record] = <[T; 1]>::try_from(records).ok().unwrap();
    record
}

fn start() -> Option<i64> {
    i64::try_from(START).ok()
}

pub(crate) fn whitelist(scene: &Scene, entries: Vec<WhitelistEntry>) {
    let entry = one(entries);
    assert_eq!(entry.id, scene.arguments.entry);
    assert_eq!(
        (entry.ip_range.as_deref(), entry.active),
        (Some(NET), Some(true))
    );
    assert_eq!((entry.comments, entry.updated_at), (None, start()));
}

pub(crate) fn added_entry(scene: &Scene, entries: Vec<WhitelistEntry>) {
    let entry = one(entries);
    assert_ne!(entry.id, scene.arguments.entry);
    assert_eq!(entry.comments, scene.arguments.rule.comments);
}

pub(crate) fn changed_entry(scene: &Scene, entries: Vec<WhitelistEntry>) {
    let entry = one(entries);
    assert_eq!(entry.id, scene.arguments.entry);
    assert_eq!(entry.comments, scene.arguments.rule.comments);
}

pub(crate) fn locations(_: &Scene, locations: Vec<Location>) {
    assert_eq!(locations.len(), 10);
    let place = &locations[0];
    assert_eq!((place.id, place.name.as_str()), (Some(6), LOCATION));
    assert_eq!(
        (place.short_name.as_str(), place.country_short_name.as_str()),
        ("rtm", "NL")
    );
}

pub(crate) fn instance_types(_: &Scene, types: Vec<InstanceType>) {
    let kind = types.iter().find(|kind| kind.name == KIND).unwrap();
    assert_eq!((kind.location_id, kind.cores), (Some(6), Some(8)));
    assert_eq!((kind.memory, kind.storage), (Some(32), Some(960)));
}

pub(crate) fn plans(_: &Scene, plans: Vec<Plan>) {
    assert_eq!(plans.len(), 7);
    let plan = plans.iter().find(|plan| plan.name == KIND).unwrap();
    assert_eq!(plan.memory.as_ref().unwrap().size, Some(32));
    assert_eq!(plan.cpu.as_ref().unwrap().total_cores, Some(8));
    assert_eq!((plan.disks[0].size, plan.gpu.is_none()), (Some(960), true));
    assert!(plan.network_interfaces[0].count.is_some());
    let mut places = plan.locations.iter();
    let here = places.find(|place| place.name == LOCATION).unwrap();
    assert_eq!(here.availability, Availability::High);
}

pub(crate) fn servers(scene: &Scene, servers: Vec<Server>) {
    let ids: Vec<_> = servers.iter().map(|server| &server.id).collect();
    assert_eq!(ids, [&scene.arguments.server, &scene.arguments.windows]);
    assert_eq!(servers[1].os_slug, "windows-2022");
}

pub(crate) fn created(scene: &Scene, outcome: OrderResult) {
    let OrderResult::Created(server) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(server.status, ServerStatus::Created);
    assert_eq!(server.name, scene.arguments.order.name);
    assert_eq!(server.tags, [USED, ORDER_TAG]);
    assert_eq!(server.contract_id.as_deref(), Some(CONTRACT));
    assert_eq!(server.created_at, start().map(|at| at + AGE as i64));
    assert_eq!((server.delivered_at, server.addresses.len()), (None, 0));
}

/// The delivered server; a re-installation does not change that.
pub(crate) fn server(scene: &Scene, server: Server) {
    assert_eq!(server.id, scene.arguments.server);
    assert_eq!(server.status, ServerStatus::Delivered);
    assert_eq!(
        (server.location.as_str(), server.instance_type.as_str()),
        (LOCATION, KIND)
    );
    assert_eq!((server.delivered_at, server.addresses.len()), (start(), 2));
}

pub(crate) fn releasing(scene: &Scene, server: Server) {
    assert_eq!(server.id, scene.arguments.server);
    assert_eq!(server.status, ServerStatus::Releasing);
}

pub(crate) fn hardware(_: &Scene, hardware: HardwareListing) {
    assert_eq!(hardware.created_at, start().map(|at| at + 60));
    assert!(hardware.listing.unwrap().is_object());
}

pub(crate) fn root_password(_: &Scene, Kept(password): Kept) {
    assert!(password.expose().starts_with("W!"));
    canaries::remember(password.expose());
}

pub(crate) fn commands(scene: &Scene, commands: Vec<Command>) {
    command(scene, one(commands));
}

pub(crate) fn command(scene: &Scene, command: Command) {
    assert_eq!(command.id, scene.arguments.command);
    assert_eq!(command.server.as_ref(), Some(&scene.arguments.server));
    assert_eq!(command.command.as_deref(), Some("reboot"));
    assert_eq!(command.state, CommandState::Finished);
    assert_eq!(command.created_at.map(|at| at.as_second()), start());
    assert!(command.updated_at > command.created_at);
}

pub(crate) fn sent_command(scene: &Scene, command: Command) {
    assert_ne!(command.id, scene.arguments.command);
    assert_eq!(command.server.as_ref(), Some(&scene.arguments.server));
    assert_eq!(command.command.as_deref(), Some("power_off"));
    assert_eq!(command.state, CommandState::Pending);
}

pub(crate) fn tags(_: &Scene, tags: Vec<TagRecord>) {
    let all: Vec<_> = tags
        .iter()
        .map(|tag| (tag.tag.as_str(), tag.servers))
        .collect();
    assert_eq!(all, [(USED, Some(2)), (SPARE, Some(0))]);
}

pub(crate) fn new_tag(scene: &Scene, tag: TagRecord) {
    assert_eq!(
        (tag.tag, tag.resources),
        (scene.arguments.new_tag.clone(), Some(0))
    );
}

pub(crate) fn spare_tag(_: &Scene, tag: TagRecord) {
    assert_eq!((tag.tag.as_str(), tag.servers), (SPARE, Some(0)));
}

pub(crate) fn tagged(scene: &Scene, server: Server) {
    assert_eq!(server.id, scene.arguments.server);
    assert_eq!(server.tags, [USED, scene.arguments.new_tag.as_str()]);
}

pub(crate) fn untagged(scene: &Scene, server: Server) {
    assert_eq!(server.id, scene.arguments.server);
    assert!(server.tags.is_empty());
}

pub(crate) fn quotas(_: &Scene, quotas: Vec<LocationQuota>) {
    let here = quotas
        .iter()
        .find(|quota| quota.location == LOCATION)
        .unwrap();
    let usage = |contract: Option<&str>| {
        let mut usages = here.usages.iter();
        let found = usages
            .find(|usage| usage.instance_type == KIND && usage.contract_id.as_deref() == contract);
        found.map(|usage| (usage.quota_type.as_str(), usage.quota, usage.usage))
    };
    assert_eq!(usage(Some(CONTRACT)), Some(("commit", Some(3), Some(0))));
    assert_eq!(here.location_id, Some(6));
    assert!(here.usages[0].instance_type_id.is_some());
    let (pool, _, used) = usage(None).unwrap();
    assert_eq!((pool, used), ("onDemand", Some(2)));
}

pub(crate) fn usage(scene: &Scene, usages: Vec<Usage>) {
    assert_eq!(usages.len(), 2);
    assert_eq!(usages[0].server.id, scene.arguments.server);
    assert_eq!(
        (usages[0].total_minutes, usages[0].total_hours),
        (Some(15), Some(1))
    );
    let [started, ended] = [usages[0].started_at, usages[0].ended_at];
    assert_eq!(started.map(|at| at.as_second()), start());
    let now = start().map(|at| at + AGE as i64);
    assert_eq!(ended.map(|at| at.as_second()), now);
    assert!(usages[0].bandwidth_in.is_some() && usages[0].total_egress_bytes > Some(0));
    assert_eq!(usages[0].bandwidth_out, None);
}

pub(crate) fn commits(_: &Scene, commits: Vec<CapacityCommit>) {
    let commit = one(commits);
    assert_eq!(commit.location.name, LOCATION);
    assert!(commit.location.country_id.is_some());
    let pool = one(commit.commits);
    assert_eq!(pool.instance_type.name, KIND);
    assert_eq!((pool.capacity, pool.in_use), (Some(3), Some(0)));
}

pub(crate) fn hosts(_: &Scene, page: HostPage) {
    let all: Vec<_> = page
        .hosts
        .iter()
        .map(|host| (host.id.0, host.kind))
        .collect();
    let (dedicated, on_demand) = (HostKind::Dedicated, HostKind::OnDemand);
    assert_eq!(
        all,
        [
            (1001, dedicated),
            (1002, dedicated),
            (100_001, on_demand),
            (100_002, on_demand)
        ]
    );
    assert_eq!(page.next, None);
}

pub(crate) fn host(_: &Scene, host: Host) {
    assert_eq!(
        (host.id, host.server_name.as_str()),
        (HostId(1001), "metal-1")
    );
    assert_eq!(host.install_status, InstallStatus::Finished);
    assert_eq!(host.os_id, i64::try_from(DEBIAN).ok());
}

pub(crate) fn acted(_: &Scene, result: HostResult) {
    assert_eq!(result.result, "OK");
    assert_eq!(result.timestamp, start().map(|at| at + AGE as i64));
}

pub(crate) fn install_log(_: &Scene, entries: Vec<InstallLogEntry>) {
    let times: Vec<_> = entries
        .iter()
        .filter_map(|entry| entry.written_at)
        .collect();
    let [first, last] = [START, START + LASTING].map(|at| i64::try_from(at).unwrap());
    assert_eq!((times.len(), times[0], times[2]), (3, first, last));
    assert!(entries[0].is_open && !entries[2].is_open);
    assert_eq!(entries[2].description, "Installation finished");
    assert!(!entries[2].category.is_empty() && !entries[2].category_name.is_empty());
    assert_eq!(entries[2].resolved, "resolved");
}

pub(crate) fn systems(_: &Scene, systems: Vec<OperatingSystem>) {
    assert_eq!(systems.len(), 14);
    let find = |slug: &str| systems.iter().find(|system| system.slug == slug).unwrap();
    assert_eq!(find("debian-13").id, i64::try_from(DEBIAN).ok());
    assert_eq!(find("windows-2022").group, Some(SystemGroup::Windows));
    assert_eq!(find("debian-13").group, Some(SystemGroup::Unix));
    assert!(!find("debian-11").active && !find("freebsd-14").for_servers);
}

pub(crate) fn ssh_keys(scene: &Scene, keys: Vec<SshKey>) {
    ssh_key(scene, one(keys));
}

pub(crate) fn ssh_key(scene: &Scene, key: SshKey) {
    assert_eq!(
        (key.id, key.name.as_str()),
        (scene.arguments.ssh_key.clone(), "me")
    );
    assert_eq!(
        (key.public_key.as_str(), key.created_at),
        (PUBLIC_KEY, start())
    );
}

pub(crate) fn stored_key(scene: &Scene, key: SshKey) {
    assert_ne!(key.id, scene.arguments.ssh_key);
    assert_eq!(
        (key.name.as_str(), key.public_key.as_str()),
        ("you", PUBLIC_KEY)
    );
}

pub(crate) fn health(_: &Scene, health: Health) {
    assert_eq!(health, Health::Ok);
}
