//! Which commands are under way, and for which target.

use super::facts::{host_switched, is_under_way};
use crate::{account::key::AccountKey, server_commands::PowerTarget};
use api::{ServerCommand, target::TargetKind};
use std::time::Duration;

/// The account of the target, once it is known. A command names no account.
pub fn seen_account(command: &ServerCommand) -> Option<AccountKey> {
    let namespace = command.metadata.namespace.as_deref().unwrap_or_default();
    let seen = command.status.as_ref()?.account_ref.as_ref()?;
    Some(AccountKey::from_reference(seen, namespace))
}

/// Whether a listed command may switch this target, if it is under way.
pub fn may_switch(command: &ServerCommand, switched: &PowerTarget) -> bool {
    match switched {
        PowerTarget::Server { namespace, name } => {
            let target = &command.spec.target_ref;
            command.metadata.namespace.as_ref() == Some(namespace)
                && target.kind() == TargetKind::BareMetalServer
                && target.name == *name
        }
        PowerTarget::Host { number, accounts } => {
            host_switched(command).as_ref() == Some(number)
                && seen_account(command).is_some_and(|account| accounts.contains(&account))
        }
    }
}

/// The time after which a request sent at the last moment is over.
const ON_THE_WIRE: Duration = Duration::from_secs(60);

/// Whether a command is under way and within its timeout, by the wall clock without forward jumps. The target then
/// waits no longer, even if the command's own reconcile is blocked.
pub fn is_awaited(command: &ServerCommand, now: i64) -> bool {
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
