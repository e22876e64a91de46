//! Sends requests over many connections, as fast as possible or at a fixed rate.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::{
    connection::{CallError, LoadCall, LoadConnection},
    latency::Latencies,
    mix::Fleet,
};

/// Why a stretch ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum DriveError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("an order was answered without a server")]
    Answer(#[from] serde_json::Error),
    #[error("a connection's task ended")]
    Task(#[from] tokio::task::JoinError),
}

/// How many requests, and how fast.
#[derive(Debug, Clone, Copy)]
pub(super) enum LoadPattern {
    /// This number of requests, each as soon as the previous one is answered.
    Count(usize),
    /// Requests for this time, each as soon as the previous one is answered.
    Flat(Duration),
    /// This number per second, each at a fixed time, independent of the others.
    Even { rate: u32, lasting: Duration },
}

/// The result of a stretch.
#[derive(Debug, Default)]
pub(super) struct Driven {
    pub(super) latencies: Latencies,
    pub(super) took: Duration,
}

impl Driven {
    /// Requests per second.
    #[expect(clippy::cast_precision_loss, reason = "a count, far below 2^52")]
    pub(super) fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }
}

/// Sends the requests of `next` over all `connections`, and returns the connections.
pub(super) async fn drive(
    connections: Vec<LoadConnection>,
    fleet: &Arc<Fleet>,
    pace: LoadPattern,
    next: fn(&Fleet) -> LoadCall,
) -> Result<(Driven, Vec<LoadConnection>), DriveError> {
    let began = Instant::now();
    let all = connections.len();
    let mut workers = JoinSet::new();
    for (place, connection) in connections.into_iter().enumerate() {
        let worker = Worker {
            place,
            all,
            began,
            connection,
            fleet: fleet.clone(),
        };
        workers.spawn(worker.run(pace, next));
    }
    let mut driven = Driven::default();
    let mut returned = Vec::new();
    while let Some(ended) = workers.join_next().await {
        let (latencies, connection) = ended??;
        driven.latencies.join(latencies);
        returned.push(connection);
    }
    driven.took = began.elapsed();
    Ok((driven, returned))
}

struct Worker {
    place: usize,
    all: usize,
    began: Instant,
    connection: LoadConnection,
    fleet: Arc<Fleet>,
}

impl Worker {
    async fn run(
        mut self,
        pace: LoadPattern,
        next: fn(&Fleet) -> LoadCall,
    ) -> Result<(Latencies, LoadConnection), DriveError> {
        let mut latencies = Latencies::default();
        let mut index = self.place;
        while let Some(due) = self.due(index, pace) {
            index += self.all;
            let call = next(&self.fleet);
            // If the previous answer was late, the delay counts for this request. The timer's resolution does not
            // count.
            let late = due.elapsed();
            if late.is_zero() {
                sleep_until(due).await;
            }
            let (answer, took) = self.connection.call(&call).await?;
            latencies.add(call.kind, late + took);
            self.fleet.ordered(&call, &answer)?;
        }
        Ok((latencies, self.connection))
    }

    /// When to send the request with this index. `None` at the end.
    fn due(&self, index: usize, pace: LoadPattern) -> Option<Instant> {
        let now = Instant::now();
        match pace {
            LoadPattern::Count(number) => (index < number).then_some(now),
            LoadPattern::Flat(lasting) => (now < self.began + lasting).then_some(now),
            LoadPattern::Even { rate, lasting } => {
                // Ends at twice the time, even if requests are behind.
                let index = u32::try_from(index)
                    .ok()
                    .filter(|_| now < self.began + lasting * 2)?;
                let after = Duration::from_secs_f64(f64::from(index) / f64::from(rate));
                (after < lasting).then(|| self.began + after)
            }
        }
    }
}
