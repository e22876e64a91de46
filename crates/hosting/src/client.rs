//! The client of one account, and its calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, header};
use serde::Serialize;
use tokio::time::Instant;

use super::{
    answer::{self, ApiAnswer},
    body_budget::Gates,
    dial::Dial,
    http::{ClientError, HttpTransport},
    observer::{self, CallObserver, ObservedCall},
    page::PageToken,
    proxy::ProviderProxy,
    redaction::Hidden,
    transport::{Caps, Request, Transport},
};
use hosting_types::{
    endpoint::BaseUrl,
    error::{BoxError, Error, NotSent},
    page::Page,
    request::CHANGE_TIMEOUT,
    secret::{ApiKey, SecretText},
};

/// The most bytes of an error answer. A message for users is shorter.
const REFUSAL_CAP: usize = 64 << 10;

/// The most bytes of an answer to a read: a record, or a page of 50.
const CAP: usize = 1 << 20;

/// The most bytes of an answer to a change: one record. A stored key and a server with 60 tags are the largest.
const CHANGE_CAP: usize = 64 << 10;

/// The most bytes of an answer to a change that may show a list, for example of a thousand addresses.
const CHANGED_LIST_CAP: usize = 256 << 10;

/// The most bytes of a list without pages (such as usage), and of a list of hosts with all their hardware.
const LARGE_CAP: usize = 8 << 20;

/// How to call the API. Start with [`ClientOptions::new`] and change what should differ.
pub struct ClientOptions {
    /// The base URL of the API.
    pub base_url: BaseUrl,
    /// The key of the account.
    pub key: ApiKey,
    /// Which addresses may be dialled; by default public ones.
    pub dial: Dial,
    /// The proxy, if there is one.
    pub proxy: Option<ProviderProxy>,
    /// PEM certificates that are trusted as roots in addition to the system's.
    pub ca_bundle: Option<Vec<u8>>,
    /// Bounds the memory of incoming answers, together with the other clients of this process.
    pub gates: Gates,
    /// Receives each call when it has ended.
    pub observer: Option<Arc<dyn CallObserver>>,
    /// Whether only reads are sent. Any other call, and the read of a root password, fails before the wire.
    pub read_only: bool,
    /// How long an order may take; 180 s. Orders are slow, and a time-out leaves an unknown outcome.
    pub order_timeout: Duration,
    /// How long a read may take; 30 s.
    pub read_timeout: Duration,
    /// How long any other change may take; 180 s.
    pub mutation_timeout: Duration,
}

impl ClientOptions {
    /// The usual time-outs, the system's roots, and public addresses only.
    pub fn new(base_url: BaseUrl, key: ApiKey) -> Self {
        Self {
            base_url,
            key,
            dial: Dial::default(),
            proxy: None,
            ca_bundle: None,
            gates: Gates::of_process(),
            observer: None,
            read_only: false,
            order_timeout: Timeouts::USUAL.order,
            read_timeout: Timeouts::USUAL.read,
            mutation_timeout: Timeouts::USUAL.mutation,
        }
    }
}

/// How long a read may take.
pub const READ_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy)]
struct Timeouts {
    order: Duration,
    read: Duration,
    mutation: Duration,
}

impl Timeouts {
    const USUAL: Self = Self {
        order: CHANGE_TIMEOUT,
        read: READ_TIMEOUT,
        mutation: CHANGE_TIMEOUT,
    };
}

/// The client of one account. A clone is the same client.
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientInner>,
}

struct ClientInner {
    base_url: BaseUrl,
    key: ApiKey,
    timeouts: Timeouts,
    read_only: bool,
    transport: Arc<dyn Transport>,
    observer: Option<Arc<dyn CallObserver>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("base_url", &self.inner.base_url)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client that speaks HTTP. [`ClientError`]: the base URL may not be dialled, the CA bundle cannot be read, or
    /// TLS cannot be set up.
    pub fn new(options: ClientOptions) -> Result<Self, ClientError> {
        let transport = HttpTransport::new(
            &options.base_url,
            options.ca_bundle.as_deref(),
            options.dial,
            options.proxy.as_ref(),
            options.gates,
        )?;
        let timeouts = Timeouts {
            order: options.order_timeout,
            read: options.read_timeout,
            mutation: options.mutation_timeout,
        };
        Ok(Self {
            inner: Arc::new(ClientInner {
                base_url: options.base_url,
                key: options.key,
                timeouts,
                read_only: options.read_only,
                transport: Arc::new(transport),
                observer: options.observer,
            }),
        })
    }

