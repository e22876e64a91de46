//! A success counts only with a body that fits the operation. Malicious answers of `answers` have other shapes.

use super::{
    every_call::call,
    script::{Script, answer},
};
use hosting_types::{Error, HostId, Page};

/// Changes without a result.
const SILENT: [&str; 6] = [
    "change_password",
    "reset_password",
    "validate_password_reset",
    "delete_tag",
    "delete_ssh_key",
    "remove_from_whitelist",
];

/// Changes whose answer is not documented.
const UNDESCRIBED: [&str; 4] = ["start_host", "stop_host", "restart_host", "install_host"];

async fn word(name: &str, status: u16, body: &str) -> &'static str {
    let (client, _) = Script::client(vec![Ok(answer(status, body))]);
    call(&client, name).await.word
}

#[tokio::test]
async fn a_page_of_somebody_else_is_no_success() {
    let error = r#"{"errorCode":10001,"errorMessage":"Entity not found","errors":[]}"#;
    let listed = format!("[{error}]");
    for body in ["<html>Please log in</html>", "OK", "{", error, &listed] {
        for status in [200, 204] {
            for name in SILENT.into_iter().chain(UNDESCRIBED) {
                let word = word(name, status, body).await;
                assert_eq!(word, "UndecodableAnswer", "{name}: {status} {body}");
            }
        }
    }
}

#[tokio::test]
async fn nothing_to_show_is_shown_in_many_ways() {
    for body in ["", " \n", "null", "{}", "[]", r#"{"status":"x"}"#] {
        for status in [200, 204] {
            for name in SILENT.into_iter().chain(UNDESCRIBED) {
                let word = word(name, status, body).await;
                assert_eq!(word, "Decoded", "{name}: {status} {body}");
            }
        }
    }
}

#[tokio::test]
async fn a_log_entry_has_a_field_of_one() {
    let log = async |body: &str| {
        let (client, _) = Script::client(vec![Ok(answer(200, body))]);
        client.install_log(HostId(1), Page::first(), &[]).await
    };
    for body in [r#"{"status":"x"}"#, "[{}]", r#"[{"id":1},{"message":"x"}]"#] {
        let log = log(body).await;
        assert!(matches!(log, Err(Error::Undecodable { .. })), "{body}");
    }
    assert!(log(r#"[{"issueOpen":1}]"#).await.unwrap()[0].is_open);
}
