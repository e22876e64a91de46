//! A success counts only with a body that fits the operation.

use super::script::{Script, answer};
use super::{UUID, id, record};
use crate::host::HostInstall;
use crate::server::SystemFamily;
use crate::whitelist::{AddressRange, WhitelistRule};
use crate::{ApiKeyId, Client, Error, HostId, Page, SecretText, SshKeyId, WhitelistEntryId};

/// Makes every change that has nothing to show, each answered like this.
async fn silent(status: u16, body: &str) -> Vec<(&'static str, Result<(), Error>)> {
    let client = || client(status, body);
    let word = SecretText::new("a password");
    let key = SshKeyId::parse(UUID).unwrap();
    let (api_key, entry) = (ApiKeyId(1), WhitelistEntryId(1));
    let validation = client().validate_password_reset(&word, &word).await;
    let removal = client().remove_from_whitelist(api_key, entry).await;
    vec![
        ("password", client().change_password(&word, &word).await),
        ("reset", client().reset_password("me@example.com").await),
        ("validate", validation),
        ("tag", client().delete_tag("a").await),
        ("key", client().delete_ssh_key(&key).await),
        ("whitelist", removal),
    ]
}

/// Makes every change whose answer is not described.
async fn undescribed(status: u16, body: &str) -> Vec<(&'static str, Result<(), Error>)> {
    let client = || client(status, body);
    let mut install = HostInstall::new(1, SystemFamily::Linux);
    install.ssh_key = SshKeyId::parse(UUID).ok();
    let host = HostId(1);
    vec![
        ("start", client().start_host(host).await.map(drop)),
        ("stop", client().stop_host(host).await.map(drop)),
        ("restart", client().restart_host(host).await.map(drop)),
        ("install", client().install_host(host, &install).await),
    ]
}

fn client(status: u16, body: &str) -> Client {
    Script::client(vec![Ok(answer(status, body))]).0
}

fn refused(results: Vec<(&'static str, Result<(), Error>)>, body: &str) {
    for (call, result) in results {
        let Err(error) = result else {
            panic!("{call} succeeded with {body}");
        };
        assert!(matches!(error, Error::Undecodable { .. }), "{call} {body}");
        assert!(error.may_have_taken_effect());
    }
}

fn taken(results: Vec<(&'static str, Result<(), Error>)>, body: &str) {
    for (call, result) in results {
        assert!(result.is_ok(), "{call} {body}: {result:?}");
    }
}

#[tokio::test]
async fn a_page_of_somebody_else_is_no_success() {
    let error = r#"{"errorCode":10001,"errorMessage":"Entity not found","errors":[]}"#;
    for body in [
        "<html>Please log in</html>",
        "OK",
        "{",
        error,
        &format!("[{error}]"),
    ] {
        for status in [200, 204] {
            refused(silent(status, body).await, body);
            refused(undescribed(status, body).await, body);
        }
    }
    for body in ["true", "\"OK\"", "[7]"] {
        refused(undescribed(200, body).await, body);
    }
}

#[tokio::test]
async fn nothing_to_show_is_shown_in_many_ways() {
    for body in ["", " \n", "null", "{}", "[]", r#"{"status":"x"}"#] {
        for status in [200, 204] {
            taken(silent(status, body).await, body);
            taken(undescribed(status, body).await, body);
        }
    }
}

#[tokio::test]
async fn a_log_entry_has_a_field_of_one() {
    for body in [r#"{"status":"x"}"#, "[{}]", r#"[{"id":1},{"message":"x"}]"#] {
        let log = client(200, body)
            .install_log(HostId(1), Page::first())
            .await;
        assert!(matches!(log, Err(Error::Undecodable { .. })), "{body}");
    }
    let log = client(200, r#"[{"issueOpen":1}]"#);
    let log = log.install_log(HostId(1), Page::first()).await.unwrap();
    assert!(log[0].is_open);
}

#[tokio::test]
async fn a_whitelist_that_shows_no_entry_was_not_changed_for_sure() {
    let rule = WhitelistRule {
        range: AddressRange::Net("192.0.2.0/24".parse().unwrap()),
        comments: None,
        active: true,
    };
    let (key, entry) = (ApiKeyId(1), WhitelistEntryId(1));
    let errors = [
        client(200, "[]").add_to_whitelist(key, &rule).await.err(),
        client(200, "[]")
            .change_whitelist(key, entry, &rule)
            .await
            .err(),
    ];
    for error in errors {
        assert!(
            matches!(error, Some(Error::Undecodable { .. })),
            "{error:?}"
        );
    }
    let list = client(200, "[]").whitelist(key, Page::first()).await;
    assert!(list.unwrap().is_empty());
}

#[tokio::test]
async fn what_shows_a_server_needs_one() {
    let both = [record(), record()];
    let both = serde_json::json!(both).to_string();
    for body in ["", "null", "[]", "{}", "<html>Please log in</html>", &both] {
        let errors = [
            client(200, body).release(&id()).await.err(),
            client(200, body).add_tag(&id(), "a").await.err(),
            client(200, body).remove_tag(&id(), "a").await.err(),
        ];
        for error in errors {
            assert!(matches!(error, Some(Error::Undecodable { .. })), "{body}");
        }
    }
}
