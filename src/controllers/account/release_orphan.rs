//! Releases a machine that no object claims. The rules are those of `crates/core/src/account/decide/orphan_release.rs`.

use super::{object::AccountObject, pass::AccountContext};
use crate::{
    account::{Account, Caller, Permit, Turn},
    controllers::{
        context::Process,
        namespaces,
        writes::{Failure, Written, bounded},
    },
    runtime::clock,
};
use api::{BareMetalServer, Reason, account::AccountStatus, orphan::OrphanRelease};
use flexmetal_core::{
    account::{
        decide::orphan_release::{self, Start},
        facts::Facts,
        lane::Lane,
    },
    moment::Moment,
    report::{News, Severity},
};
use hosting_types::Server;
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Mutex;

/// How an attempt ended.
pub(super) enum Attempt {
    /// The account lets nothing be sent now, or comes back with a turn.
    Waits,
    /// Somebody wrote the account in between, or it is not due any more.
    Stale,
    /// The release was taken; with its note.
    Sent(OrphanRelease),
    /// Nothing was released; with the note, where one was written. Says why.
    NotSent(Option<OrphanRelease>, String),
    /// It is not known whether it was taken. Says why.
    Unknown(String),
}

/// Objects in one page of the list. Each is whole, and may have half a MiB.
const PAGE: u32 = 10;
/// Most pages; more objects than that hold the release.
const MOST_PAGES: usize = 5000;
/// One attempt at a time in this process: each lists all objects, twice.
static ATTEMPT: Mutex<()> = Mutex::const_new(());

/// Releases the machine, where everything that is read right before still says so.
pub(super) async fn attempt<K: AccountObject>(
    ctx: &AccountContext<K>,
    object: &Arc<K>,
    facts: &Facts,
    server: &Server,
) -> Attempt {
    let Some(account) = ctx.accounts.get(&facts.key) else {
        return Attempt::Stale;
    };
    let Ok(_one) = ATTEMPT.try_lock() else {
        return Attempt::Waits;
    };
    let caller = Caller {
        uid: facts.uid().to_owned(),
        namespace: facts.key.namespace.clone().unwrap_or_default(),
    };
    let mut permit = match account.turn(Lane::Release, CALLS, &caller) {
        Ok(Turn::Now(permit)) => permit,
        Ok(Turn::Queued) | Err(_) => return Attempt::Waits,
    };
    if !account.stands_on(&permit, facts.connection().as_deref()) {
        return Attempt::Stale;
    }
    let window = account.view().times.send_window;
    let namespace = facts.key.namespace.as_deref();
    // Looked at before as well, so that what is not sent is not counted at the brake. What takes longer than half of the
    // window would not fit into it after the note.
    let first = tokio::time::timeout(window / 2, look(ctx, &mut permit, server, namespace));
    match Box::pin(first).await {
        Ok(Ok(())) => {}
        Ok(Err(why)) => return Attempt::NotSent(None, why),
        Err(_) => {
            let why = "the objects of the cluster, and the machine, could not be read in time";
            return Attempt::NotSent(None, why.to_owned());
        }
    }
    let since = clock::now();
    let (fresh, note) = match put_on_record(ctx, object, facts, server, window).await {
        Ok(noted) => noted,
        Err(attempt) => return attempt,
    };
    match Box::pin(send(ctx, &account, permit, server, (since, window))).await {
        Ok(()) => {
            tracing::warn!(
                account = %facts.key,
                uuid = server.id.as_str(),
                "released a machine without an object"
            );
            // Told once, however often it has to be sent.
            if !facts.orphan_memory.held.contains_key(server.id.as_str()) {
                ctx.publish(&*fresh, released(server)).await;
            }
            Attempt::Sent(note)
        }
        Err(Unsent::Kept(why)) => Attempt::NotSent(Some(note), why),
        Err(Unsent::Unknown(why)) => Attempt::Unknown(why),
    }
}

/// The calls of one attempt: two reads and the release.
const CALLS: u32 = 3;

/// Puts the release on record, and counts it at the brake with the same write.
async fn put_on_record<K: AccountObject>(
    ctx: &AccountContext<K>,
    object: &Arc<K>,
    facts: &Facts,
    server: &Server,
    window: Duration,
) -> Result<(Arc<K>, OrphanRelease), Attempt> {
    let kept = |failure: &Failure| Attempt::NotSent(None, failure.explain());
    let fresh = match ctx.read(&**object).await {
        Ok(Some(fresh)) => fresh,
        Ok(None) => return Err(Attempt::Stale),
        Err(failure) => return Err(kept(&failure)),
    };
    let is_namespace_suspended = match &facts.key.namespace {
        Some(namespace) => namespaces::is_suspended(ctx, namespace).await,
        None => Ok(false),
    };
    let is_namespace_suspended = is_namespace_suspended.map_err(|failure| kept(&failure))?;
    let status = fresh.status().cloned().unwrap_or_default();
    let spec = fresh.spec().clone();
    let now = Facts {
        now: clock::now().mono,
        wall: clock::steady_wall(),
        meta: fresh.meta().clone(),
        releases_after: spec.orphan_policy.releases_after(ctx.minimum),
        timing: spec.timing.in_force(ctx.minimum),
        spec,
        status: status.clone(),
        is_namespace_suspended: Some(is_namespace_suspended),
        ..facts.clone()
    };
    let write = async |next: AccountStatus| match ctx.write_status(&*fresh, &next).await {
        Some(Written::Done(object)) => Ok(object),
        None | Some(Written::Stale) => Err(Attempt::Stale),
        Some(Written::Unknown(failure)) => Err(Attempt::Unknown(failure.explain())),
    };
    let attempt = uuid::Uuid::new_v4().simple().to_string();
    match orphan_release::start(&now, server, &attempt, window) {
        Start::NotDue => Err(Attempt::Stale),
        Start::Held(counted) => {
            if let Some(counted) = counted {
                let release_brake = Some(counted);
                write(AccountStatus {
                    release_brake,
                    ..status
                })
                .await?;
            }
            let why = "the release brake of the account holds it".to_owned();
            Err(Attempt::NotSent(None, why))
        }
        Start::Note(note, counted) => {
            let next = AccountStatus {
                orphan_release: Some(note.clone()),
                release_brake: counted.or(status.release_brake),
                ..status
            };
            Ok((write(next).await?, note))
        }
    }
}

