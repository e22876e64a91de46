//! The catalog as tables.

use super::CatalogFilter;
use crate::commands::quota::is_asked_for;
use api::catalog::{Catalog, CatalogStock};
use hosting_types::catalogue::Availability;
use serde_json::{Value, json};

/// An unknown word counts as stock, as in the operator: the provider's answer to an order decides.
fn is_in_stock(stock: &CatalogStock) -> bool {
    Availability::parse(&stock.availability) != Availability::Unavailable
}

/// The locations. With a type, only those that offer it.
pub(super) fn location_records(catalog: &Catalog, filter: CatalogFilter<'_>) -> Vec<Value> {
    let locations = catalog.locations.iter();
    let locations = locations.filter(|it| is_asked_for(&it.name, filter.location));
    let records = locations.filter_map(|location| {
        let types = catalog.instance_types.iter();
        let types = types.filter(|kind| is_asked_for(&kind.name, filter.instance_type));
        let is_here = |stock: &&CatalogStock| {
            let mut names = stock.locations.iter();
            names.any(|name| is_asked_for(name, Some(&location.name)))
        };
        // Each type has one stock here, or none.
        let stocks: Vec<_> = types
            .filter_map(|kind| kind.stock.iter().find(is_here))
            .collect();
        let in_stock = stocks.iter().filter(|it| is_in_stock(it)).count();
        let is_shown = match (filter.is_available, filter.instance_type) {
            (true, _) => in_stock > 0,
            (false, Some(_)) => !stocks.is_empty(),
            (false, None) => true,
        };
        is_shown.then(|| {
            json!({"name": location.name, "country": location.country, "typesInStock": in_stock})
        })
    });
    records.collect()
}

/// The instance types, one record for each availability.
pub(super) fn type_records(catalog: &Catalog, filter: CatalogFilter<'_>) -> Vec<Value> {
    let types = catalog.instance_types.iter();
    let types = types.filter(|kind| is_asked_for(&kind.name, filter.instance_type));
    let stocks = types.flat_map(|kind| kind.stock.iter().map(move |stock| (kind, stock)));
    let stocks = stocks.filter(|(_, stock)| !filter.is_available || is_in_stock(stock));
    let records = stocks.filter_map(|(kind, stock)| {
        let locations = stock.locations.iter();
        let locations: Vec<_> = locations
            .filter(|name| is_asked_for(name, filter.location))
            .collect();
        (!locations.is_empty()).then(|| {
            json!({
                "name": kind.name, "availability": stock.availability, "locations": locations,
                "hardware": kind.hardware,
            })
        })
    });
    records.collect()
}

/// The operating systems.
pub(super) fn system_records(catalog: &Catalog) -> Vec<Value> {
    let systems = catalog.systems.iter();
    let records = systems.map(|system| json!({"slug": system.slug, "name": system.name}));
    records.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        commands::catalog::{LOCATIONS, TYPES},
        fields::Field,
    };

    fn catalog() -> Catalog {
        let stock = |availability: &str, locations: &[&str]| json!({"availability": availability, "locations": locations});
        let a = [
            stock("high", &["EU: A", "US: B"]),
            stock("unavailable", &["JP: C"]),
        ];
        serde_json::from_value(json!({
            "locations": [{"name": "EU: A"}, {"name": "US: B"}, {"name": "JP: C"}],
            "instanceTypes": [
                {"name": "a", "hardware": "24 cores", "stock": a},
                {"name": "b", "hardware": "24 cores", "stock": [stock("few", &["US: B"])]},
            ],
            "systems": [],
        }))
        .unwrap()
    }

    fn shown(fields: &[Field], records: &[Value]) -> Vec<String> {
        let cells = |record| fields[..3].iter().map(move |field| field.cell(record));
        let rows = records
            .iter()
            .map(|it| cells(it).collect::<Vec<_>>().join("|"));
        rows.collect()
    }

    fn types(filter: CatalogFilter<'_>) -> Vec<String> {
        shown(TYPES, &type_records(&catalog(), filter))
    }

    fn locations(filter: CatalogFilter<'_>) -> Vec<String> {
        shown(LOCATIONS, &location_records(&catalog(), filter))
    }

    const ALL: CatalogFilter<'_> = CatalogFilter {
        location: None,
        instance_type: None,
        is_available: false,
    };
    const AVAILABLE: CatalogFilter<'_> = CatalogFilter {
        is_available: true,
        ..ALL
    };

    #[test]
    fn types_are_shown_with_their_stock() {
        let c = Some("jp: c");
        let all = ["a|high|EU: A, US: B", "a|unavailable|JP: C", "b|few|US: B"];
        assert_eq!(types(ALL), all);
        assert_eq!(types(AVAILABLE), [all[0], all[2]]);
        assert_eq!(types(CatalogFilter { location: c, ..ALL }), [all[1]]);
        let none = CatalogFilter {
            location: c,
            ..AVAILABLE
        };
        assert!(types(none).is_empty());
    }

    #[test]
    fn locations_are_those_that_offer_the_type() {
        let of = |instance_type, filter| CatalogFilter {
            instance_type: Some(instance_type),
            ..filter
        };
        assert_eq!(locations(ALL), ["EU: A||1", "US: B||2", "JP: C||0"]);
        assert_eq!(locations(of("B", ALL)), ["US: B||1"]);
        assert_eq!(locations(of("a", ALL)).len(), 3);
        assert_eq!(locations(of("a", AVAILABLE)), ["EU: A||1", "US: B||1"]);
    }
}
