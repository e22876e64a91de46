//! Releases on the real API server, and an operator with exactly the rights that a release gives.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    checkout,
    helm::{Helm, IMAGE, helms},
    installed_policies::is_allowed,
};
use crate::crds::definitions;
use lab::rig::{Cluster, eventually};

pub(super) const SOON: Duration = Duration::from_secs(60);
/// A release on a cluster, with a namespace for servers.
pub(super) struct HelmRelease<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) helm: &'a Helm,
    /// Name of the release.
    pub(super) name: &'static str,
    /// Namespace of the release.
    pub(super) system: String,
    /// Namespace of the servers.
    pub(super) work: String,
    /// Values for `--set`.
    pub(super) values: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chart_rights_allow_order_and_release() {
    let cluster = Cluster::own();
    let helms = helms("install");
    let (first, next) = (&helms[0], &helms[helms.len() - 1]);

    // This test's accounts use short intervals.
    let quick = "extraArgs={--short-intervals}".to_owned();
    let simulator = vec![
        "simulator.enabled=true".to_owned(),
        "simulator.image.repository=registry.example.com/flexmetal-simulator".to_owned(),
        quick.clone(),
    ];
    let everywhere = HelmRelease::new(&cluster, first, simulator).await;
    everywhere.install(&[]).await;
    everywhere.assert_upgrade_is_noop().await;
    everywhere.assert_secrets_cannot_be_listed().await;
    everywhere.order_and_release().await;
    everywhere.uninstall_and_check_crds().await;

    // This release takes over the CRDs that the first release retained.
    let mut some = HelmRelease::new(&cluster, next, vec![quick]).await;
    some.values
        .push(format!("watchNamespaces={{{}}}", some.work));
    some.values.push("logFormat=text".to_owned());
    some.install(&["--take-ownership"]).await;
    some.assert_upgrade_is_noop().await;
    some.assert_secrets_cannot_be_listed().await;
    some.order_and_release().await;
    some.uninstall_and_check_crds().await;
}

impl<'a> HelmRelease<'a> {
    pub(super) async fn new(cluster: &'a Cluster, helm: &'a Helm, values: Vec<String>) -> Self {
        Self {
            cluster,
            helm,
            name: "metal",
            system: cluster.namespace("system").await,
            work: cluster.namespace("work").await,
            values,
        }
    }

    pub(super) async fn helm(&self, arguments: &[&str]) -> String {
        let namespace = ["--namespace", &self.system];
        self.helm
            .on(self.cluster, &[arguments, &namespace].concat())
            .await
    }

    pub(super) async fn install(&self, flags: &[&str]) {
        let notes = self.put("install", flags).await;
        let says = format!("deployment/{}", self.deployment_name());
        assert!(notes.contains(&says), "{notes}");
        assert_eq!(notes.contains("all namespaces"), self.watches_all());
        // The release notes show a first manifest.
        let (_, manifest) = notes.split_once("<<'END'\n").unwrap();
        let (manifest, _) = manifest.split_once("\nEND\n").unwrap();
        let manifest = manifest.replace("NAMESPACE", &self.work);
        let apply = ["apply", "--dry-run=server", "-f", "-"];
        eventually("the kind of the notes is served", SOON, async || {
            let made = self.cluster.kubectl_with_input(&apply, &manifest).await;
            let words = String::from_utf8(made.stderr).unwrap();
            assert!(
                made.status.success() || words.contains("no matches"),
                "{words}"
            );
            made.status.success().then_some(())
        })
        .await;
    }

    async fn put(&self, command: &str, flags: &[&str]) -> String {
        let chart = checkout("deploy/chart");
        let mut arguments = vec![command, self.name, chart.to_str().unwrap(), IMAGE];
        for value in &self.values {
            arguments.extend(["--set", value]);
        }
        arguments.extend(flags);
        self.helm(&arguments).await
    }

    pub(super) fn watches_all(&self) -> bool {
        !self.values.iter().any(|v| v.starts_with("watchNamespaces"))
    }

    pub(super) fn deployment_name(&self) -> String {
        match self.name {
            "flexmetal-operator" => self.name.to_owned(),
            name => format!("{name}-flexmetal-operator"),
        }
    }

