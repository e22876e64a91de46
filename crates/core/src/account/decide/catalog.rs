//! The catalog in an account's status: at most 24 KiB, less if the spec is large, and the same for the same catalogue.

use super::super::facts::AccountFacts;
use crate::{
    account::{facts::AccountReport, view::Catalogue},
    wording::plain_text,
};
use api::{
    account_sizes::SPEC_AND_CATALOG,
    bounds::stored_size,
    catalog::{
        Catalog, CatalogInstanceType, CatalogLocation, CatalogStock, CatalogSystem,
        LONGEST_HARDWARE, LONGEST_NAME, MOST_AVAILABILITIES, MOST_NAMES, MOST_QUOTAS, MOST_TYPES,
        QuotaUse,
    },
};
use hosting_types::{
    catalogue::{Location, OperatingSystem, Plan},
    quota::{LocationQuota, QuotaUsage},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// Most bytes of a catalog as JSON, as the API server stores it.
const MOST: usize = 24 * 1024;
/// Most bytes of the field names, `omitted` and `asOf`.
const FRAME: usize = 180;
/// Least time between two reads that no object waits for.
const LEAST_REFRESH: Duration = Duration::from_secs(300);

/// The catalog for the status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offer {
    /// None: unchanged.
    pub catalog: Option<Catalog>,
    /// When the catalogue that status shows was read.
    pub read_at: Option<Duration>,
}

/// The catalog from the last read. Stock changes by itself, so not every change is written at once.
pub(super) fn offer(facts: &AccountFacts, own: Option<&AccountReport>) -> Offer {
    let as_before = Offer {
        read_at: facts.offered,
        ..Offer::default()
    };
    let Some((read_at, catalogue)) = own.and_then(|report| report.catalogue.as_ref()) else {
        return as_before;
    };
    let before = facts.status.catalog.as_ref();
    let is_shown = !facts.figures_are_due || facts.offered == Some(*read_at);
    if before.is_some() && is_shown {
        return as_before;
    }
    let taken = facts.spec_size + stored_size(&facts.ca_bundle());
    let catalog = Catalog {
        as_of: before.and_then(|before| before.as_of.clone()),
        ..build_catalog(catalogue, MOST.min(SPEC_AND_CATALOG.saturating_sub(taken)))
    };
    // A newer read time alone is not worth a write.
    if before == Some(&catalog) {
        return Offer {
            read_at: Some(*read_at),
            ..as_before
        };
    }
    let age = facts.now.saturating_sub(*read_at).as_secs();
    let at = Timestamp::from_second(facts.wall.saturating_sub_unsigned(age));
    Offer {
        catalog: Some(Catalog {
            as_of: at.ok().map(Time),
            ..catalog
        }),
        read_at: Some(*read_at),
    }
}

/// When the next read of the catalogue may begin: as often as orphan scans. None: not now.
pub(super) fn catalog_refresh_at(
    facts: &AccountFacts,
    own: Option<&AccountReport>,
) -> Option<Duration> {
    let report = own.filter(|_| !facts.is_deleting())?;
    let every = facts.times().orphan_scan_interval.max(LEAST_REFRESH);
    let read_at = report
        .catalogue
        .as_ref()
        .map(|(read_at, _)| *read_at + every);
    Some(read_at.unwrap_or_default())
}

/// A list that takes a limited number of bytes.
struct Bounded<T> {
    items: Vec<T>,
    left: usize,
    omitted: usize,
}

impl<T: Serialize + Ord> Bounded<T> {
    /// The items that fit, in order. An item that does not fit, or has no name, is omitted, and the next one is tried.
    fn from_items(
        all: impl Iterator<Item = Option<T>>,
        most_items: usize,
        most_bytes: usize,
    ) -> Self {
        let all: Vec<Option<T>> = all.collect();
        let unnamed = all.iter().filter(|item| item.is_none()).count();
        let mut named: Vec<T> = all.into_iter().flatten().collect();
        named.sort_unstable();
        named.dedup();
        let mut bounded = Self {
            items: Vec::new(),
            left: most_bytes,
            omitted: unnamed,
        };
        for item in named {
            // Plus one byte for the comma.
            let left = bounded.left.checked_sub(stored_size(&item) + 1);
            match left.filter(|_| bounded.items.len() < most_items) {
                Some(left) => {
                    bounded.left = left;
                    bounded.items.push(item);
                }
                None => bounded.omitted += 1,
            }
        }
        bounded
    }
}

/// Builds a catalog of at most `most` bytes, without `asOf`.
pub fn build_catalog(catalogue: &Catalogue, most: usize) -> Catalog {
    // Instance types with their stock, which users need most, get the rest.
    let (of_locations, of_systems, of_quotas) = (most / 6, most / 4, most / 6);
    let locations = catalogue.locations.iter().map(location);
    let locations = Bounded::from_items(locations, MOST_NAMES, of_locations);
    let orderable = catalogue
        .systems
        .iter()
        .filter(|s| s.for_servers && s.active);
    let systems = Bounded::from_items(orderable.map(system), MOST_NAMES, of_systems);
    let quotas = catalogue.quotas.iter().flat_map(quotas);
    let quotas = Bounded::from_items(quotas, MOST_QUOTAS, of_quotas);
    let left = locations.left + systems.left + quotas.left;
    let taken = of_locations + of_systems + of_quotas - left;
    let types = catalogue.plans.iter().map(instance_type);
    let types = Bounded::from_items(types, MOST_TYPES, most.saturating_sub(FRAME + taken));
    let omitted = locations.omitted + systems.omitted + quotas.omitted + types.omitted;
    Catalog {
        locations: locations.items,
        instance_types: types.items,
        systems: systems.items,
        quotas: quotas.items,
        omitted: i32::try_from(omitted).unwrap_or(i32::MAX),
        as_of: None,
    }
}

