//! The rights of the caller and of the operator's ServiceAccount.

use super::CheckRow;
use crate::{
    context::{Context, ScopeArgs, api_error},
    exit::PluginError,
    objects::ObjectKind,
    operator_deployment::{flag_values, lease_of, pod_spec},
};
use flexmetal_core::wording::listed;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::{
    apps::v1::Deployment,
    authorization::v1::{
        ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
        SubjectAccessReview, SubjectAccessReviewSpec,
    },
};
use kube::{ResourceExt as _, api::PostParams};
use std::collections::{BTreeMap, BTreeSet};

/// The rights that the chart grants, as the page of the docs lists them.
const GRANTED: &str = include_str!("../../../../../docs/reference/rights.md");
/// Reviews at a time.
const CONCURRENT: usize = 8;
const VERBS: [&str; 5] = ["get", "list", "create", "patch", "delete"];

/// One right that the chart grants.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GrantedRight {
    resource: String,
    group: String,
    subresource: Option<String>,
    verbs: Vec<String>,
    /// Names of objects that it is limited to.
    names: Vec<String>,
    /// Where it is granted, and where with `--watch-namespace`; None: nowhere.
    everywhere: Option<RightScope>,
    with_watched: Option<RightScope>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RightScope {
    Everywhere,
    Release,
    Watched,
}

/// Rows of a Markdown table. A row that does not fit is left out; a test reads all.
fn parse_rights(page: &str) -> Vec<GrantedRight> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.filter_map(parse_right).collect()
}

fn parse_right(row: &str) -> Option<GrantedRight> {
    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
    let [what, verbs, everywhere, with_watched] = cells[..] else {
        return None;
    };
    let mut quoted = what.split('`').skip(1).step_by(2);
    let (resource, subresource) = match quoted.next()?.split_once('/') {
        Some((resource, sub)) => (resource, Some(sub.to_owned())),
        None => (what.split('`').nth(1)?, None),
    };
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let place = |text: &str| match text {
        "everywhere" => Some(Some(RightScope::Everywhere)),
        "in the release's namespace" => Some(Some(RightScope::Release)),
        "in each of these namespaces" => Some(Some(RightScope::Watched)),
        "no" => Some(None),
        _ => None,
    };
    Some(GrantedRight {
        resource: resource.to_owned(),
        group: group.to_owned(),
        subresource,
        verbs: verbs.split(", ").map(str::to_owned).collect(),
        names: quoted.map(str::to_owned).collect(),
        everywhere: place(everywhere)?,
        with_watched: place(with_watched)?,
    })
}

/// What the operator of a Deployment needs, one entry for each verb, name and namespace.
fn list_needed(deployment: &Deployment) -> Vec<ResourceAttributes> {
    let watched = flag_values(deployment, "--watch-namespace");
    let (lease_namespace, lease) = lease_of(deployment);
    let mut needed = Vec::new();
    for right in parse_rights(GRANTED) {
        let place = match watched.is_empty() {
            true => right.everywhere,
            false => right.with_watched,
        };
        let namespaces = match place {
            None => continue,
            Some(RightScope::Everywhere) => vec![None],
            Some(RightScope::Release) => vec![Some(lease_namespace.as_str())],
            Some(RightScope::Watched) => watched.iter().copied().map(Some).collect(),
        };
        let names = match right.names.is_empty() {
            true => vec![None],
            // The page shows the default name.
            false if right.resource == "leases" => vec![Some(lease.as_str())],
            false => right.names.iter().map(|name| Some(name.as_str())).collect(),
        };
        for namespace in namespaces {
            for name in &names {
                for verb in &right.verbs {
                    needed.push(ResourceAttributes {
                        group: Some(right.group.clone()),
                        resource: Some(right.resource.clone()),
                        subresource: right.subresource.clone(),
                        verb: Some(verb.clone()),
                        name: name.map(str::to_owned),
                        namespace: namespace.map(str::to_owned),
                        ..ResourceAttributes::default()
                    });
                }
            }
        }
    }
    needed
}

