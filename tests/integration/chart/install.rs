//! Releases on the real API server, and an operator with just what they give.
//!
//! There are no nodes, so the pod is played by a process of this machine: with the
//! token of the release's ServiceAccount, and the arguments and the environment
//! that stand in its Deployment.

use std::time::Duration;

use serde_json::{Value, json};

use super::checkout;
use super::helm::{Helm, documents, helms};
use super::render::strings;
use super::rights::{compare, granted};
use super::witness::Witness;
use crate::cluster::Cluster;
use crate::crds::definitions;
use crate::deadline::eventually;
use crate::rig::{Program, Simulator};

const SOON: Duration = Duration::from_secs(60);
/// What the operator may take to end when asked.
const END_WITHIN: Duration = Duration::from_secs(30);
const SSH_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG5vIGtleSBvZiBhbnlib2R5LCBqdXN0IHRleHQu chart";

/// A release on a cluster, with a namespace for servers.
struct Release<'a> {
    cluster: &'a Cluster,
    helm: &'a Helm,
    /// Where it is installed.
    system: String,
    /// Where the servers are.
    work: String,
    /// Values as `--set` takes them.
    values: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_orders_and_releases_with_the_rights_of_its_release() {
    let cluster = Cluster::own();
    let [helm_3, helm_4] = helms();

    let everywhere = Release::new(&cluster, &helm_3, Vec::new()).await;
    everywhere.install(&[]).await;
    everywhere.upgrade_changes_nothing().await;
    everywhere.secrets_cannot_be_listed().await;
    everywhere.order_and_release().await;
    everywhere.uninstall_keeps_the_definitions().await;

    // The next release takes over the definitions that the first one has left.
    let mut some = Release::new(&cluster, &helm_4, Vec::new()).await;
    some.values
        .push(format!("watchNamespaces={{{}}}", some.work));
    some.values.push("logFormat=text".to_owned());
    some.install(&["--take-ownership"]).await;
    some.upgrade_changes_nothing().await;
    some.secrets_cannot_be_listed().await;
    some.order_and_release().await;
    some.uninstall_keeps_the_definitions().await;
}

impl<'a> Release<'a> {
    async fn new(cluster: &'a Cluster, helm: &'a Helm, values: Vec<String>) -> Self {
        Self {
            cluster,
            helm,
            system: cluster.namespace("system").await,
            work: cluster.namespace("work").await,
            values,
        }
    }

    async fn helm(&self, arguments: &[&str]) -> String {
        let namespace = ["--namespace", &self.system];
        self.helm
            .on(self.cluster, &[arguments, &namespace].concat())
            .await
    }

    async fn install(&self, flags: &[&str]) {
        let notes = self.put("install", flags).await;
        let says = format!("deployment/{}", self.deployment_name());
        assert!(notes.contains(&says), "{notes}");
        assert_eq!(notes.contains("all namespaces"), self.watches_all());
    }

    async fn put(&self, command: &str, flags: &[&str]) -> String {
        let chart = checkout("deploy/chart");
        let mut arguments = vec![command, "metal", chart.to_str().unwrap()];
        for value in &self.values {
            arguments.extend(["--set", value]);
        }
        arguments.extend(flags);
        self.helm(&arguments).await
    }

    fn watches_all(&self) -> bool {
        !self.values.iter().any(|v| v.starts_with("watchNamespaces"))
    }

    fn deployment_name(&self) -> String {
        "metal-flexmetal-operator".to_owned()
    }

