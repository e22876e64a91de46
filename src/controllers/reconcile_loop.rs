//! The reconcile loop of a kind: applies watch events and starts the work items that are due, in queue order.
//! Work items are tasks, so no object waits for another: the loop limits running items, the accounts their calls.

#[cfg(test)]
mod tests;

use super::{
    context::Context,
    objects::{Uid, WorkItem, WorkItemResult, slim},
    streams::{self, Guarded, WatchSignal},
};
use crate::runtime::{
    clock,
    kind_api::{KindApi, kind_name},
    metrics::ReconcileResult,
};
use flexmetal_core::requeue::Requeue;
use futures::{FutureExt as _, StreamExt as _, stream::select_all};
use kube::{Api, runtime::watcher::Event};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::task::{Id, JoinSet};

/// Work items at once, not counting those that wait for the provider. Enough to use an API server fully; each may open
/// a connection to it, which costs about 60 KiB.
const MOST_RUNNING_ITEMS: usize = 32;
/// Reconciles of one work item; a longer one continues after a backoff.
const MOST_RECONCILES: usize = 16;
/// Delay between two tries of a work item while the process ends.
const LAST_TRIES: Duration = Duration::from_secs(1);
/// Delay until the next check if nothing is due.
const NOTHING_DUE: Duration = Duration::from_secs(3600);

/// When each watch last showed an event or a bookmark, or was started, in Unix seconds.
struct LastEvents(Vec<i64>);

impl LastEvents {
    fn record<K: KindApi, M: Clone + Default + Send>(&mut self, ctx: &Context<K, M>, index: usize) {
        if let Some(last) = self.0.get_mut(index) {
            *last = clock::now().wall;
        }
        self.show(ctx);
    }

    /// The metric shows the watch that has been silent for the longest time.
    fn show<K: KindApi, M: Clone + Default + Send>(&self, ctx: &Context<K, M>) {
        if let Some(oldest) = self.0.iter().min() {
            ctx.metrics.record_watch_event(kind_name::<K>(), *oldest);
        }
    }
}

