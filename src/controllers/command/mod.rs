//! Sends each `ServerCommand` at most once. The API has no idempotency key: the intent is recorded first, and a lost
//! answer is settled by listing the server's commands, never by sending again.

mod act;
mod running_commands;
mod send;

use super::{
    context::{Context, Process},
    objects::{KindOptions, Objects, QueueRequest, WorkItem},
    reconcile::{Next, REPORTED_CONDITIONS},
    reconcile_loop::run_reconcile_loop,
    writes::bounded,
};
use crate::{
    account::Account,
    runtime::{clock, kind_api::KindApi},
};
use act::act;
use api::{
    BareMetalServer, DedicatedHost, ServerCommand,
    kind::controller,
    target::{Target, TargetKind},
};
use flexmetal_core::{
    account::key::AccountKey,
    command::running::seen_account,
    command::{
        decide::{CommandEffect, decide, needs_target, permit_for},
        facts::{
            CommandFacts, CommandMemory, TargetFact, has_begun, host_switched, is_under_way,
            target_queue,
        },
    },
    ownership::ConflictingOwners,
    reconcile::Memory,
    requeue::Requeue,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use running_commands::RunningCommands;
use std::{sync::Arc, time::Duration};

/// The commands of all watched namespaces.
type CommandObjects = Objects<ServerCommand, Memory<CommandMemory>>;
/// The context of the command controller.
type CommandContext = Context<ServerCommand, Memory<CommandMemory>>;

/// The controller of commands.
pub struct CommandController {
    process: Process,
    /// The objects.
    pub objects: Arc<CommandObjects>,
}

impl CommandController {
    /// No objects yet. Registers the kind with the accounts, and with its targets.
    pub fn new(process: &Process) -> Self {
        let traits = KindOptions {
            account_of: Some(seen_account),
            queue_request: Some(queue_request),
            claim: Some(host_switched),
            has_record: is_under_way,
            ..KindOptions::default()
        };
        let objects = Arc::new(Objects::new(traits, process.watched.watches()));
        process.accounts.add_users(objects.clone());
        process.server_commands.set(Arc::new(RunningCommands {
            objects: objects.clone(),
            client: process.client.clone(),
            watched: process.watched.clone(),
        }));
        Self {
            process: process.clone(),
            objects,
        }
    }

    /// Reconciles all commands until shutdown. Nothing starts before `accounts_known`.
    pub async fn run(&self, accounts_known: impl Future<Output = ()>) {
        let watches = self.process.watched.apis(&self.process.watch_client);
        let ctx = Arc::new(Context::new(&self.process, self.objects.clone()));
        run_reconcile_loop(ctx, watches, accounts_known, reconcile).await;
    }
}

/// The queue of the commands for one target.
fn queue_request(command: &ServerCommand) -> Option<QueueRequest> {
    has_begun(command).map(|has_begun| QueueRequest {
        queue: target_queue(command),
        has_begun,
    })
}

/// Wait while another operator serves the target's account, or none does yet.
const NOT_SERVED: Duration = Duration::from_secs(2);

/// Handles one work item.
async fn reconcile(ctx: Arc<CommandContext>, seen: WorkItem<ServerCommand>) -> Requeue {
    if let WorkItem::Gone(gone) = &seen {
        enqueue_owner(&ctx, gone.meta());
    }
    let object = match ctx.check_work_item(seen).await {
        Ok(object) => object,
        Err(again) => return again,
    };
    let (facts, account) = observe(&ctx, object).await;
    if let TargetFact::Found(target) = &facts.target {
        let account = AccountKey::from_reference(&target.account(), facts.subject.namespace());
        if !ctx.serves(Some(&account)) {
            return Requeue::After(NOT_SERVED);
        }
    }
    let decision = decide(&facts);
    let subject = &facts.subject;
    match ctx.prepare(subject, account.as_ref(), &decision, permit_for) {
        Next::Act(effect, permit) => {
            // While a command is sent, no progress is reported: it would conflict with the attempt's own writes.
            let is_sent = matches!(effect, CommandEffect::Send(_));
            let asked = account.as_ref().filter(|_| permit.is_some() && !is_sent);
            let acting = act(&ctx, &facts, account.as_ref(), effect, permit);
            let (ended, observation) =
                Box::pin(ctx.await_effect(&*subject.object, asked, acting)).await;
            ctx.finish_effect(subject, ended, |memory| {
                memory.record_observation(observation)
            })
            .await
        }
        Next::Report(again) => {
            let again = ctx
                .report_status(subject, &decision, again, &REPORTED_CONDITIONS)
                .await;
            let is_written = ctx.objects.memory(subject.uid()).reported != subject.memory.reported;
            if is_written && decision.is_over {
                enqueue_owner(&ctx, &subject.object.metadata);
            }
            again
        }
        Next::Requeue(again) => again,
    }
}

/// Enqueues the server or host whose `spec.power` created the command.
fn enqueue_owner(ctx: &CommandContext, command: &ObjectMeta) {
    let kinds = ["BareMetalServer", "DedicatedHost"];
    if let Some(owner) = controller(command).filter(|it| kinds.contains(&&*it.kind)) {
        ctx.accounts.enqueue_object(&owner.uid);
    }
}

async fn observe(
    ctx: &CommandContext,
    object: Arc<ServerCommand>,
) -> (CommandFacts, Option<Account>) {
    let account = object.account();
    let (subject, account) = ctx.subject(object, &account).await;
    let mut facts = CommandFacts {
        steady: clock::steady_wall(),
        target: TargetFact::NotRead,
        conflicting_owners: ConflictingOwners::default(),
        is_first: ctx
            .objects
            .is_next_in_queue(&target_queue(&subject.object), subject.uid()),
        subject,
    };
    let attempt = facts.open_attempt();
    let (uid, now) = (facts.subject.uid().to_owned(), facts.subject.now.mono);
    let sent = facts.subject.status().records.sent;
    ctx.objects.remember(&uid, |memory| {
        memory.own.compare(&sent, memory.reported);
        memory.own.searches_for(attempt.as_deref(), now);
    });
    facts.subject.memory = ctx.objects.memory(&uid);
    if needs_target(&facts) {
        observe_related(ctx, &mut facts).await;
    }
    (facts, account)
}

/// Reads the target live, since commands are rare and cannot be undone. Conflicting owners of a host come from this
/// process's list.
async fn observe_related(ctx: &CommandContext, facts: &mut CommandFacts) {
    let subject = &facts.subject;
    facts.is_first = ctx
        .objects
        .is_next_in_queue(&target_queue(&subject.object), subject.uid());
    facts.steady = clock::steady_wall();
    let namespace = subject.namespace();
    let client = ctx.client.clone();
    let name = &subject.object.spec.target_ref.name;
    let found = match facts.kind() {
        TargetKind::BareMetalServer => {
            let api = BareMetalServer::api(client, Some(namespace));
            let found = bounded(api.get_opt(name)).await;
            found.map(|found| found.map(|server| Target::Server(Arc::new(server))))
        }
        TargetKind::DedicatedHost => {
            let api = DedicatedHost::api(client, Some(namespace));
            let found = bounded(api.get_opt(name)).await;
            found.map(|found| found.map(|host| Target::Host(Arc::new(host))))
        }
    };
    let conflicting_owners = match &found {
        Ok(Some(Target::Host(host))) => {
            let since = ctx.leader_since();
            ctx.hosts.conflicting_owners(ctx, host, since)
        }
        _ => Some(ConflictingOwners::default()),
    };
    facts.target = match found {
        Err(failure) => TargetFact::Unreadable(failure.explain()),
        Ok(None) => TargetFact::Missing,
        Ok(Some(_)) if conflicting_owners.is_none() => {
            TargetFact::Unreadable("the DedicatedHosts are not listed yet".to_owned())
        }
        Ok(Some(target)) => TargetFact::Found(target),
    };
    facts.conflicting_owners = conflicting_owners.unwrap_or_default();
    facts.subject.now = clock::now();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        account::{EnqueueTarget, Users},
        controllers::{
            api_server_tests::{Answer, TestApiServer},
            objects::{ObservedObject, slim},
            streams::Guarded,
        },
    };
    use flexmetal_core::account::recorded::RecordedResources;
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};
    use std::sync::Mutex;

    /// Another kind, which records what is enqueued.
    #[derive(Default)]
    struct Enqueued(Mutex<Vec<EnqueueTarget>>);

    impl Users for Enqueued {
        fn count(&self, _: &AccountKey, _: &dyn Fn(&str) -> bool) -> Option<usize> {
            Some(0)
        }

        fn recorded_resources(&self, _: &AccountKey) -> Option<RecordedResources> {
            Some(RecordedResources::default())
        }

        fn enqueue(&self, target: &EnqueueTarget) {
            self.0.lock().unwrap().push(target.clone());
        }
    }

    #[tokio::test]
    async fn ended_command_enqueues_its_controller_owner() {
        let owner = |kind: &str, uid: &str, controller: bool| {
            json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": kind, "name": "web", "uid": uid,
                "controller": controller,
            })
        };
        for kind in ["BareMetalServer", "DedicatedHost"] {
            // Its timeout is over, so the next reconcile ends it.
            let object = json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
                "metadata": {
                    "name": "r", "namespace": "shop", "uid": "u", "resourceVersion": "1", "generation": 1,
                    "creationTimestamp": "1970-01-01T00:00:00Z",
                    "ownerReferences": [owner("ServerTag", "other", false), owner(kind, "owner", true)],
                },
                "spec": {"targetRef": {"kind": kind, "name": "web"}, "action": "Reboot"},
            });
            let floor = TestApiServer::start([Answer::Says(200, object.clone())]).await;
            let controller = CommandController::new(&floor.ctx);
            let shown: Guarded<ServerCommand> = serde_json::from_value(object.clone()).unwrap();
            controller.objects.apply_event(0, Event::Init);
            controller.objects.apply_event(0, Event::InitApply(shown));
            controller.objects.apply_event(0, Event::InitDone);
            let ctx = Arc::new(Context::new(&floor.ctx, controller.objects.clone()));
            let enqueued = Arc::new(Enqueued::default());
            floor.ctx.accounts.add_users(enqueued.clone());
            let received = || std::mem::take(&mut *enqueued.0.lock().unwrap());
            let expected = [EnqueueTarget::Object("owner".into())];

            let mut object: ServerCommand = serde_json::from_value(object).unwrap();
            slim(&mut object.metadata);
            let object = Arc::new(object);
            reconcile(ctx.clone(), WorkItem::Object(object.clone())).await;
            let path = "/apis/flexmetal.dev/v1alpha1/namespaces/shop/servercommands/r/status";
            assert_eq!(floor.requests(), [format!("PATCH {path}")]);
            assert_eq!(received(), expected, "{kind}: it has ended");
            reconcile(ctx, WorkItem::Gone(ObservedObject::Decoded(object))).await;
            assert_eq!(received(), expected, "{kind}: it is gone");
        }
    }

    #[test]
    fn only_waiting_or_running_commands_enter_target_queue() {
        let sent = |outcome: &str, uid: &str| {
            json!([{
                "uid": uid, "action": "Reboot", "server": "m", "attempt": "a", "listed": {},
                "startedAt": "2026-01-01T00:00:00Z", "sendBy": "2026-01-01T00:00:30Z",
                "account": {
                    "kind": "ProviderAccount", "name": "default", "uid": "x", "accountID": "l", "credentialsHash": "c",
                },
                "outcome": outcome,
            }])
        };
        let conditions = json!([{
            "type": "Failed", "status": "True", "reason": "CommandFailed", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
        let place = |deleted: bool, status: Value| {
            let mut object = json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
                "metadata": {"name": "r", "namespace": "shop", "uid": "u"},
                "spec": {"targetRef": {"name": "web"}, "action": "Reboot"},
                "status": status,
            });
            if deleted {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            let object: ServerCommand = serde_json::from_value(object).unwrap();
            queue_request(&object).map(|request| (request.queue, request.has_begun))
        };
        let queued = |has_begun| Some(("BareMetalServer/shop/web".to_owned(), has_begun));
        let status = |sent: Value| json!({"records": {"sent": sent}});
        let accepted = || status(sent("Accepted", "u"));
        assert_eq!(place(false, json!({})), queued(false));
        // A deleted command that was not sent.
        assert_eq!(place(true, json!({})), None);
        assert_eq!(place(false, accepted()), queued(true));
        assert_eq!(place(true, accepted()), queued(true));
        assert_eq!(place(false, status(sent("NotSent", "u"))), queued(false));
        assert_eq!(place(true, status(sent("NotSent", "u"))), None);
        assert_eq!(
            place(false, status(sent("Accepted", "other"))),
            queued(false)
        );
        let over = json!({"records": {"sent": sent("Accepted", "u")}, "conditions": conditions});
        assert_eq!(place(false, over), None);
    }
}
