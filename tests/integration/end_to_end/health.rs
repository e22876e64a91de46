//! The health port, which the pod network can use.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::SOON;
use lab::rig::{World, cluster, endpoint, eventually};

/// More connections than the port keeps open.
const MANY: usize = 200;
/// An idle operator ends within moments. An open connection would take longer than this.
const END_WITHIN: Duration = Duration::from_secs(15);

fn send_partial_request(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the port is open");
    stream
        .write_all(b"GET /livez HTTP/1.1\r\nhost:")
        .expect("it is taken");
    stream
}

/// The first line of the answer to a probe. None means no answer.
fn probe(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream
        .write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.lines().next().map(str::to_owned)
}

#[tokio::test]
async fn partial_requests_block_no_health_probe() {
    let mut world = World::start(cluster(), "health").await;
    let address = eventually("health is served", SOON, async || {
        endpoint(&world.operator().log(), "health")
    })
    .await;
    let silent: Vec<_> = (0..MANY).map(|_| send_partial_request(address)).collect();
    eventually("a probe is answered", SOON, async || {
        probe(address).filter(|line| line.starts_with("HTTP/1.1 200"))
    })
    .await;
    drop(silent);
    let _open: Vec<_> = (0..8).map(|_| send_partial_request(address)).collect();
    let ended = tokio::time::timeout(END_WITHIN, world.operator().terminate()).await;
    assert!(ended.expect("it ends at once").success());
}
