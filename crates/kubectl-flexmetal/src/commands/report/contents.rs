//! What a report contains: read with the caller's rights, and redacted.

use super::redaction::Redaction;
use crate::{
    account_client::is_forbidden,
    commands::doctor::{self, CheckRow, definitions},
    context::{Context, Scope, ScopeArgs, api_error, list_pages},
    exit::PluginError,
    objects::ObjectKind,
    operator_deployment::{DEFAULT_LEASE, OPERATORS, lease_of, list_deployments},
};
use api::names::{API_KEY_DATA_KEY, API_KEY_SECRET};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Event, Pod, Secret},
};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, LogParams},
};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The last lines of each log.
const LOG_LINES: i64 = 5000;
/// The version of the kinds.
const VERSION: &str = "v1alpha1";

/// What was read, still with secrets. It has no `Debug`, so it prints none.
#[derive(Default)]
pub struct ReportParts {
    /// Objects by the file that they are for.
    objects: BTreeMap<String, Vec<Value>>,
    /// Other files.
    texts: BTreeMap<String, String>,
    /// API keys, plain and as Secrets have them. Only for masking.
    keys: Vec<(String, String)>,
    /// What could not be read.
    pub missing: Vec<String>,
}

impl ReportParts {
    /// Reads everything that the caller may read.
    pub async fn collect(context: &Context, args: &ScopeArgs) -> Self {
        let mut parts = Self::default();
        let scope = context.scope(args);
        for kind in ObjectKind::ALL {
            let objects = list_raw(context, kind, &scope).await;
            parts.add_objects(&format!("objects/{}.yaml", kind.plural()), objects);
        }
        parts.add_keys(context, &scope).await;
        parts.add_events(context, &scope).await;
        parts.add_operator(context).await;
        parts.add_definitions(context).await;
        let checks: Vec<CheckRow> = doctor::run_checks(context, args).await;
        parts.add_data("doctor.yaml", checks);
        let version = json!({"plugin": env!("CARGO_PKG_VERSION")});
        parts.add_data("version.yaml", version);
        parts
    }

    fn add_objects(&mut self, file: &str, objects: Result<Vec<Value>, PluginError>) {
        match objects {
            Ok(objects) => {
                let own = self.objects.entry(file.to_owned()).or_default();
                own.extend(objects);
            }
            Err(error) => self.add_missing(&error),
        }
    }

    fn add_missing(&mut self, error: &PluginError) {
        let right = match is_forbidden(error) {
            true => "missing right: ",
            false => "",
        };
        self.missing.push(format!("{right}{}", error.explain()));
    }

    fn add_data<T: Serialize>(&mut self, file: &str, data: T) {
        self.add_objects(file, to_values(vec![data]));
    }

    /// Reads the keys of the accounts, if the caller may, so that they can be masked.
    async fn add_keys(&mut self, context: &Context, scope: &Scope) {
        let mut secrets = Vec::new();
        for (namespace, name) in self.list_key_secrets(&context.operator_namespace) {
            let secret = context.api_in::<Secret>(&namespace).get_opt(&name).await;
            secrets.extend(secret.ok().flatten());
        }
        let lists: [Api<Secret>; 2] = [
            match &scope.namespace {
                Some(namespace) => context.api_in(namespace),
                None => context.api_of_cluster(),
            },
            context.api_in(&context.operator_namespace),
        ];
        let of_type = ListParams::default().fields(&format!("type={API_KEY_SECRET}"));
        for list in lists {
            let found = list.list(&of_type).await;
            secrets.extend(found.into_iter().flatten());
        }
        for secret in secrets {
            let keys = secret.data.unwrap_or_default().remove(API_KEY_DATA_KEY);
            self.keys.extend(keys.map(|key| {
                let encoded = json!(key);
                let encoded = encoded.as_str().unwrap_or_default().to_owned();
                (String::from_utf8_lossy(&key.0).into_owned(), encoded)
            }));
        }
    }

    /// Namespaces and names of the key Secrets that accounts name.
    fn list_key_secrets(&self, operator_namespace: &str) -> BTreeSet<(String, String)> {
        let kinds = [
            ObjectKind::ProviderAccount,
            ObjectKind::ClusterProviderAccount,
        ];
        let files = kinds.map(|kind| format!("objects/{}.yaml", kind.plural()));
        let accounts = files.iter().filter_map(|file| self.objects.get(file));
        let named = accounts.flatten().filter_map(|account| {
            let name = account["spec"]["apiKeySecretRef"]["name"].as_str()?;
            let namespace = account["metadata"]["namespace"].as_str();
            let namespace = namespace.unwrap_or(operator_namespace);
            Some((namespace.to_owned(), name.to_owned()))
        });
        named.collect()
    }

