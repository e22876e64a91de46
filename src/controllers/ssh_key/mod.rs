//! `SshKey`: observe, decide, act, report.
//!
//! A public key is stored once at the provider and found again by what it is. What an object stored bears the
//! object's mark in its name, so that it is told from what was there, whoever has forgotten what.

pub mod decide;
pub mod facts;
pub mod looks;
pub mod memory;
pub mod posts;
pub mod public_key;

mod act;
mod observe;
mod pass;

use super::{
    context::{Context, Process},
    drive::drive,
    objects::{Objects, Shown, Traits},
    pass as floor,
    stored_keys::{Found, Keys, StoredKey},
};
use crate::{
    account::{AccountKey, List, Users as _, Wake},
    kinds::{SshKey, conditions::Type},
};
use looks::Looks;
use posts::Posts;
use std::sync::Arc;

/// The key objects of all watched namespaces.
pub type KeyObjects = Objects<SshKey, floor::Memory<memory::Memory>>;
/// What the passes over keys use.
pub type KeyContext = Context<SshKey, floor::Memory<memory::Memory>>;

/// What the passes over all keys share.
#[derive(Clone, Default)]
struct Shared {
    posts: Posts,
    looks: Looks,
}

/// The controller of stored keys.
pub struct Controller {
    process: Process,
    /// The objects.
    pub objects: Arc<KeyObjects>,
}

impl Controller {
    /// No objects yet. Registers the kind with the accounts, and with those who refer to keys.
    pub fn new(process: &Process) -> Self {
        let objects = Arc::new(Objects::new(traits(), process.watched.watches()));
        process.accounts.add_users(objects.clone());
        process
            .stored_keys
            .set_keys(Arc::new(Known(objects.clone())));
        Self {
            process: process.clone(),
            objects,
        }
    }

    /// Looks after all keys until shutdown. No pass starts before `accounts_known`.
    pub async fn run(&self, accounts_known: impl Future<Output = ()>) {
        let watches = self.process.watched.apis(&self.process.watch_client);
        let ctx = Arc::new(Context::new(&self.process, self.objects.clone()));
        let shared = Shared::default();
        let pass = move |ctx, seen| pass::pass(ctx, shared.clone(), seen);
        let known = async {
            self.objects.completed().await;
            self.process.stored_keys.keys_known();
        };
        let shutdown = self.process.shutdown.clone();
        tokio::join!(
            drive(ctx, watches, accounts_known, pass),
            shutdown.run_until_cancelled(known)
        );
    }
}

fn traits() -> Traits<SshKey> {
    Traits {
        account_of: Some(account_of),
        claim: Some(facts::claim),
        alias: Box::new(|meta| {
            let namespace = meta.namespace.as_deref()?;
            Some(full_name(namespace, meta.name.as_deref()?))
        }),
        lists: &[List::SshKeys],
        ..Traits::default()
    }
}

fn full_name(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// The account that a key names.
fn account_of(object: &SshKey) -> AccountKey {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    AccountKey::of(&facts::account_of(object), namespace)
}

/// What servers may know of the objects.
struct Known(Arc<KeyObjects>);

impl Keys for Known {
    fn find(&self, namespace: &str, name: &str) -> Found {
        let uid = self.0.by_alias(&full_name(namespace, name));
        let Some(shown) = uid.and_then(|uid| self.0.newest(&uid)) else {
            return match self.0.is_complete() {
                true => Found::Missing,
                false => Found::NotKnown,
            };
        };
        match shown {
            Shown::Decoded(object) => found(&object),
            Shown::Undecodable(_) => Found::NotReady("Undecodable".to_owned()),
        }
    }

    fn wake(&self, namespace: &str, name: &str) {
        self.0.wake(&Wake::Mark(full_name(namespace, name)));
    }
}

/// What an object shows to those who refer to it.
fn found(object: &SshKey) -> Found {
    let status = object.status.as_ref();
    let stored = status.and_then(|status| {
        Some(StoredKey {
            uuid: status.uuid.clone()?,
            fingerprint: status.fingerprint.clone()?,
            account: status.account.clone()?,
        })
    });
    match stored.filter(|_| facts::is_ready(object)) {
        Some(stored) => Found::Ready(stored),
        None if object.metadata.deletion_timestamp.is_some() => {
            Found::NotReady("being deleted".to_owned())
        }
        None => {
            let said = status.and_then(|status| {
                let mut said = status.conditions.iter();
                said.find(|c| c.type_ == Type::Ready.as_str() && c.status != "True")
            });
            Found::NotReady(said.map_or_else(|| "new".to_owned(), |c| c.reason.clone()))
        }
    }
}
