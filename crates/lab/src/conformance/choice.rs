//! What to order: the smallest instance type that is available, with a Linux system.

use std::fmt;

use hosting::Client;
use hosting_types::catalogue::{Availability, OperatingSystem, Plan, PlanLocation};

use super::DrillError;

/// What the drill orders.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) location: String,
    pub(super) instance_type: String,
    pub(super) slug: String,
    /// A system that joins a cluster hub. Only named in orders that are refused.
    pub(super) hub_slug: Option<String>,
}

impl Choice {
    /// Chooses from the catalogue: the named server, or else the smallest. The API shows no prices, so the
    /// smallest hardware counts as the cheapest.
    pub(super) async fn read_catalogue(
        client: &Client,
        confirmed: Option<&str>,
    ) -> Result<Self, DrillError> {
        let failed = |error: hosting_types::Error| DrillError::Call(error.explain());
        let plans = client.plans().await.map_err(failed)?;
        let systems = client.operating_systems().await.map_err(failed)?;
        Self::choose(&plans, &systems, confirmed).ok_or_else(|| match confirmed {
            Some(confirmed) => DrillError::NotAvailable(confirmed.to_owned()),
            None => DrillError::NothingAvailable,
        })
    }

    fn choose(
        plans: &[Plan],
        systems: &[OperatingSystem],
        confirmed: Option<&str>,
    ) -> Option<Self> {
        let scarcity = |availability: &Availability| match availability {
            Availability::High => Some(0),
            Availability::Medium => Some(1),
            Availability::Low => Some(2),
            Availability::Unavailable | Availability::Other(_) => None,
        };
        let is_confirmed = |plan: &Plan, place: &PlanLocation| {
            confirmed.is_none_or(|it| it == confirmation(&plan.name, &place.name))
        };
        let offers = plans.iter().flat_map(|plan| {
            let places = plan.locations.iter().filter(|it| is_confirmed(plan, it));
            places.filter_map(move |place| Some((plan, place, scarcity(&place.availability)?)))
        });
        let (plan, place, _) = offers.min_by_key(|(plan, _, scarcity)| (size(plan), *scarcity))?;
        let mut usable = systems.iter().filter(|it| it.for_servers && it.active);
        let begins = |slug: &str, words: &[&str]| words.iter().any(|word| slug.starts_with(word));
        let slug = usable
            .clone()
            .find(|it| begins(&it.slug, &["debian", "ubuntu"]))?;
        let hub = usable.find(|it| begins(&it.slug, &["talos"]));
        Some(Self {
            location: place.name.clone(),
            instance_type: plan.name.clone(),
            slug: slug.slug.clone(),
            hub_slug: hub.map(|it| it.slug.clone()),
        })
    }

    /// How the user confirms what is ordered.
    pub(super) fn confirmation(&self) -> String {
        confirmation(&self.instance_type, &self.location)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one {} with {}", self.confirmation(), self.slug)
    }
}

fn confirmation(instance_type: &str, location: &str) -> String {
    format!("{instance_type} at {location}")
}

/// Graphics card, cores, memory, disks. What is not known counts as large.
fn size(plan: &Plan) -> (bool, i64, i64, i64) {
    let cores = plan.cpu.as_ref().and_then(|cpu| cpu.total_cores);
    let memory = plan.memory.as_ref().and_then(|memory| memory.size);
    let disks = plan
        .disks
        .iter()
        .map(|disk| disk.size.unwrap_or(i64::MAX / 64));
    (
        plan.gpu.is_some(),
        cores.unwrap_or(i64::MAX),
        memory.unwrap_or(i64::MAX),
        disks.fold(0, i64::saturating_add),
    )
}
