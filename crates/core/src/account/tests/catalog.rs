//! What status shows of what can be ordered.

use super::*;
use crate::account::view::Catalogue;
use api::catalog::{Catalog, CatalogStock, MOST_AVAILABILITIES, MOST_NAMES};
use hosting_types::{
    catalogue::{
        Availability, Cpu, HardwarePart, Interfaces, Location, OperatingSystem, Plan, PlanLocation,
    },
    quota::{LocationQuota, QuotaUsage},
};
use proptest::{collection::vec, prelude::*};

/// Most bytes of a catalog as JSON.
const MOST: usize = 24 * 1024;

pub(super) fn set_catalogue(facts: &mut AccountFacts, at: u64, catalogue: Catalogue) {
    let report = facts.report.as_mut().unwrap();
    report.catalogue = Some((Duration::from_secs(at), Arc::new(catalogue)));
}

pub(super) fn next(facts: &AccountFacts) -> AccountStatus {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    report::next_status(facts, &decide(facts), now)
}

fn shown(catalogue: Catalogue) -> Catalog {
    let mut facts = facts();
    set_catalogue(&mut facts, 900, catalogue);
    next(&facts).catalog.unwrap()
}

/// As the API server stores it: Go's encoder writes these as six bytes.
fn size(catalog: &Catalog) -> usize {
    let mut json = serde_json::to_string(catalog).unwrap();
    for c in ["<", ">", "&", "\u{2028}", "\u{2029}"] {
        json = json.replace(c, "\\u0000");
    }
    json.len()
}

fn location(name: &str) -> Location {
    Location {
        id: None,
        name: name.into(),
        short_name: String::new(),
        display_name: String::new(),
        country_id: None,
        country_name: String::new(),
        country_short_name: "NL".into(),
    }
}

fn system(slug: &str) -> OperatingSystem {
    OperatingSystem {
        id: None,
        name: slug.to_uppercase(),
        slug: slug.into(),
        group: None,
        is_odp: false,
        for_servers: true,
        active: true,
    }
}

fn plan(name: &str, stock: &[(&str, &str)]) -> Plan {
    let part = |kind: &str, size| HardwarePart {
        kind: kind.into(),
        size: Some(size),
    };
    Plan {
        name: name.into(),
        cpu: Some(Cpu {
            name: "AMD EPYC 7443P".into(),
            base_clock: Some(2850),
            count: Some(2),
            cores: Some(24),
            total_cores: Some(48),
        }),
        memory: Some(part("ddr4", 512)),
        disks: vec![part("ssd", 480), part("nvme", 3840), part("nvme", 3840)],
        network_interfaces: vec![Interfaces {
            kind: "10 Gbps".into(),
            count: Some(2),
        }],
        gpu: None,
        locations: stock
            .iter()
            .map(|(name, word)| PlanLocation {
                name: (*name).into(),
                data_centre: String::new(),
                availability: Availability::parse(word),
            })
            .collect(),
    }
}

/// A catalogue of so many locations, systems and types, each type at each location, with names of this length.
pub(super) fn large(locations: usize, systems: usize, types: usize, long: usize) -> Catalogue {
    let named = |what: &str, number: usize| format!("{what}{number:04}{}", "n".repeat(long));
    let places: Vec<String> = (0..locations).map(|n| named("place ", n)).collect();
    let words = ["high", "medium", "low", "unavailable", "soon"];
    let stock: Vec<(&str, &str)> = places
        .iter()
        .enumerate()
        .map(|(n, place)| (place.as_str(), words[n % words.len()]))
        .collect();
    Catalogue {
        locations: places.iter().map(|place| location(place)).collect(),
        systems: (0..systems).map(|n| system(&named("os-", n))).collect(),
        plans: (0..types).map(|n| plan(&named("bm", n), &stock)).collect(),
        quotas: Vec::new(),
    }
}

