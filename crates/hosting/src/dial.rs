//! Which addresses may be dialled. The author of a base URL must not be able to call what only this process can reach:
//! this host, the cluster's network, or a cloud's metadata service.

use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;
use url::Host;

use super::proxy::ProviderProxy;
use hosting_types::endpoint::BaseUrl;

/// Where a client may connect to.
#[derive(Clone)]
pub enum Dial {
    /// To public addresses by https. A name's addresses are checked when it is dialled.
    PublicOnly(Lookups),
    /// To any address: an administrator has listed the base URL.
    Anywhere,
}

impl Default for Dial {
    fn default() -> Self {
        Self::PublicOnly(Lookups::new(4))
    }
}

/// Bounds the concurrent name look-ups; a clone shares the bound. A look-up takes a thread until the name server
/// answers, and the author of the name may control that server.
#[derive(Clone)]
pub struct Lookups {
    slots: Arc<Semaphore>,
}

impl Lookups {
    /// At most this many look-ups at a time.
    pub fn new(count: usize) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(count)),
        }
    }
}

/// Why a base URL does not lead to a public address. Each message names the field `baseURL` and the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// Plain http.
    #[error(
        "baseURL is plain http, so the key would be sent unencrypted; use https, or let a cluster admin list the URL with --allowed-base-url"
    )]
    PlainHttp,
    /// The host is an address, or a name of this host.
    #[error(
        "baseURL leads to an address that is not public; correct it, or let a cluster admin list the URL with --allowed-base-url"
    )]
    NotPublic,
    /// The name has no public address.
    #[error(
        "the name in baseURL leads to no public address; correct it, or let a cluster admin list the URL with --allowed-base-url"
    )]
    NameNotPublic,
}

/// Checks a base URL before it is dialled: the scheme, and a host that is an address. A proxy looks names up itself, so
/// with one, names that no public name server knows are refused here.
pub fn check(base_url: &BaseUrl, proxy: Option<&ProviderProxy>) -> Result<(), DialError> {
    if base_url.is_plain() {
        return Err(DialError::PlainHttp);
    }
    let is_public = match base_url.host() {
        Some(Host::Ipv4(address)) => is_public_v4(address),
        Some(Host::Ipv6(address)) => is_public_v6(address),
        Some(Host::Domain(name)) if is_loopback_name(name) => false,
        Some(Host::Domain(name)) if proxy.is_some() && is_private(name) => {
            return Err(DialError::NameNotPublic);
        }
        Some(Host::Domain(_)) => true,
        None => false,
    };
    is_public.then_some(()).ok_or(DialError::NotPublic)
}

/// Whether a name is the loopback by definition (RFC 6761).
fn is_loopback_name(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether no public name server knows the name: it has no dot, or ends like names of a cluster or a private network.
fn is_private(name: &str) -> bool {
    let top = name.trim_end_matches('.').rsplit_once('.');
    top.is_none_or(|(_, top)| matches!(top, "arpa" | "internal" | "local" | "svc"))
}

/// Resolves names to their public addresses only.
pub(super) struct PublicResolver {
    lookups: Lookups,
    resolve_host: ResolveFn,
}

type ResolveFn = fn(&str) -> io::Result<Vec<SocketAddr>>;

impl PublicResolver {
    pub(super) fn new(lookups: Lookups) -> Self {
        Self::with(lookups, of_the_system)
    }

    fn with(lookups: Lookups, resolve_host: ResolveFn) -> Self {
        Self {
            lookups,
            resolve_host,
        }
    }
}

/// As reqwest's own resolver does it; the port is the URL's.
fn of_the_system(name: &str) -> io::Result<Vec<SocketAddr>> {
    Ok((name, 0).to_socket_addrs()?.collect())
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (slots, resolve_host) = (self.lookups.slots.clone(), self.resolve_host);
        Box::pin(async move {
            let slot = slots.acquire_owned().await?;
            let found = tokio::task::spawn_blocking(move || {
                // The look-up goes on even if its caller has gone, so it keeps its slot.
                let _slot = slot;
                resolve_host(name.as_str())
            });
            let public = public(found.await??).map_err(Box::<dyn Error + Send + Sync>::from)?;
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

/// The public addresses of a name.
fn public(mut found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, DialError> {
    found.retain(|address| is_public(address.ip()));
    match found.is_empty() {
        true => Err(DialError::NameNotPublic),
        false => Ok(found),
    }
}

/// Whether an address is on the public internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// All but the special-purpose blocks (the registry of RFC 6890) and multicast.
fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        // This network, private, loopback, link-local.
        [0 | 10 | 127, ..] | [169, 254, ..] | [172, 16..=31, ..] | [192, 168, ..]
        // Shared by the customers of a carrier, and by some clusters.
        | [100, 64..=127, ..]
        // Protocol assignments, documentation, relays of 6to4, benchmarks.
        | [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] | [192, 88, 99, _] | [198, 18 | 19, ..]
        // Multicast, reserved, broadcast.
        | [224..=255, ..]
    )
}

/// Global unicast without its special-purpose blocks. An address that embeds an IPv4 address counts as that one.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        // Mapped, and translated by the well-known prefix of NAT64.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        // 6to4.
        [0x2002, high, low, ..] => v4(high, low),
        // Protocol assignments, Teredo among them.
        [0x2001, 0..=0x1ff, ..] => false,
        // Documentation.
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Everything else outside of global unicast: unspecified, loopback, compatible with IPv4, unique-local,
        // link-local, site-local, multicast, local prefixes of NAT64, segment routing.
        [first, ..] => first >> 13 == 1,
    }
}

#[cfg(test)]
mod tests;
