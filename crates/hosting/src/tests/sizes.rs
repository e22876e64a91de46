//! How much of an answer is read, and how much memory it may need.

use serde_json::json;

use super::{
    KEY,
    every_call::{NAMES, call},
    id, options, record,
    script::{Script, answer},
    wire_server::{Reply, WireServer},
};
use crate::{
    Client,
    body::{RECORD, RECORDS},
    transport::Response,
};
use hosting_types::{
    Error, Page, ServerFilter,
    identity::{ApiKeyId, WhitelistEntryId},
    list::list_size,
    whitelist::{AddressRange, WhitelistRule},
};

const MIB: usize = 1 << 20;

async fn refused(response: Response) -> String {
    let (client, _) = Script::client(vec![Ok(response)]);
    let error = client.server(&id()).await.unwrap_err();
    error.refusal().unwrap().message.clone()
}

#[tokio::test]
async fn oversized_error_record_loses_its_text() {
    for (length, expected) in [(60, "x"), (70, "Not Found")] {
        let words = "x".repeat(length * 1024);
        let record = json!({"errorCode": 1, "errorMessage": words, "errors": []});
        let message = refused(answer(404, record.to_string())).await;
        assert!(message.starts_with(expected), "{length}: {message}");
    }
    // A cut body shows no secret.
    let page = format!("{}{KEY}", " ".repeat(64 * 1024 - 10));
    let text = refused(answer(502, page)).await;
    assert!(!text.contains(&KEY[..4]), "{text}");
}

#[tokio::test]
async fn endless_error_body_keeps_its_status() {
    let begin = b"HTTP/1.1 503 No\r\nContent-Length: 1099511627776\r\n\r\nout of order ".to_vec();
    let server = WireServer::start(vec![Reply::Flood(begin)]).await;
    let client = Client::new(options(&server.url())).unwrap();
    let error = client.locations().await.unwrap_err();
    let Error::Server(refusal) = &error else {
        panic!("{error:?}");
    };
    assert_eq!(refusal.to_string(), "status 503: Service Unavailable");
}

#[tokio::test]
async fn only_what_has_no_pages_may_be_large() {
    // `hosts` has pages, but may choose their size.
    // The answer to a change is one record, or all addresses of a key.
    let small = [
        "add_tag",
        "change_password",
        "create_ssh_key",
        "create_tag",
        "delete_ssh_key",
        "delete_tag",
        "order",
        "reinstall",
        "release",
        "remove_from_whitelist",
        "remove_tag",
        "rename_tag",
        "reset_password",
        "restart_host",
        "send_command",
        "start_host",
        "stop_host",
        "validate_password_reset",
    ];
    let large = [
        "locations",
        "plans",
        "operating_systems",
        "instance_types",
        "quota_usage",
        "usage",
        "capacity_commits",
        "ssh_keys",
        "hosts",
    ];
    for name in NAMES {
        let (client, script) = Script::client(vec![Ok(answer(500, ""))]);
        call(&client, name).await;
        let request = script.requests().remove(0);
        let cap = match name {
            "install_host" => 64 * 1024 + 2 * request.body.map_or(0, |body| body.len()),
            "add_to_whitelist" | "change_whitelist" => 256 * 1024,
            name if small.contains(&name) => 64 * 1024,
            name if large.contains(&name) => 8 * MIB,
            _ => MIB,
        };
        assert_eq!(request.caps.success, cap, "{name}");
    }
}

