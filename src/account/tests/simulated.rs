//! The session against the simulator, over real HTTP.

use super::rig::{account_uid, caller, key};
use crate::account::{Account, AccountSettings, Accounts, Connection, Rate, Resolution};
use api::{Reason, limits::Limits, references::PinnedAccount};
use flexmetal_core::account::view::{AccountState, AccountTimes, ListKind};
use hosting::{Client, ClientOptions, Dial};
use hosting_types::{ApiKey, BaseUrl};
use serde_json::{Value, json};
use simulator::{self, ClockMode, Options, Running};
use std::time::Duration;
use tokio::time::Instant;

const CLUSTER: &str = "0123456789abcdef";

/// A running simulator and a client for its control port.
struct Simulator {
    running: Running,
    client: reqwest::Client,
}

async fn simulator() -> Simulator {
    let options = Options {
        api_key: Some("good-key".into()),
        clock: ClockMode::Driven,
        ..Options::default()
    };
    Simulator {
        running: simulator::start(options).await.unwrap(),
        client: reqwest::Client::builder().build().unwrap(),
    }
}

fn install(accounts: &Accounts, simulator: &Simulator, api_key: &str) -> Account {
    let base_url = BaseUrl::parse(&simulator.running.api_url()).unwrap();
    let api_key = ApiKey::parse(api_key.as_bytes()).unwrap();
    let mut options = ClientOptions::new(base_url.clone(), api_key.clone());
    options.dial = Dial::Anywhere;
    let client = Client::new(options).unwrap();
    let times = AccountTimes {
        active_poll_interval: Duration::from_millis(200),
        idle_poll_interval: Duration::from_secs(1),
        ..AccountTimes::default()
    };
    let uid = account_uid("default");
    accounts.add_account(&key("default"), &uid);
    accounts.configure(
        &key("default"),
        &uid,
        AccountSettings {
            block: None,
            no_orders: None,
            allowed: None,
            times,
            limits: Limits::default(),
            release_limit: None,
            defaults: None,
            install_form: Default::default(),
            egress: Vec::new(),
            reads_usage: false,
            known: Vec::new(),
            account_id: Some("lineage".into()),
        },
        Some(Connection {
            base_url,
            connection_hash: "word".into(),
            key: api_key,
            client,
        }),
    );
    accounts.set_finalizers(&key("default"), &uid, true);
    match accounts.resolve("n", &PinnedAccount::from_reference(None)) {
        Resolution::Found { account, .. } => account,
        _ => panic!("the account is not there"),
    }
}

async fn control(simulator: &Simulator, method: &str, path: &str, body: Value) -> Value {
    let url = format!("{}{path}", simulator.running.control_url());
    let method = method.parse::<reqwest::Method>().unwrap();
    let answer = simulator
        .client
        .request(method, url)
        .json(&body)
        .send()
        .await
        .unwrap();
    assert!(answer.status().is_success(), "{path}: {}", answer.status());
    let text = answer.text().await.unwrap();
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

async fn until<T>(what: &str, mut read: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = read().await {
            return found;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The requests since the ledger was cleared: path with query.
async fn requests(simulator: &Simulator) -> Vec<String> {
    let ledger = control(simulator, "GET", "/_simulator/ledger", Value::Null).await;
    let entries = ledger.as_array().unwrap().iter();
    entries
        .map(|e| {
            let text = |field: &str| e[field].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", text("method"), text("path"), text("rangedData"))
        })
        .collect()
}

#[tokio::test]
async fn simulated_poll_of_120_takes_three_calls() {
    let simulator = simulator().await;
    for n in 0..120 {
        let server = json!({
            "name": format!("s{n}"),
            "location": "EU: Rotterdam",
            "instanceType": "bm7.std.8",
            "tags": [format!("fmo-cluster:{CLUSTER}"), format!("fmo-order:{n:024x}00000001")],
            "status": "delivered",
        });
        control(&simulator, "POST", "/_simulator/machines", server).await;
    }
    let accounts = Accounts::new(CLUSTER, Rate::default());
    let account = install(&accounts, &simulator, "good-key");
    let complete_list = until("the first listing", async || account.view().complete_list).await;
    assert_eq!(complete_list.servers.len(), 120);

    // From the start of a poll to before the next one.
    control(&simulator, "DELETE", "/_simulator/ledger", Value::Null).await;
    let seen = until("a poll", async || {
        let seen = requests(&simulator).await;
        (seen.len() >= 3).then_some(seen)
    })
    .await;
    assert_eq!(
        seen[..3],
        [
            "start=0,results=50",
            "start=49,results=50",
            "start=98,results=50"
        ]
        .map(|range| format!("GET /v3/flexMetal/servers {range}"))
    );
    // The next poll starts again at the first page; nothing else was requested.
    let seen = until("the next poll", async || {
        let seen = requests(&simulator).await;
        (seen.len() >= 4).then_some(seen)
    })
    .await;
    assert_eq!(seen[3], "GET /v3/flexMetal/servers start=0,results=50");
}

#[tokio::test]
async fn rejected_key_stops_calls_until_replaced() {
    let simulator = simulator().await;
    let accounts = Accounts::new(CLUSTER, Rate::default());
    let account = install(&accounts, &simulator, "bad-key");
    until("the refusal", async || {
        matches!(
            account.view().state,
            AccountState::Blocked(Reason::KeyRejected, _)
        )
        .then_some(())
    })
    .await;
    control(&simulator, "DELETE", "/_simulator/ledger", Value::Null).await;
    account.request_complete_list("0", Duration::ZERO);
    account.request_list(ListKind::Catalogue, Duration::ZERO, &caller("0"));
    let account = install(&accounts, &simulator, "good-key");
    until("the good key", async || {
        (account.view().state == AccountState::Usable && account.view().complete_list.is_some())
            .then_some(())
    })
    .await;
    let ledger = control(&simulator, "GET", "/_simulator/ledger", Value::Null).await;
    let refused = ledger
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["status"] == 403);
    assert_eq!(refused.count(), 0, "the refused key was not used again");
}
