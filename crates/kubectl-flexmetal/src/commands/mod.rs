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
    cli::{Cli, Command},
    context::Context,
    exit::{Exit, PluginError},
    output::OutputForm,
};

/// Carries a command out.
pub async fn run(cli: Cli) -> Result<Exit, PluginError> {
    if cli.global.output == OutputForm::Csv && !matches!(cli.command, Command::Usage(_)) {
        return Err(PluginError::Usage(
            "-o csv is only for usage; choose table, wide, json, yaml or name".into(),
        ));
    }
    if let Command::Completion(args) = cli.command {
        return completion::run(&cli.global, args);
    }
    let context = Context::connect(&cli.global).await?;
    match cli.command {
        Command::Status(args) => status::run(&context, args).await,
        Command::Explain(args) => explain::run(&context, args).await,
        Command::Wait(args) => wait::run(&context, args).await,
        Command::Completion(args) => completion::run(&cli.global, args),
        Command::Servers(args) => servers::run(&context, args).await,
        Command::Hardware(args) => hardware::run(&context, args).await,
        Command::Hosts(args) => hosts::run(&context, args).await,
        Command::SshKeys(args) => ssh_keys::run(&context, args).await,
        Command::Tags(args) => tags::run(&context, args).await,
        Command::Whitelist(args) => whitelist::run(&context, args).await,
        Command::Quota(args) => quota::run(&context, args).await,
        Command::Capacity(args) => capacity::run(&context, args).await,
        Command::Catalog(args) => catalog::run(&context, args).await,
        Command::Usage(args) => usage::run(&context, args).await,
        Command::RootPassword(args) => root_password::run(&context, args).await,
        Command::Account(args) => account::run(&context, args).await,
        Command::Import(args) => import::run(&context, args).await,
        Command::Orphans(args) => orphans::run(&context, args).await,
        Command::Doctor(args) => doctor::run(&context, args).await,
        Command::Report(args) => report::run(&context, args).await,
        Command::Plan(args) => plan::run(&context, args).await,
        Command::Acknowledge(args) => acknowledge::run(&context, args).await,
        Command::Suspend(args) => suspend::suspend(&context, args).await,
        Command::Resume(args) => suspend::resume(&context, args).await,
        Command::Reconcile(args) => suspend::reconcile(&context, args).await,
        Command::Power(args) => power::run(&context, args).await,
        Command::Reinstall(args) => reinstall::run(&context, args).await,
        Command::Rescue(args) => rescue::run(&context, args).await,
        Command::Version(args) => version::run(&context, args).await,
    }
}
