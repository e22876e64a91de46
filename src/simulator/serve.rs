//! Sockets: starts a simulator, and answers until it is dropped.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::response::Response;
use http::request::Parts;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt;

use super::catalogue::Catalogue;
use super::clock::{Clock, Moment};
use super::exchange::{Broken, exchange};
use super::faults::Faults;
use super::ledger::Ledger;
use super::options::{ClockMode, Options};
use super::profile::{Switches, UnknownSwitch};
use super::state::{Account, Chances, Settings};
use super::world::{Keys, Shared, World};
use super::{control, routes};

/// Longest request body.
const LONGEST_BODY: usize = 1024 * 1024;

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

/// A running simulator. Dropping it closes both ports and every connection.
#[derive(Debug)]
pub struct Running {
    /// Where the API answers.
    pub api: SocketAddr,
    /// Where the control port answers.
    pub control: SocketAddr,
    /// The account's key.
    pub api_key: String,
    _stop: DropGuard,
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
    let stop = CancellationToken::new();
    let running = Running {
        api: bound(&api, options.listen)?,
        control: bound(&control, options.control)?,
        api_key,
        _stop: stop.clone().drop_guard(),
    };

    let (router, control_router) = (
        routes::router(shared.clone()),
        control::router(shared.clone()),
    );
    let ending = stop.clone();
    let answer =
        move |head, body| answer(shared.clone(), router.clone(), ending.clone(), head, body);
    let steer = move |head, body: Incoming| {
        let request = http::Request::from_parts(head, Body::new(body));
        let answered = control_router.clone().oneshot(request);
        async move {
            let Ok(response) = answered.await;
            Ok(response)
        }
    };
    tokio::spawn(accept(api, answer, stop.clone()));
    tokio::spawn(accept(control, steer, stop));
    Ok(running)
}

/// Reads the body, then handles the request in a task of its own: what has
/// arrived takes effect even when the client hangs up in the meantime.
async fn answer(
    shared: Shared,
    router: Router,
    stop: CancellationToken,
    head: Parts,
    body: Incoming,
) -> Result<Response, Broken> {
    let body = to_bytes(Body::new(body), LONGEST_BODY).await.ok();
    let handled = tokio::spawn(async move {
        stop.run_until_cancelled(exchange(shared, router, head, body))
            .await
    });
    handled.await.ok().flatten().unwrap_or(Err(Broken))
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

/// Takes connections until told to stop.
async fn accept<H, F>(listener: TcpListener, handler: H, stop: CancellationToken)
where
    H: Fn(Parts, Incoming) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response, Broken>> + Send + 'static,
{
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, _)) => {
                let (handler, stop) = (handler.clone(), stop.clone());
                tokio::spawn(async move {
                    stop.run_until_cancelled(connection(stream, handler)).await;
                });
            }
            // Out of file descriptors, say. At once again would spin.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn connection<H, F>(stream: TcpStream, handler: H)
where
    H: Fn(Parts, Incoming) -> F,
    F: Future<Output = Result<Response, Broken>> + Send + 'static,
{
    // Both results are the client's business: it went away, or it gets the
    // broken connection that a fault asked for.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request: http::Request<Incoming>| {
        let (head, body) = request.into_parts();
        handler(head, body)
    });
    // A service that fails makes hyper close the connection unanswered.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
