//! Whether an order can be met: stock, quota, and recent refusals for want of either. A refusal blocks the same demand
//! until the next read of the catalogue. If that shows supply, the refusal had another reason.

use crate::account::view::Catalogue;
use hosting_types::{Error, Order, catalogue::Availability, quota::QuotaUsage};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Greatest age of the catalogue when an order starts.
pub const CATALOGUE_AGE: Duration = Duration::from_secs(60);
/// HTTP status of an order that is refused for want of stock or quota: the API's list has no other for it.
const UNPROCESSABLE: u16 = 422;

/// What an order asks for, as stock and quota count it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Demand {
    location: String,
    instance_type: String,
    contract_id: Option<String>,
    overflow: bool,
}

/// Why a demand cannot be met now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The location has no server of the type.
    Stock {
        /// The locations that have one.
        elsewhere: Vec<String>,
    },
    /// The quota that the order would use is used up.
    Quota {
        /// The contract; None: on demand.
        contract_id: Option<String>,
        /// How many are in use.
        usage: i64,
        /// How many are allowed.
        quota: i64,
    },
}

impl Demand {
    /// What a request asks for. Ignores case and blanks around location and type.
    pub fn from_order(order: &Order) -> Self {
        Self::new(
            &order.location,
            &order.instance_type,
            order.contract_id.as_deref(),
            order.overflow,
        )
    }

    /// The same from its parts. An empty contract counts as none.
    pub fn new(
        location: &str,
        instance_type: &str,
        contract: Option<&str>,
        overflow: bool,
    ) -> Self {
        Self {
            location: location.trim().to_lowercase(),
            instance_type: instance_type.trim().to_lowercase(),
            contract_id: contract.filter(|c| !c.is_empty()).map(str::to_owned),
            overflow,
        }
    }

    /// What the catalogue lacks. The provider's answer decides on what the catalogue does not list.
    pub fn find_shortage(&self, catalogue: &Catalogue) -> Option<Shortage> {
        if self.is_committed(catalogue) {
            return None;
        }
        self.find_stock_shortage(catalogue)
            .or_else(|| self.find_quota_shortage(catalogue))
    }

    /// Whether the contract has quota left: its servers are reserved and need no free stock (2.7-25 of the API).
    fn is_committed(&self, catalogue: &Catalogue) -> bool {
        let contract = self.contract_id.as_deref();
        contract.is_some()
            && self
                .pool(catalogue, contract)
                .is_some_and(|(quota, usage)| usage < quota)
    }

    /// Whether the contract has no listed quota at the location: such an order is refused (2.7-26 of the API).
    pub fn is_without_contract(&self, catalogue: &Catalogue) -> bool {
        let contract = self.contract_id.as_deref();
        contract.is_some()
            && !catalogue.quotas.is_empty()
            && self.pool(catalogue, contract).is_none()
    }

    fn find_stock_shortage(&self, catalogue: &Catalogue) -> Option<Shortage> {
        let plan = catalogue
            .plans
            .iter()
            .find(|plan| is_same(&plan.name, &self.instance_type))?;
        let is_gone = |a: &Availability| *a == Availability::Unavailable;
        let here = plan
            .locations
            .iter()
            .find(|location| is_same(&location.name, &self.location))?;
        is_gone(&here.availability).then(|| {
            let elsewhere = plan.locations.iter().filter(|p| !is_gone(&p.availability));
            let elsewhere = elsewhere.map(|location| location.name.clone()).collect();
            Shortage::Stock { elsewhere }
        })
    }

    /// The shortage of the quota that the order would use.
    fn find_quota_shortage(&self, catalogue: &Catalogue) -> Option<Shortage> {
        let contract = self.contract_id.as_deref();
        let (quota, usage) = self.used_up(catalogue, contract)?;
        let is_over = contract.is_some() && self.overflow;
        if is_over && self.used_up(catalogue, None).is_none() {
            return None;
        }
        let contract_id = self.contract_id.clone();
        Some(Shortage::Quota {
            contract_id,
            usage,
            quota,
        })
    }

    /// Quota and usage of a pool that is used up.
    fn used_up(&self, catalogue: &Catalogue, contract: Option<&str>) -> Option<(i64, i64)> {
        self.pool(catalogue, contract)
            .filter(|(quota, usage)| usage >= quota)
    }

    /// Quota and usage of a pool, if they are listed.
    fn pool(&self, catalogue: &Catalogue, contract: Option<&str>) -> Option<(i64, i64)> {
        let here = catalogue.quotas.iter();
        let here = here.filter(|location| is_same(&location.location, &self.location));
        here.flat_map(|location| &location.usages)
            .find(|pool| self.is_pool(pool, contract))
            .and_then(|pool| Some((pool.quota?, pool.usage?)))
    }

