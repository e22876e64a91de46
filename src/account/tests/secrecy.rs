//! No log line contains the key.

use super::{
    provider::{name_hash, order_tag, server_json},
    rig::{Rig, order, reserve},
};
use crate::runtime::telemetry::{LogFormat, tests::CapturedLog};
use std::time::Duration;

const CANARY: &str = "canary-7c1f0d2e";

#[test]
fn no_log_line_contains_the_key() {
    let (texts, log) = collect_texts();
    assert!(
        log.contains("call") && log.contains("AccessDenied"),
        "{log}"
    );
    for text in texts.iter().chain([&log]) {
        assert!(!text.contains(CANARY), "{text}");
    }
}

/// The texts of an account that works, fails and is rejected, and the log of all of it.
fn collect_texts() -> (Vec<String>, String) {
    let (written, log) = CapturedLog::start(LogFormat::Text, "trace");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let work = || runtime.block_on(work_fail_and_be_refused());
    let texts = tracing::subscriber::with_default(log, work);
    (texts, written.text())
}

async fn work_fail_and_be_refused() -> Vec<String> {
    let mut texts = Vec::new();
    let rig = Rig::new().await;
    rig.install("default", CANARY, |_| {});
    let account = rig.resolve("default");
    rig.provider.world().servers = vec![server_json(1, "provisioning")];
    rig.ready(&account).await;
    let permit = reserve(&account, &name_hash(2)).await.unwrap();
    account
        .order(permit, &order(&order_tag(2)), &order_tag(2))
        .await;
    rig.provider.world().down = true;
    tokio::time::sleep(Duration::from_secs(300)).await;
    texts.push(format!("{:?}", account.view().last_error));
    rig.provider.world().down = false;
    rig.provider.world().refused_key = Some(CANARY.into());
    tokio::time::sleep(Duration::from_secs(300)).await;
    // The fake API quotes the key in its refusal.
    texts.push(format!("{:?}", account.view().state));
    texts.push(format!(
        "{:?}",
        reserve(&account, &name_hash(3)).await.err()
    ));
    let report = rig.accounts.report(account.key(), &[]);
    texts.push(format!("{report:?}"));
    texts
}
