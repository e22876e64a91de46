//! A small fake of the hosting API, on the tests' own clock.

use futures::{FutureExt as _, future::BoxFuture};
use hosting::transport::{Request, Response, Transport, TransportError};
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard};

pub(super) const CLUSTER: &str = "0123456789abcdef";

/// The fake API, shared by clients and test.
#[derive(Clone, Default)]
pub(super) struct Provider {
    world: Arc<Mutex<World>>,
}

/// Makes a page of all records, the first record asked for, and the size of a page; None: an error.
type Answers = Box<dyn FnMut(&[Value], usize, usize) -> Option<Vec<Value>> + Send>;

#[derive(Default)]
pub(super) struct World {
    pub(super) servers: Vec<Value>,
    /// UUIDs that lists do not show.
    pub(super) hidden: Vec<String>,
    /// Makes the pages of server lists, if they are to be wrong.
    pub(super) page: Option<Answers>,
    /// The most records that a page has, even if more are asked for.
    pub(super) most: Option<usize>,
    /// Tags of the account.
    pub(super) tags: Vec<Value>,
    /// Servers that appear while lists are read, `each` of them after every page.
    pub(super) coming: Vec<Value>,
    /// See `coming`.
    pub(super) each: usize,
    /// Whether the UUID of the first record of a page is in upper case.
    pub(super) capitals: bool,
    /// The key that is rejected.
    pub(super) refused_key: Option<String>,
    /// The key that may not read servers.
    pub(super) blind_key: Option<String>,
    /// Whether connections fail.
    pub(super) down: bool,
    /// Whether it answers 429 and asks for a pause.
    pub(super) busy: bool,
    /// Whether it answers 503 and asks for a pause.
    pub(super) failing: bool,
    /// Whether orders hang forever.
    pub(super) hanging: bool,
    /// Whether no call is answered before its deadline.
    pub(super) silent: bool,
    /// The pause that 429 and 503 ask for, in seconds; 0: seven.
    pub(super) pause: u64,
    /// Prefix of the paths that the key may not use.
    pub(super) forbidden: Option<String>,
    /// Paths that fail.
    pub(super) broken: Vec<String>,
    /// What the next order gets instead of a server.
    pub(super) next_order: Option<Result<u16, ()>>,
    /// Method and path of each request, lists with their query.
    pub(super) calls: Vec<String>,
}

/// UUID of the server with this number.
pub(super) fn uuid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

/// Name hash of the object with this number.
pub(super) fn name_hash(number: usize) -> String {
    format!("{number:028x}")
}

/// The order tag of the object with this number.
pub(super) fn order_tag(number: usize) -> String {
    ordered(number, 1)
}

/// The order tag of the object with this number and this sequence number.
pub(super) fn ordered(number: usize, seq: i64) -> String {
    format!("fmo-order:{}{}{seq:08x}", name_hash(number), "0".repeat(16))
}

/// A server of our cluster with this status.
pub(super) fn server_json(number: usize, status: &str) -> Value {
    json!({
        "uuid": uuid(number),
        "name": format!("s{number}"),
        "status": status,
        "location": {"id": 1, "name": "EU: Rotterdam"},
        "instanceType": {"id": 1, "name": "bm7.std.8"},
        "os": {"slug": "debian-13"},
        "ipAddresses": [{"ipAddress": "192.0.2.1"}],
        "tags": [format!("fmo-cluster:{CLUSTER}"), order_tag(number)],
        "createdAt": 1_600_000_000,
        "deliveredAt": null,
    })
}

