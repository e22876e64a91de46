//! No secret in any text: echoes of the API, errors, outcomes, `Debug`, panics, and the logs of every crate at every
//! level.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use hosting::transport::{Caps, Request, Response};
use http::{HeaderMap, Method, StatusCode};
use serde_json::json;

use crate::{
    canaries::{self, BEGIN, KERNEL_VALUE, KEY, NEW_PASSWORD, OLD_PASSWORD, SCRIPT, USER_DATA},
    logs,
    operations::Operation,
    reply::texts,
    scene::Scene,
};

/// The secrets that a call sends besides the key.
fn carried(operation: Operation, scene: &Scene) -> Vec<String> {
    let hash = scene.arguments.reset_hash.expose();
    let own: &[&str] = match operation {
        Operation::Order | Operation::Reinstall => &[SCRIPT, USER_DATA, KERNEL_VALUE],
        Operation::InstallHost => &[SCRIPT, KERNEL_VALUE],
        Operation::ChangePassword => &[OLD_PASSWORD, NEW_PASSWORD],
        Operation::ValidateReset => &[NEW_PASSWORD, hash],
        _ => &[],
    };
    own.iter().map(|secret| (*secret).to_owned()).collect()
}

/// How an answer may repeat a secret.
fn echoes(secret: &str) -> Vec<String> {
    let percent: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let begin_end = secret.find(BEGIN).map_or(12, |at| at + BEGIN.len());
    let cut: String = secret.chars().take(begin_end + 5).collect();
    vec![
        secret.to_owned(),
        format!("it was <{secret}>, which is wrong"),
        json!({ "value": secret }).to_string(),
        percent,
        secret.replace('\n', " "),
        // Cut off, like a message with a limit.
        cut,
    ]
}

#[tokio::test]
async fn echoed_request_is_shown_without_secrets() {
    for &operation in Operation::ALL {
        let scene = Scene::new().await;
        let mut secrets = carried(operation, &scene);
        secrets.push(KEY.to_owned());
        for (place, secret) in secrets.iter().enumerate() {
            let mask = if secret == KEY {
                "[API key]"
            } else {
                "[hidden]"
            };
            for (number, echo) in echoes(secret).into_iter().enumerate() {
                // One status for each way to classify an answer.
                let status = [302, 400, 403, 404, 409, 429, 500][(place + number) % 7];
                let fault = json!({"refuse": {"status": status, "message": echo}});
                scene.rig.fault(operation.method(), &fault).await;
                let reply = operation.call(&scene).await;
                scene.rig.clear("faults").await;
                assert!(reply.text.contains(mask), "{operation:?}: {}", reply.text);
                canaries::none_in("an echo", &reply.text);
            }
        }
        logs::none_leaked();
    }
}

#[tokio::test]
async fn server_texts_are_shown_without_the_key() {
    let scene = Scene::new().await;
    let server = scene.arguments.server.as_str();
    for message in [KEY.to_owned(), format!("rejected: {}", &KEY[..20])] {
        let failed = json!({"status": "failed", "statusMessage": message});
        scene.rig.alter(server, failed).await;
        for operation in [Operation::Server, Operation::Servers, Operation::AddTag] {
            let reply = operation.call(&scene).await;
            assert!(reply.text.contains("[API key]"), "{}", reply.text);
            canaries::none_in("a machine", &reply.text);
        }
    }
    logs::none_leaked();
}

/// The text of a panic that shows a value.
fn panic_of(value: &impl Debug) -> String {
    let caught = catch_unwind(AssertUnwindSafe(|| panic!("{value:?} {value:#?}")));
    *caught.unwrap_err().downcast::<String>().unwrap()
}

#[tokio::test]
async fn what_carries_a_secret_does_not_show_it() {
    let scene = Scene::new().await;
    let arguments = &scene.arguments;
    for text in [
        texts(&scene.client),
        texts(&arguments.order),
        texts(&arguments.reinstall),
        texts(&arguments.install),
        texts(scene.client.base_url()),
        texts(&Response {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: NEW_PASSWORD.into(),
            decode_permit: None,
            cut: None,
        }),
        texts(&Request {
            method: Method::PUT,
            url: "https://api.example/v3/account/password".parse().unwrap(),
            headers: HeaderMap::new(),
            body: Some(OLD_PASSWORD.into()),
            deadline: Duration::from_secs(1),
            caps: Caps {
                success: 1,
                refusal: 1,
            },
        }),
    ] {
        canaries::none_in("Debug", &text);
    }
    let refuse = json!({"refuse": {"status": 422, "message": SCRIPT}});
    scene.rig.fault("POST", &refuse).await;
    let ordered = scene
        .client
        .order(&arguments.order, crate::scene::ORDER_TAG)
        .await;
    let installed = scene
        .client
        .install_host(arguments.host, &arguments.install)
        .await;
    for text in [
        panic_of(&scene.client),
        panic_of(&arguments.order),
        panic_of(&arguments.reinstall),
        panic_of(&arguments.install),
        panic_of(&ordered),
        panic_of(&installed),
    ] {
        canaries::none_in("a panic", &text);
    }
    // What a careless caller would do.
    let careless = catch_unwind(AssertUnwindSafe(|| installed.unwrap()));
    let text = *careless.unwrap_err().downcast::<String>().unwrap();
    assert!(text.contains("422") && text.contains("[hidden]"), "{text}");
    canaries::none_in("a panic", &text);
}

#[tokio::test]
async fn no_log_of_any_crate_shows_a_secret() {
    let scene = Scene::new().await;
    // Registered before it is read again, so that no log line can contain it unnoticed.
    let windows = &scene.arguments.windows;
    let password = scene.client.root_password(windows).await.unwrap();
    canaries::remember(password.expose());
    for operation in [
        Operation::RootPassword,
        Operation::Order,
        Operation::Reinstall,
        Operation::InstallHost,
        Operation::ChangePassword,
        Operation::ValidateReset,
    ] {
        let reply = operation.call(&scene).await;
        assert!(reply.is_good(), "{operation:?}: {}", reply.text);
        canaries::none_in("a reply", &reply.text);
    }
    // Lines of ours, of the layers below, and of those that use `log`.
    let crates = logs::crates();
    for name in ["hosting", "hyper_util", "reqwest"] {
        assert!(crates.contains(name), "{name} is not among {crates:?}");
    }
    logs::none_leaked();
}
