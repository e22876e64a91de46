//! Nothing that is secret stands in an echo of a request, in any part of an
//! error record. Logs, `Debug` and panics: `crates/hosting/tests/client`.

use serde_json::json;

use super::script::{Script, answer};
use super::{KEY, ORDER_TAG, id, order};
use crate::host::HostInstall;
use crate::server::{KernelParam, Reinstall, SystemChoice, SystemFamily, UserData};
use crate::{Client, HostId, Order, SecretText, SshKeyId};

const PASSWORD: &str = "c4nary p\u{e4}ss\"word";
const SCRIPT: &str = "#!/bin/sh\ncurl https://c4nary-script/$\"TOKEN\"\n";
const PARAM: &str = "https://c4nary-param.example.com?jointoken=c4nary";
const DATA: &str = "c4nary: user data\nin two lines";
const BOOT: &str = "https://c4nary:pw@boot.example.com/a?token=c4nary";

fn full_order() -> Order {
    Order {
        post_install_script: Some(SecretText::new(SCRIPT)),
        user_data: Some(UserData {
            data: SecretText::new(DATA),
            is_base64: false,
        }),
        os: os(),
        ..order()
    }
}

fn param() -> KernelParam {
    KernelParam {
        key: "siderolink.api".to_owned(),
        value: SecretText::new(PARAM),
    }
}

fn os() -> SystemChoice {
    SystemChoice {
        kernel_params: vec![param()],
        ..SystemChoice::of_slug("debian-13")
    }
}

fn reinstall() -> Reinstall {
    Reinstall {
        ssh_keys: Some(vec!["ssh-ed25519 AAAA".to_owned()]),
        post_install_script: Some(SecretText::new(SCRIPT)),
        user_data: full_order().user_data,
        os: Some(os()),
        ..Reinstall::default()
    }
}

fn host_install() -> HostInstall {
    let mut install = HostInstall::new(1, SystemFamily::Linux);
    install.ssh_key = SshKeyId::parse(super::UUID).ok();
    install.post_install_script = Some(SecretText::new(SCRIPT));
    install.kernel_params = vec![param().into()];
    install
}

/// Makes every call that carries a secret and gives the text of its outcome.
async fn every_text(client: &Client) -> Vec<String> {
    let password = SecretText::new(PASSWORD);
    vec![
        format!("{:?}", client.order(&full_order(), ORDER_TAG).await),
        told(client.reinstall(&id(), &reinstall()).await.map(drop)),
        told(client.install_host(HostId(1), &host_install()).await),
        told(client.change_password(&password, &password).await),
        told(client.validate_password_reset(&password, &password).await),
        told(client.root_password(&id()).await.map(drop)),
    ]
}

fn told(result: Result<(), crate::Error>) -> String {
    match result {
        Ok(()) => String::new(),
        Err(error) => format!("{error:?} {} {error}", error.explain()),
    }
}

#[tokio::test]
async fn an_echo_of_the_request_is_shown_without_its_secrets() {
    let echoes = [
        format!("{PASSWORD} | {SCRIPT} | {PARAM} | {DATA} | {KEY}"),
        // Cut, as a message with a limit does.
        format!("script was {}", &SCRIPT[..40]),
        format!("value {} is wrong", &PARAM[..20]),
        format!("pass {}", PASSWORD.chars().take(13).collect::<String>()),
        // In one line, and as JSON writes it.
        SCRIPT.replace('\n', " "),
        format!(
            "bad request: {}",
            json!({"a": SCRIPT, "b": PASSWORD, "c": DATA})
        ),
        json!({"errorCode": 1, "errorMessage": SCRIPT,
            "errors": [{"property": PARAM, "message": format!("not {DATA} nor {PASSWORD}")}]})
        .to_string(),
    ];
    for echo in echoes {
        for status in [400, 422, 500] {
            let own: [&[&str]; 5] = [
                &[SCRIPT, PARAM, DATA],
                &[SCRIPT, PARAM, DATA],
                &[SCRIPT, PARAM],
                &[PASSWORD],
                &[PASSWORD],
            ];
            let answers = (0..6).map(|_| Ok(answer(status, echo.as_str()))).collect();
            let (client, _) = Script::client(answers);
            let texts = every_text(&client).await;
            // A call knows only the secrets that it carried itself.
            for (text, secrets) in texts.iter().zip(own) {
                let lines = secrets.iter().flat_map(|secret| secret.lines());
                for line in lines {
                    let begin: String = line.chars().take(13).collect();
                    assert!(!text.contains(&begin), "{echo}: {text}");
                }
                assert!(!text.contains(KEY));
            }
        }
    }
}

#[tokio::test]
async fn the_address_of_an_ipxe_script_is_secret() {
    let os = SystemChoice {
        ipxe_script_url: Some(SecretText::new(BOOT)),
        ..SystemChoice::of_slug("custom-ipxe")
    };
    let order = Order {
        os: os.clone(),
        ..order()
    };
    let reinstall = Reinstall {
        os: Some(os),
        ..Reinstall::default()
    };
    let echo = || Ok(answer(422, format!("cannot read {BOOT}")));
    let (client, _) = Script::client(vec![echo(), echo()]);
    let texts = [
        format!("{order:?}"),
        format!("{reinstall:?}"),
        format!("{:?}", client.order(&order, ORDER_TAG).await),
        told(client.reinstall(&id(), &reinstall).await.map(drop)),
    ];
    for text in texts {
        assert!(!text.contains("c4nary"), "{text}");
    }
}
