//! What a request costs the simulator by itself, in an account of 10,000
//! machines: from the read request to the finished answer, ledger and JSON
//! included, without sockets. `lab load` measures the rest.

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};
use http::Request;
use hyper::body::Bytes;
use serde_json::json;
use simulator::{ClockMode, Direct, Options, Running, start};
use tokio::runtime::Runtime;

const MACHINES: usize = 10_000;
const KEY: &str = "bench";
const SERVERS: &str = "/v3/flexMetal/servers";
const PLACE: &str = "EU: Rotterdam";
const KIND: &str = "bm7.std.8";
/// Its committed pool is empty: an order for it is checked and refused.
const CONTRACT: &str = "EMPTY";

type Failed = Box<dyn Error>;

/// A simulator with all its machines delivered.
struct Bench {
    runtime: Runtime,
    running: Running,
    direct: Direct,
}

impl Bench {
    fn start() -> Result<Self, Failed> {
        let runtime = Runtime::new()?;
        let running = runtime.block_on(start(Options {
            api_key: Some(KEY.to_owned()),
            clock: ClockMode::Driven,
            seed: Some(1),
            ..Options::default()
        }))?;
        let bench = Self {
            direct: running.direct(),
            runtime,
            running,
        };
        // More on-demand quota than any number of rounds uses.
        bench.steer(
            "quota",
            &json!({"location": PLACE, "instanceType": KIND, "quota": u32::MAX}),
        )?;
        let committed = json!({
            "location": PLACE, "instanceType": KIND, "quotaType": "commit",
            "contractId": CONTRACT, "quota": 0,
        });
        bench.steer("quota", &committed)?;
        for number in 0..MACHINES {
            let status = bench.answer(order(&format!("order-{number}"), "")?)?;
            assert_eq!(status, 200, "order {number}");
        }
        bench.steer("clock", &json!({"advanceSeconds": 901}))?;
        Ok(bench)
    }

    fn steer(&self, what: &str, body: &serde_json::Value) -> Result<(), Failed> {
        let url = format!("{}/_simulator/{what}", self.running.control_url());
        let client = reqwest::Client::builder()
            .timeout(Duration::from_secs(30))
            .build()?;
        // Created inside the runtime: it sets a timer.
        let sent = async { client.post(url).json(body).send().await };
        let sent = self.runtime.block_on(sent)?;
        sent.error_for_status()?;
        Ok(())
    }

    fn answer(&self, request: Request<Bytes>) -> Result<u16, Failed> {
        let answer = self.runtime.block_on(self.direct.call(request))?;
        Ok(answer.status().as_u16())
    }

    /// Measures a request that is always answered with the same status.
    fn measure(
        &self,
        group: &mut BenchmarkGroup<'_, WallTime>,
        name: &str,
        request: &Request<Bytes>,
        status: u16,
    ) -> Result<(), Failed> {
        let first = self.answer(request.clone())?;
        if first != status {
            return Err(format!("{name}: answered with {first}").into());
        }
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let answered = self.direct.call(request.clone());
                black_box(self.runtime.block_on(answered))
            });
        });
        Ok(())
    }
}

fn get(target: &str, start: usize) -> Result<Request<Bytes>, http::Error> {
    Request::get(target)
        .header("private-token", KEY)
        .header("ranged-data", format!("start={start},results=50"))
        .body(Bytes::new())
}

fn order(mark: &str, contract: &str) -> Result<Request<Bytes>, http::Error> {
    let body = json!({
        "name": "n1", "location": PLACE, "instanceType": KIND, "os": {"slug": "debian-13"},
        "sshKey": [], "tags": ["fleet", mark], "contractId": contract,
    });
    Request::post(SERVERS)
        .header("private-token", KEY)
        .body(Bytes::from(body.to_string()))
}

fn main() -> Result<(), Failed> {
    let bench = Bench::start()?;
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let mut group = criterion.benchmark_group("simulator");
    let (middle, last) = (MACHINES / 2, MACHINES - 50);
    let both = "?tag=fleet&status=delivered";
    for (name, query, start) in [
        ("page, first", "", 0),
        ("page, middle", "", middle),
        ("page, start 9900", "", 9_900),
        ("page, last", "", last),
        ("page, last by tag", "?tag=fleet", last),
        ("page, last by status", "?status=delivered", last),
        ("page, first by tag and status", both, 0),
        ("page, last by tag and status", both, last),
        ("page, none by status", "?status=failed", 0),
        ("servers by mark", "?tag=order-7777", 0),
    ] {
        bench.measure(
            &mut group,
            name,
            &get(&format!("{SERVERS}{query}"), start)?,
            200,
        )?;
    }
    for (name, target, start) in [
        ("page of tags, first", "/v3/flexMetal/tags", 0),
        ("page of tags, last", "/v3/flexMetal/tags", last),
        ("page of hosts, first", "/v3/host", 0),
        ("page of hosts, start 9900", "/v3/host", 9_900),
        (
            "page of hosts, none by label",
            "/v3/host?labels=role%3D%27db%27",
            0,
        ),
        (
            "one tag, of one machine",
            "/v3/flexMetal/tags/order-7777",
            0,
        ),
        ("one tag, of all machines", "/v3/flexMetal/tags/fleet", 0),
        ("plans", "/v3/flexMetal/plans", 0),
        ("quota usage", "/v3/flexMetal/quota/usage", 0),
        ("health", "/v3/health", 0),
    ] {
        bench.measure(&mut group, name, &get(target, start)?, 200)?;
    }
    let refused = order("refused", CONTRACT)?;
    bench.measure(&mut group, "order, refused for quota", &refused, 422)?;
    // Comes last: it leaves a machine behind each time.
    bench.measure(&mut group, "order, accepted", &order("more", "")?, 200)?;
    group.finish();
    criterion.final_summary();
    bench.runtime.block_on(bench.running.stop());
    Ok(())
}
