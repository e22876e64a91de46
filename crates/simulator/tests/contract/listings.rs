//! Listings: their order, and what of the header is read (sections 4.8 and 8).

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{DELIVERY, SERVERS, names, order, with};

const TAGS: &str = "/v3/flexMetal/tags";
const WHITELIST: &str = "/v3/account/apiKey/1/whitelist";

/// One number of every record.
fn numbers(list: &Value, field: &str) -> Vec<u64> {
    let records = list.as_array().unwrap().iter();
    records.map(|one| one[field].as_u64().unwrap()).collect()
}

cases! {
    contract_order_of_lists ["8-16"] |rig| {
        for (name, tag) in [("first", "z"), ("second", "m")] {
            let mut wanted = with("tags", json!([tag]));
            wanted["name"] = json!(name);
            rig.ordered(wanted).await;
        }
        rig.call("POST", TAGS, json!({"tag": "a"})).await;
        assert_eq!(names(&rig.get(TAGS).await.1, "tag"), ["z", "m", "a"]);
        for name in ["z", "a", "m"] {
            rig.call("POST", "/v3/sshKey", json!({"name": name, "publicKey": "ssh-rsa AAAA"})).await;
        }
        assert_eq!(names(&rig.get("/v3/sshKey").await.1, "name"), ["z", "a", "m"]);
        rig.advance(DELIVERY).await;
        let (_, servers) = rig.get(SERVERS).await;
        let (_, hosts) = rig.get("/v3/host").await;
        assert_eq!(numbers(&hosts, "serverType"), [1, 1, 2, 2]);
        assert_eq!(numbers(&hosts, "id")[..2], [1_001, 1_002]);
        assert_eq!(names(&hosts, "serverName")[2..], ["first", "second"]);
        // The second one has been used for longer, and still comes second.
        rig.delete(&format!("{SERVERS}/{}", servers[0]["uuid"].as_str().unwrap())).await;
        rig.advance(3_600).await;
        let (_, usage) = rig.get("/v3/flexMetal/usage").await;
        let used: Vec<_> = usage.as_array().unwrap().iter().map(|one| one["server"]["name"].as_str().unwrap()).collect();
        assert_eq!(used, ["first", "second"]);
        for last in ["9", "1", "5"] {
            rig.call("POST", WHITELIST, json!({"ipRange": format!("10.0.0.{last}/32"), "active": 0})).await;
        }
        let (_, before) = rig.get(WHITELIST).await;
        let changed = json!({"ipRange": "10.0.0.7/32", "active": 0});
        rig.call("PUT", &format!("{WHITELIST}/{}", before[0]["id"]), changed).await;
        let (_, after) = rig.get(WHITELIST).await;
        assert_eq!(numbers(&after, "id"), numbers(&before, "id"));
        assert_eq!(after[0]["ipRange"], "10.0.0.7/32");
        assert_eq!([&after[1]["ipRange"], &after[2]["ipRange"]], ["10.0.0.1/32", "10.0.0.5/32"]);
        let install = json!({"os": {"id": 104}, "sshKeyId": "018f0000-0000-7000-8000-000000000000"});
        for _ in 0..2 {
            assert_eq!(rig.call("POST", "/v3/host/1001/os/install", install.clone()).await.0, 200);
            rig.advance(300).await;
        }
        let (_, log) = rig.get("/v3/host/1001/os/installLog").await;
        let at = numbers(&log, "dateStamp");
        assert!(at.len() > 3 && at.is_sorted() && at[0] < at[at.len() - 1], "{at:?}");
    }

    contract_parts_of_the_range ["8-17" "8-8"] |rig| {
        for number in 0..20 {
            rig.ordered(with("name", json!(format!("n{number}")))).await;
        }
        for (range, first, length) in [
            ("start=1", "n1", 15), ("results=3", "n0", 3), ("results=5,start=2", "n2", 5),
            ("start=3, results=5", "n3", 5), ("start = 4 , results = 2", "n4", 2),
        ] {
            let (status, list) = rig.ranged(SERVERS, range).await;
            assert_eq!(status, 200, "{range}");
            let found = names(&list, "name");
            assert_eq!((found[0], found.len()), (first, length), "{range}");
        }
        let bad = ["", "5", "start", "start=", "start=-1", "results=0", "results=1.5", "from=1", "start=1;results=2",
            "start=1,results=2,more=3", "start=1,"];
        for range in bad {
            assert_eq!(rig.ranged(SERVERS, range).await.0, 422, "{range:?}");
        }
    }

    contract_page_tokens_end ["4.8-34"] |rig| {
        rig.ordered(order()).await;
        rig.turn("hostPaging", "token").await;
        let first = rig.request("GET", "/v3/host").header("RANGED-DATA", "start=0,results=1").send().await.unwrap();
        let token = first.headers()["page-token"].to_str().unwrap().to_owned();
        let next = async |token: &str| rig.send(rig.request("GET", "/v3/host").header("PAGE-TOKEN", token)).await;
        for bad in ["", "nonsense", &token[..token.len() / 2]] {
            let (status, record) = next(bad).await;
            assert_eq!((status, &record["errors"][0]["property"]), (422, &json!("PAGE-TOKEN")), "{bad}");
        }
        rig.advance(299).await;
        assert_eq!(next(&token).await.1[0]["id"], 1_002);
        rig.advance(1).await;
        assert_eq!(next(&token).await.0, 422);
    }
}
