//! Two teams with their own namespaces and one shared ClusterProviderAccount.
//! Neither can use the other's records there, whatever it writes into its own objects.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    SOON, apply, build_acknowledgement, build_api, build_secret, build_server, check_invariants,
    cluster_wide::SharedOperator,
    find_pending_token,
    release_limit::wait_for_limited_objects,
    ssh_keys::{build_deleting_key, list_stored_keys, public_key},
    tags::build_tag,
    text,
    whitelists::build_whitelist,
};
use kube::api::{Patch, PatchParams};
use lab::rig::{Kstatus, Things, World, eventually, health, quick_timing};

/// A cluster with two teams.
pub(super) struct Teams {
    /// The owner of the provider's account: the ClusterProviderAccount uses its simulator.
    pub(super) one: World,
    pub(super) other: World,
    account: String,
}

impl Teams {
    async fn start(host: &SharedOperator, prefix: &str) -> Self {
        let one = host.start_guest_world(prefix).await;
        let other = host.start_guest_world(prefix).await;
        let account = one.namespace.clone();
        let key = build_secret(&account, "apiKey", one.simulator.api_key());
        apply(&one.client, Some(&host.world.namespace), &key).await;
        let shared = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ClusterProviderAccount",
            "metadata": {"name": account},
            "spec": {
                "baseURL": one.simulator.api(), "apiKeySecretRef": {"name": account}, "timing": quick_timing(),
                "allowedNamespaces": [
                    {"name": "teams", "namespaces": [one.namespace, other.namespace, host.world.namespace]},
                ],
            },
        });
        apply(&one.client, None, &shared).await;
        Self {
            one,
            other,
            account,
        }
    }

    /// A spec with a reference to the ClusterProviderAccount.
    fn build_spec(&self, mut spec: Value) -> Value {
        spec["accountRef"] = json!({"kind": "ClusterProviderAccount", "name": self.account});
        spec
    }

    /// The tags of the account without the operator's own.
    async fn list_user_tags(&self) -> Vec<String> {
        let mut tags = super::tags::list_account_tags(&self.one).await;
        tags.sort();
        tags
    }
}

/// Waits until an object is not ready for this reason, and its message contains all `words`.
async fn wait_object_stalled(things: &Things, name: &str, reason: &str, words: &[&str]) {
    let object = things
        .wait_for_condition(name, "Ready", "False", Some(reason), SOON)
        .await;
    super::check_ready_message(name, &object, words);
}

/// Waits until later objects have a later creation time. Within one second the UID decides.
async fn wait_for_next_second(object: &Value) {
    let created = text(&object["metadata"]["creationTimestamp"]);
    let created: Timestamp = created.parse().expect("a time");
    eventually("its second is over", SOON, async || {
        (Timestamp::now().as_second() > created.as_second()).then_some(())
    })
    .await;
}

