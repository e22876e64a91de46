//! What the drill releases and deletes: everything that it made, also after signals, errors and lost answers.

use std::time::Duration;

use lab::rig::{Fault, eventually};
use rustix::process::Signal;
use serde_json::json;
use tokio::time::Instant;

use super::{CONFIRMED, Drill, Provider, SERVERS, SHORT_LIMITS, SMALLEST, SOON, send_signal};

const RELEASE: &str = "DELETE /v3/flexMetal/servers/{uuid}";
/// Longer than one short read, and shorter than all attempts of one.
const PROMPTLY: Duration = Duration::from_secs(15);

#[tokio::test]
async fn interrupted_drill_releases_waiting_server() {
    let provider = Provider::start(&["--delivery-seconds=900"]);
    let drill = provider.interrupt_drill(Signal::INT, &[]).await;
    assert_eq!(drill.code, 1, "{}", drill.messages);
    assert!(
        drill.report.contains("interrupted by SIGINT"),
        "{}",
        drill.report
    );
    assert_eq!(drill.rows()["releaseWhileWaiting"][0], "accept");
    provider.assert_clean().await;
    assert_eq!(provider.count_servers().await, 1);
}

#[tokio::test]
async fn terminated_drill_releases_server_after_delivery() {
    for value in ["refuse409", "refuse422"] {
        let switch = format!("--switch=releaseWhileWaiting={value}");
        let provider = Provider::start(&["--delivery-seconds=8", &switch]);
        let drill = provider
            .interrupt_drill(Signal::TERM, &[SHORT_LIMITS])
            .await;
        assert_eq!(drill.code, 1, "{}", drill.messages);
        assert!(
            drill.report.contains("interrupted by SIGTERM"),
            "{}",
            drill.report
        );
        assert_eq!(drill.rows()["releaseWhileWaiting"][0], value);
        provider.assert_clean().await;
    }
}

#[tokio::test]
async fn interrupt_releases_server_of_wrong_order() {
    let provider = Provider::start(&[]);
    let simulator = &provider.simulator;
    let wrong = simulator.appear(&json!({"name": "unnamed"})).await;
    let uuid = wrong["uuid"].as_str().unwrap();
    let accepted = Fault::new(json!([
        {"delay": {"ms": 2000, "before": true}},
        {"status": {"code": 200}},
        {"body": {"text": json!({"uuid": uuid}).to_string()}},
    ]));
    let accepted = accepted
        .on("POST", SERVERS)
        .with_body("\"instanceType\":\"conformance-none\"");
    let rule = simulator.fault(accepted.times(1)).await;
    let drill = provider.start_drill(&[CONFIRMED]);
    simulator.wait_for_fault_hits(rule, 1, SOON).await;
    send_signal(&drill, Signal::TERM);
    let drill = Drill::end(drill).await;
    assert_eq!(drill.code, 1, "{}", drill.messages);
    let live = simulator.list_live_servers().await;
    assert!(live.is_empty(), "{live:?}\n{}", drill.messages);
}

#[tokio::test]
async fn lost_wrong_order_is_reported() {
    let provider = Provider::start(&[]);
    let lost = Fault::new("dropBefore")
        .on("POST", SERVERS)
        .with_body("conformance-none");
    provider.simulator.fault(lost.times(1)).await;
    let drill = provider.run_drill(&[CONFIRMED, SHORT_LIMITS]).await;
    assert_eq!(drill.code, 1, "{}", drill.messages);
    let unknown = "Whether a server named conformance-";
    assert!(drill.report.contains(unknown), "{}", drill.report);
}

#[tokio::test]
async fn lost_server_is_found_by_name_or_tag() {
    for change in [json!({"tags": []}), json!({"name": "renamed"})] {
        let provider = Provider::start(&["--list-lag-seconds=6", "--delivery-seconds=900"]);
        let simulator = &provider.simulator;
        // The lost server is on the second page.
        for number in 0..55 {
            let other = json!({"name": format!("other-{number}"), "tags": ["other"]});
            simulator.appear(&other).await;
        }
        let lost = Fault::new("dropAfter")
            .on("POST", SERVERS)
            .with_body(SMALLEST);
        simulator.fault(lost.after(1)).await;
        let drill = provider.start_drill(&[CONFIRMED]);
        let server = provider.await_order().await;
        let uuid = server["uuid"].as_str().unwrap();
        simulator.alter(uuid, &change).await;
        let drill = Drill::end(drill).await;
        assert_eq!(drill.code, 1, "{}", drill.messages);
        let live = simulator.list_live_servers().await;
        assert_eq!(live.len(), 55, "{change}: {}", drill.messages);
        assert!(!live.contains(&server));
    }
}

#[tokio::test]
async fn rejected_key_ends_waiting_at_once() {
    let provider = Provider::start(&["--delivery-seconds=900"]);
    let simulator = &provider.simulator;
    let drill = provider.start_drill(&[CONFIRMED]);
    provider.await_order().await;
    simulator.key(simulator.api_key(), false).await;
    eventually("the clean-up tries a release", SOON, async || {
        simulator.counts().await.contains_key(RELEASE).then_some(())
    })
    .await;
    simulator.key(simulator.api_key(), true).await;
    let drill = Drill::end(drill).await;
    assert_eq!(drill.code, 1, "{}", drill.messages);
    assert!(
        drill.report.contains("rejects the key with 403"),
        "{}",
        drill.report
    );
    provider.assert_clean().await;
}

