use serde_json::json;

use super::super::options::Profile;
use super::*;

fn body() -> Value {
    json!({
        "name": "web-1",
        "location": "EU: Rotterdam",
        "instanceType": "bm7.std.8",
        "os": {"slug": "ubuntu-2404-lts"},
        "sshKey": ["ssh-ed25519 AAAAC3 demo"],
    })
}

fn check_in(body: &Value, profile: Profile) -> Result<Order, Refusal> {
    order(
        body.to_string().as_bytes(),
        &Catalogue::builtin().unwrap(),
        &Switches::of(profile),
    )
}

fn check(body: &Value) -> Result<Order, Refusal> {
    check_in(body, Profile::Document)
}

/// The properties that are blamed when one field of the body is changed.
fn blamed(pointer: &str, value: Value) -> Vec<String> {
    let mut body = body();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    body.pointer_mut(parent).unwrap()[name] = value;
    match check(&body) {
        Ok(_) => Vec::new(),
        Err(refusal) => {
            assert_eq!(refusal.status.as_u16(), 422);
            assert!(
                refusal
                    .errors
                    .iter()
                    .all(|breach| !breach.message.is_empty())
            );
            refusal
                .errors
                .into_iter()
                .map(|breach| breach.property)
                .collect()
        }
    }
}

#[test]
fn a_good_order_passes_with_every_field() {
    let mut body = body();
    body["tags"] = json!(["a:b", "a:b", "c"]);
    body["contractId"] = json!("C-1_2.3");
    body["overflow"] = json!(true);
    body["postInstallScript"] = json!("#!/bin/sh\n");
    body["userData"] = json!({"data": "x", "isBase64": false});
    body["os"]["kernelParams"] = json!([{"key": "siderolink.api", "value": ""}]);
    body["os"]["partitions"] = json!([{"target": "/", "filesystem": "ext4", "size": -1}]);
    let order = check(&body).unwrap();
    assert_eq!(order.tags, ["a:b", "c"]);
    assert_eq!(order.contract.as_deref(), Some("C-1_2.3"));
    assert!(order.overflow);
}

#[test]
fn what_real_clients_send_for_absent_fields_is_absent() {
    let mut body = body();
    body["tags"] = Value::Null;
    body["os"]["kernelParams"] = Value::Null;
    body["os"]["partitions"] = Value::Null;
    body["os"]["ipxeScriptUrl"] = json!("");
    body["postInstallScript"] = json!("");
    body["contractId"] = json!("");
    body["overflow"] = json!(false);
    let order = check(&body).unwrap();
    assert_eq!((order.tags.len(), order.contract), (0, None));
}

#[test]
fn each_broken_rule_names_its_property() {
    let many: Vec<String> = (0..61).map(|n| format!("t{n}")).collect();
    let cases = [
        ("/name", json!(""), "name"),
        ("/name", json!(7), "name"),
        ("/location", json!("Nowhere"), "location"),
        ("/location", json!("eu: rotterdam"), "location"),
        ("/instanceType", json!("bm1"), "instanceType"),
        ("/os", Value::Null, "os"),
        ("/os", json!("debian-13"), "os"),
        ("/os/slug", json!("plan9"), "os.slug"),
        ("/os/slug", json!("freebsd-14"), "os.slug"),
        ("/os/slug", json!("debian-11"), "os.slug"),
        ("/os/slug", json!("custom-ipxe"), "os.ipxeScriptUrl"),
        (
            "/os/ipxeScriptUrl",
            json!("http://boot.example/x"),
            "os.ipxeScriptUrl",
        ),
        ("/os/other", json!(1), "os.other"),
        (
            "/os/kernelParams",
            json!([{"key": "a"}]),
            "os.kernelParams[0].value",
        ),
        ("/os/kernelParams", json!({}), "os.kernelParams"),
        (
            "/os/partitions",
            json!([{"target": "/", "filesystem": "ext4", "size": 0}]),
            "os.partitions[0].size",
        ),
        (
            "/os/partitions",
            json!([{"filesystem": "ext4", "size": 5}]),
            "os.partitions[0].target",
        ),
        ("/sshKey", Value::Null, "sshKey"),
        ("/sshKey", json!("ssh-ed25519 AAAA"), "sshKey"),
        ("/sshKey", json!(["not a key"]), "sshKey[0]"),
        ("/sshKey", json!([5]), "sshKey[0]"),
        ("/postInstallScript", json!("echo hi"), "postInstallScript"),
        ("/userData", json!({"data": 5}), "userData.data"),
        ("/tags", json!(many), "tags"),
        ("/tags", json!(["ok", "no blank"]), "tags[1]"),
        ("/tags", json!([""]), "tags[0]"),
        ("/tags", json!(["x".repeat(65)]), "tags[0]"),
        ("/contractId", json!("lower"), "contractId"),
        ("/contractId", json!("X".repeat(241)), "contractId"),
        ("/overflow", json!("yes"), "overflow"),
        ("/surprise", json!(1), "surprise"),
    ];
    for (pointer, value, property) in cases {
        assert_eq!(
            blamed(pointer, value.clone()),
            [property],
            "{pointer} = {value}"
        );
    }
}

