//! What is compared or sent back stays unchanged, or never equals anything else.

use serde_json::{Value, json};

use super::{ORDER_TAG, id, order, record, script::sent};
use hosting_types::{Error, OrderResult, Page, server::Server, tag::is_tag};

async fn server(tags: Value) -> Server {
    let mut body = record();
    body["tags"] = tags;
    let (_, server) = sent(200, &body.to_string(), async |client| {
        client.server(&id()).await
    })
    .await;
    server.unwrap()
}

#[tokio::test]
async fn what_became_a_tag_by_cleaning_is_none() {
    for (tag, wanted) in [
        ("a\u{200b}b", "ab"),
        ("ab ", "ab"),
        ("\tab", "ab"),
        ("ab\n", "ab"),
        ("\u{202e}ab", "ab"),
    ] {
        for tags in [json!(["x", tag]), json!({"1": "x", "2": tag})] {
            let server = server(tags).await;
            assert!(server.has_tag("x"));
            assert!(!server.has_tag(wanted), "{tag:?}");
            let read = &server.tags[1];
            // Shown without what could disturb a line, and still recognised.
            assert!(!is_tag(read), "{read:?}");
            assert!(read.starts_with(wanted) && !read.contains(char::is_control));
            assert!(!read.contains(['\u{200b}', '\u{202e}']), "{read:?}");
        }
    }
    let longest = "t".repeat(64);
    assert_eq!(
        server(json!([longest, "a b"])).await.tags,
        [&longest, "a b"]
    );
}

#[tokio::test]
async fn similar_tag_does_not_confirm_an_order() {
    let mut body = record();
    body["tags"] = json!([format!("{ORDER_TAG}\u{200b}")]);
    let (_, outcome) = sent(200, &body.to_string(), async |client| {
        client.order(&order(), ORDER_TAG).await
    })
    .await;
    assert!(matches!(outcome, OrderResult::Unknown(_)), "{outcome:?}");
}

#[tokio::test]
async fn similar_account_tag_is_never_equal() {
    let (_, tag) = sent(200, r#"{"tag":"a\u200b"}"#, async |client| {
        client.tag("a").await
    })
    .await;
    assert!(matches!(tag, Err(Error::Undecodable { .. })));
    let (_, tags) = sent(200, r#"[{"tag":"a\u200b"},{"tag":"a"}]"#, async |client| {
        client.tags(Page::first()).await
    })
    .await;
    let tags = tags.unwrap();
    assert_ne!(tags[0].tag, "a");
    assert_eq!(tags[1].tag, "a");
}

#[tokio::test]
async fn names_lose_only_invisible_characters() {
    for (name, read) in [
        ("EU:  Rotterdam ", "EU:  Rotterdam "),
        ("EU: Rotter\u{200b}dam", "EU: Rotterdam"),
        ("EU:\u{2028}Rotterdam", "EU: Rotterdam"),
        ("EU:\nRotterdam", "EU: Rotterdam"),
    ] {
        let location = json!([{"id": 6, "name": name}]).to_string();
        let (_, locations) = sent(200, &location, async |client| client.locations().await).await;
        assert_eq!(locations.unwrap()[0].name, read);
        let plan = json!([{"name": name, "locations": [{"name": name}]}]).to_string();
        let (_, plans) = sent(200, &plan, async |client| client.plans().await).await;
        let plan = plans.unwrap().remove(0);
        assert_eq!(
            (plan.name.as_str(), plan.locations[0].name.as_str()),
            (read, read)
        );
        let system = json!([{"slug": name}]).to_string();
        let (_, systems) = sent(200, &system, async |client| {
            client.operating_systems().await
        })
        .await;
        assert_eq!(systems.unwrap()[0].slug, read);
        let mut body = record();
        body["location"]["name"] = json!(name);
        let (_, server) = sent(200, &body.to_string(), async |client| {
            client.server(&id()).await
        })
        .await;
        assert_eq!(server.unwrap().location, read);
    }
    // Blanks do not get around the limit.
    let wide = json!([{"id": 6, "name": format!("a{}b", " ".repeat(5000))}]).to_string();
    let (_, locations) = sent(200, &wide, async |client| client.locations().await).await;
    assert_eq!(locations.unwrap()[0].name, "a b");
    // What is no name is still none.
    let (_, locations) = sent(200, r#"[{"name":" "}]"#, async |client| {
        client.locations().await
    })
    .await;
    assert!(matches!(locations, Err(Error::Undecodable { .. })));
}
