//! Invalid tags, keys and whitelists: a clear reason on that object only, which names the field and the remedy.
//! The operator sends nothing for it, and other objects continue.

use futures::future::join_all;
use serde_json::{Value, json};

use super::{
    SOON, check_invariants,
    ssh_keys::{build_ssh_key, list_stored_keys, public_key},
    tags::{build_tag, list_account_tags},
    text,
    whitelists::build_whitelist,
};
use lab::rig::{Fault, World, cluster, server};

/// A kind, an object, the reason why it is not Ready, and words of its message.
type BadObjectCase<'a> = (&'a str, Value, &'a str, &'a [&'a str]);

#[tokio::test]
async fn invalid_object_names_the_invalid_field() {
    let world = World::start(cluster(), "things").await;
    // One tag that the provider refuses although it is valid.
    let no = json!({"refuse": {"status": 422, "message": "not this one"}});
    let refusal = Fault::new(no)
        .on("POST", "/v3/flexMetal/tags")
        .with_body("\"refused\"");
    world.simulator.fault(refusal).await;

    let nowhere = json!({"accountRef": {"name": "nowhere"}});
    let list = |name: &str, spec: Value| build_whitelist(name, &spec);
    let office = |entry: Value| json!({"entries": [{"name": "me", "cidr": "127.0.0.0/8"}, entry]});
    let cases: [BadObjectCase; 8] = [
        (
            "ServerTag",
            build_tag("refused", &json!({})),
            "RequestRefused",
            &["refused", "not this one", "retrying every 5m"],
        ),
        (
            "ServerTag",
            build_tag("homeless", &nowhere),
            "AccountNotFound",
            &["spec.accountRef", "nowhere", "Create it"],
        ),
        (
            "SshKey",
            build_ssh_key("cut", &json!({"publicKey": &public_key('A')[..60]})),
            "InvalidSpec",
            &["spec.publicKey ", "cut short", "create it again"],
        ),
        (
            "SshKey",
            build_ssh_key(
                "other",
                &json!({"publicKey": public_key('A').replace("ed25519", "rsa")}),
            ),
            "InvalidSpec",
            &["spec.publicKey ", "another algorithm"],
        ),
        // The provider's answer is the same for a key of another account and for a missing key.
        (
            "IpWhitelist",
            list("foreign", json!({"apiKeyID": 4711})),
            "ReferenceNotFound",
            &["spec.apiKeyID", "4711", "one of its keys"],
        ),
        (
            "IpWhitelist",
            list(
                "reversed",
                office(json!({"name": "office", "start": "192.0.2.9", "end": "192.0.2.1"})),
            ),
            "InvalidSpec",
            &["spec.entries[office]", "192.0.2.9"],
        ),
        (
            "IpWhitelist",
            list(
                "uncovered",
                json!({"apiKeyID": 2, "entries": [{"name": "office", "cidr": "192.0.2.0/24"}]}),
            ),
            "EgressNotCovered",
            &["127.0.0.1", "spec.egressCIDRs"],
        ),
        (
            "IpWhitelist",
            list("homeless", nowhere.clone()),
            "AccountNotFound",
            &["spec.accountRef", "nowhere", "Create it"],
        ),
    ];
    // Another key of the same account, for the whitelist that would lock the operator out of it.
    world.simulator.key("second-key", true).await;
    for (kind, object, ..) in &cases {
        world.things(kind).create(object).await;
    }
    let good = json!({"apiKeyID": 3, "entries": [{"name": "me", "cidr": "127.0.0.0/8"}]});
    world.simulator.key("third-key", true).await;
    world
        .things("ServerTag")
        .create(&build_tag("good", &json!({})))
        .await;
    let spec = json!({"publicKey": public_key('C')});
    world
        .things("SshKey")
        .create(&build_ssh_key("good", &spec))
        .await;
    world
        .things("IpWhitelist")
        .create(&list("good", good))
        .await;
    world.create(&server("good")).await;

    let world = &world;
    let reported = join_all(
        cases
            .iter()
            .map(|(kind, object, reason, words)| async move {
                let name = text(&object["metadata"]["name"]);
                let things = world.things(kind);
                let object = things
                    .wait_for_condition(&name, "Ready", "False", Some(reason), SOON)
                    .await;
                super::check_ready_message(&format!("{kind} {name}"), &object, words);
                let said = object["status"].to_string();
                assert!(!said.contains("AAAAC3Nz"), "{said}");
            }),
    );
    let good = async {
        for kind in ["ServerTag", "SshKey", "IpWhitelist", "BareMetalServer"] {
            world.things(kind).wait_ready("good", SOON).await;
        }
    };
    tokio::join!(reported, good);
    assert_eq!(list_account_tags(world).await, ["good"]);
    assert_eq!(list_stored_keys(world).await.len(), 1);
    let changes = world
        .simulator
        .ledger()
        .await
        .into_iter()
        .filter(|call| call["method"] != "GET" && text(&call["path"]).contains("/whitelist"));
    let changes: Vec<_> = changes.collect();
    assert_eq!(changes.len(), 1, "{changes:#?}");

    // All objects can be deleted, also those without any effect.
    for (kind, object, ..) in &cases {
        let (things, name) = (world.things(kind), text(&object["metadata"]["name"]));
        things.delete(&name).await;
        things.wait_gone(&name, SOON).await;
    }
    check_invariants(world).await;
}
