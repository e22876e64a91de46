//! The roles for people, as somebody who has them: on the real API server, whose controller manager adds them to the
//! roles `view`, `edit` and `admin`.

use serde_json::{Value, json};

use super::{
    in_force::{InForce, Person},
    install::SOON,
    of_kind,
    render::{rendered, strings},
};
use lab::rig::eventually;

/// What each role writes.
pub(super) const SERVERS: [&str; 5] = [
    "baremetalservers",
    "servercommands",
    "servertags",
    "sshkeys",
    "dedicatedhosts",
];
pub(super) const ACCOUNTS: [&str; 2] = ["provideraccounts", "ipwhitelists"];

/// An object of each kind that somebody may want to make, all of them complete.
pub(super) fn object(resource: &str) -> Value {
    let (kind, spec) = match resource {
        "baremetalservers" => return lab::rig::server("web"),
        "servercommands" => (
            "ServerCommand",
            json!({"targetRef": {"name": "web"}, "action": "Reboot"}),
        ),
        "servertags" => ("ServerTag", json!({})),
        "dedicatedhosts" => ("DedicatedHost", json!({"hostID": 1001})),
        "sshkeys" => {
            let key =
                "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBv2kqKzv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1Z";
            ("SshKey", json!({"publicKey": key}))
        }
        "provideraccounts" => (
            "ProviderAccount",
            json!({"apiKeySecretRef": {"name": "key"}}),
        ),
        "clusterprovideraccounts" => (
            "ClusterProviderAccount",
            json!({"baseURL": "https://api.example.com", "apiKeySecretRef": {"name": "key"}}),
        ),
        "ipwhitelists" => {
            let entries = json!([{"name": "here", "cidr": "127.0.0.0/8"}]);
            let egress = json!(["127.0.0.1/32"]);
            (
                "IpWhitelist",
                json!({"apiKeyID": 1, "entries": entries, "egressCIDRs": egress}),
            )
        }
        other => panic!("{other}"),
    };
    json!({"apiVersion": "flexmetal.dev/v1alpha1", "kind": kind, "metadata": {"name": "web"}, "spec": spec})
}

impl Person<'_> {
    async fn reads_soon(&self, resource: &str) {
        eventually(&format!("{resource} can be read"), SOON, async || {
            self.kubectl(&["get", resource], "").await.ok()
        })
        .await;
    }

    /// Makes, changes and deletes an object.
    async fn writes(&self, resource: &str) {
        self.apply(&object(resource)).await.unwrap();
        let change = json!({"metadata": {"labels": {"team": "a"}}});
        self.patch(resource, "web", &change).await.unwrap();
        self.kubectl(&["delete", resource, "web", "--timeout=30s"], "")
            .await
            .unwrap();
    }

    async fn may_not_write(&self, resource: &str) {
        let refused = self.apply(&object(resource)).await.expect_err(resource);
        assert!(refused.contains("forbidden"), "{resource}: {refused}");
    }

    /// What no role for people gives: statuses, which the operator believes, accounts of the cluster, and a deletion
    /// of all objects by one request.
    async fn may_not_do_what_is_nobodys(&self) {
        for resource in SERVERS.iter().chain(&ACCOUNTS) {
            let full = format!("{resource}.flexmetal.dev");
            for question in [
                &["patch", &full, "--subresource=status"][..],
                &["deletecollection", &full],
                &["operate", &full],
            ] {
                self.may_not(question).await;
            }
        }
        for verb in ["create", "patch", "delete"] {
            self.may_not(&[verb, "clusterprovideraccounts.flexmetal.dev"])
                .await;
        }
    }

    async fn may_not(&self, question: &[&str]) {
        let asked = [&["auth", "can-i"], question].concat();
        let answer = self.kubectl(&asked, "").await;
        assert!(answer.is_err(), "{question:?}");
    }
}

