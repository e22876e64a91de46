//! The control port: switches, settings, stock, and what is paid for.

use super::*;

#[tokio::test]
async fn invalid_switch_leaves_all_unchanged() {
    let rig = Rig::new().await;
    let value = async |name: &str| {
        let rows = rig.look("switches").await;
        let row = rows
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["name"] == name)
            .unwrap()
            .clone();
        assert!(["documented", "seen", "ourChoice"].contains(&row["origin"].as_str().unwrap()));
        row["value"].as_str().unwrap().to_owned()
    };
    assert_eq!(value("resultsAbove50").await, "refuse422");
    let both = json!({"resultsAbove50": "clamp", "nonsense": "x"});
    assert_eq!(rig.control(Method::POST, "switches", &both).await.0, 400);
    assert_eq!(value("resultsAbove50").await, "refuse422");
    rig.turn("resultsAbove50", "clamp").await;
    assert_eq!(value("resultsAbove50").await, "clamp");
}

#[tokio::test]
async fn settings_change_what_comes_next() {
    let rig = Rig::new().await;
    let change = json!({"deliverySeconds": [7, 7], "releaseSeconds": 1, "failureRate": 0, "listLagSeconds": 3});
    let answer = rig.steer("settings", change).await;
    assert_eq!(answer, rig.look("settings").await);
    let uuid = rig.order("a", &["t"]).await;
    // Lists and the look-up of a tag lag behind the machine's own record.
    rig.advance(2).await;
    assert_eq!(rig.status(&uuid).await, "created");
    assert_eq!(rig.names(SERVERS).await, [""; 0]);
    refused(rig.get("/v3/flexMetal/tags/t").await, 404);
    rig.advance(1).await;
    assert_eq!(rig.names("/v3/flexMetal/servers?tag=t").await, ["a"]);
    assert_eq!(rig.get("/v3/flexMetal/tags/t").await.0, 200);
    rig.advance(4).await;
    assert_eq!(rig.status(&uuid).await, "delivered");
    rig.steer("settings", json!({"failureRate": 1})).await;
    let uuid = rig.order("b", &[]).await;
    rig.advance(7).await;
    assert_eq!(rig.status(&uuid).await, "failed");
    for bad in [
        json!({"failureRate": 2}),
        json!({"releaseSeconds": -1}),
        json!({"x": 1}),
    ] {
        assert_eq!(
            rig.control(Method::POST, "settings", &bad).await.0,
            400,
            "{bad}"
        );
    }
}

#[tokio::test]
async fn stock_makes_the_word_of_a_plan() {
    let rig = Rig::new().await;
    let word = async || {
        let (_, plans) = rig.get("/v3/flexMetal/plans").await;
        let named = |list: &Value, name: &str| {
            let mut list = list.as_array().unwrap().iter();
            list.find(|one| one["name"] == name).unwrap().clone()
        };
        let places = named(&plans, "bm7.std.8")["locations"].clone();
        named(&places, "EU: Rotterdam")["availability"].clone()
    };
    let stock = async |stock: Value| {
        let place =
            json!({"location": "EU: Rotterdam", "instanceType": "bm7.std.8", "stock": stock});
        rig.steer("availability", place).await;
    };
    rig.order("before", &[]).await;
    assert_eq!(word().await, "high");
    stock(json!(5)).await;
    assert_eq!(word().await, "medium");
    for name in ["a", "b", "c", "d", "e"] {
        rig.order(name, &[]).await;
        let expected = if name == "e" { "unavailable" } else { "low" };
        assert_eq!(word().await, expected, "{name}");
    }
    refused(rig.post(SERVERS, &body("f", &[])).await, 422);
    stock(Value::Null).await;
    rig.order("f", &[]).await;
}

#[tokio::test]
async fn what_is_paid_for_is_shown() {
    let rig = Rig::new().await;
    let uuid = rig.order("a", &[]).await;
    rig.advance(DELIVERY).await;
    for hours in [0, 1, 2] {
        let paying = rig.look("paying").await;
        let kind = &paying[0]["instanceTypes"]["bm7.std.8"];
        assert_eq!(
            (&paying[0]["machines"], &kind["hours"]),
            (&json!(1), &json!(hours))
        );
        // An hour that has begun counts.
        rig.advance(3_600 * u64::from(hours > 0) + 1).await;
    }
    rig.delete(&format!("{SERVERS}/{uuid}")).await;
    assert_eq!(rig.look("paying").await[0]["machines"], 0);
}
