//! Runs the operator of a release as a local process, because the test cluster has no nodes.
//! It uses the token of the release's ServiceAccount and the arguments and environment of the Deployment.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::{
    helm::documents,
    install::{HelmRelease, SOON},
    render::strings,
    rights::{compare, granted},
    rights_proxy::RightsProxy,
};
use lab::rig::{Program, Simulator, endpoint, eventually, program, quick_timing};

/// Maximum time for the operator to end after SIGTERM.
const END_WITHIN: Duration = Duration::from_secs(30);
const SSH_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBv2kqKzv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1Z chart";

/// The kinds that use an account, as kubectl takes them.
pub(super) const EVERY_KIND: &str = "bms,dhost,stag,skey,ipwl";

impl HelmRelease<'_> {
    pub(super) async fn order_and_release(&self) {
        let folder = tempfile::tempdir().unwrap();
        let simulator = Simulator::start(&[], &folder.path().join("simulator.log"));
        let proxy = RightsProxy::start(self.cluster).await;
        let mut operator = self.operator(&proxy, simulator.api(), folder.path()).await;
        self.check_probes(&operator).await;

        self.apply(&self.build_objects(&simulator)).await;
        let ready = [
            "-n",
            &self.work,
            "wait",
            "--for=condition=Ready",
            EVERY_KIND,
            "--all",
        ];
        let waits = ["--timeout=60s"];
        self.cluster
            .kubectl_ok(&[&ready[..], &waits].concat())
            .await;
        self.run_commands(&proxy).await;
        self.install_host(&simulator).await;
        self.check_outputs(&simulator).await;
        let forgotten = "--for=jsonpath={.status.rootPassword.deletedAt}";
        let forgotten = ["-n", &self.work, "wait", forgotten, "bms/windows"];
        let waits = ["--timeout=60s"];
        let wait = [&forgotten[..], &waits].concat();
        self.cluster.kubectl_ok(&wait).await;
        let servers = if self.watches_all() { 3 } else { 2 };
        assert_eq!(simulator.list_live_servers().await.len(), servers);

        let delete = ["-n", &self.work, "delete", "--timeout=60s"];
        let all = [&delete[..], &[EVERY_KIND, "--all"]].concat();
        self.cluster.kubectl_ok(&all).await;
        let provider_servers = simulator.list_servers().await;
        assert_eq!(provider_servers.len(), servers, "{provider_servers:?}");
        assert!(provider_servers.iter().all(|m| m["status"] == "released"));

        // Accounts and their Secrets have no finalizer any more, so they can go in either order.
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
        let manifest = documents(&self.helm(&["get", "manifest", self.name]).await);
        compare(&granted(&manifest), &proxy.seen());
    }

    /// Starts the operator as the Deployment configures it, with the token of its ServiceAccount.
    pub(super) async fn operator(&self, proxy: &RightsProxy, api: &str, folder: &Path) -> Program {
        let (_, account) = self.account().await;
        let create = ["-n", &self.system, "create", "token", &account];
        let token = self.cluster.kubectl_ok(&create).await;
        let kubeconfig = folder.join("kubeconfig");
        proxy.write_kubeconfig(self.cluster, token.trim(), &kubeconfig);

        let deployment = self.get("deployment", &self.deployment_name()).await;
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let mut arguments = strings(&container["args"]);
        // The pod's ports are fixed. Here they are any free ports, on localhost only.
        for (flag, port) in [("--listen", 8081), ("--metrics-listen", 8080)] {
            let fixed = format!("{flag}=0.0.0.0:{port}");
            assert!(arguments.contains(&fixed), "{arguments:?}");
            arguments.retain(|argument| *argument != fixed);
            arguments.push(format!("{flag}=127.0.0.1:0"));
        }
        // The hosting API is on localhost too.
        arguments.push(format!("--allowed-base-url={api}"));
        // A real pod finds its cluster through files that Kubernetes mounts.
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
            &program("flexmetal-operator"),
            &arguments,
            &environment,
            &folder.join("operator.log"),
            false,
        )
    }

    /// Requests the kubelet's probe paths at the address in the log.
    async fn check_probes(&self, operator: &Program) {
        let address = eventually("the log names the address", SOON, async || {
            endpoint(&operator.log(), "health")
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

    /// Runs power commands: one for longer that is deleted by hand, one that deletes itself, and one on a server.
    async fn run_commands(&self, proxy: &RightsProxy) {
        let command = |name: &str, ttl: Value| {
            json!({"apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
                "metadata": {"name": name, "namespace": self.work},
                "spec": {"targetRef": {"name": "own"}, "action": "Reboot", "ttlSecondsAfterFinished": ttl}})
        };
        let mut kept = command("kept", Value::Null);
        let spec = kept["spec"].as_object_mut().unwrap();
        spec.remove("ttlSecondsAfterFinished");
        kept["metadata"]["finalizers"] = json!(["example.com/theirs"]);
        let items = [kept, command("gone", json!(0))];
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        self.apply(&list).await;
        for (name, what) in [
            ("kept", "--for=condition=Complete"),
            ("gone", "--for=delete"),
        ] {
            let name = format!("scmd/{name}");
            let wait = ["-n", &self.work, "wait", what, &name, "--timeout=60s"];
            self.cluster.kubectl_ok(&wait).await;
        }
        let power = r#"--patch={"spec":{"power":"PoweredOn"}}"#;
        let patch = [
            "-n",
            &self.work,
            "patch",
            "bms",
            "own",
            "--type=merge",
            power,
        ];
        self.cluster.kubectl_ok(&patch).await;
        let done = "--for=jsonpath={.status.power.command.state}=Complete";
        let wait = ["-n", &self.work, "wait", done, "bms/own", "--timeout=60s"];
        self.cluster.kubectl_ok(&wait).await;
        let on_kept = async |arguments: &[&str]| {
            let arguments = [arguments, &["-n", &self.work, "scmd", "kept"]].concat();
            self.cluster.kubectl_ok(&arguments).await
        };
        on_kept(&["delete", "--wait=false"]).await;
        let definition = Some("servercommands.flexmetal.dev".to_owned());
        eventually("the operator looks at the definition", SOON, async || {
            let seen = proxy.seen();
            seen.iter()
                .any(|used| used.name == definition)
                .then_some(())
        })
        .await;
        let free = r#"--patch={"metadata":{"finalizers":null}}"#;
        on_kept(&["patch", "--type=merge", free]).await;
    }

    /// Installs a dedicated host once. The operator gets the live object right before.
    async fn install_host(&self, simulator: &Simulator) {
        let quick = json!({"installSeconds": 1});
        simulator.settings(&quick).await;
        let change = r#"--patch={"spec":{"install":{"revision":1}}}"#;
        let patch = ["-n", &self.work, "patch", "dhost", "host", "--type=merge"];
        self.cluster
            .kubectl_ok(&[&patch[..], &[change]].concat())
            .await;
        let done = "--for=jsonpath={.status.install.last.result}=Finished";
        let wait = ["-n", &self.work, "wait", done, "dhost/host"];
        self.cluster
            .kubectl_ok(&[&wait[..], &["--timeout=60s"]].concat())
            .await;
    }

    /// Checks the server's outputs in a ConfigMap and a Secret, also after the provider's server changed.
    async fn check_outputs(&self, simulator: &Simulator) {
        let outputs = json!({"configMapRef": {"name": "of-own"}, "secretRef": {"name": "of-own"}});
        let patch = format!("--patch={}", json!({"spec": {"outputs": outputs}}));
        let patch = [
            "-n",
            &self.work,
            "patch",
            "bms",
            "own",
            "--type=merge",
            &patch,
        ];
        self.cluster.kubectl_ok(&patch).await;
        let uuid = "-o=jsonpath={.status.uuid}";
        let uuid = ["-n", &self.work, "get", "bms", "own", uuid];
        let uuid = self.cluster.kubectl_ok(&uuid).await;
        for name in ["before", "behind"] {
            simulator.alter(&uuid, &json!({"name": name})).await;
            let encoded = match name {
                "before" => "YmVmb3Jl",
                _ => "YmVoaW5k",
            };
            for (kind, value) in [("configmap", name), ("secret", encoded)] {
                let wait = format!("--for=jsonpath={{.data.hostname}}={value}");
                let kind = format!("{kind}/of-own");
                eventually(&format!("{kind} holds {name}"), SOON, async || {
                    // `kubectl wait` fails while the object does not exist.
                    let wait = ["-n", &self.work, "wait", &wait, &kind, "--timeout=5s"];
                    let waited = self.cluster.kubectl_with_input(&wait, "").await;
                    waited.status.success().then_some(())
                })
                .await;
            }
        }
    }

    /// One server for each kind of account that the release serves, each with an SSH key from elsewhere.
    pub(super) fn build_objects(&self, simulator: &Simulator) -> Value {
        let account = json!({
            "baseURL": simulator.api(), "apiKeySecretRef": {"name": "key"}, "timing": quick_timing(),
        });
        let mut shared = account.clone();
        shared["allowedNamespaces"] = json!([{"name": "work", "namespaces": [self.work]}]);
        let key = |namespace: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "type": "flexmetal.dev/api-key",
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
        let in_map = json!({"configMapKeyRef": {"name": "keys", "key": "ssh"}});
        let in_secret = json!({"secretKeyRef": {"name": "login", "key": "ssh"}});
        let own = server("own", json!({}), in_map);
        let mut items = vec![
            key(&self.work),
            key(&self.system),
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "keys", "namespace": self.work}, "data": {"ssh": SSH_KEY}}),
            json!({"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "login", "namespace": self.work}, "stringData": {"ssh": SSH_KEY}}),
            flexmetal("ProviderAccount", "default", account),
        ];
        if self.watches_all() {
            items.push(cluster_account);
            let reference = json!({"kind": "ClusterProviderAccount", "name": "shared"});
            items.push(server("shared", reference, in_secret));
        }
        items.push(own);
        // The operator deletes its password Secret after 10 s.
        let mut windows = server("windows", json!({}), Value::Null);
        windows["spec"]["os"] = json!({"slug": "windows-2022"});
        windows["spec"]["sshKeys"] = json!([]);
        windows["spec"]["rootPassword"] = json!({"secretRef": {"name": "password"}, "ttl": "10s"});
        items.push(windows);
        items.push(flexmetal("ServerTag", "tag", json!({})));
        // The provider's key is deleted with its object, and the operator gets the live object first.
        let stored = json!({"publicKey": SSH_KEY, "deletionPolicy": "Delete"});
        items.push(flexmetal("SshKey", "stored", stored));
        let system = json!({"slug": "debian-13"});
        let host = json!({"hostID": 1001, "install": {"revision": 0},
            "os": system, "sshKeyRef": {"name": "stored"}});
        items.push(flexmetal("DedicatedHost", "host", host));
        let entries = json!([{"name": "here", "cidr": "127.0.0.0/8"}]);
        let egress = json!(["127.0.0.1/32"]);
        let list = json!({"apiKeyID": 1, "entries": entries, "egressCIDRs": egress});
        items.push(flexmetal("IpWhitelist", "list", list));
        json!({"apiVersion": "v1", "kind": "List", "items": items})
    }
}
