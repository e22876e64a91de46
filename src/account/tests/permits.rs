//! Permits of objects on a session: what is granted, what is returned, and who delays whom.

use super::{
    provider::{Provider, name_hash, order_tag, server_json, uuid},
    rig::{Rig, caller, order, permit, reserve},
};
use crate::account::{Account, Denied, EnqueueTarget, OrderPermitAnswer, PermitAnswer};
use api::{Reason, limits::Limits};
use flexmetal_core::account::priority::Priority;
use hosting_types::{Error, OrderResult, ServerId, error::NotSent};
use std::time::Duration;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

fn tokens_left(account: &Account) -> u32 {
    // Each is granted at once or not at all.
    let mut permits = Vec::new();
    for n in 0..100 {
        match account.request_permit(Priority::Release, 1, &caller(&format!("count{n}"))) {
            Ok(PermitAnswer::Now(permit)) => permits.push(permit),
            _ => {
                account
                    .connected()
                    .unwrap()
                    .0
                    .core
                    .rate_limiter
                    .cancel_request(&format!("count{n}"));
                break;
            }
        }
    }
    u32::try_from(permits.len()).unwrap()
}

async fn idle_account() -> (Rig, Account) {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = vec![server_json(1, "delivered")];
    rig.ready(&account).await;
    sleep(Duration::from_secs(10)).await;
    rig.enqueued();
    (rig, account)
}

#[tokio::test(start_paused = true)]
async fn permit_allows_only_its_number_of_calls() {
    let (rig, account) = idle_account().await;
    rig.provider.calls();
    let id = ServerId::parse(&uuid(1)).unwrap();
    let mut two = permit(&account, Priority::Release, 2).await.unwrap();
    let record = two.read_server(&id).await.unwrap();
    let answer = two.call(async |client| client.release(&record.id).await);
    let released = two_way(answer.await, &two);
    assert_eq!(released, "releasing");
    let third = two.read_server(&id).await;
    assert!(matches!(third, Err(Error::NotSent(_))));
    assert_eq!(rig.provider.calls().len(), 2);
}

fn two_way(
    answer: Result<hosting_types::Server, Error>,
    permit: &crate::account::Permit,
) -> String {
    permit
        .record_server(answer.unwrap())
        .status
        .as_str()
        .to_owned()
}

#[tokio::test(start_paused = true)]
async fn dropped_permit_returns_its_unused_calls() {
    let (_rig, account) = idle_account().await;
    assert_eq!(tokens_left(&account), 40);
    let unused = permit(&account, Priority::Release, 15).await.unwrap();
    assert_eq!(tokens_left(&account), 25);
    drop(unused);
    assert_eq!(tokens_left(&account), 40);
    // So does an order permit, with its reservation.
    let unused = reserve(&account, &name_hash(9)).await.unwrap();
    assert_eq!(tokens_left(&account), 39);
    drop(unused);
    assert_eq!(tokens_left(&account), 40);
}

