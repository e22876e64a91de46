//! The number of calls at the provider and in Kubernetes for many small objects, created at once and idle.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{SERVERS, SOON, check_invariants, text, watch_log::WatchLog};
use lab::rig::{Things, World, cluster, condition, eventually};

/// Maximum number of writes of an object over its life. The last but one reports that the deletion waits.
const WRITES: usize = 5;

/// Maximum number of writes of an object that report a slow call: one before its first status, one of its deletion.
const SLOW_CALLS: usize = 2;

/// Records on a page of a list.
const PAGE: usize = 50;
/// The number of polls in an idle period.
const IDLE_POLLS: usize = 6;
/// The account's interval between two idle polls.
const IDLE: Duration = Duration::from_secs(1);

/// Calls by method and path, with variable parts replaced.
type CallCounts = BTreeMap<String, usize>;

/// Many records at the provider, of several objects of one kind.
struct ManyObjects<'a> {
    world: &'a World,
    things: Things,
    objects: usize,
    records: usize,
    /// The list that shows all records.
    list: &'static str,
    log: WatchLog,
}

/// Whether this version of an object reports that a call has no answer yet.
fn reports_slow_call(version: &Value) -> bool {
    let ready = condition(version, "Ready");
    let message = ready
        .map(|ready| text(&ready["message"]))
        .unwrap_or_default();
    message.starts_with("Waiting for the hosting API to answer")
}

/// The number of calls in a ledger, by kind.
fn count_calls(ledger: &[Value]) -> CallCounts {
    let mut calls = CallCounts::new();
    for call in ledger {
        let kind = format!("{} {}", text(&call["method"]), text(&call["template"]));
        *calls.entry(kind).or_default() += 1;
    }
    calls
}

impl<'a> ManyObjects<'a> {
    async fn start(
        world: &'a World,
        kind: &str,
        (objects, records): (usize, usize),
        list: &'static str,
    ) -> Self {
        // Earlier objects would report that they wait, which needs additional writes.
        super::wait_account_condition(world, "default", "Ready", "True", "Available").await;
        let things = world.things(kind);
        let log = WatchLog::for_all_objects(things.api().clone()).await;
        Self {
            world,
            things,
            objects,
            records,
            list,
            log,
        }
    }

    /// Creates all objects at once. Returns the calls until all are Ready.
    async fn create_all(&self, object: impl Fn(usize) -> Value) -> CallCounts {
        self.world.simulator.clear_ledger().await;
        let objects: Vec<Value> = (0..self.objects).map(object).collect();
        join_all(objects.iter().map(|object| self.things.create(object))).await;
        eventually("all are Ready", SOON, async || {
            let list = self.things.api().list(&ListParams::default()).await.ok()?;
            let ready = list.iter().filter(|object| {
                let object = json!({"status": object.data["status"]});
                condition(&object, "Ready").is_some_and(|found| found["status"] == "True")
            });
            (ready.count() == self.objects).then_some(())
        })
        .await;
        count_calls(&self.world.simulator.ledger().await)
    }

    /// Waits until the operator writes nothing, and checks the next polls: it writes and changes nothing,
    /// and each poll reads each page of the list once.
    async fn check_idle(&self) {
        let mut before = (0, 0);
        eventually("nothing is written any more", SOON, async || {
            self.wait_for_list_polls(IDLE_POLLS).await;
            let now = self.count_writes().await;
            let is_quiet = now == before;
            before = now;
            is_quiet.then_some(())
        })
        .await;

        let start = Instant::now();
        let calls = self.wait_for_list_polls(IDLE_POLLS).await;
        // All objects share the polls, however many there are and whenever they were created.
        let least = IDLE * u32::try_from(IDLE_POLLS - 2).unwrap();
        let took = start.elapsed();
        assert!(took >= least, "{IDLE_POLLS} looks within {took:?}");
        assert_eq!(
            self.count_writes().await,
            before,
            "a quiet world was written to"
        );
        let mut pages = 0;
        for (call, number) in &calls {
            let is_poll = *call == format!("GET {}", self.list);
            assert!(is_poll || *call == format!("GET {SERVERS}"), "{calls:?}");
            pages += if is_poll { *number } else { 0 };
        }
        // One poll may be in progress at each end. A list ends with a short or empty page.
        let most = (IDLE_POLLS + 2) * (self.records / PAGE + 2);
        assert!(pages <= most, "{pages} pages, not {most}: {calls:?}");
    }

