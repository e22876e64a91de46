//! Switches about records, envelopes, pages and lists (sections 1, 2.6, 4.4 and 8).

use serde_json::{Value, json};

use crate::acts;
use crate::acts::present;
use crate::rig::{DELIVERY, SERVERS, names, order, with};

const TAGS: &str = "/v3/flexMetal/tags";
const WHITELIST: &str = "/v3/account/apiKey/1/whitelist";

acts! {
    contract_act_state_view "stateView" |rig| {
        let uuid = rig.ordered(order()).await;
        rig.advance(DELIVERY / 2).await;
        rig.server(&uuid).await["status"].clone()
    } "short" => "created", "long" => "allocated";

    // The two of the whitelist are arrays by the document (4.1-3, 4.1-4), and health is none.
    contract_act_single_answer "singleAnswer" |rig| {
        let entry = json!({"ipRange": "127.0.0.0/8", "active": 1});
        let (_, added) = rig.call("POST", WHITELIST, entry.clone()).await;
        let one = format!("{WHITELIST}/{}", added[0]["id"]);
        let ordered = rig.call("POST", SERVERS, order()).await.1;
        let first = if ordered.is_array() { &ordered[0] } else { &ordered };
        let uuid = first["uuid"].as_str().unwrap();
        [
            added.is_array(),
            rig.call("PUT", &one, entry).await.1.is_array(),
            rig.get("/v3/health").await.1.is_array(),
            ordered.is_array(),
            rig.get(&format!("{SERVERS}/{uuid}")).await.1.is_array(),
            rig.call("POST", &format!("{SERVERS}/{uuid}/tag/x"), Value::Null).await.1.is_array(),
            rig.get(&format!("{TAGS}/x")).await.1.is_array(),
            rig.get("/v3/host/1001").await.1.is_array(),
            rig.delete(&format!("{SERVERS}/{uuid}")).await.1.is_array(),
        ]
    } "array" => [true, true, false, true, true, true, true, true, true],
      "object" => [true, true, false, false, false, false, false, false, false];

    contract_act_absent_fields "absentFields" |rig| {
        let uuid = rig.ordered(order()).await;
        present(&rig.server(&uuid).await, &["deliveredAt", "releasedAt", "contractId"])
    } "omit" => {}, "zero" => {"deliveredAt": 0, "releasedAt": 0, "contractId": ""};

    contract_act_idle_message "idleMessage" |rig| {
        let uuid = rig.delivered(order()).await;
        rig.steer("settings", json!({"failureRate": 1.0})).await;
        let failed = rig.delivered(order()).await;
        let reason = rig.server(&failed).await["statusMessage"].as_str().unwrap().len();
        (rig.server(&uuid).await["statusMessage"].clone(), reason > 2)
    } "empty" => ["", true], "ok" => ["OK", true], "null" => [null, true];

    contract_act_addresses "addresses" |rig| {
        let uuid = rig.delivered(order()).await;
        rig.server(&uuid).await["ipAddresses"].as_array().unwrap().len()
    } "two" => 2, "one" => 1, "none" => 0;

    contract_act_results_above_50 "resultsAbove50" |rig| {
        let many: Vec<String> = (0..60).map(|number| format!("t{number}")).collect();
        rig.ordered(with("tags", json!(many))).await;
        let (status, list) = rig.ranged(TAGS, "start=0,results=51").await;
        (status, list.as_array().map(Vec::len))
    } "refuse422" => [422, null], "clamp" => [200, 50];

    contract_act_bad_range "badRange" |rig| {
        let many: Vec<String> = (0..60).map(|number| format!("t{number}")).collect();
        rig.ordered(with("tags", json!(many))).await;
        let mut seen = Vec::new();
        for bad in ["nonsense", "start=-1,results=5", "start=5,results=0", "start=0;results=5"] {
            let (status, list) = rig.ranged(TAGS, bad).await;
            seen.push((status, list[0]["tag"].clone(), list.as_array().map(Vec::len)));
        }
        seen.dedup();
        seen
    } "refuse422" => [[422, null, null]], "ignore" => [[200, "t0", 25]];

    contract_act_list_order "listOrder" |rig| {
        for name in ["first", "second", "third"] {
            rig.ordered(with("name", json!(name))).await;
        }
        let (_, all) = rig.get(SERVERS).await;
        let (_, tagged) = rig.get(&format!("{SERVERS}?tag=t")).await;
        assert_eq!(all, tagged);
        json!(names(&all, "name"))
    } "oldestFirst" => ["first", "second", "third"], "newestFirst" => ["third", "second", "first"];

    contract_act_list_filters "listFilters" |rig| {
        let mut seen = Vec::new();
        for query in ["", "?status=delivered", "?tag=t", "?status=delivered&tag=t"] {
            seen.push(rig.get(&format!("{SERVERS}{query}")).await.0);
        }
        seen
    } "optional" => [200, 200, 200, 200], "required" => [422, 422, 422, 200];

    contract_act_unknown_status_filter "unknownStatusFilter" |rig| {
        rig.ordered(order()).await;
        let mut seen = Vec::new();
        for word in ["created", "sleeping"] {
            let (status, list) = rig.get(&format!("{SERVERS}?status={word}")).await;
            seen.push((status, list.as_array().map(Vec::len)));
        }
        seen
    } "refuse422" => [[422, null], [422, null]], "matchRecord" => [[200, 1], [200, 0]];

    contract_act_creating_filter "creatingFilter" |rig| {
        rig.turn("stateView", "long").await;
        rig.ordered(order()).await;
        rig.advance(DELIVERY / 2).await;
        let count = async |word: &str| rig.get(&format!("{SERVERS}?status={word}")).await.1.as_array().unwrap().len();
        (count("creating").await, count("provisioning").await)
    } "waiting" => [1, 0], "created" => [0, 1];

    contract_act_unknown_fields "unknownFields" |rig| {
        let entry = json!({"ipRange": "127.0.0.0/8", "active": 1, "more": 1});
        let inner = json!({"slug": "debian-13", "more": 1});
        let key = "018f0000-0000-7000-8000-000000000000";
        [
            rig.call("POST", SERVERS, with("more", json!(1))).await.0,
            rig.call("POST", SERVERS, with("os", inner)).await.0,
            rig.call("POST", TAGS, json!({"tag": "x", "more": 1})).await.0,
            rig.call("POST", WHITELIST, entry).await.0,
            rig.call("POST", "/v3/host/1001/os/install", json!({"os": {"id": 104}, "sshKeyId": key, "more": 1})).await.0,
        ]
    } "refuse422" => [422, 422, 422, 422, 422], "ignore" => [200, 200, 200, 200, 200];
}