#[tokio::test]
async fn drill_deletes_unexpected_tags_and_unlisted_keys() {
    let provider = Provider::start(&[]);
    let simulator = &provider.simulator;
    let unlisted = Fault::new(json!({"body": {"text": "[]", "contentType": "application/json"}}));
    simulator.fault(unlisted.on("GET", "/v3/sshKey")).await;
    let drill = provider.start_drill(&[CONFIRMED]);
    let server = provider.await_order().await;
    let tag = format!("{}-stray", server["name"].as_str().unwrap());
    let tag = json!({"tag": tag});
    let stored = simulator.call("POST", "/v3/flexMetal/tags", Some(&tag));
    assert_eq!(stored.await.0, 200);
    let drill = Drill::end(drill).await;
    assert_eq!(drill.code, 0, "{}\n{}", drill.report, drill.messages);
    simulator.clear_faults().await;
    provider.assert_clean().await;
}

#[tokio::test]
async fn lost_order_answer_leaves_no_server() {
    let provider = Provider::start(&["--list-lag-seconds=3"]);
    // The first order names a contract that does not exist, and is refused.
    let lost = Fault::new("dropAfter")
        .on("POST", SERVERS)
        .with_body(SMALLEST);
    provider.simulator.fault(lost.after(1)).await;
    let drill = provider.run_drill(&[CONFIRMED]).await;
    assert_eq!(drill.code, 1, "{}", drill.messages);
    assert!(
        drill.report.contains("outcome of the order is unknown"),
        "{}",
        drill.report
    );
    provider.assert_clean().await;
    assert_eq!(
        provider.count_servers().await,
        1,
        "the order reached the API once"
    );
}

/// The limits of a refused release in seconds, with [`SHORT_LIMITS`]: 3 hours before the delivery, 15 minutes after it.
const WAITING_LIMIT: f64 = 180.0 * 0.1;
const DELIVERED_LIMIT: f64 = 15.0 * 0.1;

/// The API refuses the release until the drill gives up. Returns how long that took, in seconds.
async fn give_up_release(delivery: &str) -> f64 {
    let provider = Provider::start(&[delivery]);
    let refused = Fault::new(json!({"refuse": {"status": 403, "message": "no"}}));
    let refused = refused.on("DELETE", &format!("{SERVERS}/*"));
    provider.simulator.fault(refused).await;
    let drill = provider.start_drill(&[CONFIRMED, SHORT_LIMITS]);
    provider.await_order().await;
    let begun = Instant::now();
    send_signal(&drill, Signal::INT);
    let drill = Drill::end(drill).await;
    let took = begun.elapsed().as_secs_f64();
    assert_eq!(drill.code, 1, "{}", drill.messages);
    let live = provider.simulator.list_live_servers().await;
    let uuid = live[0]["uuid"].as_str().unwrap();
    for text in [&format!("Server {uuid}"), "still costs money"] {
        assert!(drill.report.contains(text), "{}", drill.report);
    }
    took
}

#[tokio::test]
async fn refused_release_of_waiting_server_is_repeated() {
    let took = give_up_release("--delivery-seconds=900").await;
    assert!(took >= WAITING_LIMIT, "{took} s");
}

#[tokio::test]
async fn refused_release_of_delivered_server_ends_early() {
    let took = give_up_release("--delivery-seconds=1").await;
    assert!((DELIVERED_LIMIT..WAITING_LIMIT).contains(&took), "{took} s");
}

#[tokio::test]
async fn failing_reads_do_not_delay_release() {
    // An answer that never comes, and none.
    let slow = json!({"delay": {"ms": 60_000, "before": true}});
    for fault in [slow, json!("dropBefore")] {
        let provider = Provider::start(&["--delivery-seconds=900"]);
        let simulator = &provider.simulator;
        let drill = provider.start_drill(&[CONFIRMED]);
        provider.await_order().await;
        let reads = Fault::new(fault).on("GET", &format!("{SERVERS}/*"));
        simulator.fault(reads).await;
        send_signal(&drill, Signal::INT);
        eventually("the first release is sent", PROMPTLY, async || {
            simulator.counts().await.contains_key(RELEASE).then_some(())
        })
        .await;
        simulator.clear_faults().await;
        let drill = Drill::end(drill).await;
        assert_eq!(drill.code, 1, "{}", drill.messages);
        provider.assert_clean().await;
    }
}

#[tokio::test]
async fn failed_server_shows_release_answer() {
    for value in ["refuse422", "accept"] {
        let switch = format!("--switch=releaseFailed={value}");
        let provider = Provider::start(&[&switch]);
        let failing = Fault::new(json!({"fail": {"message": "no link to 192.0.2.7"}}));
        provider.simulator.fault(failing.on("POST", SERVERS)).await;
        let drill = provider.run_drill(&[CONFIRMED]).await;
        assert_eq!(drill.code, 1, "{}", drill.messages);
        for text in [&drill.report, &drill.messages] {
            let masked = "the delivery failed: no link to <address>";
            assert!(text.contains(masked), "{text}");
        }
        assert_eq!(drill.rows()["releaseFailed"][0], value);
        provider.assert_clean().await;
    }
}