/// Whether the ServiceAccount of each operator has the rights that the chart grants.
pub async fn check_operator_rights(context: &Context, deployments: &[Deployment]) -> Vec<CheckRow> {
    let check = "rights of the operator";
    let mut rows = Vec::new();
    for deployment in deployments {
        let account = pod_spec(deployment).and_then(|pod| pod.service_account_name.as_deref());
        let user = format!(
            "system:serviceaccount:{}:{}",
            deployment.namespace().unwrap_or_default(),
            account.unwrap_or("default")
        );
        let lacking = find_lacking(list_needed(deployment), |it| {
            review_other(context, &user, it)
        });
        rows.push(match lacking.await {
            Ok(lacking) => judge_operator(check, &user, &lacking),
            Err(error) => {
                let right = "\"create\" on subjectaccessreviews";
                CheckRow::failed(check, &error, right)
            }
        });
    }
    rows
}

fn judge_operator(check: &str, user: &str, lacking: &[ResourceAttributes]) -> CheckRow {
    if lacking.is_empty() {
        return CheckRow::ok(check, format!("{user} has all that it needs"));
    }
    let lacking: Vec<String> = lacking.iter().map(describe_right).collect();
    CheckRow::problem(
        check,
        format!(
            "{user} lacks {}",
            listed(lacking.iter().map(String::as_str))
        ),
        "Install the chart again, or with rbac.create: false grant what docs/reference/rights.md lists",
    )
}

/// Such as `"get" on secrets in namespace a`.
fn describe_right(right: &ResourceAttributes) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let subresource = right.subresource.as_ref();
    let subresource = subresource.map_or_else(String::new, |it| format!("/{it}"));
    let namespace = right.namespace.as_ref();
    let place = namespace.map_or_else(String::new, |it| format!(" in namespace {it}"));
    format!(
        "\"{}\" on {}{subresource}{place}",
        text(&right.verb),
        text(&right.resource)
    )
}

/// Which of the rights are not granted.
async fn find_lacking<F>(
    needed: Vec<ResourceAttributes>,
    review: impl Fn(ResourceAttributes) -> F,
) -> Result<Vec<ResourceAttributes>, PluginError>
where
    F: Future<Output = Result<bool, PluginError>>,
{
    let answers = stream::iter(needed).map(|right| {
        let answer = review(right.clone());
        async move { Ok::<_, PluginError>((right, answer.await?)) }
    });
    let answers: Vec<_> = answers.buffered(CONCURRENT).try_collect().await?;
    let lacking = answers.into_iter().filter(|(_, is_granted)| !is_granted);
    Ok(lacking.map(|(right, _)| right).collect())
}

