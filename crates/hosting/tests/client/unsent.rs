//! Calls that never leave this process: no connection, or a rule of the API that the client checks itself.

use std::time::Duration;

use hosting_types::{SecretText, server::SystemFamily, whitelist::AddressRange};
use jiff::civil::date;
use tokio::net::TcpSocket;

use crate::{
    canaries::{self, KEY, SCRIPT},
    logs,
    operations::{Kind, Operation},
    rig::Rig,
    scene::Scene,
    verdict::Verdict,
};

const NOT_CONNECTED: Verdict = Verdict {
    category: "ConnectionFailed",
    status: None,
    retryable: true,
    doubtful: false,
};

const INVALID: Verdict = Verdict {
    category: "InvalidRequest",
    status: None,
    retryable: false,
    doubtful: false,
};

#[tokio::test]
async fn without_a_connection_nothing_was_sent() {
    let scene = Scene::new().await;
    // Bound but not listening: no other test gets the port.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = format!("http://{}", socket.local_addr().unwrap());
    let client = Rig::at(closed, String::new()).client(KEY, Duration::from_secs(30));
    let before = scene.rig.latest().await;
    for &operation in Operation::ALL {
        let reply = operation.call_with(&client, &scene).await;
        NOT_CONNECTED.judge(operation, &reply, "a closed port");
        canaries::none_in("a reply", &reply.text);
    }
    assert!(scene.rig.ledger(before).await.is_empty());
    logs::none_leaked();
}

const READ_ONLY: Verdict = Verdict {
    category: "ReadOnly",
    status: None,
    retryable: false,
    doubtful: false,
};

#[tokio::test]
async fn read_only_client_sends_only_reads() {
    let scene = Scene::new().await;
    let client = scene.rig.read_only_client(KEY, Duration::from_secs(30));
    for &operation in Operation::ALL {
        let before = scene.rig.latest().await;
        let reply = operation.call_with(&client, &scene).await;
        // A root password is shown only for a while.
        let is_read = operation.kind() == Kind::Read && operation != Operation::RootPassword;
        let sent = scene.rig.ledger(before).await;
        assert_eq!(sent.len(), usize::from(is_read), "{operation:?}");
        if !is_read {
            READ_ONLY.judge(operation, &reply, "a read-only client");
        }
    }
}

type Spoil = fn(&mut Scene);

/// A range whose end is before its start.
fn reversed(scene: &mut Scene) {
    let [last, first] = ["192.0.2.9", "192.0.2.1"].map(|ip| ip.parse().unwrap());
    scene.arguments.rule.range = AddressRange::Span(last, first);
}

/// Requests that break a rule, and the field that the client names.
const SPOILED: &[(Operation, &str, Spoil)] = &[
    (Operation::ChangePassword, "newPassword", |scene| {
        scene.arguments.new_password = SecretText::new("");
    }),
    (Operation::ChangePassword, "currentPassword", |scene| {
        scene.arguments.password = SecretText::new("");
    }),
    (Operation::ResetPassword, "emailAddress", |scene| {
        scene.arguments.email = "owner"
    }),
    (Operation::ResetPassword, "emailAddress", |scene| {
        scene.arguments.email = "owner @example.com"
    }),
    (Operation::ValidateReset, "newPassword", |scene| {
        scene.arguments.new_password = SecretText::new("");
    }),
    (Operation::ValidateReset, "resetHash", |scene| {
        scene.arguments.reset_hash = SecretText::new("");
    }),
    (Operation::Order, "name", |scene| {
        scene.arguments.order.name = " ".to_owned()
    }),
    (Operation::Order, "order tag", |scene| {
        scene.arguments.order.tags.clear()
    }),
    (Operation::Order, "postInstallScript", |scene| {
        let script = SCRIPT.trim_start_matches("#!");
        scene.arguments.order.post_install_script = Some(SecretText::new(script));
    }),
    (Operation::Order, "contractId", |scene| {
        scene.arguments.order.contract_id = Some("c 1".to_owned());
    }),
    (Operation::Order, "siderolink.api", |scene| {
        scene.arguments.order.os.slug = "talos-omni-1110".to_owned();
        scene.arguments.order.os.kernel_params.clear();
    }),
    (Operation::Reinstall, "sshKey", |scene| {
        scene.arguments.reinstall.ssh_keys = None
    }),
    (Operation::CreateTag, "a tag must", |scene| {
        scene.arguments.new_tag = "a b".to_owned()
    }),
    (Operation::RenameTag, "a tag must", |scene| {
        scene.arguments.new_tag = "x".repeat(65)
    }),
    (Operation::RenameTag, "a tag must", |scene| {
        scene.arguments.tag = "..".to_owned()
    }),
    (Operation::Servers, "a tag must", |scene| {
        scene.arguments.tags = vec!["a b".to_owned()]
    }),
    (Operation::Usage, "endDate", |scene| {
        scene.arguments.days.1 = date(2023, 10, 31)
    }),
    (Operation::AddToWhitelist, "ipStart", reversed),
    (Operation::ChangeWhitelist, "ipStart", reversed),
    (Operation::Tag, "a tag must", |scene| {
        scene.arguments.tag = "..".to_owned()
    }),
    (Operation::DeleteTag, "a tag must", |scene| {
        scene.arguments.tag.clear()
    }),
    (Operation::AddTag, "a tag must", |scene| {
        scene.arguments.new_tag = "ä".to_owned()
    }),
    (Operation::RemoveTag, "a tag must", |scene| {
        scene.arguments.used_tag = "a/b".to_owned()
    }),
    (Operation::InstallHost, "sshKeyId", |scene| {
        scene.arguments.install.ssh_key = None
    }),
    (Operation::InstallHost, "siderolink.api", |scene| {
        scene.arguments.install.family = SystemFamily::Talos;
        scene.arguments.install.kernel_params[0].value = Some(SecretText::new("ftp://hub.example"));
    }),
    (Operation::CreateSshKey, "publicKey", |scene| {
        scene.arguments.public_key = "ssh-rsa"
    }),
];

#[tokio::test]
async fn what_breaks_a_rule_is_not_sent() {
    for (operation, field, spoil) in SPOILED {
        let mut scene = Scene::new().await;
        spoil(&mut scene);
        let before = scene.rig.latest().await;
        let reply = operation.call(&scene).await;
        INVALID.judge(*operation, &reply, field);
        assert!(reply.text.contains(field), "{operation:?}: {}", reply.text);
        canaries::none_in("a reply", &reply.text);
        assert!(scene.rig.ledger(before).await.is_empty(), "{operation:?}");
    }
}
