//! The loop: which objects get a pass, and when.

use super::{
    Objects,
    act::act,
    decide::{Decision, decide},
    facts::Facts,
    mark::ClusterId,
    memory::Observation,
    objects::{Shown, account_of},
    observe::{Observed, observe},
    report::{self, Reported},
    undecodable,
};
use crate::{
    account::{Account, Accounts, Wake},
    controllers::{
        events::Events,
        streams::{self, Change},
    },
    kinds::{BareMetalServer, server::OrderOutcome},
    runtime::clock,
};
use futures::{Stream, StreamExt as _, stream};
use kube::{
    Api, Client,
    runtime::{
        Controller, WatchStreamExt as _,
        controller::{Action, Config},
        reflector::ObjectRef,
    },
};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// What every pass needs.
pub struct Context {
    /// For reads and writes; every call has a deadline.
    pub client: Client,
    /// The accounts.
    pub accounts: Accounts,
    /// Identity of the cluster.
    pub cluster: ClusterId,
    /// Which namespaces are watched.
    pub watched: Watched,
    /// The objects of these namespaces.
    pub objects: Arc<Objects>,
    /// Where events go.
    pub events: Events,
    /// No new effect begins once this is cancelled.
    pub shutdown: CancellationToken,
}

/// Which namespaces are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Every namespace.
    All,
    /// These.
    Namespaces(Vec<String>),
}

impl Watched {
    /// Whether every namespace is watched.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }

    /// How many watches that makes.
    pub fn watches(&self) -> usize {
        match self {
            Self::All => 1,
            Self::Namespaces(names) => names.len(),
        }
    }
}

/// Objects that are worked on at once. More than the orders that may be in flight, so that releases find room.
const CONCURRENCY: u16 = 64;
/// Passes of one reconcile; a row that is longer goes on at the next.
const MOST_PASSES: usize = 16;
/// Pause after a row that did not come to its end.
const PAUSE: Duration = Duration::from_millis(500);

/// Runs the controller until shutdown. `watch_client` has no deadline on its answers.
pub async fn run(ctx: Arc<Context>, watch_client: Client) {
    let apis: Vec<Api<streams::Guarded<BareMetalServer>>> = match &ctx.watched {
        Watched::All => vec![Api::all(watch_client)],
        Watched::Namespaces(names) => names
            .iter()
            .map(|n| Api::namespaced(watch_client.clone(), n))
            .collect(),
    };
    let (wakes, controllers): (Vec<_>, Vec<_>) = apis
        .into_iter()
        .map(|api| {
            let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
            (sender, controller(ctx.clone(), api, tokio_stream(receiver)))
        })
        .unzip();
    let relay = async {
        let mut from_accounts = std::pin::pin!(ctx.accounts.wakes());
        while let Some(wake) = from_accounts.next().await {
            for object in woken(&ctx.objects, &wake) {
                // One watch per namespace: whose object it is not ignores it.
                for sender in &wakes {
                    let _ = sender.send(object.clone());
                }
            }
        }
        std::future::pending::<()>().await;
    };
    // Before that a missing account may be one that was not read yet.
    let controllers = async {
        tokio::select! {
            () = ctx.accounts.ready() => {}
            () = ctx.shutdown.cancelled() => return,
        }
        futures::future::join_all(controllers).await;
    };
    tokio::select! {
        _ = controllers => {}
        () = relay => {}
    }
}

/// What a pass is for: what people say by the object, and a status that lost the order it spoke of.
fn noteworthy(object: &Shown) -> Option<u64> {
    let status = object.0.as_ref().ok().and_then(|o| o.status.as_ref());
    let has_order = status.is_some_and(|s| s.order.is_some());
    streams::intent(object).map(|said| said ^ u64::from(has_order))
}

fn tokio_stream<T>(mut receiver: tokio::sync::mpsc::UnboundedReceiver<T>) -> impl Stream<Item = T> {
    stream::poll_fn(move |cx| receiver.poll_recv(cx))
}

fn woken(objects: &Objects, wake: &Wake) -> Vec<ObjectRef<Shown>> {
    match wake {
        Wake::Mark(mark) => objects.by_mark(mark).into_iter().collect(),
        Wake::Account(account) => objects.of_account(account),
    }
}

