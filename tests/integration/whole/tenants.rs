//! Two teams with namespaces of their own and one account of the cluster between them: neither reaches what the other
//! one has there, whatever it writes into its own objects.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    SOON, acknowledging, api_of, apply,
    cluster_wide::Host,
    judge, pending,
    release_limit::held,
    secret,
    ssh_keys::{deleting_key, public_key, stored},
    tags::tag,
    text,
    whitelists::whitelist,
    with,
};
use kube::api::{Patch, PatchParams};
use lab::rig::{Kstatus, Things, World, eventually, health, quick_timing};

/// A cluster with two teams.
pub(super) struct Teams {
    /// Whose account it is at the provider: its simulator is behind the account of the cluster.
    pub(super) one: World,
    pub(super) other: World,
    account: String,
}

impl Teams {
    async fn of(host: &Host, prefix: &str) -> Self {
        let one = host.guest(prefix).await;
        let other = host.guest(prefix).await;
        let account = one.namespace.clone();
        let key = secret(&account, "apiKey", one.simulator.api_key());
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

    /// A spec that names the account of the cluster.
    fn spec(&self, mut spec: Value) -> Value {
        spec["accountRef"] = json!({"kind": "ClusterProviderAccount", "name": self.account});
        spec
    }

    /// The tags of the account, but for the operator's own.
    async fn tags(&self) -> Vec<String> {
        let mut tags = super::tags::account_tags(&self.one).await;
        tags.sort();
        tags
    }
}

/// Waits until an object needs a person for this reason; its message holds all of `words`.
async fn stuck(things: &Things, name: &str, reason: &str, words: &[&str]) {
    let object = things
        .wait_for_condition(name, "Ready", "False", Some(reason), SOON)
        .await;
    super::said(name, &object, words);
}

/// Waits until whatever is created next is younger than this object: of two of one second the UID decides.
async fn is_older_than_all_to_come(object: &Value) {
    let created = text(&object["metadata"]["creationTimestamp"]);
    let created: Timestamp = created.parse().expect("a time");
    eventually("its second is over", SOON, async || {
        (Timestamp::now().as_second() > created.as_second()).then_some(())
    })
    .await;
}

/// A tag of another team, or of nobody, cannot be renamed, deleted or taken over.
pub(super) async fn others_tags(host: &Host) -> Teams {
    let teams = Teams::of(host, "tags").await;
    let (ours, theirs) = (
        teams.one.things("ServerTag"),
        teams.other.things("ServerTag"),
    );
    let person = json!({"tag": "people"});
    let by_hand = teams
        .one
        .simulator
        .call("POST", "/v3/flexMetal/tags", Some(&person));
    assert_eq!(by_hand.await.0, 200);
    theirs.create(&tag("billing", &teams.spec(json!({})))).await;
    let made = theirs.wait_ready("billing", SOON).await;
    assert_eq!(made["status"]["createdByObject"], true);
    is_older_than_all_to_come(&made).await;

    // Every word that could take a tag away, on objects for tags that others have made.
    let all = json!({"renamePolicy": "Rename", "deletionPolicy": "Delete", "force": true});
    let with_tag = |name: &str| {
        let mut spec = all.clone();
        spec["tag"] = json!(name);
        teams.spec(spec)
    };
    ours.create(&tag("theirs", &with_tag("billing"))).await;
    ours.create(&tag("nobodys", &with_tag("people"))).await;
    ours.create(&tag("mine", &with_tag("mine"))).await;
    let owner = "the older ServerTag of another namespace";
    stuck(&ours, "theirs", "OwnershipConflict", &[owner]).await;
    let theirs_told = ours.get("theirs").await.unwrap()["status"].to_string();
    assert!(
        !theirs_told.contains(&teams.other.namespace),
        "{theirs_told}"
    );
    let found = ours.wait_ready("nobodys", SOON).await;
    assert_eq!(found["status"]["createdByObject"], false);
    ours.wait_ready("mine", SOON).await;

    // What was there is not renamed; what another has is not taken by renaming.
    let to = |tag: &str| json!({"spec": {"tag": tag}});
    ours.merge("nobodys", &to("taken")).await;
    stuck(
        &ours,
        "nobodys",
        "OwnershipConflict",
        &["people", "existed before"],
    )
    .await;
    ours.merge("mine", &to("billing")).await;
    stuck(&ours, "mine", "OwnershipConflict", &[owner]).await;
    ours.merge("mine", &to("people")).await;
    stuck(&ours, "mine", "NameTaken", &["people", "mine"]).await;
    ours.merge("mine", &to("mine")).await;
    ours.wait_ready("mine", SOON).await;
    assert_eq!(teams.tags().await, ["billing", "mine", "people"]);

    // Nor does a note of the operator help that somebody else wrote: what it says of the own tag, said of another one.
    let annotation = "flexmetal.dev/tag";
    let mine = ours.get("mine").await.unwrap();
    let note = text(&mine["metadata"]["annotations"][annotation]);
    let mut note: Value = serde_json::from_str(&note).expect("a note");
    assert_eq!(note["made"], true);
    note["uid"] = found["metadata"]["uid"].clone();
    note["tag"] = json!("people");
    let forged = json!({
        "metadata": {"annotations": {annotation: note.to_string()}}, "spec": {"tag": "people"},
    });
    ours.merge("nobodys", &forged).await;
    ours.wait_ready("nobodys", SOON).await;
    ours.merge("nobodys", &to("taken")).await;
    stuck(&ours, "nobodys", "OwnershipConflict", &["people"]).await;
    assert_eq!(teams.tags().await, ["billing", "mine", "people"]);

    // What a server of the other team bears is not deleted, whoever made it and whatever is forced.
    let machine =
        json!({"name": "server-of-the-other-team", "tags": ["mine"], "status": "delivered"});
    let machine = teams.one.simulator.appear(&machine).await;
    for name in ["theirs", "nobodys", "mine"] {
        ours.delete(name).await;
    }
    for name in ["theirs", "nobodys"] {
        ours.wait_gone(name, SOON).await;
    }
    stuck(&ours, "mine", "InUse", &["mine"]).await;
    assert_eq!(teams.tags().await, ["billing", "mine", "people"]);
    let bare = json!({"tags": []});
    teams
        .one
        .simulator
        .alter(&text(&machine["uuid"]), &bare)
        .await;
    ours.wait_gone("mine", SOON).await;
    assert_eq!(teams.tags().await, ["billing", "people"]);

    // The other team has noticed nothing.
    let now = theirs.get("billing").await.unwrap();
    assert_eq!(health(&now), Kstatus::Current, "{now:#}");
    assert_eq!(now["status"]["createdByObject"], true);
    judge(&teams.one).await;
    teams
}

/// A key that another team, or a person, has stored cannot be deleted.
pub(super) async fn others_keys(host: &Host) -> Teams {
    let teams = Teams::of(host, "keys").await;
    let (ours, theirs) = (teams.one.things("SshKey"), teams.other.things("SshKey"));
    let person = json!({"name": "a person's", "publicKey": public_key('A')});
    let by_hand = teams
        .one
        .simulator
        .call("POST", "/v3/sshKey", Some(&person));
    assert_eq!(by_hand.await.0, 200);
    let key = |name: &str, letter: char| {
        let mut object = deleting_key(name, letter);
        object["spec"] = teams.spec(object["spec"].take());
        object
    };
    theirs.create(&key("deploy", 'B')).await;
    let made = theirs.wait_ready("deploy", SOON).await;
    assert_eq!(made["status"]["createdByObject"], true);
    let before = stored(&teams.one).await;
    assert_eq!(before.len(), 2, "{before:?}");

    // Objects for both, and one of our own, whose note says afterwards that it stored the other one.
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
    let note = text(&mine["metadata"]["annotations"][annotation]);
    for name in ["theirs", "nobodys"] {
        let object = ours.get(name).await.unwrap();
        let mut note: Value = serde_json::from_str(&note).expect("a note");
        note["uid"] = object["metadata"]["uid"].clone();
        let forged = json!({"metadata": {"annotations": {annotation: note.to_string()}}});
        ours.merge(name, &forged).await;
    }
    // The end of each: only what was stored by the object goes.
    for name in ["theirs", "nobodys", "mine"] {
        ours.delete(name).await;
        ours.wait_gone(name, SOON).await;
    }
    assert_eq!(stored(&teams.one).await, before);
    let now = theirs.get("deploy").await.unwrap();
    assert_eq!(health(&now), Kstatus::Current, "{now:#}");
    judge(&teams.one).await;
    teams
}

/// The release limit of the account holds the deletions of the team that reaches it, and no other's.
pub(super) async fn releases(host: &Host) -> Teams {
    let teams = Teams::of(host, "releases").await;
    let kind = json!({"apiVersion": "flexmetal.dev/v1alpha1", "kind": "ClusterProviderAccount"});
    let account = api_of(&teams.one.client, None, &kind);
    let change = async |change: Value| {
        let (name, params) = (&teams.account, PatchParams::default());
        account
            .patch(name, &params, &Patch::Merge(change))
            .await
            .unwrap()
    };
    change(json!({"spec": {"releaseLimit": {"maxReleases": 1, "window": "1h"}}})).await;
    let server = |name: &str| with(name, &teams.spec(json!({})));
    for (world, name) in [(&teams.one, "a"), (&teams.one, "b"), (&teams.other, "c")] {
        world.create(&server(name)).await;
    }
    for (world, name) in [(&teams.one, "a"), (&teams.one, "b"), (&teams.other, "c")] {
        world.wait_ready(name, SOON).await;
    }
    for name in ["a", "b"] {
        teams.one.delete(name).await;
    }
    let waits = held(&teams.one, 1).await.remove(0);
    teams.other.delete("c").await;
    teams.other.wait_gone("c", SOON).await;
    assert!(teams.one.get(&waits).await.is_some(), "it is still held");
    let token = eventually("the account asks for it", SOON, async || {
        pending(
            &json!(account.get(&teams.account).await.ok()?),
            "LiftReleaseLimit",
        )
    })
    .await;
    change(acknowledging(&token)).await;
    teams.one.wait_gone(&waits, SOON).await;
    judge(&teams.one).await;
    teams
}

/// No team changes the whitelist of the key that all teams are served by: only objects in the operator's own
/// namespace do, where the key lies.
pub(super) async fn whitelist_outside(host: &Host) -> Teams {
    let teams = Teams::of(host, "lists").await;
    let list = |name: &str| {
        let entries = json!([{"name": "me", "cidr": "127.0.0.0/8"}]);
        let mut object = whitelist(
            name,
            &json!({"entries": entries, "entryPolicy": "Exact", "lockoutGuard": false}),
        );
        object["spec"] = teams.spec(object["spec"].take());
        object
    };
    let ours = teams.one.things("IpWhitelist");
    ours.create(&list("outside")).await;
    let words = [
        "spec.accountRef",
        "the operator's own namespace",
        "use a ProviderAccount",
    ];
    stuck(&ours, "outside", "NotAllowed", &words).await;
    // A finalizer does not hold what was never done.
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

    // Where the key lies it is allowed.
    let own = host.world.things("IpWhitelist");
    own.create(&list("inside")).await;
    own.wait_ready("inside", SOON).await;
    assert!(!of_lists().await.is_empty());
    own.delete("inside").await;
    own.wait_gone("inside", SOON).await;
    judge(&teams.one).await;
    teams
}