    fn is_pool(&self, pool: &QuotaUsage, contract: Option<&str>) -> bool {
        is_same(&pool.instance_type, &self.instance_type)
            && pool.contract_id.as_deref().filter(|c| !c.is_empty()) == contract
    }

    /// Counts an order of this in the quota that it uses, as the provider will.
    pub fn use_quota(&self, catalogue: &mut Catalogue) {
        let contract = self.contract_id.as_deref();
        let is_over = self.overflow && self.used_up(catalogue, contract).is_some();
        let contract = contract.filter(|_| !is_over);
        let here = catalogue.quotas.iter_mut();
        let here = here.filter(|location| is_same(&location.location, &self.location));
        let mut pools = here.flat_map(|location| &mut location.usages);
        let pool = pools.find(|pool| self.is_pool(pool, contract));
        if let Some(usage) = pool.and_then(|pool| pool.usage.as_mut()) {
            *usage = usage.saturating_add(1);
        }
    }
}

/// Whether two names are the same, apart from case and blanks around them.
fn is_same(one: &str, other: &str) -> bool {
    one.trim().to_lowercase() == other.trim().to_lowercase()
}

/// Whether this refusal may be for want of stock or quota.
pub fn may_lack_supply(error: &Error) -> bool {
    matches!(error, Error::Refused(refusal) if refusal.status == UNPROCESSABLE)
}

/// The last refusals of one session, by demand and by the owner hash of the object that asked.
#[derive(Default)]
pub struct Refusals(Mutex<HashMap<(Demand, String), OrderRefusal>>);

struct OrderRefusal {
    at: Duration,
    /// A newer catalogue shows supply: the refusal had another reason, and more of this object block no other orders.
    had_other_reason: bool,
}

impl Refusals {
    /// Records an order that was refused, perhaps for want of stock or quota.
    pub fn record_refusal(&self, asked: Demand, owner: &str, at: Duration) {
        let mut all = self.lock();
        // After this time every catalogue that an order uses is newer.
        all.retain(|_, refused| at < refused.at + CATALOGUE_AGE);
        let refused = all
            .entry((asked, owner.to_owned()))
            .or_insert(OrderRefusal {
                at,
                had_other_reason: false,
            });
        if !refused.had_other_reason {
            refused.at = at;
        }
    }

    /// Applies a catalogue whose read began at `started`.
    pub fn apply_catalogue(&self, catalogue: &Catalogue, started: Duration) {
        self.lock().retain(|(asked, _), refused| {
            let is_answered = refused.at <= started;
            refused.had_other_reason |= is_answered;
            !is_answered || asked.find_shortage(catalogue).is_none()
        });
    }

    /// The demands that were refused since the last read of the catalogue, and when.
    pub fn list_unexplained(&self) -> Vec<(Demand, Duration)> {
        let all = self.lock();
        let mut open: HashMap<Demand, Duration> = HashMap::new();
        for ((asked, _), refused) in all.iter().filter(|(_, refused)| !refused.had_other_reason) {
            let at = open.entry(asked.clone()).or_default();
            *at = refused.at.max(*at);
        }
        open.into_iter().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Demand, String), OrderRefusal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hosting_types::{
        catalogue::{Plan, PlanLocation},
        quota::{LocationQuota, QuotaUsage},
    };

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn plan(availability: &[(&str, Availability)]) -> Catalogue {
        let locations = availability
            .iter()
            .map(|(name, availability)| PlanLocation {
                name: (*name).into(),
                data_centre: String::new(),
                availability: availability.clone(),
            });
        let plan = Plan {
            name: "Small ".into(),
            cpu: None,
            memory: None,
            disks: Vec::new(),
            network_interfaces: Vec::new(),
            gpu: None,
            locations: locations.collect(),
        };
        Catalogue {
            plans: vec![plan],
            ..Catalogue::default()
        }
    }

    /// Pools of the location: contract, quota, usage.
    fn quota(pools: &[(&str, i64, i64)]) -> Catalogue {
        let usages = pools.iter().map(|(contract, quota, usage)| QuotaUsage {
            instance_type_id: None,
            instance_type: "SMALL".into(),
            quota_type: String::new(),
            contract_id: Some((*contract).into()),
            quota: Some(*quota),
            usage: Some(*usage),
        });
        let location = LocationQuota {
            location_id: None,
            location: "Here".into(),
            usages: usages.collect(),
        };
        Catalogue {
            quotas: vec![location],
            ..Catalogue::default()
        }
    }

    fn here(contract: Option<&str>, overflow: bool) -> Demand {
        Demand::new(" here", "small", contract, overflow)
    }