impl Provider {
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// The calls since this was last asked.
    pub(super) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.world().calls)
    }

    pub(super) fn set_status(&self, number: usize, status: &str) {
        let id = uuid(number);
        for server in &mut self.world().servers {
            if server["uuid"] == *id {
                server["status"] = status.into();
            }
        }
    }

    fn answer(&self, request: &Request) -> Result<(u16, Value), TransportError> {
        let mut world = self.world();
        let path = request.url.path().to_owned();
        let query: Vec<(String, String)> = request.url.query_pairs().into_owned().collect();
        let with = |name: &'static str| {
            let all = query.iter().filter(move |(n, _)| n == name);
            all.map(|(_, v)| v.as_str())
        };
        let mut line = format!("{} {path}", request.method);
        if let Some(status) = with("status").next() {
            line.push_str(&format!(" {status}"));
        }
        world.calls.push(line);
        if world.down {
            return Err(TransportError::Connect("no route".into()));
        }
        let key = request.headers["private-token"].to_str().unwrap();
        let is_blind =
            world.blind_key.as_deref() == Some(key) && path.starts_with("/v3/flexMetal/servers");
        if world.refused_key.as_deref() == Some(key) || is_blind {
            let refusal =
                json!({"errorCode": 1, "errorMessage": format!("bad key {key}"), "errors": []});
            return Ok((403, refusal));
        }
        if (world.forbidden.as_ref()).is_some_and(|start| path.starts_with(start)) {
            return Ok((403, json!({"errorMessage": "not with this key"})));
        }
        if world.busy {
            return Ok((429, json!({"errorMessage": "slow down"})));
        }
        if world.failing {
            return Ok((503, json!({"errorMessage": "out of order"})));
        }
        if world.broken.contains(&path) {
            return Ok((500, json!({"errorMessage": "broken"})));
        }
        let servers = "/v3/flexMetal/servers";
        if path == servers && request.method == Method::POST {
            match world.next_order.take() {
                Some(Ok(status)) => return Ok((status, json!({"errorMessage": "no"}))),
                Some(Err(())) => return Err(TransportError::Interrupted("cut".into())),
                None => {}
            }
            let body: Value = serde_json::from_slice(request.body.as_deref().unwrap()).unwrap();
            let number = 1000 + world.servers.len();
            let mut server = server_json(number, "created");
            server["tags"] = body["tags"].clone();
            server["ipAddresses"] = json!([]);
            world.servers.push(server.clone());
            return Ok((200, json!([server])));
        }
        if path == servers {
            let (start, most) = range(request);
            let world = &mut *world;
            let shown = world.servers.iter().filter(|s| {
                with("status").all(|status| s["status"] == status)
                    && with("tag").all(|tag| s["tags"].as_array().unwrap().iter().any(|t| t == tag))
                    && !world.hidden.iter().any(|h| s["uuid"] == h.as_str())
            });
            let size = most.min(world.most.unwrap_or(usize::MAX));
            let mut page: Vec<_> = match &mut world.page {
                Some(answers) => {
                    let shown: Vec<Value> = shown.cloned().collect();
                    match answers(&shown, start, size) {
                        Some(page) => page,
                        None => return Ok((500, json!({"errorMessage": "broken"}))),
                    }
                }
                None => shown.skip(start).take(size).cloned().collect(),
            };
            if world.capitals
                && let Some(first) = page.first_mut()
            {
                first["uuid"] = first["uuid"].as_str().unwrap().to_uppercase().into();
            }
            let each = world.each.min(world.coming.len());
            let appear: Vec<_> = world.coming.drain(..each).collect();
            world.servers.extend(appear);
            return Ok((200, page.into()));
        }
        if let Some(id) = path.strip_prefix("/v3/flexMetal/servers/") {
            let found = world.servers.iter_mut().find(|s| s["uuid"] == id);
            return Ok(match found {
                None => (404, json!({"errorMessage": "Entity not found"})),
                Some(server) => {
                    if request.method == Method::DELETE {
                        server["status"] = "releasing".into();
                    }
                    (200, json!([server]))
                }
            });
        }
        if path == "/v3/flexMetal/tags" {
            let (start, most) = range(request);
            let page: Vec<_> = world.tags.iter().skip(start).take(most).cloned().collect();
            return Ok((200, page.into()));
        }
        if let Some(tag) = path.strip_prefix("/v3/flexMetal/tags/") {
            let before = world.tags.len();
            world.tags.retain(|known| known["tag"] != tag);
            return Ok(match world.tags.len() < before {
                true => (204, Value::Null),
                false => (404, json!({"errorMessage": "Entity not found"})),
            });
        }
        Ok((200, json!([])))
    }
}

/// The first record and the size of the page that is asked for.
fn range(request: &Request) -> (usize, usize) {
    let range = request.headers["ranged-data"].to_str().unwrap();
    let mut numbers = range
        .split(',')
        .map(|part| part.split_once('=').unwrap().1.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

impl Transport for Provider {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        let answer = self.answer(&request);
        let hangs = self.world().hanging && request.method == Method::POST;
        let is_silent = self.world().silent;
        let pause = match self.world().pause {
            0 => 7,
            pause => pause,
        };
        async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            if is_silent {
                tokio::time::sleep(request.deadline).await;
                return Err(TransportError::Interrupted("no answer in time".into()));
            }
            // An answer takes some time, so that other calls can come in between.
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            let (status, body) = answer?;
            let mut headers = HeaderMap::new();
            if matches!(status, 429 | 503) {
                headers.insert("retry-after", pause.into());
            }
            Ok(Response {
                status: StatusCode::from_u16(status).unwrap(),
                headers,
                body: serde_json::to_vec(&body).unwrap(),
                decode_permit: None,
                cut: None,
            })
        }
        .boxed()
    }
}
