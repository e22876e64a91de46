//! The edges of rules: what is just within them, and what is just outside.

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{SERVERS, order, with};

const PLACE: &str = "EU: Rotterdam";
const KIND: &str = "bm7.std.8";

cases! {
    contract_whitelist_sent_back ["2.1-12"] |rig| {
        const LIST: &str = "/v3/account/apiKey/1/whitelist";
        let entry = json!({"ipRange": "127.0.0.0/8", "active": 1});
        let (_, added) = rig.call("POST", LIST, entry.clone()).await;
        let one = format!("{LIST}/{}", added[0]["id"]);
        assert_eq!(rig.call("PUT", &one, added[0].clone()).await, (200, added.clone()));
        let mut other = added[0].clone();
        other["id"] = json!(77);
        other["updatedAt"] = json!(1);
        assert_eq!(rig.call("PUT", &one, other).await, (200, added));
        for (field, bad) in [("id", json!("x")), ("id", json!(1.5)), ("updatedAt", json!([]))] {
            let mut broken = entry.clone();
            broken[field] = bad;
            let record = rig.refused("POST", LIST, broken, 422).await;
            assert_eq!(record["errors"][0]["property"], field);
        }
        for lone in ["ipStart", "ipEnd"] {
            rig.refused("POST", LIST, json!({lone: "127.0.0.1", "active": 1}), 422).await;
        }
    }

    contract_committed_machines ["2.7-25" "2.7-26"] |rig| {
        rig.steer("quota", json!({"location": PLACE, "instanceType": KIND, "quotaType": "commit",
            "contractId": "C", "quota": 1})).await;
        rig.steer("availability", json!({"location": PLACE, "instanceType": KIND, "stock": 0})).await;
        rig.refused("POST", SERVERS, order(), 422).await;
        rig.ordered(with("contractId", json!("C"))).await;
        let mut more = with("contractId", json!("C"));
        more["overflow"] = json!(true);
        rig.refused("POST", SERVERS, more.clone(), 422).await;
        rig.steer("availability", json!({"location": PLACE, "instanceType": KIND, "stock": 1})).await;
        let uuid = rig.ordered(more).await;
        assert_eq!(rig.server(&uuid).await.get("contractId"), None);
        rig.steer("availability", json!({"location": PLACE, "instanceType": KIND, "stock": null})).await;
        for overflow in [false, true] {
            let mut nowhere = with("contractId", json!("NOBODY"));
            nowhere["overflow"] = json!(overflow);
            rig.refused("POST", SERVERS, nowhere, 422).await;
        }
    }

    contract_hub_of_an_order ["2.8-16"] |rig| {
        rig.turn("siderolinkApi", "required").await;
        let os = |params: Value| json!({"slug": "talos-omni-1110", "kernelParams": params});
        let hub = json!([{"key": "siderolink.api", "value": "https://hub.example"}]);
        for bad in [Value::Null, json!([]), json!([{"key": "siderolink.api", "value": "hub"}])] {
            let record = rig.refused("POST", SERVERS, with("os", os(bad)), 422).await;
            assert_eq!(record["errors"][0]["property"], "os.kernelParams");
        }
        let uuid = rig.delivered(with("os", os(hub.clone()))).await;
        let one = format!("{SERVERS}/{uuid}");
        rig.refused("PATCH", &one, json!({"os": os(json!([]))}), 422).await;
        assert_eq!(rig.call("PATCH", &one, json!({"os": os(hub)})).await.0, 200);
    }

    contract_a_minute_that_has_begun ["2.15-11"] |rig| {
        rig.delivered(order()).await;
        for (seconds, minutes, hours) in [(59, 1, 1), (3_541, 60, 1), (59, 61, 2)] {
            rig.advance(seconds).await;
            let (_, usage) = rig.get("/v3/flexMetal/usage").await;
            assert_eq!((&usage[0]["totalMinutes"], &usage[0]["totalHours"]), (&json!(minutes), &json!(hours)));
        }
    }

    contract_hub_and_factory_of_a_host ["2.17-19" "2.17-20"] |rig| {
        let install = async |params: &str| {
            let key = "018f0000-0000-7000-8000-000000000000";
            let body = json!({"os": {"id": 114, "kernelParams": params}, "sshKeyId": key});
            let (status, _) = rig.call("POST", "/v3/host/1001/os/install", body).await;
            rig.advance(300).await;
            status
        };
        for bad in ["siderolink.api=foo:bar", "siderolink.api=ftp://hub.example", "siderolink.api=https://",
            "factoryhash", "factoryhash=abc net.ifnames=1"] {
            assert_eq!(install(bad).await, 422, "{bad}");
        }
        for good in ["siderolink.api=http://hub.example", "siderolink.api=grpc://hub.example:8090?jointoken=t"] {
            assert_eq!(install(good).await, 200, "{good}");
        }
        rig.turn("factoryParams", "accept").await;
        assert_eq!(install("factoryhash=abc net.ifnames=1").await, 200);
        assert_eq!(install("factoryhash=abc siderolink.api=https://hub.example").await, 422);
    }
}
