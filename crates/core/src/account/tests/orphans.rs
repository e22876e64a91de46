//! Orphans, as the account shows them.

use super::*;
use crate::account::orphan_scan::{Others, is_untagged, untagged};
use std::collections::HashSet;

fn lost() -> Server {
    Server {
        name: "web-1".into(),
        location: "EU: Rotterdam".into(),
        instance_type: "bm7.std.8".into(),
        os_slug: "debian-13".into(),
        ..provider_server(3)
    }
}

fn with(found: &[Server]) -> AccountFacts {
    let mut facts = facts();
    let found = found.iter().cloned().map(Arc::new).collect();
    facts.report.as_mut().unwrap().orphan_scan = OrphanScanResult::Found(found);
    facts
}

#[test]
fn orphan_entry_keeps_its_first_seen_time() {
    let mut facts = with(&[lost()]);
    let first = decide(&facts).orphans.unwrap();
    let line = &first[0];
    assert_eq!(
        (line.uuid.as_str(), line.hostname.as_str()),
        (&*uuid(3), "web-1")
    );
    assert_eq!(
        (line.location.as_str(), line.instance_type.as_str()),
        ("EU: Rotterdam", "bm7.std.8")
    );
    let since = line.since.clone().unwrap();
    assert_eq!(since.0.as_second(), facts.wall);
    facts.status.orphans = first.clone();
    facts.wall += 3600;
    assert_eq!(decide(&facts).orphans, Some(first), "it is written once");
}

#[test]
fn message_explains_how_to_adopt_an_orphan() {
    let (_, _, message) = condition(&with(&[lost()]), Type::OrphansFound);
    assert!(message.contains("spec.externalID"), "{message}");
    assert!(message.contains(&uuid(3)), "{message}");
    // An account of the cluster: no namespace may adopt a server with our tags.
    let mut facts = with(&[lost()]);
    facts.key = AccountKey::named(AccountKind::ClusterProviderAccount, None, "shared");
    let (_, _, message) = condition(&facts, Type::OrphansFound);
    assert!(
        message.contains("(needs allowAdoption in the entry of its namespace)"),
        "{message}"
    );
}

#[test]
fn wrong_clock_never_dates_an_orphan() {
    let at = |second: i64| Time(Timestamp::from_second(second).unwrap());
    let since = |recorded: i64, created: Option<i64>| {
        let mut facts = with(&[Server {
            created_at: created,
            ..lost()
        }]);
        facts.status.orphans = decide(&facts).orphans.unwrap();
        facts.status.orphans[0].since = Some(at(recorded));
        let line = decide(&facts).orphans.unwrap().remove(0);
        line.since.unwrap().0.as_second() - facts.wall
    };
    let now = facts().wall;
    assert_eq!(since(now - 60, None), -60);
    assert_eq!(since(now + 60, None), 0, "it was ahead");
    assert_eq!(since(now - 9999, Some(now - 30)), 0, "it was behind");
    assert_eq!(since(now - 60, Some(now - 30)), -60);
}

#[test]
fn counts_of_other_servers_stay_until_next() {
    let mut facts = facts();
    let counts = |facts: &AccountFacts| {
        let servers = decide(facts).servers.unwrap();
        (
            servers.other_clusters,
            servers.unmanaged,
            servers.duplicates,
        )
    };
    assert_eq!(counts(&facts), (None, None, 0));
    let shown = &mut facts.report.as_mut().unwrap().counts;
    shown.duplicates = 1;
    shown.others = Some(Others {
        other_clusters: 2,
        unmanaged: 5,
    });
    assert_eq!(counts(&facts), (Some(2), Some(5), 1));
    facts.status.servers = decide(&facts).servers;
    facts.report.as_mut().unwrap().counts.others = None;
    assert_eq!(counts(&facts), (Some(2), Some(5), 1));
}

/// A user removed the cluster tag.
#[test]
fn untagged_orphan_is_known_by_namespace() {
    let place =
        |namespace: &str, name: &str| format!("{}{}", namespace.repeat(14), name.repeat(14));
    let tagged = |place: &str, more: &[&str]| {
        let order = format!("fmo-order:{place}{:024}", 0);
        let more = more.iter().map(|tag| (*tag).to_owned());
        let tags = more.chain([order]).collect();
        Server {
            tags,
            ..provider_server(3)
        }
    };
    let orphan = || tagged(&place("1", "2"), &["web"]);
    assert!(is_untagged(&orphan()));
    for other in [
        tagged(&place("1", "2"), &["fmo-cluster:0123456789abcdef"]),
        tagged(&place("1", "2"), &["fmo-retained"]),
        Server {
            tags: vec!["web".into()],
            ..orphan()
        },
        Server {
            status: ServerStatus::Released,
            ..orphan()
        },
    ] {
        assert!(!is_untagged(&other), "{other:?}");
    }
    let among = |server: Server, claimed: &[String], namespaces: &[String]| {
        let claims: HashSet<String> = claimed.iter().cloned().collect();
        let namespaces = namespaces.iter().cloned().collect();
        untagged(vec![Arc::new(server)], Some(&claims), namespaces).len()
    };
    let found = |server, claimed: &[String]| among(server, claimed, &[]);
    let (neighbour, elsewhere) = (place("1", "3"), place("2", "2"));
    assert_eq!(found(orphan(), std::slice::from_ref(&neighbour)), 1);
    assert_eq!(
        found(orphan(), &[neighbour, place("1", "2")]),
        0,
        "it has an object"
    );
    assert_eq!(
        found(orphan(), std::slice::from_ref(&elsewhere)),
        0,
        "perhaps another cluster's"
    );
    let namespaces = ["1".repeat(14)];
    assert_eq!(among(orphan(), &[elsewhere], &namespaces), 1);
    assert_eq!(
        among(orphan(), &[], &namespaces),
        1,
        "of one without any object"
    );
    let unknown = untagged(vec![Arc::new(orphan())], None, HashSet::new());
    assert_eq!(unknown.len(), 0);
}
