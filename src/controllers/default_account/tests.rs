//! Tests: what is read before an object is bound to an account, and what is written.

use super::*;
use crate::{
    account::{Listing, Settings},
    controllers::{
        context::Process,
        floor_tests::{Answer, Floor, no},
        objects::{Objects, Traits},
        streams::Guarded,
    },
};
use api::{ServerTag, allowed::AllowedNamespaces};
use flexmetal_core::account::key::AccountKey;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

const OWN: &str = "GET /apis/flexmetal.dev/v1alpha1/namespaces/n/provideraccounts/default";
const SHARED: &str = "GET /apis/flexmetal.dev/v1alpha1/clusterprovideraccounts/shared";
const PIN: &str = "PATCH /apis/flexmetal.dev/v1alpha1/namespaces/n/servertags/web/status";

struct Known;

impl Listing for Known {
    fn is_known(&self) -> bool {
        true
    }
}

/// The account of the cluster as the API server has it.
fn shared() -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ClusterProviderAccount",
        "metadata": {"name": "shared", "uid": "shared-uid", "annotations": {DEFAULT_ACCOUNT: "true"}},
        "spec": {
            "apiKeySecretRef": {"name": "s"},
            "allowedNamespaces": [{"name": "entry", "names": ["n"]}],
        },
    })
}

fn tag(spec: &Value, status: &Value) -> Value {
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerTag",
        "metadata": {"name": "web", "namespace": "n", "uid": "tag-uid", "resourceVersion": "5"},
        "spec": spec, "status": status,
    })
}

type Ctx = Context<ServerTag, u32>;

/// The context of a process that knows the account of the cluster, with this object.
fn context(process: &Process, object: &Value) -> (Ctx, Arc<ServerTag>) {
    let key = AccountKey::named(AccountKind::ClusterProviderAccount, None, "shared");
    let entry = json!({"name": "entry", "names": ["n"]});
    let entry: AllowedNamespaces = serde_json::from_value(entry).unwrap();
    let settings = Settings {
        allowed: Some(vec![entry]),
        ..Settings::blocked(Reason::Pending, String::new())
    };
    process.accounts.set_listing(Arc::new(Known));
    process.accounts.announce(&key, "shared-uid");
    process.accounts.note_default(&key, "shared-uid", true);
    process
        .accounts
        .configure(&key, "shared-uid", settings, None);
    let objects = Arc::new(Objects::new(Traits::default(), 1));
    let shown: Guarded<ServerTag> = serde_json::from_value(object.clone()).unwrap();
    objects.take_in(0, Event::Init);
    objects.take_in(0, Event::InitApply(shown));
    objects.take_in(0, Event::InitDone);
    let object = Arc::new(serde_json::from_value(object.clone()).unwrap());
    (Ctx::new(process, objects), object)
}

/// The result after two minutes, and all that was asked.
async fn after_the_wait(
    object: &Value,
    answers: Vec<Answer>,
) -> (Result<Option<Undecided>, Again>, Vec<String>) {
    let floor = Floor::start(answers).await;
    tokio::time::pause();
    let (ctx, object) = context(&floor.ctx, object);
    // The first look starts the wait.
    let first = ctx.settle_account(&object, None).await;
    tokio::time::advance(patience::PATIENCE).await;
    tokio::time::resume();
    let asked = floor.asked().len();
    assert_eq!(asked, 0, "nothing is read before it is due: {first:?}");
    let result = ctx.settle_account(&object, None).await;
    (result, floor.asked())
}

fn says(object: Value) -> Answer {
    Answer::Says(200, object)
}

fn absent() -> Answer {
    no(404, "not found")
}

#[tokio::test]
async fn an_object_is_bound_once_both_accounts_were_read_live() {
    let object = tag(&json!({}), &json!({}));
    let bound = json!({"account": {"kind": "ClusterProviderAccount", "name": "shared"}});
    let answers = vec![absent(), says(shared()), says(tag(&json!({}), &bound))];
    let (result, asked) = after_the_wait(&object, answers).await;
    assert_eq!(result, Err(Again::AtOnce));
    assert_eq!(asked, [OWN, SHARED, PIN]);
}

