//! What each reason asks of the user, in one line. The long version is `docs/troubleshooting.md`.

use crate::objects::ObjectKind;
use api::Reason;

/// What a reason asks of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Whether the operator does not go on without the user.
    pub needs_user: bool,
    /// The next step.
    pub next_step: &'static str,
}

/// The operator goes on by itself.
const fn wait(next_step: &'static str) -> Advice {
    Advice {
        needs_user: false,
        next_step,
    }
}

/// The user must act.
const fn act(next_step: &'static str) -> Advice {
    Advice {
        needs_user: true,
        next_step,
    }
}

const NOTHING: Advice = wait("Do nothing");

/// What this reason asks of the user, for an object of this kind.
pub const fn advise(reason: Reason, kind: ObjectKind) -> Advice {
    use ObjectKind::{DedicatedHost, IpWhitelist, ServerCommand, SshKey};
    match reason {
        Reason::InSync | Reason::Available | Reason::Delivered | Reason::Completed => NOTHING,
        Reason::Pending => wait("Wait some seconds; if it stays, run kubectl flexmetal doctor"),
        Reason::Queued => wait("Wait; the message says for what"),
        Reason::Ordering => wait("Wait"),
        Reason::Provisioning => wait("Wait; if it stays, ask the provider"),
        Reason::Progressing => wait("Wait; if tags change back, find what changes them"),
        Reason::Reinstalling => wait("Wait until the installation ends"),
        Reason::Releasing => wait("Wait; if it takes hours, ask the provider"),
        Reason::WaitingForListing => wait(
            "Wait; if it is Stalled and the missing servers are really gone, acknowledge SameAccount on the account",
        ),
        Reason::Suspended => wait("Set spec.suspend to false where the message says"),
        Reason::ObserveOnly => {
            act("Set spec.externalID to the server to observe, or spec.managementPolicy to Full")
        }
        Reason::Protected => act(
            "Set spec.deletionProtection to false, or keep the server with spec.deletionPolicy: Retain",
        ),
        Reason::ReleaseDelayed => wait(
            "To release it now, set spec.releaseDelay to 0s; to keep it, spec.deletionPolicy to Retain",
        ),
        Reason::ReleaseLimited => act(
            "Acknowledge LiftReleaseLimit on the account, or keep the server with spec.deletionPolicy: Retain",
        ),
        Reason::Expired => act("Delete the object, or set a later spec.expiresAt"),
        Reason::PendingChanges => act(
            "Revert the fields in the message, or raise spec.install.revision (this erases the disks)",
        ),
        Reason::InvalidSpec => match kind {
            SshKey => act("Delete the object and create it with a whole line of a .pub file"),
            _ => act("Correct the field in the message"),
        },
        Reason::AccountNotFound => {
            wait("Create the account, or create the object again with another spec.accountRef")
        }
        Reason::NotAllowed => {
            act("Change the field in the message, or have the limits of the account changed")
        }
        Reason::AccountNotReady => wait("Look at the conditions of the account"),
        Reason::ReferenceNotFound => wait("Create the Secret, ConfigMap or SshKey in the message"),
        Reason::ReferenceNotReady => wait("Wait; if it stays, check the object in the message"),
        Reason::InvalidKey => act("Store only the key, in a Secret of type flexmetal.dev/api-key"),
        Reason::InvalidEndpoint => act("Correct the URL or CA bundle in the message"),
        Reason::KeyRejected => {
            act("Put a key that the provider accepts into the Secret of the account")
        }
        Reason::AccountChanged => {
            act("Restore the former key and URL, or acknowledge NewAccount on the account")
        }
        Reason::ProviderUnreachable => {
            wait("Check base URL, DNS, network policy and the provider's status page")
        }
        Reason::RateLimited => wait("Wait; check whether another program uses the key"),
        Reason::NoStock => {
            wait("Wait, add spec.alternatives, or change spec.location or spec.instanceType")
        }
        Reason::QuotaExceeded => {
            wait("Ask the provider for more quota, or delete a server of this type")
        }
        Reason::LimitReached => {
            act("Raise the limit of the account, delete a server, or wait an hour")
        }
        Reason::OrderRefused => wait("Correct what the message names"),
        Reason::RequestRefused => match kind {
            ServerCommand => act("Look at the server; to try again, create another ServerCommand"),
            SshKey => act("Create another SshKey with another key"),
            DedicatedHost => act("Correct what the message names, and raise spec.install.revision"),
            _ => act("Correct what the message names, or grant the key the right at the provider"),
        },
        Reason::OutcomeUnknown => match kind {
            ServerCommand => wait("Look at the server; to try again, create another ServerCommand"),
            DedicatedHost => {
                wait("Look at the host; then raise spec.install.revision, or remove spec.install")
            }
            _ => wait(
                "Wait; if it is Stalled and the provider shows no server with its tag, acknowledge AssumeAbsent",
            ),
        },
        Reason::ServerExists => {
            act("Acknowledge Adopt to take the former server, or OrderAnother to pay for one more")
        }
        Reason::ProvisioningFailed => {
            act("Delete and create the object again, or set spec.failurePolicy to Replace")
        }
        Reason::ProvisioningTimeout => {
            act("Ask the provider, delete the object, or raise spec.provisioning.timeout")
        }
        Reason::ReleasedExternally => {
            act("Delete and create the object again, or set spec.externalReleasePolicy to Reorder")
        }
        Reason::ServerNotFound => match kind {
            DedicatedHost => wait("Create another object with the right spec.hostID"),
            _ => wait("Delete the object, or acknowledge AssumeAbsent to order again"),
        },
        Reason::TagsMissing => act("Add the tag in the message to the server at the provider"),
        Reason::OwnershipConflict => match kind {
            IpWhitelist => act("Delete the wrong object, or set spec.entryPolicy to Additive"),
            _ => act("Set spec.deletionPolicy to Retain on the wrong object, then delete it"),
        },
        Reason::DuplicateServers => {
            act("Release the servers in status.duplicateUUIDs at the provider; all are billed")
        }
        Reason::MetadataConflict => act("Stop what removes the operator's finalizer"),
        Reason::NameTaken => act("Change the name in the message, or delete what has it"),
        Reason::TooManyEntries => act("Remove tags or entries at the provider"),
        Reason::WriteFailed => act("Grant the right in the message, or correct the field in it"),
        Reason::ChecksFailed => {
            act("Check the tags of the server, and what else writes the object")
        }
        Reason::CommandFailed => act(
            "Look at the server; to try again, create another ServerCommand or set spec.power again",
        ),
        Reason::Superseded => act("Create another ServerCommand if you still need it"),
        Reason::NotRepeated => match kind {
            ServerCommand => {
                act("Create another ServerCommand without the annotation flexmetal.dev/command")
            }
            _ => act("Raise spec.install.revision once more, or set it back"),
        },
        Reason::ReinstallFailed => {
            act("Raise spec.install.revision to try again (this erases the disks), or set it back")
        }
        Reason::PasswordMissed => act(
            "Set a password inside the server, or raise spec.install.revision (this erases the disks)",
        ),
        Reason::OrphansFound => {
            act("Run kubectl flexmetal orphans, and adopt or release each server; all are billed")
        }
        Reason::InUse => act("Delete the objects that use it"),
        Reason::EgressUnknown => act("Set spec.egressCIDRs of the whitelist or its account"),
        Reason::EgressNotCovered => {
            act("Add an entry for the addresses in the message, or correct spec.egressCIDRs")
        }
        Reason::EntryNotApplied => {
            act("Remove the entry at the provider, or correct it in the object")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_steps_are_one_short_line() {
        for reason in Reason::ALL {
            for kind in ObjectKind::ALL {
                let step = advise(*reason, kind).next_step;
                assert!(
                    (2..=120).contains(&step.chars().count()),
                    "{reason}: {step}"
                );
                assert!(step.starts_with(char::is_uppercase), "{reason}: {step}");
                assert!(
                    !step.contains('\n') && !step.ends_with('.'),
                    "{reason}: {step}"
                );
            }
        }
    }

    #[test]
    fn reason_that_the_operator_resolves_needs_no_user() {
        let needs = |reason| advise(reason, ObjectKind::BareMetalServer).needs_user;
        for reason in [Reason::Provisioning, Reason::NoStock, Reason::Queued] {
            assert!(!needs(reason), "{reason}");
        }
        for reason in [Reason::InvalidSpec, Reason::ServerExists, Reason::Protected] {
            assert!(needs(reason), "{reason}");
        }
    }

    #[test]
    fn next_step_names_what_the_kind_has() {
        for kind in ObjectKind::ALL {
            let step = advise(Reason::NotRepeated, kind).next_step;
            let is_command = kind == ObjectKind::ServerCommand;
            assert_eq!(step.contains("ServerCommand"), is_command, "{step}");
        }
    }
}
