//! Classifies requests: whether a request is an effect on one object, and of what kind.

use http::{Method, Uri};
use serde_json::Value;

use super::call_trace::TargetApi;

/// The kinds of a request about the object `subject` or its Secret. A write with several records has several kinds.
/// GETs of the provider's records count too: effects depend on their answers, and only the subject changes at a time.
pub(crate) fn classify_request(
    side: TargetApi,
    method: &Method,
    uri: &Uri,
    body: &[u8],
    subject: &str,
) -> Vec<String> {
    let parts: Vec<&str> = uri
        .path()
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    let names = match side {
        TargetApi::Hosting => classify_hosting_request(method, &parts)
            .into_iter()
            .collect(),
        TargetApi::Cluster => classify_cluster_request(method, &parts, body, subject),
    };
    let sorts = names.into_iter().map(|name| format!("{method} {name}"));
    sorts.collect()
}

fn classify_hosting_request(method: &Method, parts: &[&str]) -> Option<String> {
    let reads = *method == Method::GET;
    match parts {
        ["v3", "flexMetal", "servers", _] => Some("servers/{uuid}".into()),
        ["v3", "flexMetal", "servers", _, "rootPassword"] => {
            Some("servers/{uuid}/rootPassword".into())
        }
        ["v3", "flexMetal", "tags", _] => Some("tags/{tag}".into()),
        ["v3", "sshKey", _] => Some("sshKey/{uuid}".into()),
        ["v3", "account", "apiKey", _, "whitelist"] => Some("whitelist".into()),
        ["v3", "account", "apiKey", _, "whitelist", _] => Some("whitelist/{id}".into()),
        ["v3", "host", _] => Some("host/{id}".into()),
        ["v3", "host", _, rest @ ..] => Some(format!("host/{{id}}/{}", rest.join("/"))),
        ["v3", "flexMetal", "tags"] => Some("tags".into()),
        ["v3", "sshKey"] => Some("sshKey".into()),
        _ if reads => None,
        ["v3", "flexMetal", "servers", _, "tag", _] => Some("servers/{uuid}/tag/{tag}".into()),
        ["v3", "flexMetal", "servers", _, "commands"] => Some("servers/{uuid}/commands".into()),
        ["v3", "flexMetal", rest @ ..] => Some(rest.join("/")),
        ["v3", rest @ ..] => Some(rest.join("/")),
        other => Some(other.join("/")),
    }
}

fn classify_cluster_request(
    method: &Method,
    parts: &[&str],
    body: &[u8],
    subject: &str,
) -> Vec<String> {
    if *method == Method::GET {
        return Vec::new();
    }
    let (is_subject, names) = match parts {
        ["apis", "events.k8s.io", _, "namespaces", _, "events"] => {
            let event: Value = serde_json::from_slice(body).unwrap_or_default();
            let reason = event["reason"].as_str().unwrap_or_default();
            let is_subject = event["regarding"]["name"] == subject;
            (is_subject, vec![format!("events ({reason})")])
        }
        [
            "apis",
            "flexmetal.dev",
            _,
            "namespaces",
            _,
            kind,
            name,
            rest @ ..,
        ] => {
            let said = match *kind {
                "dedicatedhosts" => classify_host_status(body),
                _ => vec![""],
            };
            let path = [&[*kind], rest].concat().join("/");
            let names = said.into_iter().map(|said| format!("{path}{said}"));
            (*name == subject, names.collect())
        }
        ["apis", "flexmetal.dev", _, "namespaces", _, kind] => {
            let made: Value = serde_json::from_slice(body).unwrap_or_default();
            let is_subject = made["metadata"]["ownerReferences"][0]["name"] == subject;
            (is_subject, vec![(*kind).into()])
        }
        ["api", "v1", "namespaces", _, "secrets", name] => {
            (*name == subject, vec!["secrets".into()])
        }
        ["api", "v1", "namespaces", _, "secrets"] => {
            let secret: Value = serde_json::from_slice(body).unwrap_or_default();
            let is_subject = secret["metadata"]["name"] == subject;
            (is_subject, vec!["secrets".into()])
        }
        _ => return Vec::new(),
    };
    if is_subject { names } else { Vec::new() }
}

/// The part of an installation that a host's status write records.
/// The number of other writes depends on when the host is polled.
fn classify_host_status(body: &[u8]) -> Vec<&'static str> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let (install, power) = (
        &body["status"]["records"]["install"],
        &body["status"]["records"]["power"],
    );
    let has = |word: &str| install["last"][word].is_string();
    let said = [
        (has("attempt"), " (noted)"),
        (power["command"]["name"].is_string(), " (wish noted)"),
        (has("outcome"), " (answered)"),
        (has("end"), " (ended)"),
        (install["uid"].is_string(), " (installation seen)"),
    ];
    let said: Vec<_> = said.iter().filter(|(says, _)| *says).collect();
    match said.is_empty() {
        true => vec![""],
        false => said.into_iter().map(|(_, word)| *word).collect(),
    }
}