async fn review_other(
    context: &Context,
    user: &str,
    right: ResourceAttributes,
) -> Result<bool, PluginError> {
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            resource_attributes: Some(right),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews = context.api_of_cluster::<SubjectAccessReview>();
    let answer = reviews.create(&PostParams::default(), &review).await;
    let answer =
        answer.map_err(|error| api_error(format!("review the rights of {user}"), error))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

async fn review_own(context: &Context, right: ResourceAttributes) -> Result<bool, PluginError> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(right),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews = context.api_of_cluster::<SelfSubjectAccessReview>();
    let answer = reviews.create(&PostParams::default(), &review).await;
    let answer = answer.map_err(|error| api_error("review your rights".into(), error))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// What the caller may do with each kind, and whether with Secrets.
pub async fn check_own_rights(context: &Context, scope: &ScopeArgs) -> Vec<CheckRow> {
    let check = "your rights";
    let namespace = context.scope(scope).namespace;
    let asked: Vec<ResourceAttributes> = list_asked(namespace.as_deref());
    let lacking = find_lacking(asked.clone(), |right| review_own(context, right)).await;
    match lacking {
        Ok(lacking) => {
            let granted = asked.into_iter().filter(|right| !lacking.contains(right));
            judge_own(check, namespace.as_deref(), granted)
        }
        Err(error) => {
            let right = "\"create\" on selfsubjectaccessreviews";
            vec![CheckRow::failed(check, &error, right)]
        }
    }
}

fn list_asked(namespace: Option<&str>) -> Vec<ResourceAttributes> {
    let right =
        |group: &str, resource: String, verb: &str, namespace: Option<&str>| ResourceAttributes {
            group: Some(group.to_owned()),
            resource: Some(resource),
            verb: Some(verb.to_owned()),
            namespace: namespace.map(str::to_owned),
            ..ResourceAttributes::default()
        };
    let mut asked = Vec::new();
    for kind in ObjectKind::ALL {
        let namespace = namespace.filter(|_| !kind.is_of_cluster());
        for verb in VERBS {
            asked.push(right(api::GROUP, kind.plural(), verb, namespace));
        }
    }
    asked.push(right("", "secrets".into(), "get", namespace));
    asked
}

/// One row for all resources with the same verbs.
fn judge_own(
    check: &str,
    namespace: Option<&str>,
    granted: impl Iterator<Item = ResourceAttributes>,
) -> Vec<CheckRow> {
    let mut verbs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let kinds = ObjectKind::ALL.into_iter().map(ObjectKind::plural);
    for resource in kinds.chain(["secrets".to_owned()]) {
        verbs.insert(resource, BTreeSet::new());
    }
    for right in granted {
        if let (Some(resource), Some(verb)) = (right.resource, right.verb) {
            verbs.entry(resource).or_default().insert(verb);
        }
    }
    let mut groups: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
    for (resource, granted) in &verbs {
        let granted = VERBS.into_iter().filter(|verb| granted.contains(*verb));
        groups.entry(granted.collect()).or_default().push(resource);
    }
    let place = namespace.map_or_else(
        || "in all namespaces".to_owned(),
        |namespace| format!("in namespace {namespace}"),
    );
    let groups = groups.into_iter();
    let rows = groups.map(|(granted, resources)| {
        let resources = resources.join(", ");
        match granted.is_empty() {
            // A user needs no right on accounts of the cluster.
            true => CheckRow::ok(check, format!("None {place} on {resources}")),
            false => {
                let granted = granted.join(", ");
                CheckRow::ok(check, format!("{granted} {place} on {resources}"))
            }
        }
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
    fn every_row_of_the_page_is_read() {
        let rows = GRANTED.lines().filter(|line| line.starts_with("| `"));
        let rights = parse_rights(GRANTED);
        assert_eq!(rights.len(), rows.count());
        let secrets = rights.iter().find(|right| right.resource == "secrets");
        let secrets = secrets.unwrap();
        assert_eq!(
            secrets.verbs,
            ["get", "create", "update", "patch", "delete"]
        );
        assert_eq!((secrets.group.as_str(), &secrets.names), ("", &Vec::new()));
        let status = rights.iter().find(|right| right.subresource.is_some());
        assert_eq!(status.unwrap().group, api::GROUP);
        let limited = rights
            .iter()
            .find(|it| it.resource == "customresourcedefinitions");
        assert_eq!(limited.unwrap().names.len(), 5);
    }

    #[test]
    fn operator_of_some_namespaces_needs_rights_there() {
        let all = needed(&[]);
        assert!(all.contains(&"\"get\" on secrets".to_owned()));
        assert!(all.contains(&"\"list\" on clusterprovideraccounts".to_owned()));
        let some = needed(&["--watch-namespace=a", "--watch-namespace=b"]);
        for right in [
            "\"get\" on secrets in namespace a",
            "\"get\" on secrets in namespace b",
        ] {
            assert!(some.contains(&right.to_owned()), "{right}");
        }
        assert!(!some.contains(&"\"list\" on clusterprovideraccounts".to_owned()));
        assert!(some.contains(&"\"operate\" on baremetalservers".to_owned()));
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
        assert!(
            row.message.starts_with("user lacks \"operate\" on "),
            "{}",
            row.message
        );
        assert_eq!(judge_operator("rights", "user", &[]).remedy, None);
    }

    #[test]
    fn own_rights_are_grouped_by_verbs() {
        let asked = list_asked(Some("a")).into_iter();
        let read = asked.filter(|right| {
            let verb = right.verb.as_deref();
            right.group.as_deref() == Some(api::GROUP) && matches!(verb, Some("get" | "list"))
        });
        let rows = judge_own("your rights", Some("a"), read);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].message, "None in namespace a on secrets");
        assert!(
            rows[1]
                .message
                .starts_with("get, list in namespace a on baremetalservers")
        );
    }
}
