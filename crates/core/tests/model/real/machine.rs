//! Machines, and the tags that they bear.

use super::{super::world::*, *};
use api::names::RETAINED_PREFIX;
use flexmetal_core::mark::parse_order_tag;
use hosting_types::{Server, ServerId, ServerStatus};

/// The record of a machine.
pub fn server(number: u8, m: &Machine) -> Server {
    let mut tags: Vec<String> = Vec::new();
    if m.cluster {
        tags.push(cluster().tag());
    }
    for (who, epoch) in m.marks.iter().flatten() {
        tags.push(mark(*who).order_tag(BASE + i64::from(*epoch)));
    }
    if m.retained {
        // The model has one word for the tags of all who may leave it behind.
        let marks = m.marks.iter().flatten().map(|(who, _)| who.slot);
        let owner = [m.owner].into_iter().filter(|owner| *owner != NOBODY);
        let mut slots: Vec<u8> = marks.chain(owner.map(|owner| owner.slot)).collect();
        slots.sort_unstable();
        slots.dedup();
        let tags_of = slots
            .iter()
            .map(|slot| cluster().tag_of_retained("shop", &name(*slot)));
        tags.extend(tags_of);
    }
    Server {
        id: ServerId::parse(&uuid(number)).unwrap(),
        name: hostname(m.owner.slot, m.renamed),
        status: match m.life {
            Life::Provisioning => ServerStatus::Provisioning,
            Life::Delivered => ServerStatus::Delivered,
            Life::Failed => ServerStatus::Failed,
            Life::Releasing => ServerStatus::Releasing,
            Life::Released => ServerStatus::Released,
        },
        status_message: String::new(),
        location_id: None,
        location: "here".into(),
        instance_type_id: None,
        instance_type: "small".into(),
        os_slug: "some-os".into(),
        addresses: if m.delivered {
            vec!["192.0.2.1".into()]
        } else {
            Vec::new()
        },
        tags,
        created_at: Some(wall(m.created)),
        delivered_at: m.delivered.then(|| wall(m.created)),
        released_at: None,
        contract_id: None,
    }
}

/// The machine that everybody knows in an account.
pub fn control_server(account: u8) -> Server {
    let who = Who { slot: 0, life: 0 };
    let machine = Machine {
        account,
        marks: [None; MOST_MARKS],
        cluster: true,
        retained: false,
        life: Life::Delivered,
        delivered: true,
        created: 0,
        owner: who,
        stripped: false,
        by_policy: false,
        refused: false,
        flaps_until: 0,
        renamed: false,
        named: false,
        brought: false,
    };
    server(CONTROL - account, &machine)
}

/// Its identifier.
pub fn control(account: u8) -> String {
    uuid(CONTROL - account)
}

/// The order tag of the machine that everybody knows.
pub fn control_tag() -> String {
    format!("fmo-order:{}", "f".repeat(32))
}

/// Reads a tag that an effect names.
pub fn tag_of(tag: &str) -> TagA {
    match parse_order_tag(tag) {
        Some((mark, epoch)) => TagA::Order(who_of(&mark), offset(epoch)),
        None if tag.starts_with(RETAINED_PREFIX) => TagA::Retained,
        None => TagA::Cluster,
    }
}

/// A tag of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagA {
    Order(Who, i16),
    Cluster,
    Retained,
}
