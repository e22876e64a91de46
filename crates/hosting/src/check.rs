//! Checks what a key may read, with one harmless read of each resource.

use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use super::{
    answer,
    client::Client,
    page::HostCursor,
    transport::{Request, Response, Transport, TransportError},
};
use hosting_types::{ApiKeyId, Error, Page, ServerFilter, health::Health};

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountCheck {
    /// What the API reports about itself, without a key. Err: why there is no valid answer.
    pub health: Result<Health, String>,
    /// Whether the connection is encrypted.
    pub encryption: Encryption,
    /// How far the API's clock is at least ahead of this one. None: no answer had a date.
    pub clock_skew: Option<SignedDuration>,
    /// One entry for each resource that was read, in the order of the reads.
    pub rights: Vec<Right>,
}

/// How calls get to the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// By TLS: the certificate is valid for the host, and its root is trusted.
    Tls,
    /// Not at all: the base URL is plain http, so the network between can read the key.
    Absent,
    /// Not known: no answer came.
    Unknown,
}

/// Whether the key may read a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    /// The resource.
    pub resource: Resource,
    /// What the read showed.
    pub access: Access,
}

/// What a read showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// A valid answer came.
    Allowed,
    /// The API refused the key, or forbids this call to it.
    Refused {
        /// 401 or 403.
        status: u16,
        /// The API's words.
        why: String,
    },
    /// No answer that shows whether the key has the right: no connection, an outage, or an answer that is not the
    /// API's.
    Unreachable {
        /// The error.
        why: String,
    },
}

/// What a key can have the right to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// On-demand servers.
    Servers,
    /// The commands of a server. Read only if the account has a server.
    Commands,
    /// Tags.
    Tags,
    /// Locations.
    Locations,
    /// Instance types with their stock.
    Plans,
    /// Operating systems.
    OperatingSystems,
    /// Quotas and their use.
    Quota,
    /// What servers have used, of this day.
    Usage,
    /// Committed capacity.
    Capacity,
    /// Stored SSH keys.
    SshKeys,
    /// Dedicated hosts.
    Hosts,
    /// The whitelist of an API key. Read only if the caller names the key.
    Whitelist,
}

impl Resource {
    /// The read, as method and path.
    pub const fn operation(self) -> &'static str {
        match self {
            Self::Servers => "GET /v3/flexMetal/servers",
            Self::Commands => "GET /v3/flexMetal/servers/{uuid}/commands",
            Self::Tags => "GET /v3/flexMetal/tags",
            Self::Locations => "GET /v3/flexMetal/location",
            Self::Plans => "GET /v3/flexMetal/plans",
            Self::OperatingSystems => "GET /v3/operatingsystem",
            Self::Quota => "GET /v3/flexMetal/quota/usage",
            Self::Usage => "GET /v3/flexMetal/usage",
            Self::Capacity => "GET /v3/flexMetal/capacity/commit",
            Self::SshKeys => "GET /v3/sshKey",
            Self::Hosts => "GET /v3/host",
            Self::Whitelist => "GET /v3/account/apiKey/{apiKeyId}/whitelist",
        }
    }
}

impl AccountCheck {
    /// Whether the API gave any answer of its own.
    pub fn is_reachable(&self) -> bool {
        let answers =
            |right: &Right| matches!(right.access, Access::Allowed | Access::Refused { .. });
        self.health.is_ok() || self.rights.iter().any(answers)
    }

    /// Whether the key is valid from this address. None: no answer shows it.
    pub fn is_key_accepted(&self) -> Option<bool> {
        let accesses = || self.rights.iter().map(|right| &right.access);
        if accesses().any(|access| *access == Access::Allowed) {
            return Some(true);
        }
        accesses()
            .any(|access| matches!(access, Access::Refused { .. }))
            .then_some(false)
    }

    /// The rights that the key lacks.
    pub fn refused(&self) -> impl Iterator<Item = &Right> {
        let is_refused = |right: &&Right| matches!(right.access, Access::Refused { .. });
        self.rights.iter().filter(is_refused)
    }
}

