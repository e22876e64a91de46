//! The catalog as tables.

use super::CatalogFilter;
use crate::{
    commands::quota::is_asked_for,
    output::{Column, Row, column},
};
use api::catalog::{Catalog, CatalogInstanceType, CatalogStock};
use hosting_types::catalogue::Availability;
use serde::Serialize;

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LocationRow {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    country: Option<String>,
    types_in_stock: usize,
}

impl Row for LocationRow {
    const COLUMNS: &'static [Column] = &[
        column("LOCATION"),
        column("COUNTRY"),
        column("TYPES IN STOCK"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.country.clone().unwrap_or_default(),
            self.types_in_stock.to_string(),
        ]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// An instance type, and the locations at which it has one availability.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TypeRow {
    name: String,
    availability: String,
    locations: Vec<String>,
    hardware: String,
}

impl Row for TypeRow {
    const COLUMNS: &'static [Column] = &[
        column("TYPE"),
        column("STOCK"),
        column("LOCATIONS"),
        column("HARDWARE"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.availability.clone(),
            self.locations.join(", "),
            self.hardware.clone(),
        ]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SystemRow {
    slug: String,
    name: String,
}

impl Row for SystemRow {
    const COLUMNS: &'static [Column] = &[column("SLUG"), column("NAME")];

    fn cells(&self) -> Vec<String> {
        vec![self.slug.clone(), self.name.clone()]
    }

    fn name(&self) -> String {
        self.slug.clone()
    }
}

impl CatalogFilter<'_> {
    fn fits_type(self, kind: &CatalogInstanceType) -> bool {
        is_asked_for(&kind.name, self.instance_type)
    }

    fn fits_stock(self, stock: &CatalogStock) -> bool {
        !self.is_available || is_in_stock(stock)
    }
}

/// An unknown word counts as stock, as in the operator: the provider's answer to an order decides.
fn is_in_stock(stock: &CatalogStock) -> bool {
    Availability::parse(&stock.availability) != Availability::Unavailable
}

/// The locations. With a type, only those that offer it.
pub(super) fn location_rows(catalog: &Catalog, filter: CatalogFilter<'_>) -> Vec<LocationRow> {
    let needs_type = filter.is_available || filter.instance_type.is_some();
    let types = || {
        let types = catalog.instance_types.iter();
        types.filter(|kind| filter.fits_type(kind))
    };
    let locations = catalog.locations.iter();
    let locations = locations.filter(|it| is_asked_for(&it.name, filter.location));
    let rows = locations.filter_map(|location| {
        let has = |stock: &&CatalogStock| {
            let mut names = stock.locations.iter();
            names.any(|name| is_asked_for(name, Some(&location.name)))
        };
        let offers = |kind: &&CatalogInstanceType| {
            let mut here = kind.stock.iter().filter(has);
            here.any(|stock| filter.fits_stock(stock))
        };
        let in_stock = |kind: &&CatalogInstanceType| kind.stock.iter().filter(has).any(is_in_stock);
        if needs_type && !types().any(|kind| offers(&kind)) {
            return None;
        }
        Some(LocationRow {
            name: location.name.clone(),
            country: location.country.clone(),
            types_in_stock: types().filter(in_stock).count(),
        })
    });
    rows.collect()
}

/// The instance types, one row for each availability.
pub(super) fn type_rows(catalog: &Catalog, filter: CatalogFilter<'_>) -> Vec<TypeRow> {
    let types = catalog.instance_types.iter();
    let types = types.filter(|kind| filter.fits_type(kind));
    let rows = types.flat_map(|kind| {
        let stock = kind.stock.iter();
        let stock = stock.filter(move |stock| filter.fits_stock(stock));
        stock.filter_map(move |stock| {
            let locations = stock.locations.iter();
            let locations: Vec<_> = locations
                .filter(|name| is_asked_for(name, filter.location))
                .cloned()
                .collect();
            (!locations.is_empty()).then(|| TypeRow {
                name: kind.name.clone(),
                availability: stock.availability.clone(),
                locations,
                hardware: kind.hardware.clone(),
            })
        })
    });
    rows.collect()
}

/// The operating systems.
pub(super) fn system_rows(catalog: &Catalog) -> Vec<SystemRow> {
    let rows = catalog.systems.iter().map(|system| SystemRow {
        slug: system.slug.clone(),
        name: system.name.clone(),
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::catalog::CatalogLocation;

    const ROTTERDAM: &str = "EU: Rotterdam";
    const ASHBURN: &str = "US: Ashburn";
    const TOKYO: &str = "JP: Tokyo";

    fn catalog() -> Catalog {
        let stock = |availability: &str, locations: &[&str]| CatalogStock {
            availability: availability.into(),
            locations: locations.iter().map(|it| (*it).to_owned()).collect(),
        };
        let kind = |name: &str, stock| CatalogInstanceType {
            name: name.into(),
            hardware: "24 cores".into(),
            stock,
        };
        let location = |name: &str| CatalogLocation {
            name: name.into(),
            country: None,
        };
        Catalog {
            locations: [ROTTERDAM, ASHBURN, TOKYO].map(location).to_vec(),
            instance_types: vec![
                kind(
                    "a",
                    vec![
                        stock("high", &[ROTTERDAM, ASHBURN]),
                        stock("unavailable", &[TOKYO]),
                    ],
                ),
                kind("b", vec![stock("few", &[ASHBURN])]),
            ],
            ..Catalog::default()
        }
    }

    fn types(filter: CatalogFilter<'_>) -> Vec<String> {
        let rows = type_rows(&catalog(), filter);
        rows.iter().map(|row| row.cells()[..3].join("|")).collect()
    }

    fn locations(filter: CatalogFilter<'_>) -> Vec<(String, usize)> {
        let rows = location_rows(&catalog(), filter);
        rows.into_iter()
            .map(|row| (row.name, row.types_in_stock))
            .collect()
    }

    #[test]
    fn types_are_shown_with_their_stock() {
        let all = CatalogFilter::default();
        assert_eq!(
            types(all),
            [
                "a|high|EU: Rotterdam, US: Ashburn",
                "a|unavailable|JP: Tokyo",
                "b|few|US: Ashburn"
            ]
        );
        let available = CatalogFilter {
            is_available: true,
            ..all
        };
        assert_eq!(types(available).len(), 2);
        let tokyo = CatalogFilter {
            location: Some("jp: tokyo"),
            ..all
        };
        assert_eq!(types(tokyo), ["a|unavailable|JP: Tokyo"]);
        let tokyo = CatalogFilter {
            location: Some(TOKYO),
            ..available
        };
        assert!(types(tokyo).is_empty());
    }

    #[test]
    fn locations_are_those_that_offer_the_type() {
        let all = CatalogFilter::default();
        let row = |name: &str, count| (name.to_owned(), count);
        assert_eq!(
            locations(all),
            [row(ROTTERDAM, 1), row(ASHBURN, 2), row(TOKYO, 0)]
        );
        let b = CatalogFilter {
            instance_type: Some("B"),
            ..all
        };
        assert_eq!(locations(b), [row(ASHBURN, 1)]);
        let a = CatalogFilter {
            instance_type: Some("a"),
            ..all
        };
        assert_eq!(locations(a).len(), 3);
        let available = CatalogFilter {
            is_available: true,
            ..a
        };
        assert_eq!(locations(available), [row(ROTTERDAM, 1), row(ASHBURN, 1)]);
    }
}
