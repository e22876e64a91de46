//! The CustomResourceDefinitions: files, schemas, and how the real API server handles them.

mod cel_errors;
mod fixtures;
mod mutations;
mod released;
mod rules;
mod schema;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use http::{Method, Request};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use lab::rig::{Cluster, cluster, eventually, program};
use schema::crds;
pub(crate) use schema::{crds as definitions, root};

const SOON: Duration = Duration::from_secs(30);

/// Installs the CRDs into the shared control plane, once per run, and waits until their kinds can be listed.
pub(crate) async fn installed() -> &'static Cluster {
    static DONE: OnceCell<()> = OnceCell::const_new();
    DONE.get_or_init(|| async { install(cluster()).await })
        .await;
    cluster()
}

/// Installs the CRDs and waits until their kinds can be listed.
pub(crate) async fn install(cluster: &Cluster) {
    let client = cluster.client().await;
    for crd in crds() {
        apply(&client, &crd).await;
    }
    for crd in crds() {
        let path = format!("/apis/{}/v1alpha1/{}", api::GROUP, plural(&crd));
        // The API server serves a kind a moment after its CRD is Established.
        eventually(
            &format!("{} can be listed", plural(&crd)),
            SOON,
            async || {
                let request = Request::get(&path).body(Vec::new()).unwrap();
                client.request::<Value>(request).await.ok()
            },
        )
        .await;
    }
}

/// Applies a CRD server-side and returns the warnings of the answer.
async fn apply(client: &Client, crd: &Value) -> Vec<String> {
    let name = crd["metadata"]["name"].as_str().unwrap();
    let request = Request::builder()
        .method(Method::PATCH)
        .uri(format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}?fieldManager=tests&fieldValidation=Strict"
        ))
        .header("content-type", "application/apply-patch+yaml")
        .body(serde_json::to_vec(crd).unwrap().into())
        .unwrap();
    let answer = client.send(request).await.unwrap();
    let warnings = answer
        .headers()
        .get_all("warning")
        .iter()
        .map(|w| w.to_str().unwrap().to_owned())
        .collect();
    let status = answer.status();
    let body = answer.into_body().collect_bytes().await.unwrap();
    assert!(
        status.is_success(),
        "{name}: {}",
        String::from_utf8_lossy(&body)
    );
    warnings
}

fn plural(crd: &Value) -> &str {
    crd["spec"]["names"]["plural"].as_str().unwrap()
}

/// The files of a folder by name.
fn files(folder: &Path) -> BTreeMap<OsString, String> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            (
                entry.file_name(),
                std::fs::read_to_string(entry.path()).unwrap(),
            )
        })
        .collect()
}

#[test]
fn generated_files_are_current() {
    let (pages, written) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let crdgen = std::process::Command::new(program("examples/crdgen"))
        .args([pages.path(), written.path()])
        .status();
    assert!(crdgen.unwrap().success());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["crds", "deploy/chart/files/crds"] {
        assert!(
            files(written.path()) == files(&root.join(folder)),
            "{folder} is stale: run `make generate`"
        );
    }
    let mut reference = files(&root.join("docs/reference"));
    // `chart/rights.rs` compares the table of rights.
    reference.remove(OsStr::new("rights.md"));
    let [commands, json] = ["cli.md", "json.md"].map(|name| pages.path().join(name));
    let transcript = root.join("tests/integration/end_to_end/plugin/tables.txt");
    let cligen = std::process::Command::new(program("examples/cligen"))
        .args([commands, json, transcript])
        .status();
    assert!(cligen.unwrap().success());
    let json = &reference[OsStr::new("json.md")];
    assert!(json.contains("\n## kubectl flexmetal status NAME\n"));
    assert!(
        files(pages.path()) == reference,
        "docs/reference is stale: run `make generate`"
    );
}

