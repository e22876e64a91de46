//! Finds, writes and deletes the Secret with a root password. Failures never quote the API server, since its refusal
//! may contain the password.

use super::output_objects::{
    OutputError, Owned, PASSWORD, SecretEntries, holds_password, is_deleted, secret,
};
use crate::{
    controllers::writes::{ApiServerError, bounded, without_finalizer},
    runtime::{clients::post_params, clock},
};
use api::{
    names::{MANAGER, OUTPUT_FINALIZER},
    root_password::Installed,
};
use flexmetal_core::server::{
    decide::outputs::OutputState,
    memory::ServerObservation,
    password_memory::{PasswordEnd, PasswordFailure},
};
use hosting_types::SecretText;
use k8s_openapi::{
    api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta},
};
use kube::{
    Api,
    api::{DeleteParams, PostParams, Preconditions},
};

const INSTALLATION: &str = "installation";
const UUID: &str = "uuid";
const HOSTNAME: &str = "hostname";
/// The annotation of the dry run that asks for the API server's clock; never stored.
const CLOCK_ANNOTATION: &str = "flexmetal.dev/clock";
const KEPT_BY_OTHERS: &str = "it is being deleted, but has another finalizer";

/// A name that a password may be written to: unused, or a Secret of the server in the version that was read. Only that
/// version is replaced, since another process may have written a newer password.
pub(super) struct WritableSecret {
    api: Api<Secret>,
    name: String,
    of: Installed,
    metadata: ObjectMeta,
    is_there: bool,
}

impl WritableSecret {
    /// Tries the write as a dry run: a quota or a policy may refuse it, and then no password is fetched.
    pub(super) async fn try_out(&self) -> Result<(), PasswordEnd> {
        let nothing = SecretText::new(String::new());
        let tried = self.write(String::new(), nothing, true).await;
        tried.map(drop)
    }

    pub(super) async fn store(self, hostname: String, password: SecretText) -> PasswordEnd {
        match self.write(hostname, password, false).await {
            Ok(written) => PasswordEnd::Stored(self.name, newest(&written)),
            Err(end) => end,
        }
    }

    async fn write(
        &self,
        hostname: String,
        password: SecretText,
        dry_run: bool,
    ) -> Result<Secret, PasswordEnd> {
        let entries = SecretEntries::from([
            (PASSWORD.to_owned(), password),
            (INSTALLATION.to_owned(), SecretText::new(self.of.label())),
            (UUID.to_owned(), SecretText::new(self.of.server.clone())),
            (HOSTNAME.to_owned(), SecretText::new(hostname)),
        ]);
        let secret = secret(self.metadata.clone(), &entries);
        let params = PostParams {
            dry_run,
            ..post_params()
        };
        let written = match self.is_there {
            true => bounded(self.api.replace(&self.name, &params, &secret)).await,
            false => bounded(self.api.create(&params, &secret)).await,
        };
        written.map_err(|failure| unanswered(&self.name, &failure))
    }
}

/// Checks whether a name is free for this password. Err: it is stored already, the name is taken, or a read failed.
/// Writes nothing, except that our finalizer comes off a deleted or abandoned Secret.
pub(super) async fn find(
    owned: &Owned<'_>,
    name: &str,
    of: &Installed,
) -> Result<WritableSecret, PasswordEnd> {
    let api: Api<Secret> = owned.api();
    let found = bounded(api.get_opt(name)).await;
    let mut found = found.map_err(|failure| unanswered(name, &failure))?;
    let other = found.take_if(|found| is_deleted(found) || !owned.is_our_secret(found));
    if let Some(other) = other {
        let left = owned.leave(other).await;
        match left.map_err(|undone| not_done(name, undone))? {
            None => {}
            Some(OutputState::Deleted) => return Err(secret_failure(name, KEPT_BY_OTHERS)),
            Some(_) => return Err(PasswordEnd::Failed(PasswordFailure::Taken(name.to_owned()))),
        }
    }
    match found {
        Some(found) if holds(&found, of) => {
            Err(PasswordEnd::Stored(name.to_owned(), newest(&found)))
        }
        Some(found) if found.immutable == Some(true) => {
            Err(secret_failure(name, "it is immutable; delete it"))
        }
        found => Ok(WritableSecret {
            is_there: found.is_some(),
            metadata: found.map_or_else(|| owned.metadata(name), |found| found.metadata),
            api,
            name: name.to_owned(),
            of: of.clone(),
        }),
    }
}