/// Reconciles a kind until shutdown, and finishes the running work items. Nothing starts before `ready`. `pass`
/// reconciles one object once: observe, decide, act or report.
pub async fn run_reconcile_loop<K, M, P, F>(
    ctx: Arc<Context<K, M>>,
    watches: Vec<Api<Guarded<K>>>,
    ready: impl Future<Output = ()>,
    pass: P,
) where
    K: KindApi,
    M: Clone + Default + Send + 'static,
    P: Fn(Arc<Context<K, M>>, WorkItem<K>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Requeue> + Send + 'static,
{
    let mut last_events = LastEvents(vec![clock::now().wall; watches.len()]);
    last_events.show(&ctx);
    let streams = watches.into_iter().enumerate();
    let mut shown = select_all(streams.map(|(index, api)| {
        let signals = streams::watch(api, ctx.watch_times, ctx.objects.relists(), slim);
        signals.map(move |signal| (index, signal)).boxed()
    }));
    let mut ready = std::pin::pin!(ready.fuse());
    let mut is_ready = false;
    let mut running = RunningItems {
        tasks: JoinSet::new(),
        uids: HashMap::new(),
    };
    loop {
        if is_ready {
            running.start_due(&ctx, &pass);
        }
        let due = match ctx.objects.next_due() {
            Some(due) if is_ready && running.has_capacity(&ctx) => due,
            _ => clock::now().mono + NOTHING_DUE,
        };
        tokio::select! {
            biased;
            () = ctx.shutdown.cancelled() => break,
            () = &mut ready => is_ready = true,
            Some(ended) = running.tasks.join_next_with_id() => running.ended(&ctx, ended),
            Some((index, signal)) = shown.next() => match signal {
                WatchSignal::Event(event) => {
                    // A list that begins is no sign of life.
                    if !matches!(event, Event::Init) {
                        last_events.record(&ctx, index);
                    }
                    for account in ctx.objects.apply_event(index, event) {
                        ctx.accounts.users_changed(&account);
                    }
                }
                WatchSignal::Alive => {
                    last_events.record(&ctx, index);
                    ctx.objects.set_watch_alive(index, true);
                }
                WatchSignal::Failed => ctx.metrics.record_watch_failure(kind_name::<K>()),
                WatchSignal::Stale => {
                    ctx.metrics.record_watch_failure(kind_name::<K>());
                    ctx.objects.set_watch_alive(index, false);
                }
            },
            () = ctx.objects.changed() => {}
            () = clock::sleep_until(due) => {}
        }
    }
    while let Some(ended) = running.tasks.join_next_with_id().await {
        running.ended(&ctx, ended);
    }
}

/// The running work items.
struct RunningItems {
    tasks: JoinSet<WorkItemResult>,
    /// The object of each, whether this is its final reconcile, and when it began.
    uids: HashMap<Id, (Uid, bool, Duration)>,
}

impl RunningItems {
    fn has_capacity<K: KindApi, M: Clone + Default + Send>(&self, ctx: &Context<K, M>) -> bool {
        self.tasks.len() < MOST_RUNNING_ITEMS + ctx.objects.calling()
    }

    fn start_due<K, M, P, F>(&mut self, ctx: &Arc<Context<K, M>>, pass: &P)
    where
        K: KindApi,
        M: Clone + Default + Send + 'static,
        P: Fn(Arc<Context<K, M>>, WorkItem<K>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Requeue> + Send + 'static,
    {
        while self.has_capacity(ctx) {
            let Some((uid, seen, waited)) = ctx.objects.start() else {
                return;
            };
            ctx.metrics.record_queue_time(kind_name::<K>(), waited);
            let last = matches!(seen, WorkItem::Gone(_));
            let task = run_work_item(ctx.clone(), uid.clone(), seen, pass.clone());
            let id = self.tasks.spawn(task).id();
            self.uids.insert(id, (uid, last, clock::now().mono));
        }
    }

    fn ended<K: KindApi, M: Clone + Default + Send>(
        &mut self,
        ctx: &Context<K, M>,
        ended: Result<(Id, WorkItemResult), tokio::task::JoinError>,
    ) {
        let (id, ended) = match ended {
            Ok(ended) => ended,
            // A panic that does not end the process at once ends this loop.
            Err(error) => match error.try_into_panic() {
                Ok(reason) => std::panic::resume_unwind(reason),
                Err(error) => (error.id(), WorkItemResult::Failed),
            },
        };
        if let Some((uid, last, begun)) = self.uids.remove(&id) {
            let result = match ended {
                WorkItemResult::Done(_) if last => ReconcileResult::Success,
                WorkItemResult::Done(_) => ReconcileResult::RequeueAfter,
                WorkItemResult::Failed => ReconcileResult::Error,
            };
            let took = clock::now().mono.saturating_sub(begun);
            ctx.metrics.record_reconcile(kind_name::<K>(), result, took);
            if last {
                // The object needs no permit and no list any more.
                ctx.accounts.forget(&uid);
            }
            ctx.objects.ended(&uid, ended, last);
        }
    }
}

/// Reconciles one object as long as it must be reconciled again at once.
async fn run_work_item<K, M, P, F>(
    ctx: Arc<Context<K, M>>,
    uid: Uid,
    seen: WorkItem<K>,
    pass: P,
) -> WorkItemResult
where
    K: KindApi,
    M: Clone + Default + Send,
    P: Fn(Arc<Context<K, M>>, WorkItem<K>) -> F,
    F: Future<Output = Requeue>,
{
    let mut seen = read_if_finalizer_removed(&ctx, &uid, seen).await;
    for _ in 0..MOST_RECONCILES {
        match pass(ctx.clone(), seen).await {
            Requeue::Now => {}
            Requeue::After(delay) => return WorkItemResult::Done(jittered(delay)),
            // At the end of the process nothing retries later: this work item must record what is known of a sent
            // order.
            Requeue::Backoff if ctx.is_shutting_down() => tokio::time::sleep(LAST_TRIES).await,
            Requeue::Backoff => return WorkItemResult::Failed,
        }
        seen = match ctx.objects.newest(&uid) {
            Some(shown) => shown.into(),
            None => return WorkItemResult::Done(Duration::ZERO),
        };
    }
    WorkItemResult::Failed
}

/// Reads a deleted object with only other finalizers: we write no more to it, so we would not notice that a restored
/// API server has it alive again.
async fn read_if_finalizer_removed<K, M>(
    ctx: &Context<K, M>,
    uid: &Uid,
    seen: WorkItem<K>,
) -> WorkItem<K>
where
    K: KindApi,
    M: Clone + Default + Send,
{
    let WorkItem::Object(object) = &seen else {
        return seen;
    };
    let meta = object.meta();
    let ours = format!("{}/", K::group(&()));
    let mut finalizers = meta.finalizers.iter().flatten();
    let is_left = meta.deletion_timestamp.is_some() && !finalizers.any(|f| f.starts_with(&ours));
    if !is_left || ctx.requeue_if_standby().is_some() {
        return seen;
    }
    let _ = ctx.read_object(&**object).await;
    ctx.objects.newest(uid).map_or(seen, WorkItem::from)
}

/// Spreads reconciles that would come all at once.
fn jittered(delay: Duration) -> Duration {
    delay.mul_f64(rand::random_range(1.0..1.1))
}
