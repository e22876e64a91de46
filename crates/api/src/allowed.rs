//! Which namespaces a cluster account serves, and within which limits.

use super::{
    account_sizes::LONGEST_ENTRIES,
    limits::Limits,
    records,
    selector::{Labels, NamespaceSelector},
};
use kube_core::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Not;

/// The rule of the entries: their texts leave space for the rest of the object.
pub(super) fn entries_fit() -> Rule {
    let texts = |list: &str| format!("(has({list}) ? {list}.map(t, t.size()).sum() : 0)");
    let namespaces = texts("e.namespaces");
    let [types, locations, contracts] = ["instanceTypes", "locations", "contractIDs"]
        .map(|field| texts(&format!("e.limits.{field}")));
    let limits = format!("(has(e.limits) ? {types} + {locations} + {contracts} : 0)");
    let labels = "(has(e.namespaceSelector.matchLabels) ? e.namespaceSelector.matchLabels.map(k, k.size() + e.namespaceSelector.matchLabels[k].size()).sum() : 0)";
    let values = texts("x.values");
    let expressions = format!(
        "(has(e.namespaceSelector.matchExpressions) ? e.namespaceSelector.matchExpressions.map(x, (has(x.key) ? x.key.size() : 0) + {values}).sum() : 0)"
    );
    let selector = format!("(has(e.namespaceSelector) ? {labels} + {expressions} : 0)");
    Rule::new(format!(
        "self.map(e, (has(e.name) ? e.name.size() : 0) + {namespaces} + {limits} + {selector}).sum() <= {LONGEST_ENTRIES}"
    ))
    .message(&*format!(
        "the names, labels and limits of the entries may not have more than {LONGEST_ENTRIES} characters together; select namespaces by a label, or use several ClusterProviderAccounts"
    ))
}

/// Namespaces that may use a cluster account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedNamespaces {
    /// Name of the entry, unique in the list. Required. Mutable.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// Names of namespaces, at most 20; `*` means every namespace. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), inner(length(min = 1, max = 63), regex(pattern = r"^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$")), extend("x-kubernetes-list-type" = "set"))]
    pub namespaces: Vec<String>,
    /// Namespaces with these labels, in addition to those in `namespaces`. At least one requirement. Default: none.
    /// Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "NamespaceSelector",
        extend("x-kubernetes-map-type" = "atomic")
    )]
    pub namespace_selector: Option<NamespaceSelector>,
    /// If true, nothing is ordered, changed or released through the account for objects of these namespaces, whatever
    /// they say; reads go on. Default: false. Mutable.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub suspend: bool,
    /// Whether objects of these namespaces may adopt (`externalID`) any server of the account that has no tag of an
    /// operator. If false, only a server that was retained in the same namespace. Default: false. Mutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_adoption: Option<bool>,
    /// The provider's numbers of the dedicated hosts, at most 128, that DedicatedHosts of these namespaces may use:
    /// report, switch and install, which wipes them. `allowAdoption` does not allow any. Default: none. Mutable.
    #[serde(default, rename = "hostIDs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(range(min = 1, max = 9_007_199_254_740_991_i64)), extend("x-kubernetes-list-type" = "set"))]
    pub host_ids: Vec<i64>,
    /// Limits on what these namespaces order together, in addition to those of the account. They stop orders, never
    /// releases. Default: none. Mutable.
    #[serde(default, skip_serializing_if = "records::is_unset")]
    pub limits: Limits,
}

/// Which entries select a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceMatch<'a> {
    /// Exactly one.
    Entry(&'a AllowedNamespaces),
    /// None.
    NoEntry,
    /// The first two of several, so none applies.
    TwoEntries(&'a AllowedNamespaces, &'a AllowedNamespaces),
    /// An entry selects namespaces by their labels, and the labels of this one are not known yet.
    Unknown,
}

impl AllowedNamespaces {
    /// Whether the entry selects a namespace; None: that depends on its labels, which are not known.
    pub fn selects_namespace(&self, namespace: &str, labels: Option<&Labels>) -> Option<bool> {
        if self.namespaces.iter().any(|n| n == "*" || n == namespace) {
            return Some(true);
        }
        match &self.namespace_selector {
            None => Some(false),
            Some(selector) => labels.map(|labels| selector.matches(labels)),
        }
    }

    /// The entries that select a namespace with these labels; None: they are not known.
    pub fn match_namespace<'a>(
        entries: &'a [Self],
        namespace: &str,
        labels: Option<&Labels>,
    ) -> NamespaceMatch<'a> {
        let mut found = Vec::new();
        for entry in entries {
            match entry.selects_namespace(namespace, labels) {
                Some(true) => found.push(entry),
                Some(false) => {}
                None => return NamespaceMatch::Unknown,
            }
        }
        match found[..] {
            [] => NamespaceMatch::NoEntry,
            [entry] => NamespaceMatch::Entry(entry),
            [first, second, ..] => NamespaceMatch::TwoEntries(first, second),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, namespaces: &[&str]) -> AllowedNamespaces {
        AllowedNamespaces {
            name: name.into(),
            namespaces: namespaces.iter().map(|&n| n.into()).collect(),
            ..AllowedNamespaces::default()
        }
    }

    #[test]
    fn one_entry_allows_two_do_not() {
        let (teams, all) = (entry("teams", &["a", "b"]), entry("all", &["*"]));
        let none = entry("none", &[]);
        let some = [teams.clone(), none.clone()];
        let every = [none, teams.clone(), all.clone()];
        for (entries, namespace, allowed) in [
            (&some[..], "a", NamespaceMatch::Entry(&teams)),
            (&some, "c", NamespaceMatch::NoEntry),
            (&some, "*", NamespaceMatch::NoEntry),
            (&every, "c", NamespaceMatch::Entry(&all)),
            (&every, "a", NamespaceMatch::TwoEntries(&teams, &all)),
            (&[], "a", NamespaceMatch::NoEntry),
        ] {
            assert_eq!(
                AllowedNamespaces::match_namespace(entries, namespace, None),
                allowed,
                "{namespace}"
            );
        }
    }

    #[test]
    fn labels_count_once_they_are_known() {
        let mut blue = entry("blue", &["a"]);
        let selector = serde_json::json!({"matchLabels": {"team": "blue"}});
        blue.namespace_selector = Some(serde_json::from_value(selector).unwrap());
        let others = entry("others", &["b"]);
        let entries = [blue.clone(), others.clone()];
        let labels = |team: &str| Labels::from([("team".to_owned(), team.to_owned())]);
        let find_match = |namespace: &str, labels: Option<&Labels>| {
            AllowedNamespaces::match_namespace(&entries, namespace, labels)
        };
        assert_eq!(
            find_match("c", Some(&labels("blue"))),
            NamespaceMatch::Entry(&blue)
        );
        assert_eq!(
            find_match("c", Some(&labels("red"))),
            NamespaceMatch::NoEntry
        );
        assert_eq!(
            find_match("b", Some(&labels("red"))),
            NamespaceMatch::Entry(&others)
        );
        let twice = NamespaceMatch::TwoEntries(&blue, &others);
        assert_eq!(find_match("b", Some(&labels("blue"))), twice);
        for namespace in ["b", "c"] {
            assert_eq!(
                find_match(namespace, None),
                NamespaceMatch::Unknown,
                "{namespace}"
            );
        }
        // One entry lists the name; the entry with the selector selects nothing.
        assert_eq!(find_match("a", None), NamespaceMatch::Entry(&blue));
    }
}
