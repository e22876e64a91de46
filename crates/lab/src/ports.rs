//! Free ports on the loopback interface.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

/// Below the range from which Linux and macOS take the ports of outgoing
/// connections, so that a busy test run cannot take a port before the listener
/// starts.
const RANGE: Range<u16> = 20_000..30_000;
const TRIES: usize = 200;

/// Finds `N` different ports on which nothing listens now.
///
/// Another process may still be quicker; the caller must be ready to try again
/// with other ports.
pub(crate) fn free<const N: usize>() -> io::Result<[u16; N]> {
    // Held together until all are found, so that no port is returned twice.
    let mut held = Vec::with_capacity(N);
    for _ in 0..TRIES {
        if held.len() == N {
            break;
        }
        let port = rand::random_range(RANGE);
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            held.push((port, listener));
        }
    }
    let ports: Vec<u16> = held.iter().map(|(port, _)| *port).collect();
    ports.try_into().map_err(|_| {
        io::Error::new(
            io::ErrorKind::AddrInUse,
            "found no free port from 20000 to 29999",
        )
    })
}
