//! An account with a Secret: used by a server that orders nothing, held for it,
//! and freed when the server is gone.

use api::names::ACCOUNT_FINALIZER;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::{
    super::{
        call_trace::Place,
        judge::{self, Findings},
        proxied_world::{AT_ITS_END, ProxiedWorld},
    },
    Life,
};
use lab::rig::{World, condition, eventually, server};

const HOLD: usize = 0;

pub(super) struct Account;

impl Life for Account {
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
                HOLD => use_it(proxied, name).await,
                _ => leave_it(&proxied.world, name).await,
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
                HOLD => held(world, name).await,
                _ => gone(world, name).await,
            }
            (Value::Null, judge::after_anything(world).await)
        }
        .boxed_local()
    }

    /// Only the first report counts: it writes the counts of its users and machines at its own pace.
    fn counts(&self, phase: usize, seen: &[Place], index: usize) -> bool {
        let place = &seen[index];
        let reports = place.sort == "PATCH provideraccounts/status";
        !place.is_look() && (!reports || phase == HOLD && place.nth == 1)
    }
}

fn user_of(name: &str) -> String {
    format!("user-of-{name}")
}

async fn use_it(proxied: &ProxiedWorld, name: &str) {
    proxied.write_account(name).await;
    let mut object = server(&user_of(name));
    object["spec"]["suspend"] = json!(true);
    object["spec"]["accountRef"] = json!({"name": name});
    proxied.world.create(&object).await;
}

async fn leave_it(world: &World, name: &str) {
    let user = user_of(name);
    world.delete(&user).await;
    world.wait_gone(&user, AT_ITS_END).await;
    let parameters = DeleteParams::default();
    let deleted = world.accounts().delete(name, &parameters).await;
    deleted.expect("an account can be deleted");
    let deleted = world.secrets().delete(name, &parameters).await;
    deleted.expect("a Secret can be deleted");
}

async fn held(world: &World, name: &str) {
    eventually("the account is held and Ready", AT_ITS_END, async || {
        let account = world.accounts().get(name).await.ok()?;
        let secret = world.secrets().get(name).await.ok()?;
        let is_held = |finalizers: &[String]| finalizers.iter().any(|f| f == ACCOUNT_FINALIZER);
        let ready = condition(&account.data, "Ready").is_some_and(|c| c["status"] == "True");
        (is_held(account.finalizers()) && is_held(secret.finalizers()) && ready).then_some(())
    })
    .await;
}

async fn gone(world: &World, name: &str) {
    eventually("account and Secret are gone", AT_ITS_END, async || {
        let account = world.accounts().get_opt(name).await.ok()?;
        let secret = world.secrets().get_opt(name).await.ok()?;
        (account.is_none() && secret.is_none()).then_some(())
    })
    .await;
}
