//! What a release grants, and what of it is used.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    checkout,
    helm::{IMAGE, helm_4, said},
    of_kind,
};
use lab::rig::program;

/// One request, as far as rights are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// Where; none is the whole cluster, or an object without namespace.
    pub(super) namespace: Option<String>,
    /// API group.
    pub(super) group: String,
    /// Resource, with its subresource if it has one.
    pub(super) resource: String,
    /// Name, if one was given.
    pub(super) name: Option<String>,
    /// get, list, watch, create, update, patch, delete.
    pub(super) verb: String,
    /// Whether the API server refused it.
    pub(super) refused: bool,
    /// The field manager that it named.
    pub(super) manager: Option<String>,
    /// The user agent that it named.
    pub(super) agent: String,
}

impl Use {
    /// Whether it says who it is of, as each request of the operator does: managedFields name the manager of a write, and
    /// the audit log the agent of everything.
    fn is_signed(&self) -> bool {
        let is_write = ["create", "update", "patch"].contains(&self.verb.as_str());
        let is_managed = self.manager.as_deref() == Some("flexmetal-operator");
        self.agent == concat!("flexmetal-operator/", env!("CARGO_PKG_VERSION"))
            && (is_managed || !is_write)
    }
}

/// One right.
#[derive(Debug)]
pub(super) struct Right {
    /// Where; none is everywhere.
    namespace: Option<String>,
    group: String,
    resource: String,
    /// The only names, if any are given.
    names: Vec<String>,
    verb: String,
}

impl Right {
    /// Whether the request needs this right.
    fn is_used_by(&self, used: &Use) -> bool {
        (self.namespace.is_none() || self.namespace == used.namespace)
            && self.group == used.group
            && self.resource == used.resource
            && self.verb == used.verb
            && (self.names.is_empty() || used.name.as_ref().is_some_and(|n| self.names.contains(n)))
    }
}

/// Every single right that the bindings among the objects give. Roles for people are bound by people.
pub(super) fn granted(objects: &[Value]) -> Vec<Right> {
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
                        rights.push(Right {
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

/// Fails unless every right was used, no request refused, and each one signed.
pub(super) fn compare(granted: &[Right], seen: &[Use]) {
    let unsigned: Vec<&Use> = seen.iter().filter(|used| !used.is_signed()).collect();
    assert!(
        unsigned.is_empty(),
        "another manager or agent: {unsigned:#?}"
    );
    let refused: Vec<&Use> = seen.iter().filter(|used| used.refused).collect();
    assert!(refused.is_empty(), "rights are missing: {refused:#?}");
    // An event that happens again within minutes is patched, and an object is read where somebody
    // else wrote it at the same time; a good run has none of either.
    let for_bad_days = |right: &Right| match right.resource.as_str() {
        "events" => right.verb == "patch",
        // A server that is past its end deletes itself.
        "baremetalservers" => right.verb == "delete",
        "provideraccounts" | "clusterprovideraccounts" | "servertags" | "ipwhitelists" => {
            right.verb == "get"
        }
        _ => false,
    };
    // That of another operator, which a good run has not.
    let is_others = |right: &Right| right.resource == "leases" && right.namespace.is_none();
    // The admission policies ask for it; no request has it.
    let is_asked_for = |right: &Right| right.verb == "operate";
    let unused: Vec<&Right> = granted
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
        if name == "foreign" {
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
            // And a Secret with a password whose time is over.
            let ends_by_itself = ["baremetalservers", "servercommands", "secrets"];
            assert!(
                !deletes || ends_by_itself.contains(&right.resource.as_str()),
                "{name}: {right:?}"
            );
            if right.resource == "leases" {
                // Written in the namespace of the release, by name; read elsewhere where all namespaces are watched.
                let is_read = right.verb == "get";
                assert!(is_read || right.namespace.is_some(), "{name}: {right:?}");
                let is_others = right.namespace.is_none();
                assert!(!is_others || name != "namespaced", "{name}: {right:?}");
                let is_named = !is_others && right.verb != "create";
                assert_eq!(right.names.is_empty(), !is_named, "{name}: {right:?}");
            }
            let is_update = right.verb == "update";
            // What a server owns; the admission policies say the rest.
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
                // Accounts of the cluster select namespaces by their labels, and a server belongs to the UID of its
                // namespace: an operator of some namespaces reads these and kube-system.
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
    let used = Use {
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
    let fails = |changed: Use| {
        std::panic::catch_unwind(|| compare(&rights, &[changed])).unwrap_err();
    };
    fails(Use {
        refused: true,
        ..used.clone()
    });
    fails(Use {
        namespace: Some("b".to_owned()),
        ..used.clone()
    });
    fails(Use {
        name: Some("other".to_owned()),
        ..used.clone()
    });
    fails(Use {
        verb: "patch".to_owned(),
        manager: Some("flexmetal-operator".to_owned()),
        ..used.clone()
    });
    fails(Use {
        agent: "kube-rs".to_owned(),
        ..used.clone()
    });
    let write = |manager: Option<&str>| Use {
        verb: "patch".to_owned(),
        manager: manager.map(str::to_owned),
        ..used.clone()
    };
    assert!(write(Some("flexmetal-operator")).is_signed());
    assert!(!write(Some("unknown")).is_signed() && !write(None).is_signed());
    fails(Use {
        resource: "configmaps".to_owned(),
        ..used
    });
}
