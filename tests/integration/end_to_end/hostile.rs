//! A malicious hosting API: endless answers, answers with a million items, or one byte at a time.

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

use super::ssh_keys::public_key;

/// The longest answer of any kind that the operator reads.
const LONGEST: usize = 8 << 20;
/// The longest record that the operator reads.
const RECORD: usize = 128 << 10;
/// The approximate maximum size of a page.
const PAGE: usize = 1 << 20;

/// A server whose answers depend on the first part of the base URL's path. It ends when dropped.
pub(super) struct HostileApi {
    address: SocketAddr,
    answered: AnswerCounts,
    _serving: JoinSet<()>,
}

/// How many answers of each kind were started.
type AnswerCounts = Arc<Mutex<BTreeMap<String, usize>>>;

#[derive(Clone)]
struct HostileApiState {
    cluster_id: String,
    answered: AnswerCounts,
}

impl HostileApi {
    /// Starts the API. Its servers have the tag of this cluster.
    pub(super) async fn start(cluster_id: &str) -> Self {
        let answered = AnswerCounts::default();
        let api = HostileApiState {
            cluster_id: cluster_id.to_owned(),
            answered: answered.clone(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(api);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            // The task ends with this set.
            let _ = axum::serve(listener, router).await;
        });
        Self {
            address,
            answered,
            _serving: serving,
        }
    }

    /// The base URL of an account with answers of this kind.
    pub(super) fn url(&self, way: &str) -> String {
        format!("http://{}/{way}", self.address)
    }

    /// How many answers of this kind were started.
    pub(super) fn count_answers(&self, way: &str) -> usize {
        let answered = self.answered.lock().unwrap();
        let of_way = answered.iter().filter(|(name, _)| name.starts_with(way));
        of_way.map(|(_, number)| number).sum()
    }
}

async fn answer(State(api): State<HostileApiState>, request: Request) -> Response {
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
            page(request.headers(), usize::MAX, |number| record(&api, number))
        }
        "largest" => largest(&api, path, request.headers()),
        "slow" if is_listing => answer_slowly(),
        // An empty list, so that the operator requests the rest too.
        _ if is_listing => json_of("[]".into()),
        "million" => json_of(parts(way).into()),
        _ => json_of("[]".into()),
    }
}

