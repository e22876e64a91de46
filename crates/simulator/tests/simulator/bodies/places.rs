//! Any bytes outside bodies: headers, queries, parts of paths.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use simulator::Profile;
use tokio::runtime::Runtime;

use super::fixture::{Fixture, KEY, check};
use super::operation::Port;
use crate::wire::Answer;

/// Paths with a part to be filled with anything.
const PATHS: [(&str, &str); 22] = [
    ("GET", "/v3/flexMetal/servers/*"),
    ("DELETE", "/v3/flexMetal/servers/*"),
    ("PATCH", "/v3/flexMetal/servers/*"),
    ("GET", "/v3/flexMetal/servers/*/lshw"),
    ("GET", "/v3/flexMetal/servers/*/rootPassword"),
    ("GET", "/v3/flexMetal/servers/*/commands"),
    ("GET", "/v3/flexMetal/servers/{server}/commands/*"),
    ("POST", "/v3/flexMetal/servers/{server}/tag/*"),
    ("DELETE", "/v3/flexMetal/servers/{server}/tag/*"),
    ("GET", "/v3/flexMetal/tags/*"),
    ("PUT", "/v3/flexMetal/tags/*"),
    ("DELETE", "/v3/flexMetal/tags/*"),
    ("GET", "/v3/flexMetal/location/*/instanceTypes"),
    ("GET", "/v3/account/apiKey/*/whitelist"),
    ("DELETE", "/v3/account/apiKey/2/whitelist/*"),
    ("GET", "/v3/host/*"),
    ("PUT", "/v3/host/*/start"),
    ("POST", "/v3/host/*/os/install"),
    ("GET", "/v3/sshKey/*"),
    ("DELETE", "/v3/sshKey/*"),
    ("GET", "/v3/*"),
    ("GET", "/*"),
];

const STEERING: [(&str, &str); 4] = [
    ("GET", "/_simulator/machines/*"),
    ("PATCH", "/_simulator/machines/*"),
    ("DELETE", "/_simulator/faults/*"),
    ("GET", "/_simulator/*"),
];

/// Where a query or a header counts.
const LISTS: [&str; 9] = [
    "/v3/flexMetal/servers",
    "/v3/flexMetal/servers/{server}/commands",
    "/v3/flexMetal/tags",
    "/v3/flexMetal/usage",
    "/v3/flexMetal/plans",
    "/v3/account/apiKey/2/whitelist",
    "/v3/host",
    "/v3/host/1001/os/installLog",
    "/v3/sshKey",
];

const CONTROL_LISTS: [&str; 5] = [
    "/_simulator/ledger",
    "/_simulator/machines",
    "/_simulator/invariants",
    "/_simulator/",
    "/_simulator/paying",
];

/// Bytes that may stand in a request line: all others end it.
fn line(longest: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        6 => 0x21u8..0x7f,
        2 => Just(b'%'),
        1 => prop::sample::select(b"/?&=+;.#".to_vec()),
        1 => prop::sample::select(b"0123456789abcdefABCDEF".to_vec()),
    ];
    let free = prop::collection::vec(byte, 1..longest);
    prop_oneof![
        free,
        prop::sample::select(ODD.to_vec()).prop_map(|text: &str| text.as_bytes().to_vec()),
    ]
}

/// Texts that have broken programs before.
const ODD: [&str; 28] = [
    "%00",
    "%ff%fe",
    "%ff",
    "%C0%AF",
    "%ED%A0%80",
    "%",
    "%zz",
    "%2",
    "..",
    "%2e%2e%2f",
    "//",
    "a//b",
    "-1",
    "0",
    "007",
    "1e3",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999",
    "%F0%9F%98%80",
    "%0d%0aX:%20y",
    "%20",
    "*",
    "{uuid}",
    "01923B7E-0C1F-7D3A-9C52-0A1B2C3D4E5F",
    "urn:uuid:01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f",
    "%7B01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f%7D",
    "01923b7e0c1f7d3a9c520a1b2c3d4e5f",
];

/// Bytes that may stand in a header.
fn header() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => 0x20u8..0x7f, 1 => 0x80u8..=0xff, 1 => Just(b'\t')];
    let number = prop_oneof![
        any::<u64>().prop_map(|number| number.to_string()),
        Just("-1".to_owned()),
        Just("18446744073709551616".to_owned()),
        Just(String::new()),
        Just(" 3 ".to_owned()),
        Just("+3".to_owned()),
        Just("١".to_owned()),
    ];
    let range = (number.clone(), number.clone())
        .prop_map(|(start, results)| format!("start={start},results={results}").into_bytes());
    let token = (number.clone(), number)
        .prop_map(|(start, until)| format!("p-{start}-{until}").into_bytes());
    prop_oneof![prop::collection::vec(byte, 0..200), range, token]
}

fn each<S: Strategy>(cases: u32, any: S, mut meet: impl FnMut(&mut Fixture, &Runtime, S::Value)) {
    let runtime = Runtime::new().unwrap();
    for profile in [Profile::Document, Profile::Observed] {
        let fixture = std::cell::RefCell::new(runtime.block_on(Fixture::new(profile)));
        let meet = std::cell::RefCell::new(&mut meet);
        let config = Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        };
        let passed = TestRunner::new(config).run(&any, |value| {
            let mut fixture = fixture.borrow_mut();
            (meet.borrow_mut())(&mut fixture, &runtime, value);
            let health = runtime.block_on(fixture.ask(Port::Api, "/v3/health"));
            prop_assert_eq!(health.status, 200);
            Ok(())
        });
        passed.unwrap_or_else(|why| panic!("{why}"));
        runtime.block_on(fixture.borrow_mut().look_at_all());
    }
}

