//! How long deliveries took, and how closely those that are awaited are looked at.

use super::{
    provider::{machine, mark, uuid},
    rig::{Rig, permit},
};
use crate::{account::Account, runtime::clock};
use api::delivery::{Deliveries, DeliveryTimes};
use flexmetal_core::account::lane::Lane;
use hosting_types::ServerId;
use serde_json::Value;
use std::time::Duration;
use tokio::time::sleep;

/// A machine that was delivered in so many seconds, some time ago.
fn delivered_in(number: usize, seconds: i64) -> Value {
    let mut machine = machine(number, "delivered");
    let created = 1_600_000_000 + i64::try_from(number).unwrap() * 10_000;
    machine["createdAt"] = created.into();
    machine["deliveredAt"] = (created + seconds).into();
    machine
}

/// A machine that was ordered so many seconds ago. The wall clock stands still in these tests, and so does its age.
fn ordered_ago(number: usize, seconds: i64) -> Value {
    let mut machine = machine(number, "provisioning");
    machine["createdAt"] = (clock::now().wall - seconds).into();
    machine
}

/// An account with three deliveries of 700 to 960 seconds, and these machines on their way.
async fn awaiting(machines: impl IntoIterator<Item = Value>) -> (Rig, Account) {
    let (rig, account) = Rig::with_account().await;
    let mut servers = vec![
        delivered_in(1, 700),
        delivered_in(2, 960),
        delivered_in(3, 843),
    ];
    servers.extend(machines);
    rig.provider.world().servers = servers;
    rig.ready(&account).await;
    rig.provider.calls();
    (rig, account)
}

fn words(account: &Account) -> Option<String> {
    let usual = account.view().deliveries;
    let usual = usual.usual("EU: Rotterdam", "bm7.std.8")?;
    Some(usual.to_string())
}

/// How often this machine is read in an hour.
async fn reads(rig: &Rig, number: usize) -> usize {
    rig.provider.calls();
    sleep(Duration::from_secs(3600)).await;
    let read = format!("GET /v3/flexMetal/servers/{}", uuid(number));
    let calls = rig.provider.calls();
    calls.iter().filter(|call| **call == read).count()
}

#[tokio::test(start_paused = true)]
async fn what_was_delivered_tells_how_long_the_next_ones_take() {
    let (rig, account) = awaiting([]).await;
    assert_eq!(words(&account).as_deref(), Some("11 to 16 minutes"));

    // Another process begins with what is on record, also where no machine is left that tells.
    let record = account.view().deliveries.record(&[]);
    rig.provider.world().servers.clear();
    let other = Rig::new().await;
    other.install("default", "key-one", |settings| {
        settings.deliveries = record
    });
    let account = other.resolve("default");
    other.ready(&account).await;
    assert_eq!(words(&account).as_deref(), Some("11 to 16 minutes"));
}

