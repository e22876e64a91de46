//! One call is at most one request on the wire, whatever the other side does.

use std::time::Duration;

use super::{
    KEY, ORDER_TAG, id, options, order, record,
    wire_server::{Reply, WireServer, http, http_with},
};
use crate::Client;
use hosting_types::{Error, OrderResult};

fn client(url: &str) -> Client {
    Client::new(options(url)).unwrap()
}

fn created() -> Vec<u8> {
    http(200, &format!("[{}]", record()))
}

/// Sends one order to a server with this reply, and checks that exactly one request came.
async fn order_once(reply: Reply) -> OrderResult {
    let server = WireServer::start(vec![reply]).await;
    let outcome = client(&server.url()).order(&order(), ORDER_TAG).await;
    let requests = server.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert_eq!(server.connections(), 1);
    assert!(requests[0].starts_with("POST /v3/flexMetal/servers HTTP/1.1\r\n"));
    outcome
}

#[tokio::test]
async fn order_without_whole_answer_is_sent_once() {
    let part = |bytes: &[u8]| Reply::SendAndClose(bytes.to_vec());
    let answer = created();
    let head = answer
        .windows(4)
        .position(|end| end == b"\r\n\r\n")
        .unwrap();
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[{\"uu\r\n";
    for (what, reply) in [
        ("closed", Reply::Close),
        ("reset", Reply::Reset),
        ("half a head", part(&answer[..head / 2])),
        ("a head alone", part(&answer[..head + 4])),
        ("half a body", part(&answer[..answer.len() - 9])),
        ("a broken chunk", part(chunked.as_bytes())),
        ("another protocol", part(b"SSH-2.0-server\r\n")),
    ] {
        let outcome = order_once(reply).await;
        assert!(
            matches!(outcome, OrderResult::Unknown(_)),
            "{what}: {outcome:?}"
        );
    }
}

#[tokio::test]
async fn truncated_refusal_is_still_a_refusal() {
    let answer = http(422, r#"{"errorCode":1,"errorMessage":"no","errors":[]}"#);
    let half = answer[..answer.len() - 9].to_vec();
    let outcome = order_once(Reply::SendAndClose(half)).await;
    assert!(
        matches!(outcome, OrderResult::Refused(Error::Refused(_))),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn redirects_are_not_followed_with_the_key() {
    for status in [301, 302, 303, 307, 308] {
        let other = WireServer::start(vec![Reply::Send(created())]).await;
        let target = format!("{}/v3/flexMetal/servers", other.url());
        let redirect = http_with(status, &[("Location", &target)], "");
        let server = WireServer::start(vec![Reply::Send(redirect)]).await;
        let client = client(&server.url());

        let outcome = client.order(&order(), ORDER_TAG).await;
        assert!(matches!(outcome, OrderResult::Unknown(_)), "{outcome:?}");
        let error = client.server(&id()).await.unwrap_err();
        assert!(matches!(error, Error::Unexpected(_)), "{error:?}");
        let error = client.release(&id()).await.unwrap_err();
        assert!(matches!(error, Error::Unexpected(_)), "{error:?}");

        assert_eq!(server.requests().len(), 3);
        assert_eq!(other.connections(), 0);
    }
}

#[tokio::test]
async fn a_change_never_meets_a_stale_connection() {
    // Each connection is closed after its first answer, without announcement.
    let server = WireServer::start(vec![Reply::SendAndClose(created())]).await;
    let client = client(&server.url());
    for call in 1..=5 {
        let outcome = client.order(&order(), ORDER_TAG).await;
        assert!(matches!(outcome, OrderResult::Created(_)), "{outcome:?}");
        assert_eq!(server.requests().len(), call);
    }
    client.release(&id()).await.unwrap();
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn changes_use_no_connection_twice_and_questions_do() {
    let server = WireServer::start(vec![Reply::Send(created())]).await;
    let client = client(&server.url());
    for _ in 0..3 {
        client.server(&id()).await.unwrap();
    }
    assert_eq!((server.requests().len(), server.connections()), (3, 1));
    for _ in 0..3 {
        client.release(&id()).await.unwrap();
    }
    assert_eq!((server.requests().len(), server.connections()), (6, 4));
}

#[tokio::test]
async fn read_on_dying_connection_is_not_repeated() {
    for death in [Reply::Close, Reply::Reset] {
        let server = WireServer::start(vec![Reply::Send(created()), death]).await;
        let client = client(&server.url());
        client.server(&id()).await.unwrap();
        let error = client.server(&id()).await.unwrap_err();
        assert!(matches!(error, Error::Interrupted(_)), "{error:?}");
        assert_eq!((server.requests().len(), server.connections()), (2, 1));
    }
}

#[tokio::test]
async fn a_body_that_stops_ends_with_the_deadline() {
    let started = http_with(200, &[], "").len();
    let mut begun = http(200, "[             ");
    begun.truncate(started + 1);
    // An answer that never starts is a fault of the simulator: a delay.
    let server = WireServer::start(vec![Reply::Send(begun)]).await;
    let mut options = options(&server.url());
    options.order_timeout = Duration::from_millis(200);
    options.read_timeout = Duration::from_millis(200);
    options.mutation_timeout = Duration::from_millis(200);
    let client = Client::new(options).unwrap();
    let limit = Duration::from_secs(20);
    let calls = async {
        let outcome = client.order(&order(), ORDER_TAG).await;
        assert!(matches!(outcome, OrderResult::Unknown(_)), "{outcome:?}");
        let error = client.server(&id()).await.unwrap_err();
        assert!(matches!(error, Error::Interrupted(_)), "{error:?}");
        let error = client.release(&id()).await.unwrap_err();
        assert!(matches!(error, Error::Interrupted(_)), "{error:?}");
    };
    tokio::time::timeout(limit, calls).await.unwrap();
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn the_cap_is_exact() {
    let (change, read) = (64 << 10, 1 << 20);
    let padded = |length| {
        let record = record().to_string();
        http(
            200,
            &format!("{record}{}", " ".repeat(length - record.len())),
        )
    };
    let lengths = [change, change + 1, change + 1, read, read + 1];
    let replies = lengths.map(|length| Reply::SendAndClose(padded(length)));
    let server = WireServer::start(replies.into()).await;
    let client = client(&server.url());
    client.release(&id()).await.unwrap();
    let error = client.release(&id()).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
    // The order may have been made.
    let outcome = client.order(&order(), ORDER_TAG).await;
    assert!(matches!(outcome, OrderResult::Unknown(_)), "{outcome:?}");
    client.server(&id()).await.unwrap();
    let error = client.server(&id()).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
}

#[tokio::test]
async fn stalled_changes_use_no_read_memory() {
    let cap = 64 << 10;
    let record = record().to_string();
    let mut begun = http(201, &format!("{record}{}", " ".repeat(cap - record.len())));
    begun.pop();
    let server = WireServer::start(vec![Reply::Send(begun)]).await;
    let options = options(&server.url());
    let gates = options.gates.clone();
    let client = Client::new(options).unwrap();
    let (order, id) = (order(), id());
    let calls = futures::future::join3(
        client.order(&order, ORDER_TAG),
        client.release(&id),
        client.add_tag(&id, "a"),
    );
    let held = async {
        while gates.gate_for(false).reserved_bytes() < 3 * (cap - 1) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let all = tokio::time::timeout(Duration::from_secs(60), async {
        tokio::select! {
            _ = calls => panic!("none of them ends"),
            () = held => {}
        }
    });
    all.await.unwrap();
}

#[tokio::test]
async fn key_is_sent_in_one_header_only() {
    let server = WireServer::start(vec![Reply::Send(created())]).await;
    let client = client(&server.url());
    client.order(&order(), ORDER_TAG).await;
    client.server(&id()).await.unwrap();
    for request in server.requests() {
        assert_eq!(request.matches(KEY).count(), 1, "{request}");
        assert!(
            request.contains(&format!("private-token: {KEY}\r\n")),
            "{request}"
        );
        assert!(request.contains("user-agent: flexmetal-operator/"));
        assert!(!request.to_lowercase().contains("accept-encoding"));
    }
    assert!(!format!("{client:?}").contains(KEY));
}
