//! `DedicatedHost`: observe, decide, act, report.
//!
//! A host is there before its object and stays after it. All objects look at the one list of their account; what wipes or
//! switches a host goes out once, between two looks.

mod act;
mod commands;
mod installs;
mod note;
mod texts;

use super::{
    context::{Context, Process},
    drive::drive,
    objects::{Objects, Seen, Traits, Words},
    pass::{Next, TURNS},
    stored_keys::by_name,
};
use crate::account::Account;
use act::act;
use api::DedicatedHost;
use flexmetal_core::{
    account::key::AccountKey,
    again::Again,
    host::{
        decide::{decide, turn},
        facts::{Facts, HostMemory},
    },
    ownership::Rivals,
    pass::{Memory, Subject},
};
use std::{hash::Hash as _, sync::Arc};

/// What the passes over hosts use.
type HostContext = Context<DedicatedHost, Memory<HostMemory>>;

/// The controller of hosts.
pub struct Controller {
    process: Process,
    /// The objects.
    pub objects: Arc<Objects<DedicatedHost, Memory<HostMemory>>>,
}

impl Controller {
    /// No objects yet. Registers the kind with the accounts, and with the stored keys.
    pub fn new(process: &Process) -> Self {
        let traits = Traits {
            account_of: Some(|object| Some(account_of(object))),
            claim: Some(|host: &DedicatedHost| Some(host.spec.host_id.to_string())),
            refers: Some(refers),
            // A status that lost what was noted.
            triggers: |object, hash| {
                let status = object.status.as_ref();
                status.is_some_and(|s| s.install.is_some()).hash(hash);
                status.is_some_and(|s| s.power.is_some()).hash(hash);
            },
            ..Traits::default()
        };
        let objects = Arc::new(Objects::new(traits, process.watched.watches()));
        process.accounts.add_users(objects.clone());
        process.stored_keys.add_referrers(objects.clone());
        Self {
            process: process.clone(),
            objects,
        }
    }

    /// Looks after all hosts until shutdown. No pass starts before `accounts_known`.
    pub async fn run(&self, accounts_known: impl Future<Output = ()>) {
        let watches = self.process.watched.apis(&self.process.watch_client);
        let ctx = Arc::new(Context::new(&self.process, self.objects.clone()));
        drive(ctx, watches, accounts_known, pass).await;
    }
}

/// The stored key that a host names.
fn refers(host: &DedicatedHost) -> Words {
    let namespace = host.metadata.namespace.as_deref().unwrap_or_default();
    let install = host.spec.install.iter();
    let key = install.map(|install| by_name(namespace, &install.ssh_key_ref.name));
    key.collect()
}

/// The account that a host names.
fn account_of(host: &DedicatedHost) -> AccountKey {
    let namespace = host.metadata.namespace.as_deref().unwrap_or_default();
    AccountKey::of(&host.account(), namespace)
}

/// One pass.
async fn pass(ctx: Arc<HostContext>, seen: Seen<DedicatedHost>) -> Again {
    let object = match ctx.open(seen).await {
        Ok(object) => object,
        Err(again) => return again,
    };
    let (facts, account) = observe(&ctx, object).await;
    let decision = decide(&facts);
    let subject = &facts.subject;
    match ctx.prepare(subject, account.as_ref(), &decision, turn) {
        Next::Act(effect, permit) => {
            let (ended, observation) = act(&ctx, &facts, account.as_ref(), effect, permit).await;
            ctx.concluded(subject, ended, |own| own.note(observation))
                .await
        }
        Next::Say(again) => ctx.say(subject, &decision, again, &TURNS).await,
        Next::Rest(again) => again,
    }
}

async fn observe(ctx: &HostContext, object: Arc<DedicatedHost>) -> (Facts, Option<Account>) {
    let pinned = object.account();
    let (subject, account) = ctx.subject(object, &pinned).await;
    let mut facts = Facts {
        rivals: Rivals::default(),
        is_owner_known: true,
        is_namespace_suspended: ctx.accounts.is_namespace_suspended(subject.namespace()),
        key: None,
        subject,
    };
    look_around(ctx, &mut facts);
    let mut own = facts.subject.memory.own.clone();
    own.recall(&facts);
    ctx.objects
        .remember(facts.subject.uid(), |memory| memory.own = own.clone());
    facts.subject.memory.own = own;
    (facts, account)
}

/// What other objects of this process show. No call is made.
fn look_around(ctx: &HostContext, facts: &mut Facts) {
    facts.rivals = rivals(ctx, &facts.subject);
    facts.is_owner_known = (facts.rivals.owner.as_ref())
        .is_none_or(|owner| ctx.accounts.has_terms(&owner.account, &owner.namespace));
    let subject = &facts.subject;
    let install = subject.object.spec.install.as_ref();
    let key = install.map(|install| {
        let name = &install.ssh_key_ref.name;
        ctx.stored_keys.find(subject.namespace(), name)
    });
    facts.key = key;
}

/// Who else wants the host, and may have it: who may not must not be in the way of those who do.
fn rivals(ctx: &HostContext, subject: &Subject<DedicatedHost, HostMemory>) -> Rivals {
    let host = subject.object.spec.host_id;
    let names = ctx.accounts.names_of(&account_of(&subject.object));
    let claimants = ctx.objects.claimants(&host.to_string(), &names);
    Rivals::of(subject.uid(), &claimants, |claimant| {
        ctx.accounts
            .lets_host(&claimant.account, &claimant.namespace, host)
    })
}