/// Checks the URL, TLS, the clocks, the key and its rights, with at most 13 calls one after the other. After a call
/// without an answer it makes no more: the other rights are [`Access::Unreachable`] for the same reason. `clock` is
/// the clock of this process, such as [`Timestamp::now`]; `whitelist_of` is the number of a key whose whitelist to
/// read.
pub async fn check_account(
    client: &Client,
    whitelist_of: Option<ApiKeyId>,
    clock: fn() -> Timestamp,
) -> AccountCheck {
    let clocks = Arc::new(ClockComparison {
        inner: client.transport(),
        clock,
        answers: Mutex::default(),
    });
    let client = &client.sending_through(clocks.clone());
    let mut reads = Reads::default();
    let health = client.health().await;
    let health = health.map_err(|error| reads.explain(&error));

    let (filter, first) = (ServerFilter::default(), Page::new(0, 1));
    let servers = client.servers(&filter, first);
    let servers = reads.read_resource(Resource::Servers, servers).await;
    if let Some(server) = servers.as_deref().and_then(<[_]>::first) {
        let commands = client.commands(&server.id, None, first);
        reads.read_resource(Resource::Commands, commands).await;
    }
    reads
        .read_resource(Resource::Tags, client.tags(first))
        .await;
    reads
        .read_resource(Resource::Locations, client.locations())
        .await;
    reads.read_resource(Resource::Plans, client.plans()).await;
    let systems = client.operating_systems();
    reads
        .read_resource(Resource::OperatingSystems, systems)
        .await;
    reads
        .read_resource(Resource::Quota, client.quota_usage())
        .await;
    let today = Some(clock().to_zoned(TimeZone::UTC).date());
    reads
        .read_resource(Resource::Usage, client.usage(today, today))
        .await;
    let capacity = client.capacity_commits();
    reads.read_resource(Resource::Capacity, capacity).await;
    reads
        .read_resource(Resource::SshKeys, client.ssh_keys())
        .await;
    let cursor = HostCursor::Range(first);
    reads
        .read_resource(Resource::Hosts, client.hosts(None, &cursor))
        .await;
    if let Some(key) = whitelist_of {
        let whitelist = client.whitelist(key, first);
        reads.read_resource(Resource::Whitelist, whitelist).await;
    }

    let answers = clocks.lock();
    AccountCheck {
        health,
        encryption: match client.base_url().is_plain() {
            true => Encryption::Absent,
            false if answers.came => Encryption::Tls,
            false => Encryption::Unknown,
        },
        clock_skew: answers.skew,
        rights: reads.rights,
    }
}

/// The reads so far.
#[derive(Default)]
struct Reads {
    rights: Vec<Right>,
    /// Why a call got no answer.
    lost: Option<String>,
}

impl Reads {
    /// Makes a read, unless an earlier call got no answer.
    async fn read_resource<T>(
        &mut self,
        resource: Resource,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Option<T> {
        let (access, found) = match self.lost.clone() {
            Some(why) => (Access::Unreachable { why }, None),
            None => match call.await {
                Ok(found) => (Access::Allowed, Some(found)),
                Err(error) => (self.classify(&error), None),
            },
        };
        self.rights.push(Right { resource, access });
        found
    }

    fn classify(&mut self, error: &Error) -> Access {
        let why = self.explain(error);
        match error {
            Error::AccessDenied(refusal) | Error::Forbidden { refusal, .. } => Access::Refused {
                status: refusal.status,
                why,
            },
            _ => Access::Unreachable { why },
        }
    }

    /// The error in words. Remembers it if no answer came.
    fn explain(&mut self, error: &Error) -> String {
        let why = error.explain();
        if matches!(error, Error::NotSent(_) | Error::Interrupted(_)) {
            self.lost = Some(why.clone());
        }
        why
    }
}

/// A transport that compares the date of each answer with the clock of this process.
struct ClockComparison {
    inner: Arc<dyn Transport>,
    clock: fn() -> Timestamp,
    answers: Mutex<CheckAnswers>,
}

/// What the answers so far have shown.
#[derive(Default)]
struct CheckAnswers {
    came: bool,
    /// The smallest difference: a slow answer shows less than a quick one.
    skew: Option<SignedDuration>,
}

impl ClockComparison {
    fn lock(&self) -> std::sync::MutexGuard<'_, CheckAnswers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transport for ClockComparison {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        async move {
            let sent = (self.clock)();
            let response = self.inner.send(request).await?;
            let skew =
                answer::date(&response.headers).map(|date| clock_skew(date, sent, (self.clock)()));
            let mut answers = self.lock();
            answers.came = true;
            answers.skew = match (answers.skew, skew) {
                (Some(before), Some(skew)) if skew.abs() > before.abs() => Some(before),
                (before, skew) => skew.or(before),
            };
            Ok(response)
        }
        .boxed()
    }
}

/// How far the other clock is at least ahead. It wrote `date`, in whole seconds, between these two moments.
pub fn clock_skew(date: Timestamp, sent: Timestamp, received: Timestamp) -> SignedDuration {
    let second = SignedDuration::from_secs(1);
    let latest = date.duration_since(sent).saturating_add(second);
    if date > received {
        date.duration_since(received)
    } else if latest.is_negative() {
        latest
    } else {
        SignedDuration::ZERO
    }
}
