//! The chart's objects other than the workload and the CRDs, installed on the real API server, and users to test them.

use std::collections::BTreeSet;
use std::process::Output;

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams, ValidationDirective},
};
use serde_json::{Value, json};

use super::{
    checkout,
    helm::{IMAGE, documents, helm_4, said},
    install::SOON,
    of_kind,
};
use crate::{crds, end_to_end::build_api};
use lab::rig::{Cluster, eventually};

/// The admission policies and roles of a release, installed for one namespace.
pub(super) struct InstalledPolicies<'a> {
    pub(super) cluster: &'a Cluster,
    client: Client,
    pub(super) namespace: String,
}

/// Whether RBAC allows a user to do this, asked like `kubectl auth can-i`: verb, RESOURCE.GROUP[/NAME], then
/// `-n NAMESPACE` or `--subresource=NAME`. A request takes a hundredth of the time of a kubectl.
pub(super) async fn is_allowed(client: &Client, user: &str, question: &[&str]) -> bool {
    let (resource, name) = question[1].split_once('/').unwrap_or((question[1], ""));
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    // RBAC allows nothing of a resource that does not exist, so a forgotten group would pass as forbidden.
    let core = ["namespaces", "pods", "secrets"];
    assert!(
        !group.is_empty() || core.contains(&resource),
        "{question:?}"
    );
    let mut groups = vec!["system:authenticated".to_owned()];
    if let Some(account) = user.strip_prefix("system:serviceaccount:") {
        let (namespace, _) = account.split_once(':').expect("a namespace and a name");
        groups.push("system:serviceaccounts".to_owned());
        groups.push(format!("system:serviceaccounts:{namespace}"));
    }
    let (mut namespace, mut subresource) = ("", "");
    let mut options = question[2..].iter();
    while let Some(option) = options.next() {
        match option.strip_prefix("--subresource=") {
            Some(given) => subresource = given,
            None if *option == "-n" => namespace = options.next().expect("a namespace"),
            None => panic!("{question:?}"),
        }
    }
    let review = json!({"metadata": {}, "spec": {
        "user": user,
        "groups": groups,
        "resourceAttributes": {
            "verb": question[0], "group": group, "resource": resource, "subresource": subresource,
            "name": name, "namespace": namespace,
        },
    }});
    let review: SubjectAccessReview = serde_json::from_value(review).unwrap();
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await;
    answer.unwrap().status.expect("an answer").allowed
}

/// How the cluster-scoped kinds begin.
const CLUSTER_SCOPED: [&str; 2] = ["Cluster", "ValidatingAdmission"];

/// A user of the API server.
pub(super) struct ApiUser<'a> {
    on: &'a InstalledPolicies<'a>,
    user: Option<String>,
    client: Client,
}

impl<'a> InstalledPolicies<'a> {
    /// Installs into the shared cluster, for a new namespace.
    pub(super) async fn start() -> Self {
        let cluster = crds::installed().await;
        Self::install_in(cluster, cluster.namespace("policies").await).await
    }

    /// Installs the chart's objects other than the workload and the CRDs, for one namespace.
    pub(super) async fn install_in(cluster: &'a Cluster, namespace: String) -> Self {
        let client = cluster.client().await;
        let in_force = Self {
            cluster,
            client,
            namespace,
        };
        let counts = [
            ("ValidatingAdmissionPolicy", 8),
            ("ValidatingAdmissionPolicyBinding", 8),
            ("ClusterRole", 4),
            ("ClusterRoleBinding", 1),
        ];
        let objects = in_force.render_chart(&[]);
        let bound = of_kind(&objects, "ValidatingAdmissionPolicyBinding");
        let bound: BTreeSet<_> = bound.map(|it| it["spec"]["policyName"].as_str()).collect();
        let policies = of_kind(&objects, "ValidatingAdmissionPolicy");
        let policies: BTreeSet<_> = policies.map(|it| it["metadata"]["name"].as_str()).collect();
        assert_eq!(bound, policies);
        let mut items = Vec::new();
        for (kind, count) in counts {
            assert!(of_kind(&objects, kind).count() >= count, "{kind}");
            for object in of_kind(&objects, kind) {
                let mut object = object.clone();
                if kind.ends_with("PolicyBinding") {
                    // Other tests use the cluster too, and do what these policies refuse.
                    let name = "kubernetes.io/metadata.name";
                    object["spec"]["matchResources"] = json!({
                        "namespaceSelector": {"matchLabels": {name: in_force.namespace}},
                    });
                }
                items.push(object);
            }
        }
        in_force.admin().apply_all(&items).await.unwrap();
        in_force
    }

