//! An API that echoes our own secrets: none of its texts shows them.

use serde_json::{Value, json};

use super::{
    KEY, ORDER_TAG, UUID, id, order, record,
    script::{Script, answer, cut},
};
use crate::{
    Client,
    page::HostCursor,
    transport::{Cut, Response},
};
use hosting_types::{
    ApiKeyId, Error, HostId, Order, OrderResult, Page, SecretText, ServerFilter,
    server::{KernelParam, SystemChoice},
};

async fn refused(response: Response) -> String {
    let (client, _) = Script::client(vec![Ok(response)]);
    let error = client.server(&id()).await.unwrap_err();
    format!("{error:?} {}", error.explain())
}

/// An error record with this text.
fn saying(text: &str) -> String {
    json!({"errorCode": 1, "errorMessage": text, "errors": []}).to_string()
}

#[tokio::test]
async fn part_of_the_key_is_hidden_too() {
    let half = &KEY[..KEY.len() - 1];
    let bodies = [
        // A text whose end is cut off.
        answer(422, saying(&format!("{}{KEY}", "x".repeat(990)))),
        answer(422, saying(&format!("{}{KEY}", "x".repeat(4090)))),
        // A body that is cut off within the key.
        cut(
            answer(422, format!("{{\"errorMessage\":\"bad key {half}")),
            Cut::Broken("reset".into()),
        ),
        answer(403, saying(&format!("bad key {}", &KEY[..5]))),
        // Shortened in the echo.
        answer(
            403,
            json!({"errorMessage": format!("no key {}...", &KEY[..16])}).to_string(),
        ),
        // Percent-encoded, and longer than the client searches for that encoding.
        answer(
            403,
            saying(&format!("{}-and-more", KEY.replace('/', "\\/"))),
        ),
    ];
    for body in bodies {
        let text = refused(body).await;
        assert!(!text.contains(&KEY[..5]), "{text}");
        assert!(!text.contains(&KEY[16..]), "{text}");
    }
}

#[tokio::test]
async fn words_that_only_resemble_the_key_stay() {
    let text = refused(answer(422, saying(&format!("{} is not it", &KEY[..8])))).await;
    assert!(text.contains(&KEY[..8]), "{text}");
}

#[tokio::test]
async fn secret_with_the_key_is_hidden_fully() {
    let script = format!("#!/bin/sh curl -H {KEY} https://c4nary-host/");
    let order = Order {
        post_install_script: Some(SecretText::new(script.clone())),
        ..order()
    };
    let (client, _) = Script::client(vec![Ok(answer(422, saying(&format!("bad: {script}"))))]);
    let outcome = format!("{:?}", client.order(&order, ORDER_TAG).await);
    assert!(
        !outcome.contains("c4nary") && !outcome.contains(&KEY[..5]),
        "{outcome}"
    );
}

#[tokio::test]
async fn order_secrets_are_hidden_in_errors() {
    let boot = "https://c4nary:pw@boot.example.com/a?token=c4nary";
    let script = "#!/bin/sh\ncurl https://c4nary-script/$\"TOKEN\"\n";
    let of_system = Order {
        os: SystemChoice {
            ipxe_script_url: Some(SecretText::new(boot)),
            ..SystemChoice::of_slug("custom-ipxe")
        },
        ..order()
    };
    let of_script = Order {
        post_install_script: Some(SecretText::new(script)),
        ..order()
    };
    for (secret, order) in [(boot, of_system), (script, of_script)] {
        assert!(!format!("{order:?}").contains("c4nary"));
        let echo = json!({"errorCode": 1, "errorMessage": secret,
            "errors": [{"property": secret, "message": format!("cannot read {secret}")}]});
        let (client, _) = Script::client(vec![Ok(answer(422, echo.to_string()))]);
        let outcome = format!("{:?}", client.order(&order, ORDER_TAG).await);
        assert!(!outcome.contains("c4nary"), "{outcome}");
        assert_eq!(outcome.matches("[hidden]").count(), 3, "{outcome}");
    }
}

#[tokio::test]
async fn referenced_text_is_hidden_in_any_form() {
    let order = Order {
        post_install_script: Some(SecretText::referred_to("#!/bin/sh\nlogin c4nary\n")),
        ..order()
    };
    let field = |name: &str| json!({"property": name, "message": "near c4nary"});
    let echo = json!({"errorCode": 4711, "errorMessage": "c4nary, or YzRuYXJ5",
        "errors": [field("postInstallScript"), field("os.slug[0]"), field("os.c4nary"), field("c4nary")]});
    let (client, _) = Script::client(vec![Ok(answer(422, echo.to_string()))]);
    let OrderResult::Refused(error) = client.order(&order, ORDER_TAG).await else {
        panic!("it is refused")
    };
    assert_eq!(
        error.explain(),
        "The hosting API refused the request; status 422: hidden, because a text that was sent came from a Secret or ConfigMap (postInstallScript; os.slug[0])"
    );
    assert!(!format!("{error:?}").contains("c4nary"));
    let mut failed = record();
    failed["statusMessage"] = json!("c4nary");
    let (client, _) = Script::client(vec![Ok(answer(201, failed.to_string()))]);
    let outcome = format!("{:?}", client.order(&order, ORDER_TAG).await);
    assert!(!outcome.contains("c4nary"), "{outcome}");
}

/// Puts the key into every text of a value, except names.
fn laden(value: Value) -> Value {
    match value {
        Value::String(text) if text != UUID => json!(format!("{text} {KEY}")),
        Value::Array(entries) => entries.into_iter().map(laden).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, laden(value)))
            .collect(),
        other => other,
    }
}

