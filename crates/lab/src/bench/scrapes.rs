//! Scrapes the operator during a benchmark as often as Prometheus would.

use std::time::Duration;

use tokio::task::JoinSet;

const EVERY: Duration = Duration::from_secs(15);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Scrapes this URL until the set is dropped. A scrape that fails is missing, as in Prometheus.
pub(crate) fn start(url: String) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(ANSWER_WITHIN)
            .build();
        let Ok(client) = client else {
            return;
        };
        let mut times = tokio::time::interval(EVERY);
        loop {
            times.tick().await;
            if let Ok(answer) = client.get(&url).send().await {
                let _ = answer.bytes().await;
            }
        }
    });
    tasks
}
