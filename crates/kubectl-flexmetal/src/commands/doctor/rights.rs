//! The rights of the caller and of the operator's ServiceAccount.

use super::CheckRow;
use crate::{
    context::{PluginContext, ScopeArgs, api_error},
    exit::PluginError,
    objects::ObjectKind,
    operator_deployment::{flag_values, lease_of, pod_spec},
};
use flexmetal_core::wording::listed;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::{apps::v1::Deployment, authorization::v1::ResourceAttributes};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The rights that the chart grants, as the page of the docs lists them.
const GRANTED: &str = include_str!("../../../../../docs/reference/rights.md");
/// Reviews at a time.
const CONCURRENT: usize = 8;
const VERBS: [&str; 5] = ["get", "list", "create", "patch", "delete"];

/// What the operator of a Deployment needs, one entry for each verb, name and namespace.
fn list_needed(deployment: &Deployment) -> Vec<ResourceAttributes> {
    let watched = flag_values(deployment, "--watch-namespace");
    let (lease_namespace, lease) = lease_of(deployment);
    let mut needed = Vec::new();
    for row in GRANTED.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [what, verbs, everywhere, with_watched] = cells[..] else {
            continue;
        };
        let namespaces = match if watched.is_empty() {
            everywhere
        } else {
            with_watched
        } {
            "everywhere" => vec![None],
            "in the release's namespace" => vec![Some(lease_namespace.as_str())],
            "in each of these namespaces" => watched.iter().copied().map(Some).collect(),
            _ => Vec::new(),
        };
        // The resource, and the names of objects that the right is limited to.
        let mut quoted = what.split('`').skip(1).step_by(2);
        let resource = quoted.next().unwrap_or_default();
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let mut names: Vec<&str> = quoted.collect();
        if let ("leases", [name]) = (resource, &mut names[..]) {
            // The page shows the default.
            *name = &lease;
        }
        if names.is_empty() {
            names.push("");
        }
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        for (namespace, name) in namespaces
            .iter()
            .flat_map(|namespace| names.iter().map(move |name| (namespace, name)))
        {
            needed.extend(verbs.split(", ").map(|verb| ResourceAttributes {
                group: Some(group.to_owned()),
                resource: some(resource),
                subresource: some(subresource),
                verb: some(verb),
                name: some(name),
                namespace: namespace.map(str::to_owned),
                ..ResourceAttributes::default()
            }));
        }
    }
    needed
}

/// Whether the ServiceAccount of each operator has the rights that the chart grants.
pub async fn check_operator_rights(
    context: &PluginContext,
    deployments: &[Deployment],
) -> Vec<CheckRow> {
    let check = "rights of the operator";
    let mut rows = Vec::new();
    for deployment in deployments {
        let account = pod_spec(deployment).and_then(|pod| pod.service_account_name.as_deref());
        let namespace = deployment.namespace().unwrap_or_default();
        let account = account.unwrap_or("default");
        let user = format!("system:serviceaccount:{namespace}:{account}");
        let lacking = find_lacking(context, Some(&user), list_needed(deployment)).await;
        rows.push(match lacking {
            Ok(lacking) => judge_operator(check, &user, &lacking),
            Err(error) => CheckRow::failed(check, &error, "\"create\" on subjectaccessreviews"),
        });
    }
    rows
}

fn judge_operator(check: &str, user: &str, lacking: &[ResourceAttributes]) -> CheckRow {
    if lacking.is_empty() {
        return CheckRow::ok(check, format!("{user} has all that it needs"));
    }
    let lacking: Vec<String> = lacking.iter().map(describe_right).collect();
    let lacking = listed(lacking.iter().map(String::as_str));
    CheckRow::problem(
        check,
        format!("{user} lacks {lacking}"),
        "Install the chart again, or with rbac.create: false grant what docs/reference/rights.md lists",
    )
}

/// Such as `"get" on secrets in namespace a`.
fn describe_right(right: &ResourceAttributes) -> String {
    let text = |before: &str, field: &Option<String>| {
        let field = field.as_ref();
        field.map_or_else(String::new, |it| format!("{before}{it}"))
    };
    format!(
        "\"{}\" on {}{}{}",
        text("", &right.verb),
        text("", &right.resource),
        text("/", &right.subresource),
        text(" in namespace ", &right.namespace),
    )
}

/// Which of the rights are not granted to the user, or to the caller.
async fn find_lacking(
    context: &PluginContext,
    user: Option<&str>,
    needed: Vec<ResourceAttributes>,
) -> Result<Vec<ResourceAttributes>, PluginError> {
    let answers = stream::iter(needed).map(|right| async move {
        let is_granted = review(context, user, right.clone()).await?;
        Ok::<_, PluginError>(Some(right).filter(|_| !is_granted))
    });
    let answers: Vec<_> = answers.buffered(CONCURRENT).try_collect().await?;
    Ok(answers.into_iter().flatten().collect())
}

async fn review(
    context: &PluginContext,
    user: Option<&str>,
    right: ResourceAttributes,
) -> Result<bool, PluginError> {
    let (kind, whose) = match user {
        Some(user) => ("SubjectAccessReview", format!("the rights of {user}")),
        None => ("SelfSubjectAccessReview", "your rights".to_owned()),
    };
    let group = "authorization.k8s.io/v1";
    let mut spec = json!({"resourceAttributes": right});
    if let Some(user) = user {
        spec["user"] = user.into();
    }
    let body = json!({"apiVersion": group, "kind": kind, "spec": spec}).to_string();
    let request = http::Request::post(format!("/apis/{group}/{}s", kind.to_lowercase()))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.into_bytes())
        .map_err(|error| PluginError::Other(error.to_string()))?;
    let answer = context.client.request::<Value>(request).await;
    let answer = answer.map_err(|error| api_error(format!("review {whose}"), error))?;
    Ok(answer["status"]["allowed"] == true)
}

