//! Starts a simulator, and ends it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use axum::body::Body;
use axum::response::IntoResponse;
use hyper::body::Incoming;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::net::TcpListener;
use tokio_util::sync::DropGuard;
use tower::ServiceExt;

use super::accounts::{self, InvalidAccounts};
use super::catalogue::{Catalogue, InvalidCatalogue};
use super::clock::{Clock, Moment};
use super::direct::Direct;
use super::faults::Faults;
use super::journal::{Journal, Line, StateFile, StateFileError, Written};
use super::keys::can_be_sent;
use super::ledger::Ledger;
use super::options::{ClockMode, Options};
use super::profile::{Switches, UnknownSwitch};
use super::roster::Roster;
use super::serve::{self, Service};
use super::state::{Chances, Settings};
use super::strangers::Strangers;
use super::world::{Luck, Shared, World};
use super::{control, routes};

/// Why a simulator cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// A switch that does not exist.
    #[error("unknown switch")]
    Switch(#[from] UnknownSwitch),
    /// The failure rate is not from 0 to 1.
    #[error("the failure rate must be 0 to 1, not {0}")]
    FailureRate(f64),
    /// The API key cannot be sent in a header.
    #[error("the API key must be one or more visible characters of ASCII")]
    ApiKey,
    /// A file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The catalogue is invalid.
    #[error("the catalogue is invalid")]
    Catalogue(#[from] InvalidCatalogue),
    /// The accounts are invalid.
    #[error("the accounts are invalid")]
    Accounts(#[from] InvalidAccounts),
    /// The state cannot be stored.
    #[error(transparent)]
    State(#[from] StateFileError),
    /// The clock cannot run backwards.
    #[error("the clock's speed must be 0 or more, not {0}")]
    Speed(f64),
}

/// A running simulator. Dropping it closes both ports and every connection;
/// [`Running::stop`] also waits until that is done.
#[derive(Debug)]
pub struct Running {
    /// Where the API answers.
    pub api: SocketAddr,
    /// Where the control port answers.
    pub control: SocketAddr,
    /// The given key, or a valid one of the first account; empty when a file of
    /// accounts gives that one none.
    pub api_key: String,
    service: Service,
    stop: DropGuard,
    direct: Direct,
    /// Shows when the state file is closed.
    state: Option<Written>,
}

impl Running {
    /// Base URL of the API, without a slash at the end.
    pub fn api_url(&self) -> String {
        format!("http://{}", self.api)
    }

    /// Base URL of the control port, without a slash at the end.
    pub fn control_url(&self) -> String {
        format!("http://{}", self.control)
    }

    /// The API without its sockets. With a state file, [`Running::stop`] waits
    /// until the last of these is dropped.
    pub fn direct(&self) -> Direct {
        self.direct.clone()
    }

    /// Ends it at once; requests in flight are cut off.
    pub async fn stop(self) {
        drop(self.stop);
        // It holds the state file too.
        drop(self.direct);
        self.service.ended().await;
        if let Some(state) = self.state {
            state.closed().await;
        }
    }
}

/// Starts a simulator inside this process; needs a tokio runtime.
///
/// # Errors
/// When an address is in use, or an option is invalid.
pub async fn start(options: Options) -> Result<Running, StartError> {
    let world = world(&options)?;
    let first = world.accounts.first().map_or("", |account| &account.name);
    let given = options.api_key.as_deref();
    let given = given.filter(|_| options.accounts.is_none());
    let api_key = given.or_else(|| world.keys.of(first)).unwrap_or_default();
    let api_key = api_key.to_owned();
    let state = world.journal.as_ref().map(Journal::written);
    let shared = Shared::new(world);
    let api = bind(options.listen).await?;
    let control = bind(options.control).await?;
    let service = Service::default();
    let router = routes::router(shared.clone());
    let running = Running {
        api: bound(&api, options.listen)?,
        control: bound(&control, options.control)?,
        api_key,
        service: service.clone(),
        stop: service.drop_guard(),
        direct: Direct::new(shared.clone(), router.clone()),
        state,
    };

    let steering = control::router(shared.clone());
    let steered = shared.clone();
    service.listen(control, move |head, body: Incoming| {
        let (shared, steering) = (steered.clone(), steering.clone());
        async move {
            let response = match serve::whole(body).await {
                Ok(body) => {
                    let request = http::Request::from_parts(head, Body::from(body));
                    let Ok(response) = steering.oneshot(request).await;
                    response
                }
                Err(_) => control::Unfollowed::Unread.into_response(),
            };
            shared.on_disk().await?;
            Ok(response)
        }
    });
    let answering = service.clone();
    service.listen(api, move |head, body| {
        let (service, shared, router) = (answering.clone(), shared.clone(), router.clone());
        async move { service.answer(shared, router, head, body).await }
    });
    Ok(running)
}

fn world(options: &Options) -> Result<World, StartError> {
    for rate in [options.failure_rate, options.command_failure_rate] {
        if !(0.0..=1.0).contains(&rate) {
            return Err(StartError::FailureRate(rate));
        }
    }
    let speed = match options.clock {
        ClockMode::Driven => 0.0,
        ClockMode::Real { speed } if speed.is_finite() && speed >= 0.0 => speed,
        ClockMode::Real { speed } => return Err(StartError::Speed(speed)),
    };
    let mut switches = Switches::of(options.profile);
    for (name, value) in &options.switches {
        switches.set(name, value)?;
    }
    let catalogue = match &options.catalogue {
        Some(path) => Catalogue::read(&text(path)?),
        None => Catalogue::builtin(),
    };
    let catalogue = Arc::new(catalogue?);
    if options
        .api_key
        .as_deref()
        .is_some_and(|key| !can_be_sent(key))
    {
        return Err(StartError::ApiKey);
    }
    let planned = match &options.accounts {
        Some(path) => Some(accounts::read(&text(path)?)?),
        None => None,
    };
    let state = options.state.as_deref().map(StateFile::open).transpose()?;
    let lines = state.as_ref().map(StateFile::lines).transpose()?;
    let lines = lines.unwrap_or_default();

    // Virtual time never goes back, not even across a restart.
    let given = options.clock_start.map(Moment::from_unix);
    let fresh = Clock::new(given, speed);
    let reached = lines
        .last()
        .map(|line| line.at)
        .filter(|at| *at > fresh.now());
    let clock = reached.map_or(fresh, |at| Clock::new(Some(at), speed));
    let now = clock.now();

    let draws = lines.last().map_or(0, |line| line.draws);
    let seed = options.seed.unwrap_or_else(|| rand::rng().random());
    let mut roster = Roster::kept(lines, &catalogue);
    let known = planned.is_some() || options.api_key.is_some();
    let planned = planned.unwrap_or_else(|| {
        let first = roster.first().unwrap_or("main");
        accounts::single(first, options.api_key.clone())
    });
    roster.admit(&planned, &catalogue, &switches, now)?;
    // With a file of accounts nobody would be told about it.
    if !known {
        roster.make_up_key();
    }
    let mut world = World {
        clock,
        switches,
        settings: Settings {
            chances: Chances {
                span: options.delivery,
                failure_rate: options.failure_rate,
            },
            release: options.release,
            list_lag: options.list_lag,
            command: options.command,
            install: options.install,
            command_failure_rate: options.command_failure_rate,
        },
        keys: roster.keys,
        accounts: roster.accounts,
        faults: Faults::new(StdRng::seed_from_u64(!seed)),
        ledger: Ledger::default(),
        strangers: Strangers::default(),
        luck: Luck { seed, draws },
        proxies: options.trusted_proxies.clone(),
        journal: None,
    };
    if let Some(state) = state {
        world.journal = Some(state.compact(&whole(&mut world))?);
    }
    Ok(world)
}

/// The whole state, as one change.
fn whole(world: &mut World) -> Line {
    world.keys.touch();
    let accounts = world.accounts.iter_mut().map(|account| {
        account.touch_all();
        (account.name.clone(), account.changes())
    });
    Line {
        at: world.clock.look_ahead(),
        draws: world.luck.draws,
        accounts: accounts.collect(),
        keys: world.keys.changes(),
    }
}

fn text(path: &Path) -> Result<String, StartError> {
    fs::read_to_string(path).map_err(|source| StartError::File {
        path: path.to_owned(),
        source,
    })
}

async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| StartError::Listen { address, source })
}

fn bound(listener: &TcpListener, address: SocketAddr) -> Result<SocketAddr, StartError> {
    listener
        .local_addr()
        .map_err(|source| StartError::Listen { address, source })
}
