//! Asks for the root password of a machine and stores it, and deletes the Secret when its time is over.
//!
//! Whatever fails is noted with the password, and holds up nothing else of the object.

use super::{
    ServerContext, act,
    decide::{fence, root_password},
    facts::Facts,
    memory::Observation,
    owned::{self, Found, INSTALLATION, Kept, PASSWORD, SecretEntries, UUID},
    password_memory::{PasswordEnd, PasswordFailure},
};
use crate::{
    account::{Account, Permit},
    controllers::trouble::Trouble,
    kinds::root_password::Installed,
};
use hosting::{Error, SecretText, Server, ServerId};

/// Looks whether the Secret is free, or holds this password already.
pub(super) async fn find(
    ctx: &ServerContext,
    facts: &Facts,
    of: &Installed,
    secret: &str,
) -> Observation {
    let fresh = match act::reread(ctx, facts).await {
        Ok(fresh) if root_password::may_find(&fresh, of, secret) => fresh,
        Ok(_) => return Observation::Stale,
        Err(observation) => return observation,
    };
    let end = match owned::find_password(ctx, &fresh.object, secret, of).await {
        Found::Free => PasswordEnd::Free(secret.to_owned()),
        found => not_free(found, secret, facts),
    };
    noted(of, end)
}

/// Two calls by one permit: a read that shows the machine to be the object's, delivered and nobody else's, and the password,
/// which goes from there into the Secret and nowhere else.
pub(super) async fn fetch(
    ctx: &ServerContext,
    facts: &Facts,
    account: &Account,
    mut permit: Permit,
    of: &Installed,
    secret: &str,
) -> Observation {
    let fresh = match act::reread_with_policies(ctx, facts, account).await {
        Ok(fresh) if root_password::may_fetch(&fresh, of, secret) => fresh,
        Ok(_) => return Observation::Stale,
        Err(observation) => return observation,
    };
    // What nobody could be given is not asked for.
    let found = owned::find_password(ctx, &fresh.object, secret, of).await;
    if found != Found::Free {
        return noted(of, not_free(found, secret, facts));
    }
    let (record, password) = match ask(&mut permit, &fresh, of).await {
        Ok(answer) => answer,
        Err(failure) => return noted(of, PasswordEnd::Failed(failure)),
    };
    let entries = SecretEntries::from([
        (PASSWORD.to_owned(), password),
        (INSTALLATION.to_owned(), SecretText::new(of.label())),
        (UUID.to_owned(), SecretText::new(of.machine.clone())),
        ("hostname".to_owned(), SecretText::new(record.name)),
    ]);
    let end = match owned::keep_secret(ctx, &fresh.object, secret, &entries).await {
        Kept::Written | Kept::Stands => {
            tracing::info!(
                namespace = facts.namespace(),
                name = facts.name(),
                uuid = of.machine,
                secret,
                "stored the root password of a machine"
            );
            PasswordEnd::Stored(secret.to_owned(), facts.steady_wall())
        }
        other => not_written(other, secret),
    };
    noted(of, end)
}

async fn ask(
    permit: &mut Permit,
    fresh: &Facts,
    of: &Installed,
) -> Result<(Server, SecretText), PasswordFailure> {
    let trouble = |why: String| PasswordFailure::Trouble(why);
    let id = ServerId::parse(&of.machine)
        .map_err(|_| trouble("what is recorded is no UUID of a machine".into()))?;
    let record = permit
        .read(&id)
        .await
        .map_err(|error| trouble(Trouble::of_provider(&error).message))?;
    if !fence::may_read_password(fresh, &record) {
        return Err(trouble(
            "a read of the machine right before did not show it delivered and this server's alone"
                .into(),
        ));
    }
    let answer = permit
        .call_restricted(async |client| client.root_password(&id).await)
        .await;
    match answer {
        Ok(password) => Ok((record, password)),
        Err(Error::NotFound(_)) => Err(PasswordFailure::Absent),
        Err(error) => Err(trouble(Trouble::of_provider(&error).message)),
    }
}

/// Deletes the Secret, if it still holds this password, and its time is over by the API server's clock too: one that is
/// deleted too early cannot be had again.
pub(super) async fn forget(
    ctx: &ServerContext,
    facts: &Facts,
    of: &Installed,
    secret: &str,
) -> Observation {
    let fresh = match act::reread(ctx, facts).await {
        Ok(fresh) => fresh,
        Err(observation) => return observation,
    };
    let Some(at) = root_password::forgotten_at(&fresh, of, secret) else {
        return Observation::Stale;
    };
    let end = match owned::delete_password(ctx, &fresh.object, secret, of, at).await {
        Kept::Written | Kept::Stands | Kept::NotOurs => PasswordEnd::Deleted,
        other => not_written(other, secret),
    };
    noted(of, end)
}

fn not_free(found: Found, secret: &str, facts: &Facts) -> PasswordEnd {
    match found {
        Found::Holds | Found::Free => PasswordEnd::Stored(secret.to_owned(), facts.steady_wall()),
        Found::NotOurs => PasswordEnd::Failed(PasswordFailure::Taken(secret.to_owned())),
        Found::Failed(why) => {
            PasswordEnd::Failed(PasswordFailure::Trouble(format!("Secret {secret}: {why}")))
        }
    }
}

fn not_written(kept: Kept, secret: &str) -> PasswordEnd {
    let why = match kept {
        Kept::NotOurs => {
            return PasswordEnd::Failed(PasswordFailure::Taken(secret.to_owned()));
        }
        Kept::Failed(why) => why,
        _ => "it changed in between, or is being deleted".to_owned(),
    };
    PasswordEnd::Failed(PasswordFailure::Trouble(format!("Secret {secret}: {why}")))
}

fn noted(of: &Installed, end: PasswordEnd) -> Observation {
    Observation::Password {
        of: of.clone(),
        end,
    }
}