#[tokio::test]
async fn crds_apply_cleanly_and_idempotently() {
    let own = Cluster::own();
    let client = own.client().await;
    for crd in crds() {
        assert_eq!(
            apply(&client, &crd).await,
            Vec::<String>::new(),
            "{}",
            plural(&crd)
        );
    }
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let settled = async |name: &str| {
        eventually("it is established, and seen whole", SOON, async || {
            let crd = api.get(name).await.unwrap();
            let conditions = crd.status.as_ref()?.conditions.as_ref()?;
            let holds = |kind: &str| {
                conditions
                    .iter()
                    .any(|c| c.type_ == kind && c.status == "True")
            };
            assert!(!holds("NonStructuralSchema"), "{conditions:?}");
            (holds("Established") && holds("NamesAccepted")).then_some(crd)
        })
        .await
    };
    for crd in crds() {
        let name = crd["metadata"]["name"].as_str().unwrap();
        let before = settled(name).await;
        assert_eq!(apply(&client, &crd).await, Vec::<String>::new());
        let after = api.get(name).await.unwrap();
        assert_eq!(
            after.resource_version(),
            before.resource_version(),
            "{name} was written again"
        );
    }
}

#[tokio::test]
async fn new_object_is_unobserved_and_selectable() {
    let cluster = installed().await;
    let namespace = cluster.namespace("fresh").await;
    for (kind, spec) in [
        (
            "BareMetalServer",
            json!({"location": "EU: Rotterdam", "instanceType": "bm7.std.8", "os": {"slug": "debian-13"}}),
        ),
        (
            "ProviderAccount",
            json!({"baseURL": "https://api.example.com", "apiKeySecretRef": {"name": "key"}}),
        ),
    ] {
        let object = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": kind, "metadata": {"name": "fresh"}, "spec": spec,
        });
        let made = cluster
            .kubectl_with_input(
                &["-n", &namespace, "create", "-o", "json", "-f", "-"],
                &object.to_string(),
            )
            .await;
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        assert!(
            made.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let shown: Value = serde_json::from_slice(&made.stdout).unwrap();
        assert_eq!(
            shown["status"],
            json!({"observedGeneration": -1}),
            "{kind}: kstatus must not report it as done"
        );
    }

    let get = async |args: &[&str]| {
        cluster
            .kubectl_ok(&[&["-n", &namespace, "get"], args].concat())
            .await
    };
    let table = get(&["bms"]).await;
    let columns: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        columns,
        [
            "NAME", "READY", "REASON", "STATUS", "IP", "TYPE", "LOCATION", "OS", "AGE"
        ]
    );
    for kind in ["pacct", "cpacct"] {
        // kubectl prints no header for an empty table.
        let made = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ClusterProviderAccount", "metadata": {"name": "fresh"},
            "spec": {"baseURL": "https://api.example.com", "apiKeySecretRef": {"name": "key"}},
        });
        let apply = ["apply", "--server-side", "-f", "-"];
        let made = cluster.kubectl_with_input(&apply, &made.to_string()).await;
        assert!(made.status.success(), "{made:?}");
        let head = get(&[kind]).await;
        let columns: Vec<&str> = head.lines().next().unwrap().split_whitespace().collect();
        let shown = ["NAME", "READY", "REASON", "SERVERS", "ORPHANS", "AGE"];
        assert_eq!(columns, shown, "{kind}");
        let wide = get(&[kind, "-o", "wide"]).await;
        let columns: Vec<&str> = wide.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(columns[5..], ["SYNCED", "URL", "MESSAGE", "AGE"], "{kind}");
        // Other tests create ClusterProviderAccounts too.
        for (selector, is_found) in [
            ("spec.apiKeySecretRef.name=key", true),
            ("spec.apiKeySecretRef.name=other", false),
            ("spec.suspend=true", false),
            ("status.operatorLease=nowhere/none", false),
        ] {
            let list = get(&[kind, "--field-selector", selector, "-o", "name"]).await;
            let found = list.lines().any(|line| line.ends_with("/fresh"));
            assert_eq!(found, is_found, "{kind} {selector}");
        }
    }

    let names = ["-o", "name"];
    let of_category = get(&[&["flexmetal"], &names[..]].concat()).await;
    assert!(
        of_category.contains("baremetalserver.flexmetal.dev/fresh")
            && of_category.contains("provideraccount.flexmetal.dev/fresh"),
        "{of_category}"
    );
    let placed = json!({"status": {
        "location": "EU: Rotterdam", "instanceType": "bm7.std.8",
        "accountRef": {"kind": "ProviderAccount", "name": "default"},
    }});
    let placed = placed.to_string();
    let patch = ["patch", "bms", "fresh", "--subresource=status"];
    let how = ["-n", &namespace, "--type=merge", "-p", &placed];
    cluster.kubectl_ok(&[&patch[..], &how].concat()).await;
    let table = get(&["bms"]).await;
    assert!(table.contains("bm7.std.8   EU: Rotterdam"), "{table}");
    for (selector, found) in [
        ("status.location=EU: Rotterdam", 1),
        ("status.location=NL", 0),
        ("status.accountRef.kind=ProviderAccount", 1),
        ("status.accountRef.name=default", 1),
        ("status.accountRef.kind=ClusterProviderAccount", 0),
        ("status.instanceType=bm7.std.8", 1),
        ("status.instanceType=bm8.std.32", 0),
        ("status.uuid=none", 0),
        ("status.providerStatus=delivered", 0),
    ] {
        let list = get(&[&["bms", "--field-selector", selector], &names[..]].concat()).await;
        assert_eq!(list.lines().count(), found, "{selector}");
    }
}

