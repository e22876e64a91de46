//! The control port: clock, ledger, options, parameters.

use super::*;

#[tokio::test]
async fn clock_can_be_read_advanced_and_sped_up() {
    let rig = Rig::new().await;
    assert_eq!(
        rig.look("clock").await,
        json!({"virtual": 1_700_000_000.0, "speed": 0.0})
    );
    let answer = rig.steer("clock", json!({"advanceSeconds": 1.5})).await;
    assert_eq!(answer["virtual"], 1_700_000_001.5);
    rig.order("a", &[]).await;
    rig.steer("clock", json!({"speed": 10_000})).await;
    let delivered = async {
        while rig
            .names("/v3/flexMetal/servers?status=delivered")
            .await
            .is_empty()
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), delivered)
        .await
        .unwrap();
    for bad in [
        json!({"speed": -1}),
        json!({"advanceSeconds": -1}),
        json!({"sped": 1}),
    ] {
        assert_eq!(
            rig.control(Method::POST, "clock", &bad).await.0,
            400,
            "{bad}"
        );
    }
}

#[tokio::test]
async fn the_clock_starts_at_the_wall_clock() {
    let rig = Rig::with(Options {
        clock_start: None,
        ..options(Profile::Document)
    })
    .await;
    let wall = Duration::from_millis(super::super::clock::real_ms());
    let shown = rig.look("clock").await["virtual"].as_f64().unwrap();
    assert!((wall.as_secs_f64() - shown).abs() < 10.0);
}

#[tokio::test]
async fn ledger_has_every_request_but_no_key() {
    let rig = Rig::new().await;
    let uuid = rig.order("a", &["t"]).await;
    rig.ranged(
        "/v3/flexMetal/servers?tag=t&status=creating",
        "start=0,results=5",
    )
    .await;
    rig.get("/v3/nothing").await;
    let ledger = rig.look("ledger").await;
    let [order, list, nothing] = ledger.as_array().unwrap().as_slice() else {
        panic!("{ledger}");
    };
    assert_eq!(order["order"], json!({"name": "a", "tags": ["t"]}));
    assert_eq!(order["effect"], json!({"ordered": uuid}));
    assert_eq!(order["template"], SERVERS);
    assert_eq!((&order["seq"], &list["seq"]), (&json!(1), &json!(2)));
    assert_eq!(list["query"], "tag=t&status=creating");
    assert_eq!(list["rangedData"], "start=0,results=5");
    assert_eq!(
        (&list["status"], &list["outcome"]),
        (&json!(200), &json!("answered"))
    );
    assert_eq!(list["virtual"], 1_700_000_000.0);
    assert!(list["realMs"].as_u64().unwrap() > 1_000_000_000_000);
    assert_eq!(
        (&nothing["template"], &nothing["status"]),
        (&Value::Null, &json!(404))
    );
    assert_eq!(order["keyId"].as_str().unwrap().len(), 8);
    assert!(!ledger.to_string().contains("test-key"));
    assert!(
        !ledger.to_string().contains("AAAAC3"),
        "nothing else of the body"
    );
}

