//! Releases a machine that no object claims. The rules are those of `decide/orphan_release.rs`.

use super::{
    decide::orphan_release::{self, Begin},
    facts::Facts,
    object::AccountObject,
    pass::AccountContext,
};
use crate::{
    account::{Account, Caller, Lane, Permit, Turn},
    controllers::{
        context::Process,
        events::Severity,
        report::News,
        writes::{Failure, Written, bounded},
    },
    kinds::{BareMetalServer, Reason, account::AccountStatus, orphan::OrphanRelease},
    runtime::clock,
};
use hosting::{Error, Server};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams},
};
use std::{sync::Arc, time::Duration};

/// How an attempt ended.
pub(super) enum Attempt {
    /// The account lets nothing be sent now, or comes back with a turn.
    Waits,
    /// Somebody wrote the account in between, or it is not due any more.
    Stale,
    /// The release was taken; with its note.
    Sent(OrphanRelease),
    /// Nothing was sent; with the note, where one was written. Says why.
    NotSent(Option<OrphanRelease>, String),
    /// It is not known whether it was taken. Says why.
    Unknown(String),
}

/// Most objects of one page of the list.
const PAGE: u32 = 100;
/// Most pages; more objects than that hold the release.
const MOST_PAGES: usize = 1000;

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
    let caller = Caller {
        uid: facts.uid().to_owned(),
        namespace: facts.key.namespace.clone().unwrap_or_default(),
    };
    let permit = match account.turn(Lane::Release, 2, &caller) {
        Ok(Turn::Now(permit)) => permit,
        Ok(Turn::Queued) | Err(_) => return Attempt::Waits,
    };
    if !account.stands_on(&permit, facts.connection().as_deref()) {
        return Attempt::Stale;
    }
    // Looked at before as well, so that what is not sent is not counted at the brake.
    if let Err(why) = is_unspoken_of(ctx, server).await {
        return Attempt::NotSent(None, why);
    }
    let window = account.view().times.send_window;
    let (fresh, note) = match note(ctx, object, facts, server, window).await {
        Ok(noted) => noted,
        Err(attempt) => return attempt,
    };
    match Box::pin(send(ctx, &account, permit, server, window)).await {
        Ok(()) => {
            tracing::warn!(account = %facts.key, uuid = server.id.as_str(), "released a machine without an object");
            ctx.publish(&*fresh, released(server)).await;
            Attempt::Sent(note)
        }
        Err(Unsent::Kept(why)) => Attempt::NotSent(Some(note), why),
        Err(Unsent::Unknown(why)) => Attempt::Unknown(why),
    }
}

/// Puts the release on record, and counts it at the brake with the same write.
async fn note<K: AccountObject>(
    ctx: &AccountContext<K>,
    object: &Arc<K>,
    facts: &Facts,
    server: &Server,
    window: Duration,
) -> Result<(Arc<K>, OrphanRelease), Attempt> {
    let fresh = match ctx.read(&**object).await {
        Ok(Some(fresh)) => fresh,
        Ok(None) => return Err(Attempt::Stale),
        Err(failure) => return Err(Attempt::NotSent(None, failure.explain())),
    };
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
        ..facts.clone()
    };
    let write = async |next: AccountStatus| match ctx.write_status(&*fresh, &next).await {
        Some(Written::Done(object)) => Ok(object),
        None | Some(Written::Stale) => Err(Attempt::Stale),
        Some(Written::Unknown(failure)) => Err(Attempt::Unknown(failure.explain())),
    };
    match orphan_release::begin(&now, server, window) {
        Begin::NotDue => Err(Attempt::Stale),
        Begin::Held(counted) => {
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
        Begin::Note(note, counted) => {
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
    /// Nothing was sent.
    Kept(String),
    /// Whether it was taken is not known.
    Unknown(String),
}

/// Looks at all objects and at the machine once more, and sends the release.
async fn send<K: AccountObject>(
    ctx: &AccountContext<K>,
    account: &Account,
    mut permit: Permit,
    server: &Server,
    window: Duration,
) -> Result<(), Unsent> {
    let kept = |why: &str| Err(Unsent::Kept(why.to_owned()));
    let noted = clock::now();
    is_unspoken_of(ctx, server).await.map_err(Unsent::Kept)?;
    match ctx.is_deleting::<BareMetalServer>().await {
        Some(false) => {}
        Some(true) => return kept("the kind BareMetalServer is being deleted"),
        None => return kept("it cannot be seen whether the kind BareMetalServer is being deleted"),
    }
    let record = match permit.read(&server.id).await {
        Ok(record) => record,
        Err(error) => return Err(Unsent::Kept(error.explain())),
    };
    let namespace = account.key().namespace.as_deref();
    if !orphan_release::may_send(server, &record, noted, clock::now(), window) {
        return kept("a read of the machine right before did not show in time what was judged");
    }
    if !ctx.may_act(namespace) || ctx.accounts.names_of(account.key()).len() > 1 {
        return kept("another operator, or another account object, acts for the account");
    }
    let answer = permit.call(async |client| client.release(&server.id).await);
    match answer.await {
        Ok(server) => {
            permit.learn(server);
            Ok(())
        }
        Err(Error::NotFound(_)) => Ok(()),
        Err(error) => Err(Unsent::Unknown(error.explain())),
    }
}

/// Whether no server object speaks of the machine; else which one, or why that is not known.
async fn is_unspoken_of(process: &Process, server: &Server) -> Result<(), String> {
    match spoken_of(process, server).await {
        Ok(None) => Ok(()),
        Ok(Some(object)) => Err(format!("{object} speaks of it")),
        Err(failure) => Err(failure.explain()),
    }
}

/// The first server object that speaks of the machine, as the API server has them now, whatever their form.
async fn spoken_of(process: &Process, server: &Server) -> Result<Option<String>, Failure> {
    let resource = ApiResource::erase::<BareMetalServer>(&());
    let api: Api<DynamicObject> = Api::all_with(process.client.clone(), &resource);
    let mut params = ListParams::default().limit(PAGE);
    for _ in 0..MOST_PAGES {
        let page = bounded(api.list(&params)).await?;
        for object in &page.items {
            let text = serde_json::to_string(object).map_err(|_| Failure::Garbled)?;
            if orphan_release::speaks_of(&process.cluster, &object.metadata, &text, server) {
                let namespace = object.namespace().unwrap_or_default();
                let name = object.name_any();
                return Ok(Some(format!("BareMetalServer {namespace}/{name}")));
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
