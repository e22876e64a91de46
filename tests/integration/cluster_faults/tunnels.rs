//! A proxy that opens tunnels (CONNECT), only to targets that a test allows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The proxy. It ends with all its tunnels when dropped.
pub(crate) struct TunnelProxy {
    url: String,
    shared: Arc<TunnelState>,
    _serving: JoinSet<()>,
}

#[derive(Default)]
struct TunnelState {
    routes: Mutex<BTreeMap<String, TunnelRoute>>,
    heads: Mutex<Vec<String>>,
}

struct TunnelRoute {
    address: String,
    /// Ends the tunnels of this route when dropped.
    open: watch::Sender<()>,
}

impl TunnelProxy {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(TunnelState::default());
        let for_tunnels = shared.clone();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut tunnels = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                tunnels.spawn(tunnel(client, for_tunnels.clone()));
            }
        });
        Self {
            url,
            shared,
            _serving: serving,
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Tunnels to `target`, as `host:port`, lead to this local URL.
    pub(crate) fn open(&self, target: &str, url: &str) {
        let (_, address) = url.rsplit_once('/').unwrap();
        let (_, port) = address.rsplit_once(':').unwrap();
        let route = TunnelRoute {
            address: format!("127.0.0.1:{port}"),
            open: watch::Sender::new(()),
        };
        let mut routes = self.shared.routes.lock().unwrap();
        routes.insert(target.to_owned(), route);
    }

    /// Ends all tunnels to `target`, and refuses new ones.
    pub(crate) fn close(&self, target: &str) {
        self.shared.routes.lock().unwrap().remove(target);
    }

    /// The requests so far, each with its headers.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.shared.heads.lock().unwrap().clone()
    }
}

async fn tunnel(mut client: TcpStream, shared: Arc<TunnelState>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if client.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.strip_prefix("CONNECT ").unwrap_or_default();
    let target = target.split(' ').next().unwrap_or_default().to_owned();
    shared.heads.lock().unwrap().push(head);
    let route = {
        let routes = shared.routes.lock().unwrap();
        let route = routes.get(&target);
        route.map(|route| (route.address.clone(), route.open.subscribe()))
    };
    let Some((address, mut open)) = route else {
        let _ = client.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await;
        return;
    };
    let Ok(mut server) = TcpStream::connect(address).await else {
        return;
    };
    if client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.is_ok() {
        tokio::select! {
            _ = copy_bidirectional(&mut client, &mut server) => {}
            _ = open.changed() => {}
        }
    }
}
