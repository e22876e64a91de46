//! Many small things at once, and many that are at rest: what they cost at the provider and in Kubernetes.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{SERVERS, SOON, judge, text, watch_log::WatchLog};
use lab::rig::{Things, World, cluster, condition, eventually};

/// The operator writes an object this often at most, from its creation to its end; the last but one says that the deletion waits.
const WRITES: usize = 5;

/// Records on a page of a list.
const PAGE: usize = 50;
/// How many looks a time of rest is observed for.
const LOOKS: usize = 6;
/// The time between two looks at rest, as the account says.
const IDLE: Duration = Duration::from_secs(1);

/// Calls by method and path with its variable parts named.
type Calls = BTreeMap<String, usize>;

/// Many things at the provider, of some objects of one kind.
struct Many<'a> {
    world: &'a World,
    things: Things,
    objects: usize,
    records: usize,
    /// The list that shows all of it.
    list: &'static str,
    log: WatchLog,
}

/// What came of a stretch.
fn calls(ledger: &[Value]) -> Calls {
    let mut calls = Calls::new();
    for call in ledger {
        let kind = format!("{} {}", text(&call["method"]), text(&call["template"]));
        *calls.entry(kind).or_default() += 1;
    }
    calls
}

impl<'a> Many<'a> {
    async fn of(
        world: &'a World,
        kind: &str,
        (objects, records): (usize, usize),
        list: &'static str,
    ) -> Self {
        // What is made before would say that it waits, which takes writes of its own.
        super::account_says(world, "default", "Ready", "True", "Available").await;
        let things = world.things(kind);
        let log = WatchLog::of_all(things.api().clone()).await;
        Self {
            world,
            things,
            objects,
            records,
            list,
            log,
        }
    }

    /// Makes them all at once; returns the calls until all are Ready.
    async fn made(&self, object: impl Fn(usize) -> Value) -> Calls {
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
        calls(&self.world.simulator.ledger().await)
    }

    /// Waits until nothing is written any more, and observes some looks from then on: nothing is written, nothing is
    /// changed, and a look reads each page of the list once.
    async fn rest(&self) {
        let mut before = (0, 0);
        eventually("nothing is written any more", SOON, async || {
            self.looked(LOOKS).await;
            let now = self.written().await;
            let is_quiet = now == before;
            before = now;
            is_quiet.then_some(())
        })
        .await;

        let start = Instant::now();
        let calls = self.looked(LOOKS).await;
        // However many there are, and whenever each of them came, they share their looks.
        let least = IDLE * u32::try_from(LOOKS - 2).unwrap();
        let took = start.elapsed();
        assert!(took >= least, "{LOOKS} looks within {took:?}");
        assert_eq!(self.written().await, before, "a quiet world was written to");
        let mut pages = 0;
        for (call, number) in &calls {
            let is_look = *call == format!("GET {}", self.list);
            assert!(is_look || *call == format!("GET {SERVERS}"), "{calls:?}");
            pages += if is_look { *number } else { 0 };
        }
        // One look may be under way at each end. A list with pages ends at one that is short or empty.
        let most = (LOOKS + 2) * (self.records / PAGE + 2);
        assert!(pages <= most, "{pages} pages, not {most}: {calls:?}");
    }

    /// The calls until the list was looked at this often.
    async fn looked(&self, looks: usize) -> Calls {
        self.world.simulator.clear_ledger().await;
        let ledger = eventually("the list is looked at", SOON, async || {
            let ledger = self.world.simulator.ledger().await;
            let starts = ledger.iter().filter(|call| {
                let ranged = text(&call["rangedData"]);
                call["template"] == self.list
                    && (ranged.is_empty() || ranged.starts_with("start=0,"))
            });
            (starts.count() >= looks).then_some(ledger)
        })
        .await;
        calls(&ledger)
    }

    /// Deletes them all at once; returns the calls until all are gone.
    async fn gone(&self) -> Calls {
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
        calls(&self.world.simulator.ledger().await)
    }

    /// How many versions of objects there were, and how many events.
    async fn written(&self) -> (usize, usize) {
        let events: Api<Event> = Api::namespaced(self.world.client.clone(), &self.world.namespace);
        let events = events.list(&ListParams::default()).await.unwrap();
        (self.log.versions().len(), events.items.len())
    }

    /// No object was written more often than it may be. Of the versions that were shown, the first and the one with the
    /// time of its deletion are the test's, and the operator's last write shows as the end of the object.
    fn each_was_written_rarely(&self) {
        let mut versions: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for version in self.log.versions() {
            let name = text(&version["metadata"]["name"]);
            versions.entry(name).or_default().push(version);
        }
        assert_eq!(versions.len(), self.objects);
        for (name, versions) in versions {
            let writes = versions.len() - 2 + 1;
            assert!(
                writes <= WRITES,
                "{name} was written {writes} times: {versions:#?}"
            );
        }
    }
}

