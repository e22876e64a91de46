//! Fetches and stores the root password of a server, and deletes its Secret when its time is over. A failure is
//! recorded with the password and blocks nothing else of the object.

use super::{
    ServerContext, act,
    output_objects::Owned,
    password_secret::{self, not_now},
};
use crate::account::{Account, Permit};
use api::root_password::Installed;
use flexmetal_core::{
    last_error::LastError,
    server::{
        decide::{ServerEffect, precondition, root_password},
        facts::ServerFacts,
        memory::ServerObservation,
        password_memory::{PasswordEnd, PasswordFailure},
    },
};
use hosting_types::{Error, SecretText, Server, ServerId};

/// Checks whether the Secret is free or has this password already. It calls no provider, so a stored password is also
/// found while the server is suspended and after its end.
pub(super) async fn find(
    ctx: &ServerContext,
    facts: &ServerFacts,
    of: &Installed,
    secret: &str,
) -> ServerObservation {
    let end = match act::get_live(ctx, facts).await {
        Ok(fresh) if root_password::may_find(&fresh, of, secret) => {
            let owned = Owned {
                ctx,
                facts: &fresh,
                may_write: &|fresh| root_password::may_find(fresh, of, secret),
            };
            match password_secret::find(&owned, secret, of).await {
                Ok(_) => PasswordEnd::Free(secret.to_owned()),
                Err(end) => end,
            }
        }
        other => not_now(other.err()),
    };
    observed_password(of, end)
}

/// Two calls with one permit: a read that shows a delivered server of this object only, then the password, which goes
/// into the Secret and nowhere else.
pub(super) async fn fetch(
    ctx: &ServerContext,
    facts: &ServerFacts,
    account: &Account,
    permit: Permit,
    of: &Installed,
    secret: &str,
) -> ServerObservation {
    let end = match act::get_live_with_account(ctx, facts, account).await {
        Ok(fresh) if root_password::may_fetch(&fresh, of, secret) => {
            fetch_for(ctx, &fresh, permit, of, secret).await
        }
        other => not_now(other.err()),
    };
    if let PasswordEnd::Stored(secret, _) = &end {
        tracing::info!(
            namespace = facts.namespace(),
            name = facts.name(),
            uuid = of.server,
            secret,
            "root password stored"
        );
    }
    observed_password(of, end)
}

async fn fetch_for(
    ctx: &ServerContext,
    fresh: &ServerFacts,
    mut permit: Permit,
    of: &Installed,
    secret: &str,
) -> PasswordEnd {
    // Checks first that the password can be stored.
    let owned = Owned {
        ctx,
        facts: fresh,
        may_write: &|fresh| root_password::may_fetch(fresh, of, secret),
    };
    let free = match password_secret::find(&owned, secret, of).await {
        Ok(free) => free,
        Err(end) => return end,
    };
    if let Err(end) = free.try_out().await {
        return end;
    }
    match fetch_password(&mut permit, fresh, of).await {
        Ok((record, password)) => free.store(record.name, password).await,
        Err(failure) => PasswordEnd::Failed(failure),
    }
}

async fn fetch_password(
    permit: &mut Permit,
    fresh: &ServerFacts,
    of: &Installed,
) -> Result<(Server, SecretText), PasswordFailure> {
    let failed = |why: String| PasswordFailure::Error(why);
    let id = ServerId::parse(&of.server)
        .map_err(|_| failed("The recorded server UUID is not valid".into()))?;
    let record = permit
        .read_server(&id)
        .await
        .map_err(|error| failed(LastError::from_provider(&error).message))?;
    if !precondition::may_read_password(fresh, &record) {
        return Err(failed(
            "The server is not delivered, is retained, lacks the order tag of this object, or has that of another".into(),
        ));
    }
    let answer = permit
        .call(async |client| client.root_password(&id).await)
        .await;
    match answer {
        Ok(password) => Ok((record, password)),
        Err(Error::NotFound(_)) => Err(PasswordFailure::Absent),
        Err(error) => Err(failed(LastError::from_provider(&error).message)),
    }
}

/// Deletes the Secret, if it still has this password and its time is over by the API server's clock too. A password
/// that is deleted too early cannot be fetched again.
pub(super) async fn forget(
    ctx: &ServerContext,
    facts: &ServerFacts,
    of: &Installed,
    secret: &str,
) -> ServerObservation {
    let due = |fresh: &ServerFacts| root_password::deletion_due_at(fresh, of, secret);
    let end = match act::get_live(ctx, facts).await {
        Ok(fresh) => match due(&fresh) {
            Some(at) => {
                let owned = Owned {
                    ctx,
                    facts: &fresh,
                    may_write: &|fresh| due(fresh).is_some(),
                };
                password_secret::delete(&owned, secret, of, at).await
            }
            None => not_now(None),
        },
        Err(observation) => not_now(Some(observation)),
    };
    observed_password(of, end)
}

/// The observation for an effect that gets no permit. Fetching a password has its own backoff.
pub(super) fn refused(effect: &ServerEffect, observation: ServerObservation) -> ServerObservation {
    match effect {
        ServerEffect::FetchPassword { of, .. } => observed_password(of, not_now(Some(observation))),
        _ => observation,
    }
}

fn observed_password(of: &Installed, end: PasswordEnd) -> ServerObservation {
    ServerObservation::Password {
        of: of.clone(),
        end,
    }
}