    /// A client with another transport and the usual time-outs.
    pub fn with_transport(base_url: BaseUrl, key: ApiKey, transport: Arc<dyn Transport>) -> Self {
        Self {
            inner: Arc::new(ClientInner {
                base_url,
                key,
                timeouts: Timeouts::USUAL,
                read_only: false,
                transport,
                observer: None,
            }),
        }
    }

    /// What sends the requests of this client.
    pub(super) fn transport(&self) -> Arc<dyn Transport> {
        Arc::clone(&self.inner.transport)
    }

    /// The same client with another transport.
    pub(super) fn sending_through(&self, transport: Arc<dyn Transport>) -> Self {
        Self {
            inner: Arc::new(ClientInner {
                base_url: self.inner.base_url.clone(),
                key: self.inner.key.clone(),
                timeouts: self.inner.timeouts,
                transport,
                observer: self.inner.observer.clone(),
                read_only: self.inner.read_only,
            }),
        }
    }

    /// The base URL of this client.
    pub fn base_url(&self) -> &BaseUrl {
        &self.inner.base_url
    }

    /// Whether this client sends only reads.
    pub fn is_read_only(&self) -> bool {
        self.inner.read_only
    }

    /// Makes a read.
    pub(super) async fn get(&self, path: &[&str]) -> Result<ApiAnswer, Error> {
        self.call(Call::new(Method::GET, path)).await
    }

    /// Reads a list without pages.
    pub(super) async fn get_large(&self, path: &[&str]) -> Result<ApiAnswer, Error> {
        self.call(Call::new(Method::GET, path).large()).await
    }

    /// Makes one call with at most one request.
    pub(super) async fn call(&self, call: Call<'_>) -> Result<ApiAnswer, Error> {
        if self.inner.read_only && !call.is_plain_read() {
            return Err(Error::NotSent(NotSent::ReadOnly));
        }
        let hidden = Hidden::new(&self.inner.key, &call.secrets, call.body.as_deref());
        let idempotent = call.idempotent;
        let shows_key = call.shows_key();
        let operation = self
            .inner
            .observer
            .as_ref()
            .map(|_| observer::operation(&call.method, call.path));
        let request = self.request(call)?;
        let begun = Instant::now();
        let (method, path, caps) = (
            request.method.clone(),
            request.url.path().to_owned(),
            request.caps,
        );
        let result = match self.inner.transport.send(request).await {
            Ok(response) => answer::sort(response, caps, hidden, idempotent),
            Err(error) => Err(answer::broken(error, idempotent)),
        };
        let result = result.map_err(|error| match error {
            Error::AccessDenied(refusal) if refusal.status == 403 && !shows_key => {
                let call = format!("{method} {path}");
                Error::Forbidden { call, refusal }
            }
            error => error,
        });
        if let (Some(observer), Some(operation)) = (&self.inner.observer, operation) {
            observer.observe(&ObservedCall {
                operation,
                status: match &result {
                    Ok(answer) => Some(answer.status),
                    Err(error) => error.status(),
                },
                outcome: result.as_ref().map_or_else(Error::category, |_| "Done"),
                elapsed: begun.elapsed(),
            });
        }
        match &result {
            Ok(answer) => {
                tracing::debug!(%method, path, status = answer.status, "call answered");
            }
            Err(error) => {
                tracing::debug!(%method, path, status = error.status(), outcome = error.category(), "call failed");
            }
        }
        result
    }

