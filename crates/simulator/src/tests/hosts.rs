//! Hosts: list, power, installation.

use super::*;

async fn put(rig: &Rig, path: &str) -> (u16, Value) {
    read(rig.api(Method::PUT, path).send().await.unwrap()).await
}

#[tokio::test]
async fn dedicated_and_on_demand_hosts_are_in_one_list() {
    let rig = Rig::new().await;
    rig.order("flex", &[]).await;
    let kinds = async || {
        let (_, list) = rig.get("/v3/host").await;
        let hosts = list.as_array().unwrap().clone();
        hosts
            .iter()
            .map(|host| host["serverType"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(kinds().await, [1, 1]);
    rig.advance(DELIVERY).await;
    assert_eq!(kinds().await, [1, 1, 2]);
    let (_, page) = rig.ranged("/v3/host", "start=2,results=1").await;
    assert_eq!(page[0]["liveHostName"], "flex");
    assert!(page[0]["fmOrderId"].is_u64());
    refused(rig.get("/v3/host/7").await, 404);
    rig.turn("hostPaging", "token").await;
    let first = rig
        .api(Method::GET, "/v3/host")
        .header("RANGED-DATA", "start=0,results=2");
    let first = first.send().await.unwrap();
    let token = first.headers()["page-token"].clone();
    // Both dates are of the simulator's clock, which is driven here.
    let dates = ["date", "expires"].map(|name| first.headers()[name].to_str().unwrap());
    let dates = dates.map(|date| jiff::fmt::rfc2822::parse(date).unwrap().timestamp());
    assert_eq!(dates[1].duration_since(dates[0]).as_secs(), 300);
    let second = rig.api(Method::GET, "/v3/host").header("PAGE-TOKEN", token);
    let second = second.send().await.unwrap();
    assert!(!second.headers().contains_key("page-token"));
    assert_eq!(read(second).await.1[0]["liveHostName"], "flex");
}

#[tokio::test]
async fn power_is_turned_and_shown() {
    let rig = Rig::new().await;
    let uuid = rig.order("flex", &[]).await;
    rig.advance(DELIVERY).await;
    for host in ["1001", "100001"] {
        let of = |what: &str| format!("/v3/host/{host}/{what}");
        let status = async || rig.get(&of("status")).await.1[0]["result"].clone();
        assert_eq!(status().await, "running");
        let (code, answer) = put(&rig, &of("stop")).await;
        assert_eq!(
            (code, &answer[0]["timestamp"]),
            (200, &json!(START + DELIVERY))
        );
        assert_eq!(status().await, "stopped");
        put(&rig, &of("start")).await;
        assert_eq!(status().await, "running");
        assert_eq!(put(&rig, &of("restart")).await.0, 200);
    }
    assert_eq!(rig.look(&format!("machines/{uuid}")).await["power"], true);
    refused(put(&rig, "/v3/host/7/start").await, 404);
    refused(rig.get("/v3/host/7/status").await, 404);
}

#[tokio::test]
async fn uptime_counts_from_the_last_turn_of_power_and_the_first_day_stays() {
    let rig = Rig::new().await;
    let uuid = rig.order("flex", &[]).await;
    rig.advance(DELIVERY).await;
    let told = async |host: &str| {
        let record = rig.get(&format!("/v3/host/{host}")).await.1[0].clone();
        (
            record["uptime"].as_u64().unwrap(),
            record["dateActive"].clone(),
        )
    };
    for (host, before) in [("1001", DELIVERY), ("100001", 0)] {
        let turn = async |what: &str| put(&rig, &format!("/v3/host/{host}/{what}")).await.0;
        let (uptime, active) = told(host).await;
        // The machine has aged with the first of the two.
        let age = uptime - before;
        rig.advance(1_000).await;
        assert_eq!(told(host).await, (before + age + 1_000, active.clone()));
        // It runs: nothing is started.
        assert_eq!(turn("start").await, 200);
        assert_eq!(told(host).await.0, before + age + 1_000);
        assert_eq!(turn("restart").await, 200);
        rig.advance(10).await;
        assert_eq!(told(host).await, (10, active.clone()));
        assert_eq!(turn("stop").await, 200);
        rig.advance(10).await;
        assert_eq!(told(host).await, (0, active.clone()));
        assert_eq!(turn("start").await, 200);
        rig.advance(20).await;
        assert_eq!(told(host).await, (20, active));
    }
    // Commands turn power too, when they are done.
    for (command, uptime) in [("power_on", 120), ("reboot", 90), ("shutdown", 0)] {
        let path = format!("{SERVERS}/{uuid}/commands");
        let sent = rig.post(&path, &json!({"command": command})).await;
        assert_eq!(sent.0, 200);
        rig.advance(100).await;
        assert_eq!(told("100001").await.0, uptime, "{command}");
    }
}

#[tokio::test]
async fn an_installation_has_a_status_and_a_log() {
    let rig = Rig::new().await;
    let path = "/v3/host/1001/os/install";
    let key = "018f0000-0000-7000-8000-000000000000";
    let install = json!({"os": {"id": 104}, "sshKeyId": key, "quickFormat": true});
    let (status, echo) = rig.post(path, &install).await;
    assert_eq!(status, 200, "{echo}");
    assert!(echo[0]["hostname"].as_str().unwrap().starts_with("Server"));
    let shown = async || rig.get("/v3/host/1001").await.1[0]["installStatus"].clone();
    assert_eq!(shown().await, "created");
    refused(rig.post(path, &install).await, 422);
    rig.advance(100).await;
    assert_eq!(shown().await, "installing");
    rig.advance(200).await;
    assert_eq!(shown().await, "finished");
    let (_, log) = rig.get("/v3/host/1001/os/installLog").await;
    assert_eq!(log.as_array().unwrap().len(), 3);
    assert_eq!(log[2]["issueDescription"], "Installation finished");
    refused(rig.get("/v3/host/7/os/installLog").await, 404);
    refused(rig.post("/v3/host/7/os/install", &install).await, 404);
    refused(
        rig.post("/v3/host/1001/os/install", &json!({"os": {"id": 104}}))
            .await,
        422,
    );
    let bad = json!({"os": {"id": 7}, "sshKeyId": key});
    refused(rig.post(path, &bad).await, 422);
}

#[tokio::test]
async fn a_host_shows_the_system_that_was_last_installed_to_its_end() {
    let rig = Rig::new().await;
    let shown = async || {
        let host = rig.get("/v3/host/1001").await.1[0].clone();
        ["osId", "serverName", "liveHostName"].map(|field| host[field].clone())
    };
    let install = async |os: u32, name: &str| {
        let key = "018f0000-0000-7000-8000-000000000000";
        let body = json!({"os": {"id": os}, "sshKeyId": key, "hostname": name});
        let answer = rig.post("/v3/host/1001/os/install", &body).await;
        assert_eq!(answer.0, 200, "{}", answer.1);
    };
    let fresh = [json!(0), json!("host-1001"), json!("host-1001")];
    assert_eq!(shown().await, fresh);
    install(104, "first").await;
    rig.advance(299).await;
    assert_eq!(shown().await, fresh);
    rig.advance(1).await;
    let first = [json!(104), json!("first"), json!("first")];
    assert_eq!(shown().await, first);
    rig.steer("settings", json!({"commandFailureRate": 1.0}))
        .await;
    install(101, "second").await;
    rig.advance(300).await;
    assert_eq!(shown().await, first);
}

#[tokio::test]
async fn kubernetes_systems_need_their_kernel_parameters() {
    let rig = Rig::new().await;
    let key = "018f0000-0000-7000-8000-000000000000";
    let status = async |params: &str| {
        let install = json!({"os": {"id": 114, "kernelParams": params}, "sshKeyId": key, "hostname": "node-1"});
        let answer = rig.post("/v3/host/1001/os/install", &install).await;
        rig.advance(300).await;
        answer.0
    };
    assert_eq!(status("").await, 422);
    assert_eq!(status("net.ifnames=0").await, 422);
    assert_eq!(status("siderolink.api=nonsense").await, 422);
    assert_eq!(
        status("siderolink.api=https://hub.example net.ifnames=1").await,
        200
    );
    assert_eq!(status("factoryhash=abc").await, 200);
    assert_eq!(status("siderolink.api=foo:bar").await, 422);
    assert_eq!(status("siderolink.api=ftp://hub.example").await, 422);
    assert_eq!(status("siderolink.api=grpc://hub.example:8090").await, 200);
    assert_eq!(status("factoryhash=").await, 422);
    assert_eq!(status("factoryhash=abc net.ifnames=1").await, 422);
    rig.turn("factoryParams", "accept").await;
    assert_eq!(status("factoryhash=abc net.ifnames=1").await, 200);
    let both = "factoryhash=abc siderolink.api=https://hub.example";
    assert_eq!(status(both).await, 422, "they never go together");
}

#[tokio::test]
async fn an_installation_says_in_its_log_why_it_failed() {
    let rig = Rig::new().await;
    let key = "018f0000-0000-7000-8000-000000000000";
    let install = json!({"os": {"id": 104}, "sshKeyId": key});
    let fail = json!({"fault": {"fail": {"message": "disk broke"}}, "count": 1});
    rig.steer("faults", fail).await;
    let last = async |host: &str| {
        let answer = rig
            .post(&format!("/v3/host/{host}/os/install"), &install)
            .await;
        assert_eq!(answer.0, 200, "{}", answer.1);
        rig.advance(300).await;
        let (_, log) = rig.get(&format!("/v3/host/{host}/os/installLog")).await;
        log.as_array().unwrap().last().unwrap().clone()
    };
    let failed = last("1001").await;
    assert_eq!(
        failed["issueDescription"],
        "Installation failed: disk broke"
    );
    assert_eq!(
        (&failed["issueOpen"], &failed["issueResolved"]),
        (&json!(1), &json!(""))
    );
    rig.steer("settings", json!({"commandFailureRate": 1}))
        .await;
    let failed = last("1002").await;
    assert_eq!(failed["issueDescription"], "Installation failed");
}