#[tokio::test]
async fn many_tags_cost_one_call_each_plus_polls() {
    const NUMBER: usize = 120;
    let world = World::start(cluster(), "tags").await;
    let many = Many::of(&world, "ServerTag", (NUMBER, NUMBER), "/v3/flexMetal/tags").await;
    let tag = |number| super::tags::tag(&format!("tag-{number:03}"), &json!({}));

    let calls = many.made(tag).await;
    assert_eq!(calls["POST /v3/flexMetal/tags"], NUMBER, "{calls:?}");
    assert!(
        !calls.contains_key("GET /v3/flexMetal/tags/{tag}"),
        "{calls:?}"
    );
    many.rest().await;
    let calls = many.gone().await;
    for call in ["GET", "DELETE"] {
        // A look goes ahead of each deletion.
        assert_eq!(
            calls[&format!("{call} /v3/flexMetal/tags/{{tag}}")],
            NUMBER,
            "{calls:?}"
        );
    }
    assert!(super::tags::account_tags(&world).await.is_empty());
    many.each_was_written_rarely();
    judge(&world).await;
}

#[tokio::test]
async fn many_keys_cost_one_call_each_plus_polls() {
    const NUMBER: usize = 60;
    let world = World::start(cluster(), "keys").await;
    let many = Many::of(&world, "SshKey", (NUMBER, NUMBER), "/v3/sshKey").await;
    let key = |number| {
        let text = format!(
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA{number:06}zv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1 many@test"
        );
        let spec = json!({"publicKey": text, "deletionPolicy": "Delete"});
        super::ssh_keys::ssh_key(&format!("key-{number:03}"), &spec)
    };

    let calls = many.made(key).await;
    assert_eq!(calls["POST /v3/sshKey"], NUMBER, "{calls:?}");
    assert!(!calls.contains_key("GET /v3/sshKey/{uuid}"), "{calls:?}");
    many.rest().await;
    let calls = many.gone().await;
    for call in ["GET", "DELETE"] {
        assert_eq!(
            calls[&format!("{call} /v3/sshKey/{{uuid}}")],
            NUMBER,
            "{calls:?}"
        );
    }
    assert!(super::ssh_keys::stored(&world).await.is_empty());
    many.each_was_written_rarely();
    judge(&world).await;
}

#[tokio::test]
async fn long_whitelist_costs_one_call_per_entry() {
    const ENTRIES: usize = 60;
    const LIST: &str = "/v3/account/apiKey/{apiKeyId}/whitelist";
    let world = World::start(cluster(), "list").await;
    let many = Many::of(&world, "IpWhitelist", (1, ENTRIES), LIST).await;
    let others = (1..ENTRIES)
        .map(|n| json!({"name": format!("net-{n}"), "cidr": format!("192.0.2.{n}/32")}));
    let mut entries = vec![json!({"name": "me", "cidr": "127.0.0.0/8"})];
    entries.extend(others);
    let list = |_| super::whitelists::whitelist("list", &json!({ "entries": entries }));

    let calls = many.made(list).await;
    assert_eq!(calls[&format!("POST {LIST}")], ENTRIES, "{calls:?}");
    many.rest().await;
    let calls = many.gone().await;
    // What covers the operator stays.
    assert_eq!(
        calls[&format!("DELETE {LIST}/{{apiKeyWhitelistId}}")],
        ENTRIES - 1,
        "{calls:?}"
    );
    judge(&world).await;
}

#[tokio::test]
async fn idle_hosts_cost_only_their_list_pages() {
    const NUMBER: usize = 500;
    let world = super::hosts::with_hosts("hosts", NUMBER).await;
    let many = Many::of(&world, "DedicatedHost", (NUMBER, NUMBER), "/v3/host").await;
    let host = |number| {
        let id = super::hosts::HOST + u64::try_from(number).unwrap();
        super::hosts::host(&format!("host-{number:03}"), id, &json!({}))
    };

    let calls = many.made(host).await;
    // What was installed before is looked at once for each, and nothing else.
    for (call, number) in &calls {
        let is_first_look = call.ends_with("/v3/host/{hostId}/os/installLog");
        assert!(call.starts_with("GET "), "{calls:?}");
        assert!(!is_first_look || *number <= 2 * NUMBER, "{calls:?}");
        assert!(!call.ends_with("/v3/host/{hostId}"), "{calls:?}");
    }
    many.rest().await;
    let calls = many.gone().await;
    assert!(
        calls.keys().all(|call| call.starts_with("GET ")),
        "{calls:?}"
    );
    many.each_was_written_rarely();
    judge(&world).await;
}