#[test]
fn who_orders_reads_names_hardware_and_stock() {
    let stock = [
        ("US: Miami", "unavailable"),
        ("EU: Rotterdam", "high"),
        ("AU: Sydney", "high"),
        ("JP: Tokyo", "soon"),
    ];
    let mut only_hosts = system("host-only");
    only_hosts.for_servers = false;
    let mut old = system("old");
    old.active = false;
    let catalog = shown(Catalogue {
        locations: vec![location("US: Miami"), location("EU: Rotterdam")],
        systems: vec![system("ubuntu"), only_hosts, old, system("debian")],
        plans: vec![plan("bm9", &[]), plan("bm7", &stock)],
        quotas: Vec::new(),
    });
    let names: Vec<&str> = catalog.locations.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["EU: Rotterdam", "US: Miami"]);
    assert_eq!(catalog.locations[0].country.as_deref(), Some("NL"));
    let slugs: Vec<&str> = catalog.systems.iter().map(|s| s.slug.as_str()).collect();
    assert_eq!(slugs, ["debian", "ubuntu"]);
    assert_eq!(catalog.systems[0].name, "DEBIAN");
    let [seven, nine] = &catalog.instance_types[..] else {
        panic!("{catalog:?}")
    };
    assert_eq!((seven.name.as_str(), nine.name.as_str()), ("bm7", "bm9"));
    assert_eq!(
        seven.hardware,
        "2x AMD EPYC 7443P, 48 cores, 512 GB ddr4, 480 GB ssd, 2x 3840 GB nvme, 2x 10 Gbps"
    );
    let stock = |availability: &str, locations: &[&str]| CatalogStock {
        availability: availability.into(),
        locations: locations.iter().map(|&name| name.into()).collect(),
    };
    let by_availability = [
        stock("high", &["AU: Sydney", "EU: Rotterdam"]),
        stock("unavailable", &["US: Miami"]),
        stock("soon", &["JP: Tokyo"]),
    ];
    assert_eq!(seven.stock, by_availability);
    assert!(nine.stock.is_empty());
    assert_eq!(catalog.omitted, 0);
}

#[test]
fn instance_types_with_too_much_stock_are_counted() {
    let places: Vec<String> = (0..=MOST_NAMES).map(|n| format!("p{n}")).collect();
    let of = |word: &dyn Fn(usize) -> String| {
        let words: Vec<String> = (0..places.len()).map(word).collect();
        let stock = places.iter().zip(&words);
        let stock: Vec<(&str, &str)> = stock.map(|(p, w)| (p.as_str(), w.as_str())).collect();
        let plans = vec![
            plan("whole", &stock[..MOST_AVAILABILITIES]),
            plan("more", &stock),
        ];
        let catalog = shown(Catalogue {
            plans,
            ..Catalogue::default()
        });
        let names = catalog.instance_types.iter().map(|t| t.name.clone());
        (names.collect::<Vec<_>>(), catalog.omitted)
    };
    let one = (vec!["whole".to_owned()], 1);
    assert_eq!(of(&|_| "high".to_owned()), one);
    assert_eq!(
        of(&|n| format!("soon {}", n % (MOST_AVAILABILITIES + 1))),
        one
    );
}

#[test]
fn only_an_oversized_catalogue_is_cut() {
    let usual = shown(large(20, 40, 25, 6));
    assert_eq!(usual.omitted, 0, "{} bytes", size(&usual));
    for (locations, systems, types, long) in [
        (60, 120, 80, 8),
        (500, 2000, 1000, 0),
        (500, 500, 500, 500),
        (1, 1, 5000, 60),
        (5000, 0, 3, 60),
    ] {
        let catalog = shown(large(locations, systems, types, long));
        assert!(size(&catalog) <= MOST, "{} bytes", size(&catalog));
        let shown_items =
            catalog.locations.len() + catalog.systems.len() + catalog.instance_types.len();
        assert!(catalog.omitted > 0);
        let omitted = usize::try_from(catalog.omitted).unwrap();
        assert_eq!(shown_items + omitted, locations + systems + types);
    }
    // Neither locations nor systems take the space of what users need most.
    let catalog = shown(large(40, 5000, 40, 0));
    assert!(catalog.instance_types.len() >= 10 && !catalog.locations.is_empty());
}

