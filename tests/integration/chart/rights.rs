//! The rights that a release grants, and which of them the operator uses.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    checkout,
    helm::{IMAGE, helm_4, said},
    of_kind,
};
use lab::rig::program;

/// The rights that one request needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UsedRight {
    /// Namespace. None means the whole cluster, or an object without namespace.
    pub(super) namespace: Option<String>,
    /// API group.
    pub(super) group: String,
    /// Resource, with its subresource if it has one.
    pub(super) resource: String,
    /// Name, if the request has one.
    pub(super) name: Option<String>,
    /// get, list, watch, create, update, patch, delete.
    pub(super) verb: String,
    /// Whether the API server refused the request.
    pub(super) refused: bool,
    /// Field manager of the request.
    pub(super) manager: Option<String>,
    /// User agent of the request.
    pub(super) agent: String,
}

impl UsedRight {
    /// Whether a write names the operator's field manager (for managedFields) and a request its user agent (for the
    /// audit log).
    fn is_signed(&self) -> bool {
        let is_write = ["create", "update", "patch"].contains(&self.verb.as_str());
        let is_managed = self.manager.as_deref() == Some("flexmetal-operator");
        self.agent == concat!("flexmetal-operator/", env!("CARGO_PKG_VERSION"))
            && (is_managed || !is_write)
    }
}

#[derive(Debug)]
pub(super) struct GrantedRight {
    /// Namespace. None means all namespaces.
    namespace: Option<String>,
    group: String,
    resource: String,
    /// The only names that the rule allows, if any.
    names: Vec<String>,
    verb: String,
}

impl GrantedRight {
    /// Whether the request needs this right.
    fn is_used_by(&self, used: &UsedRight) -> bool {
        (self.namespace.is_none() || self.namespace == used.namespace)
            && self.group == used.group
            && self.resource == used.resource
            && self.verb == used.verb
            && (self.names.is_empty() || used.name.as_ref().is_some_and(|n| self.names.contains(n)))
    }
}

/// Every right that the bindings among the objects grant. Administrators bind the user roles.
pub(super) fn granted(objects: &[Value]) -> Vec<GrantedRight> {
    let mut rights = Vec::new();
    let bindings = of_kind(objects, "RoleBinding").chain(of_kind(objects, "ClusterRoleBinding"));
    let bound: BTreeSet<(&str, &str)> = bindings
        .map(|binding| {
            let role = &binding["roleRef"];
            (
                role["kind"].as_str().unwrap(),
                role["name"].as_str().unwrap(),
            )
        })
        .collect();
    for role in of_kind(objects, "Role").chain(of_kind(objects, "ClusterRole")) {
        let name = role["metadata"]["name"].as_str().unwrap();
        if !bound.contains(&(role["kind"].as_str().unwrap(), name)) {
            continue;
        }
        let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
        for rule in role["rules"].as_array().unwrap() {
            let list = |key: &str| -> Vec<String> {
                rule[key]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|v| v.as_str().unwrap().to_owned())
                    .collect()
            };
            for group in list("apiGroups") {
                for resource in list("resources") {
                    for verb in list("verbs") {
                        rights.push(GrantedRight {
                            namespace: namespace.clone(),
                            group: group.clone(),
                            resource: resource.clone(),
                            names: list("resourceNames"),
                            verb,
                        });
                    }
                }
            }
        }
    }
    assert!(!rights.is_empty());
    rights
}

#[test]
fn documented_rights_match_the_chart() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("rights.md");
    let written = std::fs::read_to_string(checkout("docs/reference/rights.md")).unwrap();
    let render = |file: &str, more: &[&str]| {
        let chart = checkout("deploy/chart");
        let head = ["template", "flexmetal-operator", chart.to_str().unwrap()];
        let namespace = ["--namespace", "flexmetal-system", IMAGE];
        let output = helm_4().run(&[&head[..], &namespace, more].concat());
        assert!(output.status.success(), "{}", said(&output));
        let path = folder.path().join(file);
        std::fs::write(&path, output.stdout).unwrap();
        path
    };
    let all = render("all", &[]);
    let some = render("some", &["--set", "watchNamespaces={team-a}"]);
    let rightsgen = std::process::Command::new(program("examples/rightsgen"))
        .args([&page, &all, &some])
        .status();
    assert!(rightsgen.unwrap().success());
    let generated = std::fs::read_to_string(&page).unwrap();
    assert!(generated == written, "run `make generate`: {generated}");
}

/// Fails unless every right was used, no request was refused, and every request is signed.
pub(super) fn compare(granted: &[GrantedRight], seen: &[UsedRight]) {
    let unsigned: Vec<&UsedRight> = seen.iter().filter(|used| !used.is_signed()).collect();
    assert!(
        unsigned.is_empty(),
        "another manager or agent: {unsigned:#?}"
    );
    let refused: Vec<&UsedRight> = seen.iter().filter(|used| used.refused).collect();
    assert!(refused.is_empty(), "rights are missing: {refused:#?}");
    // These rights need a conflict, a repeated event or an expired server. A normal run has none of them.
    let for_bad_days = |right: &GrantedRight| match right.resource.as_str() {
        "events" => right.verb == "patch",
        // The operator deletes a server that has expired.
        "baremetalservers" => right.verb == "delete",
        "provideraccounts" | "clusterprovideraccounts" | "servertags" | "ipwhitelists" => {
            right.verb == "get"
        }
        _ => false,
    };
    // Leases of other operators. A normal run has none.
    let is_others = |right: &GrantedRight| right.resource == "leases" && right.namespace.is_none();
    // The admission policies check it with the authorizer. No request uses it.
    let is_asked_for = |right: &GrantedRight| right.verb == "operate";
    let unused: Vec<&GrantedRight> = granted
        .iter()
        .filter(|right| {
            !for_bad_days(right)
                && !is_others(right)
                && !is_asked_for(right)
                && !seen.iter().any(|used| right.is_used_by(used))
        })
        .collect();
    assert!(unused.is_empty(), "granted and never used: {unused:#?}");
}