#[test]
fn only_effects_on_the_subject_count() {
    let of = |side, method: &str, path: &str, body: &str| {
        let method: Method = method.parse().unwrap();
        classify_request(
            side,
            &method,
            &path.parse().unwrap(),
            body.as_bytes(),
            "one",
        )
    };
    let objects = "/apis/flexmetal.dev/v1alpha1/namespaces/n/baremetalservers";
    let event = r#"{"reason":"Ordered","regarding":{"name":"one"}}"#;
    for (side, method, path, body, expected) in [
        (
            TargetApi::Hosting,
            "POST",
            "/v3/flexMetal/servers",
            "",
            Some("POST servers"),
        ),
        (
            TargetApi::Hosting,
            "GET",
            "/v3/flexMetal/servers?tag=x",
            "",
            None,
        ),
        (
            TargetApi::Hosting,
            "GET",
            "/v3/flexMetal/servers/u-1",
            "",
            Some("GET servers/{uuid}"),
        ),
        (
            TargetApi::Hosting,
            "DELETE",
            "/v3/flexMetal/servers/u-1",
            "",
            Some("DELETE servers/{uuid}"),
        ),
        (
            TargetApi::Hosting,
            "GET",
            "/v3/flexMetal/location",
            "",
            None,
        ),
        (
            TargetApi::Hosting,
            "POST",
            "/v3/flexMetal/servers/u-1/tag/fmo-order:1",
            "",
            Some("POST servers/{uuid}/tag/{tag}"),
        ),
        (
            TargetApi::Hosting,
            "DELETE",
            "/v3/flexMetal/tags/fmo-order:1",
            "",
            Some("DELETE tags/{tag}"),
        ),
        (
            TargetApi::Cluster,
            "GET",
            &format!("{objects}/one"),
            "",
            None,
        ),
        (
            TargetApi::Cluster,
            "PATCH",
            &format!("{objects}/one"),
            "",
            Some("PATCH baremetalservers"),
        ),
        (
            TargetApi::Cluster,
            "PATCH",
            &format!("{objects}/one/status"),
            "",
            Some("PATCH baremetalservers/status"),
        ),
        (
            TargetApi::Cluster,
            "PATCH",
            &format!("{objects}/two/status"),
            "",
            None,
        ),
        (
            TargetApi::Cluster,
            "POST",
            "/apis/events.k8s.io/v1/namespaces/n/events",
            event,
            Some("POST events (Ordered)"),
        ),
        (
            TargetApi::Hosting,
            "GET",
            "/v3/account/apiKey/1/whitelist",
            "",
            Some("GET whitelist"),
        ),
        (
            TargetApi::Hosting,
            "PUT",
            "/v3/account/apiKey/1/whitelist/7",
            "",
            Some("PUT whitelist/{id}"),
        ),
        (
            TargetApi::Hosting,
            "DELETE",
            "/v3/sshKey/u-1",
            "",
            Some("DELETE sshKey/{uuid}"),
        ),
        (
            TargetApi::Hosting,
            "POST",
            "/v3/sshKey",
            "",
            Some("POST sshKey"),
        ),
        (
            TargetApi::Hosting,
            "GET",
            "/v3/sshKey",
            "",
            Some("GET sshKey"),
        ),
        (
            TargetApi::Hosting,
            "GET",
            "/v3/flexMetal/tags",
            "",
            Some("GET tags"),
        ),
        (
            TargetApi::Cluster,
            "PATCH",
            "/apis/flexmetal.dev/v1alpha1/namespaces/n/servertags/one/status",
            "",
            Some("PATCH servertags/status"),
        ),
        (
            TargetApi::Cluster,
            "PATCH",
            "/api/v1/namespaces/n/secrets/one",
            "",
            Some("PATCH secrets"),
        ),
        (
            TargetApi::Cluster,
            "POST",
            "/api/v1/namespaces/n/secrets",
            r#"{"metadata":{"name":"one"}}"#,
            Some("POST secrets"),
        ),
        (
            TargetApi::Cluster,
            "POST",
            "/apis/flexmetal.dev/v1alpha1/namespaces/n/servercommands",
            r#"{"metadata":{"name":"one-off-1-1","ownerReferences":[{"name":"one"}]}}"#,
            Some("POST servercommands"),
        ),
        (
            TargetApi::Hosting,
            "POST",
            "/v3/host/1001/os/install",
            "",
            Some("POST host/{id}/os/install"),
        ),
        (
            TargetApi::Hosting,
            "GET",
            "/v3/host/1001",
            "",
            Some("GET host/{id}"),
        ),
        (TargetApi::Hosting, "GET", "/v3/host", "", None),
        (
            TargetApi::Hosting,
            "GET",
            "/v3/flexMetal/servers/u-1/rootPassword",
            "",
            Some("GET servers/{uuid}/rootPassword"),
        ),
    ] {
        let expected: Vec<&str> = expected.into_iter().collect();
        assert_eq!(of(side, method, path, body), expected, "{method} {path}");
    }
}

#[test]
fn host_status_write_has_several_kinds() {
    let path = "/apis/flexmetal.dev/v1alpha1/namespaces/n/dedicatedhosts/one/status";
    let of = |body: &str| {
        let uri = path.parse().unwrap();
        classify_request(
            TargetApi::Cluster,
            &Method::PATCH,
            &uri,
            body.as_bytes(),
            "one",
        )
    };
    let plain = "PATCH dedicatedhosts/status";
    assert_eq!(
        of(r#"{"status":{"records":{"power":{"desired":"PoweredOn"}}}}"#),
        [plain]
    );
    let answered = format!("{plain} (answered)");
    let last = r#"{"status":{"records":{"install":{"last":{"outcome":"Accepted"}}}}}"#;
    assert_eq!(of(last), [answered.as_str()]);
    let last =
        r#"{"status":{"records":{"install":{"last":{"outcome":"Accepted","end":"Finished"}}}}}"#;
    assert_eq!(of(last), [answered, format!("{plain} (ended)")]);
}
