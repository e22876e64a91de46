//! A hosting API that means harm: answers without end, of a million parts, or a byte now and then.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The longest answer that the operator reads of any kind.
const LONGEST: usize = 8 << 20;
/// The longest record that the operator reads.
const RECORD: usize = 128 << 10;
/// About what a page may have.
const PAGE: usize = 1 << 20;

/// The first part of its base URL says what it answers. Dropped, it ends.
pub(super) struct Hostile {
    address: SocketAddr,
    answered: Answered,
    _serving: JoinSet<()>,
}

/// How many answers of each kind were begun.
type Answered = Arc<Mutex<BTreeMap<String, usize>>>;

#[derive(Clone)]
struct Api {
    cluster_id: String,
    answered: Answered,
}

impl Hostile {
    /// Starts one, whose machines bear the mark of this cluster.
    pub(super) async fn start(cluster_id: &str) -> Self {
        let answered = Answered::default();
        let api = Api {
            cluster_id: cluster_id.to_owned(),
            answered: answered.clone(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(api);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            // It ends with this set.
            let _ = axum::serve(listener, router).await;
        });
        Self {
            address,
            answered,
            _serving: serving,
        }
    }

    /// The base URL of an account that answers in this way.
    pub(super) fn url(&self, way: &str) -> String {
        format!("http://{}/{way}", self.address)
    }

    /// How many answers the accounts of this way have begun.
    pub(super) fn answered(&self, way: &str) -> usize {
        let answered = self.answered.lock().unwrap();
        let of_way = answered.iter().filter(|(name, _)| name.starts_with(way));
        of_way.map(|(_, number)| number).sum()
    }
}

async fn answer(State(api): State<Api>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let (way, path) = path[1..].split_once('/').unwrap_or(("", &path));
    let is_listing = path.ends_with("flexMetal/servers");
    if !is_listing || way.starts_with("endless") || way.starts_with("slow") {
        let mut answered = api.answered.lock().unwrap();
        *answered.entry(way.to_owned()).or_default() += 1;
    }
    match way.split_once('-').map_or(way, |(kind, _)| kind) {
        "endless" if is_listing => {
            let record = match way.contains("short") {
                true => record_of_short_texts,
                false => large_record,
            };
            page(request.headers(), |number| record(&api, number))
        }
        "slow" if is_listing => a_byte_now_and_then(),
        // A list of nothing, so that the rest is asked for.
        _ if is_listing => json_of("[]".into()),
        "million" => json_of(parts(way).into()),
        _ => json_of("[]".into()),
    }
}

fn json_of(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// A list of as many parts as fit. Some kinds fit no record, some do.
fn parts(way: &str) -> String {
    let large;
    let part = match way.rsplit_once('-').map_or("", |(_, shape)| shape) {
        // The longest record, of what takes the most memory as a tree.
        "records" => {
            let chain = format!("{}0{},", r#"{"":"#.repeat(120), "}".repeat(120));
            let chains = chain.repeat(RECORD / chain.len() - 1);
            large = format!(r#"{{"name":"a","location":"a","slug":"a","a":[{chains}0]}}"#);
            &large
        }
        "numbers" => "0",
        "lists" => "[]",
        "empties" => "{}",
        "names" => r#"{"name":"a","location":"a","slug":"a"}"#,
        "nested" => r#"{"name":"a","location":"a","slug":"a","usages":[{},{},{},{},{},{},{},{}]}"#,
        // As many as the operator decodes at all.
        _ => {
            r#"{"name":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","location":"a"}"#
        }
    };
    let times = (LONGEST - 16) / (part.len() + 1);
    format!("[{}{part}]", format!("{part},").repeat(times - 1))
}

/// A page of a list that never ends.
fn page(headers: &HeaderMap, record: impl Fn(usize) -> Value) -> Response {
    let range = headers.get("ranged-data").and_then(|it| it.to_str().ok());
    let range = range.unwrap_or("start=0,results=50");
    let mut numbers = range.split(',').map(|part| {
        let (_, number) = part.split_once('=').unwrap_or_default();
        number.parse().unwrap_or(0_usize)
    });
    let start = numbers.next().unwrap_or(0);
    let count = numbers.next().unwrap_or(50);
    let records: Vec<Value> = (start..start + count).map(record).collect();
    json_of(Value::from(records).to_string().into())
}

/// A record of as many texts as can be, which take much more memory than they have letters.
fn record_of_short_texts(api: &Api, number: usize) -> Value {
    let mut record = large_record(api, number);
    let tags = record["tags"].as_array().unwrap()[58..].to_vec();
    let short = vec![json!("a"); 58];
    record["tags"] = [short, tags].concat().into();
    record["ipAddresses"] = vec![json!({"ipAddress": "a"}); 64].into();
    for field in ["name", "statusMessage"] {
        record[field] = json!("a");
    }
    for field in ["location", "instanceType", "os"] {
        record[field] = Value::Null;
    }
    record
}

/// A record as large as it can be.
fn large_record(api: &Api, number: usize) -> Value {
    let mut tags: Vec<String> = (0..58).map(|n| format!("{n:0>64}")).collect();
    tags.push(format!("fmo-cluster:{}", api.cluster_id));
    tags.push(format!("fmo-order:{number:032x}"));
    let long = "n".repeat(1000);
    json!({
        "uuid": format!("00000000-0000-4000-8000-{number:012x}"),
        "name": long, "status": "delivered", "statusMessage": long,
        "location": {"name": long}, "instanceType": {"name": long}, "os": {"slug": long},
        "ipAddresses": (0..64).map(|n| json!({"ipAddress": format!("{n:0>64}")})).collect::<Vec<_>>(),
        "tags": tags, "createdAt": 1, "deliveredAt": 1,
    })
}

/// Most of an answer at once, and the rest never.
fn a_byte_now_and_then() -> Response {
    let begin = Bytes::from(format!("[{}", " ".repeat(PAGE - 64 * 1024)));
    let rest = stream::unfold((), async |()| {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        Some((Bytes::from_static(b" "), ()))
    });
    let begin = stream::once(async { begin });
    let body = begin.chain(rest).map(Ok::<_, Infallible>);
    json_of(Body::from_stream(body))
}
