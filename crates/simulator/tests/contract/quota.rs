//! Quota, usage and committed capacity (section 4.7).

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{DELIVERY, RELEASE, SERVERS, all, order, shape, with};

cases! {
    contract_quota_and_usage ["2.14-1" "2.14-2" "2.14-3" "2.14-4" "2.14-5" "2.14-6" "2.14-7" "2.14-8" "2.14-9"
        "2.16-1" "2.16-2" "2.16-3" "2.16-4" "2.16-5" "2.15-1" "2.15-2" "2.15-3" "2.15-4" "2.15-5" "2.15-7" "2.15-8" "2.15-9" "1-10" "4.7-1" "4.7-2" "4.7-3"
        "4.7-4" "4.7-5" "4.7-6" "4.7-7" "4.7-8" "2.15-6" "2.15-10" "2.15-13"] |rig| {
        let (_, quota) = rig.get("/v3/flexMetal/quota/usage").await;
        all(&quota, "location:o quotaUsage:a");
        all(&quota[0]["quotaUsage"], "instanceType:o quotaType:s contractId:s quota:i usage:i");
        shape(&quota[0]["location"], "id:i name:s");
        let pool = &quota[0]["quotaUsage"][0];
        shape(&pool["instanceType"], "id:i name:s");
        assert_eq!((&pool["quotaType"], &pool["contractId"], &pool["usage"]), (&json!("onDemand"), &json!(""), &json!(0)));
        rig.delivered(order()).await;
        rig.advance(823 * 60).await;
        let (_, usage) = rig.get("/v3/flexMetal/usage").await;
        shape(&usage[0]["server"], "uuid:u name:s status:s statusMessage:s location:o instanceType:o os:o ipAddresses:a tags:a createdAt:i deliveredAt:i");
        all(&usage, "server:o startedAt:s endedAt:s totalHours:i totalMinutes:i bandwidthIn:i totalEgressBytes:i");
        assert_eq!((&usage[0]["totalMinutes"], &usage[0]["totalHours"]), (&json!(823), &json!(14)));
        assert_eq!(usage[0]["startedAt"], "2023-11-14T22:18:20.000Z");
        let minutes = async |query: &str| rig.get(&format!("/v3/flexMetal/usage?{query}")).await.1[0]["totalMinutes"].clone();
        assert_eq!(minutes("endDate=2023-11-14").await, 102);
        assert_eq!(minutes("startDate=2023-11-15").await, 722);
        assert_eq!(minutes("startDate=2023-11-14&endDate=2023-11-15").await, 823);
        assert_eq!(usage[0]["endedAt"], "2023-11-15T12:01:20.000Z");
        rig.turn("usageOpenEnd", "null").await;
        assert_eq!(rig.get("/v3/flexMetal/usage").await.1[0]["endedAt"], Value::Null);
        rig.turn("bandwidthOut", "show").await;
        assert!(rig.get("/v3/flexMetal/usage").await.1[0]["bandwidthOut"].is_u64());
        rig.turn("bandwidthOut", "omit").await;
        rig.advance(40 * 86_400).await;
        // All of December so far: the clock stands at Christmas.
        let (_, month) = rig.get("/v3/flexMetal/usage").await;
        assert_eq!(month[0]["startedAt"], "2023-12-01T00:00:00.000Z");
        rig.turn("usageDates", "all").await;
        assert_eq!(rig.get("/v3/flexMetal/usage").await.1[0]["startedAt"], "2023-11-14T22:18:20.000Z");
        for bad in ["startDate=01-01-2023", "endDate=x", "startDate=2023-02-01&endDate=2023-01-01"] {
            rig.refused("GET", &format!("/v3/flexMetal/usage?{bad}"), Value::Null, 422).await;
        }
        rig.refused("POST", "/v3/flexMetal/usage", json!({}), 405).await;
        rig.steer("quota", json!({"location": "EU: Rotterdam", "instanceType": "bm7.std.8", "quotaType": "commit",
            "contractId": "C", "quota": 2})).await;
        rig.ordered(with("contractId", json!("C"))).await;
        let (_, commits) = rig.get("/v3/flexMetal/capacity/commit").await;
        all(&commits, "location:o commits:a");
        shape(&commits[0]["location"], "id:i name:s shortName:s displayName:s countryId:i countryName:s countryShortName:s");
        assert_eq!(commits[0]["commits"][0]["instanceType"]["generationName"], "bm7");
        let (_, quota) = rig.get("/v3/flexMetal/quota/usage").await;
        let pools: Vec<_> = quota[0]["quotaUsage"].as_array().unwrap().iter()
            .filter(|pool| pool["instanceType"]["name"] == "bm7.std.8")
            .map(|pool| (pool["quotaType"].clone(), pool["contractId"].clone(), pool["quota"].clone(), pool["usage"].clone()))
            .collect();
        assert!(pools.contains(&(json!("commit"), json!("C"), json!(2), json!(1))), "{pools:?}");
        rig.steer("quota", json!({"location": "JP: Tokyo", "instanceType": "bm7.std.8", "quotaType": "commit",
            "contractId": "C", "quota": 2})).await;
        rig.delivered(order()).await;
        for path in ["/v3/flexMetal/quota/usage", "/v3/flexMetal/usage", "/v3/flexMetal/capacity/commit"] {
            let (_, whole) = rig.get(path).await;
            assert!(whole.as_array().unwrap().len() > 1, "{path}");
            assert_eq!(rig.ranged(path, "start=1,results=1").await, (200, whole), "{path}");
        }
        all(&commits[0]["commits"], "instanceType:o capacity:i inUse:i");
        assert_eq!((&commits[0]["commits"][0]["capacity"], &commits[0]["commits"][0]["inUse"]), (&json!(2), &json!(1)));
    }

    contract_when_usage_counts ["2.14-10" "2.15-12"] |rig| {

        let used = async || {
            let (_, quota) = rig.get("/v3/flexMetal/quota/usage").await;
            let pools = quota[0]["quotaUsage"].as_array().unwrap().clone();
            pools.iter().map(|pool| pool["usage"].as_u64().unwrap()).sum::<u64>()
        };
        let usage = async || rig.get("/v3/flexMetal/usage").await.1;
        let uuid = rig.ordered(order()).await;
        assert_eq!((used().await, usage().await), (1, json!([])));
        rig.advance(DELIVERY).await;
        rig.advance(3_600).await;
        rig.delete(&format!("{SERVERS}/{uuid}")).await;
        assert_eq!(used().await, 1, "a releasing one still stands there");
        rig.advance(RELEASE).await;
        assert_eq!(used().await, 0);
        rig.advance(3_600).await;
        assert_eq!(usage().await[0]["totalMinutes"], 60, "the release ended it");
        rig.steer("settings", json!({"failureRate": 1.0})).await;
        rig.ordered(order()).await;
        assert_eq!(used().await, 1);
        rig.advance(DELIVERY).await;
        assert_eq!((used().await, usage().await.as_array().unwrap().len()), (0, 1));
    }
}
