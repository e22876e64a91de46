//! The user roles, tested by users on the real API server.
//! Its controller manager adds them to the roles `view`, `edit` and `admin`.

use serde_json::{Value, json};

use super::{
    install::SOON,
    installed_policies::{ApiUser, InstalledPolicies},
    of_kind,
    render::{rendered, strings},
};
use lab::rig::eventually;

/// The resources that each role can write.
pub(super) const SERVERS: [&str; 5] = [
    "baremetalservers",
    "servercommands",
    "servertags",
    "sshkeys",
    "dedicatedhosts",
];
pub(super) const ACCOUNTS: [&str; 2] = ["provideraccounts", "ipwhitelists"];

/// A complete object of a resource.
pub(super) fn build_object(resource: &str) -> Value {
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

impl ApiUser<'_> {
    async fn wait_until_readable(&self, resource: &str) {
        eventually(&format!("{resource} can be read"), SOON, async || {
            self.kubectl(&["get", resource], "").await.ok()
        })
        .await;
    }

    /// Creates, changes and deletes an object.
    async fn assert_can_write(&self, resource: &str) {
        let object = build_object(resource);
        self.apply(&object).await.unwrap();
        let change = json!({"metadata": {"labels": {"team": "a"}}});
        let kind = object["kind"].as_str().unwrap();
        self.patch(kind, "web", &change).await.unwrap();
        let get = ["get", &format!("{resource}.flexmetal.dev")];
        assert!(self.is_allowed(&get).await, "{resource}");
        self.kubectl(&["delete", resource, "web", "--timeout=30s"], "")
            .await
            .unwrap();
    }

    async fn assert_cannot_write(&self, resource: &str) {
        let refused = self
            .apply(&build_object(resource))
            .await
            .expect_err(resource);
        assert!(refused.contains("forbidden"), "{resource}: {refused}");
    }

    /// No user role grants these: writing a status (the operator trusts it), ClusterProviderAccounts,
    /// and the deletion of all objects in one request.
    async fn assert_no_reserved_rights(&self) {
        for resource in SERVERS.iter().chain(&ACCOUNTS) {
            let full = format!("{resource}.flexmetal.dev");
            for question in [
                &["patch", &full, "--subresource=status"][..],
                &["deletecollection", &full],
                &["operate", &full],
            ] {
                self.assert_forbidden(question).await;
            }
        }
        for verb in ["create", "patch", "delete"] {
            self.assert_forbidden(&[verb, "clusterprovideraccounts.flexmetal.dev"])
                .await;
        }
    }

    async fn assert_forbidden(&self, question: &[&str]) {
        assert!(!self.is_allowed(question).await, "{question:?}");
    }
}

#[tokio::test]
async fn a_viewer_sees_everything_and_writes_nothing() {
    let in_force = InstalledPolicies::start().await;
    // The chart's own role, and the built-in role that includes it.
    for role in [&in_force.role_name("view"), "view"] {
        let viewer = in_force.create_user(role).await;
        for resource in SERVERS.iter().chain(&ACCOUNTS) {
            viewer.wait_until_readable(resource).await;
            viewer.assert_cannot_write(resource).await;
            let full = format!("{resource}.flexmetal.dev");
            viewer.assert_forbidden(&["delete", &full]).await;
        }
        viewer.assert_no_reserved_rights().await;
    }
}

#[tokio::test]
async fn server_and_account_roles_are_separate() {
    let in_force = InstalledPolicies::start().await;
    for (role, own, others) in [
        ("servers", &SERVERS[..], &ACCOUNTS[..]),
        ("accounts", &ACCOUNTS, &SERVERS),
    ] {
        let user = in_force.create_user(&in_force.role_name(role)).await;
        for resource in own {
            user.wait_until_readable(resource).await;
            user.assert_can_write(resource).await;
        }
        for resource in others {
            user.assert_cannot_write(resource).await;
        }
        user.assert_forbidden(&["create", "secrets"]).await;
        user.assert_no_reserved_rights().await;
    }
}

#[tokio::test]
async fn edit_role_writes_only_if_aggregated() {
    let in_force = InstalledPolicies::start().await;
    let editor = in_force.create_user("edit").await;
    let all = || SERVERS.iter().chain(&ACCOUNTS);
    for resource in all() {
        editor.wait_until_readable(resource).await;
        editor.assert_cannot_write(resource).await;
    }
    let roles = in_force.render_chart(&["--set=rbac.aggregateToEdit=true"]);
    let roles = of_kind(&roles, "ClusterRole");
    in_force.admin().apply_all(roles).await.unwrap();
    for resource in all() {
        eventually(&format!("{resource} can be made"), SOON, async || {
            editor.apply(&build_object(resource)).await.ok()
        })
        .await;
        editor.assert_can_write(resource).await;
    }
    editor.assert_no_reserved_rights().await;
    // The control plane is shared: restore the default roles.
    let roles = in_force.render_chart(&[]);
    let roles = of_kind(&roles, "ClusterRole");
    in_force.admin().apply_all(roles).await.unwrap();
}

#[test]
fn user_roles_aggregate_only_when_enabled() {
    let kinds: Vec<String> = crate::crds::definitions()
        .iter()
        .map(|crd| crd["spec"]["names"]["plural"].as_str().unwrap().to_owned())
        .collect();
    let mut checked = 0;
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
                // The operator's own roles.
                for of in ["view", "edit", "admin"] {
                    assert!(label(of).is_null(), "{name}: {labels}");
                }
                continue;
            }
            assert_eq!(role["rules"].as_array().unwrap().len(), 1, "{name}: {of}");
            checked += 1;
        }
    }
    // `external` has none.
    assert_eq!(checked, 18);
}
