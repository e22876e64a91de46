//! Whether what an order asks for can be had: stock, quota, and the orders that may have been refused for want of one.
//!
//! A refusal makes everybody who asks for the same wait for the next look at the catalogue, since their orders would be
//! refused as well. Where that look says that it can be had, the refusal had another cause, and further ones make nobody
//! wait for a while: an order that is refused for what it is must not hold up the others.

use super::view::Catalogue;
use hosting::{Error, Order, catalogue::Availability};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The catalogue may be this old when an order starts.
pub const CATALOGUE_AGE: Duration = Duration::from_secs(60);
/// The status of an order that is refused for want of stock or quota: the only one that the API's list leaves for it.
const UNPROCESSABLE: u16 = 422;

/// What an order asks for, as stock and quota count it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Offer {
    location: String,
    instance_type: String,
    contract_id: Option<String>,
    overflow: bool,
}

/// Why an offer cannot be had now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// There is no machine of the type at the place.
    Stock {
        /// The places that have one.
        elsewhere: Vec<String>,
    },
    /// The pool that pays is used up.
    Quota {
        /// The contract; None: on demand.
        contract_id: Option<String>,
        /// How many are in use.
        usage: i64,
        /// Of how many.
        quota: i64,
    },
}

impl Offer {
    /// What a request asks for. Place and type in any case, with or without blanks around them.
    pub fn of(order: &Order) -> Self {
        Self::new(
            &order.location,
            &order.instance_type,
            order.contract_id.as_deref(),
            order.overflow,
        )
    }

    /// The same of its parts. An empty contract is none.
    pub fn new(location: &str, instance_type: &str, contract: Option<&str>, overflow: bool) -> Self {
        Self {
            location: location.trim().to_lowercase(),
            instance_type: instance_type.trim().to_lowercase(),
            contract_id: contract.filter(|c| !c.is_empty()).map(str::to_owned),
            overflow,
        }
    }

    /// What the catalogue lacks of it. What the catalogue does not list is left to the provider's answer.
    pub fn lack(&self, catalogue: &Catalogue) -> Option<Lack> {
        self.lack_of_stock(catalogue)
            .or_else(|| self.lack_of_quota(catalogue))
    }

    fn lack_of_stock(&self, catalogue: &Catalogue) -> Option<Lack> {
        let plan = catalogue
            .plans
            .iter()
            .find(|plan| is_same(&plan.name, &self.instance_type))?;
        let is_gone = |a: &Availability| *a == Availability::Unavailable;
        let here = plan
            .locations
            .iter()
            .find(|place| is_same(&place.name, &self.location))?;
        is_gone(&here.availability).then(|| {
            let elsewhere = plan.locations.iter().filter(|p| !is_gone(&p.availability));
            let elsewhere = elsewhere.map(|place| place.name.clone()).collect();
            Lack::Stock { elsewhere }
        })
    }

    /// Of the pool that would pay.
    fn lack_of_quota(&self, catalogue: &Catalogue) -> Option<Lack> {
        let contract = self.contract_id.as_deref();
        let (quota, usage) = self.used_up(catalogue, contract)?;
        let is_over = contract.is_some() && self.overflow;
        if is_over && self.used_up(catalogue, None).is_none() {
            return None;
        }
        let contract_id = self.contract_id.clone();
        Some(Lack::Quota {
            contract_id,
            usage,
            quota,
        })
    }

    /// Quota and usage of a pool of which nothing is left.
    fn used_up(&self, catalogue: &Catalogue, contract: Option<&str>) -> Option<(i64, i64)> {
        let here = catalogue.quotas.iter();
        let here = here.filter(|place| is_same(&place.location, &self.location));
        here.flat_map(|place| &place.usages)
            .filter(|pool| is_same(&pool.instance_type, &self.instance_type))
            .find(|pool| pool.contract_id.as_deref().filter(|c| !c.is_empty()) == contract)
            .and_then(|pool| Some((pool.quota?, pool.usage?)))
            .filter(|(quota, usage)| usage >= quota)
    }
}

/// Whether two names are the same: case and blanks around them do not matter.
fn is_same(one: &str, other: &str) -> bool {
    one.trim().to_lowercase() == other.trim().to_lowercase()
}

/// Whether stock or quota may be the cause of this refusal.
pub(super) fn may_be_for_want(error: &Error) -> bool {
    matches!(error, Error::Refused(refusal) if refusal.status == UNPROCESSABLE)
}

/// The last refusals of one live account, by what was asked for.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<HashMap<Offer, Refused>>);

struct Refused {
    at: Duration,
    /// A look since then says that it can be had.
    had_other_cause: bool,
}

impl Refusals {
    /// An order was refused, perhaps for want of stock or quota.
    pub(crate) fn note(&self, offer: Offer, at: Duration) {
        let mut all = self.lock();
        // Later than that any catalogue that an order rests on is newer.
        all.retain(|_, refused| at < refused.at + CATALOGUE_AGE);
        let refused = all.entry(offer).or_insert(Refused {
            at,
            had_other_cause: false,
        });
        if !refused.had_other_cause {
            refused.at = at;
        }
    }

    /// A look at the catalogue that started then showed this.
    pub(crate) fn looked(&self, catalogue: &Catalogue, started: Duration) {
        self.lock().retain(|offer, refused| {
            let is_answered = refused.at <= started;
            refused.had_other_cause |= is_answered;
            !is_answered || offer.lack(catalogue).is_none()
        });
    }

    /// What was refused and not looked at since, and when.
    pub(crate) fn open(&self) -> Vec<(Offer, Duration)> {
        let all = self.lock();
        let open = all.iter().filter(|(_, refused)| !refused.had_other_cause);
        open.map(|(offer, refused)| (offer.clone(), refused.at))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Offer, Refused>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
