//! Quota, contracts, stock, and what the catalogue says about them.

use super::*;

const PLACE: &str = "EU: Rotterdam";
const KIND: &str = "bm7.std.8";

async fn quota(rig: &Rig, contract: Option<&str>, quota: u32) {
    let mut change = json!({"location": PLACE, "instanceType": KIND, "quota": quota});
    if let Some(contract) = contract {
        change["quotaType"] = json!("commit");
        change["contractId"] = json!(contract);
    }
    rig.steer("quota", change).await;
}

/// `{contractId: [quota, usage]}` of the place and kind above.
async fn usage(rig: &Rig) -> Value {
    let (_, answer) = rig.get("/v3/flexMetal/quota/usage").await;
    let places = answer.as_array().unwrap();
    let place = places
        .iter()
        .find(|place| place["location"]["name"] == PLACE)
        .unwrap();
    let pools = place["quotaUsage"].as_array().unwrap().iter();
    let pools = pools.filter(|pool| pool["instanceType"]["name"] == KIND);
    pools
        .map(|pool| {
            let contract = pool["contractId"].as_str().unwrap();
            let kind = if contract.is_empty() {
                "onDemand"
            } else {
                "commit"
            };
            assert_eq!(pool["quotaType"], kind);
            (contract.to_owned(), json!([pool["quota"], pool["usage"]]))
        })
        .collect()
}

#[tokio::test]
async fn on_demand_quota_is_used_up_and_given_back() {
    let rig = Rig::new().await;
    quota(&rig, None, 1).await;
    let uuid = rig.order("a", &[]).await;
    let (status, record) = rig.post(SERVERS, &body("b", &[])).await;
    assert_eq!(record["errors"][0]["property"], "instanceType");
    refused((status, record), 422);
    rig.turn("exhausted", "refuse409").await;
    refused(rig.post(SERVERS, &body("b", &[])).await, 409);
    assert_eq!(usage(&rig).await, json!({"": [1, 1]}));
    rig.delete(&format!("{SERVERS}/{uuid}")).await;
    refused(rig.post(SERVERS, &body("b", &[])).await, 409);
    rig.advance(RELEASE).await;
    assert_eq!(usage(&rig).await, json!({"": [1, 0]}));
    rig.order("b", &[]).await;
}

#[tokio::test]
async fn a_contract_pays_first_and_overflow_goes_on_demand() {
    let rig = Rig::new().await;
    quota(&rig, None, 5).await;
    quota(&rig, Some("C-1"), 1).await;
    let mut order = body("a", &[]);
    order["contractId"] = json!("C-1");
    let (_, first) = rig.post(SERVERS, &order).await;
    assert_eq!(first[0]["contractId"], "C-1");
    let (status, record) = rig.post(SERVERS, &order).await;
    assert_eq!(record["errors"][0]["property"], "contractId");
    refused((status, record), 422);
    order["overflow"] = json!(true);
    let (status, second) = rig.post(SERVERS, &order).await;
    assert_eq!((status, second[0].get("contractId")), (200, None));
    assert_eq!(usage(&rig).await, json!({"": [5, 1], "C-1": [1, 1]}));
}

#[tokio::test]
async fn committed_machines_are_not_those_on_demand() {
    let rig = Rig::new().await;
    quota(&rig, Some("C-1"), 2).await;
    let stock = async |free: Value| {
        let body = json!({"location": PLACE, "instanceType": KIND, "stock": free});
        rig.steer("availability", body).await;
    };
    stock(json!(1)).await;
    let mut order = body("a", &[]);
    order["contractId"] = json!("C-1");
    assert_eq!(rig.post(SERVERS, &order).await.0, 200);
    // The one on demand is still there, and once it is gone the contract's is.
    rig.order("b", &[]).await;
    refused(rig.post(SERVERS, &body("c", &[])).await, 422);
    let (status, second) = rig.post(SERVERS, &order).await;
    assert_eq!((status, &second[0]["contractId"]), (200, &json!("C-1")));
    order["overflow"] = json!(true);
    refused(rig.post(SERVERS, &order).await, 422);
    stock(json!(1)).await;
    let (status, third) = rig.post(SERVERS, &order).await;
    assert_eq!((status, third[0].get("contractId")), (200, None));
}