    #[test]
    fn only_listed_supply_can_be_short() {
        let of = |catalogue: Catalogue| here(None, false).find_shortage(&catalogue);
        assert_eq!(of(Catalogue::default()), None);
        assert_eq!(of(plan(&[("Here", Availability::Low)])), None);
        let gone = [
            ("Here", Availability::Unavailable),
            ("There", Availability::High),
            ("Nowhere", Availability::Unavailable),
        ];
        let elsewhere = vec!["There".to_owned()];
        assert_eq!(of(plan(&gone)), Some(Shortage::Stock { elsewhere }));
        assert_eq!(of(quota(&[("", 2, 1)])), None);
        let used_up = Shortage::Quota {
            contract_id: None,
            usage: 2,
            quota: 2,
        };
        assert_eq!(of(quota(&[("", 2, 2)])), Some(used_up));
    }

    #[test]
    fn quota_follows_contract_and_overflow() {
        let lacks = |contract, overflow, pools: &[(&str, i64, i64)]| {
            here(contract, overflow)
                .find_shortage(&quota(pools))
                .is_some()
        };
        let committed = Some("C-1");
        assert!(lacks(committed, false, &[("C-1", 1, 1), ("", 9, 0)]));
        assert!(!lacks(committed, true, &[("C-1", 1, 1), ("", 9, 0)]));
        assert!(lacks(committed, true, &[("C-1", 1, 1), ("", 9, 9)]));
        assert!(!lacks(None, true, &[("C-1", 1, 1), ("", 9, 0)]));
        assert!(!lacks(Some("C-2"), false, &[("C-1", 1, 1), ("", 9, 9)]));
        let without = |contract| {
            let pools = quota(&[("C-1", 1, 1), ("", 9, 9)]);
            here(contract, false).is_without_contract(&pools)
        };
        assert!(without(Some("C-2")) && !without(committed) && !without(None));
    }

    #[test]
    fn contract_quota_needs_no_free_stock() {
        let lacks = |contract, usage: i64| {
            let mut catalogue = plan(&[("Here", Availability::Unavailable)]);
            catalogue.quotas = quota(&[("C-1", 2, usage)]).quotas;
            here(contract, true).find_shortage(&catalogue).is_some()
        };
        assert!(!lacks(Some("C-1"), 1));
        assert!(lacks(Some("C-1"), 2) && lacks(None, 1));
    }

    #[test]
    fn refusal_is_open_until_later_catalogue() {
        let refusals = Refusals::default();
        let asked = here(None, false);
        refusals.record_refusal(asked.clone(), "web", secs(100));
        refusals.record_refusal(asked.clone(), "web", secs(101));
        assert_eq!(refusals.list_unexplained(), [(asked.clone(), secs(101))]);
        let there = plan(&[("Here", Availability::Low)]);
        refusals.apply_catalogue(&there, secs(100));
        assert_eq!(
            refusals.list_unexplained().len(),
            1,
            "it had started before"
        );
        refusals.apply_catalogue(&there, secs(101));
        assert_eq!(refusals.list_unexplained(), []);
    }

    #[test]
    fn unexplained_refusal_is_ignored_a_minute() {
        let refusals = Refusals::default();
        let asked = here(None, false);
        let there = plan(&[("Here", Availability::Low)]);
        refusals.record_refusal(asked.clone(), "web", secs(100));
        refusals.apply_catalogue(&there, secs(101));
        for at in 102..160 {
            refusals.record_refusal(asked.clone(), "web", secs(at));
        }
        assert_eq!(refusals.list_unexplained(), []);
        refusals.record_refusal(here(Some("C-1"), false), "web", secs(103));
        assert_eq!(
            refusals.list_unexplained().len(),
            1,
            "another request is another matter"
        );
        refusals.record_refusal(asked.clone(), "db", secs(104));
        assert!(
            refusals
                .list_unexplained()
                .contains(&(asked.clone(), secs(104))),
            "another object may be refused for want of it"
        );
        refusals.record_refusal(asked.clone(), "web", secs(160));
        assert!(refusals.list_unexplained().contains(&(asked, secs(160))));
    }

    #[test]
    fn explained_refusal_reopens_on_repeat() {
        let refusals = Refusals::default();
        let asked = here(None, false);
        refusals.record_refusal(asked.clone(), "web", secs(100));
        refusals.apply_catalogue(&plan(&[("Here", Availability::Unavailable)]), secs(101));
        assert_eq!(refusals.list_unexplained(), []);
        refusals.record_refusal(asked.clone(), "web", secs(110));
        assert_eq!(refusals.list_unexplained(), [(asked, secs(110))]);
    }
}
