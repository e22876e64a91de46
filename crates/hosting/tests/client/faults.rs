//! Every operation through every fault of the simulator: the result, that one call is one request, and that a change
//! that was made is never reported as not made.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use hosting_types::error::Error;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    canaries::{self, KEY},
    logs,
    operations::{Body, Kind, Operation},
    reply::Reply,
    scene::Scene,
    verdict::{INTERRUPTED, TOO_LARGE, UNDECODABLE, Verdict},
};

/// The result of a call through a fault.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// As without the fault.
    Good,
    /// A success whose answer says nothing.
    Silent,
    /// A list without a record.
    Empty,
    Bad(Verdict),
}

struct Fault {
    fault: Value,
    outcome: fn(Operation) -> Outcome,
    /// Whether the change is made.
    takes_effect: bool,
    /// Whether the fault can affect the request at all.
    strikes: fn(Operation) -> bool,
}

fn fault(fault: Value, takes_effect: bool, outcome: fn(Operation) -> Outcome) -> Fault {
    Fault {
        fault,
        outcome,
        takes_effect,
        strikes: |_| true,
    }
}

impl Fault {
    fn only(mut self, strikes: fn(Operation) -> bool) -> Self {
        self.strikes = strikes;
        self
    }
}

/// These change nothing: one scene can go through all of them.
fn without_effect() -> Vec<Fault> {
    let refuse = json!({"refuse": {"status": 422, "message": "no"}});
    let status = |code: u16| json!({"status": {"code": code, "retryAfter": 7}});
    vec![
        fault(refuse, false, |_| Outcome::Bad(Verdict::for_status(422))),
        fault(json!("dropBefore"), false, |_| Outcome::Bad(INTERRUPTED)),
        fault(status(503), false, |_| {
            Outcome::Bad(Verdict::for_status(503))
        }),
        fault(status(429), false, |_| {
            Outcome::Bad(Verdict::for_status(429))
        }),
        fault(status(302), false, |_| {
            Outcome::Bad(Verdict::for_status(302))
        }),
    ]
}

/// The work is done, and the answer is lost, cut, blank, another or too long.
fn with_effect(reads: bool) -> Vec<Fault> {
    let status = |code: u16| json!({"status": {"code": code, "after": true}});
    // The limit for a change is lower than for a read.
    let oversize = json!({"oversize": {"bytes": if reads { 9_000_000 } else { 1_200_000 }}});
    let page = json!({"body": {"text": "<h1>Sign in</h1>", "contentType": "text/html"}});
    vec![
        fault(json!("dropAfter"), true, |_| Outcome::Bad(INTERRUPTED)),
        fault(status(503), true, |_| {
            Outcome::Bad(Verdict::for_status(503))
        }),
        fault(status(409), true, |_| {
            Outcome::Bad(Verdict::for_status(409))
        }),
        fault(json!("truncate"), true, |it| match it.body() {
            Body::Nothing => Outcome::Good,
            _ => Outcome::Bad(INTERRUPTED),
        }),
        fault(json!("emptyBody"), true, |it| match it.body() {
            Body::Nothing => Outcome::Good,
            Body::Unread => Outcome::Silent,
            _ => Outcome::Bad(UNDECODABLE),
        }),
        // The page of a proxy in between.
        fault(page, true, |it| match it.body() {
            Body::Nothing => Outcome::Good,
            _ => Outcome::Bad(UNDECODABLE),
        }),
        fault(oversize, true, |it| match it.body() {
            Body::Nothing => Outcome::Good,
            _ => Outcome::Bad(TOO_LARGE),
        }),
        fault(json!({"fail": {"message": "why"}}), true, |_| Outcome::Good).only(Operation::begins),
    ]
}

/// Faults that affect only lists.
fn of_lists() -> Vec<Fault> {
    vec![
        fault(json!("emptyList"), true, |it| match it.body() {
            Body::List | Body::Paged => Outcome::Empty,
            _ if it == Operation::Tag => Outcome::Bad(Verdict::for_status(404)),
            _ => Outcome::Good,
        })
        .only(|it| it == Operation::Tag || matches!(it.body(), Body::List | Body::Paged)),
        // Long before anything existed.
        fault(
            json!({"staleList": {"seconds": 1e6}}),
            true,
            |it| match it {
                Operation::Servers | Operation::Tags | Operation::InstallLog => Outcome::Empty,
                Operation::Server | Operation::Commands | Operation::Command | Operation::Tag => {
                    Outcome::Bad(Verdict::for_status(404))
                }
                // Dedicated hosts have always existed.
                Operation::Hosts => Outcome::Silent,
                _ => Outcome::Good,
            },
        )
        .only(Operation::is_dated),
        // The first page is correct; `lists` goes on.
        fault(json!("shiftedPage"), true, |_| Outcome::Good).only(|it| it.body() == Body::Paged),
        fault(json!("repeatedPage"), true, |_| Outcome::Good).only(|it| it.body() == Body::Paged),
        fault(json!("repeatedRecord"), true, |_| Outcome::Silent)
            .only(|it| it == Operation::Servers),
    ]
}