#[tokio::test]
async fn the_largest_real_answers_are_read() {
    let slug = "a\\\"[{,".repeat(100);
    let systems: Vec<_> = (0..2000)
        .map(|id| json!({"id": id, "slug": slug, "name": slug}))
        .collect();
    let (client, _) = Script::client(vec![Ok(answer(200, json!(systems).to_string()))]);
    assert_eq!(client.operating_systems().await.unwrap().len(), 2000);

    let mut server = record();
    server["tags"] = (0..60).map(|n| format!("{n:064}")).collect();
    server["ipAddresses"] = (0..16)
        .map(|n| json!({"ipAddress": format!("2001:db8::{n}")}))
        .collect();
    server["statusMessage"] = json!("x".repeat(4096));
    let ordered = json!([&server]).to_string();
    let (client, _) = Script::client(vec![Ok(answer(201, ordered.clone()))]);
    assert!(client.release(&id()).await.is_ok());
    assert!(ordered.len() < 16 * 1024, "well below the cap of a change");
    let page = json!(vec![server; 50]).to_string();
    let (client, _) = Script::client(vec![Ok(answer(200, page))]);
    let servers = client
        .servers(&ServerFilter::default(), Page::first())
        .await;
    assert_eq!(servers.unwrap().len(), 50);

    let entry =
        json!({"id": 1, "ipRange": "203.0.113.0/24", "comments": "c".repeat(200), "active": 1});
    let entries = json!(vec![entry; 900]).to_string();
    let (client, _) = Script::client(vec![Ok(answer(200, entries))]);
    let rule = WhitelistRule {
        range: AddressRange::Net("203.0.113.0/24".parse().unwrap()),
        comments: None,
        active: true,
    };
    let changed = client.change_whitelist(ApiKeyId(1), WhitelistEntryId(1), &rule);
    assert_eq!(changed.await.unwrap().len(), 900);

    let usage = json!({"server": record(), "startedAt": "2024-10-04T08:35:05.000Z",
        "endedAt": "2024-10-04T08:49:08.000Z", "totalHours": 14, "totalMinutes": 823,
        "bandwidthIn": 17, "bandwidthOut": 0, "totalEgressBytes": 4_000_000_000_000_i64});
    let month = json!(vec![usage; 8000]).to_string();
    let (client, _) = Script::client(vec![Ok(answer(200, month))]);
    assert_eq!(client.usage(None, None).await.unwrap().len(), 8000);
}

/// Why an answer to a list of systems is invalid; None: it is valid.
async fn misfit(body: String) -> Option<String> {
    let (client, _) = Script::client(vec![Ok(answer(200, body))]);
    match client.operating_systems().await {
        Ok(_) => None,
        Err(Error::Undecodable { why, .. }) => Some(why),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn records_are_limited_by_length_and_size() {
    let system = |padding: usize| {
        let padding = "x".repeat(padding);
        json!({"id": 1, "slug": "a", "name": "a", "padding": padding}).to_string()
    };
    let fixed = system(0).len();
    let is_read = async |length: usize| {
        let record = system(length - fixed);
        assert_eq!(record.len(), length);
        let of_list = misfit(format!("[{record}]")).await;
        let alone = misfit(record).await;
        assert_eq!(of_list.is_none(), alone.is_none());
        of_list
    };
    assert_eq!(is_read(RECORD).await, None);
    let why = is_read(RECORD + 1).await;
    assert_eq!(why.as_deref(), Some("entry 0 is longer than 128 KiB"));

    let small = system(0);
    let (client, _) = Script::client(vec![Ok(answer(200, format!("[{small}]")))]);
    let size = list_size(&client.operating_systems().await.unwrap());
    let list = |count: usize| format!("[{}]", vec![&*small; count].join(","));
    assert_eq!(misfit(list(RECORDS / size)).await, None);
    let why = misfit(list(RECORDS / size + 1)).await;
    assert_eq!(why.as_deref(), Some("the records take more than 12 MiB"));
}

#[tokio::test]
async fn no_key_of_a_body_is_parsed_anew() {
    let special = json!({"$serde_json::private::RawValue": "[1]"});
    let body = format!(r#"{{"createdAt":1,"lshw":{special}}}"#);
    let (client, _) = Script::client(vec![Ok(answer(200, body))]);
    let read = client.hardware_listing(&id()).await.unwrap();
    assert_eq!(read.listing.unwrap(), special);
}

#[tokio::test]
async fn blanks_that_are_cut_leave_no_memory_behind() {
    let padded = format!("a{}", " ".repeat(4000));
    let mut server = record();
    server["tags"] = json!([padded]);
    server["statusMessage"] = json!(padded);
    let (client, _) = Script::client(vec![Ok(answer(200, server.to_string()))]);
    let server = client.server(&id()).await.unwrap();
    let texts = [&server.tags[0], &server.status_message];
    for text in texts {
        assert!(text.capacity() < 64, "{text:?}: {}", text.capacity());
    }
}
