//! Answers about commands, hardware, root passwords and hosts that a simulator does not give.

use serde_json::{Value, json};

use super::{UUID, id, script::sent};
use crate::page::HostCursor;
use hosting_types::{
    CommandId, Error, HostId, Page,
    host::{HostKind, InstallStatus},
};

const COMMAND: &str = "01923b7e-1111-7d3a-9c52-0a1b2c3d4e5f";

fn command(state: &str) -> Value {
    json!({"uuid": COMMAND, "serverUuid": UUID, "payload": {"command": "reboot"}, "state": state,
        "createdAt": "2024-10-04T08:35:05Z", "updatedAt": "2024-10-04T10:35:06+02:00"})
}

#[tokio::test]
async fn all_command_styles_and_payloads_decode() {
    let snake = |payload: Value| {
        json!([{"uuid": COMMAND, "server_uuid": UUID, "payload": payload, "state": "polishing",
            "created_at": 1_728_030_905, "updated_at": "1728030906"}])
    };
    for payload in [json!([]), json!(null), json!("")] {
        let (_, commands) = sent(200, &snake(payload).to_string(), async |client| {
            client.commands(&id(), None, Page::first()).await
        })
        .await;
        let command = commands.unwrap().remove(0);
        assert_eq!(command.server, Some(id()));
        assert_eq!(command.command, None);
        assert_eq!(command.created_at.unwrap().as_second(), 1_728_030_905);
        assert_eq!(command.updated_at.unwrap().as_second(), 1_728_030_906);
        // An unknown word is not final.
        assert!(!command.state.is_over());
        assert_eq!(command.state.as_str(), "polishing");
    }
}

#[tokio::test]
async fn a_command_of_something_else_is_an_error() {
    let one = CommandId::parse(COMMAND).unwrap();
    let mut foreign = command("finished");
    foreign["serverUuid"] = json!(COMMAND);
    let mut other = command("finished");
    other["uuid"] = json!(UUID);
    let mut nameless = command("finished");
    nameless["uuid"] = json!(null);
    for wrong in [foreign, other, nameless, json!([])] {
        let (_, found) = sent(200, &wrong.to_string(), async |client| {
            client.command(&id(), &one).await
        })
        .await;
        assert!(matches!(found, Err(Error::Undecodable { .. })), "{wrong}");
    }
}

#[tokio::test]
async fn a_hardware_listing_may_be_unknown() {
    let listing = json!({"id": "node-1", "children": [{"class": "bus"}]});
    for (shown, at, known) in [
        (
            json!({"createdAt": 1_728_030_905, "lshw": listing}),
            Some(1_728_030_905),
            Some(listing.clone()),
        ),
        (json!([{"createdAt": 0, "lshw": null}]), None, None),
        (json!({"createdAt": 0, "lshw": ""}), None, None),
    ] {
        let (_, found) = sent(200, &shown.to_string(), async |client| {
            client.hardware_listing(&id()).await
        })
        .await;
        let found = found.unwrap();
        assert_eq!((found.created_at, found.listing), (at, known));
    }
}

#[tokio::test]
async fn root_password_is_unchanged() {
    let password = " p\u{200b}\tss  wörd ";
    let (_, found) = sent(
        200,
        &json!([{"rootPassword": password}]).to_string(),
        async |client| client.root_password(&id()).await,
    )
    .await;
    assert_eq!(found.ok().unwrap().expose(), password);
    for body in [
        "[]",
        "{}",
        r#"{"rootPassword":""}"#,
        r#"{"rootPassword":7}"#,
    ] {
        let (_, found) = sent(200, body, async |client| client.root_password(&id()).await).await;
        assert!(matches!(found.err(), Some(Error::Undecodable { .. })));
    }
}

fn host(number: u64) -> Value {
    json!({"id": number, "serverType": 1, "serverName": "s", "category": "Dedicated Servers",
        "fmOrderId": null, "osId": 4, "dcLocationId": 6, "brand": "b", "model": "m",
        "cpuInfo": "other", "cpuType": "quick", "serverId": 12, "uptime": 77, "uplinks": [{}, {}],
        "cpu": {"socket": 2, "cores": 32, "threads": 64, "info": "fast"},
        "memory": [{"size": 34_359_738_368_i64}], "disk": [{"size": 960_197_124_096_i64,
            "diskType": "nvme", "diskMedium": "ssd", "model": "d"}],
        "ipAddress": [{"ipAddress": "192.0.2.7", "version": 4, "type": 1, "private": 0,
            "rDns": "db.example.com", "netmask": "255.255.255.0", "gateway": null, "prefix": 24}, {"version": 6}],
        "status": "running", "installStatus": "installing",
        "labels": [{"key": "role", "value": "db"}, {"value": "x"}]})
}

#[tokio::test]
async fn a_host_is_read_whole() {
    let (_, found) = sent(200, &json!([host(5)]).to_string(), async |client| {
        client.host(HostId(5)).await
    })
    .await;
    let found = found.unwrap();
    assert_eq!(found.kind, HostKind::Dedicated);
    assert_eq!(found.order_id, None);
    assert_eq!(found.hardware.cores, Some(32));
    assert_eq!(found.hardware.cpu, "fast");
    assert_eq!(found.hardware.cpu_type, "quick");
    assert_eq!(found.server_id, Some(12));
    assert_eq!((found.uptime, found.uplinks), (Some(77), Some(2)));
    assert_eq!(found.hardware.memory, [34_359_738_368]);
    assert_eq!(found.hardware.disks[0].medium, "ssd");
    assert_eq!(found.addresses.len(), 1);
    let address = &found.addresses[0];
    assert_eq!(address.prefix, Some(24));
    assert_eq!(address.netmask.as_deref(), Some("255.255.255.0"));
    assert_eq!(address.reverse_dns, "db.example.com");
    assert_eq!(found.install_status, InstallStatus::Installing);
    assert!(found.install_status.is_under_way());
    assert_eq!(found.labels.len(), 1);
    assert!(!InstallStatus::parse("").is_under_way());

    let (_, other) = sent(200, &host(6).to_string(), async |client| {
        client.host(HostId(5)).await
    })
    .await;
    assert!(matches!(other, Err(Error::Undecodable { .. })));

    let on_demand = json!([{"id": "9", "serverType": 2, "fmOrderId": 77}]).to_string();
    let (_, page) = sent(200, &on_demand, async |client| {
        let from = HostCursor::Range(Page::first());
        client.hosts(None, &from).await
    })
    .await;
    let page = page.unwrap();
    assert_eq!(page.hosts[0].kind, HostKind::OnDemand);
    assert_eq!(page.hosts[0].order_id.as_deref(), Some("77"));
    assert_eq!(page.next, None);
}
