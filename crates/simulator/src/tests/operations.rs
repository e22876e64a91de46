//! Re-installation, commands, lshw, root password, tags of the account, SSH
//! keys, health.

use super::*;

async fn delivered(rig: &Rig, slug: &str) -> String {
    let mut order = body("web", &["t"]);
    order["os"] = json!({"slug": slug});
    let (status, answer) = rig.post(SERVERS, &order).await;
    assert_eq!(status, 200, "{answer}");
    rig.advance(DELIVERY).await;
    answer[0]["uuid"].as_str().unwrap().to_owned()
}

async fn send(rig: &Rig, method: Method, path: &str, body: &Value) -> (u16, Value) {
    read(rig.api(method, path).json(body).send().await.unwrap()).await
}

#[tokio::test]
async fn commands_are_pending_then_finished_and_turn_power() {
    let rig = Rig::new().await;
    let uuid = delivered(&rig, "debian-13").await;
    let path = format!("{SERVERS}/{uuid}/commands");
    let power = async || rig.look(&format!("machines/{uuid}")).await["power"].clone();
    assert_eq!(power().await, true);
    let (status, sent) = rig.post(&path, &json!({"command": "power_off"})).await;
    assert_eq!(status, 200, "{sent}");
    let command = &sent[0];
    assert_eq!(command["state"], "pending");
    assert_eq!(command["serverUuid"], uuid.as_str());
    assert_eq!(command["payload"], json!({"command": "power_off"}));
    assert_eq!(command["createdAt"], "2023-11-14T22:18:20.000Z");
    rig.advance(10).await;
    let one = format!("{path}/{}", command["uuid"].as_str().unwrap());
    assert_eq!(rig.get(&one).await.1[0]["state"], "finished");
    assert_eq!(power().await, false);
    refused(rig.post(&path, &json!({"command": "explode"})).await, 422);
    refused(
        rig.post(&path, &json!({"command": "update-server"})).await,
        422,
    );
    refused(rig.get(&format!("{path}/{uuid}")).await, 404);
    rig.steer(
        "faults",
        json!({"match": {"method": "POST"}, "fault": {"fail": {"message": "no"}}, "count": 1}),
    )
    .await;
    rig.post(&path, &json!({"command": "power_on"})).await;
    rig.advance(10).await;
    assert_eq!(rig.get(&path).await.1[0]["state"], "failed");
    assert_eq!(power().await, false);
    rig.delete(&format!("{SERVERS}/{uuid}")).await;
    refused(rig.post(&path, &json!({"command": "reboot"})).await, 422);
}

#[tokio::test]
async fn a_reinstallation_is_tracked_by_its_command() {
    let rig = Rig::observed().await;
    let uuid = delivered(&rig, "debian-13").await;
    let (path, commands) = (
        format!("{SERVERS}/{uuid}"),
        format!("{SERVERS}/{uuid}/commands"),
    );
    rig.post(&commands, &json!({"command": "reboot"})).await;
    let wanted =
        json!({"name": "new", "os": {"slug": "ubuntu-2404-lts"}, "sshKey": ["ssh-rsa AAAA"]});
    let (status, answer) = send(
        &rig,
        Method::PATCH,
        &format!("{path}?wipeDisk=false"),
        &wanted,
    )
    .await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer[0]["status"], "delivered");
    assert_eq!(answer[0]["name"], "new");
    let (_, tracked) = rig.get(&format!("{commands}?type=update-server")).await;
    assert_eq!(tracked.as_array().unwrap().len(), 1);
    assert_eq!(
        (&tracked[0]["state"], &tracked[0]["payload"]),
        (&json!("pending"), &json!([]))
    );
    assert_eq!(tracked[0]["server_uuid"], uuid.as_str());
    refused(send(&rig, Method::PATCH, &path, &json!({})).await, 409);
    rig.advance(300).await;
    let (_, tracked) = rig.get(&format!("{commands}?type=update-server")).await;
    assert_eq!(tracked[0]["state"], "finished");
    assert_eq!(rig.get(&commands).await.1.as_array().unwrap().len(), 2);
    refused(
        send(
            &rig,
            Method::PATCH,
            &format!("{path}?wipeDisk=maybe"),
            &json!({}),
        )
        .await,
        422,
    );
    let keyless = json!({"os": {"slug": "debian-13"}});
    refused(send(&rig, Method::PATCH, &path, &keyless).await, 422);
    assert_eq!(send(&rig, Method::PATCH, &path, &json!({})).await.0, 200);
    let effects = rig.look("ledger?method=PATCH").await;
    assert_eq!(effects[0]["effect"]["wipeDisk"], false);
}