fn json_of(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// A list with as many items as fit. Some kinds do not fit a record.
fn parts(way: &str) -> String {
    let large;
    let part = match way.rsplit_once('-').map_or("", |(_, shape)| shape) {
        // The longest record, with the content that needs the most memory when parsed.
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
        // As many items as the operator decodes.
        _ => {
            r#"{"name":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","location":"a"}"#
        }
    };
    let times = (LONGEST - 16) / (part.len() + 1);
    format!("[{}{part}]", format!("{part},").repeat(times - 1))
}

/// A page of a list with this many records.
fn page(headers: &HeaderMap, most: usize, record: impl Fn(usize) -> Value) -> Response {
    let range = headers.get("ranged-data").and_then(|it| it.to_str().ok());
    let range = range.unwrap_or("start=0,results=50");
    let mut numbers = range.split(',').map(|part| {
        let (_, number) = part.split_once('=').unwrap_or_default();
        number.parse().unwrap_or(0_usize)
    });
    let start = numbers.next().unwrap_or(0);
    let count = numbers.next().unwrap_or(50);
    let end = most.min(start + count);
    let records: Vec<Value> = (start..end).map(record).collect();
    json_of(Value::from(records).to_string().into())
}

/// The number of hosts in this API, and the ID of the first one.
pub(super) const HOSTS: usize = 150;
pub(super) const FIRST_HOST: usize = 1000;

/// Every kind of list, with each record as large as a status could need.
fn largest(api: &HostileApiState, path: &str, headers: &HeaderMap) -> Response {
    let long = "l".repeat(1000);
    // The longest names that a catalog shows begin with a number.
    let name = |number: usize| format!("{number:l>64}");
    let list = |most: usize, record: &dyn Fn(usize) -> Value| {
        let records: Vec<Value> = (0..most).map(record).collect();
        json_of(Value::from(records).to_string().into())
    };
    let one = |record: Value| json_of(record.to_string().into());
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match parts[..] {
        ["flexMetal", "servers"] => page(headers, 40, |number| large_record(api, number)),
        ["flexMetal", "servers", uuid] => {
            let number = uuid.rsplit('-').next().unwrap_or_default();
            one(large_record(
                api,
                usize::from_str_radix(number, 16).unwrap_or(0),
            ))
        }
        ["host"] => page(headers, HOSTS, large_host),
        ["host", number] => {
            let number = number.parse().unwrap_or(FIRST_HOST);
            one(large_host(number - FIRST_HOST))
        }
        ["flexMetal", "tags"] => page(
            headers,
            50,
            |number| json!({"tag": format!("{number:0>64}"), "resources": {"count": 1}}),
        ),
        ["sshKey"] => list(1, &|_| {
            let uuid = "00000000-0000-4000-8000-00000000000a";
            json!({"uuid": uuid, "name": long, "publicKey": public_key('A')})
        }),
        ["account", "apiKey", _, "whitelist"] => page(headers, 250, |number| {
            let address = format!("2001:db8:2222:2222:2222:2222:{number:x}:2222");
            json!({"id": usize::MAX / 2 - number, "ipStart": address, "ipEnd": address, "comments": long})
        }),
        ["flexMetal", "location"] => list(
            200,
            &|number| json!({"id": number, "name": name(number), "countryShortName": long}),
        ),
        ["operatingsystem"] => list(
            200,
            &|number| json!({"id": number, "name": long, "slug": name(number)}),
        ),
        ["flexMetal", "plans"] => list(100, &|number| {
            let places = (0..50).map(|n| json!({"name": name(n), "availability": &long[..100]}));
            json!({
                "name": name(number), "locations": places.collect::<Vec<_>>(),
                "hardwareDetails": {"cpu": {"name": long, "cpuCount": 2}},
            })
        }),
        ["flexMetal", "quota", "usage"] => list(50, &|number| {
            let usage = json!({
                "instanceType": {"name": name(number)}, "quotaType": "onDemand",
                "contractId": name(number), "quota": 2_147_483_647, "usage": 2_147_483_647,
            });
            json!({"location": {"name": name(number)}, "quotaUsage": [usage]})
        }),
        _ => json_of("[]".into()),
    }
}

/// A host with longer texts and more addresses and disks than a status can contain.
/// 150 larger hosts would exceed the limit for the accounts of one namespace.
fn large_host(number: usize) -> Value {
    let long = "h".repeat(1000);
    let addresses = (0..70).map(|n| json!({"ipAddress": format!("{n:0>500}"), "private": true}));
    let disks =
        (0..40).map(|n| json!({"diskType": format!("{n:0>250}"), "model": format!("{n:0>250}")}));
    json!({
        "id": FIRST_HOST + number, "serverType": 1, "serverId": usize::MAX / 2,
        "serverName": long, "liveHostName": long, "osId": usize::MAX / 2, "dcLocationId": usize::MAX / 2,
        "instanceType": {"name": long}, "brand": long, "model": long, "rackName": long,
        "cpu": {"info": long, "socket": 8, "cores": 1024, "threads": 2048},
        "memory": vec![json!({"size": 1_099_511_627_776_u64}); 128],
        "disk": disks.collect::<Vec<_>>(), "ipAddress": addresses.collect::<Vec<_>>(),
        "status": long, "installStatus": long, "uptime": 100_000,
    })
}

/// A record with as many short texts as possible, which need much more memory than they have letters.
fn record_of_short_texts(api: &HostileApiState, number: usize) -> Value {
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

/// A record of the maximum size.
fn large_record(api: &HostileApiState, number: usize) -> Value {
    let mut tags: Vec<String> = (0..58).map(|n| format!("{n:0>64}")).collect();
    tags.push(format!("fmo-cluster:{}", api.cluster_id));
    tags.push(format!("fmo-order:{number:052x}"));
    let long = "n".repeat(1000);
    json!({
        "uuid": format!("00000000-0000-4000-8000-{number:012x}"),
        "name": long, "status": "delivered", "statusMessage": long,
        "location": {"name": long}, "instanceType": {"name": long}, "os": {"slug": long},
        "ipAddresses": (0..64).map(|n| json!({"ipAddress": format!("{n:0>64}")})).collect::<Vec<_>>(),
        "tags": tags, "createdAt": 1, "deliveredAt": 1,
    })
}

/// Sends most of an answer at once, and never sends the rest.
fn answer_slowly() -> Response {
    let begin = Bytes::from(format!("[{}", " ".repeat(PAGE - 64 * 1024)));
    let rest = stream::unfold((), async |()| {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        Some((Bytes::from_static(b" "), ()))
    });
    let begin = stream::once(async { begin });
    let body = begin.chain(rest).map(Ok::<_, Infallible>);
    json_of(Body::from_stream(body))
}