    fn request(&self, call: Call<'_>) -> Result<Request, Error> {
        let mut headers = HeaderMap::new();
        let key = header_value(&self.inner.key).map_err(not_built)?;
        headers.insert("private-token", key);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(page) = call.page {
            let range = HeaderValue::try_from(page.header()).map_err(not_built)?;
            headers.insert("ranged-data", range);
        }
        if let Some(token) = call.token {
            let token = HeaderValue::try_from(token.header()).map_err(not_built)?;
            headers.insert("page-token", token);
        }
        if call.body.is_some() {
            let json = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
        }
        let timeouts = self.inner.timeouts;
        let deadline = match (&call.method, call.is_order) {
            (_, true) => timeouts.order,
            (&Method::GET, _) => timeouts.read,
            _ => timeouts.mutation,
        };
        Ok(Request {
            method: call.method,
            url: self.inner.base_url.join(call.path, &call.query),
            headers,
            body: call.body,
            deadline,
            caps: Caps {
                success: call.cap,
                refusal: REFUSAL_CAP,
            },
        })
    }
}

/// One operation, as the description of its request.
pub(super) struct Call<'a> {
    method: Method,
    path: &'a [&'a str],
    query: Vec<(&'a str, &'a str)>,
    page: Option<Page>,
    token: Option<&'a PageToken>,
    body: Option<Vec<u8>>,
    secrets: Vec<SecretText>,
    is_order: bool,
    idempotent: bool,
    cap: usize,
}

impl<'a> Call<'a> {
    /// A call to `/v3/` and these segments.
    pub(super) fn new(method: Method, path: &'a [&'a str]) -> Self {
        let is_read = method == Method::GET;
        Self {
            idempotent: is_read,
            method,
            path,
            query: Vec::new(),
            page: None,
            token: None,
            body: None,
            secrets: Vec::new(),
            is_order: false,
            cap: if is_read { CAP } else { CHANGE_CAP },
        }
    }

    /// Whether it is a read that may be made again. A root password is shown only for a while.
    fn is_plain_read(&self) -> bool {
        let is_password = matches!(self.path, ["flexMetal", "servers", _, "rootPassword"]);
        self.method == Method::GET && !is_password
    }

    /// Whether a 403 means that the key itself is refused: without the right to these calls it is useless.
    fn shows_key(&self) -> bool {
        let path = self.path;
        self.method == Method::GET
            && matches!(
                path,
                ["flexMetal", "quota", "usage"] | ["flexMetal", "servers"]
            )
    }

    pub(super) fn query(mut self, name: &'a str, value: &'a str) -> Self {
        self.query.push((name, value));
        self
    }

    pub(super) fn page(mut self, page: Page) -> Self {
        self.page = Some(page);
        self
    }

    pub(super) fn token(mut self, token: &'a PageToken) -> Self {
        self.token = Some(token);
        self
    }

    /// Names the secrets in the body, which no text may show if the answer echoes them.
    pub(super) fn hiding(mut self, secrets: impl IntoIterator<Item = SecretText>) -> Self {
        self.secrets.extend(secrets);
        self
    }

    pub(super) fn json(mut self, body: &impl Serialize) -> Result<Self, Error> {
        self.body = Some(serde_json::to_vec(body).map_err(not_built)?);
        Ok(self)
    }

    /// The answer may be larger than a page of a list.
    pub(super) fn large(mut self) -> Self {
        self.cap = LARGE_CAP;
        self
    }

    /// The answer to a change may show all entries of a list.
    pub(super) fn showing_all(mut self) -> Self {
        self.cap = CHANGED_LIST_CAP;
        self
    }

    /// The answer to a change may repeat its body with other escapes.
    pub(super) fn repeating(mut self) -> Self {
        let sent = self.body.as_ref().map_or(0, Vec::len);
        self.cap = CHANGE_CAP + 2 * sent;
        self
    }

    /// The call is idempotent: it may be repeated after an unknown outcome.
    pub(super) fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// The order has its own time-out.
    pub(super) fn order(mut self) -> Self {
        self.is_order = true;
        self
    }
}

fn not_built(cause: impl Into<BoxError>) -> Error {
    Error::NotSent(NotSent::Build(cause.into()))
}

/// The key as a header value that is never printed and never compressed.
#[expect(clippy::disallowed_methods, reason = "this is the header")]
pub(super) fn header_value(key: &ApiKey) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(key.expose())?;
    value.set_sensitive(true);
    Ok(value)
}
