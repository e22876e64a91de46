//! Fault rules: which are accepted, and which requests they match.

use super::*;

#[tokio::test]
async fn rules_that_make_no_sense_are_refused() {
    let rig = Rig::new().await;
    for rule in [
        json!({"fault": "explode"}),
        json!({"fault": {"status": {"code": 99}}}),
        json!(7),
    ] {
        let (status, answer) = rig.control(Method::POST, "faults", &rule).await;
        assert_eq!(status, 400, "{rule}");
        assert!(answer["error"].is_string());
    }
    let misspelt = json!({"fault": "droppBefore"});
    let (_, answer) = rig.control(Method::POST, "faults", &misspelt).await;
    let told = answer["error"].as_str().unwrap();
    assert!(
        told.contains("droppBefore") && told.contains("`dropBefore`"),
        "{told}"
    );
}

#[tokio::test]
async fn fault_with_impossible_path_is_refused() {
    let rig = Rig::new().await;
    for (path, reason) in [
        ("/v3/flexMetal/servers/*/commands", "at its end"),
        ("/v3/flexMetal/servers/{uuid}", "{…}"),
        ("flexMetal/servers", "/v3"),
    ] {
        let rule = json!({"match": {"path": path}, "fault": "dropBefore"});
        let (status, answer) = rig.control(Method::POST, "faults", &rule).await;
        assert_eq!(status, 400, "{path}");
        assert!(
            answer["error"].as_str().unwrap().contains(reason),
            "{answer}"
        );
    }
    let rule =
        json!({"match": {"path": "/v3/flexMetal/servers/"}, "fault": {"status": {"code": 503}}});
    rig.steer("faults", rule).await;
    for path in [SERVERS, "/v3/flexMetal/servers/"] {
        refused(rig.get(path).await, 503);
    }
}

#[tokio::test]
async fn inapplicable_request_uses_up_no_fault() {
    let rig = Rig::new().await;
    let fail = json!({"fault": {"fail": {"message": "why"}}, "count": 1});
    rig.steer("faults", fail).await;
    rig.steer("faults", json!({"fault": "emptyList", "count": 1}))
        .await;
    let tag = json!({"tag": "a"});
    assert_eq!(rig.get("/v3/health").await.0, 200);
    assert_eq!(rig.post("/v3/flexMetal/tags", &tag).await.0, 200);
    let counts = async || -> Vec<(u64, u64)> {
        let rules = rig.look("faults").await;
        let count = |rule: &Value, name: &str| rule[name].as_u64().unwrap();
        let rules = rules.as_array().unwrap().iter();
        rules
            .map(|rule| (count(rule, "matched"), count(rule, "applied")))
            .collect()
    };
    assert_eq!(counts().await, [(0, 0), (0, 0)]);
    // A rule that does not match a request leaves it to the next one.
    assert_eq!(rig.names("/v3/flexMetal/tags").await, [""; 0]);
    let uuid = rig.order("a", &[]).await;
    assert_eq!(counts().await, [(1, 1), (1, 1)]);
    rig.advance(DELIVERY).await;
    let server = rig.server(&uuid).await;
    assert_eq!(
        (&server["status"], &server["statusMessage"]),
        (&json!("failed"), &json!("why"))
    );
    // Beside another fault, what cannot act does no harm.
    let both = json!({"fault": [{"status": {"code": 503}}, "emptyList"], "count": 1});
    rig.steer("faults", both).await;
    refused(rig.post("/v3/flexMetal/tags", &tag).await, 503);
}

#[tokio::test]
async fn fault_of_an_account_hits_no_other() {
    let rig = Rig::new().await;
    rig.steer("accounts", json!({"name": "other", "key": "other-key"}))
        .await;
    let rule = json!({"match": {"account": "other"}, "fault": {"status": {"code": 503}}});
    rig.steer("faults", rule).await;
    assert_eq!(rig.get(SERVERS).await.0, 200);
    let url = format!("{}{SERVERS}", rig.running.api_url());
    for (key, status) in [("other-key", 503), ("a-key-of-nobody", 403)] {
        let request = rig.client.get(&url).header("PRIVATE-TOKEN", key);
        assert_eq!(request.send().await.unwrap().status(), status, "{key}");
    }
}
