//! The requests and answers of password, tags, usage, capacity and health.

use http::Method;
use jiff::civil::date;
use serde_json::json;

use super::script::{Script, body, line, sent};
use super::{UUID, record};
use crate::capacity::CapacityCommit;
use crate::catalogue::SystemGroup;
use crate::error::NotSent;
use crate::health::Health;
use crate::request::InvalidRequest;
use crate::{Error, LocationId, Page, SecretText};

#[tokio::test]
async fn passwords_are_changed_and_reset() {
    let [old, new, hash] = ["old pass", "new pass", "h4sh"].map(SecretText::new);
    let (request, result) = sent(204, "", async |client| {
        client.change_password(&old, &new).await
    })
    .await;
    assert_eq!(line(&request), "PUT /v3/account/password");
    assert_eq!(
        body(&request),
        json!({"currentPassword": "old pass", "newPassword": "new pass"})
    );
    result.unwrap();

    let (request, result) = sent(204, "", async |client| {
        client.reset_password("me@example.com").await
    })
    .await;
    assert_eq!(line(&request), "POST /v3/account/password/reset");
    assert_eq!(body(&request), json!({"emailAddress": "me@example.com"}));
    result.unwrap();

    let (request, result) = sent(204, "", async |client| {
        client.validate_password_reset(&new, &hash).await
    })
    .await;
    assert_eq!(line(&request), "PUT /v3/account/password/reset/validate");
    assert_eq!(
        body(&request),
        json!({"newPassword": "new pass", "resetHash": "h4sh"})
    );
    result.unwrap();

    let (client, script) = Script::client(Vec::new());
    let nothing = SecretText::new("");
    let errors = [
        client.change_password(&nothing, &new).await,
        client.change_password(&old, &nothing).await,
        client.validate_password_reset(&new, &nothing).await,
        client.reset_password("me").await,
        client.reset_password("me @example.com").await,
    ];
    for error in errors {
        assert!(matches!(error, Err(Error::NotSent(NotSent::Request(_)))));
    }
    assert!(script.requests().is_empty());
}

#[tokio::test]
async fn tags_are_listed_made_and_renamed() {
    let tag = |name: &str| json!([{"tag": name, "resources": {"count": 0}}]).to_string();
    let (request, tags) = sent(200, &tag("a"), async |client| {
        client.tags(Page::first()).await
    })
    .await;
    assert_eq!(line(&request), "GET /v3/flexMetal/tags");
    assert_eq!(request.headers["ranged-data"], "start=0,results=50");
    assert_eq!(tags.unwrap()[0].tag, "a");
    let (request, made) = sent(200, &tag("a"), async |client| client.create_tag("a").await).await;
    assert_eq!(line(&request), "POST /v3/flexMetal/tags");
    assert_eq!(body(&request), json!({"tag": "a"}));
    assert_eq!(made.unwrap().resources, Some(0));
    let (request, renamed) = sent(200, &tag("b"), async |client| {
        client.rename_tag("a", "b").await
    })
    .await;
    assert_eq!(line(&request), "PUT /v3/flexMetal/tags/a");
    assert_eq!(body(&request), json!({"tag": "b"}));
    assert_eq!(renamed.unwrap().tag, "b");

    // The old name as an answer is no success.
    let (_, renamed) = sent(200, &tag("a"), async |client| {
        client.rename_tag("a", "b").await
    })
    .await;
    assert!(matches!(renamed, Err(Error::Undecodable { .. })));
    let (_, nameless) = sent(200, "[{}]", async |client| client.tags(Page::first()).await).await;
    assert!(matches!(nameless, Err(Error::Undecodable { .. })));
    let (client, script) = Script::client(Vec::new());
    assert!(client.create_tag("a b").await.is_err());
    assert!(client.rename_tag("a", "..").await.is_err());
    assert!(client.rename_tag("..", "a").await.is_err());
    assert!(script.requests().is_empty());
}

