//! The looks at an account, one after the other, for as long as it lives.

use super::{
    Wake,
    breaker::Contact,
    budget::Lane,
    live::Core,
    orphans::{self, Verdict},
    pace::{self, Pace, Round},
    view::Proof,
};
use crate::{kinds::Reason, runtime::clock};
use futures::{FutureExt as _, TryFutureExt as _, future::BoxFuture};
use hosting::{Client, Error, ServerFilter, ServerStatus, StatusFilter, listing::Gap};
use std::{sync::Arc, time::Duration};

/// Most machines that are read one by one in a round; for more a listing is cheaper.
const ONE_BY_ONE: usize = 10;
/// How often a listing that shifted is begun anew within a round.
const TRIES: usize = 3;
/// How long a look is put off while the account has no member to look with.
const NO_MEMBER: Duration = Duration::from_secs(3600);

impl Core {
    /// Looks at the account, again and again. Never ends.
    pub(super) async fn keep_watch(&self) {
        loop {
            let (due, round) = self.plan();
            tokio::select! {
                biased;
                () = self.replan.notified() => continue,
                () = clock::sleep_until(due) => {}
            }
            let Some(client) = self.knowledge().client() else {
                continue;
            };
            let result = match round {
                Round::Probe => self
                    .probe_call(client.quota_usage())
                    .await
                    .map(drop)
                    .map_err(Gap::Failed),
                Round::Proof => self.prove(&client).await,
                Round::Poll => self.poll(&client).await,
            };
            self.conclude(round, result);
        }
    }

    fn plan(&self) -> (Duration, Round) {
        let knowledge = self.knowledge();
        let Some(times) = knowledge.times() else {
            return (clock::now().mono + NO_MEMBER, Round::Probe);
        };
        pace::next(&Pace {
            contact: knowledge.breaker.contact().clone(),
            probe_at: knowledge.breaker.probe_at(),
            retry_at: knowledge.retry_at,
            started: knowledge.started,
            cared: knowledge.cared,
            proved: knowledge.proof.as_ref().map(|p| p.ended),
            wanted: knowledge.wants.values().min().copied(),
            looked: knowledge.looked,
            moving_since: knowledge.moving_since,
            machines: knowledge.snapshot.present().next().is_some(),
            times,
            jitter: knowledge.jitter,
        })
    }

    /// A poll: what is delivered by one listing, the others one by one. When there are many others,
    /// one listing of all shows more for less.
    async fn poll(&self, client: &Client) -> Result<(), Gap> {
        let began = clock::now();
        let (moving, delivered) = {
            let knowledge = self.knowledge();
            let delivered = |s: &&super::view::Sighting| s.server.status == ServerStatus::Delivered;
            (
                knowledge.snapshot.moving(began.wall).count(),
                knowledge.snapshot.present().filter(delivered).count(),
            )
        };
        if moving > ONE_BY_ONE {
            return self.prove(client).await;
        }
        if delivered > 0 {
            let delivered = &self.filter(Some(StatusFilter::Delivered));
            let listing = || self.machines(client, delivered, Lane::Poll);
            begun_anew(|| listing().glance().boxed()).await?;
        }
        let unseen = self.knowledge().snapshot.unseen_since(began.mono);
        if unseen.len() > ONE_BY_ONE {
            return self.prove(client).await;
        }
        self.look_up(client, began.mono).await
    }

    /// A proof listing: every machine of the cluster, complete or worthless.
    async fn prove(&self, client: &Client) -> Result<(), Gap> {
        let lane = match self.knowledge().wants.is_empty() {
            true => Lane::Sweep,
            false => Lane::Resolve,
        };
        let ours = &self.filter(None);
        let listing = || self.machines(client, ours, lane);
        let (began, all) = begun_anew(|| listing().collect().map_err(|it| it.gap).boxed()).await?;
        let proof = Arc::new(Proof {
            began,
            ended: clock::now().mono,
            servers: all.into_records(),
        });
        // The provider first, then the cluster: an object that is made meanwhile is seen, and its
        // machine is not taken for an orphan.
        let claims = self.claims.get().and_then(|c| c.marks());
        let (is_first, answered) = {
            let mut knowledge = self.knowledge();
            let ordering = knowledge.orders.marks();
            let known = knowledge.known();
            let verdict = orphans::judge(&proof, &known, claims.as_ref(), &ordering);
            if let Some(verdict) = verdict {
                log_orphans(&knowledge.verdict, &verdict);
                knowledge.verdict = verdict;
            }
            if let Some(times) = knowledge.times() {
                knowledge.orders.compare(&proof, times.settle);
            }
            let answered: Vec<String> = knowledge
                .wants
                .extract_if(|_, not_before| *not_before <= proof.began)
                .map(|(mark, _)| mark)
                .collect();
            let before = knowledge.proof.replace(proof.clone());
            (before.is_none(), answered)
        };
        if is_first {
            self.announce();
        }
        self.tell_members();
        for mark in answered {
            self.wake(Wake::Mark(mark));
        }
        self.look_up(client, began).await
    }