    async fn add_events(&mut self, context: &Context, scope: &Scope) {
        let file = "events.yaml";
        let events = context.list::<Event>(scope).await;
        let of_ours = |event: &Event| {
            let version = event.involved_object.api_version.as_deref();
            version.is_some_and(|version| version.split('/').next() == Some(api::GROUP))
        };
        let events = events.map(|events| events.into_iter().filter(of_ours).collect());
        self.add_objects(file, events.and_then(to_values));
        let operator = Scope {
            namespace: Some(context.operator_namespace.clone()),
            selector: None,
        };
        let events = context.list::<Event>(&operator).await;
        self.add_objects("operator/events.yaml", events.and_then(to_values));
    }

    async fn add_operator(&mut self, context: &Context) {
        let namespace = &context.operator_namespace;
        let deployments = list_deployments(context).await;
        let leases = deployments.as_deref().unwrap_or_default().iter();
        let mut leases: BTreeSet<(String, String)> = leases.map(lease_of).collect();
        if leases.is_empty() {
            leases.insert((namespace.clone(), DEFAULT_LEASE.to_owned()));
        }
        self.add_objects("operator/deployments.yaml", deployments.and_then(to_values));
        for (namespace, name) in leases {
            let act = format!("read Lease {namespace}/{name}");
            let lease = context.api_in::<Lease>(&namespace).get(&name).await;
            let lease = lease.map_err(|error| api_error(act, error));
            let lease = lease.and_then(|lease| to_values(vec![lease]));
            self.add_objects("operator/leases.yaml", lease);
        }
        let pods = context.api_in::<Pod>(namespace);
        let act = format!("list pods in namespace {namespace}");
        let found = match list_pages(&pods, Some(OPERATORS), &act).await {
            Ok(found) => found,
            Err(error) => return self.add_missing(&error),
        };
        for pod in &found {
            self.add_logs(&pods, pod).await;
        }
        self.add_objects("operator/pods.yaml", to_values(found));
    }

    /// The log of each container, and of the one before a restart.
    async fn add_logs(&mut self, pods: &Api<Pod>, pod: &Pod) {
        let name = pod.name_any();
        let statuses = pod.status.as_ref();
        let statuses = statuses.and_then(|it| it.container_statuses.as_ref());
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        for container in containers.map(|container| &container.name) {
            let mut own = statuses.into_iter().flatten();
            let is_restarted = own.any(|it| it.name == *container && it.restart_count > 0);
            for previous in [false, true] {
                if previous && !is_restarted {
                    continue;
                }
                let params = LogParams {
                    container: Some(container.clone()),
                    tail_lines: Some(LOG_LINES),
                    timestamps: true,
                    previous,
                    ..LogParams::default()
                };
                let end = if previous { ".previous.log" } else { ".log" };
                match pods.logs(&name, &params).await {
                    Ok(log) => {
                        let file = format!("operator/logs/{name}/{container}{end}");
                        self.texts.insert(file, log);
                    }
                    Err(error) => {
                        let act = format!("read the log of pod {name}, container {container}");
                        self.add_missing(&api_error(act, error));
                    }
                }
            }
        }
    }

    async fn add_definitions(&mut self, context: &Context) {
        let mut found = BTreeMap::new();
        for definition in api::all_crds() {
            let name = definition.metadata.name.clone().unwrap_or_default();
            let is_same = definitions::has_same_schema(context, &definition).await;
            found.insert(name, json!({"hasSchemaOfPlugin": is_same}));
        }
        self.add_data("definitions.yaml", found);
    }

    /// The files without secrets, and what is missing.
    pub fn build_files(self) -> Result<BTreeMap<String, String>, PluginError> {
        let mut redaction = Redaction::new()?;
        for (key, encoded) in &self.keys {
            redaction.add_key(key, encoded);
        }
        let redacted = self.objects.into_iter().map(|(file, objects)| {
            let objects = objects.into_iter();
            let objects = objects.map(|object| redaction.redact_object(object));
            (file, objects.collect::<Vec<_>>())
        });
        let redacted: Vec<_> = redacted.collect();
        // From here on the secrets of all objects are known.
        let mut texts = self.texts;
        for (file, objects) in redacted {
            let documents = objects.into_iter().map(|object| {
                serde_saphyr::to_string(&redaction.mask_object(object))
                    .map_err(|error| PluginError::Other(format!("no YAML: {error}")))
            });
            let documents: Vec<String> = documents.collect::<Result<_, _>>()?;
            texts.insert(file, documents.join("---\n"));
        }
        let mut missing = self.missing.join("\n");
        missing.push('\n');
        texts.insert("missing.txt".into(), missing);
        let files = texts.into_iter();
        Ok(files
            .map(|(file, text)| (file, redaction.mask(&text)))
            .collect())
    }
}

