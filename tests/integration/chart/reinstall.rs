//! An uninstall, a second install that continues with the same objects, and the removal of everything.
//! Uses the commands of the page about operations.

use serde_json::{Value, json};

use super::{
    checkout,
    helm::helms,
    install::{HelmRelease, SOON},
    pod::EVERY_KIND,
    rights_proxy::RightsProxy,
};
use crate::crds::definitions;
use lab::rig::{Cluster, Simulator, eventually};

/// The names that the pages use.
const NAME: &str = "flexmetal-operator";
const NAMESPACE: &str = "flexmetal-system";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reinstalled_chart_keeps_all_objects() {
    let cluster = Cluster::own();
    for helm in helms("reinstall") {
        let values = vec!["extraArgs={--short-intervals}".to_owned()];
        let mut release = HelmRelease::new(&cluster, &helm, values).await;
        release.name = NAME;
        release.system = NAMESPACE.to_owned();
        cluster
            .kubectl_ok(&["create", "namespace", NAMESPACE])
            .await;
        release.install(&[]).await;

        let folder = tempfile::tempdir().unwrap();
        let simulator = Simulator::start(&[], &folder.path().join("simulator.log"));
        let proxy = RightsProxy::start(&cluster).await;
        let first = release
            .operator(&proxy, simulator.api(), folder.path())
            .await;
        release.apply(&release.build_objects(&simulator)).await;
        release.wait_all_ready().await;
        release.protect("own").await;
        release.assert_deletion_refused("own").await;
        let live = simulator.list_live_servers().await.len();
        let orders = release.count_orders(&simulator).await;
        let uuid = release.uuid("own").await;

        // The pod ends with the release. Its rights may be gone before it.
        release.helm(&["uninstall", NAME]).await;
        drop(first);
        let left = release.list_remaining_objects().await;
        assert!(left.len() >= 6, "{left:?}");
        for object in &left {
            assert!(
                object["metadata"]["deletionTimestamp"].is_null(),
                "{object}"
            );
            let conditions = object["status"]["conditions"].as_array().unwrap();
            assert!(!conditions.is_empty(), "{object}");
        }
        let holds = left.iter().filter(|object| {
            let finalizers = object["metadata"]["finalizers"].as_array();
            object["kind"] == "BareMetalServer" && finalizers.is_some_and(|f| !f.is_empty())
        });
        assert_eq!(holds.count(), 3, "{left:?}");
        release.assert_release_owns_crds().await;
        assert_eq!(simulator.list_live_servers().await.len(), live);

        // With the same name and namespace, Helm adopts its own CRDs without a flag.
        release.install(&[]).await;
        let again = folder.path().join("again");
        std::fs::create_dir(&again).unwrap();
        let second = release.operator(&proxy, simulator.api(), &again).await;
        let mut later = lab::rig::server("later");
        later["metadata"]["namespace"] = json!(release.work);
        release.apply(&later).await;
        release.wait_all_ready().await;
        release.assert_deletion_refused("own").await;
        // There is one new server, and no second server for an old object.
        assert_eq!(simulator.list_live_servers().await.len(), live + 1);
        assert_eq!(release.count_orders(&simulator).await, orders + 1);
        assert_eq!(release.uuid("own").await, uuid);

        helm.follow(&cluster, &commands("End everything for good"));
        drop(second);
        let servers = simulator.list_servers().await;
        assert!(
            servers.iter().all(|m| m["status"] == "released"),
            "{servers:?}"
        );
        let get = ["get", "crd,clusterrole,clusterrolebinding", "-o=name"];
        let policies = ["get", "validatingadmissionpolicies", "-o=name"];
        for get in [&get[..], &policies] {
            let names = cluster.kubectl_ok(get).await;
            assert!(!names.contains("flexmetal"), "{}: {names}", helm.name);
        }
    }
}

/// The first block of commands under a heading of the page about operations.
fn commands(heading: &str) -> String {
    let page = std::fs::read_to_string(checkout("docs/operations.md")).unwrap();
    let (_, section) = page.split_once(&format!("# {heading}\n")).unwrap();
    let (_, block) = section.split_once("```sh\n").unwrap();
    block.split("```").next().unwrap().to_owned()
}

impl HelmRelease<'_> {
    async fn wait_all_ready(&self) {
        let wait = ["-n", &self.work, "wait", "--for=condition=Ready"];
        let wait = [&wait[..], &[EVERY_KIND, "--all", "--timeout=60s"]].concat();
        self.cluster.kubectl_ok(&wait).await;
    }

    async fn patch(&self, kind: &str, name: &str, change: &Value) {
        let change = format!("--patch={change}");
        let patch = [
            "-n",
            &self.work,
            "patch",
            kind,
            name,
            "--type=merge",
            &change,
        ];
        self.cluster.kubectl_ok(&patch).await;
    }

    async fn count_orders(&self, simulator: &Simulator) -> u64 {
        let counts = simulator.counts().await;
        counts["POST /v3/flexMetal/servers"]
    }

    async fn uuid(&self, name: &str) -> String {
        let get = ["-n", &self.work, "get", "bms", name];
        let get = [&get[..], &["-o=jsonpath={.status.uuid}"]].concat();
        let uuid = self.cluster.kubectl_ok(&get).await;
        assert!(!uuid.is_empty(), "{name}");
        uuid
    }

    async fn protect(&self, name: &str) {
        let protect = json!({"spec": {"deletionProtection": true}});
        self.patch("bms", name, &protect).await;
    }

    /// The release's policy takes effect a moment after the install.
    async fn assert_deletion_refused(&self, name: &str) {
        let delete = ["-n", &self.work, "delete", "bms", name, "--dry-run=server"];
        eventually("the deletion is refused", SOON, async || {
            let tried = self.cluster.kubectl(&delete).await;
            let words = String::from_utf8(tried.stderr).unwrap();
            words.contains("deletionProtection").then_some(())
        })
        .await;
    }

    /// All objects of all our kinds.
    async fn list_remaining_objects(&self) -> Vec<Value> {
        let kinds = format!("{EVERY_KIND},pacct,cpacct");
        let get = ["get", &kinds, "-A", "-o=json"];
        let list: Value = serde_json::from_str(&self.cluster.kubectl_ok(&get).await).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    async fn assert_release_owns_crds(&self) {
        for definition in definitions() {
            let name = definition["metadata"]["name"].as_str().unwrap();
            let metadata = &self.get("customresourcedefinition", name).await["metadata"];
            assert!(metadata["deletionTimestamp"].is_null(), "{name}");
            let annotations = &metadata["annotations"];
            assert_eq!(annotations["meta.helm.sh/release-name"], self.name);
            assert_eq!(annotations["meta.helm.sh/release-namespace"], self.system);
        }
    }
}