#[test]
fn limits_are_met_exactly() {
    let sixty: Vec<String> = (0..60).map(|n| format!("t{n}")).collect();
    let cases = [
        ("/tags", json!(sixty)),
        ("/tags", json!(["x".repeat(64)])),
        ("/contractId", json!("X".repeat(240))),
        ("/sshKey", json!([])),
        ("/sshKey", json!(["0192f0c1-7d7a-7b3a-8000-000000000001"])),
    ];
    for (pointer, value) in cases {
        assert!(
            blamed(pointer, value.clone()).is_empty(),
            "{pointer} = {value}"
        );
    }
}

#[test]
fn every_broken_rule_is_told_at_once() {
    let answer = check(&json!({"tags": ["a b"]})).unwrap_err();
    let blamed: Vec<_> = answer
        .errors
        .iter()
        .map(|breach| breach.property.as_str())
        .collect();
    assert_eq!(
        blamed,
        [
            "name",
            "location",
            "instanceType",
            "os",
            "sshKey",
            "tags[0]"
        ]
    );
}

#[test]
fn the_system_decides_about_name_and_script() {
    let mut body = body();
    body["name"] = json!("web_1");
    assert!(check(&body).is_ok(), "any name will do for Linux");
    body["os"]["slug"] = json!("talos-omni-1110");
    assert_eq!(check(&body).unwrap_err().errors[0].property, "name");
    body["name"] = json!("web-1.example.org");
    body["postInstallScript"] = json!("no shebang, and never run");
    assert!(check(&body).is_ok());
    body["os"]["slug"] = json!("windows-2022");
    assert!(check(&body).is_ok(), "PowerShell has no shebang");
}

#[test]
fn a_type_must_be_offered_at_the_location() {
    let mut body = body();
    body["location"] = json!("AU: Sydney");
    body["instanceType"] = json!("bm9.hmm.gpu.4rtx4000.64");
    assert_eq!(check(&body).unwrap_err().errors[0].property, "instanceType");
}

#[test]
fn the_observed_profile_takes_what_real_clients_send() {
    let mut body = body();
    body.as_object_mut().unwrap().remove("sshKey");
    body["location"] = json!(" eu: rotterdam");
    assert!(check(&body).is_err());
    assert!(check_in(&body, Profile::Observed).is_ok());
    body["os"]["partitions"] = json!([{"target": "/", "filesystem": "zfs", "size": 5}]);
    assert!(check_in(&body, Profile::Observed).is_err());
    for known in ["ext2", "ext3", "ext4", "xfs", "swap"] {
        body["os"]["partitions"][0]["filesystem"] = json!(known);
        assert!(check_in(&body, Profile::Observed).is_ok(), "{known}");
    }
}

#[test]
fn a_kubernetes_system_needs_its_hub_where_the_switch_says_so() {
    let mut body = body();
    body["os"] = json!({"slug": "talos-omni-1110"});
    assert!(check(&body).is_ok());
    let blamed = |body: &Value| {
        check_in(body, Profile::Observed).unwrap_err().errors[0]
            .property
            .clone()
    };
    assert_eq!(blamed(&body), "os.kernelParams");
    for (value, good) in [
        ("https://hub.example", true),
        ("http://hub.example:8090/x", true),
        ("grpc://hub.example:8090?jointoken=t", true),
        ("foo:bar", false),
        ("ftp://hub.example", false),
        ("hub.example", false),
        ("", false),
    ] {
        body["os"]["kernelParams"] = json!([{"key": "siderolink.api", "value": value}]);
        assert_eq!(check_in(&body, Profile::Observed).is_ok(), good, "{value}");
    }
    body["os"]["kernelParams"] = json!([{"key": "factoryhash", "value": "abc"}]);
    assert_eq!(blamed(&body), "os.kernelParams");
}

#[test]
fn a_body_that_is_no_object_is_400() {
    for body in ["", "[]", "null", "{", "\"x\""] {
        let refusal = object(body.as_bytes()).unwrap_err();
        assert_eq!(refusal.status.as_u16(), 400, "{body}");
    }
}