async fn controller(
    ctx: Arc<Context>,
    api: Api<Shown>,
    wakes: impl Stream<Item = ObjectRef<Shown>> + Send + 'static,
) {
    let (store, changes) = streams::root::<BareMetalServer>(api);
    ctx.objects.add_store(store.clone());
    let watched = ctx.clone();
    let changes = changes.inspect(move |change| take(&watched, change));
    let triggers = streams::triggers(changes).predicate_filter(noteworthy, Default::default());
    Controller::for_stream(triggers, store)
        .with_config(Config::default().concurrency(CONCURRENCY))
        .reconcile_on(wakes)
        .graceful_shutdown_on(ctx.shutdown.clone().cancelled_owned())
        .run(reconcile, |_, error, _| match *error {}, ctx)
        .for_each(|result| async {
            if let Err(error) = result {
                // Objects that are gone by now come here.
                tracing::debug!(error = &error as &dyn std::error::Error, "no pass");
            }
        })
        .await;
}

/// Keeps the books of what the watch shows, and tells the account when somebody came or went.
fn take(ctx: &Context, change: &Change<Shown>) {
    let object = match change {
        Change::Applied(object) if ctx.objects.seen(object) => object,
        Change::Applied(_) => return,
        Change::Gone(object) => {
            ctx.objects.gone(object);
            object
        }
        Change::Listed => return ctx.objects.listed(),
    };
    if let Some(account) = account_of(object) {
        ctx.accounts.users_changed(&account);
    }
}

/// Every failure is a fact of the next pass, so a reconcile has none of its own.
#[derive(Debug, thiserror::Error)]
enum Never {}

async fn reconcile(shown: Arc<Shown>, ctx: Arc<Context>) -> Result<Action, Never> {
    let object = match &shown.0 {
        Ok(object) => Arc::new(object.clone()),
        Err(error) => {
            undecodable::report(&ctx, &shown, &error.error).await;
            return Ok(Action::await_change());
        }
    };
    Ok(Action::requeue(passes(&ctx, object).await))
}

/// A row of passes; returns when to look again.
async fn passes(ctx: &Context, shown: Arc<BareMetalServer>) -> Duration {
    for _ in 0..MOST_PASSES {
        let Observed { facts, account } = observe(ctx, ctx.objects.newest(&shown)).await;
        let decision = decide(&facts);
        ask(&facts, account.as_ref(), &decision);
        if let Some(effect) = &decision.effect {
            let rest = facts.memory.not_before.saturating_sub(facts.now.mono);
            if !rest.is_zero() || ctx.shutdown.is_cancelled() {
                return settle(ctx, &facts, &decision, rest.max(PAUSE)).await;
            }
            let observation = act(ctx, &facts, account.as_ref(), effect).await;
            if observation == Observation::Stale {
                // The watch may be behind for a while; the next pass must not try the same again.
                let _ = super::writes::read(ctx, &facts.object).await;
            }
            report::ended(ctx, &facts, effect, &observation).await;
            let over = *effect == super::decide::Effect::LetGo && observation == Observation::Done;
            note(ctx, &facts, observation);
            if over {
                return PAUSE;
            }
            continue;
        }
        match report::report(ctx, &facts, &decision).await {
            Reported::Stands if decision.again.is_zero() => {}
            Reported::Stands => return jittered(decision.again),
            Reported::Again => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    PAUSE
}

/// An effect is due and has to wait: say what is known, and come back.
async fn settle(ctx: &Context, facts: &Facts, decision: &Decision, rest: Duration) -> Duration {
    let _ = report::report(ctx, facts, decision).await;
    rest
}

fn note(ctx: &Context, facts: &Facts, observation: Observation) {
    // An attempt that could not be begun leaves nothing on the object that would set a pace.
    let came_to_nothing = matches!(
        &observation,
        Observation::Ordered { order, .. } if order.outcome == Some(OrderOutcome::NotSent)
    );
    let spacing = facts
        .view()
        .map_or(Duration::from_secs(60), |v| v.times.listing_spacing);
    ctx.objects.note(facts.uid(), observation, spacing);
    if came_to_nothing {
        let at = clock::now().mono;
        ctx.objects
            .note(facts.uid(), Observation::Failed { at }, spacing);
    }
}

/// Passes the decision's wishes on to the account.
fn ask(facts: &Facts, account: Option<&Account>, decision: &Decision) {
    let Some(account) = account else { return };
    // One that is there already was a fact of this decision; asking again would only wake the object again.
    let newest = facts.view().and_then(|v| v.proof.as_ref()).map(|p| p.began);
    if let Some(not_before) = decision
        .wants_proof
        .filter(|wanted| newest.is_none_or(|n| n < *wanted))
    {
        account.want_proof(facts.mark().as_str(), not_before);
    }
    if let Some(not_older) = decision.wants_catalogue {
        account.want_catalogue(not_older);
    }
}

/// Spreads what would otherwise come all at once.
fn jittered(after: Duration) -> Duration {
    after.mul_f64(rand::random_range(1.0..1.1))
}
