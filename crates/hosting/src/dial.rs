//! Which addresses may be dialled. Whoever writes a base URL must not reach by it what only this process reaches:
//! this machine, the cluster's network, a cloud's metadata service.

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
    /// To public addresses by https. Names are judged by the addresses that they have when they are dialled.
    PublicOnly(Lookups),
    /// Wherever the base URL leads: somebody with the right to say so has listed it.
    Anywhere,
}

impl Default for Dial {
    fn default() -> Self {
        Self::PublicOnly(Lookups::new(4))
    }
}

/// Bounds the look-ups of names at one time. A clone shares the bound. A look-up takes a thread until the name server
/// answers, and whoever chooses the name may have chosen the name server too.
#[derive(Clone)]
pub struct Lookups {
    slots: Arc<Semaphore>,
}

impl Lookups {
    /// At most so many at one time.
    pub fn new(count: usize) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(count)),
        }
    }
}

/// Why a base URL is not one of a public address. Each message names the field `baseURL` and the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// http.
    #[error(
        "baseURL is plain http, so the key would be sent unencrypted; use https, or let a cluster admin list the URL with --allowed-base-url"
    )]
    PlainHttp,
    /// The host is an address, or a name of this machine.
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

/// Judges what can be judged of a base URL before it is dialled: the scheme, and a host that is an address. A proxy looks
/// the name up itself, so with one a name that no public name server knows is refused here.
///
/// # Errors
///
/// [`DialError`] names the field and the remedy.
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

/// Whether it is a name for the loopback by definition (RFC 6761), whatever a name server says.
fn is_loopback_name(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether no public name server knows the name: it has no dot, or ends as the names of a cluster or a private network do.
fn is_private(name: &str) -> bool {
    let top = name.trim_end_matches('.').rsplit_once('.');
    top.is_none_or(|(_, top)| matches!(top, "arpa" | "internal" | "local" | "svc"))
}

/// Looks names up and gives only their public addresses.
pub(super) struct PublicResolver {
    lookups: Lookups,
    resolve_host: ResolveFn,
}

type ResolveFn = fn(&str) -> io::Result<Vec<SocketAddr>>;

impl PublicResolver {
    pub(super) fn new(lookups: Lookups) -> Self {
        Self::with(lookups, of_the_system)
    }

    fn with(lookups: Lookups, look_up: ResolveFn) -> Self {
        Self {
            lookups,
            resolve_host: look_up,
        }
    }
}

/// As reqwest's own resolver does it; the port is that of the URL.
fn of_the_system(name: &str) -> io::Result<Vec<SocketAddr>> {
    Ok((name, 0).to_socket_addrs()?.collect())
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (slots, look_up) = (self.lookups.slots.clone(), self.resolve_host);
        Box::pin(async move {
            let slot = slots.acquire_owned().await?;
            let found = tokio::task::spawn_blocking(move || {
                // The look-up goes on when nobody waits for it any more, so it keeps its slot.
                let _slot = slot;
                look_up(name.as_str())
            });
            let public = public(found.await??).map_err(Box::<dyn Error + Send + Sync>::from)?;
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

/// The public ones of the addresses that a name has.
fn public(mut found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, DialError> {
    found.retain(|address| is_public(address.ip()));
    match found.is_empty() {
        true => Err(DialError::NameNotPublic),
        false => Ok(found),
    }
}

/// Whether an address is one of the public internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// All but the blocks with a purpose of their own (the registry of RFC 6890, and multicast).
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

/// The block of global unicast addresses without those of it that have a purpose of their own. An address that
/// stands for one of IPv4 is judged by that.
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