#[tokio::test]
async fn the_ledger_is_filtered_counted_and_cleared() {
    let rig = Rig::new().await;
    let uuid = rig.order("a", &[]).await;
    rig.server(&uuid).await;
    rig.server(&uuid).await;
    rig.get(SERVERS).await;
    let seqs = async |query: &str| -> Vec<u64> {
        let entries = rig.look(&format!("ledger?{query}")).await;
        entries
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["seq"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(seqs("method=POST").await, [1]);
    assert_eq!(seqs("path=/v3/flexMetal/servers/").await, [2, 3]);
    assert_eq!(seqs("since=2").await, [3, 4]);
    let url = format!(
        "{}/_simulator/ledger?format=jsonl",
        rig.running.control_url()
    );
    let lines = rig
        .client
        .get(url)
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    let parsed: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(parsed.len(), 4);
    assert_eq!(
        rig.look("ledger/counts").await,
        json!({
            "GET /v3/flexMetal/servers": 1,
            "GET /v3/flexMetal/servers/{uuid}": 2,
            "POST /v3/flexMetal/servers": 1,
        })
    );
    rig.control(Method::DELETE, "ledger", &Value::Null).await;
    assert_eq!(rig.look("ledger").await, json!([]));
    assert_eq!(rig.look("ledger/counts").await, json!({}));
}

#[tokio::test]
async fn invalid_options_are_refused_at_start() {
    use super::super::start::StartError;
    let start = |change: fn(&mut Options)| {
        let mut options = options(Profile::Document);
        change(&mut options);
        start(options)
    };
    let switch = start(|options| options.switches = vec![("x".into(), "y".into())]).await;
    assert!(matches!(switch, Err(StartError::Switch(_))));
    let rate = start(|options| options.failure_rate = 1.5).await;
    assert!(matches!(rate, Err(StartError::FailureRate(_))));
    let speed = start(|options| options.clock = ClockMode::Real { speed: -1.0 }).await;
    assert!(matches!(speed, Err(StartError::Speed(_))));
    for key in ["", " ", "k\u{e9}y"] {
        let mut options = options(Profile::Document);
        options.api_key = Some(key.to_owned());
        let unsendable = super::super::start(options).await;
        assert!(matches!(unsendable, Err(StartError::ApiKey)), "{key:?}");
    }
    let rig = Rig::new().await;
    let taken = rig.running.api;
    let mut options = options(Profile::Document);
    options.listen = taken;
    assert!(matches!(
        super::super::start(options).await,
        Err(StartError::Listen { .. })
    ));
}

#[tokio::test]
async fn unknown_parameter_is_refused_by_name() {
    let rig = Rig::new().await;
    let ask = async |method: Method, path: &str| {
        let (status, answer) = rig.control(method, path, &json!({})).await;
        (status, answer["error"].as_str().unwrap_or("").to_owned())
    };
    for (method, path) in [
        (Method::GET, "invariants?prefx=a"),
        (Method::GET, "invariants?prefix=a&acount=main"),
        (Method::GET, "ledger?accont=main"),
        (Method::DELETE, "ledger?account=main"),
        (Method::GET, "ledger/counts?account=main"),
        (Method::GET, "machines?name=a"),
        (Method::GET, "machines/x?name=a"),
        (Method::PATCH, "machines/x?name=a"),
        (Method::GET, "keys?account=main"),
        (Method::POST, "keys?acount=main"),
        (Method::POST, "hosts?id=1001"),
        (Method::POST, "clock?advanceSeconds=60"),
        (Method::POST, "faults?count=1"),
        (Method::GET, "paying?account=main"),
    ] {
        let (status, error) = ask(method.clone(), path).await;
        assert_eq!(status, 400, "{method} {path}: {error}");
        let name = path.rsplit(['?', '&']).next().unwrap().split('=').next();
        let quoted = format!("{:?}", name.unwrap());
        assert!(error.contains(&quoted), "{method} {path}: {error}");
    }
    for path in [
        "invariants?prefix=a&account=main",
        "ledger?method=GET&path=/v3&since=0&account=main&machine=x&format=jsonl",
        "machines?account=main",
        "ledger/counts",
        "ledger?",
    ] {
        assert_eq!(ask(Method::GET, path).await.0, 200, "{path}");
    }
    assert_eq!(ask(Method::GET, "nothing?a=b").await.0, 404);
}

#[tokio::test]
async fn control_port_refuses_invalid_server_tags() {
    let rig = Rig::new().await;
    let uuid = rig.order("a", &["kept"]).await;
    let one = format!("machines/{uuid}");
    let many = |number: usize| (0..number).map(|tag| format!("t{tag}")).collect::<Vec<_>>();
    let patch = async |tags: Value| {
        let body = json!({"tags": tags});
        let answer = rig.control(Method::PATCH, &one, &body).await;
        let other = json!({"name": "b", "tags": body["tags"]});
        let appeared = rig.control(Method::POST, "machines", &other).await;
        assert_eq!(answer.0, appeared.0, "{body}");
        answer.0
    };
    let long = "x".repeat(65);
    for bad in [
        json!(["bad tag"]),
        json!([""]),
        json!([long]),
        json!(["ok", "ä"]),
        json!(many(61)),
    ] {
        assert_eq!(patch(bad.clone()).await, 400, "{bad}");
        assert_eq!(rig.server(&uuid).await["tags"], json!(["kept"]));
    }
    assert_eq!(rig.look("machines").await.as_array().unwrap().len(), 1);
    for good in [json!([]), json!(["a:B_c-9"]), json!(many(60))] {
        assert_eq!(patch(good.clone()).await, 200, "{good}");
        assert_eq!(rig.server(&uuid).await["tags"], good);
    }
}
