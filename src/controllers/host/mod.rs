//! Reconciles `DedicatedHost` objects. A host exists before and after its object. All objects of an account share one
//! host list; ServerCommands switch the power.

mod act;
mod install_log;
mod installs;
mod intent;
mod texts;

use super::{
    context::{Context, Process},
    host_objects::HostOwnership,
    objects::{KindOptions, Objects, ReferenceKeys, WorkItem},
    power::read_command,
    reconcile::{Next, REPORTED_CONDITIONS},
    reconcile_loop::run_reconcile_loop,
    stored_keys::by_name,
};
use crate::account::Account;
use act::act;
use api::{DedicatedHost, target::TargetKind};
use flexmetal_core::{
    account::key::AccountKey,
    host::{
        decide::{decide, permit_for},
        facts::{HostFacts, HostMemory},
    },
    ownership::ConflictingOwners,
    power::KnownCommand,
    reconcile::Memory,
    requeue::Requeue,
    server_commands::PowerTarget,
};
use std::{hash::Hash as _, sync::Arc, time::Duration};

/// The hosts of all watched namespaces.
type HostObjects = Objects<DedicatedHost, Memory<HostMemory>>;
/// The context of the host controller.
type HostContext = Context<DedicatedHost, Memory<HostMemory>>;

/// The controller of hosts.
pub struct HostController {
    process: Process,
    /// The objects.
    pub objects: Arc<HostObjects>,
}

impl HostController {
    /// No objects yet. Registers the kind with the accounts, the stored keys, and the commands.
    pub fn new(process: &Process) -> Self {
        let traits = KindOptions {
            account_of: Some(|object| Some(account_of(object))),
            claim: Some(|host: &DedicatedHost| Some(host.spec.host_id.to_string())),
            refers: Some(refers),
            // Status gained or lost its installation or power record.
            triggers: |object, hash| {
                let status = object.status.as_ref();
                status
                    .is_some_and(|s| s.records.install.is_some())
                    .hash(hash);
                status.is_some_and(|s| s.records.power.is_some()).hash(hash);
            },
            ..KindOptions::default()
        };
        let objects = Arc::new(Objects::new(traits, process.watched.watches()));
        process.accounts.add_users(objects.clone());
        process.hosts.set(objects.clone());
        process.stored_keys.add_referrers(objects.clone());
        Self {
            process: process.clone(),
            objects,
        }
    }

    /// Reconciles all hosts until shutdown. Nothing starts before `accounts_known`.
    pub async fn run(&self, accounts_known: impl Future<Output = ()>) {
        let watches = self.process.watched.apis(&self.process.watch_client);
        let ctx = Arc::new(Context::new(&self.process, self.objects.clone()));
        run_reconcile_loop(ctx, watches, accounts_known, reconcile).await;
    }
}

impl HostOwnership for HostObjects {
    fn conflicting_owners(
        &self,
        process: &Process,
        host: &DedicatedHost,
        since: Duration,
    ) -> Option<ConflictingOwners> {
        self.is_listed_since(since)
            .then(|| conflicting_owners(process, self, host))
    }
}

/// The account that a host names.
fn account_of(host: &DedicatedHost) -> AccountKey {
    let namespace = host.metadata.namespace.as_deref().unwrap_or_default();
    AccountKey::from_reference(&host.account(), namespace)
}

/// The other objects that claim the host and may have it. Objects that may not must not block those that may.
fn conflicting_owners(
    process: &Process,
    hosts: &HostObjects,
    host: &DedicatedHost,
) -> ConflictingOwners {
    let number = host.spec.host_id;
    let names = process.accounts.names_of(&account_of(host));
    let claimants = hosts.claimants(&number.to_string(), &names);
    let uid = host.metadata.uid.as_deref().unwrap_or_default();
    ConflictingOwners::find_among(uid, &claimants, |claimant| {
        process
            .accounts
            .allows_host(&claimant.account, &claimant.namespace, number)
    })
}

