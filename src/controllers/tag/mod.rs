//! `ServerTag`: observe, decide, act, report.

pub mod act;

use super::{
    context::{Context, Process},
    objects::{KindOptions, Objects, WorkItem},
    reconcile::{Next, REPORTED_CONDITIONS},
    reconcile_loop::run_reconcile_loop,
};
use crate::account::Account;
use act::act;
use api::ServerTag;
use flexmetal_core::{
    account::key::AccountKey,
    ownership::ConflictingOwners,
    reconcile::{Memory, Subject},
    requeue::Requeue,
    tag::{
        decide::{decide, permit_for},
        facts::{TagFacts, TagMemory, claimed_tag},
    },
};
use std::sync::Arc;

/// The context of the tag controller.
type TagContext = Context<ServerTag, Memory<TagMemory>>;

/// The controller of tags.
pub struct TagController {
    process: Process,
    /// The objects.
    pub objects: Arc<Objects<ServerTag, Memory<TagMemory>>>,
}

impl TagController {
    /// No objects yet. Registers the kind with the accounts, which enqueue its objects.
    pub fn new(process: &Process) -> Self {
        let traits = KindOptions {
            account_of: Some(|object| Some(account_of(object))),
            claim: Some(|tag: &ServerTag| Some(tag.wanted().to_owned())),
            has_record: |tag| tag.status.as_ref().is_some_and(|s| s.tag.is_some()),
            ..KindOptions::default()
        };
        let objects = Arc::new(Objects::new(traits, process.watched.watches()));
        process.accounts.add_users(objects.clone());
        Self {
            process: process.clone(),
            objects,
        }
    }

    /// Reconciles all tags until shutdown. Nothing starts before `accounts_known`.
    pub async fn run(&self, accounts_known: impl Future<Output = ()>) {
        let watches = self.process.watched.apis(&self.process.watch_client);
        let ctx = Arc::new(Context::new(&self.process, self.objects.clone()));
        run_reconcile_loop(ctx, watches, accounts_known, reconcile).await;
    }
}

/// The account that a tag names.
fn account_of(tag: &ServerTag) -> AccountKey {
    let namespace = tag.metadata.namespace.as_deref().unwrap_or_default();
    AccountKey::from_reference(&tag.account(), namespace)
}

/// Handles one work item.
async fn reconcile(ctx: Arc<TagContext>, seen: WorkItem<ServerTag>) -> Requeue {
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
            let observation = Box::pin(ctx.await_effect(&*subject.object, asked, acting)).await;
            let mut own = subject.memory.own.clone();
            let ended = own.record_observation(observation);
            ctx.finish_effect(subject, ended, |kept| *kept = own).await
        }
        Next::Report(again) => {
            ctx.report_status(subject, &decision, again, &REPORTED_CONDITIONS)
                .await
        }
        Next::Requeue(again) => again,
    }
}

async fn observe(ctx: &TagContext, object: Arc<ServerTag>) -> (TagFacts, Option<Account>) {
    let pinned = object.account();
    let (subject, account) = ctx.subject(object, &pinned).await;
    let conflicting_owners = conflicting_owners(ctx, &subject);
    let mut facts = TagFacts {
        subject,
        conflicting_owners,
    };
    facts.refresh_memory();
    let own = facts.subject.memory.own.clone();
    ctx.objects
        .remember(facts.subject.uid(), |memory| memory.own = own);
    (facts, account)
}

/// The other objects that claim the tag.
fn conflicting_owners(
    ctx: &TagContext,
    subject: &Subject<ServerTag, TagMemory>,
) -> ConflictingOwners {
    let object = &*subject.object;
    ctx.conflicting_owners(subject.uid(), &account_of(object), claimed_tag(object))
}
