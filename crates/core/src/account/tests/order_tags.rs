//! Which order tags are removed from an account.

use super::*;
use crate::account::{
    order_tags::{MOST_REMOVED, OldOrderTags},
    recorded::{OpenOrder, RecordedResources, RecordedServer},
};
use hosting_types::TagRecord;

const NOW: i64 = 1_790_000_000;
const DAY: i64 = 86_400;

fn name_hash(number: i64) -> String {
    format!("{number:028x}")
}

/// The order tag of this object at this second.
fn tag(object: i64, second: i64) -> String {
    format!("fmo-order:{}{:016}{second:08x}", name_hash(object), 0)
}

/// A tag in the account's list that no resource has.
fn unused(tag: &str) -> TagRecord {
    TagRecord {
        tag: tag.into(),
        resources: Some(0),
        servers: Some(0),
    }
}

const CLUSTER_TAG: &str = "fmo-cluster:0123456789abcdef";

/// Each of these tags, on a released server of the cluster.
fn old(tags: &[TagRecord]) -> OldOrderTags {
    let mut old = OldOrderTags::new(NOW, Vec::new(), CLUSTER_TAG);
    for record in tags {
        old.add_tag(record);
        old.add_server(&with_tag(ServerStatus::Released, record.tag.clone()));
    }
    old
}

fn with_tag(status: ServerStatus, tag: String) -> Server {
    Server {
        status,
        tags: vec![CLUSTER_TAG.into(), tag],
        ..provider_server(3)
    }
}

#[test]
fn only_day_old_order_tags_are_removed() {
    let removed = |tag: &str| {
        !old(&[unused(tag)])
            .to_remove(&RecordedResources::default())
            .is_empty()
    };
    assert!(removed(&tag(1, NOW - DAY - 1)));
    for kept in [
        tag(1, NOW - DAY),
        tag(1, NOW),
        tag(1, NOW + DAY),
        "web".into(),
        "fmo-cluster:0123456789abcdef".into(),
        "fmo-retained".into(),
        "fmo-order:1".into(),
    ] {
        assert!(!removed(&kept), "{kept}");
    }
}

#[test]
fn a_tag_that_a_server_has_stays() {
    let tag = tag(1, NOW - 2 * DAY);
    for (status, is_removed) in [
        (ServerStatus::Created, false),
        (ServerStatus::Delivered, false),
        (ServerStatus::Failed, false),
        (ServerStatus::Releasing, false),
        (ServerStatus::Released, true),
    ] {
        let mut old = old(&[unused(&tag)]);
        old.add_server(&with_tag(status.clone(), tag.clone()));
        let removed = old.to_remove(&RecordedResources::default());
        assert_eq!(!removed.is_empty(), is_removed, "{status:?}");
    }
    // The list of servers may be older than the list of tags.
    for (resources, servers) in [(Some(1), Some(0)), (Some(1), None), (None, Some(1))] {
        let counted = TagRecord {
            resources,
            servers,
            ..unused(&tag)
        };
        assert!(old(&[counted]).is_empty());
    }
}

#[test]
fn tag_without_own_released_server_stays() {
    let tag = tag(1, NOW - 2 * DAY);
    let mut old = OldOrderTags::new(NOW, Vec::new(), CLUSTER_TAG);
    old.add_tag(&unused(&tag));
    let mut others = with_tag(ServerStatus::Released, tag.clone());
    others.tags[0] = "fmo-cluster:ffffffffffffffff".into();
    old.add_server(&others);
    let removed = old.clone().to_remove(&RecordedResources::default());
    assert_eq!(removed, Vec::<String>::new());
    old.add_server(&with_tag(ServerStatus::Released, tag.clone()));
    assert_eq!(old.to_remove(&RecordedResources::default()), [tag]);
}

#[test]
fn tag_of_recorded_server_or_order_stays() {
    let (server, open, nobody) = (tag(1, 1), tag(2, 2), tag(3, 3));
    let all = [&server, &open, &nobody].map(|tag| unused(tag));
    let on_record = RecordedResources {
        servers: vec![RecordedServer {
            uuid: uuid(7),
            name_hash: name_hash(1),
            live: false,
            account_id: None,
        }],
        open_orders: vec![OpenOrder {
            name_hash: name_hash(2),
            seq: 2,
            account_id: "l".into(),
        }],
    };
    assert_eq!(old(&all).to_remove(&on_record), [nobody]);
}

#[test]
fn a_list_without_a_known_server_removes_nothing() {
    let nobody = tag(3, 3);
    let removed = |tags: &[&str], live: bool, shown: bool| {
        let known = KnownServer { live, ..known() };
        let mut old = OldOrderTags::new(NOW, vec![known], CLUSTER_TAG);
        for tag in tags {
            old.add_tag(&unused(tag));
            old.add_server(&with_tag(ServerStatus::Released, (*tag).to_owned()));
        }
        if shown {
            let released = Server {
                status: ServerStatus::Released,
                ..provider_server(1)
            };
            old.add_server(&released);
        }
        old.to_remove(&RecordedResources::default())
    };
    assert!(removed(&[&nobody], true, false).is_empty());
    assert_eq!(removed(&[&nobody], true, true), [nobody.as_str()]);
    // The search for an order also lists by the tag of a known server.
    let of_known = known().order_tag;
    assert!(removed(&[&of_known], false, true).is_empty());
    assert_eq!(removed(&[&of_known], true, true), [of_known.as_str()]);
}

#[test]
fn scan_removes_fifty_oldest_tags() {
    let all: Vec<TagRecord> = (1..=200).rev().map(|n| unused(&tag(201 - n, n))).collect();
    let removed = old(&all).to_remove(&RecordedResources::default());
    let oldest = (1..=50).map(|n| tag(201 - n, n));
    assert_eq!((removed.len(), MOST_REMOVED), (50, 50));
    assert_eq!(removed, oldest.collect::<Vec<_>>());
}
