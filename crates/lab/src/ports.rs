//! Free ports on the loopback interface.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

/// Below the ephemeral ports of Linux and macOS, so that outgoing connections of a test run cannot take a port first.
const RANGE: Range<u16> = 20_000..30_000;
const TRIES: usize = 200;

/// Finds `N` different ports on which nothing listens now.
/// Another process may take one first, so the caller must be able to retry.
pub(crate) fn free<const N: usize>() -> io::Result<[u16; N]> {
    // All listeners stay open until the end, so that no port is returned twice.
    let mut listeners = Vec::with_capacity(N);
    for _ in 0..TRIES {
        if listeners.len() == N {
            break;
        }
        let port = rand::random_range(RANGE);
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            listeners.push((port, listener));
        }
    }
    let ports: Vec<u16> = listeners.iter().map(|(port, _)| *port).collect();
    ports.try_into().map_err(|_| {
        io::Error::new(
            io::ErrorKind::AddrInUse,
            "found no free port from 20000 to 29999",
        )
    })
}
