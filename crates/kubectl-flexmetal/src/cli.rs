//! What can be typed. The CLI reference is generated from this file.

use crate::{commands, context::GlobalArgs};
use clap::{Command, Parser, Subcommand, builder::Styles};

/// Questions about paid bare-metal servers, and one-off acts.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-flexmetal",
    bin_name = "kubectl flexmetal",
    version = option_env!("FLEXMETAL_VERSION").unwrap_or(env!("CARGO_PKG_VERSION")),
    disable_help_subcommand = true,
    help_template = help_template(),
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

/// The commands by what they are about. One list of all is hard to read.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Your objects",
        &[
            "status",
            "explain",
            "wait",
            "plan",
            "acknowledge",
            "suspend",
            "resume",
            "reconcile",
        ],
    ),
    (
        "Your servers",
        &[
            "power",
            "reinstall",
            "rescue",
            "import",
            "orphans",
            "hardware",
            "root-password",
        ],
    ),
    (
        "The account at the provider",
        &[
            "servers",
            "hosts",
            "ssh-keys",
            "tags",
            "whitelist",
            "quota",
            "capacity",
            "catalog",
            "usage",
            "account",
        ],
    ),
    (
        "The installation",
        &["doctor", "report", "version", "completion"],
    ),
];

/// The help of the program, with the commands in groups: clap has one list only.
fn help_template() -> String {
    let styles = Styles::styled();
    let (heading, literal) = (styles.get_header(), styles.get_literal());
    let all = PluginCommand::augment_subcommands(Command::new("all"));
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, names) in GROUPS {
        text += &format!("\n{heading}{title}:{heading:#}\n");
        for name in *names {
            let about = all.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text += &format!("  {literal}{name:<13}{literal:#}  {about}\n");
        }
    }
    text + &format!("\n{heading}Flags of every command:{heading:#}\n{{options}}{{after-help}}")
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Show why objects are not ready: what needs you, what changes, what is ready
    Status(commands::status::StatusArgs),
    /// Show the life of one object, and what the operator waits for
    Explain(commands::explain::ExplainArgs),
    /// Wait until an object is ready, or gone
    #[command(after_help = "Examples:
  kubectl flexmetal wait web --for ready
  kubectl flexmetal wait dhost/db --for ready --timeout 2h")]
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
    #[command(after_help = "Examples:
  kubectl flexmetal catalog locations
  kubectl flexmetal catalog --available --location \"EU: Rotterdam\"
  kubectl flexmetal catalog systems                  # slugs for spec.os and reinstall --os")]
    Catalog(commands::catalog::CatalogArgs),
    /// Show hours and traffic of the account, per server, namespace or contract
    #[command(after_help = "Examples:
  kubectl flexmetal usage --by namespace
  kubectl flexmetal usage --by namespace --from 2026-10-01 --to 2026-10-31 -o csv")]
    Usage(commands::usage::UsageArgs),
    /// Show the administrator password of a Windows server (--show), or where it is stored
    RootPassword(commands::root_password::RootPasswordArgs),
    /// Check a key and what it may read, or change the account's password at the provider
    Account(commands::account::AccountCommandArgs),
    /// Print manifests that adopt servers without an object; nothing is ordered
    #[command(after_help = "Examples:
  kubectl flexmetal import --tag team-a | kubectl apply -f -
  kubectl flexmetal import --to servers              # one file per server, for Git")]
    Import(commands::import::ImportArgs),
    /// Show servers of this cluster that no object owns, or adopt or release one
    Orphans(commands::orphans::OrphansArgs),
    /// Check the installation, and say what to do
    Doctor(commands::doctor::DoctorArgs),
    /// Write a file for a bug report, without secrets
    Report(commands::report::ReportArgs),
    /// Show what the operator would send to the provider, and what is billed or erased
    #[command(after_help = "Examples:
  kubectl flexmetal plan -f servers                  # before kubectl apply -f servers
  kubectl flexmetal plan -f servers --field-manager argocd-controller
  kubectl flexmetal plan web                         # for the object as it is")]
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
    #[command(after_help = "Examples:
  kubectl flexmetal power reboot web database --wait
  kubectl flexmetal power off dhost/db")]
    Power(commands::power::PowerArgs),
    /// Install a server again, or another system: edits the spec, and erases the disks
    #[command(after_help = "Example:
  kubectl flexmetal reinstall web --os debian-13 --wait")]
    Reinstall(commands::reinstall::ReinstallArgs),
    /// Take back a deletion before the release begins, and create the object again
    #[command(
        after_help = "The release begins at once, unless spec.releaseDelay delays it. With spec.deletionProtection the object cannot be deleted."
    )]
    Rescue(commands::rescue::RescueArgs),
    /// Print a script that makes a shell complete commands, flags and names
    #[command(
        after_help = "The script is for kubectl-flexmetal. For `kubectl flexmetal`, kubectl's own completion needs a link in the PATH:
  ln -s \"$(command -v kubectl-flexmetal)\" /usr/local/bin/kubectl_complete-flexmetal"
    )]
    Completion(commands::completion::CompletionArgs),
    /// Print the versions of the plugin and of the operators in the cluster
    Version(commands::version::VersionArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let mut names: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        let groups = GROUPS.iter().flat_map(|(_, names)| names.iter().copied());
        let mut grouped: Vec<_> = groups.collect();
        names.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, names);
    }

    #[test]
    fn lines_of_help_fit_a_terminal() {
        let help = Cli::command().term_width(100).render_help().to_string();
        let long: Vec<_> = help.lines().filter(|line| line.len() > 100).collect();
        assert!(long.is_empty(), "{long:?}");
    }
}
