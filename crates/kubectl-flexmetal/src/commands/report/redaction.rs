//! Removes secrets from what a report contains. Of an object, a text is shown only in fields that are known to have no
//! secret; scripts, values and keys are masked wherever else they are repeated.

use crate::exit::PluginError;
use api::names;
use regex::Regex;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

const REMOVED: &str = "[removed]";
const MASKED: &str = "[masked]";
/// A shorter text is also an ordinary word.
const SHORTEST: usize = 8;

/// Fields whose texts are shown. Numbers and booleans always are.
const SHOWN: &str = "
    acquireTime apiVersion args baseURL caBundle cidr comment contractID creationTimestamp deletionPolicies
    deletionPolicy deletionTimestamp absenceCheckInterval absenceGracePeriod action activePollInterval component
    contractIDs egressCIDRs encoding end entryPolicy escalateAfter eventTime expiresAt externalID
    externalReleasePolicy failurePolicy fieldPath filesystem finalizers firstTimestamp holderIdentity host
    hostInstallForm hostname idlePollInterval image instanceType instanceTypes key kind lastTimestamp location
    locations managementPolicy message name namespace namespaces nodeName operator orderTimeout orphanScanInterval
    power publicKey reason releaseDelay renamePolicy renewTime reportingComponent reportingInstance resourceVersion
    serviceAccountName slug start tag tagPolicy tags target timeout ttl type uid usage uuid values window";
/// Fields whose texts are masked wherever they are repeated, too.
const SECRET: [&str; 2] = ["ipxeScriptURL", "value"];
/// Fields in which everything is shown: the operator and the API server write no secret there.
const OPEN: [&str; 4] = ["status", "labels", "matchLabels", "ownerReferences"];

