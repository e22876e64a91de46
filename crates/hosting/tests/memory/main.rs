//! The memory that large bodies and answers take: peaks of the heap, counted by this program's allocator. One test
//! only, since it counts for the process.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test program: what is not as expected ends it"
)]

use std::io::Write;
use std::iter;
use std::time::Duration;

use hosting::{Client, ClientOptions, Dial, page::HostCursor};
use hosting_types::{ApiKey, BaseUrl, Error, Page, ServerFilter};
use peak_alloc::PeakAlloc;
use serde_json::json;
use simulator::{ClockMode, Options, Running, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const MIB: usize = 1 << 20;
/// The longest body that the simulator accepts.
const BODY: usize = MIB;
/// The longest listing that the client accepts: one of hosts.
const ANSWER: usize = 8 * MIB;

/// The longest record of an answer that the client reads.
const RECORD: usize = MIB / 8;

const KEY: &str = "memory-key";

/// How much the peak rises during `work`, in bytes.
async fn rise<T>(work: impl Future<Output = T>) -> (usize, T) {
    HEAP.reset_peak_usage();
    let before = HEAP.current_usage();
    let done = work.await;
    (HEAP.peak_usage().saturating_sub(before), done)
}

/// Prints a figure, and checks that it is at most `factor` times the limit.
fn check_memory(what: &str, rise: usize, cap: usize, factor: usize) {
    // Directly to the terminal, so that it is visible without --nocapture.
    let _ = writeln!(
        std::io::stderr(),
        "memory: {what}: {:.1} MiB, {:.1} times the cap of {} KiB",
        megabytes(rise),
        megabytes(rise) / megabytes(cap),
        cap >> 10,
    );
    assert!(rise <= factor * cap, "{what} costs {rise} bytes");
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / MIB as f64
}

/// Sends a request in small pieces; returns its status and the length of the answer.
async fn send(
    running: &Running,
    control: bool,
    head: &str,
    pieces: &[u8],
    times: usize,
) -> (u16, usize) {
    let address = if control {
        running.control
    } else {
        running.api
    };
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = pieces.len() * times;
    let head = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nPRIVATE-TOKEN: {KEY}\r\nContent-Length: {length}\r\n\r\n"
    );
    let (mut reader, mut writer) = stream.split();
    let sending = async {
        writer.write_all(head.as_bytes()).await?;
        for _ in 0..times {
            writer.write_all(pieces).await?;
        }
        Ok::<(), std::io::Error>(())
    };
    let mut start = [0u8; 12];
    let mut rest = vec![0u8; 16 * 1024];
    let reading = async {
        reader.read_exact(&mut start).await.unwrap();
        let mut read = 0;
        loop {
            match reader.read(&mut rest).await.unwrap() {
                0 => return read,
                more => read += more,
            }
        }
    };
    let (sent, answer) = tokio::join!(sending, reading);
    sent.unwrap();
    let status = std::str::from_utf8(&start[9..12]).unwrap();
    (status.parse().unwrap(), answer)
}

/// A body just under the limit: a start, one part repeated, an end.
fn filled(start: &str, part: &str, end: &str) -> Vec<u8> {
    let times = (BODY - start.len() - end.len()) / part.len();
    let body = format!("{start}{}{end}", part.repeat(times));
    body.into_bytes()
}

const ORDER: &str = r#"{"name":"x","location":"EU: Rotterdam","instanceType":"bm7.std.8","#;

async fn bodies(running: &Running) {
    let order = "POST /v3/flexMetal/servers";
    let blanks = vec![b' '; 64 * 1024];
    for (control, head) in [(false, order), (true, "POST /_simulator/faults")] {
        let large = send(running, control, head, &blanks, 1600);
        let (peak, (status, _)) = rise(large).await;
        assert_eq!(status, 413, "{head}");
        check_memory(&format!("100 MiB to {head}"), peak, BODY, 4);
    }
    let shapes: [(&str, Vec<u8>, u16); 9] = [
        ("deep arrays", filled("", "[", ""), 400),
        ("deep objects", filled("", "{\"a\":", ""), 400),
        (
            "many small objects",
            filled("{\"tags\":[", "{\"a\":0},", "0]}"),
            422,
        ),
        ("many empty lists", filled("{\"tags\":[", "[],", "0]}"), 422),
        (
            "many numbers as keys",
            filled("{\"sshKey\":[", "0,", "0]}"),
            422,
        ),
        (
            "many tags",
            filled(
                &format!("{ORDER}\"os\":{{\"slug\":\"debian-13\"}},\"sshKey\":[],\"tags\":["),
                "\"t\",",
                "\"t\"]}",
            ),
            422,
        ),
        (
            "many partitions",
            filled(
                &format!("{ORDER}\"os\":{{\"slug\":\"debian-13\",\"partitions\":["),
                "{\"target\":0},",
                "0]}}",
            ),
            422,
        ),
        ("one long name", filled("{\"name\":\"", "n", "\"}"), 422),
        ("many unknown fields", numbered(), 422),
    ];
    for (what, body, expected) in shapes {
        let (peak, (status, answer)) = rise(send(running, false, order, &body, 1)).await;
        assert_eq!(status, expected, "{what}");
        assert!(answer < 64 * 1024, "{what}: an answer of {answer} bytes");
        // A small object is a whole node of a tree: 8 bytes become 650. This is the most that an order can occupy for a
        // moment.
        check_memory(&format!("1 MiB of {what}"), peak, BODY, 100);
    }
    // None of it stays, also not in the ledger.
    let large = filled(
        &format!("{ORDER}\"tags\":["),
        "\"tttttttttttttttt\",",
        "\"t\"]}",
    );
    let before = HEAP.current_usage();
    for _ in 0..20 {
        let (status, _) = send(running, false, order, &large, 1).await;
        assert_eq!(status, 422);
    }
    let kept = HEAP.current_usage().saturating_sub(before);
    check_memory("20 refused orders of 1 MiB, afterwards", kept, BODY, 1);
}

