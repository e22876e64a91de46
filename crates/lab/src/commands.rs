//! The lab's command line. `lab build` and `lab control-plane` print only results to standard output (a path, one JSON
//! line), and messages to standard error. The other commands print messages for users.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{
    bench, conformance,
    control_plane::{ControlPlane, ControlPlaneSettings},
    demo, explain_error, load, page, programs, supervisor,
};

#[derive(Parser)]
#[command(
    name = "lab",
    about = "A real Kubernetes control plane on this computer"
)]
struct LabArguments {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand)]
enum LabCommand {
    /// Find or build etcd, kube-apiserver, kube-controller-manager and kubectl, and print their folder
    Build,
    /// Run a control plane until standard input ends, or SIGINT or SIGTERM arrives
    ControlPlane {
        /// Folder for data, credentials and logs; must be new or empty [default: a temporary one]
        #[arg(long)]
        dir: Option<PathBuf>,
        /// Do not watch standard input: live until SIGINT or SIGTERM
        #[arg(long)]
        stay: bool,
        /// Have the API server log every write (user, object, response code) to this file, one JSON object per line
        #[arg(long)]
        audit_log: Option<PathBuf>,
        /// Start etcd with a copy of this data folder, as after a restore
        #[arg(long)]
        etcd_data: Option<PathBuf>,
    },
    /// Show the product on this computer: control plane, simulator, operator, three servers
    Demo(demo::DemoArguments),
    /// Measure many servers from order to release, with an idle time in between
    Bench(bench::BenchArguments),
    /// Measure many tags, stored keys and entries of a whitelist, from apply to their end
    BenchSmall(bench::small::SmallBenchArguments),
    /// Measure the speed of the simulator, and its memory per server
    Load(load::LoadArguments),
    /// Drill for a real account: order one server, observe how the hosting API behaves, release it
    Conformance(conformance::ConformanceArguments),
    /// Open the simulator's page in a browser, press its buttons, take a picture
    Page(page::PageArguments),
}

/// Runs the command of the command line. Reports a failure on standard error.
pub async fn run() -> ExitCode {
    let done = match LabArguments::parse().command {
        LabCommand::Build => build().await,
        LabCommand::ControlPlane {
            dir,
            stay,
            audit_log,
            etcd_data,
        } => {
            let settings = ControlPlaneSettings {
                dir,
                audit_log,
                etcd_data,
                logs: None,
            };
            run_control_plane(settings, stay).await
        }
        LabCommand::Demo(arguments) => demo::run(arguments).await,
        LabCommand::Bench(arguments) => bench::run(arguments).await,
        LabCommand::BenchSmall(arguments) => bench::small::run(arguments).await,
        LabCommand::Load(arguments) => load::run(arguments).await,
        LabCommand::Conformance(arguments) => match conformance::run(arguments).await {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        LabCommand::Page(arguments) => page::run(arguments).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(error.as_ref());
            ExitCode::FAILURE
        }
    }
}

async fn build() -> Result<(), Box<dyn Error>> {
    let programs = programs::find_or_build().await?;
    print_line(&programs.folder().display().to_string())?;
    Ok(())
}

async fn run_control_plane(
    settings: ControlPlaneSettings,
    stay: bool,
) -> Result<(), Box<dyn Error>> {
    // Listens for signals first, so that a signal during the build or the start leaves no processes or files.
    let end = supervisor::end_of_work(stay)?;
    tokio::pin!(end);
    let programs = tokio::select! {
        programs = programs::find_or_build() => programs?,
        () = &mut end => return Ok(()),
    };
    let mut plane = ControlPlane::prepare(settings, programs)?;
    let outcome = tokio::select! {
        failed = async {
            let access = plane.start().await?;
            print_line(&serde_json::to_string(&access)?)?;
            Err::<(), Box<dyn Error>>(plane.first_failure().await.into())
        } => failed,
        () = &mut end => Ok(()),
    };
    plane.end().await?;
    outcome
}

/// Prints one line and flushes it, because the reader waits for it.
fn print_line(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Prints an error and its causes in one line to standard error, which may already be closed.
fn report(error: &dyn Error) {
    let _ = writeln!(std::io::stderr(), "lab: {}", explain_error(error));
}