/// What the caller may do with each kind, and whether with Secrets.
pub async fn check_own_rights(context: &PluginContext, scope: &ScopeArgs) -> Vec<CheckRow> {
    let check = "your rights";
    let namespace = context.scope(scope).namespace;
    let asked = list_asked(namespace.as_deref());
    match find_lacking(context, None, asked.clone()).await {
        Ok(lacking) => judge_own(check, namespace.as_deref(), &asked, &lacking),
        Err(error) => {
            let right = "\"create\" on selfsubjectaccessreviews";
            vec![CheckRow::failed(check, &error, right)]
        }
    }
}

fn list_asked(namespace: Option<&str>) -> Vec<ResourceAttributes> {
    let right = |group: &str, resource: String, verb: &str, is_wide: bool| ResourceAttributes {
        group: Some(group.to_owned()),
        resource: Some(resource),
        verb: Some(verb.to_owned()),
        namespace: namespace.filter(|_| !is_wide).map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let kinds = ObjectKind::ALL.into_iter();
    let of_kinds = kinds.flat_map(|kind| {
        VERBS.map(|verb| right(api::GROUP, kind.plural(), verb, kind.is_of_cluster()))
    });
    let secrets = right("", "secrets".to_owned(), "get", false);
    of_kinds.chain([secrets]).collect()
}

/// One row for all resources with the same verbs.
fn judge_own(
    check: &str,
    namespace: Option<&str>,
    asked: &[ResourceAttributes],
    lacking: &[ResourceAttributes],
) -> Vec<CheckRow> {
    let mut verbs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for right in asked {
        if let (Some(resource), Some(verb)) = (&right.resource, &right.verb) {
            let granted = verbs.entry(resource).or_default();
            granted.extend(Some(verb.as_str()).filter(|_| !lacking.contains(right)));
        }
    }
    let mut groups: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
    for (resource, granted) in verbs {
        groups.entry(granted).or_default().push(resource);
    }
    let place = namespace.map_or_else(
        || "in all namespaces".to_owned(),
        |namespace| format!("in namespace {namespace}"),
    );
    let rows = groups.into_iter().map(|(granted, resources)| {
        // No right is a problem by itself: not every user needs all.
        let granted = match granted.is_empty() {
            true => "none".to_owned(),
            false => granted.join(", "),
        };
        CheckRow::ok(
            check,
            format!("{granted} {place} on {}", resources.join(", ")),
        )
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator_deployment::tests::deployment;

    fn needed(arguments: &[&str]) -> Vec<String> {
        let all = list_needed(&deployment(arguments));
        all.iter().map(describe_right).collect()
    }

    #[test]
    fn page_of_rights_has_the_expected_form() {
        let rows = GRANTED.lines().filter(|line| line.starts_with("| `"));
        for row in rows {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [_, _, everywhere, with_watched] = cells[..] else {
                panic!("{row}");
            };
            for place in [everywhere, with_watched] {
                let places = [
                    "everywhere",
                    "in the release's namespace",
                    "in each of these namespaces",
                    "no",
                ];
                assert!(places.contains(&place), "{row}");
            }
        }
    }

    #[test]
    fn operator_of_some_namespaces_needs_rights_there() {
        let all = needed(&[]);
        let some = needed(&["--watch-namespace=a", "--watch-namespace=b"]);
        for (rights, right, is_needed) in [
            (&all, "\"get\" on secrets", true),
            (&all, "\"list\" on clusterprovideraccounts", true),
            (&all, "\"patch\" on sshkeys/status", true),
            (&some, "\"get\" on secrets in namespace a", true),
            (&some, "\"get\" on secrets in namespace b", true),
            (&some, "\"list\" on clusterprovideraccounts", false),
            (&some, "\"operate\" on baremetalservers", true),
        ] {
            assert_eq!(rights.contains(&right.to_owned()), is_needed, "{right}");
        }
    }

    #[test]
    fn lease_of_the_flags_is_asked_for() {
        let all = list_needed(&deployment(&["--leader-election-name=other"]));
        let update = |it: &&ResourceAttributes| {
            it.resource.as_deref() == Some("leases") && it.verb.as_deref() == Some("update")
        };
        let right = all.iter().find(update).unwrap();
        assert_eq!(right.name.as_deref(), Some("other"));
        assert_eq!(right.namespace.as_deref(), Some("ops"));
    }

    #[test]
    fn lacking_rights_of_the_operator_are_named() {
        let all = list_needed(&deployment(&[]));
        let row = judge_operator("rights", "user", &all[..1]);
        assert!(row.message.starts_with("user lacks \"operate\" on "));
        assert_eq!(judge_operator("rights", "user", &[]).remedy, None);
    }

    #[test]
    fn own_rights_are_grouped_by_verbs() {
        let asked = list_asked(Some("a"));
        let is_read = |right: &ResourceAttributes| {
            let verb = right.verb.as_deref();
            right.group.as_deref() == Some(api::GROUP) && matches!(verb, Some("get" | "list"))
        };
        let lacking = asked.iter().filter(|it| !is_read(it)).cloned();
        let rows = judge_own("rights", Some("a"), &asked, &lacking.collect::<Vec<_>>());
        let messages: Vec<_> = rows.iter().map(|row| row.message.as_str()).collect();
        assert_eq!(messages[0], "none in namespace a on secrets");
        assert!(messages[1].starts_with("get, list in namespace a on baremetalservers"));
        assert_eq!(messages.len(), 2);
    }
}