fn location(location: &Location) -> Option<CatalogLocation> {
    let country = plain_text(&location.country_short_name, LONGEST_NAME);
    Some(CatalogLocation {
        name: valid_name(&location.name)?,
        country: Some(country).filter(|country| !country.is_empty()),
    })
}

/// An operating system for servers.
fn system(system: &OperatingSystem) -> Option<CatalogSystem> {
    let slug = valid_name(&system.slug)?;
    let name = plain_text(&system.name, LONGEST_NAME);
    let name = Some(name).filter(|name| !name.is_empty());
    Some(CatalogSystem {
        name: name.unwrap_or_else(|| slug.clone()),
        slug,
    })
}

/// The quotas of a location.
fn quotas(place: &LocationQuota) -> impl Iterator<Item = Option<QuotaUse>> + '_ {
    let of = |usage: &QuotaUsage| quota(place, usage);
    place.usages.iter().map(of)
}

fn quota(place: &LocationQuota, usage: &QuotaUsage) -> Option<QuotaUse> {
    let number = |n: i64| i32::try_from(n.max(0)).unwrap_or(i32::MAX);
    let contract = usage.contract_id.as_deref().map(str::trim);
    Some(QuotaUse {
        location: valid_name(&place.location)?,
        instance_type: valid_name(&usage.instance_type)?,
        contract_id: match contract {
            None | Some("") => None,
            Some(contract) => Some(valid_name(contract)?),
        },
        quota: usage.quota.map(number),
        used: usage.usage.map(number),
    })
}

/// An instance type. None: it cannot be shown whole.
fn instance_type(plan: &Plan) -> Option<CatalogInstanceType> {
    let mut stock: BTreeMap<(usize, String), Vec<String>> = BTreeMap::new();
    for place in &plan.locations {
        let availability = place.availability.as_str();
        // The known values first, from much stock to none.
        let known = ["high", "medium", "low", "unavailable"];
        let rank = known.iter().position(|known| *known == availability);
        let key = (
            rank.unwrap_or(known.len()),
            plain_text(availability, LONGEST_NAME),
        );
        stock
            .entry(key)
            .or_default()
            .extend(valid_name(&place.name));
    }
    let stock = stock.into_iter().map(|((_, availability), mut locations)| {
        locations.sort_unstable();
        locations.dedup();
        CatalogStock {
            availability,
            locations,
        }
    });
    let stock: Vec<CatalogStock> = stock.collect();
    let is_whole = stock.len() <= MOST_AVAILABILITIES
        && stock
            .iter()
            .all(|stock| stock.locations.len() <= MOST_NAMES);
    is_whole.then_some(())?;
    Some(CatalogInstanceType {
        name: valid_name(&plan.name)?,
        hardware: plain_text(&hardware(plan), LONGEST_HARDWARE),
        stock,
    })
}

/// For example `2x AMD EPYC 7443P, 48 cores, 512 GB ddr4, 4x 3840 GB nvme, 2x 10 Gbps`.
fn hardware(plan: &Plan) -> String {
    let times = |count: i64, what: String| match count {
        2.. if !what.is_empty() => format!("{count}x {what}"),
        _ => what,
    };
    let sized = |kind: &str, size: Option<i64>| match size {
        Some(size) => format!("{size} GB {kind}").trim_end().to_owned(),
        None => kind.to_owned(),
    };
    let mut parts = Vec::new();
    if let Some(cpu) = &plan.cpu {
        parts.push(times(cpu.count.unwrap_or(1), cpu.name.clone()));
        let cores = cpu.total_cores.or(cpu.cores);
        parts.extend(cores.map(|cores| format!("{cores} cores")));
    }
    let memory = plan.memory.iter();
    parts.extend(memory.map(|memory| sized(&memory.kind, memory.size)));
    for disks in plan.disks.chunk_by(|one, other| one == other) {
        let count = i64::try_from(disks.len()).unwrap_or(i64::MAX);
        parts.push(times(count, sized(&disks[0].kind, disks[0].size)));
    }
    for interfaces in &plan.network_interfaces {
        parts.push(times(
            interfaces.count.unwrap_or(1),
            interfaces.kind.clone(),
        ));
    }
    let gpu = plan.gpu.iter();
    parts.extend(gpu.map(|gpu| match gpu.size {
        Some(size) => format!("{} {size} GB", gpu.kind),
        None => gpu.kind.clone(),
    }));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// The name exactly as the provider gives it, since a spec needs it so. None: it is empty, too long, or has a character
/// that cannot be shown.
fn valid_name(text: &str) -> Option<String> {
    let text = text.trim();
    let is_name = !text.is_empty() && plain_text(text, LONGEST_NAME) == text;
    is_name.then(|| text.to_owned())
}
