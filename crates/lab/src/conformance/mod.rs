//! `lab conformance`: a drill for a real account. It orders the smallest server, observes which of the simulator's
//! switches the provider is, and releases what it ordered in every case. Its raw calls send what no client should send.

mod choice;
mod clean_up;
mod commands;
mod delivery;
mod key;
mod masking;
mod order;
mod raw_client;
mod reads;
mod reinstall;
mod release;
mod report;
mod retry;
mod switches;
mod tags;

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hosting::check::{Access, AccountCheck, check_account};
use hosting::{Client, ClientOptions, Dial};
use hosting_types::{BaseUrl, secret::ApiKey};
use http::Method;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use choice::Choice;
use raw_client::{RawAnswer, RawCall, RawClient};
use switches::Observations;

use crate::explain_error;

/// The exit code without `--yes-this-costs-money`.
const UNCONFIRMED: u8 = 2;

#[derive(Args)]
pub(crate) struct ConformanceArguments {
    /// Base URL of the hosting API, without /v3; plain http only on this computer
    #[arg(long, value_name = "URL")]
    base_url: String,
    /// File with the API key, which only you may read
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
    /// Order a server, which costs money: this one, or without a value the smallest that is available now. Without this
    /// option, only print what would be done
    #[arg(long, value_name = "TYPE at LOCATION", require_equals = true)]
    yes_this_costs_money: Option<Option<String>>,
    /// Length of a minute in the time limits; tests shorten it
    #[arg(long, hide = true, default_value_t = 60_000)]
    minute_milliseconds: u64,
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
    #[error("the key file {} has mode {mode:o}; run chmod 600 on it, so that only you can read it", file.display())]
    OpenKeyFile { file: PathBuf, mode: u32 },
    #[error(
        "the hosting API rejects the key with {0}; check its validity, its rights and its IP whitelist"
    )]
    KeyRejected(u16),
    #[error("no answer shows whether the hosting API accepts the key: {0}")]
    KeyUnverified(String),
    #[error(
        "{0} is not available now; nothing was ordered. Without --yes-this-costs-money, the plan shows what is"
    )]
    NotAvailable(String),
    #[error("the hosting API accepted an order for an instance type that does not exist")]
    WrongOrderAccepted,
    #[error("no instance type with a Linux system is available at any location")]
    NothingAvailable,
    #[error("the hosting API refused {0}")]
    Refused(String),
    #[error("the outcome of the order is unknown: {0}")]
    UnknownOrder(String),
    #[error("{what} took longer than {minutes} minutes")]
    TooSlow { what: &'static str, minutes: u32 },
    #[error("the delivery failed: {0}")]
    DeliveryFailed(String),
    #[error("interrupted by {0}")]
    Interrupted(&'static str),
}

/// A run of the drill.
pub(crate) struct Drill {
    client: Client,
    raw: RawClient,
    choice: Choice,
    /// The unit of the time limits.
    minute: Duration,
    /// Host name, tag and key name of this run; the other tags start with it.
    run_name: String,
    check: Option<AccountCheck>,
    observations: Observations,
    /// Facts about durations, in the order of the steps.
    timings: Vec<(String, Duration)>,
    /// UUIDs of the stored keys.
    keys: Vec<String>,
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
    let key = read_key(&arguments.key_file)?;
    let mut raw = RawClient::new(base_url.clone(), &key)?;
    let mut options = ClientOptions::new(base_url.clone(), key);
    if is_loopback(&base_url) {
        options.dial = Dial::Anywhere;
    }
    let client = Client::new(options)?;
    let confirmed = arguments.yes_this_costs_money;
    let named = confirmed.as_ref().and_then(Option::as_deref);
    let choice = Choice::read_catalogue(&client, named).await;
    let choice = choice.map_err(|error| raw.mask(&explain_error(&error)))?;
    if confirmed.is_none() {
        print(&report::plan(&base_url, &choice));
        return Ok(ExitCode::from(UNCONFIRMED));
    }
    let mut signals = JoinSet::new();
    raw.interrupt = Some(listen_for_signals(&mut signals)?);
    let id = uuid::Uuid::new_v4().simple().to_string();
    let mut drill = Drill {
        client,
        raw,
        choice,
        minute: Duration::from_millis(arguments.minute_milliseconds),
        run_name: format!("conformance-{}", &id[..12]),
        check: None,
        observations: Observations::default(),
        timings: Vec::new(),
        keys: Vec::new(),
        has_ordered: false,
        is_outcome_unknown: false,
        server: None,
        commands: Vec::new(),
    };
    let begin = format!(
        "run {} orders {}; cost: {}",
        drill.run_name,
        drill.choice,
        report::COST
    );
    drill.raw.print_progress(&begin);
    let outcome = drill.play().await;
    if let Err(error) = &outcome {
        drill
            .raw
            .print_progress(&format!("stopping early: {}", explain_error(error)));
    }
    let leftovers = drill.clean_up().await;
    let report = report::report(&drill, &base_url, &outcome, &leftovers);
    print(&drill.raw.mask(&report));
    Ok(match outcome.is_ok() && leftovers.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

impl Drill {
    /// All steps. A signal ends them at the next request; a change in flight ends first.
    async fn play(&mut self) -> Result<(), DrillError> {
        Box::pin(self.prepare()).await?;
        self.order().await?;
        Box::pin(self.use_server()).await
    }

    /// The steps before the order: nothing costs money yet.
    async fn prepare(&mut self) -> Result<(), DrillError> {
        self.raw
            .print_progress("checking the key's rights, pages and errors");
        let check = check_account(&self.client, None, jiff::Timestamp::now);
        let check = self.raw.unless_interrupted(check).await?;
        let accepted = require_accepted_key(&check);
        self.check = Some(check);
        accepted?;
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
        format!("{}-{suffix}", self.run_name)
    }

    /// Reads the server.
    async fn read_server(&self) -> Result<RawAnswer, DrillError> {
        let uuid = self.uuid();
        let path = ["flexMetal", "servers", &uuid];
        self.read_with_valid_key(RawCall::get(&path)).await
    }

    /// Makes a read that a valid key may make. With another key, waiting has no use.
    async fn read_with_valid_key(&self, call: RawCall<'_>) -> Result<RawAnswer, DrillError> {
        let answer = self.raw.send(call).await?;
        match answer.status {
            status @ (401 | 403) => Err(DrillError::KeyRejected(status)),
            _ => Ok(answer),
        }
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
        self.raw.send(call).await
    }

    fn record(
        &mut self,
        switch: &'static str,
        value: Option<&'static str>,
        details: impl Into<String>,
    ) {
        self.observations.record(switch, value, details);
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

/// Fails unless the key is accepted. A check without answers is not a refusal.
fn require_accepted_key(check: &AccountCheck) -> Result<(), DrillError> {
    let mut accesses = check.rights.iter().map(|right| &right.access);
    let refused = accesses.clone().find_map(|access| match access {
        Access::Refused { status, .. } => Some(*status),
        _ => None,
    });
    match (check.is_key_accepted(), refused) {
        (Some(true), _) => Ok(()),
        (_, Some(status)) => Err(DrillError::KeyRejected(status)),
        (_, None) => {
            let why = accesses.find_map(|access| match access {
                Access::Unreachable { why } => Some(why.clone()),
                _ => None,
            });
            Err(DrillError::KeyUnverified(why.unwrap_or_default()))
        }
    }
}

/// Receives the signals that end the drill, in tasks of the set.
fn listen_for_signals(
    tasks: &mut JoinSet<()>,
) -> std::io::Result<watch::Receiver<Option<&'static str>>> {
    let (sender, receiver) = watch::channel(None);
    for (kind, name) in [
        (SignalKind::interrupt(), "SIGINT"),
        (SignalKind::terminate(), "SIGTERM"),
        (SignalKind::quit(), "SIGQUIT"),
        // The terminal was closed.
        (SignalKind::hangup(), "SIGHUP"),
    ] {
        let (mut signals, sender) = (signal(kind)?, sender.clone());
        tasks.spawn(async move {
            while signals.recv().await.is_some() {
                sender.send_replace(Some(name));
            }
        });
    }
    Ok(receiver)
}

/// Reads the key from a file that only its owner can read.
fn read_key(path: &Path) -> Result<ApiKey, Box<dyn std::error::Error>> {
    let mut file = File::open(path)?;
    let mode = file.metadata()?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let file = path.to_owned();
        return Err(DrillError::OpenKeyFile { file, mode }.into());
    }
    let mut key = Vec::new();
    file.read_to_end(&mut key)?;
    Ok(ApiKey::parse(&key)?)
}

fn is_loopback(base_url: &BaseUrl) -> bool {
    match base_url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Prints the result to standard output, which may already be closed.
fn print(text: &str) {
    let _ = write!(std::io::stdout().lock(), "{text}");
}
