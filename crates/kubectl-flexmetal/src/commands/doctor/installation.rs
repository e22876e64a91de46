//! The operator's Deployment, its Lease and the admission policies.

use super::CheckRow;
use crate::{
    ages,
    context::{PluginContext, api_error, list_pages},
    exit::PluginError,
    operator_deployment::{DEFAULT_LEASE, VERSION_LABEL, lease_of},
};
use flexmetal_core::wording::listed;
use jiff::Timestamp;
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    apps::v1::Deployment,
    coordination::v1::Lease,
};
use kube::ResourceExt as _;
use std::collections::BTreeSet;

/// The ends of the names of the chart's policies.
const POLICIES: [&str; 8] = [
    "secrets",
    "configmaps",
    "finalizers",
    "commands",
    "status",
    "protection",
    "metadata",
    "keys",
];

/// Whether the operators run.
pub fn check_deployments(
    context: &PluginContext,
    deployments: &Result<Vec<Deployment>, PluginError>,
) -> Vec<CheckRow> {
    let namespace = &context.operator_namespace;
    match deployments {
        Err(error) => {
            let right = format!("\"list\" on deployments in namespace {namespace}");
            vec![CheckRow::failed("operator", error, &right)]
        }
        Ok(found) if found.is_empty() => vec![CheckRow::problem(
            "operator",
            format!("No Deployment of the chart in namespace {namespace}"),
            "Install the chart, or name its namespace with --operator-namespace",
        )],
        Ok(found) => found.iter().map(judge_deployment).collect(),
    }
}

fn judge_deployment(deployment: &Deployment) -> CheckRow {
    let check = "operator";
    let namespace = deployment.namespace().unwrap_or_default();
    let title = format!("Deployment {namespace}/{}", deployment.name_any());
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    let wanted = wanted.unwrap_or(1);
    let ready = deployment.status.as_ref().and_then(|it| it.ready_replicas);
    let ready = ready.unwrap_or(0);
    let version = deployment.labels().get(VERSION_LABEL);
    let own = env!("CARGO_PKG_VERSION");
    if wanted == 0 {
        return CheckRow::problem(
            check,
            format!("{title} has no replicas, so nothing is ordered, changed or released"),
            "Set replicas to 1 or 2",
        );
    }
    let pods = format!("{title}: {ready} of {wanted} pods are ready");
    match version {
        _ if ready < wanted => {
            let remedy = format!("See the events and logs of the pods in namespace {namespace}");
            CheckRow::problem(check, pods, remedy)
        }
        Some(version) if version != own => CheckRow::problem(
            check,
            format!("{title} has version {version}, this plugin {own}"),
            "Use the plugin of the operator's version",
        ),
        _ => CheckRow::ok(check, pods),
    }
}

/// Whether leaders hold and renew their Leases. `recorded`: the Leases that accounts name.
pub async fn check_leases(
    context: &PluginContext,
    deployments: &[Deployment],
    recorded: BTreeSet<(String, String)>,
) -> Vec<CheckRow> {
    let mut leases = recorded;
    leases.extend(deployments.iter().map(lease_of));
    if leases.is_empty() {
        let namespace = context.operator_namespace.clone();
        leases.insert((namespace, DEFAULT_LEASE.to_owned()));
    }
    let mut rows = Vec::new();
    for (namespace, name) in leases {
        let found = context.api_in::<Lease>(&namespace).get_opt(&name).await;
        let title = format!("Lease {namespace}/{name}");
        rows.push(match found {
            Ok(Some(lease)) => judge_lease(&title, &lease, ages::now()),
            Ok(None) => CheckRow::problem(
                "leader",
                format!("{title} does not exist, so no operator was ever the leader"),
                "See the logs of the operator",
            ),
            Err(error) => {
                let error = api_error(format!("read {title}"), error);
                let right = format!("\"get\" on leases in namespace {namespace}");
                CheckRow::failed("leader", &error, &right)
            }
        });
    }
    rows
}

fn judge_lease(title: &str, lease: &Lease, now: Timestamp) -> CheckRow {
    let check = "leader";
    let spec = lease.spec.as_ref();
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
    let renewed = spec.and_then(|spec| Some(spec.renew_time.as_ref()?.0));
    let (Some(holder), Some(renewed)) = (holder.filter(|it| !it.is_empty()), renewed) else {
        return CheckRow::problem(
            check,
            format!("{title} has no holder, so no operator is the leader"),
            "Wait some seconds; if it stays, see the logs of the operator",
        );
    };
    let lasts = spec.and_then(|spec| spec.lease_duration_seconds);
    let age = now.duration_since(renewed).as_secs();
    // Twice the duration, as clocks of nodes differ.
    match age > 2 * i64::from(lasts.unwrap_or(15)) {
        true => {
            let age = ages::shorten(age);
            CheckRow::problem(
                check,
                format!("{holder} renewed {title} {age} ago, so no operator is the leader"),
                "See the pods and logs of the operator, and the clocks of the nodes and of this computer",
            )
        }
        false => CheckRow::ok(check, format!("{holder} holds and renews {title}")),
    }
}

