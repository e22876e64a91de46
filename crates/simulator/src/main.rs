//! The hosting API as a program: for rehearsal, demo and tests. See `docs/simulator.md`.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, ValueEnum};
use ipnet::IpNet;
use serde_json::json;
use simulator::{ClockMode, Delivery, Options, Profile, start};
use tokio::signal::unix::{SignalKind, signal};

/// The bare-metal hosting API as a server: no key, no cost, faults on demand.
#[derive(Parser)]
#[command(
    name = "flexmetal-simulator",
    version = option_env!("FLEXMETAL_VERSION").unwrap_or(env!("CARGO_PKG_VERSION"))
)]
struct Arguments {
    /// Address of the API; port 0 picks a free one
    #[arg(
        long,
        env = "FLEXMETAL_SIMULATOR_LISTEN",
        default_value = "127.0.0.1:8480"
    )]
    listen: SocketAddr,
    /// Address of the control port; port 0 picks a free one
    #[arg(
        long,
        env = "FLEXMETAL_SIMULATOR_CONTROL",
        default_value = "127.0.0.1:8481"
    )]
    control: SocketAddr,
    /// The account's key; made up and printed when absent
    #[arg(long, env = "FLEXMETAL_SIMULATOR_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Reading of the API: document (to the letter) or observed (as real clients see it)
    #[arg(long, env = "FLEXMETAL_SIMULATOR_PROFILE", default_value = "document")]
    profile: Profile,
    /// Turns one switch away from the profile, as NAME=VALUE; may be repeated
    #[arg(long = "switch", value_name = "NAME=VALUE", value_parser = pair)]
    switches: Vec<(String, String)>,
    /// Virtual seconds per real second
    #[arg(long, env = "FLEXMETAL_SIMULATOR_CLOCK_SPEED", default_value_t = 1.0)]
    clock_speed: f64,
    /// real: runs by itself; driven: stands until the control port moves it
    #[arg(long, env = "FLEXMETAL_SIMULATOR_CLOCK", value_enum, default_value_t = Clock::Real)]
    clock: Clock,
    /// Unix second at which virtual time starts; now when absent
    #[arg(long, env = "FLEXMETAL_SIMULATOR_CLOCK_START")]
    clock_start: Option<u64>,
    /// How long deliveries take, as SECONDS or MIN..MAX
    #[arg(
        long,
        env = "FLEXMETAL_SIMULATOR_DELIVERY_SECONDS",
        default_value = "180..900"
    )]
    delivery_seconds: Delivery,
    /// How long releases take
    #[arg(long, env = "FLEXMETAL_SIMULATOR_RELEASE_SECONDS", default_value = "5", value_parser = seconds)]
    release_seconds: Duration,
    /// Share of deliveries that fail, 0 to 1
    #[arg(long, env = "FLEXMETAL_SIMULATOR_FAILURE_RATE", default_value_t = 0.0)]
    failure_rate: f64,
    /// Seed of all randomness; a random one when absent
    #[arg(long, env = "FLEXMETAL_SIMULATOR_SEED")]
    seed: Option<u64>,
    /// How long a new machine and its tags stay out of listings
    #[arg(long, env = "FLEXMETAL_SIMULATOR_LIST_LAG_SECONDS", default_value = "0", value_parser = seconds)]
    list_lag_seconds: Duration,
    /// How long a power command takes
    #[arg(long, env = "FLEXMETAL_SIMULATOR_COMMAND_SECONDS", default_value = "10", value_parser = seconds)]
    command_seconds: Duration,
    /// How long an installation on a delivered machine or a host takes
    #[arg(long, env = "FLEXMETAL_SIMULATOR_INSTALL_SECONDS", default_value = "300", value_parser = seconds)]
    install_seconds: Duration,
    /// Share of commands and installations that fail, 0 to 1
    #[arg(
        long,
        env = "FLEXMETAL_SIMULATOR_COMMAND_FAILURE_RATE",
        default_value_t = 0.0
    )]
    command_failure_rate: f64,
    /// File of accounts and keys, as JSON; one account when absent
    #[arg(long, env = "FLEXMETAL_SIMULATOR_ACCOUNTS")]
    accounts: Option<PathBuf>,
    /// File of what can be ordered, as JSON; the built-in one when absent
    #[arg(long, env = "FLEXMETAL_SIMULATOR_CATALOGUE")]
    catalogue: Option<PathBuf>,
    /// File that keeps the accounts over a restart, and over kill -9
    #[arg(long, env = "FLEXMETAL_SIMULATOR_STATE")]
    state: Option<PathBuf>,
    /// Network of a proxy whose X-Forwarded-For is believed; may be repeated
    #[arg(long = "trusted-proxy", value_name = "NETWORK")]
    trusted_proxies: Vec<IpNet>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Clock {
    Real,
    Driven,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "must be a number of seconds")?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}

/// Reads the command line. A file of accounts excludes a key on the command line;
/// a key in the environment is ignored then.
fn arguments(matches: &ArgMatches) -> Result<Arguments, clap::Error> {
    let mut arguments = Arguments::from_arg_matches(matches)?;
    if arguments.accounts.is_some() && arguments.api_key.is_some() {
        if matches.value_source("api_key") == Some(ValueSource::CommandLine) {
            let told = "--api-key cannot be used with a file of accounts, which names its own keys";
            return Err(Arguments::command().error(ErrorKind::ArgumentConflict, told));
        }
        arguments.api_key = None;
    }
    Ok(arguments)
}

#[tokio::main]
async fn main() -> ExitCode {
    let read = arguments(&Arguments::command().get_matches());
    let arguments = match read {
        Ok(arguments) => arguments,
        Err(error) => error.exit(),
    };
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody can be told when standard error is closed too.
            let _ = writeln!(
                io::stderr(),
                "flexmetal-simulator: {}",
                explain_error(&*error)
            );
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let from_file = arguments.accounts.is_some();
    // Before the ports are open, so that no signal is missed once they are.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let running = start(Options {
        listen: arguments.listen,
        control: arguments.control,
        api_key: arguments.api_key,
        profile: arguments.profile,
        switches: arguments.switches,
        clock: match arguments.clock {
            Clock::Real => ClockMode::Real {
                speed: arguments.clock_speed,
            },
            Clock::Driven => ClockMode::Driven,
        },
        clock_start: arguments.clock_start,
        delivery: arguments.delivery_seconds,
        release: arguments.release_seconds,
        failure_rate: arguments.failure_rate,
        seed: arguments.seed,
        list_lag: arguments.list_lag_seconds,
        command: arguments.command_seconds,
        install: arguments.install_seconds,
        command_failure_rate: arguments.command_failure_rate,
        accounts: arguments.accounts,
        catalogue: arguments.catalogue,
        state: arguments.state,
        trusted_proxies: arguments.trusted_proxies,
    })
    .await?;
    let mut ready = json!({
        "api": running.api_url(),
        "control": running.control_url(),
        "page": format!("{}/_simulator/", running.control_url()),
    });
    // The user knows the keys of a file; output ends up in logs.
    if !from_file {
        ready["apiKey"] = json!(running.api_key);
    }
    let mut output = io::stdout().lock();
    writeln!(output, "{ready}")?;
    output.flush()?;
    drop(output);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    running.stop().await;
    Ok(())
}

/// An error with its causes, in one line.
fn explain_error(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
