//! The loop of a kind: it feeds the watches into the objects, and gives passes to those that are
//! due, first come, first served.
//!
//! A row of passes is a task of its own and takes as long as its calls do. So nothing that one
//! object waits for holds up another: the loop bounds the rows that work here, and the accounts
//! bound their own calls.

#[cfg(test)]
mod tests;

use super::{
    context::Context,
    objects::{Uid, WorkItem, WorkItemResult, slim},
    streams::{self, Guarded, WatchSignal},
};
use crate::runtime::{clock, kind_api::KindApi};
use flexmetal_core::requeue::Requeue;
use futures::{FutureExt as _, StreamExt as _, stream::select_all};
use kube::Api;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::task::{Id, JoinSet};

/// Rows of passes at once, without those that wait for an answer of the provider. Enough to keep an
/// API server busy; each may open a connection to it, which costs some 60 KiB.
const MOST_RUNNING_ITEMS: usize = 32;
/// Passes of one row; a longer one goes on after a pause.
const MOST_PASSES: usize = 16;
/// Pause between two tries of a row while the process ends.
const LAST_TRIES: Duration = Duration::from_secs(1);
/// When to look if there is nothing to wait for.
const NOTHING_DUE: Duration = Duration::from_secs(3600);

/// Drives a kind until shutdown; rows under way are finished. No pass starts before `ready`.
///
/// `pass` is one pass over one object: observe, decide, act or report.
pub async fn drive<K, M, P, F>(
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
    let streams = watches.into_iter().enumerate();
    let mut shown = select_all(streams.map(|(index, api)| {
        let heard = streams::watch(api, ctx.watch_times, ctx.objects.relists(), slim);
        heard.map(move |heard| (index, heard)).boxed()
    }));
    let mut ready = std::pin::pin!(ready.fuse());
    let mut is_ready = false;
    let mut rows = RunningItems {
        tasks: JoinSet::new(),
        uids: HashMap::new(),
    };
    loop {
        if is_ready {
            rows.start_due(&ctx, &pass);
        }
        let due = match ctx.objects.next_due() {
            Some(due) if is_ready && rows.has_capacity(&ctx) => due,
            _ => clock::now().mono + NOTHING_DUE,
        };
        tokio::select! {
            biased;
            () = ctx.shutdown.cancelled() => break,
            () = &mut ready => is_ready = true,
            Some(ended) = rows.tasks.join_next_with_id() => rows.ended(&ctx, ended),
            Some((index, heard)) = shown.next() => match heard {
                WatchSignal::Event(event) => {
                    for account in ctx.objects.apply_event(index, event) {
                        ctx.accounts.users_changed(&account);
                    }
                }
                WatchSignal::Alive => ctx.objects.set_watch_alive(index, true),
                WatchSignal::Stale => ctx.objects.set_watch_alive(index, false),
            },
            () = ctx.objects.changed() => {}
            () = clock::sleep_until(due) => {}
        }
    }
    while let Some(ended) = rows.tasks.join_next_with_id().await {
        rows.ended(&ctx, ended);
    }
}

/// The rows of passes under way.
struct RunningItems {
    tasks: JoinSet<WorkItemResult>,
    /// Whose they are, and whether it is the last one of an object that is gone.
    uids: HashMap<Id, (Uid, bool)>,
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
            let Some((uid, seen)) = ctx.objects.start() else {
                return;
            };
            let last = matches!(seen, WorkItem::Gone(_));
            let row = run_work_item(ctx.clone(), uid.clone(), seen, pass.clone());
            let id = self.tasks.spawn(row).id();
            self.uids.insert(id, (uid, last));
        }
    }

    fn ended<K: KindApi, M: Clone + Default + Send>(
        &mut self,
        ctx: &Context<K, M>,
        ended: Result<(Id, WorkItemResult), tokio::task::JoinError>,
    ) {
        let (id, ended) = match ended {
            Ok(ended) => ended,
            // Where a panic does not end the process at once, it ends this loop.
            Err(error) => match error.try_into_panic() {
                Ok(reason) => std::panic::resume_unwind(reason),
                Err(error) => (error.id(), WorkItemResult::Failed),
            },
        };
        if let Some((uid, last)) = self.uids.remove(&id) {
            if last {
                // It has no place to keep and no list to wait for.
                ctx.accounts.forget(&uid);
            }
            ctx.objects.ended(&uid, ended, last);
        }
    }
}

/// A row of passes over one object: as long as each brings something to light.
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
    for _ in 0..MOST_PASSES {
        match pass(ctx.clone(), seen).await {
            Requeue::Now => {}
            Requeue::After(delay) => return WorkItemResult::Done(jittered(delay)),
            // At the end of the process nobody comes back: what is known of an order that was sent
            // must be written by this row.
            Requeue::Backoff if ctx.is_ending() => tokio::time::sleep(LAST_TRIES).await,
            Requeue::Backoff => return WorkItemResult::Failed,
        }
        seen = match ctx.objects.newest(&uid) {
            Some(shown) => shown.into(),
            None => return WorkItemResult::Done(Duration::ZERO),
        };
    }
    WorkItemResult::Failed
}

/// An object that others hold, and that we are done with, goes through no write of ours that would tell that a restored API
/// server put it back alive: it is read.
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

/// Spreads what would otherwise come all at once.
fn jittered(delay: Duration) -> Duration {
    delay.mul_f64(rand::random_range(1.0..1.1))
}
