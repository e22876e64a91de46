//! What the servers of an account have used, by namespace and contract (section 4.7 of
//! `docs/contributing/hosting-api.md`).

use super::ownership_tags;
use crate::owner;
use api::usage::{MonthUsage, UsageStatus};
use hosting_types::{Server, ServerStatus, usage::Usage};
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Most shares of a month. The rest counts as without namespace and contract.
const MOST_SHARES: usize = 200;

/// Billed hours, and bytes that left the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageTotal {
    /// Hours.
    pub hours: i64,
    /// Bytes.
    pub egress_bytes: i64,
}

/// The usage of one month by namespace and contract. The namespace is empty for servers without an object, the contract
/// for on-demand servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageOfMonth {
    /// The month, for example `2026-11`.
    pub month: String,
    /// The shares.
    pub shares: BTreeMap<(String, String), UsageTotal>,
}

/// The usage of the current and the previous month, as last read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountUsage {
    /// When it was read, in Unix seconds. None before the first answer.
    pub read_at: Option<i64>,
    /// Why the last read failed.
    pub error: Option<String>,
    /// The months.
    pub months: Option<[UsageOfMonth; 2]>,
}

/// Who has which server.
pub struct UsageOwners {
    /// The tag of the cluster's servers.
    pub cluster_tag: String,
    /// The namespaces by their hash in an owner.
    pub namespaces: HashMap<String, String>,
    /// The name hashes of all objects; None: not known.
    pub claims: Option<HashSet<String>>,
}

/// First and last day of the current and of the previous month, in UTC. `wall`: Unix seconds.
pub fn months(wall: i64) -> Option<[(Date, Date); 2]> {
    let now = Timestamp::from_second(wall).ok()?;
    let today = now.to_zoned(TimeZone::UTC).date();
    let first = today.first_of_month();
    let last_before = first.yesterday().ok()?;
    Some([(first, today), (last_before.first_of_month(), last_before)])
}

impl UsageOwners {
    /// The namespace of a server. A live server whose object is gone has none. A released one keeps it, as it was
    /// billed for it.
    fn namespace_of(&self, server: &Server) -> Option<&str> {
        let is_claimed = |hash: &str| self.claims.as_ref().is_none_or(|all| all.contains(hash));
        if !server.has_tag(&self.cluster_tag) {
            return None;
        }
        let is_released = server.status == ServerStatus::Released;
        let mut owners = ownership_tags::owners(server);
        let owner = owners.find(|owner| is_released || is_claimed(&owner[..owner::NAME_HASH]))?;
        let found = self.namespaces.get(owner::namespace_of(owner))?;
        Some(found)
    }
}

impl UsageOfMonth {
    /// Adds up the usage of all servers of a month.
    pub fn new(first: Date, usages: &[Usage], owners: &UsageOwners) -> Self {
        let mut shares: BTreeMap<(String, String), UsageTotal> = BTreeMap::new();
        for usage in usages {
            let namespace = owners.namespace_of(&usage.server).unwrap_or_default();
            let contract = usage.server.contract_id.as_deref().unwrap_or_default();
            let key = (namespace.to_owned(), contract.to_owned());
            let fits = shares.len() < MOST_SHARES || shares.contains_key(&key);
            let total = shares.entry(if fits { key } else { Default::default() });
            let total = total.or_default();
            let amount = |number: Option<i64>| number.unwrap_or_default().max(0);
            total.hours = total.hours.saturating_add(amount(usage.total_hours));
            let egress = amount(usage.total_egress_bytes);
            total.egress_bytes = total.egress_bytes.saturating_add(egress);
        }
        Self {
            month: first.strftime("%Y-%m").to_string(),
            shares,
        }
    }

    fn to_status(&self) -> MonthUsage {
        let sum = |of: fn(&UsageTotal) -> i64| {
            let all = self.shares.values().map(of);
            all.fold(0, i64::saturating_add)
        };
        MonthUsage {
            month: self.month.clone(),
            hours: sum(|total| total.hours),
            egress_bytes: sum(|total| total.egress_bytes),
        }
    }
}

impl AccountUsage {
    /// What the status of the account shows.
    pub fn to_status(&self) -> UsageStatus {
        let read_at = self.read_at.and_then(|at| Timestamp::from_second(at).ok());
        let month = |index: usize| self.months.as_ref().map(|months| months[index].to_status());
        UsageStatus {
            as_of: read_at.map(Time),
            message: self.error.clone(),
            current_month: month(0),
            previous_month: month(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cluster_id::ClusterId, owner::Owner};
    use hosting_types::ServerId;

    const CLUSTER_TAG: &str = "fmo-cluster:0123456789abcdef";

    fn usage(number: u8, status: &str, tags: &[&str], hours: i64) -> Usage {
        Usage {
            server: Server {
                id: ServerId::parse(&format!("00000000-0000-4000-8000-0000000000{number:02x}"))
                    .unwrap(),
                name: "n".into(),
                status: ServerStatus::parse(status),
                status_message: String::new(),
                location_id: None,
                location: String::new(),
                instance_type_id: None,
                instance_type: String::new(),
                os_slug: String::new(),
                addresses: Vec::new(),
                tags: tags.iter().map(|&tag| tag.into()).collect(),
                created_at: None,
                delivered_at: None,
                released_at: None,
                contract_id: (number > 3).then(|| "C1".to_owned()),
            },
            started_at: None,
            ended_at: None,
            total_hours: Some(hours),
            total_minutes: None,
            bandwidth_in: None,
            bandwidth_out: None,
            total_egress_bytes: Some(hours * 1000),
        }
    }

    #[test]
    fn usage_without_an_object_has_no_namespace() {
        let cluster = ClusterId::from_namespace_uid("u");
        let owner = Owner::new(&cluster, "shop", "web", "1");
        let gone = Owner::new(&cluster, "shop", "gone", "1");
        let (own, orphaned) = (owner.order_tag(1), gone.order_tag(1));
        let hash = owner::namespace_hash(cluster.as_str(), "shop");
        let owners = UsageOwners {
            cluster_tag: CLUSTER_TAG.into(),
            namespaces: [(hash, "shop".to_owned())].into(),
            claims: Some([owner.name_hash().to_owned()].into()),
        };
        let usages = [
            usage(1, "delivered", &[CLUSTER_TAG, &own], 1),
            usage(2, "delivered", &[CLUSTER_TAG, &orphaned], 10),
            usage(3, "released", &[CLUSTER_TAG, &orphaned], 100),
            usage(4, "delivered", &["another"], 1000),
            usage(5, "delivered", &[&own], -1),
        ];
        let [(first, _), _] = months(1_795_000_000).unwrap();
        let month = UsageOfMonth::new(first, &usages, &owners);
        let hours: Vec<_> = month
            .shares
            .iter()
            .map(|((namespace, contract), total)| (&**namespace, &**contract, total.hours))
            .collect();
        assert_eq!(hours, [("", "", 10), ("", "C1", 1000), ("shop", "", 101)]);
        let status = month.to_status();
        assert_eq!((status.hours, status.egress_bytes), (1111, 1_111_000));
    }

    #[test]
    fn months_are_whole_days_in_utc() {
        // 2026-03-01T00:00:01Z.
        let [current, previous] = months(1_772_323_201).unwrap();
        assert_eq!(current.0.to_string(), "2026-03-01");
        assert_eq!(current.1.to_string(), "2026-03-01");
        assert_eq!(previous.0.to_string(), "2026-02-01");
        assert_eq!(previous.1.to_string(), "2026-02-28");
    }
}