fn request(fixture: &Fixture, method: &str, path: &[u8], headers: &[u8]) -> Vec<u8> {
    let path = match std::str::from_utf8(path) {
        Ok(text) => fixture.fill(text).into_bytes(),
        Err(_) => path.to_vec(),
    };
    let start = [
        method.as_bytes(),
        b" ",
        &path,
        b" HTTP/1.1\r\nHost: localhost\r\n",
    ]
    .concat();
    [start.as_slice(), headers, b"Content-Length: 2\r\n\r\n{}"].concat()
}

fn with_key() -> Vec<u8> {
    format!("PRIVATE-TOKEN: {KEY}\r\n").into_bytes()
}

/// A text that is not a URI is refused by HTTP itself, with an empty 400.
fn check_place(port: Port, answer: &Answer, path: &[u8]) {
    let foreign = path.iter().any(|byte| b"\"<>\\^`{|}#".contains(byte));
    if !(foreign && answer.status == 400 && answer.body.is_empty()) {
        check(port, answer);
    }
}

fn in_path(template: &str, part: &[u8]) -> Vec<u8> {
    let (before, after) = template.split_once('*').unwrap();
    [before.as_bytes(), part, after.as_bytes()].concat()
}

#[test]
fn any_part_of_a_path_is_answered() {
    let apis = PATHS.map(|(method, path)| (Port::Api, method, path));
    let all: Vec<_> = STEERING
        .map(|(method, path)| (Port::Control, method, path))
        .into_iter()
        .chain(apis)
        .collect();
    let any = (prop::sample::select(all), line(120));
    each(
        800,
        any,
        |fixture, runtime, ((port, method, path), part)| {
            let path = in_path(path, &part);
            let bytes = request(fixture, method, &path, &with_key());
            let answer = runtime.block_on(fixture.raw(port, &bytes));
            check_place(port, &answer, &path);
        },
    );
}

#[test]
fn any_query_is_answered() {
    let apis = LISTS.map(|path| (Port::Api, path));
    let all: Vec<_> = CONTROL_LISTS
        .map(|path| (Port::Control, path))
        .into_iter()
        .chain(apis)
        .collect();
    let names = prop::sample::select(vec![
        "status",
        "tag",
        "type",
        "startDate",
        "endDate",
        "labels",
        "account",
        "since",
        "prefix",
        "method",
        "machine",
        "wipeDisk",
        "",
        "%ff",
    ]);
    let dates = prop::sample::select(vec![
        "0000-01-01",
        "-999-01-01",
        "9999-12-31",
        "2024-02-30",
        "2024-13-01",
        "1969-12-31",
        "2024-1-1",
    ]);
    let value = prop_oneof![
        line(60),
        dates.prop_map(|date: &str| date.as_bytes().to_vec())
    ];
    let pair = (names, value)
        .prop_map(|(name, value): (&str, _)| [name.as_bytes(), b"=", &value].concat());
    let any = (
        prop::sample::select(all),
        prop::collection::vec(prop_oneof![3 => pair, 1 => line(60)], 0..5),
    );
    each(800, any, |fixture, runtime, ((port, path), parts)| {
        let path = [path.as_bytes(), b"?", &parts.join(&b'&')].concat();
        let bytes = request(fixture, "GET", &path, &with_key());
        let answer = runtime.block_on(fixture.raw(port, &bytes));
        check_place(port, &answer, &path);
    });
}

#[test]
fn any_header_is_answered() {
    let names = [
        "RANGED-DATA",
        "PAGE-TOKEN",
        "PRIVATE-TOKEN",
        "X-Forwarded-For",
        "Content-Type",
    ];
    let headers = (prop::sample::select(names.to_vec()), header());
    let any = (
        prop::sample::select(LISTS.to_vec()),
        prop::collection::vec(headers, 1..4),
        any::<bool>(),
    );
    each(500, any, |fixture, runtime, (path, headers, paging)| {
        let paging = if paging { "token" } else { "range" };
        let body = format!("{{\"hostPaging\":\"{paging}\"}}");
        let turn = fixture.send(
            Port::Control,
            "POST",
            "/_simulator/switches",
            body.as_bytes(),
        );
        assert_eq!(runtime.block_on(turn).status, 200);
        let own = headers.iter().any(|(name, _)| *name == "PRIVATE-TOKEN");
        let mut lines = if own { Vec::new() } else { with_key() };
        for (name, value) in &headers {
            lines.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        let bytes = request(fixture, "GET", path.as_bytes(), &lines);
        let answer = runtime.block_on(fixture.raw(Port::Api, &bytes));
        check(Port::Api, &answer);
        if own {
            assert_eq!(answer.status, 403, "nobody guesses the key");
        }
    });
}

#[tokio::test]
async fn padded_or_altered_key_is_refused() {
    let mut fixture = Fixture::new(Profile::Document).await;
    for key in [
        "",
        "\u{a0}",
        "bodies-key,",
        "bodies-key\0x",
        "BODIES-KEY",
        "\"bodies-key\"",
        "bodies-key bodies-key",
    ] {
        let head =
            format!("GET /v3/sshKey HTTP/1.1\r\nHost: localhost\r\nPRIVATE-TOKEN: {key}\r\n\r\n");
        let mut apart = fixture.apart(Port::Api).await;
        let answer = apart.send(head.as_bytes(), false).await.unwrap();
        // A NUL is refused by HTTP itself, and ends the connection.
        let expected = if key.contains('\0') { 400 } else { 403 };
        assert_eq!(answer.status, expected, "{key:?}");
    }
    fixture.look_at_all().await;
}