/// Calls through one fault.
async fn check_fault(operation: Operation, scene: &Scene, fault: &Fault) {
    let what = fault.fault.to_string();
    scene.rig.fault(operation.method(), &fault.fault).await;
    let before = scene.rig.latest().await;
    let reply = operation.call(scene).await;
    scene.rig.clear("faults").await;
    canaries::none_in("a reply", &reply.text);
    let ledger = scene.rig.ledger(before).await;
    assert_eq!(ledger.len(), 1, "{operation:?}, {what}");
    assert_eq!(
        ledger[0].was_hit_by_a_fault(),
        (fault.strikes)(operation),
        "{operation:?}, {what}"
    );
    let effect = !ledger[0].effect().is_null();
    assert_eq!(
        effect,
        fault.takes_effect && operation.kind() != Kind::Read,
        "{operation:?}, {what}"
    );
    // The one mistake that costs money.
    assert!(
        !effect || reply.may_have_taken_effect(),
        "{operation:?}, {what}"
    );
    let text = reply.text.clone();
    match (fault.outcome)(operation) {
        Outcome::Good => reply.check(scene),
        Outcome::Silent => assert!(reply.is_good(), "{operation:?}, {what}: {text}"),
        Outcome::Empty => assert!(
            text.starts_with("Ok([])")
                || text.starts_with("Ok(HostPage { hosts: [], next: None })"),
            "{operation:?}, {what}: {text}"
        ),
        Outcome::Bad(verdict) => {
            verdict.judge(operation, &reply, &what);
            if let Some(Error::RateLimited(refusal)) = reply.error {
                assert_eq!(refusal.retry_after, Some(Duration::from_secs(7)));
            }
        }
    }
    logs::none_leaked();
}

#[tokio::test]
async fn faulty_read_gives_an_answer_or_error() {
    let mut faults = without_effect();
    faults.extend(with_effect(true));
    faults.extend(of_lists());
    let all = Operation::ALL.iter().copied();
    for operation in all.filter(|it| it.kind() == Kind::Read) {
        let scene = Scene::new().await;
        for fault in &faults {
            check_fault(operation, &scene, fault).await;
        }
    }
}

#[tokio::test]
async fn change_not_made_is_reported_as_such() {
    let all = Operation::ALL.iter().copied();
    for operation in all.filter(|it| it.kind() != Kind::Read) {
        let scene = Scene::new().await;
        for fault in without_effect() {
            check_fault(operation, &scene, &fault).await;
        }
        // It was really not made.
        operation.call(&scene).await.check(&scene);
    }
}

#[tokio::test]
async fn lost_answer_never_rules_out_the_change() {
    let all = Operation::ALL.iter().copied();
    for operation in all.filter(|it| it.kind() != Kind::Read) {
        for fault in with_effect(false) {
            check_fault(operation, &Scene::new().await, &fault).await;
        }
    }
}

#[tokio::test]
async fn faults_of_lists_do_not_strike_changes() {
    let all = Operation::ALL.iter().copied();
    let faults: Vec<_> = of_lists().into_iter().map(|fault| fault.fault).collect();
    for operation in all.filter(|it| it.kind() != Kind::Read) {
        let all = fault(json!(faults), true, |_| Outcome::Good).only(|_| false);
        check_fault(operation, &Scene::new().await, &all).await;
    }
}

/// Far longer than the client waits.
const LATE: u64 = 600_000;

/// Makes all calls at once with a short deadline, and returns their results.
async fn too_late(before: bool) -> Vec<(Operation, Scene, Reply, u64)> {
    let mut scenes = Vec::new();
    for &operation in Operation::ALL {
        let scene = Scene::new().await;
        let fault = json!({"delay": {"ms": LATE, "before": before}});
        scene.rig.fault(operation.method(), &fault).await;
        let latest = scene.rig.latest().await;
        scenes.push((operation, scene, latest));
    }
    let calls = scenes
        .into_iter()
        .map(|(operation, scene, latest)| async move {
            let client = scene.rig.client(KEY, Duration::from_secs(1));
            let reply = operation.call_with(&client, &scene).await;
            INTERRUPTED.judge(operation, &reply, "too late");
            (operation, scene, reply, latest)
        });
    join_all(calls).await
}

#[tokio::test]
async fn late_answer_is_an_unknown_outcome() {
    for (operation, scene, reply, latest) in too_late(false).await {
        canaries::none_in("a reply", &reply.text);
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let ledger = scene.rig.ledger(latest).await;
            assert!(ledger.len() <= 1, "{operation:?}");
            let there = ledger
                .first()
                .is_some_and(|entry| operation.kind() == Kind::Read || !entry.effect().is_null());
            if there {
                break;
            }
            assert!(Instant::now() < deadline, "{operation:?} had no effect");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn request_in_flight_leaves_doubt() {
    for (operation, scene, reply, latest) in too_late(true).await {
        canaries::none_in("a reply", &reply.text);
        let ledger = scene.rig.ledger(latest).await;
        assert!(ledger.len() <= 1, "{operation:?}");
        assert!(
            ledger
                .iter()
                .all(|entry| entry.effect().is_null() && !entry.is_over())
        );
    }
}

#[test]
fn every_fault_of_the_page_is_here() {
    let page = include_str!("../../../../docs/simulator.md");
    let (_, faults) = page.split_once("## Faults").unwrap();
    let (faults, _) = faults.split_once("\n## ").unwrap();
    let rows = faults.lines().filter_map(|row| row.strip_prefix("| `"));
    let name = |text: &str| text.split('"').nth(1).map(str::to_owned);
    let page: BTreeSet<_> = rows.filter_map(name).collect();
    let here = without_effect().into_iter().chain(with_effect(true));
    let here = here.chain(of_lists()).map(|it| it.fault.to_string());
    let here = here.filter_map(|fault| name(&fault));
    let here: BTreeSet<_> = here
        .chain(["delay", "upperCase"].map(str::to_owned))
        .collect();
    assert_eq!(page, here);
}