/// The host of an object, as the target whose commands are listed.
fn switched(process: &Process, host: &DedicatedHost) -> PowerTarget {
    PowerTarget::Host {
        number: host.spec.host_id.to_string(),
        accounts: process.accounts.names_of(&account_of(host)),
    }
}

/// The reference of a host to its stored key.
fn refers(host: &DedicatedHost) -> ReferenceKeys {
    let namespace = host.metadata.namespace.as_deref().unwrap_or_default();
    let key = host.spec.ssh_key_ref.iter();
    key.map(|key| by_name(namespace, &key.name)).collect()
}

/// Handles one work item.
async fn reconcile(ctx: Arc<HostContext>, seen: WorkItem<DedicatedHost>) -> Requeue {
    if let WorkItem::Gone(gone) = &seen {
        let kind = TargetKind::DedicatedHost;
        ctx.server_commands.target_changed(kind, gone.meta());
    }
    let object = match ctx.check_work_item(seen).await {
        Ok(object) => object,
        Err(again) => return again,
    };
    let (facts, account) = observe(&ctx, object).await;
    let decision = decide(&facts);
    let subject = &facts.subject;
    match ctx.prepare(subject, account.as_ref(), &decision, permit_for) {
        Next::Act(effect, permit) => {
            let asked = account.as_ref().filter(|_| permit.is_some());
            let acting = act(&ctx, &facts, account.as_ref(), effect, permit);
            let (ended, observation) =
                Box::pin(ctx.await_effect(&*subject.object, asked, acting)).await;
            ctx.finish_effect(subject, ended, |own| own.record_observation(observation))
                .await
        }
        Next::Report(again) => {
            let again = ctx
                .report_status(subject, &decision, again, &REPORTED_CONDITIONS)
                .await;
            if ctx.objects.memory(subject.uid()).reported != subject.memory.reported {
                let kind = TargetKind::DedicatedHost;
                ctx.server_commands
                    .target_changed(kind, &subject.object.metadata);
            }
            again
        }
        Next::Requeue(again) => again,
    }
}

async fn observe(ctx: &HostContext, object: Arc<DedicatedHost>) -> (HostFacts, Option<Account>) {
    let pinned = object.account();
    let (subject, account) = ctx.subject(object, &pinned).await;
    let namespace = subject.namespace();
    let status = subject.object.status.as_ref();
    let power = read_command(
        ctx,
        namespace,
        status.and_then(|s| s.records.power.as_ref()),
    )
    .await;
    let since = ctx.leader_since();
    let host = switched(ctx, &subject.object);
    let mut facts = HostFacts {
        commands: ctx.server_commands.under_way(&host, since),
        power: KnownCommand::from_command(subject.object.metadata.uid.as_deref(), power),
        conflicting_owners: ConflictingOwners::default(),
        is_owner_known: true,
        key: None,
        subject,
    };
    observe_related(ctx, &mut facts);
    let owner = facts.subject.memory.own.owner.clone();
    facts.refresh_memory();
    let own = facts.subject.memory.own.clone();
    if own.owner != owner {
        let subject = &facts.subject;
        let kind = TargetKind::DedicatedHost;
        ctx.server_commands
            .target_changed(kind, &subject.object.metadata);
    }
    ctx.objects
        .remember(facts.subject.uid(), |memory| memory.own = own);
    (facts, account)
}

/// Updates what other objects in this process show. Calls nothing.
fn observe_related(ctx: &HostContext, facts: &mut HostFacts) {
    facts.conflicting_owners = conflicting_owners(ctx, &ctx.objects, &facts.subject.object);
    facts.is_owner_known = (facts.conflicting_owners.owner.as_ref())
        .is_none_or(|owner| ctx.accounts.has_terms(&owner.account, &owner.namespace));
    let subject = &facts.subject;
    let key = subject.object.spec.ssh_key_ref.as_ref();
    let key = key.map(|key| ctx.stored_keys.find(subject.namespace(), &key.name));
    facts.key = key;
}