#[tokio::test]
async fn the_root_password_is_for_windows_and_for_a_day() {
    let rig = Rig::new().await;
    let windows = delivered(&rig, "windows-2022").await;
    let linux = delivered(&rig, "debian-13").await;
    let of = |uuid: &str| format!("{SERVERS}/{uuid}/rootPassword");
    refused(rig.get(&of(&linux)).await, 404);
    let (status, first) = rig.get(&of(&windows)).await;
    assert_eq!(status, 200);
    assert!(first[0]["rootPassword"].as_str().unwrap().len() > 8);
    rig.advance(24 * 3600).await;
    refused(rig.get(&of(&windows)).await, 404);
    send(
        &rig,
        Method::PATCH,
        &format!("{SERVERS}/{windows}"),
        &json!({}),
    )
    .await;
    refused(rig.get(&of(&windows)).await, 404);
    rig.advance(300).await;
    let (status, second) = rig.get(&of(&windows)).await;
    assert_eq!(status, 200);
    assert_ne!(first, second);
}

#[tokio::test]
async fn the_hardware_listing_is_null_until_it_is_known() {
    let rig = Rig::new().await;
    let uuid = rig.order("a", &[]).await;
    let path = format!("{SERVERS}/{uuid}/lshw");
    assert_eq!(
        rig.get(&path).await,
        (200, json!([{"createdAt": 0, "lshw": null}]))
    );
    rig.advance(DELIVERY + 60).await;
    let (_, listing) = rig.get(&path).await;
    assert_eq!(listing[0]["createdAt"], START + DELIVERY + 60);
    assert_eq!(listing[0]["lshw"]["class"], "system");
    refused(rig.get(&format!("{SERVERS}/nobody/lshw")).await, 404);
}

#[tokio::test]
async fn tags_are_created_and_renamed_with_their_machines() {
    let rig = Rig::new().await;
    let tags = "/v3/flexMetal/tags";
    let (status, made) = rig.post(tags, &json!({"tag": "blue"})).await;
    assert_eq!((status, &made[0]["resources"]["count"]), (200, &json!(0)));
    let twice = rig.post(tags, &json!({"tag": "blue"})).await;
    assert_eq!(twice.1["errors"], json!([]));
    assert!(refused(twice, 422).contains("exists"));
    refused(rig.post(tags, &json!({"tag": "no blank"})).await, 422);
    refused(rig.post(tags, &json!({})).await, 422);
    let uuid = rig.order("a", &["old", "other"]).await;
    let rename = async |from: &str, to: &str| {
        send(
            &rig,
            Method::PUT,
            &format!("{tags}/{from}"),
            &json!({"tag": to}),
        )
        .await
    };
    refused(rename("none", "x").await, 404);
    refused(rename("old", "blue").await, 409);
    refused(rename("old", "no blank").await, 422);
    let (status, renamed) = rename("old", "new").await;
    assert_eq!(
        (status, &renamed[0]["resources"]["count"]),
        (200, &json!(1))
    );
    assert_eq!(rig.server(&uuid).await["tags"], json!(["new", "other"]));
    refused(rig.get("/v3/flexMetal/tags/old").await, 404);
    rig.turn("renameTag", "detach").await;
    rename("new", "newer").await;
    assert_eq!(rig.server(&uuid).await["tags"], json!(["other"]));
}

#[tokio::test]
async fn ssh_keys_are_stored_named_and_deleted() {
    let rig = Rig::new().await;
    let key = json!({"name": "me", "publicKey": "ssh-ed25519 AAAAC3 me@here"});
    let (status, stored) = rig.post("/v3/sshKey", &key).await;
    assert_eq!((status, &stored[0]["publicKey"]), (200, &key["publicKey"]));
    assert_eq!(stored[0]["createdAt"], START);
    let uuid = stored[0]["uuid"].as_str().unwrap();
    assert_eq!(rig.get("/v3/sshKey").await.1, stored);
    assert_eq!(rig.get(&format!("/v3/sshKey/{uuid}")).await.1, stored);
    rig.turn("unknownSshKey", "refuse422").await;
    let mut order = body("a", &[]);
    order["sshKey"] = json!([uuid]);
    assert_eq!(rig.post(SERVERS, &order).await.0, 200);
    assert_eq!(
        rig.delete(&format!("/v3/sshKey/{uuid}")).await,
        (204, Value::Null)
    );
    refused(rig.delete(&format!("/v3/sshKey/{uuid}")).await, 404);
    refused(rig.delete("/v3/sshKey/nonsense").await, 400);
    refused(rig.get("/v3/sshKey/nonsense").await, 404);
    refused(rig.post(SERVERS, &order).await, 422);
    for bad in [
        json!({"name": "x"}),
        json!({"name": "x", "publicKey": "nonsense"}),
    ] {
        refused(rig.post("/v3/sshKey", &bad).await, 422);
    }
}

#[tokio::test]
async fn health_needs_no_key() {
    let rig = Rig::new().await;
    let url = format!("{}/v3/health", rig.running.api_url());
    let answer = read(rig.client.get(url).send().await.unwrap()).await;
    assert_eq!(answer, (200, json!({"status": "OK"})));
}