#[tokio::test(start_paused = true)]
async fn claimed_permit_makes_the_reservation() {
    let rig = Rig::new().await;
    rig.install("default", "key-one", |settings| {
        settings.limits = Limits {
            max_servers: Some(1),
            ..Limits::default()
        };
    });
    let account = rig.resolve("default");
    rig.ready(&account).await;
    let core = account.connected().unwrap().0.core;
    core.rate_limiter.slow_down(Some(Duration::from_secs(7)));
    for n in 0..3 {
        let answer = account.request_order_permit(&name_hash(n), &caller(&format!("o{n}")));
        assert!(matches!(answer, Ok(OrderPermitAnswer::Queued)));
    }
    sleep(Duration::from_secs(9)).await;
    assert!(rig.enqueued().contains(&EnqueueTarget::Object("o2".into())));
    let Ok(OrderPermitAnswer::Now(first)) =
        account.request_order_permit(&name_hash(0), &caller("o0"))
    else {
        panic!("it has a grant");
    };
    for n in 1..3 {
        let answer = account.request_order_permit(&name_hash(n), &caller(&format!("o{n}")));
        assert!(matches!(answer, Err(Denied::Limit(_))));
    }
    drop(first);
    // The object that was refused has no grant any more, and asks again.
    drop(reserve(&account, &name_hash(1)).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_holds_nothing() {
    let (rig, account) = idle_account().await;
    let core = account.connected().unwrap().0.core;
    core.rate_limiter.slow_down(Some(Duration::from_secs(7)));
    for uid in ["gone", "ended", "stays"] {
        let answer = account.request_permit(Priority::Release, 1, &caller(uid));
        assert!(matches!(answer, Ok(PermitAnswer::Queued)));
    }
    rig.accounts.forget("gone");
    sleep(Duration::from_secs(8)).await;
    let enqueued = rig.enqueued();
    assert!(!enqueued.contains(&EnqueueTarget::Object("gone".into())));
    assert!(enqueued.contains(&EnqueueTarget::Object("stays".into())));
    rig.accounts.cancel_requests("ended");
    rig.accounts.forget("stays");
    sleep(Duration::from_secs(30)).await;
    assert_eq!(tokens_left(&account), 40);
}

#[tokio::test(start_paused = true)]
async fn refused_key_enqueues_waiting_objects() {
    let (rig, account) = idle_account().await;
    let mut second = permit(&account, Priority::Poll, 2).await.unwrap();
    let mut first = permit(&account, Priority::Poll, 1).await.unwrap();
    let core = account.connected().unwrap().0.core;
    core.rate_limiter.slow_down(Some(Duration::from_secs(300)));
    let answer = account.request_permit(Priority::Release, 1, &caller("waits"));
    assert!(matches!(answer, Ok(PermitAnswer::Queued)));
    rig.provider.world().refused_key = Some("key-one".into());
    let refused = first.call(async |client| client.quota_usage().await).await;
    assert!(matches!(refused, Err(Error::AccessDenied(_))));
    assert!(
        rig.enqueued()
            .contains(&EnqueueTarget::Object("waits".into()))
    );
    rig.provider.calls();
    let refused = second.call(async |client| client.quota_usage().await).await;
    assert!(matches!(
        refused,
        Err(Error::NotSent(NotSent::KeyRefused(_)))
    ));
    assert!(rig.provider.calls().is_empty(), "no call goes out");
}

/// An account with a fake API of its own.
async fn neighbour(rig: &Rig) -> (Rig, Account) {
    let neighbour = Rig {
        provider: Provider::default(),
        accounts: rig.accounts.clone(),
        objects: rig.objects.clone(),
    };
    neighbour.install("neighbour", "key-other", |_| {});
    let account = neighbour.resolve("neighbour");
    neighbour.ready(&account).await;
    (neighbour, account)
}

async fn is_prompt(account: &Account) {
    let start = Instant::now();
    for _ in 0..5 {
        let mut permit = permit(account, Priority::Poll, 1).await.unwrap();
        let answer = permit.call(async |client| client.plans().await).await;
        assert!(answer.is_ok());
    }
    drop(reserve(account, &name_hash(77)).await.unwrap());
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_throttled_account_holds_up_no_other() {
    let (rig, throttled) = idle_account().await;
    let (_other, account) = neighbour(&rig).await;
    rig.provider.world().busy = true;
    rig.provider.world().pause = 300;
    let mut call = permit(&throttled, Priority::Poll, 1).await.unwrap();
    let answer = call.call(async |client| client.plans().await).await;
    assert!(matches!(answer, Err(Error::RateLimited(_))));
    for n in 0..100 {
        let answer = throttled.request_permit(Priority::Release, 2, &caller(&format!("o{n}")));
        assert!(matches!(answer, Ok(PermitAnswer::Queued)));
    }
    is_prompt(&account).await;
    sleep(Duration::from_secs(290)).await;
    assert!(
        !rig.enqueued().contains(&EnqueueTarget::Object("o0".into())),
        "the pause is kept"
    );
    is_prompt(&account).await;
}

#[tokio::test(start_paused = true)]
async fn hanging_calls_delay_only_their_account() {
    let (rig, slow) = idle_account().await;
    let (_other, account) = neighbour(&rig).await;
    rig.provider.world().hanging = true;
    let mut tasks = JoinSet::new();
    for n in 0..48 {
        let slow = slow.clone();
        // Orders as far as allowed, then other changes; all of them hang.
        tasks.spawn(async move {
            if n < 8 {
                let permit = reserve(&slow, &name_hash(n)).await.unwrap();
                let (order, tag) = (order(&order_tag(n)), order_tag(n));
                let outcome = slow.order(permit, &order, &tag).await;
                assert!(!matches!(outcome, OrderResult::Created(_)));
            } else {
                let asks = caller(&format!("change{n}"));
                let Ok(PermitAnswer::Now(mut permit)) =
                    slow.request_permit(Priority::Resolve, 1, &asks)
                else {
                    panic!("there is room");
                };
                let id = ServerId::parse(&uuid(1)).unwrap();
                let call = async |c: &hosting::Client| c.add_tag(&id, "t").await;
                assert!(permit.call(call).await.is_err());
            }
        });
        sleep(Duration::from_millis(60)).await;
    }
    sleep(Duration::from_secs(5)).await;
    let answer = slow.request_permit(Priority::Release, 2, &caller("more"));
    assert!(matches!(answer, Ok(PermitAnswer::Queued)));
    is_prompt(&account).await;
    // They end, and permits are free again.
    rig.enqueued();
    tasks.shutdown().await;
    sleep(Duration::from_millis(10)).await;
    assert!(
        rig.enqueued()
            .contains(&EnqueueTarget::Object("more".into()))
    );
}

#[tokio::test(start_paused = true)]
async fn no_permits_without_a_connection() {
    let rig = Rig::new().await;
    rig.configure("default", "account-default", None, |_| {});
    let account = rig.resolve("default");
    let answer = account.request_permit(Priority::Poll, 1, &caller("a"));
    assert!(matches!(answer.map(drop), Err(Error::NotSent(_))));
    let answer = account.request_order_permit(&name_hash(1), &caller("a"));
    assert!(matches!(
        answer.map(drop),
        Err(Denied::Blocked(Reason::Pending, _))
    ));
}
