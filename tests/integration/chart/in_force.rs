//! What a release puts into the cluster beside its workload and the definitions, in force on the real API server, and
//! people who try it.

use std::process::Output;

use serde_json::{Value, json};

use super::{
    checkout,
    helm::{IMAGE, documents, helm_4, said},
    install::SOON,
    of_kind,
};
use crate::crds;
use lab::rig::{Cluster, eventually};

/// The policies and the roles of a release, in force, with a namespace of their own.
pub(super) struct InForce<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) namespace: String,
}

/// Somebody who writes with kubectl.
pub(super) struct Person<'a> {
    on: &'a InForce<'a>,
    user: Option<String>,
}

impl<'a> InForce<'a> {
    /// In the shared cluster, in a namespace of their own.
    pub(super) async fn start() -> Self {
        let cluster = crds::installed().await;
        Self::within(cluster, cluster.namespace("policies").await).await
    }

    /// Puts into the cluster what the chart renders beside the workload and the definitions, for one namespace.
    pub(super) async fn within(cluster: &'a Cluster, namespace: String) -> Self {
        let in_force = Self { cluster, namespace };
        let counts = [
            ("ValidatingAdmissionPolicy", 8),
            ("ValidatingAdmissionPolicyBinding", 8),
            ("ClusterRole", 4),
            ("ClusterRoleBinding", 1),
        ];
        let objects = in_force.rendered(&[]);
        for (kind, count) in counts {
            assert!(of_kind(&objects, kind).count() >= count, "{kind}");
            for object in of_kind(&objects, kind) {
                let mut object = object.clone();
                if kind.ends_with("PolicyBinding") {
                    // Other tests have the cluster too, and mean to do what is refused here.
                    let name = "kubernetes.io/metadata.name";
                    object["spec"]["matchResources"] = json!({
                        "namespaceSelector": {"matchLabels": {name: in_force.namespace}},
                    });
                }
                in_force.admin().apply(&object).await.unwrap();
            }
        }
        in_force
    }

    /// What the chart renders as the release `trial`, with flags in addition to what has to be given.
    pub(super) fn rendered(&self, flags: &[&str]) -> Vec<Value> {
        let helm = helm_4();
        let chart = checkout("deploy/chart");
        let template = [
            "template",
            "trial",
            chart.to_str().unwrap(),
            "--namespace",
            &self.namespace,
            "--kube-version=1.36.0",
            IMAGE,
        ];
        let rendered = helm.run(&[&template, flags].concat());
        assert!(rendered.status.success(), "{}", said(&rendered));
        documents(&String::from_utf8(rendered.stdout).unwrap())
    }

    /// A role of the release for people.
    pub(super) fn role(&self, of: &str) -> String {
        format!("{}-trial-flexmetal-operator-{of}", self.namespace)
    }

    /// Somebody who has this cluster role in the namespace, and nothing elsewhere.
    pub(super) async fn person(&self, role: &str) -> Person<'_> {
        let namespace = &self.namespace;
        let user = format!("{role}-of-{namespace}");
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": role, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        self.admin().apply(&binding).await.unwrap();
        Person {
            on: self,
            user: Some(user),
        }
    }

    pub(super) fn admin(&self) -> Person<'_> {
        Person {
            on: self,
            user: None,
        }
    }

    pub(super) fn operator(&self) -> Person<'_> {
        let namespace = &self.namespace;
        Person {
            on: self,
            user: Some(format!(
                "system:serviceaccount:{namespace}:trial-flexmetal-operator"
            )),
        }
    }

    /// Somebody who may do everything in the namespace, and nothing elsewhere.
    pub(super) async fn tenant(&self) -> Person<'_> {
        let namespace = &self.namespace;
        let user = format!("tenant-of-{namespace}");
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "everything", "namespace": namespace},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "everything", "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "everything"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        for object in [role, binding] {
            self.admin().apply(&object).await.unwrap();
        }
        let tenant = Person {
            on: self,
            user: Some(user),
        };
        // The API server hears of a new role some moments later.
        eventually("the tenant may patch", SOON, async || {
            let may = ["auth", "can-i", "patch", "baremetalservers.flexmetal.dev"];
            tenant.kubectl(&may, "").await.ok()
        })
        .await;
        tenant
    }
}

impl Person<'_> {
    /// Lets somebody write accounts of the cluster and their status, as far as rights go.
    pub(super) async fn may_write_cluster_accounts(&self) {
        let (user, name) = (
            self.user.as_ref().unwrap(),
            format!("{}-accounts", self.on.namespace),
        );
        let resources = ["clusterprovideraccounts", "clusterprovideraccounts/status"];
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [{"apiGroups": ["flexmetal.dev"], "resources": resources, "verbs": ["*"]}],
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        for object in [role, binding] {
            self.on.admin().apply(&object).await.unwrap();
        }
    }

    pub(super) async fn kubectl(&self, arguments: &[&str], input: &str) -> Result<(), String> {
        let mut all = vec!["-n", &self.on.namespace];
        if let Some(user) = &self.user {
            all.extend(["--as", user]);
        }
        all.extend(arguments);
        let output: Output = self.on.cluster.kubectl_with_input(&all, input).await;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8(output.stderr).unwrap()),
        }
    }

    pub(super) async fn apply(&self, object: &Value) -> Result<(), String> {
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        self.kubectl(&apply, &object.to_string()).await
    }

    pub(super) async fn patch(&self, kind: &str, name: &str, patch: &Value) -> Result<(), String> {
        let patch = format!("--patch={patch}");
        self.kubectl(&["patch", kind, name, "--type=merge", &patch], "")
            .await
    }

    pub(super) async fn patch_status(
        &self,
        kind: &str,
        name: &str,
        status: &Value,
    ) -> Result<(), String> {
        let patch = format!("--patch={}", json!({"status": status}));
        let status = ["--subresource=status", "--type=merge", &patch];
        self.kubectl(&[&["patch", kind, name], &status[..]].concat(), "")
            .await
    }

    /// Fails unless a policy refuses the patch with these words.
    pub(super) async fn is_refused(&self, kind: &str, name: &str, patch: &Value, words: &str) {
        let refused = self.patch(kind, name, patch).await.expect_err(words);
        assert!(refused.contains("ValidatingAdmissionPolicy"), "{refused}");
        assert!(refused.contains(words), "{refused}");
    }

    /// Waits until a policy is in force: it refuses this patch, which is never carried out.
    pub(super) async fn is_refused_soon(&self, kind: &str, name: &str, patch: &Value) {
        let patch = format!("--patch={patch}");
        let try_it = [
            "patch",
            kind,
            name,
            "--type=merge",
            &patch,
            "--dry-run=server",
        ];
        eventually("the policy is in force", SOON, async || {
            let refused = self.kubectl(&try_it, "").await.err()?;
            refused.contains("ValidatingAdmissionPolicy").then_some(())
        })
        .await;
    }
}