/// A tag of another team or of no object cannot be renamed, deleted or taken over.
pub(super) async fn check_other_teams_tags(host: &SharedOperator) -> Teams {
    let teams = Teams::start(host, "tags").await;
    let (ours, theirs) = (
        teams.one.things("ServerTag"),
        teams.other.things("ServerTag"),
    );
    let user_tag = json!({"tag": "people"});
    let by_hand = teams
        .one
        .simulator
        .call("POST", "/v3/flexMetal/tags", Some(&user_tag));
    assert_eq!(by_hand.await.0, 200);
    theirs
        .create(&build_tag("billing", &teams.build_spec(json!({}))))
        .await;
    let made = theirs.wait_ready("billing", SOON).await;
    assert_eq!(made["status"]["createdByObject"], true);
    wait_for_next_second(&made).await;

    // Sets every field that could remove a tag, on objects for tags of others.
    let all = json!({"renamePolicy": "Rename", "deletionPolicy": "Delete", "force": true});
    let with_tag = |name: &str| {
        let mut spec = all.clone();
        spec["tag"] = json!(name);
        teams.build_spec(spec)
    };
    ours.create(&build_tag("theirs", &with_tag("billing")))
        .await;
    ours.create(&build_tag("nobodys", &with_tag("people")))
        .await;
    ours.create(&build_tag("mine", &with_tag("mine"))).await;
    let owner = "the older ServerTag of another namespace";
    wait_object_stalled(&ours, "theirs", "OwnershipConflict", &[owner]).await;
    let their_status = ours.get("theirs").await.unwrap()["status"].to_string();
    assert!(
        !their_status.contains(&teams.other.namespace),
        "{their_status}"
    );
    let found = ours.wait_ready("nobodys", SOON).await;
    assert_eq!(found["status"]["createdByObject"], false);
    ours.wait_ready("mine", SOON).await;

    // The operator does not rename an existing tag, and a rename does not take over another object's tag.
    let to = |tag: &str| json!({"spec": {"tag": tag}});
    ours.merge("nobodys", &to("taken")).await;
    wait_object_stalled(
        &ours,
        "nobodys",
        "OwnershipConflict",
        &["people", "existed before"],
    )
    .await;
    ours.merge("mine", &to("billing")).await;
    wait_object_stalled(&ours, "mine", "OwnershipConflict", &[owner]).await;
    ours.merge("mine", &to("people")).await;
    wait_object_stalled(&ours, "mine", "NameTaken", &["people", "mine"]).await;
    ours.merge("mine", &to("mine")).await;
    ours.wait_ready("mine", SOON).await;
    assert_eq!(teams.list_user_tags().await, ["billing", "mine", "people"]);

    // A forged annotation of the operator has no effect either: a copy of the own tag's annotation for another tag.
    let annotation = "flexmetal.dev/tag";
    let mine = ours.get("mine").await.unwrap();
    let record = text(&mine["metadata"]["annotations"][annotation]);
    let mut record: Value = serde_json::from_str(&record).expect("a note");
    assert_eq!(record["made"], true);
    record["uid"] = found["metadata"]["uid"].clone();
    record["tag"] = json!("people");
    let forged = json!({
        "metadata": {"annotations": {annotation: record.to_string()}}, "spec": {"tag": "people"},
    });
    ours.merge("nobodys", &forged).await;
    ours.wait_ready("nobodys", SOON).await;
    ours.merge("nobodys", &to("taken")).await;
    wait_object_stalled(&ours, "nobodys", "OwnershipConflict", &["people"]).await;
    assert_eq!(teams.list_user_tags().await, ["billing", "mine", "people"]);

    // The operator does not delete a tag on a server of the other team, whoever created it and even if forced.
    let server =
        json!({"name": "server-of-the-other-team", "tags": ["mine"], "status": "delivered"});
    let server = teams.one.simulator.appear(&server).await;
    for name in ["theirs", "nobodys", "mine"] {
        ours.delete(name).await;
    }
    for name in ["theirs", "nobodys"] {
        ours.wait_gone(name, SOON).await;
    }
    wait_object_stalled(&ours, "mine", "InUse", &["mine"]).await;
    assert_eq!(teams.list_user_tags().await, ["billing", "mine", "people"]);
    let bare = json!({"tags": []});
    teams
        .one
        .simulator
        .alter(&text(&server["uuid"]), &bare)
        .await;
    ours.wait_gone("mine", SOON).await;
    assert_eq!(teams.list_user_tags().await, ["billing", "people"]);

    // The other team's tag is unchanged.
    let now = theirs.get("billing").await.unwrap();
    assert_eq!(health(&now), Kstatus::Current, "{now:#}");
    assert_eq!(now["status"]["createdByObject"], true);
    check_invariants(&teams.one).await;
    teams
}

/// A key that another team or a user stored cannot be deleted.
pub(super) async fn check_other_teams_keys(host: &SharedOperator) -> Teams {
    let teams = Teams::start(host, "keys").await;
    let (ours, theirs) = (teams.one.things("SshKey"), teams.other.things("SshKey"));
    let user_key = json!({"name": "a person's", "publicKey": public_key('A')});
    let by_hand = teams
        .one
        .simulator
        .call("POST", "/v3/sshKey", Some(&user_key));
    assert_eq!(by_hand.await.0, 200);
    let key = |name: &str, letter: char| {
        let mut object = build_deleting_key(name, letter);
        object["spec"] = teams.build_spec(object["spec"].take());
        object
    };
    theirs.create(&key("deploy", 'B')).await;
    let made = theirs.wait_ready("deploy", SOON).await;
    assert_eq!(made["status"]["createdByObject"], true);
    let before = list_stored_keys(&teams.one).await;
    assert_eq!(before.len(), 2, "{before:?}");

    // Objects for both keys, and an own key whose annotation is later copied to the other objects.
    ours.create(&key("theirs", 'B')).await;
    ours.create(&key("nobodys", 'A')).await;
    ours.create(&key("mine", 'C')).await;
    for name in ["theirs", "nobodys"] {
        let object = ours.wait_ready(name, SOON).await;
        assert_eq!(object["status"]["createdByObject"], false, "{object:#}");
    }
    let mine = ours.wait_ready("mine", SOON).await;
    assert_eq!(mine["status"]["createdByObject"], true);
    let annotation = "flexmetal.dev/stored-key";
    let record = text(&mine["metadata"]["annotations"][annotation]);
    for name in ["theirs", "nobodys"] {
        let object = ours.get(name).await.unwrap();
        let mut record: Value = serde_json::from_str(&record).expect("a note");
        record["uid"] = object["metadata"]["uid"].clone();
        let forged = json!({"metadata": {"annotations": {annotation: record.to_string()}}});
        ours.merge(name, &forged).await;
    }
    // The deletion of an object deletes only the key that it stored itself.
    for name in ["theirs", "nobodys", "mine"] {
        ours.delete(name).await;
        ours.wait_gone(name, SOON).await;
    }
    assert_eq!(list_stored_keys(&teams.one).await, before);
    let now = theirs.get("deploy").await.unwrap();
    assert_eq!(health(&now), Kstatus::Current, "{now:#}");
    check_invariants(&teams.one).await;
    teams
}