/// Deletes the server's Secret if it has the password of this installation and the API server's clock has reached `at`
/// (seconds since 1970).
pub(super) async fn delete(owned: &Owned<'_>, name: &str, of: &Installed, at: i64) -> PasswordEnd {
    let api: Api<Secret> = owned.api();
    let found = match bounded(api.get_opt(name)).await {
        Ok(Some(found)) if holds(&found, of) => found,
        Ok(_) => return PasswordEnd::Deleted,
        Err(failure) => return unanswered(name, &failure),
    };
    if !owned.is_our_secret(&found) {
        return secret_failure(name, "it is no longer this object's; delete it");
    }
    if is_deleted(&found) {
        return finish_deletion(owned, name, found).await;
    }
    match clock_of_api_server(&api, name, found.clone()).await {
        Ok(Some(now)) if now >= at => {}
        Ok(Some(_)) => {
            let why = "spec.rootPassword.ttl is not over by the clock of the API server";
            return secret_failure(name, why);
        }
        Ok(None) => {
            let why = "its metadata.managedFields do not show the API server's clock; delete it";
            return secret_failure(name, why);
        }
        Err(failure) => return unanswered(name, &failure),
    }
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: found.metadata.uid,
            resource_version: found.metadata.resource_version,
        }),
        ..DeleteParams::default()
    };
    match bounded(api.delete(name, &params)).await {
        Ok(deleted) => match deleted.left() {
            Some(deleted) => finish_deletion(owned, name, deleted).await,
            None => PasswordEnd::Deleted,
        },
        Err(failure) => unanswered(name, &failure),
    }
}

/// Removes our finalizer from the deleted Secret. It is then gone, unless it has another finalizer.
async fn finish_deletion(owned: &Owned<'_>, name: &str, deleted: Secret) -> PasswordEnd {
    let is_kept = !without_finalizer(&deleted, OUTPUT_FINALIZER).is_empty();
    match owned.remove_finalizer(deleted).await {
        Ok(()) if is_kept => secret_failure(name, KEPT_BY_OTHERS),
        Ok(()) => PasswordEnd::Deleted,
        Err(OutputError::Failed(failure)) if failure.code() == Some(404) => PasswordEnd::Deleted,
        Err(undone) => not_done(name, undone),
    }
}

/// The API server's clock, from the managed fields of a dry-run change.
async fn clock_of_api_server(
    api: &Api<Secret>,
    name: &str,
    mut found: Secret,
) -> Result<Option<i64>, ApiServerError> {
    let annotations = found.metadata.annotations.get_or_insert_default();
    annotations.insert(CLOCK_ANNOTATION.to_owned(), "asked for".to_owned());
    let params = PostParams {
        dry_run: true,
        ..post_params()
    };
    let tried = bounded(api.replace(name, &params, &found)).await?;
    let own = |entry: &&ManagedFieldsEntry| entry.manager.as_deref() == Some(MANAGER);
    let entries = tried.metadata.managed_fields.unwrap_or_default();
    let own = entries.iter().filter(own);
    let times = own.filter_map(|entry| entry.time.as_ref());
    // Our earlier writes are listed there, too.
    Ok(times.map(|time| time.0.as_second()).max())
}

/// When it was last written, by the API server's clock. This process's clock is only the fallback.
fn newest(secret: &Secret) -> i64 {
    let entries = secret.metadata.managed_fields.iter().flatten();
    let times = entries.filter_map(|entry| entry.time.as_ref());
    let created = secret.metadata.creation_timestamp.as_ref();
    let newest = times.chain(created).map(|time| time.0.as_second()).max();
    newest.unwrap_or_else(|| clock::now().wall)
}

fn holds(found: &Secret, of: &Installed) -> bool {
    let has_value = |key: &str, what: &str| {
        let entry = found.data.as_ref().and_then(|data| data.get(key));
        entry.is_some_and(|entry| entry.0 == what.as_bytes())
    };
    holds_password(found) && has_value(UUID, &of.server) && has_value(INSTALLATION, &of.label())
}

fn secret_failure(name: &str, why: &str) -> PasswordEnd {
    PasswordEnd::Failed(PasswordFailure::Error(format!("Secret {name}: {why}")))
}

fn not_done(name: &str, undone: OutputError) -> PasswordEnd {
    match undone {
        OutputError::NotNow(observation) => not_now(Some(*observation)),
        OutputError::Failed(failure) => unanswered(name, &failure),
    }
}

/// The object changed in between, or could not be read.
pub(super) fn not_now(observation: Option<ServerObservation>) -> PasswordEnd {
    let why = match observation {
        Some(ServerObservation::Failed(last_error)) => last_error.message,
        _ => "The object changed in the meantime".to_owned(),
    };
    PasswordEnd::Failed(PasswordFailure::Error(why))
}

fn unanswered(name: &str, failure: &ApiServerError) -> PasswordEnd {
    let why = match failure.code() {
        Some(404 | 409) => "it changed in the meantime".to_owned(),
        Some(code) => format!("the API server answers {code}"),
        None => "the API server does not answer".to_owned(),
    };
    secret_failure(name, &why)
}
