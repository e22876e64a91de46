//! The page for people.

use super::*;

async fn page(rig: &Rig) -> String {
    let url = format!("{}/_simulator/", rig.running.control_url());
    let answer = rig.client.get(url).send().await.unwrap();
    let header = |name| answer.headers()[name].to_str().unwrap();
    assert!(header("content-type").starts_with("text/html"));
    assert!(header("content-security-policy").starts_with("default-src 'none';"));
    answer.text().await.unwrap()
}

async fn press(rig: &Rig, form: &'static str, origin: Option<&str>) -> u16 {
    let url = format!("{}/_simulator/page", rig.running.control_url());
    let request = rig.client.post(url).body(form);
    let request = match origin {
        Some(origin) => request.header("Origin", origin),
        None => request,
    };
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn page_shows_state_without_running_scripts() {
    let rig = Rig::new().await;
    let uuid = rig.order("<script>alert(1)</script>", &["a:b"]).await;
    let shown = page(&rig).await;
    for part in [
        uuid.as_str(),
        "&lt;script&gt;",
        "created",
        "5 min 0 s",
        "bm7.std.8",
        "a:b",
        "POST /v3/flexMetal/servers",
        "Paying for 0",
    ] {
        assert!(shown.contains(part), "{part}");
    }
    for foreign in ["<script", "src=", "href=", "test-key"] {
        assert!(!shown.contains(foreign), "{foreign}");
    }
    assert_eq!(press(&rig, "advance=900", None).await, 200);
    let later = page(&rig).await;
    assert!(later.contains("delivered") && later.contains("Paying for 1"));
}

#[tokio::test]
async fn buttons_work_only_from_the_page_itself() {
    let rig = Rig::new().await;
    let own = rig.running.control_url();
    assert_eq!(
        press(&rig, "fault=0", Some("http://evil.example")).await,
        403
    );
    for form in ["fault=0", "fault=1", "fault=2", "fault=3"] {
        assert_eq!(press(&rig, form, Some(&own)).await, 200, "{form}");
    }
    for unknown in ["fault=9", "fault=x", "lamp=1"] {
        assert_eq!(press(&rig, unknown, None).await, 400, "{unknown}");
    }
    assert_eq!(press(&rig, "speed=60", None).await, 200);
    assert_eq!(rig.look("clock").await["speed"], 60.0);
    assert_eq!(rig.look("faults").await.as_array().unwrap().len(), 4);
    assert_eq!(press(&rig, "clear=1", None).await, 200);
    assert_eq!(rig.look("faults").await, json!([]));
}

#[tokio::test]
async fn page_lists_fault_rules_with_drop_buttons() {
    let rig = Rig::new().await;
    assert!(!page(&rig).await.contains("class=\"faults\""));
    let lost = json!({"match": {"path": "/v3/<b>"}, "fault": "dropAfter", "count": 1});
    rig.steer("faults", lost).await;
    let slow = json!({"fault": {"status": {"code": 429}}, "count": 1});
    rig.steer("faults", slow).await;
    refused(rig.get(SERVERS).await, 429);
    let shown = page(&rig).await;
    for part in [
        "dropAfter",
        "/v3/&lt;b&gt;",
        "Drop rule 1",
        "2 fault rules, 1 used up.",
        "1, used up",
        "Drop rule 2",
    ] {
        assert!(shown.contains(part), "{part}");
    }
    assert_eq!(press(&rig, "drop=1", None).await, 200);
    let left = rig.look("faults").await;
    assert_eq!(
        (left.as_array().unwrap().len(), &left[0]["id"]),
        (1, &json!(2))
    );
    assert_eq!(press(&rig, "drop=1", None).await, 200, "dropped twice");
    assert!(!page(&rig).await.contains("dropAfter"));
}

#[tokio::test]
async fn it_shows_the_dedicated_hosts() {
    let rig = Rig::new().await;
    let key = "018f0000-0000-7000-8000-000000000000";
    let install = json!({"os": {"id": 104}, "sshKeyId": key, "hostname": "db-1"});
    assert_eq!(rig.post("/v3/host/1001/os/install", &install).await.0, 200);
    rig.advance(300).await;
    // And a system on top of it that is not there yet.
    let again = json!({"os": {"id": 104}, "sshKeyId": key, "hostname": "db-2"});
    assert_eq!(rig.post("/v3/host/1001/os/install", &again).await.0, 200);
    let stop = rig.api(Method::PUT, "/v3/host/1002/stop");
    assert_eq!(stop.send().await.unwrap().status(), 200);
    let shown = page(&rig).await;
    for row in [
        "<td>1001<td>db-1<td>bm7.std.8<td>running<td>",
        "<td>created</tr>",
        "<td>1002<td>host-1002<td>",
        "<td>stopped<td>",
    ] {
        assert!(shown.contains(row), "{row}");
    }
}

#[tokio::test]
async fn the_bare_address_leads_to_it() {
    let rig = Rig::new().await;
    let url = format!("{}/", rig.running.control_url());
    let answer = rig.client.get(url).send().await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), answer.url().path()),
        (200, "/_simulator/")
    );
}

