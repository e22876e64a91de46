//! Whether the limits of an account allow one more order, by what the provider shows and what the plan has so far.

use super::account::PlannedAccount;
use api::{allowed::AllowedNamespaces, limits::Limits};
use flexmetal_core::{
    account::{ownership_tags, terms::Terms},
    cluster_id::ClusterId,
    owner,
    wording::counted,
};
use hosting_types::Server;
use std::collections::HashSet;

/// The span of `maxOrdersPerHour`, in seconds.
const HOUR: i64 = 3600;

/// Why the limits allow no further order. None: they allow it. `wall`: Unix seconds.
pub fn find_reached_limit(
    account: &PlannedAccount,
    limits: &Limits,
    terms: &Terms,
    cluster: &ClusterId,
    wall: i64,
) -> Option<String> {
    let servers = account.lists.servers.as_deref();
    let servers = servers.map_or(&[][..], Vec::as_slice);
    let tag = cluster.tag();
    let own = || servers.iter().filter(|server| server.has_tag(&tag));
    let orders = account.planned_orders.len();
    let reached = find_reached(limits, own(), orders, wall);
    if let Some((field, most, count)) = reached {
        return Some(format!(
            "{} has {count}; its spec.limits.{field} is {most}. Raise it, or delete a server",
            account.key
        ));
    }
    let Terms::Entry(entry) = terms else {
        return None;
    };
    let namespaces = hash_namespaces(entry, cluster);
    let is_theirs = |server: &&Server| {
        namespaces.as_ref().is_none_or(|hashes| {
            let mut owners = ownership_tags::owners(server);
            owners.any(|it| hashes.contains(owner::namespace_of(it)))
        })
    };
    let orders = account.planned_orders.iter();
    let orders = orders.filter(|it| entry.selects_namespace(it, None) != Some(false));
    let theirs = own().filter(is_theirs);
    let (field, most, count) = find_reached(&entry.limits, theirs, orders.count(), wall)?;
    Some(format!(
        "Entry {:?} of {} has {count}; its limits.{field} in spec.allowedNamespaces is {most}. Raise it, or delete a server",
        entry.name, account.key
    ))
}

/// The limit that these servers and the planned orders reach: its field, its value and the count.
fn find_reached<'a>(
    limits: &Limits,
    servers: impl Iterator<Item = &'a Server>,
    orders: usize,
    wall: i64,
) -> Option<(&'static str, i32, String)> {
    let (mut live, mut recent) = (orders, orders);
    for server in servers {
        live += usize::from(server.status.is_live());
        recent += usize::from(created_at(server).is_some_and(|at| at >= wall - HOUR));
    }
    let reaches = |limit: Option<i32>, count: usize| {
        limit.filter(|most| usize::try_from(*most).is_ok_and(|most| count >= most))
    };
    if let Some(most) = reaches(limits.max_servers, live) {
        return Some(("maxServers", most, counted(live, "server")));
    }
    let most = reaches(limits.max_orders_per_hour, recent)?;
    let count = format!("{} within an hour", counted(recent, "order"));
    Some(("maxOrdersPerHour", most, count))
}

/// When a server was created: by the provider's clock, or by its order tag if that is later.
fn created_at(server: &Server) -> Option<i64> {
    let ordered = server
        .tags
        .iter()
        .filter_map(|tag| ownership_tags::seq(tag));
    let created = server.created_at?;
    Some(ordered.fold(created, i64::max))
}

/// The hashes of the namespaces that an entry names. None: it may select any.
fn hash_namespaces(entry: &AllowedNamespaces, cluster: &ClusterId) -> Option<HashSet<String>> {
    let is_open = entry.namespaces.iter().any(|name| name == "*");
    if is_open || entry.namespace_selector.is_some() {
        return None;
    }
    let hash = |name: &String| owner::namespace_hash(cluster.as_str(), name);
    Some(entry.namespaces.iter().map(hash).collect())
}

#[cfg(test)]
mod tests {
    use super::{super::account::tests::account, *};
    use flexmetal_core::owner::Owner;
    use hosting_types::{ServerId, ServerStatus};
    use serde_json::{Value, json};
    use std::sync::Arc;

    const NOW: i64 = 1_790_000_000;

    fn cluster() -> ClusterId {
        ClusterId::from_namespace_uid("u")
    }

    /// A server of an object in this namespace.
    fn server(number: u8, namespace: &str, status: &str, created: i64) -> Server {
        let owner = Owner::new(&cluster(), namespace, "web", "1");
        Server {
            id: ServerId::parse(&format!("00000000-0000-4000-8000-0000000000{number:02x}"))
                .unwrap(),
            name: "web".into(),
            status: ServerStatus::parse(status),
            status_message: String::new(),
            location_id: None,
            location: String::new(),
            instance_type_id: None,
            instance_type: String::new(),
            os_slug: String::new(),
            addresses: Vec::new(),
            tags: vec![cluster().tag(), owner.order_tag(1)],
            created_at: Some(created),
            delivered_at: None,
            released_at: None,
            contract_id: None,
        }
    }

    fn reached(limits: Value, entry: Option<Value>, planned: &[&str]) -> Option<String> {
        let mut account = account(json!({"limits": limits}), json!({}));
        let mut foreign = server(4, "a", "delivered", NOW);
        foreign.tags.clear();
        account.lists.servers = Some(Arc::new(vec![
            server(1, "a", "delivered", NOW - 10),
            server(2, "b", "delivered", NOW - HOUR - 10),
            server(3, "a", "released", NOW - 10),
            foreign,
        ]));
        account.planned_orders = planned.iter().map(|it| (*it).to_owned()).collect();
        let terms = entry.map_or(Terms::Own, |entry| {
            Terms::Entry(Arc::new(serde_json::from_value(entry).unwrap()))
        });
        let limits = serde_json::from_value(limits).unwrap();
        find_reached_limit(&account, &limits, &terms, &cluster(), NOW)
    }

    #[test]
    fn live_servers_and_planned_orders_count() {
        let max = |most: i32| json!({"maxServers": most});
        assert_eq!(reached(max(3), None, &[]), None);
        let text = reached(max(2), None, &[]).unwrap();
        assert!(
            text.contains("has 2 servers; its spec.limits.maxServers is 2"),
            "{text}"
        );
        assert!(
            reached(max(3), None, &["a"]).is_some(),
            "the plan orders one before"
        );
    }

    #[test]
    fn orders_of_the_last_hour_count() {
        let max = |most: i32| json!({"maxOrdersPerHour": most});
        // One of them is released by now.
        assert!(
            reached(max(2), None, &[])
                .unwrap()
                .contains("2 orders within an hour")
        );
        assert_eq!(reached(max(3), None, &[]), None);
    }

    #[test]
    fn entry_counts_its_own_namespaces() {
        let entry = |most: i32| {
            Some(json!({"name": "team", "namespaces": ["a"], "limits": {"maxServers": most}}))
        };
        assert_eq!(reached(json!({}), entry(2), &["b"]), None);
        assert!(
            reached(json!({}), entry(2), &["a"])
                .unwrap()
                .contains("Entry \"team\"")
        );
        assert!(reached(json!({}), entry(1), &[]).is_some());
    }
}
