//! `IpWhitelist`: observe, decide, act, report.

mod act;

use super::{
    context::{Context, Process},
    objects::{KindOptions, ObjectDetails, Objects, WorkItem},
    reconcile::{Next, REPORTED_CONDITIONS},
    reconcile_loop::run_reconcile_loop,
};
use crate::account::Account;
use act::act;
use api::{
    IpWhitelist,
    conditions::{Type, find_condition},
};
use flexmetal_core::{
    account::key::AccountKey,
    ownership::ConflictingOwners,
    reconcile::Memory,
    requeue::Requeue,
    whitelist::{
        decide::{decide, permit_for},
        facts::{WhitelistFacts, is_account_in_namespace},
        memory::WhitelistMemory,
    },
};
use std::sync::Arc;

/// The context of the whitelist controller.
type WhitelistContext = Context<IpWhitelist, Memory<WhitelistMemory>>;

/// The controller of whitelists.
pub struct WhitelistController {
    process: Process,
    /// The objects.
    pub objects: Arc<Objects<IpWhitelist, Memory<WhitelistMemory>>>,
}

impl WhitelistController {
    /// No objects yet. Registers the kind with the accounts, which enqueue its objects.
    pub fn new(process: &Process) -> Self {
        let traits = KindOptions {
            account_of: Some(|object| Some(account_of(object))),
            claim: Some(|object: &IpWhitelist| Some(object.spec.api_key_id.to_string())),
            has_record: |object| {
                object
                    .status
                    .as_ref()
                    .is_some_and(|s| s.account_ref.is_some())
            },
            details: |object| ObjectDetails {
                covers_operator: covers_operator(object),
                ..ObjectDetails::default()
            },
            ..KindOptions::default()
        };
        let objects = Arc::new(Objects::new(traits, process.watched.watches()));
        process.accounts.add_users(objects.clone());
        Self {
            process: process.clone(),
            objects,
        }
    }

    /// Reconciles all whitelists until shutdown. Nothing starts before `accounts_known`.
    pub async fn run(&self, accounts_known: impl Future<Output = ()>) {
        let watches = self.process.watched.apis(&self.process.watch_client);
        let ctx = Arc::new(Context::new(&self.process, self.objects.clone()));
        run_reconcile_loop(ctx, watches, accounts_known, reconcile).await;
    }
}

/// The account that a whitelist names.
fn account_of(object: &IpWhitelist) -> AccountKey {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    AccountKey::from_reference(&object.account(), namespace)
}

/// Whether the whitelist admits the operator's own addresses.
fn covers_operator(object: &IpWhitelist) -> Option<bool> {
    let conditions = &object.status.as_ref()?.conditions;
    let covered = find_condition(conditions, Type::EgressCovered);
    covered.map(|covered| covered.status == "True")
}

/// Handles one work item.
async fn reconcile(ctx: Arc<WhitelistContext>, seen: WorkItem<IpWhitelist>) -> Requeue {
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
            let acting = act(&ctx, &facts, effect, permit);
            let (own, ended) = Box::pin(ctx.await_effect(&*subject.object, asked, acting)).await;
            ctx.finish_effect(subject, ended, |kept| *kept = own).await
        }
        Next::Report(again) => {
            ctx.report_status(subject, &decision, again, &REPORTED_CONDITIONS)
                .await
        }
        Next::Requeue(again) => again,
    }
}

async fn observe(
    ctx: &WhitelistContext,
    object: Arc<IpWhitelist>,
) -> (WhitelistFacts, Option<Account>) {
    let pinned = object.account();
    let (subject, account) = ctx.subject(object, &pinned).await;
    // In this order: objects that are created in between are among the claimants.
    let is_listed = ctx.objects.is_complete();
    let conflicting_owners = conflicting_owners(ctx, &subject.object);
    let own = account_of(&subject.object);
    let is_home = is_account_in_namespace(&own, subject.namespace(), &ctx.namespace);
    let mut facts = WhitelistFacts {
        subject,
        conflicting_owners,
        is_account_in_namespace: is_home,
        is_listed,
    };
    facts.start();
    let own = facts.subject.memory.own.clone();
    ctx.objects
        .remember(facts.subject.uid(), |memory| memory.own = own);
    (facts, account)
}

/// The other objects that claim the whitelist of the key.
fn conflicting_owners(ctx: &WhitelistContext, object: &IpWhitelist) -> ConflictingOwners {
    let key = account_of(object);
    let claim = object.spec.api_key_id.to_string();
    let claimants = ctx.objects.claimants(&claim, &ctx.accounts.names_of(&key));
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    ConflictingOwners::find_among(uid, &claimants, |claimant| {
        is_account_in_namespace(&claimant.account, &claimant.namespace, &ctx.namespace)
            && ctx.accounts.allows(&claimant.account, &claimant.namespace)
    })
}
