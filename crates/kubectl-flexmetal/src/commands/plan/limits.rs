//! Checks a planned order against the limits of its account, as the operator does.

use super::account::PlannedAccount;
use crate::objects::Object;
use api::{limits::Limits, selector::Labels};
use flexmetal_core::{
    account::{
        order_limits::{
            EntryCount, OrderLimits, filter_hashes_for_entry, retained_namespace_hashes,
        },
        ownership_tags,
        terms::Terms,
    },
    cluster_id::ClusterId,
    owner::Owner,
};
use hosting_types::Server;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// The span of `maxOrdersPerHour`, in seconds.
const HOUR: i64 = 3600;

/// What shows for which namespaces servers count.
#[derive(Default)]
pub struct OrderOwners {
    /// Namespaces of the objects, by what their order tags start with.
    namespaces: HashMap<String, Arc<str>>,
    /// Labels of the namespaces; empty without the right to list them.
    labels: BTreeMap<String, Arc<Labels>>,
}

impl OrderOwners {
    /// By all objects that may have ordered, and the namespaces.
    pub fn new(
        cluster: &ClusterId,
        objects: &[Object],
        labels: BTreeMap<String, Arc<Labels>>,
    ) -> Self {
        let named = objects.iter().filter_map(|object| {
            let namespace = object.namespace()?;
            let owner = Owner::new(cluster, namespace, object.name(), "");
            Some((owner.name_hash().to_owned(), namespace.into()))
        });
        Self {
            namespaces: named.collect(),
            labels,
        }
    }

    fn namespace_for(&self, server: &Server) -> Option<Arc<str>> {
        let mut hashes = ownership_tags::name_hashes(server);
        hashes.find_map(|hash| self.namespaces.get(hash).cloned())
    }

    fn names_matching(&self, is_so: &dyn Fn(&str, &Labels) -> bool) -> Vec<String> {
        let matching = self
            .labels
            .iter()
            .filter(|(name, labels)| is_so(name, labels));
        matching.map(|(name, _)| name.clone()).collect()
    }
}

/// Why the limits allow no further order on these terms. `wall`: Unix seconds.
pub fn find_reached_limit(
    account: &PlannedAccount,
    terms: &Terms,
    owners: &OrderOwners,
    cluster: &ClusterId,
    wall: i64,
) -> Option<String> {
    let tag = cluster.tag();
    let own = account.servers().iter().filter(|it| it.has_tag(&tag));
    let own: Vec<&Server> = own.collect();
    let check = |entry, limits: &Limits, servers: &[&Server], planned: usize| {
        let limits = OrderLimits {
            account: &account.key,
            entry,
            limits,
            every: account.view.times.active_poll_interval,
        };
        let live = servers.iter().filter(|it| it.status.is_live()).count() + planned;
        let created = servers
            .iter()
            .filter_map(|it| ownership_tags::creation_time(it));
        let made = created.filter(|at| *at >= wall - HOUR).count() + planned;
        let checked = limits.check_servers(live, || live);
        checked
            .and_then(|()| limits.check_orders(made, || made))
            .err()
    };
    let planned = &account.planned_orders;
    let reached = check(None, &account.view.limits, &own, planned.len());
    let Terms::Entry(entry) = terms else {
        return reached;
    };
    let retained = retained_namespace_hashes(own.iter().copied());
    let entries = account.entries.as_deref().unwrap_or_default();
    let matching = |is_so: &dyn Fn(&str, &Labels) -> bool| owners.names_matching(is_so);
    let retained = filter_hashes_for_entry(retained, entry, entries, cluster.as_str(), matching);
    let count = EntryCount {
        entry,
        namespace_for: &|server| owners.namespace_for(server),
        labels: &|namespace| owners.labels.get(namespace).cloned(),
        retained_hashes: &retained,
    };
    let theirs: Vec<_> = own
        .into_iter()
        .filter(|it| count.counts_server(it))
        .collect();
    let planned = planned.iter().filter(|it| count.counts_namespace(it));
    reached.or_else(|| check(Some(&entry.name), &entry.limits, &theirs, planned.count()))
}

#[cfg(test)]
mod tests {
    use super::{
        super::account::tests::{NOW, account, server},
        *,
    };
    use serde_json::{Value, json};
    use std::time::Duration;

    #[test]
    fn servers_and_planned_orders_fill_limits() {
        let labelled = |team: &str| Arc::new(Labels::from([("team".into(), team.into())]));
        let labels = BTreeMap::from([
            ("a".to_owned(), labelled("a")),
            ("b".to_owned(), labelled("b")),
        ]);
        let reached = |limits: Value, entry: Option<Value>, planned: &[&str]| {
            let mut account = account(json!({"limits": limits}), &json!({}));
            let mut foreign = server(4, "a", "delivered", NOW);
            foreign.tags.clear();
            let servers = vec![
                server(1, "a", "delivered", NOW - 10),
                server(2, "b", "delivered", NOW - HOUR - 10),
                server(3, "a", "released", NOW - 10),
                foreign,
            ];
            account.view.servers = Some((Duration::ZERO, Arc::new(servers)));
            account.planned_orders = planned.iter().map(|it| (*it).to_owned()).collect();
            let terms = entry.map_or(Terms::Own, |entry| {
                Terms::Entry(Arc::new(serde_json::from_value(entry).unwrap()))
            });
            let cluster = ClusterId::from_namespace_uid("u");
            let web = Owner::new(&cluster, "a", "web", "ns-1");
            let owners = OrderOwners {
                namespaces: [(web.name_hash().to_owned(), "a".into())].into(),
                labels: labels.clone(),
            };
            find_reached_limit(&account, &terms, &owners, &cluster, NOW).is_some()
        };
        let servers = |most: i32| json!({"maxServers": most});
        assert!(!reached(servers(3), None, &[]) && reached(servers(2), None, &[]));
        assert!(reached(servers(3), None, &["a"]), "ordered by the plan");
        let orders = |most: i32| json!({"maxOrdersPerHour": most});
        assert!(!reached(orders(3), None, &[]) && reached(orders(2), None, &[]));
        let entry = |most: i32| {
            Some(json!({"name": "team", "namespaces": ["a"], "limits": {"maxServers": most}}))
        };
        assert!(!reached(json!({}), entry(2), &["b"]));
        assert!(reached(json!({}), entry(2), &["a"]));
        assert!(reached(json!({}), entry(1), &[]));
        let selected = |team: &str| {
            let selector = json!({"matchLabels": {"team": team}});
            Some(
                json!({"name": "team", "namespaceSelector": selector, "limits": {"maxServers": 1}}),
            )
        };
        assert!(reached(json!({}), selected("a"), &[]));
        assert!(!reached(json!({}), selected("b"), &["a"]));
        assert!(reached(json!({}), selected("b"), &["b"]));
    }
}