/// What looks like a secret wherever it is, and what replaces it.
const PATTERNS: [(&str, &str); 4] = [
    (
        r#"(?i)((?:private-token|authorization|\b(?:api[-_]?key|password|passwd|secret[-_]?key|access[-_]?token))[\\"']*\s*[:=]\s*[\\"']*(?:(?:bearer|basic)\s+)?)[^\s"'\\,}]+"#,
        "${1}[masked]",
    ),
    (r#"://[^/\s@"']+@"#, "://[masked]@"),
    (
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
        MASKED,
    ),
    (
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
        MASKED,
    ),
];

/// The secrets that are known so far. It has no `Debug`, so it prints none.
pub struct Redaction {
    patterns: Vec<(Regex, &'static str)>,
    secrets: BTreeSet<String>,
}

impl Redaction {
    /// Knows no secret, only what secrets look like.
    pub fn new() -> Result<Self, PluginError> {
        let patterns = PATTERNS.iter().map(|(pattern, replacement)| {
            let pattern = Regex::new(pattern);
            let pattern = pattern.map_err(|error| PluginError::Other(error.to_string()))?;
            Ok((pattern, *replacement))
        });
        Ok(Self {
            patterns: patterns.collect::<Result<_, PluginError>>()?,
            secrets: BTreeSet::new(),
        })
    }

    /// Masks a text, and each of its lines, wherever it is repeated from now on.
    pub fn add_secret(&mut self, text: &str) {
        for part in text.lines().map(str::trim).chain([text.trim()]) {
            if part.chars().count() >= SHORTEST {
                let quoted = Value::from(part).to_string();
                let quoted = quoted.trim_matches('"').to_owned();
                let percent = url::form_urlencoded::byte_serialize(part.as_bytes()).collect();
                self.secrets.extend([part.to_owned(), quoted, percent]);
            }
        }
    }

    /// Removes what is not known to be no secret. Scripts and values are masked elsewhere from now on.
    pub fn redact(&mut self, object: &mut Value) {
        self.redact_field("", object);
    }

    /// `name`: of the field that has the value, or the list of such values.
    fn redact_field(&mut self, name: &str, value: &mut Value) {
        match value {
            Value::String(_) if SHOWN.split_whitespace().any(|shown| shown == name) => {}
            Value::String(text) => {
                if SECRET.contains(&name) {
                    self.add_secret(text);
                }
                REMOVED.clone_into(text);
            }
            Value::Array(items) => items.iter_mut().for_each(|it| self.redact_field(name, it)),
            Value::Object(_) if OPEN.contains(&name) => {}
            Value::Object(fields) if name == "annotations" => retain_own(fields),
            Value::Object(fields) => {
                fields.remove("managedFields");
                fields
                    .iter_mut()
                    .for_each(|(name, it)| self.redact_field(name, it));
            }
            _ => {}
        }
    }

    /// Masks the texts of an object. In YAML a secret may be on two lines.
    pub fn mask_object(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.mask(text),
            Value::Array(items) => items.iter_mut().for_each(|it| self.mask_object(it)),
            Value::Object(fields) => fields.values_mut().for_each(|it| self.mask_object(it)),
            _ => {}
        }
    }

    /// A text without secrets.
    pub fn mask(&self, text: &str) -> String {
        // The longest first: a shorter one may be a part of it.
        let mut secrets: Vec<&String> = self.secrets.iter().collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let mut masked = text.to_owned();
        for secret in secrets {
            masked = masked.replace(secret.as_str(), MASKED);
        }
        for (pattern, replacement) in &self.patterns {
            masked = pattern.replace_all(&masked, *replacement).into_owned();
        }
        masked
    }
}

/// Other tools may store whole manifests in theirs.
fn retain_own(annotations: &mut Map<String, Value>) {
    annotations.retain(|name, _| names::ANNOTATIONS.contains(&name.as_str()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn redaction() -> Redaction {
        Redaction::new().unwrap()
    }

    /// The names of the fields with texts.
    fn add_texts(schema: &Value, name: &str, names: &mut BTreeSet<String>) {
        if schema["type"] == "string" {
            names.insert(name.to_owned());
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            add_texts(field, name, names);
        }
        if schema["items"].is_object() {
            add_texts(&schema["items"], name, names);
        }
    }

    #[test]
    fn every_spec_field_is_shown_or_removed() {
        let mut names = BTreeSet::new();
        for definition in serde_json::to_value(api::all_crds())
            .unwrap()
            .as_array()
            .unwrap()
        {
            let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            add_texts(&schema["properties"]["spec"], "spec", &mut names);
        }
        let shown: BTreeSet<&str> = SHOWN.split_whitespace().collect();
        names.retain(|name| !shown.contains(name.as_str()));
        let removed: Vec<_> = names.iter().map(String::as_str).collect();
        assert_eq!(removed, SECRET);
    }

    #[test]
    fn texts_of_unknown_fields_are_removed() {
        let mut object = json!({
            "metadata": {
                "name": "web", "managedFields": [{"manager": "CANARY"}], "labels": {"team": "a"},
                "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": "CANARY",
                    "flexmetal.dev/acknowledge": "abc",
                },
            },
            "spec": {
                "userData": {"data": {"value": "CANARY"}, "encoding": "Plain"},
                "postInstallScript": {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                "os": {"slug": "x", "kernelParams": [{"key": "a", "value": "CANARY"}], "ipxeScriptURL": "CANARY"},
                "ofALaterVersion": ["CANARY", {"postInstallScript": "CANARY"}],
            },
            "status": {"uuid": "u"},
        });
        redaction().redact(&mut object);
        assert!(!object.to_string().contains("CANARY"), "{object}");
        for shown in ["web", "team", "\"abc\"", "Plain", "\"k\"", "\"x\"", "\"u\""] {
            assert!(object.to_string().contains(shown), "{shown} in {object}");
        }
    }

    #[test]
    fn removed_texts_are_masked_where_they_are_repeated() {
        let mut redaction = redaction();
        let script = "#!/bin/sh\n  join --token \"q1w2e3\"\nshort\n";
        redaction.redact(&mut json!({"value": script}));
        let text =
            "refused: join --token \"q1w2e3\"; {\"m\":\"join --token \\\"q1w2e3\\\"\"} short";
        let masked = redaction.mask(text);
        assert!(!masked.contains("q1w2e3"), "{masked}");
        assert!(masked.ends_with("short"), "{masked}");
        redaction.redact(&mut json!({"strategy": "Recreate"}));
        assert_eq!(redaction.mask("Recreate"), "Recreate", "a common word");
        redaction.add_secret("k/e+y==123\n");
        let masked = redaction.mask("a=k/e+y==123 b=k%2Fe%2By%3D%3D123");
        assert_eq!(masked, "a=[masked] b=[masked]");
    }

    #[test]
    fn possible_key_is_masked() {
        for text in [
            "PRIVATE-TOKEN: CANARY",
            "{\"private-token\": \"CANARY\"}",
            "{\\\"PRIVATE-TOKEN\\\":\\\"CANARY\\\"}",
            "Authorization: Bearer CANARY",
            "apiKey: CANARY",
            "api_key=CANARY",
            "password: \"CANARY\"",
            "--provider-proxy=http://user:CANARY@proxy:3128",
            "eyJhbGciOiJSUzI1NiJ9.CANARYCANARY.CANARYCANARY",
            "-----BEGIN OPENSSH PRIVATE KEY-----\nCANARY\n-----END OPENSSH PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----\nCANARY",
        ] {
            let masked = redaction().mask(text);
            assert!(!masked.contains("CANARY"), "{masked}");
        }
        let plain = "apiKeySecretRef: name; https://api.example.com/v3/host, token: abc, ssh-ed25519 AAAA a@b";
        assert_eq!(redaction().mask(plain), plain);
    }
}
