//! Many connections at once: as fast as possible, or at a fixed rate.

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

/// Until when, and how fast.
#[derive(Debug, Clone, Copy)]
pub(super) enum LoadPattern {
    /// This many requests, each as soon as the one before it is answered.
    Count(usize),
    /// Requests for this long, each as soon as the one before it is answered.
    Flat(Duration),
    /// This many per second, each at its own time whatever happens to the others.
    Even { rate: u32, lasting: Duration },
}

/// What was achieved.
#[derive(Debug, Default)]
pub(super) struct Driven {
    pub(super) latencies: Latencies,
    pub(super) took: Duration,
}

impl Driven {
    /// Requests a second.
    #[expect(clippy::cast_precision_loss, reason = "a count, far below 2^52")]
    pub(super) fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }
}

/// Sends the requests of `next` over all `connections`, and returns these.
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
    let mut given_back = Vec::new();
    while let Some(ended) = workers.join_next().await {
        let (latencies, connection) = ended??;
        driven.latencies.join(latencies);
        given_back.push(connection);
    }
    driven.took = began.elapsed();
    Ok((driven, given_back))
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
        let mut turn = self.place;
        while let Some(due) = self.due(turn, pace) {
            turn += self.all;
            let call = next(&self.fleet);
            // A request that is late because the answer before came late has to
            // count the delay; the timer's resolution does not count.
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

    /// When the request of this turn is to leave; `None` at the end.
    fn due(&self, turn: usize, pace: LoadPattern) -> Option<Instant> {
        let now = Instant::now();
        match pace {
            LoadPattern::Count(number) => (turn < number).then_some(now),
            LoadPattern::Flat(lasting) => (now < self.began + lasting).then_some(now),
            LoadPattern::Even { rate, lasting } => {
                // A request that falls behind is not waited for.
                let turn = u32::try_from(turn)
                    .ok()
                    .filter(|_| now < self.began + lasting * 2)?;
                let after = Duration::from_secs_f64(f64::from(turn) / f64::from(rate));
                (after < lasting).then(|| self.began + after)
            }
        }
    }
}
