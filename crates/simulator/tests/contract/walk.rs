//! The curl lines of `docs/simulator.md` and `docs/contributing/simulator.md`, as they are there.

use std::process::Output;

use serde_json::json;
use simulator::Options;
use tokio::process::Command;

use crate::page::operations;
use crate::rig::Rig;

/// The line of the page that stands for what the simulator printed.
const PRINTED: &str = r#"printed='{"api":"http://127.0.0.1:8480","apiKey":"demo","control":"http://127.0.0.1:8481"}'"#;

/// The page for users.
const FOR_USERS: &str = include_str!("../../../../docs/simulator.md");
/// The page with the walk.
const DETAILS: &str = include_str!("../../../../docs/contributing/simulator.md");

/// The blocks of shell lines under a heading of a page.
fn blocks(page: &'static str, heading: &str) -> Vec<&'static str> {
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    let part = rest.split("\n## ").next().unwrap();
    let parts = part.split("```bash\n").skip(1);
    parts.filter_map(|part| part.split("```").next()).collect()
}

async fn shell(rig: &Rig, script: &str) -> Output {
    assert!(script.contains(PRINTED), "{script}");
    let (api, control) = (rig.running.api_url(), rig.running.control_url());
    let line = json!({"api": api, "apiKey": rig.running.api_key, "control": control});
    let script = script.replace(PRINTED, &format!("printed='{line}'"));
    // A refusal ends the script; -s alone would hide it.
    let script = format!(
        "set -euxo pipefail\ncurl() {{ command curl --noproxy '*' --fail-with-body \"$@\"; }}\n{script}"
    );
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(script).output().await.unwrap()
}

/// The simulator as it starts with no flags, but for free ports.
async fn unflagged() -> Rig {
    Rig::with(Options::default()).await
}

#[tokio::test]
async fn contract_documented_walk_works_twice() {
    let rig = unflagged().await;
    let walk = blocks(DETAILS, "A walk").concat();
    for round in 1..=2 {
        let done = shell(&rig, &walk).await;
        let out = String::from_utf8_lossy(&done.stdout);
        let log = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "round {round}: {out}\n{log}");
        for seen in ["\"delivered\"", "\"released\"", "curl: 52"] {
            assert!(out.contains(seen), "round {round}: {seen}: {out}");
        }
    }
    let ledger = rig.look("ledger/counts").await;
    let missed: Vec<_> = operations()
        .into_iter()
        .filter(|operation| ledger[*operation].as_u64().is_none_or(|calls| calls < 2))
        .collect();
    assert!(missed.is_empty(), "not walked through: {missed:?}");
    // Refused are the order whose answer got lost, and nothing else.
    let refused = rig.look("ledger").await;
    let refused = refused.as_array().unwrap().iter();
    let refused: Vec<_> = refused
        .filter(|entry| entry["status"].as_u64().is_some_and(|status| status >= 300))
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[tokio::test]
async fn contract_documented_order_is_delivered() {
    let rig = unflagged().await;
    let done = shell(&rig, &blocks(FOR_USERS, "Your own client").concat()).await;
    let out = String::from_utf8_lossy(&done.stdout);
    let log = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{out}\n{log}");
    assert!(out.contains("\"delivered\""), "{out}");
}
