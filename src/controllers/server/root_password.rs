//! Asks for the root password of a machine and stores it, and deletes the Secret when its time is over.

use super::{
    ServerContext, act,
    decide::{
        fence,
        root_password::{self, End, Installed},
    },
    facts::Facts,
    memory::Observation,
    owned::{self, Kept, PASSWORD, SecretEntries},
};
use crate::{
    account::{Account, Permit},
    controllers::trouble::Trouble,
};
use hosting::{Error, SecretText, ServerId};

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
    match owned::secret_is_free(ctx, &fresh.object, secret).await {
        Kept::Stands => {}
        Kept::NotOurs => return noted(of, End::Taken(secret.to_owned())),
        other => return failed(other),
    }
    let Ok(id) = ServerId::parse(&of.machine) else {
        return Observation::Failed(Trouble::unexpected(
            "what is recorded is no UUID of a machine",
        ));
    };
    let record = match permit.read(&id).await {
        Ok(record) if fence::may_read_password(&fresh, &record) => record,
        Ok(_) => return act::not_shown(),
        Err(error) => return act::refused(&error, "a machine could not be read"),
    };
    let password = match permit
        .call(async |client| client.root_password(&id).await)
        .await
    {
        Ok(password) => password,
        Err(Error::NotFound(_)) => return noted(of, End::Absent),
        Err(error) => return act::refused(&error, "a root password could not be read"),
    };
    let entries = SecretEntries::from([
        (PASSWORD.to_owned(), password),
        ("uuid".to_owned(), SecretText::new(of.machine.clone())),
        ("hostname".to_owned(), SecretText::new(record.name)),
    ]);
    match owned::keep_secret(ctx, &fresh.object, secret, &entries).await {
        Kept::Written | Kept::Stands => {
            tracing::info!(
                namespace = facts.namespace(),
                name = facts.name(),
                uuid = of.machine,
                secret,
                "stored the root password of a machine"
            );
            noted(of, End::Stored(secret.to_owned()))
        }
        Kept::NotOurs => noted(of, End::Taken(secret.to_owned())),
        other => failed(other),
    }
}

/// Deletes the Secret, if it is still the object's.
pub(super) async fn forget(
    ctx: &ServerContext,
    facts: &Facts,
    of: &Installed,
    secret: &str,
) -> Observation {
    let fresh = match act::reread(ctx, facts).await {
        Ok(fresh) if root_password::may_forget(&fresh, of, secret) => fresh,
        Ok(_) => return Observation::Stale,
        Err(observation) => return observation,
    };
    match owned::delete_secret(ctx, &fresh.object, secret).await {
        Kept::Written | Kept::Stands | Kept::NotOurs => noted(of, End::Deleted),
        other => failed(other),
    }
}

fn noted(of: &Installed, end: End) -> Observation {
    Observation::Password {
        of: of.clone(),
        end,
    }
}

fn failed(kept: Kept) -> Observation {
    match kept {
        Kept::Failed(why) => {
            Observation::Failed(Trouble::of_write(format!("spec.rootPassword: {why}")))
        }
        _ => Observation::Stale,
    }
}