async fn success_text<T: std::fmt::Debug>(
    body: Value,
    call: impl AsyncFnOnce(Client) -> Result<T, Error>,
) -> String {
    let (client, _) = Script::client(vec![Ok(answer(200, laden(body).to_string()))]);
    let result = call(client).await;
    assert!(result.is_ok(), "{result:?}");
    format!("{result:?}")
}

#[tokio::test]
async fn no_record_shows_the_key() {
    let mut server = record();
    server["ipAddresses"] = json!([{"ipAddress": "192.0.2.1"}]);
    server["contractId"] = json!("C");
    let usage = json!([{"server": server, "totalHours": 1}]);
    let host = json!([{"id": 1, "serverName": "a", "status": "b", "installStatus": "c",
        "instanceType": "d", "ipAddress": [{"ipAddress": "e", "macAddress": "f"}],
        "cpu": {"info": "g"}, "disk": [{"model": "h"}], "labels": [{"key": "i", "value": "j"}]}]);
    let entry = json!([{"id": 1, "ipRange": "a", "comments": "b", "active": 1}]);
    let key = json!([{"uuid": UUID, "name": "a", "publicKey": "ssh-ed25519 AAAA"}]);
    let plan = json!([{"name": "a", "hardwareDetails": {"cpu": {"name": "b"},
        "disks": [{"type": "c"}]}, "locations": [{"name": "d", "availability": "e"}]}]);
    let system = json!([{"id": 1, "name": "a", "slug": "b"}]);
    let command = json!([{"uuid": UUID, "state": "a", "payload": {"command": "b"}}]);
    let log = json!([{"id": 1, "issueCategory": "a", "issueDescription": "b"}]);
    let tag = json!([{"tag": "a"}]);
    let quota = json!([{"location": {"name": "a"}, "quotaUsage": [{"quotaType": "b"}]}]);
    let page = Page::first();
    let texts = [
        success_text(server.clone(), async |it| it.server(&id()).await).await,
        success_text(json!([server]), async |it| {
            it.servers(&ServerFilter::default(), page).await
        })
        .await,
        success_text(usage, async |it| it.usage(None, None).await).await,
        success_text(host, async |it| {
            it.hosts(None, &HostCursor::Range(page)).await
        })
        .await,
        success_text(entry, async |it| it.whitelist(ApiKeyId(1), page).await).await,
        success_text(key, async |it| it.ssh_keys().await).await,
        success_text(plan, async |it| it.plans().await).await,
        success_text(system, async |it| it.operating_systems().await).await,
        success_text(command, async |it| it.commands(&id(), None, page).await).await,
        success_text(log, async |it| it.install_log(HostId(1), page, &[]).await).await,
        success_text(tag, async |it| it.tags(page).await).await,
        success_text(quota, async |it| it.quota_usage().await).await,
        success_text(json!({"status": "a"}), async |it| it.health().await).await,
        success_text(json!({"result": "a"}), async |it| {
            it.start_host(HostId(1)).await
        })
        .await,
    ];
    for text in texts {
        assert!(text.contains("[API key]"), "{text}");
        assert!(!text.contains(&KEY[..12]), "{text}");
    }
}

#[tokio::test]
async fn a_hardware_listing_is_cleaned_and_never_printed() {
    let shown = json!({"createdAt": 1, "lshw": {"id": format!("a\u{1b}[2J{KEY}"),
        "children": [{(KEY): [KEY, 7, null]}]}});
    let (client, _) = Script::client(vec![Ok(answer(200, shown.to_string()))]);
    let found = client.hardware_listing(&id()).await.unwrap();
    let printed = format!("{found:?}");
    assert!(!printed.contains("children"), "{printed}");
    assert_eq!(
        found.listing.unwrap(),
        json!({"id": "a [2J[API key]", "children": [{"[API key]": ["[API key]", 7, null]}]})
    );
}

#[tokio::test]
async fn success_shows_no_sent_secrets() {
    let order = Order {
        post_install_script: Some(SecretText::new("#!/bin/sh\necho c4nary-token-of-mine\n")),
        os: SystemChoice {
            kernel_params: vec![KernelParam {
                key: "net.ifnames".to_owned(),
                value: SecretText::new("0"),
            }],
            ..SystemChoice::of_slug("debian-13")
        },
        ..order()
    };
    let mut shown = record();
    shown["status"] = json!("ran echo c4nary-token-of-mine");
    shown["statusMessage"] = json!("script was #!/bin/sh echo c4nary-token-of-mine");
    let (client, _) = Script::client(vec![Ok(answer(200, shown.to_string()))]);
    let outcome = client.order(&order, ORDER_TAG).await;
    let text = format!("{outcome:?}");
    assert!(!text.contains("c4nary"), "{text}");
    // A short value is part of many words, so the server's name and tags stay as they are.
    let OrderResult::Created(server) = outcome else {
        panic!("{text}");
    };
    assert!(server.has_tag(ORDER_TAG));
    assert_eq!(server.name, "node-1");
}

#[tokio::test]
async fn install_log_shows_no_installed_secrets() {
    let shown = json!([{"id": 1, "issueCategory": "install",
        "issueDescription": "ran echo c4nary-token-of-mine", "issueResolved": "with join=s3cret-of-the-hub"}]);
    let (client, _) = Script::client(vec![Ok(answer(200, shown.to_string()))]);
    let hidden = [
        SecretText::new("#!/bin/sh\necho c4nary-token-of-mine\n"),
        SecretText::new("s3cret-of-the-hub"),
    ];
    let log = client.install_log(HostId(1), Page::first(), &hidden).await;
    let text = format!("{log:?}");
    assert!(log.is_ok() && text.contains("ran "), "{text}");
    assert!(
        !text.contains("c4nary") && !text.contains("s3cret"),
        "{text}"
    );
}