#[test]
fn rendered_roles_have_only_known_verbs() {
    for (name, objects) in super::render::rendered() {
        if name == "external" {
            let roles = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];
            assert!(
                roles
                    .iter()
                    .all(|kind| of_kind(&objects, kind).next().is_none())
            );
            continue;
        }
        for right in granted(&objects) {
            let words = [&right.group, &right.resource, &right.verb];
            assert!(words.iter().all(|w| !w.contains('*')), "{name}: {right:?}");
            let known = [
                "get", "list", "watch", "create", "patch", "update", "operate", "delete",
            ];
            assert!(known.contains(&right.verb.as_str()), "{name}: {right:?}");
            let deletes = right.verb == "delete";
            // The operator deletes password Secrets that have expired.
            let ends_by_itself = ["baremetalservers", "servercommands", "secrets"];
            assert!(
                !deletes || ends_by_itself.contains(&right.resource.as_str()),
                "{name}: {right:?}"
            );
            if right.resource == "leases" {
                // Written by name in the release's namespace. Read in all namespaces if the operator watches all of
                // them.
                let is_read = right.verb == "get";
                assert!(is_read || right.namespace.is_some(), "{name}: {right:?}");
                let is_others = right.namespace.is_none();
                assert!(!is_others || name != "namespaced", "{name}: {right:?}");
                let is_named = !is_others && right.verb != "create";
                assert_eq!(right.names.is_empty(), !is_named, "{name}: {right:?}");
            }
            let is_update = right.verb == "update";
            // Objects that a server owns. The admission policies check the owner.
            let written = ["leases", "secrets", "configmaps"];
            assert!(
                !is_update || written.contains(&right.resource.as_str()),
                "{name}: {right:?}"
            );
            assert!(
                name != "namespaced" || !right.resource.starts_with("clusterprovideraccounts"),
                "{right:?}"
            );
            if ["secrets", "configmaps"].contains(&right.resource.as_str()) {
                assert!(
                    ["get", "patch", "create", "update", "delete"].contains(&right.verb.as_str()),
                    "{name}: {right:?}"
                );
                assert_eq!(
                    right.namespace.is_none(),
                    name != "namespaced",
                    "{name}: {right:?}"
                );
            }
            if right.resource == "customresourcedefinitions" {
                assert!(!right.names.is_empty(), "{name}: {right:?}");
            }
            if right.resource == "namespaces" {
                // ClusterProviderAccounts select namespaces by label, and an owner hash needs the UID of the namespace.
                // An operator of some namespaces reads only these and kube-system.
                let is_read = ["get", "list", "watch"].contains(&right.verb.as_str());
                let is_get = right.verb == "get";
                let is_own = is_get && (right.namespace.is_some() || !right.names.is_empty());
                assert!(
                    is_own || is_read && name != "namespaced",
                    "{name}: {right:?}"
                );
            }
        }
    }
}

#[test]
fn comparison_tells_missing_and_idle_rights() {
    let role = json!({
        "kind": "Role", "metadata": {"name": "r", "namespace": "a"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["key"]}],
    });
    let mut unbound = role.clone();
    unbound["metadata"]["name"] = json!("for-people");
    let binding = json!({"kind": "RoleBinding", "roleRef": {"kind": "Role", "name": "r"}});
    let rights = granted(&[role, unbound, binding]);
    assert_eq!(rights.len(), 1, "{rights:?}");
    let used = UsedRight {
        namespace: Some("a".to_owned()),
        group: String::new(),
        resource: "secrets".to_owned(),
        name: Some("key".to_owned()),
        verb: "get".to_owned(),
        refused: false,
        manager: None,
        agent: format!("flexmetal-operator/{}", env!("CARGO_PKG_VERSION")),
    };
    compare(&rights, std::slice::from_ref(&used));
    let fails = |changed: UsedRight| {
        std::panic::catch_unwind(|| compare(&rights, &[changed])).unwrap_err();
    };
    fails(UsedRight {
        refused: true,
        ..used.clone()
    });
    fails(UsedRight {
        namespace: Some("b".to_owned()),
        ..used.clone()
    });
    fails(UsedRight {
        name: Some("other".to_owned()),
        ..used.clone()
    });
    fails(UsedRight {
        verb: "patch".to_owned(),
        manager: Some("flexmetal-operator".to_owned()),
        ..used.clone()
    });
    fails(UsedRight {
        agent: "kube-rs".to_owned(),
        ..used.clone()
    });
    let write = |manager: Option<&str>| UsedRight {
        verb: "patch".to_owned(),
        manager: manager.map(str::to_owned),
        ..used.clone()
    };
    assert!(write(Some("flexmetal-operator")).is_signed());
    assert!(!write(Some("unknown")).is_signed() && !write(None).is_signed());
    fails(UsedRight {
        resource: "configmaps".to_owned(),
        ..used
    });
}