proptest! {
    #[test]
    fn no_catalogue_is_too_large(
        names in vec(prop_oneof![".{0,80}", "[<>&]{0,64}"], 0..200),
        words in vec("[a-z\"\\\\]{0,20}", 1..5),
    ) {
        let stock: Vec<(&str, &str)> = names
            .iter()
            .zip(words.iter().cycle())
            .map(|(name, word)| (name.as_str(), word.as_str()))
            .collect();
        let catalog = shown(Catalogue {
            locations: names.iter().map(|name| location(name)).collect(),
            systems: names.iter().map(|name| system(name)).collect(),
            plans: names.iter().map(|name| plan(name, &stock[..stock.len().min(7)])).collect(),
            quotas: Vec::new(),
        });
        prop_assert!(size(&catalog) <= MOST, "{} bytes", size(&catalog));
    }
}

#[test]
fn unusable_names_are_omitted_and_counted() {
    let (long, right) = ("x".repeat(65), "x".repeat(64));
    let quota = |instance_type: &str| LocationQuota {
        location_id: None,
        location: "Here".into(),
        usages: vec![QuotaUsage {
            instance_type_id: None,
            instance_type: instance_type.into(),
            quota_type: String::new(),
            contract_id: None,
            quota: Some(1),
            usage: None,
        }],
    };
    for hidden in [&*long, "US\u{202e}imaiM", "a\u{200b}b", "a\u{1b}[31mb", " "] {
        let catalog = shown(Catalogue {
            locations: vec![
                location(hidden),
                location(&right),
                location("BR: São Paulo"),
            ],
            systems: vec![system(hidden), system("ubuntu")],
            plans: vec![
                plan(hidden, &[]),
                plan("bm7", &[(hidden, "high"), ("R&D <1>", "high")]),
            ],
            quotas: vec![quota(hidden), quota("bm7")],
        });
        assert_eq!(catalog.omitted, 4, "{hidden:?}");
        let names: Vec<&str> = catalog.locations.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["BR: São Paulo", &right]);
        assert_eq!(catalog.systems[0].slug, "ubuntu");
        assert_eq!(catalog.instance_types[0].stock[0].locations, ["R&D <1>"]);
        assert_eq!(catalog.quotas[0].instance_type, "bm7");
    }
}

#[test]
fn catalogue_refresh_follows_orphan_scans() {
    let mut facts = facts();
    let wanted = |facts: &AccountFacts| decide(facts).wants_catalogue;
    assert_eq!(wanted(&facts), Some(Duration::ZERO), "nobody has looked");
    set_catalogue(&mut facts, 900, Catalogue::default());
    let every = facts.times().orphan_scan_interval;
    assert_eq!(wanted(&facts), Some(Duration::from_secs(900) + every));
    // Frequent orphan scans do not make reads of the catalogue as frequent.
    facts.spec.timing = serde_json::from_value(json!({"orphanScanInterval": "1m"})).unwrap();
    facts.timing = facts.spec.timing.in_force(Minimum::Kept);
    assert_eq!(wanted(&facts), Some(Duration::from_secs(900 + 300)));
    facts.meta.deletion_timestamp = Some(Time(Timestamp::MIN));
    assert_eq!(wanted(&facts), None);
    // Nor with a key of another account, or a refused one.
    let changed = super::account_identity::changed();
    assert_eq!(wanted(&changed), None);
    facts.report = None;
    assert_eq!(wanted(&facts), None);
}

#[test]
fn shown_catalogue_is_not_compared_again() {
    let mut facts = facts();
    set_catalogue(&mut facts, 900, large(2, 2, 2, 0));
    let offer = decide(&facts).offer;
    assert!(offer.catalog.is_some());
    assert_eq!(offer.read_at, Some(Duration::from_secs(900)));
    facts.status = next(&facts);
    facts.offered = offer.read_at;
    let again = decide(&facts).offer;
    assert_eq!((again.catalog, again.read_at), (None, offer.read_at));
    // A lost status is written again.
    facts.status.catalog = None;
    assert!(decide(&facts).offer.catalog.is_some());
}