/// Whether the chart's admission policies are there and bound.
pub async fn check_policies(context: &PluginContext, deployments: &[Deployment]) -> Vec<CheckRow> {
    match list_bound_policies(context).await {
        Ok(bound) if deployments.is_empty() => vec![judge_policies(None, &bound)],
        Ok(bound) => {
            let rows = deployments.iter().map(|it| {
                let namespace = it.namespace().unwrap_or_default();
                judge_policies(Some(&format!("{namespace}-{}", it.name_any())), &bound)
            });
            rows.collect()
        }
        Err(error) => {
            let right = "\"list\" on validatingadmissionpolicies and their bindings";
            vec![CheckRow::failed("policies", &error, right)]
        }
    }
}

/// The policies that exist and that a binding puts in force.
async fn list_bound_policies(context: &PluginContext) -> Result<Vec<String>, PluginError> {
    let policies = context.api_of_cluster::<ValidatingAdmissionPolicy>();
    let policies = list_pages(&policies, None, "list admission policies").await?;
    let bindings = context.api_of_cluster::<ValidatingAdmissionPolicyBinding>();
    let bindings = list_pages(&bindings, None, "list bindings of admission policies").await?;
    let bound = bindings.into_iter().filter_map(|binding| {
        let spec = binding.spec?;
        let acts = spec.validation_actions.is_some_and(|all| !all.is_empty());
        spec.policy_name.filter(|_| acts)
    });
    let exists = |name: &String| policies.iter().any(|policy| policy.name_any() == *name);
    Ok(bound.filter(exists).collect())
}

/// `release`: what the names start with, if that is known.
fn judge_policies(release: Option<&str>, bound: &[String]) -> CheckRow {
    let is_bound = |end: &&str| {
        bound.iter().any(|name| match release {
            Some(release) => *name == format!("{release}-{end}"),
            None => name.contains("flexmetal") && name.ends_with(&format!("-{end}")),
        })
    };
    let missing: Vec<&str> = POLICIES.into_iter().filter(|end| !is_bound(end)).collect();
    let whose = release.map_or_else(String::new, |release| format!(" of {release}"));
    let all = POLICIES.len();
    match missing.len() {
        0 => CheckRow::ok("policies", format!("All {all}{whose} are bound")),
        missing if missing == all => CheckRow::problem(
            "policies",
            format!("No admission policy{whose} is bound, so protected servers can be deleted"),
            "Set admissionPolicies.enabled of the chart",
        ),
        _ => CheckRow::problem(
            "policies",
            format!("Missing or not bound{whose}: {}", listed(missing)),
            "Install the chart again (helm upgrade)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{commands::doctor::Verdict, operator_deployment::tests::deployment};
    use jiff::SignedDuration;
    use serde_json::json;

    fn judge(replicas: i32, ready: i32, version: &str) -> CheckRow {
        let mut found = deployment(&[]);
        found.metadata.labels = Some([(VERSION_LABEL.into(), version.into())].into());
        found.spec.as_mut().unwrap().replicas = Some(replicas);
        found.status = serde_json::from_value(json!({"readyReplicas": ready})).unwrap();
        judge_deployment(&found)
    }

    #[test]
    fn deployment_needs_all_pods_and_this_version() {
        let own = env!("CARGO_PKG_VERSION");
        assert_eq!(judge(2, 2, own).result, Verdict::Ok);
        assert!(judge(2, 1, own).message.contains("1 of 2"));
        assert!(judge(0, 0, own).message.contains("no replicas"));
        assert!(judge(1, 1, "9.9.9").message.contains("version 9.9.9"));
    }

    #[test]
    fn lease_must_be_held_and_renewed() {
        let judge = |holder: &str, second: i64| {
            let lease: Lease = serde_json::from_value(json!({"spec": {
                "holderIdentity": holder, "leaseDurationSeconds": 15,
                "renewTime": "2026-11-01T00:00:00.000000Z",
            }}))
            .unwrap();
            let renewed: Timestamp = "2026-11-01T00:00:00Z".parse().unwrap();
            let now = renewed + SignedDuration::from_secs(second);
            judge_lease("Lease a/b", &lease, now)
        };
        assert_eq!(judge("pod/1", 20).result, Verdict::Ok);
        assert_eq!(judge("pod/1", -20).result, Verdict::Ok);
        assert!(judge("pod/1", 31).message.contains("31s ago"));
        assert!(judge("", 0).message.contains("no holder"));
    }

    #[test]
    fn policies_must_be_bound() {
        let all = POLICIES.map(|end| format!("ops-flexmetal-{end}"));
        let release = Some("ops-flexmetal");
        assert_eq!(judge_policies(release, &all).result, Verdict::Ok);
        assert_eq!(judge_policies(None, &all).result, Verdict::Ok);
        let row = judge_policies(release, &all[1..]);
        assert!(row.message.ends_with(": secrets"), "{}", row.message);
        let row = judge_policies(Some("other"), &all);
        assert!(row.message.starts_with("No admission policy of other"));
    }
}
