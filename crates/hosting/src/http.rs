//! The transport of the product: HTTP over TLS.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::{Certificate, ClientBuilder, redirect, retry};
use tokio::sync::Semaphore;

use super::{
    body::LARGE,
    body_budget::{Gate, Gates},
    dial::{self, Dial, DialError, PublicResolver},
    proxy::ProviderProxy,
    transport::{Cut, Request, Response, Transport, TransportError},
};
use hosting_types::endpoint::BaseUrl;

/// Large bodies are decoded one after the other in this process.
static DECODER: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(1)));

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);

/// How long an idle connection for reads is kept: shorter than most servers and middleboxes keep theirs, so a
/// connection that the other side just closed is rarely used.
const IDLE: Duration = Duration::from_secs(15);

const USER_AGENT: &str = concat!("flexmetal-operator/", env!("CARGO_PKG_VERSION"));

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The base URL may not be dialled.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The CA bundle cannot be read.
    #[error("caBundle has no readable certificates; set it to the PEM text of the root")]
    CaBundle(#[source] reqwest::Error),
    /// The CA bundle has no certificate in it.
    #[error("caBundle has no certificate; set it to the PEM text of the root, or remove it")]
    CaBundleEmpty,
    /// TLS could not be set up with the roots of the system.
    #[error("TLS could not be set up; install the system's CA certificates, or set caBundle")]
    SystemRoots(#[source] reqwest::Error),
}

/// Two clients: reads may share connections, changes may not.
pub(super) struct HttpTransport {
    gates: Gates,
    questions: reqwest::Client,
    changes: reqwest::Client,
}

impl HttpTransport {
    /// `ca_bundle` is PEM text; its roots are trusted in addition to the system's, which may have none.
    pub(super) fn new(
        base_url: &BaseUrl,
        ca_bundle: Option<&[u8]>,
        dial: Dial,
        proxy: Option<&ProviderProxy>,
        gates: Gates,
    ) -> Result<Self, ClientError> {
        let resolver = match dial {
            Dial::Anywhere => None,
            Dial::PublicOnly(lookups) => {
                // A host that is an address never reaches the resolver.
                dial::check(base_url, proxy)?;
                // With a proxy, the name to resolve here is the proxy's.
                proxy.is_none().then(|| PublicResolver::new(lookups))
            }
        };
        Self::with(base_url, ca_bundle, resolver, proxy, gates)
    }

    /// With a given resolver.
    pub(super) fn with(
        base_url: &BaseUrl,
        ca_bundle: Option<&[u8]>,
        resolver: Option<PublicResolver>,
        proxy: Option<&ProviderProxy>,
        gates: Gates,
    ) -> Result<Self, ClientError> {
        let resolver = resolver.map(Arc::new);
        let roots = ca_bundle.map(certificates).transpose()?.unwrap_or_default();
        let common = || {
            let builder = ClientBuilder::new()
                .user_agent(USER_AGENT)
                .http1_only()
                .redirect(redirect::Policy::none())
                .retry(retry::never())
                .referer(false)
                // Ignores the proxies of the environment: the key goes to one origin only, and a proxy for plain http
                // would read it.
                .no_proxy()
                .connect_timeout(CONNECT);
            let builder = match proxy {
                Some(proxy) => builder.proxy(proxy.inner()),
                None => builder,
            };
            let builder = match &resolver {
                Some(resolver) => builder.dns_resolver(resolver.clone()),
                None => builder,
            };
            match &*roots {
                // Plain http needs no system roots, and works in an image without any. An invalid bundle is still
                // reported.
                roots if base_url.is_plain() => builder.tls_certs_only(roots.to_vec()),
                [] => builder,
                roots => builder.tls_certs_merge(roots.to_vec()),
            }
        };
        let failed = |cause| match ca_bundle {
            Some(_) => ClientError::CaBundle(cause),
            None => ClientError::SystemRoots(cause),
        };
        Ok(Self {
            gates,
            questions: common().pool_idle_timeout(IDLE).build().map_err(failed)?,
            // No idle connections: the layer below silently repeats a request if a pooled connection turns out to be
            // closed.
            changes: common().pool_max_idle_per_host(0).build().map_err(failed)?,
        })
    }
}

/// Checks whether a CA bundle can be used.
pub fn check_ca_bundle(bundle: &[u8]) -> Result<(), ClientError> {
    let client = reqwest::Client::builder().tls_certs_only(certificates(bundle)?);
    client.build().map(drop).map_err(ClientError::CaBundle)
}

fn certificates(bundle: &[u8]) -> Result<Vec<Certificate>, ClientError> {
    let certificates = Certificate::from_pem_bundle(bundle).map_err(ClientError::CaBundle)?;
    if certificates.is_empty() {
        return Err(ClientError::CaBundleEmpty);
    }
    Ok(certificates)
}

impl Transport for HttpTransport {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        let is_read = request.is_read();
        let client = match is_read {
            true => &self.questions,
            false => &self.changes,
        };
        send(client, self.gates.gate_for(is_read), request).boxed()
    }
}

async fn send(
    client: &reqwest::Client,
    gate: &Gate,
    request: Request,
) -> Result<Response, TransportError> {
    let caps = request.caps;
    let mut builder = client
        .request(request.method, request.url)
        .headers(request.headers)
        // Until the end of the body.
        .timeout(request.deadline);
    if let Some(body) = request.body {
        builder = builder.body(body);
    }
    let mut response = builder.send().await.map_err(sort)?;
    let status = response.status();
    let cap = caps.for_status(status);
    let headers = std::mem::take(response.headers_mut());
    let body = gate.open(cap);
    let cut = loop {
        let (chunk, is_last) = match response.chunk().await {
            Ok(None) => break None,
            Ok(Some(chunk)) => {
                let free = cap - body.length();
                let is_last = chunk.len() > free;
                (chunk.slice(..chunk.len().min(free)), is_last)
            }
            Err(error) => break Some(Cut::Broken(error.without_url().into())),
        };
        if let Err(given_up) = body.push(&chunk) {
            break Some(Cut::Broken(given_up.into()));
        }
        if is_last {
            break Some(Cut::TooLarge);
        }
    };
    // A large body counts as incoming until the decoder is free.
    let decode_permit = match body.length() >= LARGE {
        true => DECODER.clone().acquire_owned().await.ok(),
        false => None,
    };
    let (body, cut) = match body.close() {
        Ok(body) => (body, cut),
        Err(given_up) => (Vec::new(), Some(Cut::Broken(given_up.into()))),
    };
    Ok(Response {
        status,
        headers,
        body,
        cut,
        decode_permit,
    })
}

/// Only a certain case counts as not sent. A time-out of the whole call is not certain, even while connecting.
fn sort(error: reqwest::Error) -> TransportError {
    let error = error.without_url();
    if error.is_connect() {
        TransportError::Connect(error.into())
    } else if error.is_builder() {
        TransportError::Build(error.into())
    } else {
        TransportError::Interrupted(error.into())
    }
}
