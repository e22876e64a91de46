//! Keys in orders, and the texts of stored ones.

use serde_json::json;

use super::{
    UUID, order,
    script::{Script, body, sent},
};
use hosting_types::{Error, SshKeyId, error::NotSent, request::InvalidRequest, server::Reinstall};

const PUBLIC_KEY: &str = "ssh-ed25519 AAAAC3Nz me@here";

#[tokio::test]
async fn an_answer_about_another_key_is_an_error() {
    let shown = json!([{"uuid": UUID, "name": "laptop", "publicKey": PUBLIC_KEY}]).to_string();
    let (_, stored) = sent(200, &shown, async |client| {
        client
            .create_ssh_key("laptop", "ssh-ed25519 AAAAother")
            .await
    })
    .await;
    assert!(matches!(stored, Err(Error::Undecodable { .. })));
}

#[tokio::test]
async fn what_is_no_public_key_is_not_sent() {
    let (client, script) = Script::client(Vec::new());
    let secret = "-----BEGIN OPENSSH PRIVATE KEY-----";
    for key in [
        "",
        "AAAA",
        "ssh-rsa",
        "ssh-rsa BBBB",
        "ssh-rsa AAAA\nx",
        "-----BEGIN CERTIFICATE-----\nMIIB",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----\n",
        "---- BEGIN SSH2 PUBLIC KEY ----\nAAAA\n---- END SSH2 PUBLIC KEY ----",
        secret,
    ] {
        let error = client.create_ssh_key("name", key).await.unwrap_err();
        assert!(matches!(error, Error::NotSent(NotSent::Request(_))));
        assert_eq!(
            error.explain().contains("private"),
            key == secret,
            "{error:?}"
        );
    }
    assert!(client.create_ssh_key("", PUBLIC_KEY).await.is_err());
    assert!(SshKeyId::parse("01923b7e0c1f7d3a9c520a1b2c3d4e5f").is_err());
    assert!(script.requests().is_empty());
}

#[tokio::test]
async fn a_key_may_be_stored_under_any_name() {
    let name = "n".repeat(300);
    let shown = json!([{"uuid": UUID, "name": name, "publicKey": PUBLIC_KEY}]).to_string();
    let (request, stored) = sent(200, &shown, async |client| {
        client.create_ssh_key(&name, PUBLIC_KEY).await
    })
    .await;
    let sent = json!({"name": name, "publicKey": PUBLIC_KEY});
    assert_eq!(body(&request), sent);
    assert_eq!(stored.unwrap().public_key, PUBLIC_KEY);
}

#[tokio::test]
async fn stored_key_is_exact_or_empty() {
    let id = SshKeyId::parse(UUID).unwrap();
    let whole = format!("ssh-rsa AAAA{} me", "b".repeat(2000));
    let long = format!("ssh-rsa AAAA{}", "b".repeat(20_000));
    for (key, shown) in [
        ("ssh-rsa AAAA  two  blanks ", "ssh-rsa AAAA  two  blanks "),
        ("ssh-rsa AAAA me\n", "ssh-rsa AAAA me\n"),
        (whole.as_str(), whole.as_str()),
        ("ssh-rsa AAAA\u{200b}BBBB me", ""),
        ("ssh-rsa AAAA me\nforged: line", ""),
        ("ssh-rsa AAAA \u{1b}[31m", ""),
        (long.as_str(), ""),
    ] {
        let body = json!([{"uuid": UUID, "name": "n", "publicKey": key},
            {"uuid": UUID, "name": "m", "publicKey": PUBLIC_KEY}])
        .to_string();
        // A key that cannot be shown does not hide the others.
        let (_, keys) = sent(200, &body, async |client| client.ssh_keys().await).await;
        let keys = keys.unwrap();
        assert_eq!((keys[0].public_key.as_str(), &keys[0].id), (shown, &id));
        assert_eq!(keys[1].public_key, PUBLIC_KEY);
    }
    // A key that cannot be shown is certainly not the sent one.
    let shown = json!({"uuid": UUID, "name": "n", "publicKey": long}).to_string();
    let (_, stored) = sent(200, &shown, async |client| {
        client.create_ssh_key("n", PUBLIC_KEY).await
    })
    .await;
    assert!(matches!(stored, Err(Error::Undecodable { .. })));
}

#[test]
fn order_accepts_stored_or_public_keys() {
    let with = |key: &str| {
        let mut order = order();
        order.ssh_keys.push(key.to_owned());
        let reinstall = Reinstall {
            ssh_keys: Some(order.ssh_keys.clone()),
            ..Reinstall::default()
        };
        assert_eq!(reinstall.check(), order.check(), "{key}");
        order.check()
    };
    for key in [UUID, "ssh-rsa AAAA", "sk-ssh-ed25519@openssh.com AAAA x y"] {
        assert_eq!(with(key), Ok(()), "{key}");
    }
    for key in [
        "",
        "hello",
        "17",
        "ssh-rsa",
        "ssh-rsa AAAA\nssh-rsa AAAA",
        "01923b7e0c1f7d3a9c520a1b2c3d4e5f",
    ] {
        assert_eq!(with(key), Err(InvalidRequest::SshKey { index: 1 }), "{key}");
    }
    let private = with("-----BEGIN OPENSSH PRIVATE KEY----- AAAA");
    let field = "sshKey[1]".to_owned();
    assert_eq!(private, Err(InvalidRequest::PrivateKey { field }));
}
