//! How records that differ from the document are read.

use serde_json::{Value, json};

use super::{
    KEY, UUID, id, record,
    script::{Script, answer},
};
use hosting_types::{Error, Page, Server, ServerFilter, ServerStatus};

async fn server(body: &Value) -> Result<Server, Error> {
    let (client, _) = Script::client(vec![Ok(answer(200, body.to_string()))]);
    client.server(&id()).await
}

async fn page(body: &str) -> Result<Vec<Server>, Error> {
    let (client, _) = Script::client(vec![Ok(answer(200, body))]);
    client
        .servers(&ServerFilter::default(), Page::first())
        .await
}

#[tokio::test]
async fn a_full_record_is_read_whole() {
    let mut body = record();
    body["status"] = json!("delivered");
    body["statusMessage"] = json!("OK");
    body["ipAddresses"] = json!([{"ipAddress": "192.0.2.1"}, {"ipAddress": "2001:db8::1"}]);
    body["deliveredAt"] = json!(1_728_031_748);
    body["contractId"] = json!("C-1");
    body["aNewField"] = json!({"deep": [1, 2, 3]});
    let server = server(&json!([body])).await.unwrap();
    assert_eq!(
        server,
        Server {
            id: id(),
            name: "node-1".to_owned(),
            status: ServerStatus::Delivered,
            status_message: "OK".to_owned(),
            location_id: Some(6),
            location: "EU: Rotterdam".to_owned(),
            instance_type_id: Some(3),
            instance_type: "bm7.std.8".to_owned(),
            os_slug: "debian-13".to_owned(),
            addresses: vec!["192.0.2.1".to_owned(), "2001:db8::1".to_owned()],
            tags: vec![
                "fmo-cluster:0123456789abcdef".to_owned(),
                super::ORDER_TAG.to_owned()
            ],
            created_at: Some(1_728_030_905),
            delivered_at: Some(1_728_031_748),
            released_at: None,
            contract_id: Some("C-1".to_owned()),
        }
    );
}

#[tokio::test]
async fn missing_null_and_empty_are_the_same() {
    let missing = server(&json!({"uuid": UUID})).await.unwrap();
    let fields = [
        "name",
        "status",
        "statusMessage",
        "location",
        "instanceType",
        "os",
        "ipAddresses",
        "tags",
        "createdAt",
        "deliveredAt",
        "releasedAt",
        "contractId",
    ];
    for empty in [json!(null), json!("")] {
        let mut body = json!({"uuid": UUID});
        for field in fields {
            body[field] = empty.clone();
        }
        assert_eq!(server(&body).await.unwrap(), missing);
    }
    assert_eq!(missing.contract_id, None);
    assert_eq!(missing.created_at, None);
    assert!(missing.tags.is_empty() && missing.addresses.is_empty());
    // A server without a state does not count as deleted.
    assert!(missing.status.is_live());
}

#[tokio::test]
async fn other_shapes_of_one_field_are_read() {
    let mut body = record();
    body["location"] = json!("EU: Rotterdam");
    body["createdAt"] = json!("1728030905");
    body["deliveredAt"] = json!("2024-10-04T08:49:08.000Z");
    body["releasedAt"] = json!(-1);
    body["ipAddresses"] = json!(["192.0.2.1", ""]);
    body["tags"] = json!({"0": "a", "2": 7});
    body["status"] = json!("being_polished");
    let server = server(&body).await.unwrap();
    assert_eq!(server.location, "EU: Rotterdam");
    assert_eq!(server.created_at, Some(1_728_030_905));
    assert_eq!(server.delivered_at, Some(1_728_031_748));
    assert_eq!(server.released_at, None);
    assert_eq!(server.addresses, ["192.0.2.1"]);
    assert_eq!(server.tags, ["a", "7"]);
    assert_eq!(
        server.status,
        ServerStatus::Other("being_polished".to_owned())
    );
}