fn numbered() -> Vec<u8> {
    let fields: Vec<String> = (0..80_000).map(|n| format!("\"f{n}\":0")).collect();
    format!("{{{}}}", fields.join(",")).into_bytes()
}

async fn answers(running: &Running, client: &Client) {
    let filter = ServerFilter::default();
    let fault = |fault: serde_json::Value| {
        json!({"match": {"path": "/v3/flexMetal/servers"}, "fault": fault, "count": 1}).to_string()
    };
    let large = fault(json!({"oversize": {"bytes": 100 * MIB}}));
    let (status, _) = send(
        running,
        true,
        "POST /_simulator/faults",
        large.as_bytes(),
        1,
    )
    .await;
    assert_eq!(status, 200);
    let asked = client.servers(&filter, Page::first());
    let (peak, result) = rise(asked).await;
    assert!(matches!(result, Err(Error::TooLarge { .. })), "{result:?}");
    check_memory("an answer of 100 MiB", peak, ANSWER, 4);
}

/// Serves one answer of about this length, and reads it with the client.
async fn shaped(part: &str, first: &str, last: &str, long: usize) -> (usize, Result<usize, Error>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client(&format!("http://{}", listener.local_addr().unwrap()));
    let times = long / part.len();
    let length = first.len() + part.len() * times + last.len();
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0u8; 4096];
        let _ = stream.read(&mut request).await.unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{first}");
        let blocks = iter::repeat_n(part.repeat(1024), times / 1024);
        let rest = part.repeat(times % 1024) + last;
        for text in iter::once(head).chain(blocks).chain([rest]) {
            // The client may have read enough.
            if stream.write_all(text.as_bytes()).await.is_err() {
                break;
            }
        }
    };
    let asked = async {
        let page = HostCursor::Range(Page::first());
        let answer = client.hosts(None, &page);
        tokio::join!(serve, answer).1.map(|page| page.hosts.len())
    };
    rise(asked).await
}

fn client(url: &str) -> Client {
    let base = BaseUrl::parse(url).unwrap();
    let mut options = ClientOptions::new(base, ApiKey::parse(KEY.as_bytes()).unwrap());
    options.dial = Dial::Anywhere;
    Client::new(options).unwrap()
}

#[tokio::test]
async fn large_answers_cost_few_times_their_cap() {
    let running = start(Options {
        api_key: Some(KEY.to_owned()),
        clock: ClockMode::Driven,
        delivery: simulator::Delivery::exactly(Duration::from_secs(1)),
        seed: Some(1),
        ..Options::default()
    })
    .await
    .unwrap();
    let warm = client(&running.api_url());
    assert!(
        warm.servers(&ServerFilter::default(), Page::first())
            .await
            .is_ok()
    );
    bodies(&running).await;
    answers(&running, &warm).await;
    for (what, part, first, last) in [
        ("small objects", "{\"a\":0},", "[", "0]"),
        ("empty lists", "[],", "[", "0]"),
        ("lists of one", "[0],", "[", "0]"),
        ("numbers", "0,", "[", "0]"),
        ("deep lists", "[", "", ""),
        ("deep objects", "{\"a\":", "", ""),
    ] {
        let (peak, result) = shaped(part, first, last, ANSWER - 16).await;
        assert!(
            matches!(result, Err(Error::Undecodable { .. })),
            "{what}: {result:?}"
        );
        check_memory(&format!("an answer of 8 MiB of {what}"), peak, ANSWER, 4);
    }
    // The largest record that the client reads at all. Nested objects take the most.
    let chain = format!("{}0{},", "{\"\":".repeat(120), "}".repeat(120));
    let (first, last) = ("[{\"id\":1,\"a\":[", "0]}]");
    let (peak, result) = shaped(&chain, first, last, RECORD - 64).await;
    assert!(matches!(result, Ok(1)), "{result:?}");
    check_memory("a record of 128 KiB of deep objects", peak, RECORD, 140);
}
