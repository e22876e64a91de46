//! Where servers and hosts hear of the commands for them, and commands of their targets. Neither kind knows the other's folder:
//! the commands make themselves known here, and are asked through a trait.
//!
//! A command notes what it is about to do, then reads its target, then sends. A server notes its release, and a server or
//! host its installation, then reads the commands, then sends. So of the two one sees the other, whichever process does which.

use super::writes::ApiServerError;
use api::target::TargetKind;
use flexmetal_core::{account::key::AccountKey, server_commands::UnderWay};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

/// What a command may be switching.
#[derive(Clone, Debug)]
pub enum Switched {
    /// The machine of a server, which no other object has.
    Server {
        /// Namespace of the server.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A dedicated host, whichever object has it now, or had it when the command was sent.
    Host {
        /// Its number.
        number: String,
        /// The names of its account.
        accounts: Vec<AccountKey>,
    },
}

/// The commands.
pub trait Commands: Send + Sync {
    /// What is known of the commands that may switch this by what was listed at this moment or later.
    fn under_way(&self, switched: &Switched, since: Duration) -> UnderWay;

    /// The same, as the API server has it now.
    fn under_way_now<'a>(
        &'a self,
        switched: &'a Switched,
    ) -> BoxFuture<'a, Result<UnderWay, ApiServerError>>;

    /// This target shows something else now, or is gone.
    fn enqueue_first_command(&self, kind: TargetKind, namespace: &str, name: &str);
}

/// The commands, once they have made themselves known. A clone is the same.
#[derive(Clone, Default)]
pub struct ServerCommands(Arc<OnceLock<Arc<dyn Commands>>>);

impl ServerCommands {
    /// The commands. Only the first call counts.
    pub fn set(&self, commands: Arc<dyn Commands>) {
        let _ = self.0.set(commands);
    }

    /// What is known of the commands that may switch this, by a listing since this process acts for it (None: it does not).
    pub fn under_way(&self, switched: &Switched, since: Option<Duration>) -> UnderWay {
        match (self.0.get(), since) {
            // A process that has no such kind, as in a test.
            (None, _) => UnderWay::Nothing,
            (Some(_), None) => UnderWay::NotListed,
            (Some(commands), Some(since)) => commands.under_way(switched, since),
        }
    }

    /// The same, as the API server has it now.
    ///
    /// # Errors
    /// When the API server does not tell.
    pub fn under_way_now<'a>(
        &'a self,
        switched: &'a Switched,
    ) -> BoxFuture<'a, Result<UnderWay, ApiServerError>> {
        match self.0.get() {
            None => std::future::ready(Ok(UnderWay::Nothing)).boxed(),
            Some(commands) => commands.under_way_now(switched),
        }
    }

    /// A target shows something else, or is gone.
    pub fn target_changed(&self, kind: TargetKind, target: &ObjectMeta) {
        if let (Some(commands), Some(namespace), Some(name)) =
            (self.0.get(), &target.namespace, &target.name)
        {
            commands.enqueue_first_command(kind, namespace, name);
        }
    }
}
