//! Carries out one effect, and says what came to light.
//!
//! Every effect repeats its check on data that it reads itself, right before what cannot be undone.

use super::{
    Context,
    decide::{Effect, Search, fence},
    facts::Facts,
    memory::{Observation, Obstacle, ReleaseAnswer, Sent},
    orders, writes,
    writes::Written,
};
use crate::{
    account::{Account, Lane, Turn},
    kinds::names::RETAINED_TAG,
    runtime::{Moment, clock},
};
use hosting::{Error, Server, ServerId, ServerStatus};

/// Carries out an effect.
pub async fn act(
    ctx: &Context,
    facts: &Facts,
    account: Option<&Account>,
    effect: &Effect,
) -> Observation {
    match (effect, account) {
        (Effect::WriteIntent(intent), _) => {
            written(writes::intent(ctx, &facts.object, intent).await)
        }
        (Effect::HoldObject, _) => written(writes::hold(ctx, &facts.object).await),
        (Effect::LetGo, _) => written(writes::let_go(ctx, &facts.object).await),
        (Effect::Order(planned), Some(account)) => {
            orders::order(ctx, facts, account, planned).await
        }
        (Effect::LookForOrder(search), Some(account)) => look_for_order(account, search).await,
        (Effect::Read { uuid, not_listed }, Some(account)) => {
            read(account, uuid, *not_listed).await
        }
        (Effect::AddTag { uuid, tag, when }, Some(account)) => {
            let retains = tag == RETAINED_TAG;
            retag(ctx, facts, account, uuid, when, retains, Change::Add(tag)).await
        }
        (Effect::RemoveTag { uuid, tag, when }, Some(account)) => {
            retag(ctx, facts, account, uuid, when, false, Change::Remove(tag)).await
        }
        (Effect::BeginRelease { uuid }, Some(account)) => {
            begin_release(ctx, facts, account, uuid).await
        }
        (Effect::Release { uuid }, Some(account)) => release(facts, account, uuid).await,
        // The account vanished between decision and effect: the next pass says so.
        (_, None) => failed(),
    }
}

fn failed() -> Observation {
    Observation::Failed {
        at: clock::now().mono,
    }
}

fn written(written: Written) -> Observation {
    match written {
        Written::Done(_) => Observation::Done,
        Written::Stale => Observation::Stale,
        Written::Unknown(failure) => {
            tracing::warn!(
                error = &failure as &dyn std::error::Error,
                "a write to a server object failed"
            );
            failed()
        }
    }
}

/// The look-ups that go with a listing: the order's tag, the control's tag, and machines without a mark.
async fn look_for_order(account: &Account, search: &Search) -> Observation {
    let obstacle = async {
        if account.tag_exists(&search.order_tag).await? {
            return Ok(Some(Obstacle::TagExists));
        }
        if !account.tag_exists(&search.control.order_tag).await? {
            return Ok(Some(Obstacle::NoControl));
        }
        let unmarked = account
            .all_servers()
            .await?
            .into_iter()
            .find(|s| fence::is_suspect(s, search));
        Ok::<_, Error>(unmarked.map(|s| Obstacle::Unmarked(s.id.as_str().into())))
    };
    match obstacle.await {
        Ok(obstacle) => Observation::Looked {
            attempt: search.attempt.clone(),
            proof_began: search.proof_began,
            obstacle,
        },
        Err(error) => refused_look(&error),
    }
}

fn refused_look(error: &Error) -> Observation {
    tracing::debug!(error = error.explain(), "a look at the provider failed");
    failed()
}

async fn read(
    account: &Account,
    uuid: &str,
    not_listed: Option<std::time::Duration>,
) -> Observation {
    let at = clock::now().mono;
    let Ok(id) = ServerId::parse(uuid) else {
        return failed();
    };
    match account.read(&id, Lane::Resolve).await {
        Ok(server) => Observation::Found {
            at,
            failed: never_delivered(&server),
        },
        Err(Error::NotFound(_)) => Observation::NotFound {
            at,
            listing: not_listed,
        },
        Err(error) => refused_look(&error),
    }
}

fn never_delivered(server: &Server) -> bool {
    server.status == ServerStatus::Failed && server.delivered_at.is_none()
}