#[tokio::test]
async fn usage_is_asked_for_by_dates() {
    let shown = json!([{"server": record(), "startedAt": "2024-10-04T08:35:05.000Z",
        "endedAt": "2024-10-04 08:49:08", "totalHours": 14, "totalMinutes": 823,
        "bandwidthIn": 17, "totalEgressBytes": 4_000_000_000_000_i64}])
    .to_string();
    let (request, usage) = sent(200, &shown, async |client| {
        let days = (date(2024, 10, 1), date(2024, 10, 31));
        client.usage(Some(days.0), Some(days.1)).await
    })
    .await;
    assert_eq!(
        line(&request),
        "GET /v3/flexMetal/usage?startDate=2024-10-01&endDate=2024-10-31"
    );
    let usage = usage.unwrap().remove(0);
    assert_eq!(usage.server.id.as_str(), UUID);
    assert_eq!(usage.started_at.unwrap().as_second(), 1_728_030_905);
    assert_eq!(usage.ended_at.unwrap().as_second(), 1_728_031_748);
    assert_eq!(usage.total_hours, Some(14));
    assert_eq!(usage.total_egress_bytes, Some(4_000_000_000_000));
    assert_eq!(usage.bandwidth_out, None);

    let (request, usage) = sent(200, "[]", async |client| client.usage(None, None).await).await;
    assert_eq!(line(&request), "GET /v3/flexMetal/usage");
    assert!(usage.unwrap().is_empty());
    let (client, script) = Script::client(Vec::new());
    let wrong = client.usage(Some(date(2024, 2, 2)), Some(date(2024, 2, 1)));
    assert!(matches!(
        wrong.await,
        Err(Error::NotSent(NotSent::Request(InvalidRequest::Dates)))
    ));
    assert!(script.requests().is_empty());
}

#[tokio::test]
async fn what_is_deprecated_is_read_all_the_same() {
    let kind = json!({"id": 3, "locationId": 6, "name": "bm7.std.8", "sockets": 1, "cores": 8,
        "memory": 32, "memoryType": "ddr4", "storage": 960, "storageType": "nvme",
        "generationName": "7"});
    let (request, kinds) = sent(200, &json!([kind]).to_string(), async |client| {
        client.instance_types(LocationId(6)).await
    })
    .await;
    assert_eq!(line(&request), "GET /v3/flexMetal/location/6/instanceTypes");
    let kinds = kinds.unwrap();
    assert_eq!((kinds[0].cores, kinds[0].location_id), (Some(8), Some(6)));

    let commits = json!([{"location": {"id": 6, "name": "EU: Rotterdam", "countryId": 150},
        "commits": [{"instanceType": kind, "capacity": 5, "inUse": 2}]}])
    .to_string();
    let (request, commits) = sent(200, &commits, async |client| {
        client.capacity_commits().await
    })
    .await;
    assert_eq!(line(&request), "GET /v3/flexMetal/capacity/commit");
    let commits: Vec<CapacityCommit> = commits.unwrap();
    assert_eq!(commits[0].location.country_id, Some(150));
    assert_eq!(commits[0].commits[0].in_use, Some(2));
    assert_eq!(commits[0].commits[0].instance_type.name, "bm7.std.8");
}

#[tokio::test]
async fn health_is_a_word() {
    for (body, health) in [
        (r#"{"status":"OK"}"#, Health::Ok),
        (r#"[{"status":"FAIL"}]"#, Health::Fail),
        (r#"{"status":"so so"}"#, Health::Other("so so".to_owned())),
    ] {
        let (request, found) = sent(200, body, async |client| client.health().await).await;
        assert_eq!(line(&request), "GET /v3/health");
        assert_eq!(request.method, Method::GET);
        assert_eq!(found.unwrap(), health);
    }
    let (_, down) = sent(503, r#"{"status":"FAIL"}"#, async |client| {
        client.health().await
    })
    .await;
    assert!(matches!(down, Err(Error::Server(_))));
}

#[tokio::test]
async fn groups_of_systems_are_told_apart() {
    let systems = json!([{"slug": "a", "osGroup": 1, "isOdp": 1}, {"slug": "b", "osGroup": 2},
        {"slug": "c", "osGroup": 9}, {"slug": "d"}])
    .to_string();
    let (_, systems) = sent(200, &systems, async |client| {
        client.operating_systems().await
    })
    .await;
    let systems = systems.unwrap();
    let groups: Vec<_> = systems.iter().map(|system| system.group).collect();
    assert_eq!(
        groups,
        [
            Some(SystemGroup::Windows),
            Some(SystemGroup::Unix),
            Some(SystemGroup::Other(9)),
            None
        ]
    );
    assert!(systems[0].is_odp && !systems[1].is_odp);
}