/// Why nothing is known to be released.
enum Unsent {
    /// Nothing was released.
    Kept(String),
    /// Whether it was taken is not known.
    Unknown(String),
}

/// Looks at all objects and at the machine once more, and sends the release, within the window from the moment before the
/// note.
async fn send<K: AccountObject>(
    ctx: &AccountContext<K>,
    account: &Account,
    mut permit: Permit,
    server: &Server,
    (since, window): (Moment, Duration),
) -> Result<(), Unsent> {
    let kept = |why: &str| Err(Unsent::Kept(why.to_owned()));
    let namespace = account.key().namespace.as_deref();
    match ctx.is_deleting::<BareMetalServer>().await {
        Some(false) => {}
        Some(true) => return kept("the kind BareMetalServer is being deleted"),
        None => return kept("it cannot be seen whether the kind BareMetalServer is being deleted"),
    }
    let left = window.saturating_sub(clock::now().since(since.mono));
    match tokio::time::timeout(left, look(ctx, &mut permit, server, namespace)).await {
        Ok(looked) => looked.map_err(Unsent::Kept)?,
        Err(_) => return kept("the last look at the objects and the machine took too long"),
    }
    if !ctx.may_act(namespace) || ctx.accounts.names_of(account.key()).len() > 1 {
        return kept("another operator, or another account object, acts for the account");
    }
    if !orphan_release::is_in_time(since, clock::now(), window) {
        return kept("the last look at the objects and the machine took too long");
    }
    let answer = permit.call(async |client| client.release(&server.id).await);
    let answer = answer.await;
    permit.learn_release(&server.id, &answer);
    match answer {
        Ok(_) => Ok(()),
        Err(error) if error.may_have_taken_effect() => Err(Unsent::Unknown(error.explain())),
        Err(error) => Err(Unsent::Kept(error.explain())),
    }
}

/// Looks at all objects, and at the machine; an error says what stands against its release.
/// `namespace`: that of the account, which is told no names of others.
async fn look(
    process: &Process,
    permit: &mut Permit,
    server: &Server,
    namespace: Option<&str>,
) -> Result<(), String> {
    match spoken_of(process, server).await {
        Ok(None) => {}
        Ok(Some((of, name))) => {
            return Err(match namespace.is_none_or(|namespace| namespace == of) {
                true => format!("BareMetalServer {of}/{name} speaks of it"),
                false => "a BareMetalServer of another namespace speaks of it".to_owned(),
            });
        }
        Err(failure) => return Err(failure.explain()),
    }
    let record = permit.read(&server.id).await;
    let record = record.map_err(|error| error.explain())?;
    match orphan_release::is_unchanged(server, &record) {
        true => Ok(()),
        false => Err("a read of the machine does not show what was judged".to_owned()),
    }
}

/// Namespace and name of the first server object that speaks of the machine, as the API server has them now, whatever
/// their form.
async fn spoken_of(
    process: &Process,
    server: &Server,
) -> Result<Option<(String, String)>, Failure> {
    let resource = ApiResource::erase::<BareMetalServer>(&());
    let api: Api<DynamicObject> = Api::all_with(process.client.clone(), &resource);
    let mut params = ListParams::default().limit(PAGE);
    for _ in 0..MOST_PAGES {
        let page = bounded(api.list(&params)).await?;
        for object in &page.items {
            let text = serde_json::to_string(object).map_err(|_| Failure::Garbled)?;
            if orphan_release::speaks_of(&process.cluster, &object.metadata, &text, server) {
                let namespace = object.namespace().unwrap_or_default();
                return Ok(Some((namespace, object.name_any())));
            }
        }
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params = params.continue_token(&token),
            _ => return Ok(None),
        }
    }
    Err(Failure::Deadline)
}

fn released(server: &Server) -> News {
    News {
        severity: Severity::Warning,
        reason: Reason::Released.as_str(),
        action: "Release",
        note: format!(
            "machine {} ({}), which no object claimed, was released",
            server.id, server.name
        ),
    }
}
