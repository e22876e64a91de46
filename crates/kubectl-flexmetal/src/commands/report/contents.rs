//! What a report contains: read with the caller's rights, and redacted.

use super::redaction::Redaction;
use crate::{
    account_client::is_forbidden,
    commands::doctor,
    context::{ListScope, PluginContext, ScopeArgs, api_error},
    exit::PluginError,
    objects::{self, ObjectKind},
    operator_deployment::{DEFAULT_LEASE, OPERATORS, lease_of, list_deployments},
    output::Row as _,
};
use api::names::API_KEY_DATA_KEY;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Event, Pod, Secret},
};
use kube::{Api, ResourceExt as _, api::LogParams};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The last lines of each log.
const LOG_LINES: i64 = 5000;

/// What was read, still with secrets. It has no `Debug`, so it prints none.
#[derive(Default)]
pub struct ReportParts {
    /// Objects by the file that they are for.
    objects: BTreeMap<String, Vec<Value>>,
    /// Other files.
    texts: BTreeMap<String, String>,
    /// API keys, plain and as Secrets have them. Only for masking.
    keys: Vec<String>,
    /// What could not be read.
    pub missing: Vec<String>,
}

impl ReportParts {
    /// Reads everything that the caller may read.
    pub async fn collect(context: &PluginContext, args: &ScopeArgs) -> Self {
        let mut parts = Self::default();
        let scope = context.scope(args);
        for kind in ObjectKind::ALL {
            let objects = objects::list_dynamic(context, kind, &scope).await;
            parts.add_objects(&format!("objects/{}.yaml", kind.plural()), objects);
        }
        parts.add_keys(context).await;
        let events = context.list::<Event>(&scope).await;
        let is_ours = |event: &Event| {
            let version = event.involved_object.api_version.as_deref();
            version.is_some_and(|version| version.split('/').next() == Some(api::GROUP))
        };
        let events = events.map(|events| events.into_iter().filter(is_ours).collect());
        parts.add_objects("events.yaml", events);
        parts.add_operator(context).await;
        let checks = doctor::run_checks(context, args).await;
        let checks = checks.iter().map(|row| row.cells().join("\t") + "\n");
        parts.texts.insert("doctor.txt".into(), checks.collect());
        let version = format!("{}\n", env!("CARGO_PKG_VERSION"));
        parts.texts.insert("plugin-version.txt".into(), version);
        parts
    }

    fn add_objects<T: Serialize>(&mut self, file: &str, objects: Result<Vec<T>, PluginError>) {
        match objects {
            Ok(objects) => {
                let values = objects
                    .iter()
                    .filter_map(|it| serde_json::to_value(it).ok());
                self.objects
                    .entry(file.to_owned())
                    .or_default()
                    .extend(values);
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

    /// Reads the keys of the accounts, if the caller may, so that they can be masked.
    async fn add_keys(&mut self, context: &PluginContext) {
        for (namespace, name) in self.list_key_secrets(&context.operator_namespace) {
            let secret = context.api_in::<Secret>(&namespace).get_opt(&name).await;
            let data = secret.ok().flatten().and_then(|secret| secret.data);
            if let Some(key) = data.and_then(|mut data| data.remove(API_KEY_DATA_KEY)) {
                self.keys.push(String::from_utf8_lossy(&key.0).into_owned());
                self.keys.extend(json!(key).as_str().map(str::to_owned));
            }
        }
    }

    /// Namespaces and names of the key Secrets that accounts name.
    fn list_key_secrets(&self, operator_namespace: &str) -> BTreeSet<(String, String)> {
        let named = self.objects.values().flatten().filter_map(|account| {
            let name = account["spec"]["apiKeySecretRef"]["name"].as_str()?;
            let namespace = account["metadata"]["namespace"].as_str();
            let namespace = namespace.unwrap_or(operator_namespace);
            Some((namespace.to_owned(), name.to_owned()))
        });
        named.collect()
    }

    async fn add_operator(&mut self, context: &PluginContext) {
        let namespace = &context.operator_namespace;
        let scope = ListScope {
            namespace: Some(namespace.clone()),
            selector: None,
        };
        let events = context.list::<Event>(&scope).await;
        self.add_objects("operator/events.yaml", events);
        let deployments = list_deployments(context).await;
        let leases = deployments.iter().flatten().map(lease_of);
        let mut leases: BTreeSet<(String, String)> = leases.collect();
        if leases.is_empty() {
            leases.insert((namespace.clone(), DEFAULT_LEASE.to_owned()));
        }
        self.add_objects("operator/deployments.yaml", deployments);
        for (namespace, name) in leases {
            let lease = context.api_in::<Lease>(&namespace).get(&name).await;
            let act = format!("read Lease {namespace}/{name}");
            let lease = lease.map_err(|error| api_error(act, error));
            self.add_objects("operator/leases.yaml", lease.map(|lease| vec![lease]));
        }
        let selector = Some(OPERATORS.to_owned());
        let pods = context.list::<Pod>(&ListScope { selector, ..scope }).await;
        for pod in pods.iter().flatten() {
            self.add_logs(&context.api_in(namespace), pod).await;
        }
        self.add_objects("operator/pods.yaml", pods);
    }

    /// The log of each container, and of the one before a restart.
    async fn add_logs(&mut self, pods: &Api<Pod>, pod: &Pod) {
        let name = pod.name_any();
        let statuses = pod.status.iter().flat_map(|it| &it.container_statuses);
        for container in statuses.flatten() {
            for previous in [false, true] {
                if previous && container.restart_count == 0 {
                    continue;
                }
                let params = LogParams {
                    container: Some(container.name.clone()),
                    tail_lines: Some(LOG_LINES),
                    timestamps: true,
                    previous,
                    ..LogParams::default()
                };
                let file = format!(
                    "operator/logs/{name}/{}{}",
                    container.name,
                    if previous { ".previous.log" } else { ".log" }
                );
                match pods.logs(&name, &params).await {
                    Ok(log) => drop(self.texts.insert(file, log)),
                    Err(error) => self.add_missing(&api_error(format!("read {file}"), error)),
                }
            }
        }
    }

    /// The files without secrets, and what is missing.
    pub fn build_files(mut self) -> Result<BTreeMap<String, String>, PluginError> {
        let mut redaction = Redaction::new()?;
        for key in &self.keys {
            redaction.add_secret(key);
        }
        for object in self.objects.values_mut().flatten() {
            redaction.redact(object);
        }
        // From here on the secrets of all objects are known.
        let mut texts = self.texts;
        for (file, mut objects) in self.objects {
            let documents = objects.iter_mut().map(|object| {
                redaction.mask_object(object);
                serde_saphyr::to_string(object)
                    .map_err(|error| PluginError::Other(format!("no YAML: {error}")))
            });
            let documents: Vec<String> = documents.collect::<Result<_, _>>()?;
            if !documents.is_empty() {
                texts.insert(file, documents.join("---\n"));
            }
        }
        if !self.missing.is_empty() {
            texts.insert("missing.txt".into(), self.missing.join("\n") + "\n");
        }
        for text in texts.values_mut() {
            *text = redaction.mask(text);
        }
        Ok(texts)
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
            keys: vec!["canary-api-key\n".into(), "Y2FuYXJ5LWFwaS1rZXk=".into()],
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
        let secret = ("a".to_owned(), "key-of-a".to_owned());
        assert_eq!(named, BTreeSet::from([secret]));
    }
}