#[tokio::test]
async fn an_unknown_contract_follows_its_switch_with_overflow_too() {
    let rig = Rig::new().await;
    let mut order = body("a", &[]);
    order["contractId"] = json!("NOBODY");
    for overflow in [false, true] {
        order["overflow"] = json!(overflow);
        rig.turn("unknownContract", "refuse422").await;
        let (status, record) = rig.post(SERVERS, &order).await;
        assert_eq!(record["errors"][0]["property"], "contractId", "{overflow}");
        refused((status, record), 422);
        rig.turn("unknownContract", "onDemand").await;
        assert_eq!(rig.post(SERVERS, &order).await.0, 200, "{overflow}");
    }
}

#[tokio::test]
async fn availability_sinks_as_machines_are_taken() {
    let rig = Rig::new().await;
    let word = async || {
        let (_, plans) = rig.get("/v3/flexMetal/plans").await;
        let plan = plans
            .as_array()
            .unwrap()
            .iter()
            .find(|plan| plan["name"] == KIND)
            .unwrap();
        let places = plan["locations"].as_array().unwrap();
        let place = places.iter().find(|place| place["name"] == PLACE).unwrap();
        place["availability"].as_str().unwrap().to_owned()
    };
    rig.order("before", &[]).await;
    assert_eq!(word().await, "high");
    let stock = json!({"location": PLACE, "instanceType": KIND, "stock": 5});
    rig.steer("availability", stock).await;
    assert_eq!(word().await, "medium");
    for name in ["a", "b", "c", "d", "e"] {
        rig.order(name, &[]).await;
        let expected = if name == "e" { "unavailable" } else { "low" };
        assert_eq!(word().await, expected, "{name}");
    }
    refused(rig.post(SERVERS, &body("f", &[])).await, 422);
    rig.steer(
        "availability",
        json!({"location": PLACE, "instanceType": KIND, "stock": null}),
    )
    .await;
    rig.order("f", &[]).await;
}

#[tokio::test]
async fn a_failed_machine_gives_quota_and_stock_back() {
    let rig = Rig::with(Options {
        failure_rate: 1.0,
        ..options(Profile::Document)
    })
    .await;
    quota(&rig, None, 1).await;
    rig.order("a", &[]).await;
    rig.advance(DELIVERY).await;
    rig.order("b", &[]).await;
}

#[tokio::test]
async fn the_catalogue_has_the_documents_fields() {
    let rig = Rig::new().await;
    let keys = |record: &Value| -> Vec<String> {
        let mut keys: Vec<_> = record.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    let (_, locations) = rig.get("/v3/flexMetal/location").await;
    assert_eq!(
        keys(&locations[0]),
        [
            "countryId",
            "countryName",
            "countryShortName",
            "displayName",
            "id",
            "name",
            "shortName"
        ]
    );
    let id = &locations[0]["id"];
    let (_, types) = rig
        .get(&format!("/v3/flexMetal/location/{id}/instanceTypes"))
        .await;
    assert_eq!(
        keys(&types[0]),
        [
            "cores",
            "generationName",
            "id",
            "locationId",
            "memory",
            "memoryType",
            "name",
            "sockets",
            "storage",
            "storageType"
        ]
    );
    refused(
        rig.get("/v3/flexMetal/location/999/instanceTypes").await,
        404,
    );
    let (_, plans) = rig.get("/v3/flexMetal/plans").await;
    assert_eq!(keys(&plans[0]), ["hardwareDetails", "locations", "name"]);
    assert_eq!(
        keys(&plans[0]["hardwareDetails"]),
        ["cpu", "disks", "gpu", "memory", "networkInterfaces"]
    );
    assert_eq!(
        keys(&plans[0]["locations"][0]),
        ["availability", "dcCode", "name"]
    );
    let (_, systems) = rig.get("/v3/operatingsystem").await;
    assert_eq!(
        keys(&systems[0]),
        [
            "active",
            "availableForFlexMetal",
            "id",
            "isOdp",
            "name",
            "osGroup",
            "slug"
        ]
    );
}
