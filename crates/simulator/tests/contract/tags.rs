//! Tags and their counts (section 4.6).

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{RELEASE, SERVERS, shape, with};

cases! {
    contract_tags ["4.6-1" "4.6-2" "4.6-3" "4.6-4" "4.6-5" "4.6-6" "4.6-7" "4.6-8" "4.6-9" "4.6-10" "4.6-11" "4.6-12" "4.6-13" "4.6-14"
        "4.6-15" "4.6-16" "4.6-17" "4.6-18" "4.6-19" "2.13-1" "2.13-2" "2.13-3" "2.13-4" "2.13-5" "2.13-6" "2.2-7" "8-5" "2.6-12" "4.6-20" "4.6-21" "4.6-22"] |rig| {
        const TAGS: &str = "/v3/flexMetal/tags";
        let many: Vec<String> = (0..60).map(|number| format!("t{number}")).collect();
        let uuid = rig.ordered(with("tags", json!(many))).await;
        assert_eq!(rig.get(TAGS).await.1.as_array().unwrap().len(), 25);
        assert_eq!(rig.ranged(TAGS, "start=59,results=9").await.1[0]["tag"], "t59");
        let put = |tag: &str| format!("{SERVERS}/{uuid}/tag/{tag}");
        rig.refused("POST", &put("more"), Value::Null, 422).await;
        rig.refused("POST", &put("no%20blank"), Value::Null, 422).await;
        rig.refused("POST", &put(&"t".repeat(65)), Value::Null, 422).await;
        assert_eq!(rig.call("POST", &put("t7"), Value::Null).await.1[0]["tags"], json!(many));
        rig.delete(&put("t0")).await;
        rig.refused("DELETE", &put("t0"), Value::Null, 404).await;
        assert_eq!(rig.get(&format!("{TAGS}/t0")).await.1[0]["resources"]["count"], 0);
        let (_, tagged) = rig.call("POST", &put("fresh"), Value::Null).await;
        assert_eq!(tagged[0]["tags"][59], "fresh");
        let (_, one) = rig.get(&format!("{TAGS}/fresh")).await;
        shape(&one[0], "tag:s resources:o");
        shape(&one[0]["resources"], "count:i flexMetalServers:o");
        shape(&one[0]["resources"]["flexMetalServers"], "count:i");
        let counts = json!({"count": 1, "flexMetalServers": {"count": 1}});
        assert_eq!(one[0]["resources"], counts);
        let gone = rig.ordered(with("tags", json!(["gone"]))).await;
        rig.delete(&format!("{SERVERS}/{gone}")).await;
        rig.advance(RELEASE).await;
        assert_eq!(rig.get(&format!("{TAGS}/gone")).await.1[0]["resources"]["count"], 0);
        let (_, counted) = rig.call("POST", TAGS, json!({"tag": "counted", "resources": counts})).await;
        assert_eq!(counted[0]["resources"], json!({"count": 0, "flexMetalServers": {"count": 0}}));
        let nobody = "018f0000-0000-7000-8000-000000000000";
        rig.refused("POST", &format!("{SERVERS}/{nobody}/tag/a"), Value::Null, 404).await;
        rig.refused("DELETE", &format!("{SERVERS}/{nobody}/tag/a"), Value::Null, 404).await;
        let (status, made) = rig.call("POST", TAGS, json!({"tag": "made"})).await;
        assert_eq!((status, &made[0]["tag"]), (200, &json!("made")));
        let twice = rig.refused("POST", TAGS, json!({"tag": "made"}), 422).await;
        assert_eq!(twice["errors"], json!([]));
        for bad in ["no blank", "", &"t".repeat(65)] {
            rig.refused("POST", TAGS, json!({"tag": bad}), 422).await;
        }
        assert_eq!(rig.call("POST", &format!("{SERVERS}/{gone}/tag/made"), Value::Null).await.1[0]["tags"], json!(["gone", "made"]));
        rig.refused("PUT", &format!("{TAGS}/fresh"), json!({"tag": "made"}), 409).await;
        rig.refused("PUT", &format!("{TAGS}/fresh"), json!({"tag": "no blank"}), 422).await;
        assert_eq!(rig.call("PUT", &format!("{TAGS}/fresh"), json!({"tag": "newer"})).await.1[0]["tag"], "newer");
        assert_eq!(rig.server(&uuid).await["tags"][59], "newer");
        assert_eq!(rig.delete(&format!("{TAGS}/newer")).await, (204, Value::Null));
        assert_eq!(rig.server(&uuid).await["tags"].as_array().unwrap().len(), 59);
        for method in ["GET", "PUT", "DELETE"] {
            rig.refused(method, &format!("{TAGS}/newer"), json!({"tag": "x"}), 404).await;
        }
    }
}
