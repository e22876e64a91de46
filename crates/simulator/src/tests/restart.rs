//! What was answered survives the end of the process, and the same seed gives
//! the same answers.

use super::*;

fn kept(folder: &tempfile::TempDir) -> Options {
    Options {
        state: Some(folder.path().join("state")),
        ..options(Profile::Document)
    }
}

/// Everything that the API shows of an account.
async fn view(rig: &Rig) -> Vec<Value> {
    let mut seen = Vec::new();
    for path in [
        SERVERS,
        "/v3/flexMetal/tags",
        "/v3/sshKey",
        "/v3/host",
        "/v3/flexMetal/quota/usage",
        "/v3/account/apiKey/1/whitelist",
    ] {
        seen.push(rig.get(path).await.1);
    }
    seen
}

async fn work(rig: &Rig) {
    let gone = rig.order("gone", &["a"]).await;
    rig.advance(DELIVERY).await;
    let uuid = rig.order("stays", &["a", "b"]).await;
    rig.delete(&format!("{SERVERS}/{gone}")).await;
    rig.post(&format!("{SERVERS}/{uuid}/tag/c"), &Value::Null)
        .await;
    rig.delete(&format!("{SERVERS}/{uuid}/tag/b")).await;
    rig.delete("/v3/flexMetal/tags/b").await;
    let key = json!({"name": "me", "publicKey": "ssh-ed25519 AAAAC3 me"});
    rig.post("/v3/sshKey", &key).await;
    let entry = json!({"ipRange": "127.0.0.0/8", "active": 1});
    rig.post("/v3/account/apiKey/1/whitelist", &entry).await;
    read(
        rig.api(Method::PUT, "/v3/host/1001/stop")
            .send()
            .await
            .unwrap(),
    )
    .await;
}

#[tokio::test]
async fn a_restart_changes_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::with(kept(&folder)).await;
    work(&rig).await;
    let before = view(&rig).await;
    rig.running.stop().await;
    let rig = Rig::with(kept(&folder)).await;
    assert_eq!(view(&rig).await, before);
    // Planned steps still happen.
    rig.advance(DELIVERY).await;
    let (_, list) = rig.get(SERVERS).await;
    assert_eq!(
        (&list[0]["status"], &list[1]["status"]),
        (&json!("released"), &json!("delivered"))
    );
    // New things get new names.
    let uuid = rig.order("later", &[]).await;
    assert!(!list.to_string().contains(&uuid));
}

#[tokio::test]
async fn reported_time_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::with(kept(&folder)).await;
    rig.advance(3_600).await;
    let told = rig.look("clock").await;
    rig.running.stop().await;
    let rig = Rig::with(kept(&folder)).await;
    assert_eq!(rig.look("clock").await, told);
}

#[tokio::test]
async fn state_seen_by_get_survives_restart() {
    let folder = tempfile::tempdir().unwrap();
    let fast = ClockMode::Real { speed: 10_000.0 };
    let rig = Rig::with(Options {
        clock: fast,
        ..kept(&folder)
    })
    .await;
    let uuid = rig.order("a", &[]).await;
    let delivered = async {
        while rig.status(&uuid).await != "delivered" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), delivered)
        .await
        .unwrap();
    rig.running.stop().await;
    // The clock stands where the file says: nothing can become due again.
    let rig = Rig::with(kept(&folder)).await;
    assert_eq!(rig.status(&uuid).await, "delivered");
}

#[tokio::test]
async fn reads_save_state_at_most_once_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let lines = || {
        let text = std::fs::read_to_string(folder.path().join("state")).unwrap();
        text.lines().count()
    };
    let rig = Rig::with(kept(&folder)).await;
    work(&rig).await;
    let written = lines();
    view(&rig).await;
    assert_eq!(lines(), written);
    rig.running.stop().await;
    let begun = tokio::time::Instant::now();
    let rig = Rig::with(Options {
        clock: ClockMode::Real { speed: 1_000.0 },
        ..kept(&folder)
    })
    .await;
    // Nothing is left that becomes due and is written for itself.
    rig.advance(DELIVERY).await;
    let written = lines();
    let mut seen = 0;
    while begun.elapsed() < Duration::from_millis(2_500) {
        rig.get(SERVERS).await;
        seen += 1;
    }
    let most = usize::try_from(begun.elapsed().as_secs()).unwrap() + 1;
    assert!(lines() - written <= most, "{seen} requests");
    assert!(lines() > written, "{seen} requests");
}