/// The release limit of the account blocks deletions of the team that reaches it, and of no other.
pub(super) async fn check_release_limit_per_team(host: &SharedOperator) -> Teams {
    let teams = Teams::start(host, "releases").await;
    let kind = json!({"apiVersion": "flexmetal.dev/v1alpha1", "kind": "ClusterProviderAccount"});
    let account = build_api(&teams.one.client, None, &kind);
    let change = async |change: Value| {
        let (name, params) = (&teams.account, PatchParams::default());
        account
            .patch(name, &params, &Patch::Merge(change))
            .await
            .unwrap()
    };
    change(json!({"spec": {"releaseLimit": {"maxReleases": 1, "window": "1h"}}})).await;
    let server = |name: &str| build_server(name, &teams.build_spec(json!({})));
    for (world, name) in [(&teams.one, "a"), (&teams.one, "b"), (&teams.other, "c")] {
        world.create(&server(name)).await;
    }
    for (world, name) in [(&teams.one, "a"), (&teams.one, "b"), (&teams.other, "c")] {
        world.wait_ready(name, SOON).await;
    }
    for name in ["a", "b"] {
        teams.one.delete(name).await;
    }
    let waits = wait_for_limited_objects(&teams.one, 1).await.remove(0);
    teams.other.delete("c").await;
    teams.other.wait_gone("c", SOON).await;
    assert!(teams.one.get(&waits).await.is_some(), "it is still held");
    let token = eventually("the account asks for it", SOON, async || {
        find_pending_token(
            &json!(account.get(&teams.account).await.ok()?),
            "LiftReleaseLimit",
        )
    })
    .await;
    change(build_acknowledgement(&token)).await;
    teams.one.wait_gone(&waits, SOON).await;
    check_invariants(&teams.one).await;
    teams
}

/// No team changes the whitelist of the shared key.
/// Only objects in the operator's own namespace may, where the key Secret is.
pub(super) async fn check_foreign_whitelist(host: &SharedOperator) -> Teams {
    let teams = Teams::start(host, "lists").await;
    let list = |name: &str| {
        let entries = json!([{"name": "me", "cidr": "127.0.0.0/8"}]);
        let mut object = build_whitelist(
            name,
            &json!({"entries": entries, "entryPolicy": "Exact", "lockoutGuard": false}),
        );
        object["spec"] = teams.build_spec(object["spec"].take());
        object
    };
    let ours = teams.one.things("IpWhitelist");
    ours.create(&list("outside")).await;
    let words = [
        "spec.accountRef",
        "the operator's own namespace",
        "use a ProviderAccount",
    ];
    wait_object_stalled(&ours, "outside", "NotAllowed", &words).await;
    // An object that never changed anything is deleted at once.
    ours.delete("outside").await;
    ours.wait_gone("outside", SOON).await;
    let of_lists = async || {
        let ledger = teams.one.simulator.ledger().await;
        let calls = ledger
            .into_iter()
            .filter(|call| text(&call["path"]).contains("/whitelist"));
        calls.collect::<Vec<_>>()
    };
    assert_eq!(of_lists().await, Vec::<Value>::new());

    // In the namespace of the key Secret it is allowed.
    let own = host.world.things("IpWhitelist");
    own.create(&list("inside")).await;
    own.wait_ready("inside", SOON).await;
    assert!(!of_lists().await.is_empty());
    own.delete("inside").await;
    own.wait_gone("inside", SOON).await;
    check_invariants(&teams.one).await;
    teams
}