    /// The objects that the chart renders as the release `trial`, with additional flags.
    pub(super) fn render_chart(&self, flags: &[&str]) -> Vec<Value> {
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

    /// Name of one of the release's user roles.
    pub(super) fn role_name(&self, of: &str) -> String {
        format!("{}-trial-flexmetal-operator-{of}", self.namespace)
    }

    /// A user who has this cluster role in the namespace and no rights elsewhere.
    pub(super) async fn create_user(&self, role: &str) -> ApiUser<'_> {
        let namespace = &self.namespace;
        let user = format!("{role}-of-{namespace}");
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": role, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        self.admin().apply(&binding).await.unwrap();
        self.act_as(user).await
    }

    async fn act_as(&self, name: String) -> ApiUser<'_> {
        ApiUser {
            on: self,
            client: self.cluster.client_as(&name).await,
            user: Some(name),
        }
    }

    pub(super) fn admin(&self) -> ApiUser<'_> {
        ApiUser {
            on: self,
            client: self.client.clone(),
            user: None,
        }
    }

    pub(super) async fn operator(&self) -> ApiUser<'_> {
        let account = format!(
            "system:serviceaccount:{}:trial-flexmetal-operator",
            self.namespace
        );
        self.act_as(account).await
    }

    /// A user who has all rights in the namespace and no rights elsewhere.
    pub(super) async fn create_tenant(&self) -> ApiUser<'_> {
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
        self.admin().apply_all(&[role, binding]).await.unwrap();
        let tenant = self.act_as(user).await;
        // A new role takes effect a moment later.
        eventually("the tenant may patch", SOON, async || {
            tenant
                .is_allowed(&["patch", "baremetalservers.flexmetal.dev"])
                .await
                .then_some(())
        })
        .await;
        tenant
    }
}