#[tokio::test]
async fn what_is_read_live_goes_before_what_was_listed() {
    let object = || tag(&json!({}), &json!({}));
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut account = shared();
        change(&mut account);
        vec![absent(), says(account)]
    };
    let own = json!({"metadata": {"name": "default", "namespace": "n", "uid": "own"}});
    let cases = [
        ("it has one of its own", vec![says(own)]),
        ("none is there any more", vec![absent(), absent()]),
        (
            "the mark is gone",
            changed(&|a| a["metadata"]["annotations"] = json!({})),
        ),
        (
            "the mark says something else",
            changed(&|a| a["metadata"]["annotations"][DEFAULT_ACCOUNT] = json!("false")),
        ),
        (
            "another one has its name",
            changed(&|a| a["metadata"]["uid"] = json!("another")),
        ),
        (
            "it ends",
            changed(&|a| a["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
        ),
        (
            "it does not serve the namespace",
            changed(&|a| a["spec"]["allowedNamespaces"] = json!([])),
        ),
        ("the first read fails", vec![no(500, "no")]),
        ("the second read fails", vec![absent(), no(500, "no")]),
    ];
    for (what, answers) in cases {
        let reads = answers.len();
        let (result, asked) = after_the_wait(&object(), answers).await;
        let undecided = result.unwrap().expect(what);
        let expected = match what.ends_with("read fails") {
            true => Reason::ChecksFailed,
            false => Reason::AccountNotFound,
        };
        assert_eq!(undecided.cause.reason, expected, "{what}");
        assert_eq!(asked, [OWN, SHARED][..reads], "{what}: nothing is written");
    }
}

#[tokio::test]
async fn who_has_an_account_or_ends_is_left_as_it_is() {
    let shared = json!({"kind": "ClusterProviderAccount", "name": "other"});
    let mut ending = tag(&json!({}), &json!({}));
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    ending["metadata"]["finalizers"] = json!(["flexmetal.dev/object"]);
    let cases = [
        tag(&json!({}), &json!({"account": shared})),
        tag(&json!({"accountRef": {"name": "default"}}), &json!({})),
        tag(
            &json!({"accountRef": {"kind": "ProviderAccount"}}),
            &json!({}),
        ),
        tag(&json!({"accountRef": shared}), &json!({})),
        ending,
    ];
    for object in cases {
        let (result, asked) = after_the_wait(&object, Vec::new()).await;
        assert_eq!(result, Ok(None), "{object}");
        assert!(asked.is_empty(), "{object}: {asked:?}");
    }
}

#[tokio::test]
async fn an_object_says_for_what_it_waits_and_is_looked_at_when_that_is_over() {
    let floor = Floor::start([]).await;
    tokio::time::pause();
    let (ctx, object) = context(&floor.ctx, &tag(&json!({}), &json!({})));
    let undecided = ctx.settle_account(&object, None).await.unwrap().unwrap();
    assert_eq!(undecided.rest, patience::PATIENCE);
    let Cause {
        reason, message, ..
    } = &undecided.cause;
    assert_eq!(*reason, Reason::AccountNotFound);
    for word in ["ClusterProviderAccount shared", "for good", "2m"] {
        assert!(message.contains(word), "{message}");
    }
    // A second one that serves it stops that, and both are named.
    let key = AccountKey::named(AccountKind::ClusterProviderAccount, None, "also");
    let entry = json!({"name": "entry", "names": ["*"]});
    let settings = Settings {
        allowed: Some(vec![serde_json::from_value(entry).unwrap()]),
        ..Settings::blocked(Reason::Pending, String::new())
    };
    ctx.accounts.announce(&key, "also");
    ctx.accounts.note_default(&key, "also", true);
    ctx.accounts.configure(&key, "also", settings, None);
    let several = ctx.settle_account(&object, None).await.unwrap().unwrap();
    assert_eq!(several.cause.reason, Reason::SeveralDefaults);
    for word in [
        "ClusterProviderAccount also and ClusterProviderAccount shared",
        "kubectl annotate clusterprovideraccount shared flexmetal.dev/is-default-account-",
    ] {
        assert!(several.cause.message.contains(word), "{several:?}");
    }
}

#[tokio::test]
async fn what_its_own_note_names_holds_whatever_stands_in() {
    let object = tag(&json!({}), &json!({}));
    let noted = PinnedAccount {
        kind: AccountKind::ClusterProviderAccount,
        name: "former".into(),
    };
    let bound = json!({"account": noted});
    let floor = Floor::start([says(tag(&json!({}), &bound))]).await;
    let (ctx, object) = context(&floor.ctx, &object);
    let result = ctx.settle_account(&object, Some(noted.clone())).await;
    assert_eq!(result, Err(Again::AtOnce));
    assert_eq!(floor.asked(), [PIN]);
    let Some(crate::controllers::objects::Shown::Decoded(now)) = ctx.objects.newest("tag-uid")
    else {
        panic!("it is there");
    };
    assert_eq!(now.account(), noted);
}
