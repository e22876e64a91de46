//! Which commands of servers and hosts are under way.

use super::CommandObjects;
use crate::{
    controllers::{
        context::Watched,
        objects::ObservedObject,
        server_commands::Commands,
        streams::Guarded,
        writes::{ApiServerError, bounded},
    },
    runtime::clock,
};
use api::{ServerCommand, target::TargetKind};
use flexmetal_core::{
    command::facts::queue_of_target,
    command::running::{is_awaited, may_switch},
    server_commands::{PowerTarget, RunningCommand},
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

fn name_of(command: &ServerCommand) -> String {
    command.metadata.name.clone().unwrap_or_default()
}
