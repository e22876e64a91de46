//! No log line contains the key.

use super::{
    provider::{name_hash, order_tag, server_json},
    rig::{Rig, order, reserve},
};
use std::{
    io::Write,
    sync::{Arc, Mutex},
    time::Duration,
};
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

const CANARY: &str = "canary-7c1f0d2e";

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[test]
fn no_log_line_contains_the_key() {
    // Other tests have tracing subscribers of their own, and tracing caches its choice for the whole process. A run
    // whose lines went elsewhere shows nothing and is repeated.
    let texts = (0..10)
        .map(|_| a_life())
        .find(|texts| {
            texts
                .iter()
                .any(|t| t.contains("call") && t.contains("AccessDenied"))
        })
        .expect("some run has a log");
    for text in texts {
        assert!(!text.contains(CANARY), "{text}");
    }
}

/// All texts of an account that works, fails and is rejected; the log last.
fn a_life() -> Vec<String> {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("trace"))
        .with_writer(lines.clone())
        .finish();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let mut texts = Vec::new();
    tracing::subscriber::with_default(subscriber, || {
        tracing::callsite::rebuild_interest_cache();
        texts = runtime.block_on(work_fail_and_be_refused());
    });
    texts.push(String::from_utf8(lines.0.lock().unwrap().clone()).unwrap());
    texts
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
