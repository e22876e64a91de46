//! `lab conformance`: a drill for a real account. It orders the smallest server, observes which of the simulator's
//! switches the provider is, and releases what it ordered in every case. Its raw calls send what no client should send.

mod choice;
mod clean_up;
mod commands;
mod delivery;
mod key;
mod order;
mod reads;
mod reinstall;
mod release;
mod report;
mod switches;
mod tags;
mod wire;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use futures::FutureExt;
use hosting::check::{AccountCheck, check_account};
use hosting::{Client, ClientOptions, Dial};
use hosting_types::{BaseUrl, secret::ApiKey};
use http::Method;
use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use choice::Choice;
use switches::Observations;
use wire::{RawAnswer, RawCall, Wire};

/// The exit code without `--yes-this-costs-money`.
const UNCONFIRMED: u8 = 2;

#[derive(Args)]
pub(crate) struct ConformanceArguments {
    /// Base URL of the hosting API, without /v3; plain http only on this computer
    #[arg(long, value_name = "URL")]
    base_url: String,
    /// File with the API key
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
    /// Order a server, which costs money; without this flag, only print what would be done
    #[arg(long)]
    yes_this_costs_money: bool,
}

/// Why the drill stopped early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DrillError {
    #[error("the key cannot be a header")]
    Key(#[source] http::header::InvalidHeaderValue),
    #[error("cannot set up HTTP")]
    Http(#[source] reqwest::Error),
    #[error("no answer to {0}")]
    NoAnswer(String, #[source] reqwest::Error),
    #[error("{0}")]
    Call(String),
    #[error("no instance type with a Linux system is available at any location")]
    NothingAvailable,
    #[error("the hosting API refused {0}")]
    Refused(String),
    #[error("the outcome of the order is unknown: {0}")]
    UnknownOrder(String),
    #[error("{what} took longer than {} minutes", within.as_secs() / 60)]
    TooSlow {
        what: &'static str,
        within: Duration,
    },
    #[error("the delivery failed: {0}")]
    DeliveryFailed(String),
    #[error("interrupted by {0}")]
    Interrupted(&'static str),
}

/// A run of the drill.
pub(crate) struct Drill {
    client: Client,
    wire: Wire,
    choice: Choice,
    /// Host name, tag and key name of this run; the other tags start with it.
    run: String,
    check: Option<AccountCheck>,
    observations: Observations,
    /// Facts about durations, in the order of the steps.
    timings: Vec<(String, Duration)>,
    /// UUID of the stored key.
    key: Option<String>,
    /// Whether an order was sent, so that a server may exist.
    has_ordered: bool,
    /// Whether the outcome of an order is unknown.
    is_outcome_unknown: bool,
    /// UUID of the server, once known.
    server: Option<String>,
    /// UUIDs of the commands that were sent.
    commands: Vec<String>,
}

/// Runs the drill and prints its report.
pub(crate) async fn run(
    arguments: ConformanceArguments,
) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let base_url = BaseUrl::parse(&arguments.base_url)?;
    let key = ApiKey::parse(&std::fs::read(&arguments.key_file)?)?;
    let wire = Wire::new(base_url.clone(), &key)?;
    let mut options = ClientOptions::new(base_url.clone(), key);
    if is_loopback(&base_url) {
        options.dial = Dial::Anywhere;
    }
    let client = Client::new(options)?;
    let choice = Choice::read_catalogue(&client).await?;
    if !arguments.yes_this_costs_money {
        print(&report::plan(&base_url, &choice));
        return Ok(ExitCode::from(UNCONFIRMED));
    }
    let mut stop = Stop::listen()?;
    let id = uuid::Uuid::new_v4().simple().to_string();
    let mut drill = Drill {
        client,
        wire,
        choice,
        run: format!("conformance-{}", &id[..12]),
        check: None,
        observations: Observations::default(),
        timings: Vec::new(),
        key: None,
        has_ordered: false,
        is_outcome_unknown: false,
        server: None,
        commands: Vec::new(),
    };
    print_progress(&format!("this run is {}", drill.run));
    let outcome = drill.play(&mut stop).await;
    if let Err(error) = &outcome {
        print_progress(&format!("stopping early: {}", report::explain(error)));
    }
    let remains = drill.clean_up().await;
    let report = report::report(&drill, &base_url, &outcome, &remains);
    print(&drill.wire.scrub(&report));
    Ok(match outcome.is_ok() && remains.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

impl Drill {
    /// All steps. A signal ends them, except an order: its outcome must be known before anything else happens.
    async fn play(&mut self, stop: &mut Stop) -> Result<(), DrillError> {
        tokio::select! {
            biased;
            signal = stop.next() => return Err(DrillError::Interrupted(signal)),
            done = Box::pin(self.prepare()) => done?,
        }
        Box::pin(self.order(stop)).await?;
        tokio::select! {
            biased;
            signal = stop.next() => Err(DrillError::Interrupted(signal)),
            done = Box::pin(self.use_server()) => done,
        }
    }

    /// The steps before the order: nothing costs money yet.
    async fn prepare(&mut self) -> Result<(), DrillError> {
        print_progress("checking the key's rights, pages and errors");
        let check = check_account(&self.client, None, jiff::Timestamp::now).await;
        if check.is_key_accepted() != Some(true) {
            return Err(DrillError::Refused("the key".to_owned()));
        }
        self.check = Some(check);
        self.probe_lists().await?;
        self.probe_errors().await?;
        self.store_key().await?;
        self.probe_orders().await
    }

    /// The steps with the server, to its release.
    async fn use_server(&mut self) -> Result<(), DrillError> {
        self.await_delivery().await?;
        self.probe_delivered().await?;
        self.probe_tags().await?;
        self.probe_commands().await?;
        self.probe_reinstall().await?;
        self.probe_usage().await?;
        self.probe_hosts().await?;
        self.probe_release().await
    }

    /// UUID of the server. Steps that use it come after the order.
    fn uuid(&self) -> String {
        self.server.clone().unwrap_or_default()
    }

    /// One of the tags of this run.
    fn tag(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.run)
    }

    /// Reads the server.
    async fn read_server(&self) -> Result<RawAnswer, DrillError> {
        let uuid = self.uuid();
        let path = ["flexMetal", "servers", &uuid];
        self.wire.send(RawCall::get(&path)).await
    }

    /// Makes a change below `/v3/flexMetal`.
    async fn change(
        &self,
        method: Method,
        path: &[&str],
        body: Option<Value>,
    ) -> Result<RawAnswer, DrillError> {
        let path: Vec<&str> = std::iter::once("flexMetal")
            .chain(path.iter().copied())
            .collect();
        let call = RawCall::new(method, &path);
        let call = match body {
            Some(body) => call.body(body),
            None => call,
        };
        self.wire.send(call).await
    }

    fn record(
        &mut self,
        switch: &'static str,
        value: Option<&'static str>,
        seen: impl Into<String>,
    ) {
        self.observations.record(switch, value, seen);
    }

    /// Records a switch whose values differ in the status of an answer.
    fn record_status(
        &mut self,
        switch: &'static str,
        answer: &RawAnswer,
        values: &[(u16, &'static str)],
    ) {
        // The simulator's 200 stands for any success.
        let status = if answer.is_success() {
            200
        } else {
            answer.status
        };
        let value = values.iter().find(|(known, _)| *known == status);
        let value = value.map(|(_, value)| *value);
        self.record(switch, value, format!("answered {}", answer.describe()));
    }

    fn time(&mut self, what: &str, since: Instant) {
        self.timings.push((what.to_owned(), since.elapsed()));
    }
}

/// The signals that end the drill.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal was closed.
    hangup: Signal,
}

impl Stop {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Fails if a signal has arrived.
    fn check(&mut self) -> Result<(), DrillError> {
        match self.next().now_or_never() {
            Some(signal) => Err(DrillError::Interrupted(signal)),
            None => Ok(()),
        }
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}

fn is_loopback(base_url: &BaseUrl) -> bool {
    match base_url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Prints progress to standard error, which may already be closed.
fn print_progress(line: &str) {
    let _ = writeln!(std::io::stderr(), "conformance: {line}");
}

/// Prints the result to standard output, which may already be closed.
fn print(text: &str) {
    let _ = write!(std::io::stdout().lock(), "{text}");
}