    /// The calls until the list was polled this often.
    async fn wait_for_list_polls(&self, polls: usize) -> CallCounts {
        self.world.simulator.clear_ledger().await;
        let ledger = eventually("the list is looked at", SOON, async || {
            let ledger = self.world.simulator.ledger().await;
            let starts = ledger.iter().filter(|call| {
                let ranged = text(&call["rangedData"]);
                call["template"] == self.list
                    && (ranged.is_empty() || ranged.starts_with("start=0,"))
            });
            (starts.count() >= polls).then_some(ledger)
        })
        .await;
        count_calls(&ledger)
    }

    /// Deletes all objects at once. Returns the calls until all are gone.
    async fn delete_all(&self) -> CallCounts {
        self.world.simulator.clear_ledger().await;
        let everything = ListParams::default();
        let api = self.things.api();
        let plain = DeleteParams::default();
        api.delete_collection(&plain, &everything).await.unwrap();
        eventually("all are gone", SOON, async || {
            let left = api.list(&everything).await.ok()?;
            left.items.is_empty().then_some(())
        })
        .await;
        count_calls(&self.world.simulator.ledger().await)
    }

    /// The number of object versions, and the number of events.
    async fn count_writes(&self) -> (usize, usize) {
        let events: Api<Event> = Api::namespaced(self.world.client.clone(), &self.world.namespace);
        let events = events.list(&ListParams::default()).await.unwrap();
        (self.log.versions().len(), events.items.len())
    }

    /// Checks the number of writes of each object. The test wrote the first version and the deletion time.
    /// The operator's last write removes the object, so no version shows it.
    fn assert_few_writes(&self) {
        let mut versions: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for version in self.log.versions() {
            let name = text(&version["metadata"]["name"]);
            versions.entry(name).or_default().push(version);
        }
        assert_eq!(versions.len(), self.objects);
        for (name, versions) in versions {
            // Under load a call takes more than a second, which the object reports.
            let slow = versions.iter().filter(|version| reports_slow_call(version));
            let slow = slow.count();
            assert!(slow <= SLOW_CALLS, "{name}: {versions:#?}");
            let writes = versions.len() - slow - 2 + 1;
            assert!(
                writes <= WRITES,
                "{name} was written {writes} times: {versions:#?}"
            );
        }
    }
}

#[tokio::test]
async fn many_tags_cost_one_call_each_plus_polls() {
    const NUMBER: usize = 60;
    let world = World::start(cluster(), "tags").await;
    let many =
        ManyObjects::start(&world, "ServerTag", (NUMBER, NUMBER), "/v3/flexMetal/tags").await;
    let tag = |number| super::tags::build_tag(&format!("tag-{number:03}"), &json!({}));

    let calls = many.create_all(tag).await;
    assert_eq!(calls["POST /v3/flexMetal/tags"], NUMBER, "{calls:?}");
    assert!(
        !calls.contains_key("GET /v3/flexMetal/tags/{tag}"),
        "{calls:?}"
    );
    many.check_idle().await;
    let calls = many.delete_all().await;
    for call in ["GET", "DELETE"] {
        // A read comes before each deletion.
        assert_eq!(
            calls[&format!("{call} /v3/flexMetal/tags/{{tag}}")],
            NUMBER,
            "{calls:?}"
        );
    }
    assert!(super::tags::list_account_tags(&world).await.is_empty());
    many.assert_few_writes();
    check_invariants(&world).await;
}