    /// The machines that bear the cluster's mark.
    fn filter(&self, status: Option<StatusFilter>) -> ServerFilter {
        ServerFilter {
            status,
            tags: vec![self.cluster_tag.clone()],
        }
    }

    /// Reads machines that a listing should have shown and did not, oldest look first. Only a read of
    /// the machine itself tells that it is gone.
    async fn look_up(&self, client: &Client, since: Duration) -> Result<(), Gap> {
        let unseen = self.knowledge().snapshot.unseen_since(since);
        let mut failure = None;
        for id in unseen.iter().take(ONE_BY_ONE) {
            match self.read(client, id, Lane::Poll).await {
                Ok(_) | Err(Error::NotFound(_)) => {}
                Err(error @ Error::AccessDenied(_)) => return Err(error.into()),
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Keeps count of failures. One alone says nothing; it is shown when it lasts.
    fn conclude(&self, round: Round, result: Result<(), Gap>) {
        let now = clock::now();
        let mut knowledge = self.knowledge();
        knowledge.jitter = rand::random_range(0.8..=1.2);
        let before = knowledge.error.clone();
        knowledge.note_motion(now);
        match result {
            Ok(()) => {
                knowledge.failures = 0;
                knowledge.retry_at = Duration::ZERO;
                knowledge.error = None;
                if round != Round::Probe {
                    knowledge.looked = Some(now.mono);
                }
            }
            // The breaker has its own pace and its own reason.
            Err(Gap::Failed(Error::AccessDenied(_))) => knowledge.error = None,
            Err(error) => {
                knowledge.failures = knowledge.failures.saturating_add(1);
                // A list that does not hold still is a busy account, not a broken one.
                let (enough, steps) = match error {
                    Gap::Failed(_) => (2, u32::MAX),
                    _ => (6, 4),
                };
                let pause = pace::pause(knowledge.failures.min(steps), knowledge.jitter);
                knowledge.retry_at = now.mono + pause;
                let shown = explain(&error);
                tracing::debug!(?round, failures = knowledge.failures, "{}", shown.1);
                let is_first = *knowledge.breaker.contact() == Contact::Untried;
                if knowledge.failures >= enough || is_first {
                    knowledge.error = Some(shown);
                }
            }
        }
        // The words may differ from failure to failure; only the reason is news.
        let is_news =
            before.map(|(reason, _)| reason) != knowledge.error.as_ref().map(|(reason, _)| *reason);
        drop(knowledge);
        if is_news {
            self.announce();
        }
    }
}

/// Reads a list, and begins anew when it moved meanwhile. Gives the moment of the begin as well.
async fn begun_anew<'a, T>(
    read: impl Fn() -> BoxFuture<'a, Result<T, Gap>>,
) -> Result<(Duration, T), Gap> {
    let mut tries = 1;
    loop {
        let began = clock::now().mono;
        match read().await {
            Err(Gap::Shifted | Gap::Repeated | Gap::Short) if tries < TRIES => tries += 1,
            result => return Ok((began, result?)),
        }
    }
}

/// A failure as conditions show it.
pub(super) fn explain(error: &Gap) -> (Reason, String) {
    match error {
        Gap::Failed(error @ Error::RateLimited { .. }) => (Reason::RateLimited, error.explain()),
        Gap::Failed(error) => (Reason::ProviderUnreachable, error.explain()),
        other => (
            Reason::ProviderUnreachable,
            format!("the servers cannot be listed: {other}"),
        ),
    }
}

fn log_orphans(before: &Verdict, now: &Verdict) {
    if before == now {
        return;
    }
    if let Verdict::Found { count, first } = now
        && *count > 0
    {
        let first: Vec<&str> = first.iter().map(|o| o.uuid.as_str()).collect();
        tracing::warn!(count, ?first, "machines of this cluster without an object");
    }
}