#[tokio::test]
async fn nonsense_in_a_field_spoils_that_field_alone() {
    let mut body = record();
    for field in [
        "name",
        "status",
        "location",
        "os",
        "ipAddresses",
        "createdAt",
    ] {
        body[field] = json!([[{"a": 1}], false]);
    }
    let server = server(&body).await.unwrap();
    assert_eq!(server.name, "");
    assert_eq!(server.created_at, None);
    assert!(server.addresses.is_empty());
    assert_eq!(server.tags.len(), 2);
}

#[tokio::test]
async fn record_without_id_or_valid_tags_fails() {
    for (field, value) in [
        ("uuid", json!(null)),
        ("uuid", json!("not-a-uuid")),
        ("tags", json!(true)),
        ("tags", json!([["a"]])),
        ("tags", json!("a,b")),
    ] {
        let mut body = record();
        body[field] = value;
        let error = server(&body).await.unwrap_err();
        assert!(matches!(error, Error::Undecodable { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn an_answer_about_another_server_is_an_error() {
    let mut body = record();
    body["uuid"] = json!("01923b7e-0c1f-7d3a-9c52-000000000000");
    let error = server(&body).await.unwrap_err();
    assert!(matches!(error, Error::Undecodable { .. }), "{error:?}");
    // The same UUID in other letters is the same server.
    body["uuid"] = json!(UUID.to_uppercase());
    server(&body).await.unwrap();
}

#[tokio::test]
async fn only_an_empty_list_is_an_empty_page() {
    assert_eq!(page("[]").await.unwrap(), []);
    for body in [
        "",
        " \n",
        "null",
        "\"\"",
        "{}",
        "0",
        "[null]",
        "[[]]",
        "[{}]",
        "[",
        "<html></html>",
        r#"{"errorCode":10001,"errorMessage":"no","errors":[]}"#,
    ] {
        let error = page(body).await.unwrap_err();
        assert!(matches!(error, Error::Undecodable { .. }), "{body}");
    }
}

#[tokio::test]
async fn one_bad_record_makes_the_page_an_error() {
    let mut bad = record();
    bad["uuid"] = json!(17);
    let body = json!([record(), bad, record()]).to_string();
    let error = page(&body).await.unwrap_err();
    assert!(matches!(error, Error::Undecodable { status: 200, .. }));
    let alone = page(&record().to_string()).await.unwrap();
    assert_eq!(alone.len(), 1);
}

#[tokio::test]
async fn record_texts_are_cleaned_of_the_key() {
    let mut body = record();
    body["name"] = json!("no\u{0}de\u{202e}-1\n");
    body["statusMessage"] = json!(format!("rejected {KEY}\tby \u{1b}[1mgateway"));
    let server = server(&body).await.unwrap();
    assert_eq!(server.name, "no de-1");
    assert_eq!(server.status_message, "rejected [API key] by [1mgateway");
}

#[tokio::test]
async fn a_tag_answer_must_show_that_tag() {
    for body in [
        json!([]),
        json!([{"tag": "b"}]),
        json!([{"tag": "a"}, {"tag": "b"}]),
        json!({}),
    ] {
        let (client, _) = Script::client(vec![Ok(answer(200, body.to_string()))]);
        let error = client.tag("a").await.unwrap_err();
        assert!(matches!(error, Error::Undecodable { .. }), "{body}");
    }
    let (client, _) = Script::client(vec![Ok(answer(200, r#"{"tag":"a"}"#))]);
    let tag = client.tag("a").await.unwrap();
    assert_eq!((tag.tag.as_str(), tag.resources), ("a", None));
    // The previous name in the answer is no success.
    let (client, _) = Script::client(vec![Ok(answer(200, r#"[{"tag":"a"}]"#))]);
    let renamed = client.rename_tag("a", "b").await;
    assert!(matches!(renamed, Err(Error::Undecodable { .. })));
}