    async fn assert_upgrade_is_noop(&self) {
        let generations = async || {
            let mut all = vec![self.get("deployment", &self.deployment_name()).await];
            for crd in definitions() {
                let name = crd["metadata"]["name"].as_str().unwrap();
                all.push(self.get("customresourcedefinition", name).await);
            }
            let generations = all.iter().map(|o| o["metadata"]["generation"].clone());
            generations.collect::<Vec<Value>>()
        };
        let before = generations().await;
        self.put("upgrade", &[]).await;
        assert_eq!(generations().await, before, "{}", self.helm.name);
    }

    pub(super) async fn get(&self, kind: &str, name: &str) -> Value {
        let arguments = ["-n", &self.system, "get", kind, name, "-o", "json"];
        serde_json::from_str(&self.cluster.kubectl_ok(&arguments).await).unwrap()
    }

    /// `system:serviceaccount:NAMESPACE:NAME` and the name alone.
    pub(super) async fn account(&self) -> (String, String) {
        let deployment = self.get("deployment", &self.deployment_name()).await;
        let name = &deployment["spec"]["template"]["spec"]["serviceAccountName"];
        let name = name.as_str().unwrap().to_owned();
        (
            format!("system:serviceaccount:{}:{name}", self.system),
            name,
        )
    }

    async fn assert_secrets_cannot_be_listed(&self) {
        let (user, _) = self.account().await;
        let client = self.cluster.client().await;
        let can = async |question: &[&str]| is_allowed(&client, &user, question).await;
        let (work, system) = (self.work.as_str(), self.system.as_str());
        for namespace in [work, system, "default", "kube-system"] {
            // The admission policies, not RBAC, limit create, update and delete to Secrets that a server owns.
            for verb in ["list", "watch", "deletecollection"] {
                let question = [verb, "secrets", "-n", namespace];
                assert!(!can(&question).await, "{question:?}");
            }
        }
        assert!(can(&["get", "secrets/key", "-n", work]).await);
        for elsewhere in [system, "default"] {
            let others = can(&["get", "secrets/key", "-n", elsewhere]).await;
            assert_eq!(others, self.watches_all(), "{elsewhere}");
        }
        let shared = can(&["list", "clusterprovideraccounts.flexmetal.dev"]).await;
        assert_eq!(shared, self.watches_all());
        for question in [
            ["delete", "sshkeys.flexmetal.dev", "-n", work],
            ["create", "servertags.flexmetal.dev", "-n", work],
            [
                "deletecollection",
                "baremetalservers.flexmetal.dev",
                "-n",
                work,
            ],
            ["create", "baremetalservers.flexmetal.dev", "-n", work],
            ["create", "pods", "-n", work],
            ["patch", "roles.rbac.authorization.k8s.io", "-n", work],
        ] {
            assert!(!can(&question).await, "{question:?}");
        }
        for question in [
            &["list", "namespaces"][..],
            &["get", "leases.coordination.k8s.io", "-n", work],
        ] {
            assert_eq!(can(question).await, self.watches_all(), "{question:?}");
        }
        // The owner hash of a server includes the UID of its namespace.
        let own = format!("namespaces/{work}");
        assert!(can(&["get", &own, "-n", work]).await);
        let others = can(&["get", "namespaces/default"]).await;
        assert_eq!(others, self.watches_all());
        assert!(!can(&["delete", "customresourcedefinitions.apiextensions.k8s.io"]).await);
    }

    pub(super) async fn apply(&self, objects: &Value) {
        let input = objects.to_string();
        let apply = ["apply", "--server-side", "-f", "-"];
        let output = self.cluster.kubectl_with_input(&apply, &input).await;
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    async fn uninstall_and_check_crds(&self) {
        let kept = json!({"apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": "kept", "namespace": self.work},
            "spec": {"location": "x", "instanceType": "x", "os": {"slug": "x"}}});
        self.apply(&kept).await;
        self.helm(&["uninstall", self.name]).await;
        let left = ["-n", &self.system, "get", "deployment,serviceaccount,role"];
        let left = [
            &left[..],
            &["-l=app.kubernetes.io/instance=metal", "-o=name"],
        ]
        .concat();
        assert_eq!(self.cluster.kubectl_ok(&left).await, "");
        for crd in definitions() {
            let name = crd["metadata"]["name"].as_str().unwrap();
            let definition = self.get("customresourcedefinition", name).await;
            assert!(definition["metadata"]["deletionTimestamp"].is_null());
        }
        let delete = ["-n", &self.work, "delete", "bms", "kept"];
        self.cluster.kubectl_ok(&delete).await;
    }
}
