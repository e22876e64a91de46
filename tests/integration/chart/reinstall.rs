//! What an uninstall leaves behind, an install after it that goes on where the first left off, and the end of
//! everything, by the commands of the page.

use serde_json::{Value, json};

use super::{
    checkout,
    helm::helms,
    install::{Release, SOON},
    pod::EVERY_KIND,
    rights_proxy::RightsProxy,
};
use crate::crds::definitions;
use lab::rig::{Cluster, Simulator, eventually};

/// As the pages call them.
const NAME: &str = "flexmetal-operator";
const NAMESPACE: &str = "flexmetal-system";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reinstalled_chart_keeps_all_objects() {
    let cluster = Cluster::own();
    for helm in helms("reinstall") {
        let values = vec!["extraArgs={--short-intervals}".to_owned()];
        let mut release = Release::new(&cluster, &helm, values).await;
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
        release.apply(&release.objects(&simulator)).await;
        release.all_ready().await;
        release.protect("own").await;
        release.deletion_is_refused("own").await;
        let machines = simulator.list_live_servers().await.len();
        let orders = release.orders(&simulator).await;
        let uuid = release.uuid("own").await;

        // The pod ends with the release; its rights may be gone before it.
        release.helm(&["uninstall", NAME]).await;
        drop(first);
        let left = release.objects_left().await;
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
        release.definitions_are_of_the_release().await;
        assert_eq!(simulator.list_live_servers().await.len(), machines);

        // The same name in the same namespace: Helm takes its own definitions back without a flag.
        release.install(&[]).await;
        let again = folder.path().join("again");
        std::fs::create_dir(&again).unwrap();
        let second = release.operator(&proxy, simulator.api(), &again).await;
        let mut later = lab::rig::server("later");
        later["metadata"]["namespace"] = json!(release.work);
        release.apply(&later).await;
        release.all_ready().await;
        release.deletion_is_refused("own").await;
        // One more, and none twice.
        assert_eq!(simulator.list_live_servers().await.len(), machines + 1);
        assert_eq!(release.orders(&simulator).await, orders + 1);
        assert_eq!(release.uuid("own").await, uuid);

        helm.follow(&cluster, &commands("End everything for good"));
        drop(second);
        let machines = simulator.list_servers().await;
        assert!(
            machines.iter().all(|m| m["status"] == "released"),
            "{machines:?}"
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

impl Release<'_> {
    async fn all_ready(&self) {
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

    async fn orders(&self, simulator: &Simulator) -> u64 {
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

    /// By the policy of the release, some moments after it came.
    async fn deletion_is_refused(&self, name: &str) {
        let delete = ["-n", &self.work, "delete", "bms", name, "--dry-run=server"];
        eventually("the deletion is refused", SOON, async || {
            let tried = self.cluster.kubectl(&delete).await;
            let words = String::from_utf8(tried.stderr).unwrap();
            words.contains("deletionProtection").then_some(())
        })
        .await;
    }

    /// The objects of every kind of ours.
    async fn objects_left(&self) -> Vec<Value> {
        let kinds = format!("{EVERY_KIND},pacct,cpacct");
        let get = ["get", &kinds, "-A", "-o=json"];
        let list: Value = serde_json::from_str(&self.cluster.kubectl_ok(&get).await).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    async fn definitions_are_of_the_release(&self) {
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