/// YAML reads `On` and `Off` without quotes as booleans.
#[tokio::test]
async fn on_and_off_are_refused_for_spec_power() {
    let cluster = installed().await;
    let namespace = cluster.namespace("power").await;
    let apply = async |kind: &str, spec: &str, power: &str| {
        let manifest = format!(
            "{{apiVersion: flexmetal.dev/v1alpha1, kind: {kind}, metadata: {{name: it}}, spec: {{{spec}, power: {power}}}}}"
        );
        let apply = ["-n", &namespace, "apply", "--dry-run=server", "-f", "-"];
        let applied = cluster.kubectl_with_input(&apply, &manifest).await;
        let said = String::from_utf8_lossy(&applied.stderr).into_owned();
        (applied.status.success(), said)
    };
    for (kind, spec) in [
        (
            "BareMetalServer",
            "location: a, instanceType: b, os: {slug: c}",
        ),
        ("DedicatedHost", "hostID: 1"),
    ] {
        for power in ["On", "Off", "on", "off", "'On'", "'Off'", "'on'", "'off'"] {
            let (taken, said) = apply(kind, spec, power).await;
            assert!(
                !taken && said.contains("spec.power"),
                "{kind} {power}: {said}"
            );
        }
        for power in ["PoweredOn", "PoweredOff"] {
            let (taken, said) = apply(kind, spec, power).await;
            assert!(taken, "{kind} {power}: {said}");
        }
    }
}

#[tokio::test]
async fn kubectl_explains_every_kind_to_its_leaves() {
    let cluster = installed().await;
    for crd in crds() {
        // kubectl reads the schemas from a document that is updated some time after the CRDs.
        let fields = schema::field_names(&crd);
        eventually(
            &format!("kubectl explains all of {}", plural(&crd)),
            SOON,
            async || {
                let output = cluster
                    .kubectl(&["explain", "--recursive", plural(&crd)])
                    .await;
                let text = String::from_utf8(output.stdout).unwrap();
                let words: Vec<&str> = text
                    .lines()
                    .filter_map(|line| line.split_whitespace().next())
                    .collect();
                fields
                    .iter()
                    .all(|field| words.contains(&field.as_str()))
                    .then_some(())
            },
        )
        .await;
    }
}

/// Applying the same manifest again changes nothing. The API server drops the defaulted status of a new object
/// and stores it with the next write, so the test compares from that write on.
#[tokio::test]
async fn a_server_applied_twice_is_not_changed() {
    let cluster = installed().await;
    let namespace = cluster.namespace("twice").await;
    let server = json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer", "metadata": {"name": "twice"},
        "spec": {"location": "EU: Rotterdam", "instanceType": "bm7.std.8", "os": {"slug": "debian-13"}, "tags": ["b", "a:1"]},
    });
    let mut versions = Vec::new();
    for _ in 0..3 {
        let args = [
            "-n",
            &namespace,
            "apply",
            "--server-side",
            "-o",
            "json",
            "-f",
            "-",
        ];
        let applied = cluster.kubectl_with_input(&args, &server.to_string()).await;
        let said = String::from_utf8_lossy(&applied.stderr).into_owned();
        assert!(applied.status.success() && said.is_empty(), "{said}");
        let object: Value = serde_json::from_slice(&applied.stdout).unwrap();
        assert_eq!(object["metadata"]["generation"], 1);
        versions.push(object["metadata"]["resourceVersion"].clone());
    }
    assert_eq!(versions[1], versions[2]);
}