impl ApiUser<'_> {
    /// Grants this user all rights to ClusterProviderAccounts and their status.
    pub(super) async fn grant_cluster_account_writes(&self) {
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
        self.on.admin().apply_all(&[role, binding]).await.unwrap();
    }

    /// Whether RBAC allows this user to do this in the namespace.
    pub(super) async fn is_allowed(&self, question: &[&str]) -> bool {
        let user = self.user.as_ref().expect("not the administrator");
        let question = [question, &["-n", &self.on.namespace]].concat();
        is_allowed(&self.on.client, user, &question).await
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

    /// Applies an object on the server's side, like `kubectl apply --server-side --force-conflicts`: also strictly.
    pub(super) async fn apply(&self, object: &Value) -> Result<(), String> {
        let params = PatchParams {
            field_validation: Some(ValidationDirective::Strict),
            ..PatchParams::apply("kubectl").force()
        };
        let patch = Patch::Apply(object);
        refusal(
            self.api(object)
                .patch(name_of(object), &params, &patch)
                .await,
        )
    }

    pub(super) async fn apply_all<'o>(
        &self,
        objects: impl IntoIterator<Item = &'o Value>,
    ) -> Result<(), String> {
        for object in objects {
            self.apply(object).await?;
        }
        Ok(())
    }

    /// Unlike [`Self::apply`] and kubectl, it does not refuse unknown fields.
    pub(super) async fn create(&self, object: &Value) -> Result<(), String> {
        let params = PostParams::default();
        refusal(self.api(object).create(&params, &dynamic(object)).await)
    }

    /// Replaces a Secret or ConfigMap. Without a resourceVersion, any version. It does not refuse unknown fields.
    pub(super) async fn replace(&self, object: &Value) -> Result<(), String> {
        self.send_replace(object, false).await
    }

    async fn send_replace(&self, object: &Value, dry_run: bool) -> Result<(), String> {
        let params = PostParams {
            dry_run,
            ..PostParams::default()
        };
        let (api, name) = (self.api(object), name_of(object));
        refusal(api.replace(name, &params, &dynamic(object)).await)
    }

    /// Changes an object of this kind: one of ours, or a Secret or ConfigMap.
    pub(super) async fn patch(&self, kind: &str, name: &str, patch: &Value) -> Result<(), String> {
        self.send_patch(kind, name, patch, &PatchParams::default())
            .await
    }

    async fn send_patch(
        &self,
        kind: &str,
        name: &str,
        patch: &Value,
        params: &PatchParams,
    ) -> Result<(), String> {
        let api = self.api(&types_of(kind));
        refusal(api.patch(name, params, &Patch::Merge(patch)).await)
    }

    pub(super) async fn patch_status(
        &self,
        kind: &str,
        name: &str,
        status: &Value,
    ) -> Result<(), String> {
        self.send_status(kind, name, status, &PatchParams::default())
            .await
    }

    async fn send_status(
        &self,
        kind: &str,
        name: &str,
        status: &Value,
        params: &PatchParams,
    ) -> Result<(), String> {
        let (api, patch) = (self.api(&types_of(kind)), json!({"status": status}));
        refusal(api.patch_status(name, params, &Patch::Merge(patch)).await)
    }

    fn api(&self, object: &Value) -> Api<DynamicObject> {
        let kind = object["kind"].as_str().expect("a kind");
        let is_cluster_scoped = CLUSTER_SCOPED.iter().any(|start| kind.starts_with(start));
        let namespace = (!is_cluster_scoped).then_some(&*self.on.namespace);
        build_api(&self.client, namespace, object)
    }

    /// Fails unless a policy refuses the patch with these words.
    pub(super) async fn assert_refused(&self, kind: &str, name: &str, patch: &Value, words: &str) {
        let refused = self.patch(kind, name, patch).await.expect_err(words);
        assert!(refused.contains("ValidatingAdmissionPolicy"), "{refused}");
        assert!(refused.contains(words), "{refused}");
    }

    /// Waits until a policy refuses this patch. The patch is only a dry run.
    pub(super) async fn wait_until_refused(&self, kind: &str, name: &str, patch: &Value) {
        let params = PatchParams::default().dry_run();
        wait_for_policy(async || self.send_patch(kind, name, patch, &params).await).await;
    }

    /// Waits until a policy refuses this status. It is only a dry run.
    pub(super) async fn wait_until_status_refused(&self, kind: &str, name: &str, status: &Value) {
        let params = PatchParams::default().dry_run();
        wait_for_policy(async || self.send_status(kind, name, status, &params).await).await;
    }

    /// Waits until a policy refuses the deletion of this server. It is only a dry run.
    pub(super) async fn wait_until_deletion_refused(&self, server: &str) {
        let delete = ["delete", "bms", server, "--dry-run=server"];
        wait_for_policy(async || self.kubectl(&delete, "").await).await;
    }

    /// Waits until a policy refuses this object. It is only a dry run.
    pub(super) async fn wait_until_replace_refused(&self, object: &Value) {
        wait_for_policy(async || self.send_replace(object, true).await).await;
    }
}

async fn wait_for_policy(try_it: impl AsyncFn() -> Result<(), String>) {
    eventually("the policy is in force", SOON, async || {
        let refused = try_it().await.err()?;
        refused.contains("ValidatingAdmissionPolicy").then_some(())
    })
    .await;
}

/// The API server's message, if it refused. Fails if it did not answer.
fn refusal<T>(answer: kube::Result<T>) -> Result<(), String> {
    match answer {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(status.message),
        Err(error) => panic!("no answer: {error}"),
    }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("a name")
}

fn dynamic(object: &Value) -> DynamicObject {
    serde_json::from_value(object.clone()).expect("an object")
}

/// The apiVersion of one of our kinds, or of a Secret or ConfigMap.
fn types_of(kind: &str) -> Value {
    let api_version = match kind {
        "Secret" | "ConfigMap" => "v1",
        _ => "flexmetal.dev/v1alpha1",
    };
    json!({"apiVersion": api_version, "kind": kind})
}
