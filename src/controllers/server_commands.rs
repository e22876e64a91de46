//! Where servers hear of the commands for them, and commands of their servers. Neither kind knows the other's folder:
//! the commands make themselves known here, and are asked through a trait.

use std::sync::{Arc, OnceLock};

/// The commands.
pub trait Commands: Send + Sync {
    /// The command that may be under way for this server, by name.
    fn running(&self, namespace: &str, server: &str) -> Option<String>;

    /// This server shows something else now, or is gone.
    fn wake(&self, namespace: &str, server: &str);
}

/// The commands, once they have made themselves known. A clone is the same.
#[derive(Clone, Default)]
pub struct ServerCommands(Arc<OnceLock<Arc<dyn Commands>>>);

impl ServerCommands {
    /// The commands. Only the first call counts.
    pub fn set(&self, commands: Arc<dyn Commands>) {
        let _ = self.0.set(commands);
    }

    /// The command that may be under way for a server, by name.
    pub fn running(&self, namespace: &str, server: &str) -> Option<String> {
        self.0.get()?.running(namespace, server)
    }

    /// A server shows something else, or is gone.
    pub fn server_changed(&self, namespace: &str, name: &str) {
        if let Some(commands) = self.0.get() {
            commands.wake(namespace, name);
        }
    }
}
