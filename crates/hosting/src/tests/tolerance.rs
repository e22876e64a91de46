//! Differences between answers without a difference in meaning.

use serde_json::{Value, json};

use super::{UUID, id, script::sent};
use hosting_types::{Error, Page, ServerId, catalogue::SystemGroup, health::Health};

const COMMAND: &str = "01923b7e-1111-7d3a-9c52-0a1b2c3d4e5f";

async fn command(record: Value) -> hosting_types::command::Command {
    let (_, commands) = sent(200, &json!([record]).to_string(), async |client| {
        client.commands(&id(), None, Page::first()).await
    })
    .await;
    commands.unwrap().remove(0)
}

async fn created_at(time: Value) -> Option<i64> {
    let record = json!({"uuid": UUID, "createdAt": time}).to_string();
    let (_, server) = sent(200, &record, async |client| client.server(&id()).await).await;
    server.unwrap().created_at
}

#[tokio::test]
async fn empty_switch_counts_as_missing() {
    let systems = json!([
        {"slug": "missing"},
        {"slug": "null", "availableForFlexMetal": null, "active": null},
        {"slug": "empty", "availableForFlexMetal": "", "active": ""},
        {"slug": "off", "availableForFlexMetal": 0, "active": false},
        {"slug": "off", "availableForFlexMetal": "0", "active": "0"}]);
    let (_, systems) = sent(200, &systems.to_string(), async |client| {
        client.operating_systems().await
    })
    .await;
    for system in systems.unwrap() {
        let on = system.slug != "off";
        let flags = (system.for_servers, system.active);
        assert_eq!(flags, (on, on), "{}", system.slug);
    }
}

#[tokio::test]
async fn a_system_without_a_slug_spoils_no_list() {
    let systems = json!([{"id": 7, "name": "For hosts"}, {"id": 8, "slug": "debian-13"}]);
    let (_, systems) = sent(200, &systems.to_string(), async |client| {
        client.operating_systems().await
    })
    .await;
    let systems = systems.unwrap();
    assert_eq!((systems[0].id, systems[0].slug.as_str()), (Some(7), ""));
    assert_eq!(systems[1].slug, "debian-13");
    // A system without an identifier is left out.
    let (_, systems) = sent(200, r#"[{"name":"x"}]"#, async |client| {
        client.operating_systems().await
    })
    .await;
    assert!(matches!(systems, Err(Error::Undecodable { .. })));
}

#[tokio::test]
async fn field_name_with_a_value_wins() {
    for nothing in [json!(null), json!("")] {
        let read = command(
            json!({"uuid": COMMAND, "serverUuid": nothing, "server_uuid": UUID,
            "createdAt": nothing, "created_at": 1_728_030_905}),
        )
        .await;
        assert_eq!(read.server, ServerId::parse(UUID).ok());
        assert_eq!(read.created_at.unwrap().as_second(), 1_728_030_905);
    }
    // A value under the usual name wins.
    let read = command(json!({"uuid": COMMAND, "createdAt": 1_728_030_905, "created_at": 5})).await;
    assert_eq!(read.created_at.unwrap().as_second(), 1_728_030_905);
}

#[tokio::test]
async fn command_in_a_list_is_read() {
    for payload in [
        json!({"command": "reboot"}),
        json!([{"command": "reboot"}]),
        json!([{}, {"command": "reboot"}]),
    ] {
        let read = command(json!({"uuid": COMMAND, "payload": payload})).await;
        assert_eq!(read.command.as_deref(), Some("reboot"));
    }
}

#[tokio::test]
async fn a_whole_number_may_come_as_a_float() {
    assert_eq!(
        created_at(json!(1_728_030_905.0)).await,
        Some(1_728_030_905)
    );
    assert_eq!(created_at(json!(1_728_030_905.5)).await, None);
    assert_eq!(created_at(json!(1e300)).await, None);
    assert_eq!(created_at(json!(0.0)).await, None);
}

#[tokio::test]
async fn times_are_read_in_several_forms() {
    for time in [
        json!("2024-10-04T08:35:05.000Z"),
        json!("2024-10-04 08:35:05"),
        json!("2024-10-04T10:35:05+02:00"),
        json!(1_728_030_905),
        json!("1728030905"),
    ] {
        let read = command(json!({"uuid": COMMAND, "updatedAt": time})).await;
        assert_eq!(
            read.updated_at.map(|at| at.as_second()),
            Some(1_728_030_905),
            "{time}"
        );
    }
}

#[tokio::test]
async fn unknown_words_are_preserved() {
    let systems = json!([{"slug": "a", "osGroup": 9, "isOdp": 1}, {"slug": "b"}]).to_string();
    let (_, systems) = sent(200, &systems, async |client| {
        client.operating_systems().await
    })
    .await;
    let systems = systems.unwrap();
    assert_eq!(systems[0].group, Some(SystemGroup::Other(9)));
    assert_eq!(systems[1].group, None);
    assert!(systems[0].is_odp && !systems[1].is_odp);
    let plans = json!([{"name": "p", "locations": [{"name": "l", "availability": "plenty"}]}]);
    let (_, plans) = sent(200, &plans.to_string(), async |client| client.plans().await).await;
    let place = &plans.unwrap()[0].locations[0];
    assert_eq!(place.availability.as_str(), "plenty");
    for (body, health) in [
        (r#"[{"status":"FAIL"}]"#, Health::Fail),
        (r#"{"status":"so so"}"#, Health::Other("so so".to_owned())),
    ] {
        let (_, found) = sent(200, body, async |client| client.health().await).await;
        assert_eq!(found.unwrap(), health);
    }
}
