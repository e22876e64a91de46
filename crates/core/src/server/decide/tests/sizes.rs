//! The largest status of a server, for any data of the provider.

use super::*;
use crate::sizes::{largest, lengthen, long, written};
use serde_json::{Value, json};

/// A status with every field that a server can have, each as large as the provider and the operator's records allow.
fn crowded() -> Value {
    let at = "2026-09-21T14:00:00Z";
    let account = json!({
        "kind": "ClusterProviderAccount", "name": largest::text(253), "uid": uuid(1), "accountID": largest::text(32),
        "credentialsHash": largest::text(12),
    });
    let hashes = json!({
        "sshKeys": "01234567", "os.kernelParams": "0123", "os.partitions": "01234567",
        "os.ipxeScriptURL": "01234567", "postInstallScript": "0123", "userData": "0123",
    });
    let replaced = json!({
        "uuid": uuid(2), "providerStatus": "releasing", "location": long(), "instanceType": long(), "recordedAt": at,
    });
    let outputs = (0..16).map(|n| json!({"kind": "ConfigMap", "name": format!("{n:x>253}")}));
    let records = json!({
        "order": {
            "uid": "uid-1", "seq": EPOCH, "nonce": largest::text(32), "sendBy": at, "hostname": largest::text(253),
            "accountID": largest::text(32), "outcome": "Created", "server": uuid(1), "outcomeAt": at,
            "answerLost": true, "lost": 9, "cut": 9,
            "message": long(), "failures": 9, "acknowledgement": largest::text(12),
            "requestHash": largest::text(16), "location": long()[..128], "instanceType": long()[..128],
            "sent": hashes,
        },
        "tags": largest::words(60, 64),
        "power": {
            "target": uuid(1), "desired": "PoweredOff",
            "command": {
                "name": largest::text(253), "startedAt": at, "state": "NotCreated", "reason": "DuplicateServers",
            },
        },
        "install": {
            "uid": "uid-1", "server": uuid(1), "revision": 2_147_483_647, "since": at, "installed": hashes,
            "finished": {"revision": 2_147_483_647, "at": at},
            "last": {
                "uid": uuid(1), "server": uuid(1), "revision": 2_147_483_647, "wipeDisk": false,
                "attempt": largest::text(32), "startedAt": at, "sendBy": at, "account": account,
                "listed": {"since": at, "recent": largest::words(200, 8)}, "sent": hashes,
                "outcome": "Accepted", "commandID": uuid(3), "state": long(), "end": "NotRepeated",
                "endedAt": at, "message": long(),
            },
        },
        "rootPassword": {
            "server": uuid(1), "revision": 2_147_483_647, "installedAt": at, "availableUntil": at, "storedAt": at,
            "secret": largest::text(253), "deletesAt": at, "deletedAt": at, "warned": "SixHours",
        },
        "outputs": outputs.collect::<Vec<_>>(),
        "expiryWarning": "Hour",
    });
    json!({
        "accountRef": {"kind": "ClusterProviderAccount", "name": largest::text(253)},
        "uuid": uuid(1), "replacedServers": vec![replaced; 10],
        "acknowledged": (0..5).map(|n| json!({
            "token": format!("01234567890{n}"), "effect": "AssumeAbsent", "acknowledgedAt": at,
        })).collect::<Vec<_>>(),
        "pendingAcknowledgements": (0..3).map(|n| json!({
            "token": format!("01234567890{n}"), "effect": "OrderAnother", "subject": long(), "since": at,
        })).collect::<Vec<_>>(),
        "lastHandledReconcileAt": largest::text(128),
        "records": records,
    })
}

/// A server of this object with the longest texts, and as many addresses and tags as the client accepts.
fn hostile(number: u8, status: ServerStatus) -> Server {
    let tags = [vec![cluster().tag(), own_tag()], largest::words(58, 64)].concat();
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    Server {
        name: long(),
        status_message: long(),
        location: long(),
        instance_type: long(),
        os_slug: long(),
        addresses: vec![long(); 64],
        released_at: Some(EPOCH),
        contract_id: Some(long()),
        ..server(number, status, &tags)
    }
}

#[test]
fn the_largest_server_has_less_than_64_kib() {
    let spec = largest::server("default", &uuid(1));
    let states = [
        ServerStatus::Delivered,
        ServerStatus::Other(long()),
        ServerStatus::Failed,
        ServerStatus::Released,
    ];
    for state in states {
        for twins in [0, 30] {
            let case = Case::new()
                .ordered(Some(OrderOutcome::Created), Some(1))
                .object(|o| {
                    o.spec = serde_json::from_value(spec.clone()).unwrap();
                    o.spec.management_policy = None;
                    o.status = Some(serde_json::from_value(crowded()).unwrap());
                })
                .view(|view| view.account_id = Some(largest::text(32)))
                .facts(|f| {
                    f.own = vec![seen(hostile(1, state.clone()))];
                    let twins = (2..2 + twins).map(|n| seen(hostile(n, ServerStatus::Delivered)));
                    f.own.extend(twins);
                });
            // A live server is adopted instead of a dead one.
            if twins > 0 && !state.is_live() {
                continue;
            }
            let now = Timestamp::from_second(case.0.now.wall).unwrap();
            let mut status = case.decide().desired.finish(now);
            lengthen(&mut status.conditions);
            let status = written::<BareMetalServer>(&spec, &status);
            let addresses = status["addresses"].as_array().map(Vec::len);
            assert_eq!(addresses, Some(32), "{state:?}");
            assert_eq!(status["addressesOmitted"], 32);
            let records = &status["records"];
            let parts = [
                "order",
                "tags",
                "power",
                "install",
                "rootPassword",
                "outputs",
            ];
            for part in parts {
                assert!(!records[part].is_null(), "{state:?}: {part}");
            }
            assert_eq!(records["outputs"].as_array().map(Vec::len), Some(16));
            assert_eq!(records["order"]["hostname"], largest::text(253));
            for message in [
                &records["order"]["message"],
                &records["install"]["last"]["message"],
            ] {
                assert!(message.as_str().unwrap().ends_with('…'), "{state:?}");
            }
        }
    }
}