#[tokio::test(start_paused = true)]
async fn a_provider_whose_clock_runs_faster_makes_nobody_wait_longer() {
    // By its clock each took 200 seconds, and by ours no more than the twenty since its order.
    let fast = |number: usize| {
        let mut machine = delivered_in(number, 200);
        let now = clock::now().wall;
        let epoch = now - 20;
        machine["tags"][1] = format!("fmo-order:{}{epoch:08x}", mark(number)).into();
        machine["createdAt"] = (now - 20).into();
        machine["deliveredAt"] = (now + 180 + i64::try_from(number).unwrap()).into();
        machine
    };
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = (1..4).map(fast).collect();
    rig.ready(&account).await;
    let told = words(&account).unwrap();
    assert!(told.starts_with("20 ") || told.starts_with("21 "), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_read_rarely_until_its_delivery_is_near() {
    let (rig, _account) = awaiting([ordered_ago(10, 0)]).await;
    let early = reads(&rig, 10).await;
    assert!((9..=16).contains(&early), "as one at rest: {early}");

    let (rig, _account) = awaiting([ordered_ago(10, 800)]).await;
    let near = reads(&rig, 10).await;
    assert!((80..=150).contains(&near), "closely: {near}");

    let (rig, _account) = awaiting([ordered_ago(10, 90_000)]).await;
    let late = reads(&rig, 10).await;
    assert!((9..=16).contains(&late), "it may be days: {late}");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_near_does_not_have_the_others_read() {
    let early = (20..40).map(|number| ordered_ago(number, 0));
    let (rig, _account) = awaiting(early.chain([ordered_ago(10, 800)])).await;
    rig.provider.calls();
    sleep(Duration::from_secs(200)).await;
    let near = format!("GET /v3/flexMetal/servers/{}", uuid(10));
    let calls = rig.provider.calls();
    assert!(calls.iter().filter(|call| **call == near).count() >= 4);
    let others = calls.iter().filter(|call| {
        let id = call.strip_prefix("GET /v3/flexMetal/servers/");
        id.is_some_and(|id| id != uuid(10))
    });
    assert_eq!(others.count(), 0, "{calls:?}");
}

/// 1,000 machines cost 22 calls a look. Looked at each 30 s over the 16 minutes that they take, that would be some 700.
#[tokio::test(start_paused = true)]
async fn a_thousand_machines_in_motion_are_listed_rarely_while_none_can_be_there() {
    let (rig, _account) = awaiting((0..1000).map(|n| ordered_ago(2000 + n, 0))).await;
    sleep(Duration::from_secs(560)).await;
    let calls = rig.provider.calls();
    assert!(
        (22..=70).contains(&calls.len()),
        "two or three looks: {}",
        calls.len()
    );
}

#[tokio::test(start_paused = true)]
async fn what_lies_about_its_times_makes_nothing_slower_than_at_rest_nor_faster_than_allowed() {
    let (rig, account) = Rig::with_account().await;
    let mut lies: Vec<Value> = (0..40).map(|n| delivered_in(n, 1)).collect();
    for (number, lie) in lies.iter_mut().enumerate() {
        lie["location"]["name"] = format!("place {number}").into();
        lie["createdAt"] = i64::MIN.into();
    }
    lies.extend((40..43).map(|n| delivered_in(n, 86_400)));
    lies.push(ordered_ago(50, -1_000_000));
    rig.provider.world().servers = lies;
    rig.ready(&account).await;
    let known: Vec<DeliveryTimes> = account.view().deliveries.record(&[]);
    assert_eq!(known.len(), 1);
    assert_ne!(*account.view().deliveries, Deliveries::default());
    let seen = reads(&rig, 50).await;
    assert!((9..=16).contains(&seen), "{seen}");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_delivery_that_is_awaited_is_looked_at_closely() {
    // A provider whose clock is ahead: our own, in the order's tag, tells.
    let ahead = |number: usize| {
        let mut machine = ordered_ago(number, -900);
        let epoch = clock::now().wall - 800;
        machine["tags"][1] = format!("fmo-order:{}{epoch:08x}", mark(number)).into();
        machine
    };
    let mut without_times = ordered_ago(11, 0);
    without_times["createdAt"] = Value::Null;
    // It was delivered once, and the provider does something with it now.
    let mut second = ordered_ago(12, 90_000);
    second["status"] = "reinstalling".into();
    let mut known_word = delivered_in(13, 700);
    known_word["status"] = "provisioning".into();
    let machines = [ahead(10), without_times, second, known_word];
    let (rig, _account) = awaiting(machines).await;
    sleep(Duration::from_secs(3600)).await;
    let calls = rig.provider.calls();
    for number in 10..14 {
        let read = format!("GET /v3/flexMetal/servers/{}", uuid(number));
        let reads = calls.iter().filter(|call| **call == read).count();
        assert!((80..=150).contains(&reads), "{number}: {reads}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_release_was_taken_is_looked_at_closely_whatever_it_says() {
    let (rig, account) = awaiting([ordered_ago(10, 0)]).await;
    let id = ServerId::parse(&uuid(10)).unwrap();
    let mut permit = permit(&account, Lane::Release, 1).await.unwrap();
    let released = permit.call(async |c| c.release(&id).await).await;
    // It may take a while until the record says so: the answer is the record that is known.
    rig.provider.set_status(10, "provisioning");
    let known = account.sighting(&id).unwrap().server;
    permit.learn_release(&id, &released.map(|_| (*known).clone()));
    drop(permit);
    rig.provider.calls();
    sleep(Duration::from_secs(40)).await;
    assert!(
        !rig.provider.calls().is_empty(),
        "at once, and not at the next round"
    );
    let seen = reads(&rig, 10).await;
    assert!((80..=150).contains(&seen), "{seen}");
}

#[tokio::test(start_paused = true)]
async fn a_round_says_nothing_of_an_account_without_a_call() {
    let (rig, _account) = awaiting((20..25).map(|number| ordered_ago(number, 0))).await;
    rig.provider.world().servers.drain(..3);
    // The first round lists, and drops those that are gone; from then on only machines that rest are left.
    sleep(Duration::from_secs(1900)).await;
    rig.provider.calls();
    sleep(Duration::from_secs(1200)).await;
    let calls = rig.provider.calls();
    assert!(calls.len() >= 3, "{calls:?}");
}