#[tokio::test]
async fn no_page_of_another_site_steers_anything() {
    let rig = Rig::new().await;
    let uuid = rig.order("a", &[]).await;
    let send = async |method: &Method, path: &str, body: &Value, origin: &str| {
        let url = format!("{}/_simulator/{path}", rig.running.control_url());
        let request = rig
            .client
            .request(method.clone(), url)
            .body(body.to_string());
        let answer = request.header("Origin", origin).send().await.unwrap();
        answer.status().as_u16()
    };
    let own = rig.running.control_url();
    let place = json!({"location": "EU: Rotterdam", "instanceType": "bm7.std.8", "quota": 1});
    let stock = json!({"location": "EU: Rotterdam", "instanceType": "bm7.std.8", "stock": 1});
    for (method, path, body) in [
        (Method::POST, "clock", json!({"advanceSeconds": 1})),
        (Method::POST, "keys", json!({"key": "k", "valid": true})),
        (Method::POST, "accounts", json!({"name": "n", "key": "l"})),
        (Method::POST, "faults", json!({"fault": "emptyList"})),
        (Method::POST, "machines", json!({"name": "m"})),
        (
            Method::PATCH,
            &format!("machines/{uuid}"),
            json!({"name": "m"}),
        ),
        (
            Method::POST,
            "switches",
            json!({"listOrder": "newestFirst"}),
        ),
        (Method::POST, "settings", json!({"releaseSeconds": 1})),
        (Method::POST, "quota", place),
        (Method::POST, "availability", stock),
        (Method::DELETE, "faults/1", Value::Null),
        (Method::DELETE, "faults", Value::Null),
        (Method::DELETE, "ledger", Value::Null),
    ] {
        for foreign in ["http://evil.example", "null"] {
            assert_eq!(
                send(&method, path, &body, foreign).await,
                403,
                "{method} {path}"
            );
        }
        let status = send(&method, path, &body, &own).await;
        assert!(status < 300, "{method} {path}: {status}");
    }
    assert_eq!(
        send(&Method::GET, "clock", &Value::Null, "http://evil.example").await,
        200
    );
}

#[tokio::test]
async fn requests_for_another_host_are_refused() {
    let rig = Rig::new().await;
    let port = rig.running.control.port();
    let send = async |method: Method, path: &str, host: &str, origin: Option<&str>| {
        let url = format!("{}{path}", rig.running.control_url());
        let request = rig.client.request(method, url).header("Host", host);
        let request = match origin {
            Some(origin) => request.header("Origin", origin),
            None => request,
        };
        let request = request.body("{\"advanceSeconds\": 1}");
        read(request.send().await.unwrap()).await
    };
    let page = Some("http://evil.example");
    for host in ["evil.example", "simulator", &format!("evil.example:{port}")] {
        for path in [
            "/",
            "/_simulator/",
            "/_simulator/accounts",
            "/_simulator/no",
        ] {
            let (status, answer) = send(Method::GET, path, host, None).await;
            assert_eq!(status, 403, "{path} {host}");
            let told = answer["error"].as_str().unwrap();
            assert!(told.contains("localhost"), "it names the remedy: {told}");
        }
        let moved = send(Method::POST, "/_simulator/clock", host, page).await;
        assert_eq!(moved.0, 403, "{host}");
    }
    for host in [
        "localhost",
        "127.0.0.1",
        "[::1]:8481",
        &format!("localhost:{port}"),
    ] {
        let shown = send(Method::GET, "/_simulator/accounts", host, None).await;
        assert_eq!(shown.0, 200, "{host}");
        let origin = format!("http://{host}");
        let moved = send(Method::POST, "/_simulator/clock", host, Some(&origin)).await;
        assert_eq!(moved.0, 200, "{host}");
    }
}
