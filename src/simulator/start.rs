//! Starts a simulator, and ends it.

use std::collections::BTreeSet;
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

use super::accounts::{self, InvalidAccounts, PlannedAccount};
use super::catalogue::{Catalogue, InvalidCatalogue, Offer};
use super::clock::{Clock, Moment};
use super::direct::Direct;
use super::exchange::Broken;
use super::faults::Faults;
use super::journal::{Journal, Line, StateFile, StateFileError, Written};
use super::keys::Keys;
use super::ledger::Ledger;
use super::options::{ClockMode, Options};
use super::profile::{Switches, UnknownSwitch};
use super::serve::{self, Service};
use super::state::{Account, Chances, Login, Numbers, Settings};
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
        /// What the system says.
        source: io::Error,
    },
    /// A switch that does not exist.
    #[error("unknown switch")]
    Switch(#[from] UnknownSwitch),
    /// The failure rate is not a share.
    #[error("the failure rate must be 0 to 1, and not {0}")]
    FailureRate(f64),
    /// A file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The catalogue makes no sense.
    #[error("the catalogue makes no sense")]
    Catalogue(#[from] InvalidCatalogue),
    /// The accounts make no sense.
    #[error("the accounts make no sense")]
    Accounts(#[from] InvalidAccounts),
    /// The state cannot be kept.
    #[error(transparent)]
    State(#[from] StateFileError),
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
    /// A key of the first account.
    pub api_key: String,
    service: Service,
    stop: DropGuard,
    direct: Direct,
    /// Knows when the state file is closed.
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

    /// Ends it at once; requests in flight are broken off.
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
/// When an address is taken, or an option makes no sense.
pub async fn start(options: Options) -> Result<Running, StartError> {
    let world = world(&options)?;
    let main = world.accounts.first().map_or("", |account| &account.name);
    let api_key = world.keys.of(main).unwrap_or_default().to_owned();
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
            let written = shared.lock().record();
            if let Some(written) = written
                && written.wait().await.is_err()
            {
                return Err(Broken);
            }
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
    let planned = match &options.accounts {
        Some(path) => accounts::read(&text(path)?)?,
        None => accounts::single(options.api_key.clone()),
    };
    let state = options.state.as_deref().map(StateFile::open).transpose()?;
    let lines = state.as_ref().map(StateFile::lines).transpose()?;
    let lines = lines.unwrap_or_default();

    // Virtual time never goes back, not over a restart either.
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
    let mut keys = Keys::default();
    let (mut all, numbers) = (Vec::new(), Numbers::default());
    for plan in &planned {
        let known = (&catalogue, &numbers, &switches);
        all.push(account(plan, known, &mut keys, now)?);
    }
    let kept = restore(lines, &mut keys, &mut all, (&catalogue, &numbers));
    // Those of the file have their ids; the others get what is left.
    let planned = planned.iter().zip(&mut all);
    for (plan, account) in planned.filter(|(plan, _)| !kept.contains(&plan.name)) {
        account.house(plan.hosts.labels(), now);
    }
    // A key on the command line is valid, whatever was written of it.
    let first = all
        .first()
        .map_or("", |account| account.name.as_str())
        .to_owned();
    if let (Some(key), None) = (&options.api_key, &options.accounts) {
        keys.set(key, &first, true);
    }
    if keys.of(&first).is_none() {
        // Not from the seed: a key that can be guessed is none.
        let made_up = format!("sim-{}", uuid::Uuid::new_v4().simple());
        keys.set(&made_up, &first, true);
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
        keys,
        accounts: all,
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

/// Everything there is, as one change.
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

/// Makes all written changes once more. An account that the file of accounts
/// names no more keeps what it has. Gives the names of those that were written.
fn restore(
    lines: Vec<Line>,
    keys: &mut Keys,
    accounts: &mut Vec<Account>,
    (catalogue, numbers): (&Arc<Catalogue>, &Numbers),
) -> BTreeSet<String> {
    let mut kept = BTreeSet::new();
    let planned = std::mem::take(keys);
    for line in lines {
        if let Some(written) = line.keys {
            *keys = written;
        }
        for (name, changes) in line.accounts {
            let known = accounts.iter().position(|account| account.name == name);
            let place = known.unwrap_or(accounts.len());
            if known.is_none() {
                let login = Login::new("", "");
                let (catalogue, numbers) = (catalogue.clone(), numbers.clone());
                accounts.push(Account::new(&name, catalogue, numbers, login));
            }
            kept.insert(name);
            for change in changes {
                if let Some(account) = accounts.get_mut(place) {
                    account.restore(change);
                }
            }
        }
    }
    for account in accounts {
        account.index_all();
    }
    keys.add_missing(planned);
    kept
}

fn account(
    plan: &PlannedAccount,
    (catalogue, numbers, switches): (&Arc<Catalogue>, &Numbers, &Switches),
    keys: &mut Keys,
    now: Moment,
) -> Result<Account, StartError> {
    let login = Login::new(&plan.email_address, &plan.password);
    let mut account = Account::new(&plan.name, catalogue.clone(), numbers.clone(), login);
    let invalid = |problem: String| InvalidAccounts::Value {
        account: plan.name.clone(),
        problem,
    };
    for quota in &plan.quota {
        let place = catalogue.location(&quota.location, switches);
        let kind = catalogue.instance_type(&quota.instance_type, switches);
        let offer = place.zip(kind).map(|(place, kind)| Offer {
            location: place.id,
            instance_type: kind.id,
        });
        let offer = offer.filter(|offer| catalogue.offers(*offer));
        let unknown = || {
            let (kind, place) = (&quota.instance_type, &quota.location);
            invalid(format!("{kind:?} is not offered at {place:?}"))
        };
        let pool = Some(quota.contract_id.clone()).filter(|pool| !pool.is_empty());
        account
            .quota
            .set_quota(offer.ok_or_else(unknown)?, pool, quota.quota);
    }
    for planned in &plan.keys {
        let number = keys.set(&planned.key, &plan.name, true).to_string();
        for range in &planned.whitelist {
            let added = keys.allow(&plan.name, &number, None, range.clone(), now);
            added.map_err(|_| invalid("a whitelist cannot be kept".to_owned()))?;
        }
    }
    Ok(account)
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
