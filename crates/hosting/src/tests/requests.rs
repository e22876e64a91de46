//! The parts of a request that no simulator shows: fields that no answer repeats, deadlines, and the key's header. The
//! ledger in `crates/hosting/tests/client` shows the rest.

use serde_json::json;

use super::{
    KEY, ORDER_TAG, UUID, id,
    install::param,
    order, record,
    script::{body, line, sent},
};
use hosting_types::{
    HostId, Order, SecretText, SshKeyId,
    host::{HostInstall, InstallForm, InstallParam, KernelParamsForm},
    server::{DiskWipe, Partition, PartitionSize, Reinstall, SystemChoice, SystemFamily, UserData},
};

fn partition(target: &str, size: PartitionSize) -> Partition {
    Partition {
        target: target.to_owned(),
        filesystem: "ext4".to_owned(),
        size,
    }
}

fn data(text: &str, is_base64: bool) -> Option<UserData> {
    Some(UserData {
        data: SecretText::new(text),
        is_base64,
    })
}

async fn body_of(order: &Order) -> serde_json::Value {
    let (request, _) = sent(200, &record().to_string(), async |client| {
        client.order(order, ORDER_TAG).await
    })
    .await;
    assert_eq!(request.headers["content-type"], "application/json");
    body(&request)
}

#[tokio::test]
async fn order_sends_exactly_the_given_fields() {
    let full = Order {
        contract_id: Some("C-1".to_owned()),
        overflow: true,
        post_install_script: Some(SecretText::new("#!/bin/sh\ntrue\n")),
        user_data: data("aGVsbG8=", true),
        os: SystemChoice {
            kernel_params: vec![param("console", "ttyS0")],
            partitions: vec![
                partition("/boot", PartitionSize::Megabytes(4096)),
                partition("/", PartitionSize::Rest),
            ],
            ..SystemChoice::of_slug("debian-13")
        },
        ..order()
    };
    assert_eq!(
        body_of(&full).await,
        json!({
            "name": "node-1",
            "location": "EU: Rotterdam",
            "instanceType": "bm7.std.8",
            "os": {"slug": "debian-13",
                "kernelParams": [{"key": "console", "value": "ttyS0"}],
                "partitions": [{"target": "/boot", "filesystem": "ext4", "size": 4096},
                               {"target": "/", "filesystem": "ext4", "size": -1}]},
            "sshKey": ["ssh-ed25519 AAAA me@here"],
            "tags": ["fmo-cluster:0123456789abcdef", ORDER_TAG],
            "contractId": "C-1",
            "overflow": true,
            "postInstallScript": "#!/bin/sh\ntrue\n",
            "userData": {"data": "aGVsbG8=", "isBase64": true},
        })
    );
    let least = Order {
        ssh_keys: Vec::new(),
        contract_id: Some(String::new()),
        os: SystemChoice {
            ipxe_script_url: Some(SecretText::new("https://boot.example.com/a.ipxe")),
            ..SystemChoice::of_slug("custom-ipxe")
        },
        ..order()
    };
    let least = body_of(&least).await;
    assert_eq!(least["sshKey"], json!([]));
    assert!(least.get("contractId").is_none());
    assert_eq!(
        least["os"],
        json!({"slug": "custom-ipxe", "ipxeScriptUrl": "https://boot.example.com/a.ipxe"})
    );
}

#[tokio::test]
async fn reinstall_sends_given_fields_and_wipe() {
    let path = format!("PATCH /v3/flexMetal/servers/{UUID}?wipeDisk");
    let full = Reinstall {
        name: Some("node-2".to_owned()),
        ssh_keys: Some(vec![UUID.to_owned()]),
        post_install_script: Some(SecretText::new("#!/bin/sh\n")),
        os: Some(SystemChoice::of_slug("ubuntu-2404-lts")),
        user_data: data("x", false),
        wipe: DiskWipe::Skip,
    };
    for (given, wipe, wanted) in [
        (Reinstall::default(), "true", json!({})),
        (
            full,
            "false",
            json!({"name": "node-2", "sshKey": [UUID], "postInstallScript": "#!/bin/sh\n",
                "os": {"slug": "ubuntu-2404-lts"}, "userData": {"data": "x", "isBase64": false}}),
        ),
    ] {
        let (request, _) = sent(200, &record().to_string(), async |client| {
            client.reinstall(&id(), &given).await
        })
        .await;
        assert_eq!(line(&request), format!("{path}={wipe}"));
        assert_eq!(body(&request), wanted);
    }
}

#[tokio::test]
async fn an_installation_has_each_point_of_its_form() {
    let mut install = HostInstall::new(17, SystemFamily::Linux);
    install.ssh_key = SshKeyId::parse(UUID).ok();
    let body_of = async |install: &HostInstall| {
        let (request, _) = sent(200, "[]", async |client| {
            client.install_host(HostId(5), install).await
        })
        .await;
        body(&request)
    };
    assert_eq!(
        body_of(&install).await,
        json!({"os": {"id": 17}, "sshKeyId": UUID})
    );
    install.hostname = Some("db-1.example.com".to_owned());
    install.kernel_params = vec![
        param("net.ifnames", "0").into(),
        InstallParam::bare("quiet"),
    ];
    install.post_install_script = Some(SecretText::new("#!/bin/bash\n"));
    install.quick_format = Some(false);
    let text = json!("net.ifnames=0 quiet");
    let list = json!([{"key": "net.ifnames", "value": "0"}, {"key": "quiet"}]);
    let mixed = InstallForm {
        kernel_params: KernelParamsForm::Array,
        ..InstallForm::default()
    };
    for (form, key, params) in [
        (InstallForm::default(), "sshKeyId", &text),
        (InstallForm::OBSERVED, "sshKeyUuid", &list),
        (mixed, "sshKeyId", &list),
    ] {
        install.form = form;
        assert_eq!(
            body_of(&install).await,
            json!({"hostname": "db-1.example.com", "os": {"id": 17, "kernelParams": params},
                "postInstallScript": "#!/bin/bash\n", key: UUID, "quickFormat": false})
        );
    }
}

#[tokio::test]
async fn key_header_is_flagged_sensitive() {
    let (request, _) = sent(200, &record().to_string(), async |client| {
        client.server(&id()).await
    })
    .await;
    let key = &request.headers["private-token"];
    assert_eq!(key, KEY);
    assert!(key.is_sensitive());
    assert!(!format!("{request:?}").contains(KEY));
}

#[tokio::test]
async fn orders_questions_and_changes_have_their_own_deadlines() {
    let (order, _) = sent(200, "[]", async |client| {
        client.order(&order(), ORDER_TAG).await
    })
    .await;
    let (question, _) = sent(200, "[]", async |client| client.plans().await).await;
    let (change, _) = sent(200, "[]", async |client| client.release(&id()).await).await;
    assert_eq!(order.deadline.as_secs(), 180);
    assert_eq!(question.deadline.as_secs(), 30);
    assert_eq!(change.deadline.as_secs(), 180);
    assert!(question.is_read() && !order.is_read() && !change.is_read());
    assert!(change.caps.success < question.caps.success);
}