/// Only time enqueues the tag: one minute after its last status update.
#[tokio::test]
async fn changed_count_alone_still_reaches_status() {
    let world = World::start(cluster(), "count").await;
    let tags = world.things("ServerTag");
    tags.create(&super::tags::build_tag("web", &json!({})))
        .await;
    let made = tags.wait_ready("web", SOON).await;
    assert_eq!(made["status"]["serverCount"], 0);
    let server = super::build_server("web", &json!({"tags": ["web"]}));
    world.create(&server).await;
    world.wait_ready("web", SOON).await;
    tags.wait_for("web", "counted", 2 * SOON, |tag| {
        (tag["status"]["serverCount"] == 1).then_some(())
    })
    .await;
    check_invariants(&world).await;
}

#[tokio::test]
async fn many_keys_cost_one_call_each_plus_polls() {
    const NUMBER: usize = 60;
    let world = World::start(cluster(), "keys").await;
    let many = ManyObjects::start(&world, "SshKey", (NUMBER, NUMBER), "/v3/sshKey").await;
    let key = |number| {
        let text = format!(
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA{number:06}zv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1 many@test"
        );
        let spec = json!({"publicKey": text, "deletionPolicy": "Delete"});
        super::ssh_keys::build_ssh_key(&format!("key-{number:03}"), &spec)
    };

    let calls = many.create_all(key).await;
    assert_eq!(calls["POST /v3/sshKey"], NUMBER, "{calls:?}");
    assert!(!calls.contains_key("GET /v3/sshKey/{uuid}"), "{calls:?}");
    many.check_idle().await;
    let calls = many.delete_all().await;
    for call in ["GET", "DELETE"] {
        assert_eq!(
            calls[&format!("{call} /v3/sshKey/{{uuid}}")],
            NUMBER,
            "{calls:?}"
        );
    }
    assert!(super::ssh_keys::list_stored_keys(&world).await.is_empty());
    many.assert_few_writes();
    check_invariants(&world).await;
}

#[tokio::test]
async fn long_whitelist_costs_one_call_per_entry() {
    const ENTRIES: usize = 60;
    const LIST: &str = "/v3/account/apiKey/{apiKeyId}/whitelist";
    let world = World::start(cluster(), "list").await;
    let many = ManyObjects::start(&world, "IpWhitelist", (1, ENTRIES), LIST).await;
    let others = (1..ENTRIES)
        .map(|n| json!({"name": format!("net-{n}"), "cidr": format!("192.0.2.{n}/32")}));
    let mut entries = vec![json!({"name": "me", "cidr": "127.0.0.0/8"})];
    entries.extend(others);
    let list = |_| super::whitelists::build_whitelist("list", &json!({ "entries": entries }));

    let calls = many.create_all(list).await;
    assert_eq!(calls[&format!("POST {LIST}")], ENTRIES, "{calls:?}");
    many.check_idle().await;
    let calls = many.delete_all().await;
    // The entry that covers the operator stays.
    assert_eq!(
        calls[&format!("DELETE {LIST}/{{apiKeyWhitelistId}}")],
        ENTRIES - 1,
        "{calls:?}"
    );
    check_invariants(&world).await;
}

#[tokio::test]
async fn idle_hosts_cost_only_their_list_pages() {
    const NUMBER: usize = 120;
    let world = super::hosts::start_with_hosts("hosts", NUMBER).await;
    let many = ManyObjects::start(&world, "DedicatedHost", (NUMBER, NUMBER), "/v3/host").await;
    let host = |number| {
        let id = super::hosts::HOST + u64::try_from(number).unwrap();
        super::hosts::build_host(&format!("host-{number:03}"), id, &json!({}))
    };

    let calls = many.create_all(host).await;
    // The operator reads each host's installation log once, and nothing else.
    for (call, number) in &calls {
        let is_log_read = call.ends_with("/v3/host/{hostId}/os/installLog");
        assert!(call.starts_with("GET "), "{calls:?}");
        assert!(!is_log_read || *number <= 2 * NUMBER, "{calls:?}");
        assert!(!call.ends_with("/v3/host/{hostId}"), "{calls:?}");
    }
    many.check_idle().await;
    let calls = many.delete_all().await;
    assert!(
        calls.keys().all(|call| call.starts_with("GET ")),
        "{calls:?}"
    );
    many.assert_few_writes();
    check_invariants(&world).await;
}