    async fn upgrade_changes_nothing(&self) {
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

    async fn get(&self, kind: &str, name: &str) -> Value {
        let arguments = ["-n", &self.system, "get", kind, name, "-o", "json"];
        serde_json::from_str(&self.cluster.kubectl_ok(&arguments).await).unwrap()
    }

    /// `system:serviceaccount:NAMESPACE:NAME` and the name alone.
    async fn account(&self) -> (String, String) {
        let deployment = self.get("deployment", &self.deployment_name()).await;
        let name = &deployment["spec"]["template"]["spec"]["serviceAccountName"];
        let name = name.as_str().unwrap().to_owned();
        (
            format!("system:serviceaccount:{}:{name}", self.system),
            name,
        )
    }

    async fn secrets_cannot_be_listed(&self) {
        let (user, _) = self.account().await;
        let may = async |question: &[&str]| {
            let arguments = [&["auth", "can-i", "--as", &user], question].concat();
            let answer = self.cluster.kubectl(&arguments).await;
            match String::from_utf8(answer.stdout).unwrap().trim() {
                "yes" => true,
                "no" => false,
                other => panic!("kubectl {arguments:?}: {other:?}"),
            }
        };
        let (work, system) = (self.work.as_str(), self.system.as_str());
        for namespace in [work, system, "default", "kube-system"] {
            for verb in ["list", "watch", "delete", "create", "update"] {
                let question = [verb, "secrets", "-n", namespace];
                assert!(!may(&question).await, "{question:?}");
            }
        }
        assert!(may(&["get", "secrets/key", "-n", work]).await);
        assert!(may(&["get", "secrets/key", "-n", system]).await);
        let elsewhere = may(&["get", "secrets/key", "-n", "default"]).await;
        assert_eq!(elsewhere, self.watches_all());
        for question in [
            ["delete", "baremetalservers.flexmetal.dev", "-n", work],
            ["create", "baremetalservers.flexmetal.dev", "-n", work],
            ["create", "pods", "-n", work],
            ["patch", "roles.rbac.authorization.k8s.io", "-n", work],
        ] {
            assert!(!may(&question).await, "{question:?}");
        }
        assert!(!may(&["get", "namespaces/default"]).await);
        assert!(!may(&["delete", "customresourcedefinitions"]).await);
    }

    async fn order_and_release(&self) {
        let folder = tempfile::tempdir().unwrap();
        let simulator = Simulator::start(&[], &folder.path().join("simulator.log"));
        let witness = Witness::before(self.cluster).await;
        let mut operator = self.operator(&witness, folder.path()).await;
        self.probes_answer(&operator).await;

        self.apply(&self.objects(&simulator)).await;
        let ready = [
            "-n",
            &self.work,
            "wait",
            "--for=condition=Ready",
            "bms",
            "--all",
        ];
        let waits = ["--timeout=60s"];
        self.cluster
            .kubectl_ok(&[&ready[..], &waits].concat())
            .await;
        assert_eq!(simulator.live_machines().await.len(), 2);

        let delete = ["-n", &self.work, "delete", "--timeout=60s"];
        let servers = [&delete[..], &["bms", "--all"]].concat();
        self.cluster.kubectl_ok(&servers).await;
        let machines = simulator.machines().await;
        assert_eq!(machines.len(), 2, "{machines:?}");
        assert!(machines.iter().all(|m| m["status"] == "released"));

        // Accounts and their Secrets are free again, in either order.
        for kind in ["cpacct", "pacct"] {
            let accounts = [&delete[..], &[kind, "--all"]].concat();
            self.cluster.kubectl_ok(&accounts).await;
        }
        for namespace in [&self.work, &self.system] {
            let secret = ["-n", namespace, "delete", "secret", "key", "--timeout=60s"];
            self.cluster.kubectl_ok(&secret).await;
        }

        operator.signal_terminate();
        let status = operator.wait(END_WITHIN).await;
        assert!(status.success(), "{status}: {}", operator.log());
        let manifest = documents(&self.helm(&["get", "manifest", "metal"]).await);
        compare(&granted(&manifest), &witness.seen());
    }

    /// The operator as the Deployment says, with the token of its ServiceAccount.
    async fn operator(&self, witness: &Witness, folder: &std::path::Path) -> Program {
        let (_, account) = self.account().await;
        let create = ["-n", &self.system, "create", "token", &account];
        let token = self.cluster.kubectl_ok(&create).await;
        let kubeconfig = folder.join("kubeconfig");
        witness.write_kubeconfig(self.cluster, token.trim(), &kubeconfig);

        let deployment = self.get("deployment", &self.deployment_name()).await;
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let mut arguments = strings(&container["args"]);
        // The pod has its port to itself; here it is any free one, for this machine alone.
        arguments.retain(|a| a != "--listen=0.0.0.0:8081");
        arguments.push("--listen=127.0.0.1:0".to_owned());
        // The pod finds its cluster by files that Kubernetes puts there.
        arguments.push(format!("--kubeconfig={}", kubeconfig.display()));
        let environment: Vec<(String, String)> = container["env"]
            .as_array()
            .unwrap()
            .iter()
            .map(|variable| {
                let name = variable["name"].as_str().unwrap().to_owned();
                let field = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str();
                let value = match field {
                    Some("metadata.namespace") => self.system.clone(),
                    Some("metadata.name") => "metal-0".to_owned(),
                    Some(other) => panic!("{name}: {other}"),
                    None => variable["value"].as_str().unwrap().to_owned(),
                };
                (name, value)
            })
            .collect();
        let environment: Vec<(&str, &str)> = environment
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        Program::start(
            "the operator",
            env!("CARGO_BIN_EXE_flexmetal-operator"),
            &arguments,
            &environment,
            &folder.join("operator.log"),
            false,
        )
    }

    /// The paths that the kubelet would ask, at the address that the log names.
    async fn probes_answer(&self, operator: &Program) {
        let address = eventually("the log names the address", SOON, async || {
            let log = operator.log();
            let line = log.lines().find(|l| l.contains("health is served"))?;
            let from = line.find("127.0.0.1:")?;
            let address = line[from..].split(['"', ' ', '\u{1b}']).next()?;
            Some(address.to_owned())
        })
        .await;
        let deployment = self.get("deployment", &self.deployment_name()).await;
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let http = reqwest::Client::builder().timeout(SOON).build().unwrap();
        for probe in ["livenessProbe", "readinessProbe"] {
            let path = container[probe]["httpGet"]["path"].as_str().unwrap();
            let url = format!("http://{address}{path}");
            eventually(&format!("{path} is good"), SOON, async || {
                let answer = http.get(&url).send().await.ok()?;
                answer.status().is_success().then_some(())
            })
            .await;
        }
    }

    /// One server by each kind of account, each with a key from elsewhere.
    fn objects(&self, simulator: &Simulator) -> Value {
        let timing = json!({
            "settle": "3s", "listingSpacing": "300ms", "pollMoving": "200ms",
            "pollStill": "1s", "sweep": "1s", "orderTimeout": "1500ms",
        });
        let account = json!({
            "baseURL": simulator.api(), "apiKeySecretRef": {"name": "key"}, "timing": timing,
        });
        let mut shared = account.clone();
        shared["allowedNamespaces"] = json!({"names": [self.work]});
        let key = |namespace: &str| {
            json!({"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "key", "namespace": namespace},
                "stringData": {"apiKey": simulator.api_key(), "ssh": SSH_KEY}})
        };
        let flexmetal = |kind: &str, name: &str, spec: Value| {
            json!({"apiVersion": "flexmetal.dev/v1alpha1", "kind": kind,
                "metadata": {"name": name, "namespace": self.work}, "spec": spec})
        };
        let server = |name: &str, account: Value, key: Value| {
            let spec = json!({
                "location": "EU: Rotterdam", "instanceType": "bm7.std.8",
                "os": {"slug": "ubuntu-2404-lts"}, "accountRef": account, "sshKeys": [key],
            });
            flexmetal("BareMetalServer", name, spec)
        };
        let mut cluster_account = flexmetal("ClusterProviderAccount", "shared", shared);
        cluster_account["metadata"] = json!({"name": "shared"});
        json!({"apiVersion": "v1", "kind": "List", "items": [
            key(&self.work),
            key(&self.system),
            {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "keys", "namespace": self.work}, "data": {"ssh": SSH_KEY}},
            flexmetal("ProviderAccount", "default", account),
            cluster_account,
            server("own", json!({}), json!({"configMapKeyRef": {"name": "keys", "key": "ssh"}})),
            server("shared", json!({"kind": "ClusterProviderAccount", "name": "shared"}),
                json!({"secretKeyRef": {"name": "key", "key": "ssh"}})),
        ]})
    }

    async fn apply(&self, objects: &Value) {
        let input = objects.to_string();
        let apply = ["apply", "--server-side", "-f", "-"];
        let output = self.cluster.kubectl_with_input(&apply, &input).await;
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    async fn uninstall_keeps_the_definitions(&self) {
        let kept = json!({"apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
            "metadata": {"name": "kept", "namespace": self.work},
            "spec": {"location": "x", "instanceType": "x", "os": {"slug": "x"}}});
        self.apply(&kept).await;
        self.helm(&["uninstall", "metal"]).await;
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