enum Change<'a> {
    Add(&'a str),
    Remove(&'a str),
}

async fn retag(
    ctx: &Context,
    facts: &Facts,
    account: &Account,
    uuid: &str,
    when: &fence::TagProof,
    retains: bool,
    change: Change<'_>,
) -> Observation {
    let Ok(id) = ServerId::parse(uuid) else {
        return failed();
    };
    if retains {
        // A machine that is let go must not be one whose release has begun in the meantime.
        match writes::read(ctx, &facts.object).await {
            Ok(Some(object)) => {
                let fresh = Facts {
                    object,
                    ..facts.clone()
                };
                if !fresh.deleting() || fresh.release_begun().is_some() {
                    return Observation::Stale;
                }
            }
            Ok(None) => return Observation::Stale,
            Err(_) => return failed(),
        }
    }
    let lane = if retains {
        Lane::Release
    } else {
        Lane::Resolve
    };
    match account.read(&id, lane).await {
        Ok(record) if when.holds(facts, &record) => {}
        Ok(_) => return failed(),
        Err(error) => return refused_look(&error),
    }
    let done = match change {
        Change::Add(tag) => account.add_tag(&id, tag).await,
        Change::Remove(tag) => account.remove_tag(&id, tag).await,
    };
    match done {
        Ok(_) => Observation::Done,
        Err(error) => {
            tracing::warn!(
                machine = uuid,
                error = error.explain(),
                "a tag could not be changed"
            );
            failed()
        }
    }
}

/// Notes the release in metadata, then sends it, both on one record: read here, and used within the
/// send window. Stopped in between, the next pass finds the note and reads the record anew.
async fn begin_release(ctx: &Context, facts: &Facts, account: &Account, uuid: &str) -> Observation {
    let Ok(id) = ServerId::parse(uuid) else {
        return failed();
    };
    let object = match writes::read(ctx, &facts.object).await {
        Ok(Some(object)) => object,
        Ok(None) => return Observation::Stale,
        Err(_) => return failed(),
    };
    let fresh = Facts {
        object,
        ..facts.clone()
    };
    // The turn of the DELETE is taken before the read that it rests on: it must not wait in between.
    let turn = match account.turn(Lane::Release).await {
        Ok(turn) => turn,
        Err(error) => return refused_look(&error),
    };
    let since = clock::now();
    let record = match account.read(&id, Lane::Release).await {
        Ok(record) if fence::may_begin_release(&fresh, &record) => record,
        Ok(_) => return failed(),
        Err(error) => return refused_look(&error),
    };
    match writes::release_begun(ctx, &fresh.object, uuid).await {
        Written::Done(object) if record.status.is_live() => {
            let begun = Facts { object, ..fresh };
            send_release(&begun, account, turn, &record, since).await
        }
        other => written(other),
    }
}

/// The release of a machine whose release was noted before.
async fn release(facts: &Facts, account: &Account, uuid: &str) -> Observation {
    let Ok(id) = ServerId::parse(uuid) else {
        return failed();
    };
    let turn = match account.turn(Lane::Release).await {
        Ok(turn) => turn,
        Err(error) => return refused_look(&error),
    };
    let since = clock::now();
    match account.read(&id, Lane::Release).await {
        Ok(record) if record.status == ServerStatus::Released => Observation::Done,
        Ok(record) => send_release(facts, account, turn, &record, since).await,
        Err(error) => refused_look(&error),
    }
}

/// Whether it is open what a DELETE did. Any refusal of a machine that is not failed means: not in
/// this state; where it did take effect all the same, the next read shows it. The refusal of a failed
/// one is a part of the proof that it may be let go, and must be certain.
fn is_unclear(error: &Error, record: &Server) -> bool {
    let is_refusal = matches!(error, Error::Refused(_)) && record.status != ServerStatus::Failed;
    error.may_have_taken_effect() && !is_refusal
}

/// One DELETE, on a record that was asked for at `since`, without waiting.
async fn send_release(
    facts: &Facts,
    account: &Account,
    turn: Turn,
    record: &Server,
    since: Moment,
) -> Observation {
    let window = account.view().times.send_window;
    if !fence::may_release(facts, record, since, clock::now(), window) {
        return failed();
    }
    tracing::info!(
        namespace = facts.namespace(),
        name = facts.name(),
        machine = record.id.as_str(),
        "releasing a machine"
    );
    let answer = match account.release(turn, &record.id).await {
        Ok(_) => ReleaseAnswer::Accepted,
        // Neither done nor refused for what the machine is: asked again in its time.
        Err(error @ (Error::AccessDenied(_) | Error::NotSent(_) | Error::RateLimited { .. })) => {
            return refused_look(&error);
        }
        Err(error) if is_unclear(&error, record) => ReleaseAnswer::Unknown,
        Err(error) => {
            tracing::info!(
                machine = record.id.as_str(),
                error = error.explain(),
                "the provider refused a release"
            );
            ReleaseAnswer::Refused
        }
    };
    Observation::Released(Sent {
        uuid: record.id.as_str().to_owned(),
        failed: record.status == ServerStatus::Failed,
        answer,
        at: clock::now().mono,
    })
}
