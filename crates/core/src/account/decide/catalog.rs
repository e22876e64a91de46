//! What can be ordered through an account, for its status: within 24 KiB, and the same for the same catalogue.

use super::{super::facts::Facts, uses};
use crate::account::{facts::AccountReport, view::Catalogue};
use api::{
    account_use::Capacity,
    catalog::{Catalog, CatalogInstanceType, CatalogLocation, CatalogStock, CatalogSystem},
};
use hosting_types::catalogue::{Location, OperatingSystem, Plan};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// Most bytes of a catalog as JSON.
const MOST: usize = 24 * 1024;
/// What of that locations and systems may take: stock, which people look for, has the rest.
const OF_LOCATIONS: usize = 4 * 1024;
const OF_SYSTEMS: usize = 6 * 1024;
/// What the names of the fields, `omitted` and `asOf` take at most.
const FRAME: usize = 160;
/// Least time between two looks that nobody waits for.
const LEAST_REFRESH: Duration = Duration::from_secs(300);
/// Most characters of a name, and of the hardware of a type.
const LONGEST_NAME: usize = 64;
const LONGEST_HARDWARE: usize = 160;

/// What status says of what can be ordered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offer {
    /// Quota; None: as before.
    pub capacity: Option<Capacity>,
    /// Locations, types, systems, stock; None: as before.
    pub catalog: Option<Catalog>,
    /// The moment of the look that status shows then.
    pub looked: Option<Duration>,
}

/// What follows from the last look. Such figures change by themselves, and are not told at every turn.
pub(super) fn offer(facts: &Facts, own: Option<&AccountReport>) -> Offer {
    let as_before = Offer {
        looked: facts.offered,
        ..Offer::default()
    };
    let Some((looked, catalogue)) = own.and_then(|report| report.catalogue.as_ref()) else {
        return as_before;
    };
    let before = facts.status.catalog.as_ref();
    let is_told = !facts.figures_are_due || facts.offered == Some(*looked);
    if before.is_some() && is_told {
        return as_before;
    }
    let capacity = uses::capacity(catalogue);
    let catalog = Catalog {
        as_of: before.and_then(|before| before.as_of.clone()),
        ..of(catalogue)
    };
    let is_same = before == Some(&catalog) && facts.status.capacity.as_ref() == Some(&capacity);
    // The moment of a look alone is not worth a write.
    if is_same {
        return Offer {
            looked: Some(*looked),
            ..as_before
        };
    }
    let age = facts.now.saturating_sub(*looked).as_secs();
    let at = Timestamp::from_second(facts.wall.saturating_sub_unsigned(age));
    Offer {
        capacity: Some(capacity),
        catalog: Some(Catalog {
            as_of: at.ok().map(Time),
            ..catalog
        }),
        looked: Some(*looked),
    }
}

/// When the account wants another look: once in the time between two orphan scans. None: not now.
pub(super) fn refresh(facts: &Facts, own: Option<&AccountReport>) -> Option<Duration> {
    let report = own.filter(|_| !facts.deleting())?;
    let every = facts.times().orphan_scan_interval.max(LEAST_REFRESH);
    let looked = report.catalogue.as_ref().map(|(looked, _)| *looked + every);
    Some(looked.unwrap_or_default())
}

/// A list that takes so many bytes at most.
struct Bounded<T> {
    items: Vec<T>,
    left: usize,
    omitted: usize,
}

impl<T: Serialize + Ord> Bounded<T> {
    /// Those that fit, in order; one that does not leaves its place to the next.
    fn of(mut all: Vec<T>, most: usize) -> Self {
        all.sort_unstable();
        all.dedup();
        let mut bounded = Self {
            items: Vec::new(),
            left: most,
            omitted: 0,
        };
        for item in all {
            // With the comma behind it.
            let size = serde_json::to_vec(&item).map_or(usize::MAX, |json| json.len() + 1);
            match bounded.left.checked_sub(size) {
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

/// The catalog of a catalogue, without its moment.
fn of(catalogue: &Catalogue) -> Catalog {
    let locations = catalogue.locations.iter().filter_map(location).collect();
    let locations = Bounded::of(locations, OF_LOCATIONS);
    let systems = catalogue.systems.iter().filter_map(system).collect();
    let systems = Bounded::of(systems, OF_SYSTEMS);
    let taken = OF_LOCATIONS - locations.left + OF_SYSTEMS - systems.left;
    let types = catalogue.plans.iter().filter_map(instance_type).collect();
    let types = Bounded::of(types, MOST - FRAME - taken);
    let omitted = locations.omitted + systems.omitted + types.omitted;
    Catalog {
        locations: locations.items,
        instance_types: types.items,
        systems: systems.items,
        omitted: i32::try_from(omitted).unwrap_or(i32::MAX),
        as_of: None,
    }
}

fn location(location: &Location) -> Option<CatalogLocation> {
    Some(CatalogLocation {
        name: named(&location.name)?,
        country: named(&location.country_short_name),
    })
}

/// A system that servers can be ordered with.
fn system(system: &OperatingSystem) -> Option<CatalogSystem> {
    let slug = named(&system.slug).filter(|_| system.for_servers && system.active)?;
    let name = named(&system.name).unwrap_or_else(|| slug.clone());
    Some(CatalogSystem { slug, name })
}

fn instance_type(plan: &Plan) -> Option<CatalogInstanceType> {
    let mut stock: BTreeMap<(usize, String), Vec<String>> = BTreeMap::new();
    for place in &plan.locations {
        let word = place.availability.as_str();
        // The known words from much to nothing, and then the others.
        let known = ["high", "medium", "low", "unavailable"];
        let rank = known.iter().position(|known| *known == word);
        let key = (rank.unwrap_or(known.len()), named(word).unwrap_or_default());
        stock.entry(key).or_default().extend(named(&place.name));
    }
    let stock = stock.into_iter().map(|((_, availability), mut locations)| {
        locations.sort_unstable();
        locations.dedup();
        CatalogStock {
            availability,
            locations,
        }
    });
    Some(CatalogInstanceType {
        name: named(&plan.name)?,
        hardware: cut(&hardware(plan), LONGEST_HARDWARE),
        stock: stock.collect(),
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

/// A name as the provider gives it, short enough for status; None: it is empty.
fn named(text: &str) -> Option<String> {
    let name = cut(text, LONGEST_NAME);
    (!name.is_empty()).then_some(name)
}

/// A text of the provider without control characters, cut.
pub(super) fn cut(text: &str, most: usize) -> String {
    let plain = text.trim().chars().filter(|c| !c.is_control());
    plain.take(most).collect()
}
