//! How servers, hosts and commands learn of each other. The commands register here and are called through a trait. Each
//! side records its intent, then reads the other side, then sends: so at least one sees the other.

use super::writes::ApiServerError;
use api::target::TargetKind;
use flexmetal_core::server_commands::{PowerTarget, RunningCommand};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

/// The commands.
pub trait Commands: Send + Sync {
    /// What is known of the commands that may switch this, by a list that started at this moment or later.
    fn under_way(&self, switched: &PowerTarget, since: Duration) -> RunningCommand;

    /// The same, read live.
    fn under_way_now<'a>(
        &'a self,
        switched: &'a PowerTarget,
    ) -> BoxFuture<'a, Result<RunningCommand, ApiServerError>>;

    /// Enqueues the first command for a target that has changed or is deleted.
    fn enqueue_first_command(&self, kind: TargetKind, namespace: &str, name: &str);
}

/// The registered commands. A clone shares them.
#[derive(Clone, Default)]
pub struct ServerCommands(Arc<OnceLock<Arc<dyn Commands>>>);

impl ServerCommands {
    /// Registers the commands. Only the first call counts.
    pub fn set(&self, commands: Arc<dyn Commands>) {
        let _ = self.0.set(commands);
    }

    /// What is known of the commands that may switch this. `since` is when this process became leader, if it is.
    pub fn under_way(&self, switched: &PowerTarget, since: Option<Duration>) -> RunningCommand {
        match (self.0.get(), since) {
            // A process without this kind, as in a test.
            (None, _) => RunningCommand::Nothing,
            (Some(_), None) => RunningCommand::NotListed,
            (Some(commands), Some(since)) => commands.under_way(switched, since),
        }
    }

    /// The same, read live.
    ///
    /// # Errors
    /// The error of the API server.
    pub fn under_way_now<'a>(
        &'a self,
        switched: &'a PowerTarget,
    ) -> BoxFuture<'a, Result<RunningCommand, ApiServerError>> {
        match self.0.get() {
            None => std::future::ready(Ok(RunningCommand::Nothing)).boxed(),
            Some(commands) => commands.under_way_now(switched),
        }
    }

    /// Enqueues the first command for a target that has changed or is deleted.
    pub fn target_changed(&self, kind: TargetKind, target: &ObjectMeta) {
        if let (Some(commands), Some(namespace), Some(name)) =
            (self.0.get(), &target.namespace, &target.name)
        {
            commands.enqueue_first_command(kind, namespace, name);
        }
    }
}
