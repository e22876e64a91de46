//! An account with a Secret: a server that orders nothing uses it.
//! The account's finalizers are removed when the server is gone.

use api::names::ACCOUNT_FINALIZER;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::{
    super::{
        call_trace::TracePosition,
        judge::{self, Findings},
        proxied_world::{AT_ITS_END, ProxiedWorld},
    },
    Lifecycle,
};
use lab::rig::{World, condition, eventually, server};

const HOLD: usize = 0;

pub(super) struct AccountLifecycle;

impl Lifecycle for AccountLifecycle {
    fn kind(&self) -> &'static str {
        "ProviderAccount"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["Hold", "LetGo"]
    }

    fn expected(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("Hold", "cluster PATCH provideraccounts #1"),
            ("Hold", "cluster PATCH secrets #1"),
            ("LetGo", "cluster PATCH secrets #1"),
            ("LetGo", "cluster PATCH provideraccounts #1"),
        ]
    }

    fn start<'a>(
        &'a self,
        proxied: &'a ProxiedWorld,
        name: &'a str,
        phase: usize,
    ) -> LocalBoxFuture<'a, ()> {
        async move {
            match phase {
                HOLD => create_account_user(proxied, name).await,
                _ => delete_account_user(&proxied.world, name).await,
            }
        }
        .boxed_local()
    }

    fn end<'a>(
        &'a self,
        proxied: &'a ProxiedWorld,
        name: &'a str,
        phase: usize,
        _before: &'a Value,
    ) -> LocalBoxFuture<'a, (Value, Findings)> {
        async move {
            let world = &proxied.world;
            match phase {
                HOLD => wait_for_finalizer(world, name).await,
                _ => wait_until_gone(world, name).await,
            }
            (Value::Null, judge::check_at_any_time(world).await)
        }
        .boxed_local()
    }

    /// Only the first call of a kind counts: the counts of users and servers are written at their own pace, and the
    /// operator repeats a write that meets the deletion. So a report of the deletion does not count either.
    fn counts(&self, phase: usize, seen: &[TracePosition], index: usize) -> bool {
        let place = &seen[index];
        let is_report =
            place.kind == "PATCH provideraccounts/status" || place.kind.starts_with("POST events");
        !place.is_read() && place.nth == 1 && (phase == HOLD || !is_report)
    }
}

fn user_of(name: &str) -> String {
    format!("user-of-{name}")
}

async fn create_account_user(proxied: &ProxiedWorld, name: &str) {
    proxied.write_account(name).await;
    let mut object = server(&user_of(name));
    object["spec"]["suspend"] = json!(true);
    object["spec"]["accountRef"] = json!({"name": name});
    proxied.world.create(&object).await;
}

async fn delete_account_user(world: &World, name: &str) {
    let user = user_of(name);
    world.delete(&user).await;
    world.wait_gone(&user, AT_ITS_END).await;
    let parameters = DeleteParams::default();
    let deleted = world.accounts().delete(name, &parameters).await;
    deleted.expect("an account can be deleted");
    let deleted = world.secrets().delete(name, &parameters).await;
    deleted.expect("a Secret can be deleted");
}

async fn wait_for_finalizer(world: &World, name: &str) {
    eventually("the account is held and Ready", AT_ITS_END, async || {
        let account = world.accounts().get(name).await.ok()?;
        let secret = world.secrets().get(name).await.ok()?;
        let has_finalizer =
            |finalizers: &[String]| finalizers.iter().any(|f| f == ACCOUNT_FINALIZER);
        let ready = condition(&account.data, "Ready").is_some_and(|c| c["status"] == "True");
        (has_finalizer(account.finalizers()) && has_finalizer(secret.finalizers()) && ready)
            .then_some(())
    })
    .await;
}

async fn wait_until_gone(world: &World, name: &str) {
    eventually("account and Secret are gone", AT_ITS_END, async || {
        let account = world.accounts().get_opt(name).await.ok()?;
        let secret = world.secrets().get_opt(name).await.ok()?;
        (account.is_none() && secret.is_none()).then_some(())
    })
    .await;
}
