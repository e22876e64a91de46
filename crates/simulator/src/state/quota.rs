//! Quota, committed contracts and stock: may one more machine be ordered?

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::answer::{Refusal, code};
use super::super::catalogue::{Catalogue, Offer};
use super::super::profile::{Exhausted, Switches, UnknownContract};
use super::super::rules::Order;
use super::taken::Taken;

/// A contract's committed pool, or (`None`) the on-demand pool.
pub(crate) type Pool = Option<String>;

/// On-demand quota of every offer at the start: more than any test orders.
const ON_DEMAND: usize = 100_000;

/// What may be ordered.
#[derive(Debug)]
pub(crate) struct Quota {
    quota: BTreeMap<(Offer, Pool), usize>,
    stock: BTreeMap<Offer, usize>,
}

/// A changed number, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct QuotaRow {
    offer: Offer,
    /// Absent for a number in stock, empty for the on-demand pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    number: Option<usize>,
}

impl Quota {
    /// All numbers, to store them.
    pub(super) fn rows(&self) -> Vec<QuotaRow> {
        let quota = self.quota.iter().map(|((offer, pool), number)| QuotaRow {
            offer: *offer,
            pool: Some(pool.clone().unwrap_or_default()),
            number: Some(*number),
        });
        let stock = self.stock.iter().map(|(offer, number)| QuotaRow {
            offer: *offer,
            pool: None,
            number: Some(*number),
        });
        quota.chain(stock).collect()
    }

    /// Restores a stored number.
    pub(super) fn restore(&mut self, rows: Vec<QuotaRow>) {
        self.quota.clear();
        self.stock.clear();
        for row in rows {
            match (row.pool, row.number) {
                (Some(pool), Some(number)) => {
                    let pool = Some(pool).filter(|pool| !pool.is_empty());
                    self.set_quota(row.offer, pool, number);
                }
                (_, number) => self.set_stock(row.offer, number),
            }
        }
    }

    pub(super) fn of(catalogue: &Catalogue) -> Self {
        let offers = || catalogue.offers.iter();
        Self {
            quota: offers()
                .map(|(offer, _)| ((*offer, None), ON_DEMAND))
                .collect(),
            stock: offers()
                .filter_map(|(offer, stock)| stock.map(|n| (*offer, n)))
                .collect(),
        }
    }

    /// Sets the quota of a pool.
    pub(crate) fn set_quota(&mut self, offer: Offer, pool: Pool, quota: usize) {
        self.quota.insert((offer, pool), quota);
    }

    /// Sets how many machines a location has for on-demand orders, including those
    /// in use; `None` means no limit.
    pub(crate) fn set_stock(&mut self, offer: Offer, machines: Option<usize>) {
        match machines {
            Some(machines) => self.stock.insert(offer, machines),
            None => self.stock.remove(&offer),
        };
    }

    /// Finds the pool that pays for the order: the contract, if it names one.
    pub(super) fn admit(
        &self,
        order: &Order,
        taken: &Taken,
        switches: &Switches,
    ) -> Result<Pool, Refusal> {
        let room = |pool: &Pool| {
            self.quota
                .get(&(order.offer, pool.clone()))
                .map(|quota| taken.from(order.offer, pool) < *quota)
        };
        let mut pool = order.contract.clone();
        if pool.is_some() {
            match room(&pool) {
                // Committed machines are reserved: on-demand orders do not use them.
                Some(true) => return Ok(pool),
                Some(false) if order.overflow => pool = None,
                Some(false) => {
                    return Err(exhausted(
                        "contractId",
                        "committed quota is used up",
                        switches,
                    ));
                }
                None => match switches.unknown_contract {
                    UnknownContract::OnDemand => pool = None,
                    UnknownContract::Refuse422 => {
                        return Err(Refusal::breach("contractId", "no such contract here"));
                    }
                },
            }
        }
        if room(&pool) != Some(true) {
            return Err(exhausted(
                "instanceType",
                "on-demand quota is used up",
                switches,
            ));
        }
        match self.free(order.offer, taken) {
            Some(0) => Err(exhausted(
                "instanceType",
                "no machine of this type is available",
                switches,
            )),
            _ => Ok(pool),
        }
    }

    /// Machines left in stock for orders on demand, `None` without a limit.
    fn free(&self, offer: Offer, taken: &Taken) -> Option<usize> {
        let stock = self.stock.get(&offer)?;
        Some(stock.saturating_sub(taken.from(offer, &None)))
    }

    /// The plan's word for how many are left (seen in clients).
    pub(crate) fn availability(&self, offer: Offer, taken: &Taken) -> &'static str {
        match self.free(offer, taken) {
            Some(0) => "unavailable",
            Some(1..=4) => "low",
            Some(5..=49) => "medium",
            _ => "high",
        }
    }

    /// The records of section 2.14, one per location.
    pub(crate) fn usage(&self, catalogue: &Catalogue, taken: &Taken) -> Vec<Value> {
        let of_location = |location: u32| -> Vec<Value> {
            let here = self
                .quota
                .iter()
                .filter(|((offer, _), _)| offer.location == location);
            here.map(|((offer, pool), quota)| {
                json!({
                    "instanceType": catalogue.instance_type_brief(offer.instance_type),
                    "quotaType": if pool.is_some() { "commit" } else { "onDemand" },
                    "contractId": pool.as_deref().unwrap_or_default(),
                    "quota": quota,
                    "usage": taken.from(*offer, pool),
                })
            })
            .collect()
        };
        let locations = catalogue.locations.iter().map(|place| place.id);
        locations
            .map(|id| {
                json!({
                    "location": catalogue.location_brief(id),
                    "quotaUsage": of_location(id),
                })
            })
            .collect()
    }
}

impl Quota {
    /// The deprecated records of section 2.16: the committed pools of each
    /// location that has any, from the same numbers.
    pub(crate) fn commits(&self, catalogue: &Catalogue, taken: &Taken) -> Vec<Value> {
        let of = |location: u32| -> Vec<Value> {
            let mut types: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
            for ((offer, pool), quota) in &self.quota {
                if offer.location != location || pool.is_none() {
                    continue;
                }
                let entry = types.entry(offer.instance_type).or_default();
                entry.0 = entry.0.saturating_add(*quota);
                entry.1 += taken.from(*offer, pool);
            }
            let kinds = types.into_iter();
            kinds
                .filter_map(|(id, (capacity, in_use))| {
                    let kind = catalogue.kind(id)?.record(location);
                    Some(json!({"instanceType": kind, "capacity": capacity, "inUse": in_use}))
                })
                .collect()
        };
        let places = catalogue.locations.iter();
        let records = places.map(|place| (place.record(), of(place.id)));
        records
            .filter(|(_, commits)| !commits.is_empty())
            .map(|(location, commits)| json!({"location": location, "commits": commits}))
            .collect()
    }
}

fn exhausted(property: &str, message: &str, switches: &Switches) -> Refusal {
    let refusal = Refusal::breach(property, message);
    match switches.exhausted {
        Exhausted::Refuse422 => refusal.coded(code::EXHAUSTED),
        Exhausted::Refuse409 => Refusal::conflict(message).coded(code::EXHAUSTED),
    }
}