#[tokio::test]
async fn only_an_incomplete_last_line_is_ignored() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::with(kept(&folder)).await;
    work(&rig).await;
    let before = view(&rig).await;
    rig.running.stop().await;
    let path = folder.path().join("state");
    let append = |text: &str| {
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    append("{\"at\": 17");
    let rig = Rig::with(kept(&folder)).await;
    assert_eq!(view(&rig).await, before);
    rig.running.stop().await;
    append("nonsense\n");
    let error = start(kept(&folder)).await.unwrap_err().to_string();
    assert!(error.starts_with("line 2 of the state file"), "{error}");
}

#[tokio::test]
async fn host_ids_survive_reordered_accounts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("accounts");
    let with = |names: &[&str]| {
        let accounts: Vec<Value> = names
            .iter()
            .map(|name| json!({"name": name, "keys": [{"key": name}]}))
            .collect();
        std::fs::write(&file, json!({"accounts": accounts}).to_string()).unwrap();
        Options {
            api_key: None,
            accounts: Some(file.clone()),
            ..kept(&folder)
        }
    };
    let ids = async |rig: &Rig, key: &str| {
        let url = format!("{}/v3/host", rig.running.api_url());
        let list = rig.client.get(url).header("PRIVATE-TOKEN", key);
        let list = read(list.send().await.unwrap()).await.1;
        let ids = list.as_array().unwrap().iter();
        ids.map(|host| host["id"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    let rig = Rig::with(with(&["blue", "green"])).await;
    for account in ["green", "blue", "green"] {
        let path = format!("machines?account={account}");
        rig.steer(&path, json!({"name": "m"})).await;
    }
    let (blue, green) = ([1_001, 1_002, 100_002], [1_003, 1_004, 100_001, 100_003]);
    assert_eq!(ids(&rig, "blue").await, blue);
    assert_eq!(ids(&rig, "green").await, green);
    rig.running.stop().await;
    let rig = Rig::with(with(&["red", "green", "blue"])).await;
    rig.steer("machines?account=red", json!({"name": "m"}))
        .await;
    assert_eq!(ids(&rig, "blue").await, blue);
    assert_eq!(ids(&rig, "green").await, green);
    assert_eq!(ids(&rig, "red").await, [1_005, 1_006, 100_004]);
}

#[tokio::test]
async fn a_state_file_has_one_user() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::with(kept(&folder)).await;
    let error = start(kept(&folder)).await.unwrap_err().to_string();
    assert!(error.contains("in use"), "{error}");
    rig.running.stop().await;
}

#[tokio::test]
async fn same_seed_and_requests_give_same_answers() {
    let mut views = Vec::new();
    for seed in [7, 7, 8] {
        let rig = Rig::with(Options {
            seed: Some(seed),
            delivery: Delivery {
                min: Duration::from_secs(10),
                max: Duration::from_secs(900),
            },
            failure_rate: 0.5,
            ..options(Profile::Observed)
        })
        .await;
        work(&rig).await;
        for number in 0..10 {
            rig.order(&format!("n{number}"), &[]).await;
            rig.advance(45).await;
        }
        views.push(view(&rig).await);
    }
    assert_eq!(views[0], views[1]);
    assert_ne!(views[0], views[2]);
}

/// Starts once more on the same state, with other options.
async fn again(rig: Rig, folder: &tempfile::TempDir, change: impl FnOnce(&mut Options)) -> Rig {
    rig.running.stop().await;
    let mut options = kept(folder);
    change(&mut options);
    Rig::with(options).await
}

async fn revoke(rig: &Rig, key: &str) {
    rig.steer("keys", json!({"key": key, "valid": false})).await;
}

/// A file of accounts with a key each: `blue` has `blue-key`.
fn accounts(folder: &tempfile::TempDir, names: &[&str]) -> Option<std::path::PathBuf> {
    let account = |name: &&str| json!({"name": name, "keys": [{"key": format!("{name}-key")}]});
    let accounts: Vec<_> = names.iter().map(account).collect();
    let file = folder.path().join("accounts.json");
    std::fs::write(&file, json!({"accounts": accounts}).to_string()).unwrap();
    Some(file)
}

#[tokio::test]
async fn a_key_that_was_revoked_stays_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::with(kept(&folder)).await;
    revoke(&rig, "test-key").await;
    let keys = rig.look("keys").await;
    let rig = again(rig, &folder, |_| {}).await;
    assert_eq!(rig.running.api_key, "test-key", "the one that was given");
    refused(rig.get(SERVERS).await, 403);
    assert_eq!(rig.look("keys").await, keys);
    // Somebody who gives no key gets one that works.
    let rig = again(rig, &folder, |options| options.api_key = None).await;
    assert_eq!(rig.get(SERVERS).await.0, 200);
    let made_up = rig.running.api_key.clone();
    let rig = again(rig, &folder, |options| options.api_key = None).await;
    assert_eq!(rig.running.api_key, made_up, "one is enough");
    let next = |options: &mut Options| options.api_key = Some("next".to_owned());
    let rig = again(rig, &folder, next).await;
    assert_eq!(rig.running.api_key, "next");
    assert_eq!(rig.get(SERVERS).await.0, 200);
    assert_eq!(rig.look("keys").await.as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn no_key_is_generated_with_accounts_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = accounts(&folder, &["blue", "green"]);
    let rig = Rig::with(kept(&folder)).await;
    let rig = again(rig, &folder, |options| options.accounts = file.clone()).await;
    for key in ["test-key", "blue-key"] {
        revoke(&rig, key).await;
    }
    let keys = rig.look("keys").await;
    let rig = again(rig, &folder, |options| options.accounts = file).await;
    assert_eq!(rig.look("keys").await, keys);
    assert_eq!(rig.running.api_key, "");
}

#[tokio::test]
async fn kept_accounts_come_first_and_in_their_order() {
    let names = async |rig: &Rig| -> Vec<String> { names(&rig.look("accounts").await) };
    let folder = tempfile::tempdir().unwrap();
    let file = accounts(&folder, &["blue", "green"]);
    let rig = Rig::with(Options {
        accounts: file,
        ..kept(&folder)
    })
    .await;
    rig.order("a", &[]).await;
    let keys = rig.look("keys").await;
    let rig = again(rig, &folder, |options| options.api_key = None).await;
    assert_eq!(names(&rig).await, ["blue", "green"]);
    assert_eq!(rig.running.api_key, "blue-key");
    assert_eq!(rig.look("keys").await, keys);
    assert_eq!(rig.look("machines").await.as_array().unwrap().len(), 1);
    let file = accounts(&folder, &["red", "green"]);
    let rig = again(rig, &folder, |options| options.accounts = file).await;
    assert_eq!(names(&rig).await, ["blue", "green", "red"]);
    // A key that is given is one of the first account.
    let rig = again(rig, &folder, |_| {}).await;
    assert_eq!(rig.get(SERVERS).await.1[0]["name"], "a");
}

#[tokio::test]
async fn unrelated_file_is_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let start_on = async || match crate::start(kept(&folder)).await {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    for text in [
        "a letter without a line end",
        "a letter\n",
        "{}\n",
        "{\"at\":",
        "\n",
    ] {
        std::fs::write(&path, text).unwrap();
        assert!(start_on().await.contains("state"), "{text:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    // What stands where the next form of it is written first is not lost either.
    std::fs::remove_file(&path).unwrap();
    let beside = folder.path().join("state.new");
    let line = "{\"at\":12,\"draws\":0,\"accounts\":[]}\n";
    for text in [
        "a letter".to_owned(),
        "{\"at\":\"the station\"}".to_owned(),
        "{\"at\":12}\n".to_owned(),
        format!("{line}a letter"),
    ] {
        std::fs::write(&beside, &text).unwrap();
        assert!(start_on().await.contains("state.new"), "{text}");
        assert_eq!(std::fs::read_to_string(&beside).unwrap(), text);
    }
    // Nobody writes to it: to open it would last.
    std::fs::remove_file(&beside).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&beside).status();
    assert!(made.unwrap().success());
    assert!(start_on().await.contains("state.new"));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(start_on().await.contains("another name"));
    std::fs::remove_dir(&path).unwrap();
    // What a start left that did not come to its end is its own.
    std::fs::remove_file(&beside).unwrap();
    for text in [
        "",
        "{\"a",
        "{\"at\":12",
        &format!("{line}{}", &line[..20]),
        line,
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("state.new"), text).unwrap();
        assert!(crate::start(kept(&folder)).await.is_ok(), "{text}");
    }
}
