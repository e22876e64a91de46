//! Which commands of servers and hosts are under way.

use super::{CommandObjects, seen_account};
use crate::{
    controllers::{
        context::Watched,
        objects::ObservedObject,
        server_commands::{Commands, PowerTarget},
        streams::Guarded,
        writes::{ApiServerError, bounded},
    },
    runtime::clock,
};
use api::{ServerCommand, target::TargetKind};
use flexmetal_core::{
    command::facts::{host_switched, is_under_way, queue_of_target},
    server_commands::RunningCommand,
};
use futures::{FutureExt as _, future::BoxFuture};
use kube::{Api, Client, api::ListParams};
use std::{sync::Arc, time::Duration};

/// Commands per page of a list: each may have large annotations.
const PAGE: u32 = 100;

/// The commands, as their targets see them.
pub(super) struct RunningCommands {
    pub(super) objects: Arc<CommandObjects>,
    pub(super) client: Client,
    pub(super) watched: Watched,
}

impl Commands for RunningCommands {
    fn under_way(&self, switched: &PowerTarget, since: Duration) -> RunningCommand {
        if !self.objects.is_listed_since(since) {
            return RunningCommand::NotListed;
        }
        let now = clock::steady_wall();
        let begun = match switched {
            PowerTarget::Server { namespace, name } => {
                let server = queue_of_target(TargetKind::BareMetalServer, namespace, name);
                self.objects.started_in_queue(&server)
            }
            PowerTarget::Host { number, accounts } => {
                let claimants = self.objects.claimants(number, accounts);
                claimants
                    .iter()
                    .map(|command| command.uid.clone())
                    .collect()
            }
        };
        let mut running = begun
            .iter()
            .filter_map(|uid| match self.objects.newest(uid) {
                Some(ObservedObject::Decoded(command)) if is_awaited(&command, now) => {
                    Some(name_of(&command))
                }
                _ => None,
            });
        running
            .next()
            .map_or(RunningCommand::Nothing, RunningCommand::Command)
    }

    fn under_way_now<'a>(
        &'a self,
        switched: &'a PowerTarget,
    ) -> BoxFuture<'a, Result<RunningCommand, ApiServerError>> {
        async move {
            let (apis, fields) = match switched {
                PowerTarget::Server { namespace, name } => (
                    vec![Api::namespaced(self.client.clone(), namespace)],
                    // An object omits the default kind, so `may_switch` checks the kind.
                    format!("spec.targetRef.name={name}"),
                ),
                PowerTarget::Host { .. } => (
                    self.watched.apis(&self.client),
                    format!("spec.targetRef.kind={}", TargetKind::DedicatedHost.as_str()),
                ),
            };
            for api in apis {
                if let Some(name) = first_under_way(&api, &fields, switched).await? {
                    return Ok(RunningCommand::Command(name));
                }
            }
            Ok(RunningCommand::Nothing)
        }
        .boxed()
    }

    fn enqueue_first_command(&self, kind: TargetKind, namespace: &str, name: &str) {
        self.objects
            .enqueue_first(&queue_of_target(kind, namespace, name));
    }
}

/// The name of a command under way, of those with these fields.
async fn first_under_way(
    api: &Api<Guarded<ServerCommand>>,
    fields: &str,
    switched: &PowerTarget,
) -> Result<Option<String>, ApiServerError> {
    let mut ask = ListParams::default().fields(fields).limit(PAGE);
    loop {
        let page = match bounded(api.list(&ask)).await {
            // The kind is not installed, or no longer.
            Err(failure) if failure.code() == Some(404) => return Ok(None),
            answer => answer?,
        };
        let now = clock::steady_wall();
        // An operator of this version cannot have sent a command that does not decode.
        let mut all = page.items.iter().filter_map(|found| found.0.as_ref().ok());
        let is_it =
            |command: &&ServerCommand| may_switch(command, switched) && is_awaited(command, now);
        if let Some(command) = all.find(is_it) {
            return Ok(Some(name_of(command)));
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => ask.continue_token = Some(token),
            None => return Ok(None),
        }
    }
}

/// Whether a listed command may switch this target, if it is under way.
fn may_switch(command: &ServerCommand, switched: &PowerTarget) -> bool {
    match switched {
        PowerTarget::Server { .. } => command.spec.target_ref.kind() == TargetKind::BareMetalServer,
        PowerTarget::Host { number, accounts } => {
            host_switched(command).as_ref() == Some(number)
                && seen_account(command).is_some_and(|account| accounts.contains(&account))
        }
    }
}

/// The time after which a request sent at the last moment is over.
const ON_THE_WIRE: Duration = Duration::from_secs(60);

fn name_of(command: &ServerCommand) -> String {
    command.metadata.name.clone().unwrap_or_default()
}

/// Whether a command is under way and within its timeout, by the wall clock without forward jumps. The target then
/// waits no longer, even if the command's own reconcile is blocked.
fn is_awaited(command: &ServerCommand, now: i64) -> bool {
    let created = command.metadata.creation_timestamp.as_ref();
    // A clock that is behind does not make a command older.
    let age = created.map_or(0, |created| {
        now.saturating_sub(created.0.as_second()).max(0)
    });
    // No request is sent after the timeout, and the answer comes soon after it.
    let timeout = command.spec.timeout().0 + ON_THE_WIRE;
    let is_in_time = u64::try_from(age).is_ok_and(|age| age < timeout.as_secs());
    is_under_way(command) && is_in_time
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn server_waits_for_running_command_within_its_timeout() {
        let command = |outcome: &str| -> ServerCommand {
            let record = json!({
                "uid": "u", "action": "Reboot", "server": "m", "attempt": "a",
                "startedAt": "1970-01-01T00:16:40Z", "sendBy": "1970-01-01T00:17:10Z", "listed": {},
                "account": {
                    "kind": "ProviderAccount", "name": "default", "uid": "x", "accountID": "l", "credentialsHash": "c",
                },
                "outcome": outcome,
            });
            serde_json::from_value(json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerCommand",
                "metadata": {"name": "r", "uid": "u", "creationTimestamp": "1970-01-01T00:16:40Z"},
                "spec": {"targetRef": {"name": "web"}, "action": "Reboot", "timeout": "10m"},
                "status": {"records": {"sent": [record]}},
            }))
            .unwrap()
        };
        for (outcome, now, expected) in [
            ("Accepted", 1000, true),
            ("Accepted", 1659, true),
            ("Accepted", 1660, false),
            ("Accepted", 0, true),
            ("Accepted", i64::MIN, true),
            ("Refused", 1000, false),
            ("NotSent", 1000, false),
        ] {
            let found = is_awaited(&command(outcome), now);
            assert_eq!(found, expected, "{outcome} {now}");
        }
    }
}
