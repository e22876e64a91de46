//! Removes secrets from what a report contains.

use crate::exit::PluginError;
use api::names;
use regex::Regex;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

const REMOVED: &str = "[removed]";
const MASKED: &str = "[masked]";
/// A shorter text is also an ordinary word.
const SHORTEST_TEXT: usize = 8;
/// A shorter key cannot be told from other words.
const SHORTEST_KEY: usize = 4;

/// Annotations of other tools that are shown with their values. They say what the tool does with the object.
const SHOWN_ANNOTATIONS: [&str; 6] = [
    "argocd.argoproj.io/",
    "deployment.kubernetes.io/",
    "helm.sh/",
    "kubectl.kubernetes.io/default-container",
    "kustomize.toolkit.fluxcd.io/",
    "meta.helm.sh/",
];

/// What looks like a secret wherever it is, and what replaces it.
const PATTERNS: [(&str, &str); 6] = [
    (
        r#"(?i)(private-token[\\"']*[\s:=]+[\\"']*)[^\s"'\\,}]+"#,
        "${1}[masked]",
    ),
    (
        r#"(?i)(authorization[\\"']*\s*[:=]\s*[\\"']*(?:(?:bearer|basic)\s+)?)[^\s"'\\,}]+"#,
        "${1}[masked]",
    ),
    (
        r#"(?i)(\b(?:api[-_]?key|password|passwd|secret[-_]?key|access[-_]?token)[\\"']*\s*[:=]\s*[\\"']*)[^\s"'\\,}]+"#,
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

    /// Masks an API key from now on. `encoded`: as a Secret has it.
    pub fn add_key(&mut self, key: &str, encoded: &str) {
        let key = key.trim();
        if key.len() >= SHORTEST_KEY {
            self.add_spellings(key);
            self.add_spellings(encoded);
        }
    }

    /// Masks a text, and each of its lines, wherever it is repeated.
    fn add_text(&mut self, text: &str) {
        let lines = text.lines().map(str::trim);
        for part in lines.chain([text.trim()]) {
            if part.chars().count() >= SHORTEST_TEXT {
                self.add_spellings(part);
            }
        }
    }

    fn add_spellings(&mut self, secret: &str) {
        let quoted = Value::from(secret).to_string();
        let quoted = quoted.trim_matches('"').to_owned();
        let percent = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        let spellings = [secret.to_owned(), quoted, percent];
        self.secrets
            .extend(spellings.into_iter().filter(|it| !it.is_empty()));
    }

    /// An object without its secrets, managed fields and copies of its manifest. Its secrets are masked elsewhere from
    /// now on.
    pub fn redact_object(&mut self, mut object: Value) -> Value {
        self.redact_fields(&mut object);
        object
    }

    fn redact_fields(&mut self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|it| self.redact_fields(it)),
            Value::Object(fields) => {
                fields.remove("managedFields");
                for (name, field) in fields {
                    match (name.as_str(), field) {
                        ("annotations", Value::Object(annotations)) => {
                            self.redact_annotations(annotations);
                        }
                        ("value" | "ipxeScriptURL" | "userData" | "postInstallScript", field) => {
                            self.remove_texts(field);
                        }
                        (_, field) => self.redact_fields(field),
                    }
                }
            }
            _ => {}
        }
    }

    /// References to Secrets and ConfigMaps stay.
    fn remove_texts(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => {
                self.add_text(text);
                REMOVED.clone_into(text);
            }
            Value::Array(items) => items.iter_mut().for_each(|it| self.remove_texts(it)),
            Value::Object(fields) => {
                let texts = fields.iter_mut();
                let texts = texts.filter(|(name, _)| !matches!(&***name, "valueFrom" | "encoding"));
                texts.for_each(|(_, field)| self.remove_texts(field));
            }
            _ => {}
        }
    }

    fn redact_annotations(&mut self, annotations: &mut Map<String, Value>) {
        annotations.retain(|name, _| !name.contains("last-applied"));
        for (name, value) in annotations {
            let is_shown = names::ANNOTATIONS.contains(&name.as_str())
                || SHOWN_ANNOTATIONS.iter().any(|it| name.starts_with(it));
            if !is_shown {
                // Other tools may store whole manifests here.
                *value = REMOVED.into();
            }
        }
    }

    /// An object whose texts are masked. In YAML a secret may be on two lines.
    pub fn mask_object(&self, object: Value) -> Value {
        match object {
            Value::String(text) => self.mask(&text).into(),
            Value::Array(items) => items.into_iter().map(|it| self.mask_object(it)).collect(),
            Value::Object(fields) => {
                let fields = fields.into_iter();
                fields
                    .map(|(name, it)| (name, self.mask_object(it)))
                    .collect()
            }
            other => other,
        }
    }

    /// A text without secrets.
    pub fn mask(&self, text: &str) -> String {
        // The longest first: a shorter one may be a part of it.
        let mut secrets: Vec<&String> = self.secrets.iter().collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let mut masked = text.to_owned();
        for secret in secrets {
            if masked.contains(secret.as_str()) {
                masked = masked.replace(secret.as_str(), MASKED);
            }
        }
        for (pattern, replacement) in &self.patterns {
            masked = pattern.replace_all(&masked, *replacement).into_owned();
        }
        masked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn redaction() -> Redaction {
        Redaction::new().unwrap()
    }

    #[test]
    fn texts_of_a_spec_are_removed_and_references_stay() {
        let object = json!({
            "metadata": {
                "name": "web", "managedFields": [{"manager": "x"}],
                "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": "CANARY",
                    "tool.example.com/copy": "CANARY",
                    "flexmetal.dev/acknowledge": "abc",
                },
            },
            "spec": {
                "userData": {"data": {"value": "CANARY"}, "encoding": "Plain"},
                "postInstallScript": {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                "os": {"slug": "x", "kernelParams": [{"key": "a", "value": "CANARY"}], "ipxeScriptURL": "CANARY"},
            },
        });
        let redacted = redaction().redact_object(object);
        assert!(!redacted.to_string().contains("CANARY"), "{redacted}");
        let spec = &redacted["spec"];
        assert_eq!(spec["userData"]["encoding"], "Plain");
        assert_eq!(spec["os"]["kernelParams"][0]["key"], "a");
        assert_eq!(
            spec["postInstallScript"]["valueFrom"]["secretKeyRef"]["name"],
            "s"
        );
        let metadata = &redacted["metadata"];
        assert_eq!(metadata["annotations"]["flexmetal.dev/acknowledge"], "abc");
        assert_eq!(metadata["annotations"]["tool.example.com/copy"], REMOVED);
        assert_eq!(metadata["managedFields"], Value::Null);
    }

    #[test]
    fn script_of_another_form_is_removed_as_well() {
        let object =
            json!({"spec": {"postInstallScript": "CANARY", "userData": {"data": "CANARY"}}});
        let redacted = redaction().redact_object(object);
        assert!(!redacted.to_string().contains("CANARY"), "{redacted}");
    }

    #[test]
    fn removed_texts_are_masked_where_they_are_repeated() {
        let mut redaction = redaction();
        let script = "#!/bin/sh\n  join --token \"q1w2e3\"\nshort\n";
        redaction.redact_object(json!({"value": script}));
        let masked = redaction.mask(
            "refused: join --token \"q1w2e3\"; {\"message\":\"join --token \\\"q1w2e3\\\"\"} short",
        );
        assert!(!masked.contains("q1w2e3"), "{masked}");
        assert!(masked.ends_with("short"), "{masked}");
    }

    #[test]
    fn known_keys_are_masked_in_every_spelling() {
        let mut redaction = redaction();
        redaction.add_key("k/e+y==\n", "ay9lK3k9PQ==");
        let masked = redaction.mask("a=k/e+y== b=k%2Fe%2By%3D%3D c=ay9lK3k9PQ==");
        assert_eq!(masked, "a=[masked] b=[masked] c=[masked]");
    }

    #[test]
    fn what_looks_like_a_key_is_masked() {
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
