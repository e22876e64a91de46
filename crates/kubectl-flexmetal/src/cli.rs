//! What can be typed. The CLI reference is generated from this file.

use crate::{commands, context::GlobalArgs};
use clap::{Parser, Subcommand};

/// Questions about paid bare-metal servers, and one-off acts.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-flexmetal",
    bin_name = "kubectl flexmetal",
    version = option_env!("FLEXMETAL_VERSION").unwrap_or(env!("CARGO_PKG_VERSION")),
    disable_help_subcommand = true,
    after_help = EXIT_CODES,
)]
pub struct Cli {
    /// Flags of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// The command.
    #[command(subcommand)]
    pub command: PluginCommand,
}

const EXIT_CODES: &str = "Exit codes: 0 fine, 1 error, 2 usage, 3 something needs attention or would change, 4 not allowed, 5 timed out";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Show why objects are not ready: what needs you first, then what changes, then what is ready
    Status(commands::status::StatusArgs),
    /// Show the life of one object, and what the operator waits for
    Explain(commands::explain::ExplainArgs),
    /// Wait until an object is ready, or gone
    Wait(commands::wait::WaitArgs),
    /// Show all servers of the account, with or without an object
    Servers(commands::servers::ServersArgs),
    /// Show what a server reports about its hardware
    Hardware(commands::hardware::HardwareArgs),
    /// Show the dedicated hosts of the account, or the installation log of one
    Hosts(commands::hosts::HostsArgs),
    /// Show the SSH keys that the account stores
    SshKeys(commands::ssh_keys::SshKeysArgs),
    /// Show the tags of the account
    Tags(commands::tags::TagsArgs),
    /// Show from which addresses an API key may be used
    Whitelist(commands::whitelist::WhitelistArgs),
    /// Show how many servers the provider allows, and how many there are
    Quota(commands::quota::QuotaArgs),
    /// Show committed capacity, and how much of it is in use
    Capacity(commands::capacity::CapacityArgs),
    /// Show what can be ordered, and where
    Catalog(commands::catalog::CatalogArgs),
    /// Show hours and traffic of the account, per server, namespace or contract
    Usage(commands::usage::UsageArgs),
    /// Show the administrator password of a Windows server (--show), or where it is stored
    RootPassword(commands::root_password::RootPasswordArgs),
    /// Check what a key may read, or change the password of the account at the provider
    Account(commands::account::AccountCommandArgs),
    /// Print manifests that adopt servers without an object, for kubectl apply; nothing is ordered
    Import(commands::import::ImportArgs),
    /// Show servers of this cluster that no object owns, or adopt or release one
    Orphans(commands::orphans::OrphansArgs),
    /// Check the installation, and say what to do
    Doctor(commands::doctor::DoctorArgs),
    /// Write a file for a bug report, without secrets
    Report(commands::report::ReportArgs),
    /// Show what the operator would send to the provider, for manifests or for an object as it is
    Plan(commands::plan::PlanArgs),
    /// Acknowledge what an object waits for
    Acknowledge(commands::acknowledge::AcknowledgeArgs),
    /// Stop what the operator sends for objects
    Suspend(commands::suspend::SuspendArgs),
    /// Let the operator go on with suspended objects
    Resume(commands::suspend::SuspendArgs),
    /// Ask the operator to read objects again now
    Reconcile(commands::suspend::ReconcileArgs),
    /// Switch servers on or off, or reboot them
    Power(commands::power::PowerArgs),
    /// Install a server again, or another system with --os; this erases its disks and edits the spec
    Reinstall(commands::reinstall::ReinstallArgs),
    /// Take back a deletion before its release begins: keep the server, and create the object again
    Rescue(commands::rescue::RescueArgs),
    /// Print a script that makes a shell complete commands, flags and names
    Completion(commands::completion::CompletionArgs),
    /// Print the versions of the plugin and of the operators in the cluster
    Version(commands::version::VersionArgs),
}
