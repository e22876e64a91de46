//! Starts a simulator, and ends it.

use std::io;
use std::net::SocketAddr;

use axum::body::Body;
use hyper::body::Incoming;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::net::TcpListener;
use tokio_util::sync::DropGuard;
use tower::ServiceExt;

use super::catalogue::Catalogue;
use super::clock::{Clock, Moment};
use super::faults::Faults;
use super::ledger::Ledger;
use super::options::{ClockMode, Options};
use super::profile::{Switches, UnknownSwitch};
use super::serve::Service;
use super::state::{Account, Chances, Settings};
use super::world::{Keys, Shared, World};
use super::{control, routes};

/// Why a simulator cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// A switch that does not exist.
    #[error("unknown switch")]
    Switch(#[from] UnknownSwitch),
    /// The failure rate is not a share.
    #[error("the failure rate must be 0 to 1, and not {0}")]
    FailureRate(f64),
    /// The clock cannot run backwards.
    #[error("the clock's speed must be 0 or more, and not {0}")]
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
    /// The account's key.
    pub api_key: String,
    service: Service,
    stop: DropGuard,
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

    /// Ends it at once; requests in flight are broken off.
    pub async fn stop(self) {
        drop(self.stop);
        self.service.ended().await;
    }
}

/// Starts a simulator inside this process; needs a tokio runtime.
///
/// # Errors
/// When an address is taken, or an option makes no sense.
pub async fn start(options: Options) -> Result<Running, StartError> {
    let mut seeds = match options.seed {
        Some(seed) => StdRng::seed_from_u64(seed),
        None => StdRng::from_rng(&mut rand::rng()),
    };
    let api_key = match &options.api_key {
        Some(key) => key.clone(),
        // Not from the seed: a key that can be guessed is none.
        None => format!("sim-{}", uuid::Uuid::new_v4().simple()),
    };
    let shared = Shared::new(world(&options, &api_key, &mut seeds)?);
    let api = bind(options.listen).await?;
    let control = bind(options.control).await?;
    let service = Service::default();
    let running = Running {
        api: bound(&api, options.listen)?,
        control: bound(&control, options.control)?,
        api_key,
        service: service.clone(),
        stop: service.drop_guard(),
    };

    let steering = control::router(shared.clone());
    service.listen(control, move |head, body: Incoming| {
        let answered = steering
            .clone()
            .oneshot(http::Request::from_parts(head, Body::new(body)));
        async move {
            let Ok(response) = answered.await;
            Ok(response)
        }
    });
    let answering = service.clone();
    let router = routes::router(shared.clone());
    service.listen(api, move |head, body| {
        let (service, shared, router) = (answering.clone(), shared.clone(), router.clone());
        async move { service.answer(shared, router, head, body).await }
    });
    Ok(running)
}

fn world(options: &Options, api_key: &str, seeds: &mut StdRng) -> Result<World, StartError> {
    if !(0.0..=1.0).contains(&options.failure_rate) {
        return Err(StartError::FailureRate(options.failure_rate));
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
    let mut keys = Keys::default();
    keys.set(api_key.to_owned(), true);
    Ok(World {
        clock: Clock::new(options.clock_start.map(Moment::from_unix), speed),
        switches,
        settings: Settings {
            chances: Chances {
                span: options.delivery,
                failure_rate: options.failure_rate,
            },
            release: options.release,
            list_lag: options.list_lag,
        },
        keys,
        account: Account::new(Catalogue::builtin()),
        faults: Faults::new(StdRng::seed_from_u64(seeds.random())),
        ledger: Ledger::default(),
        rng: StdRng::seed_from_u64(seeds.random()),
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
