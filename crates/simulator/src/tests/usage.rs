//! Usage, what is being paid for, capacity.

use super::*;

async fn delivered(rig: &Rig) -> String {
    let uuid = rig.order("a", &[]).await;
    rig.advance(DELIVERY).await;
    uuid
}

#[tokio::test]
async fn usage_grows_with_the_clock_and_hours_are_rounded_up() {
    let rig = Rig::new().await;
    let uuid = delivered(&rig).await;
    rig.advance(823 * 60).await;
    let (_, usage) = rig.get("/v3/flexMetal/usage").await;
    assert_eq!(
        (&usage[0]["totalMinutes"], &usage[0]["totalHours"]),
        (&json!(823), &json!(14))
    );
    assert_eq!(usage[0]["server"]["uuid"], uuid.as_str());
    assert!(usage[0]["totalEgressBytes"].as_u64().unwrap() > 0);
    assert_eq!(rig.look("paying").await[0]["machines"], 1);
    rig.delete(&format!("{SERVERS}/{uuid}")).await;
    rig.advance(7_200).await;
    let (_, later) = rig
        .get("/v3/flexMetal/usage?startDate=2023-11-14&endDate=2023-11-15")
        .await;
    assert_eq!(later[0]["totalMinutes"], 823);
    assert_eq!(rig.look("paying").await[0]["machines"], 0);
    // 22:18:20 of the 14th until midnight: 101 minutes and 40 seconds.
    let (_, day) = rig.get("/v3/flexMetal/usage?endDate=2023-11-14").await;
    assert_eq!(day[0]["totalMinutes"], 102);
    assert_eq!(
        rig.get("/v3/flexMetal/usage?startDate=2024-01-01").await,
        (200, json!([]))
    );
    for bad in [
        "startDate=14-11-2023",
        "endDate=2023-13-01",
        "startDate=2023-11-15&endDate=2023-11-14",
    ] {
        refused(rig.get(&format!("/v3/flexMetal/usage?{bad}")).await, 422);
    }
}

#[tokio::test]
async fn a_minute_and_an_hour_that_have_begun_count() {
    let rig = Rig::new().await;
    delivered(&rig).await;
    let mut passed = 0;
    for (seconds, minutes, hours) in [
        (0, 0, 0),
        (1, 1, 1),
        (59, 1, 1),
        (3_600, 60, 1),
        (3_601, 61, 2),
        (3_659, 61, 2),
    ] {
        rig.advance(seconds - passed).await;
        passed = seconds;
        let (_, usage) = rig.get("/v3/flexMetal/usage").await;
        assert_eq!(
            (&usage[0]["totalMinutes"], &usage[0]["totalHours"]),
            (&json!(minutes), &json!(hours)),
            "{seconds} s"
        );
        let paying = rig.look("paying").await;
        assert_eq!(
            paying[0]["instanceTypes"]["bm7.std.8"]["hours"], hours,
            "{seconds} s"
        );
    }
}

#[tokio::test]
async fn capacity_comes_from_the_committed_quota() {
    let rig = Rig::new().await;
    assert_eq!(
        rig.get("/v3/flexMetal/capacity/commit").await,
        (200, json!([]))
    );
    rig.steer(
        "quota",
        json!({"location": "EU: Rotterdam", "instanceType": "bm7.std.8", "quotaType": "commit",
            "contractId": "C-1", "quota": 3}),
    )
    .await;
    let mut order = body("a", &[]);
    order["contractId"] = json!("C-1");
    rig.post(SERVERS, &order).await;
    let (_, commits) = rig.get("/v3/flexMetal/capacity/commit").await;
    assert_eq!(commits[0]["location"]["name"], "EU: Rotterdam");
    let commit = &commits[0]["commits"][0];
    assert_eq!(
        (&commit["capacity"], &commit["inUse"]),
        (&json!(3), &json!(1))
    );
    assert_eq!(commit["instanceType"]["name"], "bm7.std.8");
}
