//! One file a command.

pub mod account;
pub mod acknowledge;
pub mod capacity;
pub mod catalog;
pub mod completion;
pub mod doctor;
pub mod explain;
pub mod hardware;
pub mod hosts;
pub mod import;
pub mod orphans;
pub mod plan;
pub mod power;
pub mod quota;
pub mod reinstall;
pub mod report;
pub mod rescue;
pub mod root_password;
pub mod servers;
pub mod ssh_keys;
pub mod status;
pub mod suspend;
pub mod tags;
pub mod usage;
pub mod version;
pub mod wait;
pub mod whitelist;

use crate::{
    cli::{Cli, PluginCommand},
    context::PluginContext,
    exit::{Exit, PluginError},
    output::OutputForm,
};

/// Carries a command out.
pub async fn run(cli: Cli) -> Result<Exit, PluginError> {
    if cli.global.output == OutputForm::Csv && !matches!(cli.command, PluginCommand::Usage(_)) {
        return Err(PluginError::Usage(
            "-o csv is only for usage; choose table, wide, json, yaml or name".into(),
        ));
    }
    if let PluginCommand::Completion(args) = cli.command {
        return completion::run(&cli.global, args);
    }
    let context = PluginContext::connect(&cli.global).await?;
    match cli.command {
        PluginCommand::Status(args) => status::run(&context, args).await,
        PluginCommand::Explain(args) => explain::run(&context, args).await,
        PluginCommand::Wait(args) => wait::run(&context, args).await,
        PluginCommand::Completion(args) => completion::run(&cli.global, args),
        PluginCommand::Servers(args) => servers::run(&context, args).await,
        PluginCommand::Hardware(args) => hardware::run(&context, args).await,
        PluginCommand::Hosts(args) => hosts::run(&context, args).await,
        PluginCommand::SshKeys(args) => ssh_keys::run(&context, args).await,
        PluginCommand::Tags(args) => tags::run(&context, args).await,
        PluginCommand::Whitelist(args) => whitelist::run(&context, args).await,
        PluginCommand::Quota(args) => quota::run(&context, args).await,
        PluginCommand::Capacity(args) => capacity::run(&context, args).await,
        PluginCommand::Catalog(args) => catalog::run(&context, args).await,
        PluginCommand::Usage(args) => usage::run(&context, args).await,
        PluginCommand::RootPassword(args) => root_password::run(&context, args).await,
        PluginCommand::Account(args) => account::run(&context, args).await,
        PluginCommand::Import(args) => import::run(&context, args).await,
        PluginCommand::Orphans(args) => orphans::run(&context, args).await,
        PluginCommand::Doctor(args) => doctor::run(&context, args).await,
        PluginCommand::Report(args) => report::run(&context, args).await,
        PluginCommand::Plan(args) => plan::run(&context, args).await,
        PluginCommand::Acknowledge(args) => acknowledge::run(&context, args).await,
        PluginCommand::Suspend(args) => suspend::suspend(&context, args).await,
        PluginCommand::Resume(args) => suspend::resume(&context, args).await,
        PluginCommand::Reconcile(args) => suspend::reconcile(&context, args).await,
        PluginCommand::Power(args) => power::run(&context, args).await,
        PluginCommand::Reinstall(args) => reinstall::run(&context, args).await,
        PluginCommand::Rescue(args) => rescue::run(&context, args).await,
        PluginCommand::Version(args) => version::run(&context, args).await,
    }
}
