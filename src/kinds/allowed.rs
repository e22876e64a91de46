//! Which namespaces a cluster account serves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Namespaces that may use a cluster account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedNamespaces {
    /// Name of the entry, which no other entry has. Required. Mutable.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// Names of namespaces, at most 1000; `*` stands for every namespace. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(min = 1, max = 63), regex(pattern = r"^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$")), extend("x-kubernetes-list-type" = "set"))]
    pub names: Vec<String>,
}

/// Which entries speak of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed<'a> {
    /// Exactly one.
    By(&'a AllowedNamespaces),
    /// None.
    Nowhere,
    /// The first two of several: which one holds cannot be told.
    Twice(&'a AllowedNamespaces, &'a AllowedNamespaces),
}

impl AllowedNamespaces {
    fn matches(&self, namespace: &str) -> bool {
        self.names.iter().any(|n| n == "*" || n == namespace)
    }

    /// What the entries of an account say of a namespace.
    pub fn look_up<'a>(entries: &'a [Self], namespace: &str) -> Allowed<'a> {
        let mut found = entries.iter().filter(|entry| entry.matches(namespace));
        match (found.next(), found.next()) {
            (None, _) => Allowed::Nowhere,
            (Some(entry), None) => Allowed::By(entry),
            (Some(first), Some(second)) => Allowed::Twice(first, second),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_entry_allows_two_do_not() {
        let entry = |name: &str, names: &[&str]| AllowedNamespaces {
            name: name.into(),
            names: names.iter().map(|&n| n.into()).collect(),
        };
        let (teams, all) = (entry("teams", &["a", "b"]), entry("all", &["*"]));
        let none = entry("none", &[]);
        let some = [teams.clone(), none.clone()];
        let every = [none, teams.clone(), all.clone()];
        for (entries, namespace, allowed) in [
            (&some[..], "a", Allowed::By(&teams)),
            (&some, "c", Allowed::Nowhere),
            (&some, "*", Allowed::Nowhere),
            (&every, "c", Allowed::By(&all)),
            (&every, "a", Allowed::Twice(&teams, &all)),
            (&[], "a", Allowed::Nowhere),
        ] {
            assert_eq!(
                AllowedNamespaces::look_up(entries, namespace),
                allowed,
                "{namespace}"
            );
        }
    }
}