fn to_values<T: Serialize>(objects: Vec<T>) -> Result<Vec<Value>, PluginError> {
    let values = objects.into_iter().map(serde_json::to_value);
    values
        .collect::<Result<_, _>>()
        .map_err(|error| PluginError::Other(format!("no JSON: {error}")))
}

/// The objects as the API server has them, also if they do not fit this plugin's schema.
async fn list_raw(
    context: &Context,
    kind: ObjectKind,
    scope: &Scope,
) -> Result<Vec<Value>, PluginError> {
    let gvk = GroupVersionKind::gvk(api::GROUP, VERSION, kind.as_str());
    let resource = ApiResource::from_gvk_with_plural(&gvk, &kind.plural());
    let client = context.client.clone();
    let (objects, place): (Api<DynamicObject>, String) = match &scope.namespace {
        Some(namespace) if !kind.is_of_cluster() => (
            Api::namespaced_with(client, namespace, &resource),
            format!(" in namespace {namespace}"),
        ),
        _ => (Api::all_with(client, &resource), String::new()),
    };
    let mut params = ListParams::default().limit(500);
    params.label_selector.clone_from(&scope.selector);
    let mut found = Vec::new();
    loop {
        let page = objects.list(&params).await;
        let page =
            page.map_err(|error| api_error(format!("list {}{place}", kind.plural()), error))?;
        found.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return to_values(found),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::operator_deployment::tests::deployment;

    /// What no report may have.
    pub const CANARIES: [&str; 6] = [
        "canary-user-data",
        "canary-script",
        "canary-parameter",
        "canary-manifest",
        "canary-api-key",
        "canary-environment",
    ];

    /// Parts with a canary wherever a secret can be.
    pub fn parts() -> ReportParts {
        // Long enough to be folded in YAML.
        let message = format!(
            "The provider refused: {}canary-script --now; key canary-api-key",
            "words ".repeat(12)
        );
        let server = json!({
            "kind": "BareMetalServer",
            "metadata": {"name": "web", "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{\"canary-manifest\":1}",
            }},
            "spec": {
                "userData": {"data": {"value": "canary-user-data"}},
                "postInstallScript": {"value": "#!/bin/sh\ncanary-script --now\n"},
                "os": {"slug": "talos", "kernelParams": [{"key": "a", "value": "canary-parameter"}]},
            },
            "status": {"uuid": "u-1", "conditions": [{"type": "Ready", "message": message}]},
        });
        let account = json!({
            "kind": "ProviderAccount", "metadata": {"namespace": "a", "name": "default"},
            "spec": {"apiKeySecretRef": {"name": "key-of-a"}},
        });
        let mut operator = json!(deployment(&[
            "--provider-proxy=http://u:canary-environment@p"
        ]));
        operator["spec"]["template"]["spec"]["containers"][0]["env"] =
            json!([{"name": "X", "value": "canary-environment"}]);
        let log = "POST PRIVATE-TOKEN: canary-api-key\nkernel parameter canary-parameter\nY2FuYXJ5LWFwaS1rZXk=\n";
        let entry = |file: &str, object: Value| (file.to_owned(), vec![object]);
        ReportParts {
            objects: BTreeMap::from([
                entry("objects/baremetalservers.yaml", server),
                entry("objects/provideraccounts.yaml", account),
                entry("operator/deployments.yaml", operator),
            ]),
            texts: BTreeMap::from([("operator/logs/pod/operator.log".to_owned(), log.to_owned())]),
            keys: vec![("canary-api-key\n".into(), "Y2FuYXJ5LWFwaS1rZXk=".into())],
            missing: vec!["cannot read: canary-api-key".into()],
        }
    }

    #[test]
    fn no_file_has_a_secret() {
        let files = parts().build_files().unwrap();
        let all: String = files.values().map(String::as_str).collect();
        for canary in CANARIES {
            assert!(!all.contains(canary), "{canary} in\n{all}");
        }
        assert!(!all.contains("Y2FuYXJ5"), "the key in base64");
        for shown in ["u-1", "key-of-a", "slug: talos", "The provider refused"] {
            assert!(all.contains(shown), "{shown} is not in\n{all}");
        }
    }

    #[test]
    fn key_secrets_are_those_that_accounts_name() {
        let named = parts().list_key_secrets("ops");
        assert_eq!(
            named,
            BTreeSet::from([("a".to_owned(), "key-of-a".to_owned())])
        );
    }
}