#[tokio::test]
async fn a_viewer_sees_everything_and_writes_nothing() {
    let in_force = InForce::start().await;
    // By the role that the chart brings, and by the ordinary one, which contains it.
    for role in [&in_force.role("view"), "view"] {
        let viewer = in_force.person(role).await;
        for resource in SERVERS.iter().chain(&ACCOUNTS) {
            viewer.reads_soon(resource).await;
            viewer.may_not_write(resource).await;
            viewer.may_not(&["delete", resource]).await;
        }
        viewer.may_not_do_what_is_nobodys().await;
    }
}

#[tokio::test]
async fn server_and_account_roles_are_separate() {
    let in_force = InForce::start().await;
    for (role, own, others) in [
        ("servers", &SERVERS[..], &ACCOUNTS[..]),
        ("accounts", &ACCOUNTS, &SERVERS),
    ] {
        let user = in_force.person(&in_force.role(role)).await;
        for resource in own {
            user.reads_soon(resource).await;
            user.writes(resource).await;
        }
        for resource in others {
            user.may_not_write(resource).await;
        }
        user.may_not(&["create", "secrets"]).await;
        user.may_not_do_what_is_nobodys().await;
    }
}

#[tokio::test]
async fn edit_role_writes_only_if_aggregated() {
    let in_force = InForce::start().await;
    let editor = in_force.person("edit").await;
    let all = || SERVERS.iter().chain(&ACCOUNTS);
    for resource in all() {
        editor.reads_soon(resource).await;
        editor.may_not_write(resource).await;
    }
    let roles = in_force.rendered(&["--set=rbac.aggregateToEdit=true"]);
    for role in of_kind(&roles, "ClusterRole") {
        in_force.admin().apply(role).await.unwrap();
    }
    for resource in all() {
        eventually(&format!("{resource} can be made"), SOON, async || {
            editor.apply(&object(resource)).await.ok()
        })
        .await;
        editor.writes(resource).await;
    }
    editor.may_not_do_what_is_nobodys().await;
    // The control plane is shared: back to what a release does by itself.
    for role in of_kind(&in_force.rendered(&[]), "ClusterRole") {
        in_force.admin().apply(role).await.unwrap();
    }
}

#[test]
fn user_roles_aggregate_only_when_enabled() {
    let kinds: Vec<String> = crate::crds::definitions()
        .iter()
        .map(|crd| crd["spec"]["names"]["plural"].as_str().unwrap().to_owned())
        .collect();
    let mut looked_at = 0;
    for (name, objects) in rendered() {
        for role in of_kind(&objects, "ClusterRole") {
            let (of, labels) = (
                role["metadata"]["name"].as_str().unwrap(),
                &role["metadata"]["labels"],
            );
            let label = |of: &str| &labels[format!("rbac.authorization.k8s.io/aggregate-to-{of}")];
            let rule = &role["rules"][0];
            if of.ends_with("-view") {
                assert_eq!(*label("view"), "true", "{name}");
                assert_eq!(strings(&rule["verbs"]), ["get", "list", "watch"], "{name}");
                let mut seen = strings(&rule["resources"]);
                seen.sort();
                let mut all = kinds.clone();
                all.sort();
                assert_eq!(seen, all, "{name}");
            } else if of.ends_with("-servers") || of.ends_with("-accounts") {
                let joins = if name == "simulator" { "true" } else { "false" };
                assert_eq!(*label("edit"), joins, "{name}: {of}");
                assert_eq!(*label("admin"), joins, "{name}: {of}");
                assert!(label("view").is_null(), "{name}: {of}");
            } else {
                // The operator's own.
                for of in ["view", "edit", "admin"] {
                    assert!(label(of).is_null(), "{name}: {labels}");
                }
                continue;
            }
            assert_eq!(role["rules"].as_array().unwrap().len(), 1, "{name}: {of}");
            looked_at += 1;
        }
    }
    // `foreign` has none.
    assert_eq!(looked_at, 9);
}
