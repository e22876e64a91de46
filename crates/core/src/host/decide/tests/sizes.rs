//! The largest possible status of a host.

use super::*;
use crate::sizes::{largest, lengthen, long, written};
use api::DedicatedHost;
use hosting_types::host::{HostAddress, HostDisk};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A host with the longest texts, and more addresses and disks than status shows.
fn hostile() -> Host {
    let address = HostAddress {
        address: long(),
        version: None,
        kind: None,
        is_private: true,
        interface: long(),
        mac_address: long(),
        reverse_dns: long(),
        gateway: None,
        netmask: None,
        prefix: None,
        vlan_id: None,
    };
    let disk = HostDisk {
        kind: long(),
        medium: long(),
        model: long(),
        size: Some(i64::MAX),
    };
    Host {
        server_name: long(),
        live_host_name: long(),
        os_id: Some(i64::MAX),
        location_id: Some(i64::MAX),
        instance_type: long(),
        hardware: HostHardware {
            brand: long(),
            model: long(),
            rack: long(),
            cpu: long(),
            sockets: Some(i64::MAX),
            cores: Some(i64::MAX),
            threads: Some(i64::MAX),
            memory: vec![i64::MAX; 128],
            disks: vec![disk; 128],
            ..HostHardware::default()
        },
        addresses: vec![address; 500],
        status: long(),
        install_status: InstallStatus::Other(long()),
        uptime: Some(1_000_000),
        ..host()
    }
}

#[test]
fn the_largest_host_has_less_than_64_kib() {
    let spec = largest::host("default", 7);
    let account_id = largest::text(32);
    let large = sent(2_147_483_646, Some(CommandOutcome::Refused))
        .own(|own| own.install = None)
        .view(|view| view.account_id = Some(account_id.clone()))
        .status(|s| {
            let install = s.records.install.as_mut().unwrap();
            let last = install.last.as_mut().unwrap();
            last.outcome = Some(CommandOutcome::Refused);
            last.end = Some(InstallEnd::Refused);
            last.ended_at = Some(WALL);
            last.message = Some(long());
            last.intent.attempt = largest::text(32);
            last.intent.before = Some(largest::text(32));
            last.intent.account.name = largest::text(253);
            last.intent.account.uid = largest::text(36);
            last.intent.account.account_id = account_id.clone();
            last.intent.account.credentials_hash = largest::text(12);
            install.finished = Some(api::install::FinishedInstall {
                revision: i64::MAX,
                at: WALL,
            });
            s.records.account_id = Some(account_id.clone());
            s.records.power = Some(api::power::PowerRecord {
                target: "7".into(),
                desired: Some(api::power::Power::PoweredOff),
                command: Some(api::power::PowerCommandStatus {
                    name: largest::text(253),
                    started_at: Time(jiff::Timestamp::from_second(WALL).unwrap()),
                    state: api::power::PowerState::NotCreated,
                    reason: Some("DuplicateServers".into()),
                }),
            });
            s.last_handled_reconcile_at = Some(largest::text(128));
        })
        .spec(|s| *s = serde_json::from_value(spec.clone()).unwrap())
        .spec(|s| s.account_ref = None)
        .shows(hostile());
    let (mut status, _) = large
        .decide()
        .status(&large.0.subject, jiff::Timestamp::UNIX_EPOCH);
    lengthen(&mut status.conditions);
    let status = written::<DedicatedHost>(&spec, &status);
    assert_eq!(status["addresses"].as_array().map(Vec::len), Some(64));
    assert_eq!(status["addressesOmitted"], 500 - 64);
    assert_eq!(status["hardware"]["disksOmitted"], 128 - 32);
    let word = status["providerInstallStatus"].as_str().unwrap();
    assert_eq!(word, "<".repeat(32), "as it is compared later");
    for install in [&status["records"]["install"], &status["install"]] {
        let message = install["last"]["message"].as_str().unwrap();
        assert!(message.ends_with('…'), "{install:#}");
    }
    assert_eq!(status["records"]["accountID"], account_id);
    assert!(status["records"]["power"]["command"].is_object());
}
