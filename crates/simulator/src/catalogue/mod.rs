//! What can be ordered: locations, instance types, operating systems.

mod file;
mod record;

use serde_json::{Value, json};

use super::profile::{CatalogueNames, Switches};

pub use file::InvalidCatalogue;
pub(crate) use file::{Counted, Family, InstanceType, Location, OperatingSystem, Sized};

/// A kind of machine offered at a location, by their ids.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub(crate) struct Offer {
    pub(crate) location: u32,
    pub(crate) instance_type: u32,
}

/// The whole catalogue. Constant for the life of a simulator; the account keeps
/// the remaining stock.
#[derive(Clone, Debug)]
pub(crate) struct Catalogue {
    pub(crate) locations: Vec<Location>,
    pub(crate) instance_types: Vec<InstanceType>,
    pub(crate) systems: Vec<OperatingSystem>,
    /// Offers in the order of locations, then types, with the number of
    /// machines there at the start; `None` means no limit.
    pub(crate) offers: Vec<(Offer, Option<usize>)>,
}

impl Catalogue {
    /// The location that an order names.
    pub(crate) fn location(&self, name: &str, switches: &Switches) -> Option<&Location> {
        self.locations
            .iter()
            .find(|place| same(&place.name, name, switches))
    }

    /// The location with this id.
    pub(crate) fn place(&self, id: u32) -> Option<&Location> {
        self.locations.iter().find(|place| place.id == id)
    }

    /// The instance type that an order names, offered anywhere.
    pub(crate) fn instance_type(&self, name: &str, switches: &Switches) -> Option<&InstanceType> {
        self.instance_types
            .iter()
            .find(|kind| same(&kind.name, name, switches))
    }

    /// The instance type with this id.
    pub(crate) fn kind(&self, id: u32) -> Option<&InstanceType> {
        self.instance_types.iter().find(|kind| kind.id == id)
    }

    /// The system with this slug.
    pub(crate) fn system(&self, slug: &str) -> Option<&OperatingSystem> {
        self.systems.iter().find(|system| system.slug == slug)
    }

    /// The system with this id.
    pub(crate) fn system_by_id(&self, id: i64) -> Option<&OperatingSystem> {
        self.systems
            .iter()
            .find(|system| i64::from(system.id) == id)
    }

    /// Whether this kind is offered there.
    pub(crate) fn offers(&self, offer: Offer) -> bool {
        self.offers.iter().any(|(known, _)| *known == offer)
    }

    /// `{id, name}` of a location.
    pub(crate) fn location_brief(&self, id: u32) -> Value {
        let name = self.place(id).map_or("", |place| &place.name);
        json!({"id": id, "name": name})
    }

    /// `{id, name}` of an instance type.
    pub(crate) fn instance_type_brief(&self, id: u32) -> Value {
        let name = self.kind(id).map_or("", |kind| &kind.name);
        json!({"id": id, "name": name})
    }
}

fn same(known: &str, asked: &str, switches: &Switches) -> bool {
    match switches.catalogue_names {
        CatalogueNames::Exact => known == asked,
        CatalogueNames::Caseless => known.eq_ignore_ascii_case(asked.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::Profile;
    use super::*;

    #[test]
    fn every_name_of_the_document_is_there() {
        let catalogue = Catalogue::builtin().unwrap();
        for name in [
            "bm7.std.8",
            "bm7.hmm.8",
            "bm8.std.32",
            "bm9.hmm.32",
            "bm9.std.32",
            "bm9.hmm.12",
        ] {
            let exact = Switches::of(Profile::Document);
            assert!(catalogue.instance_type(name, &exact).is_some(), "{name}");
        }
        for slug in [
            "ubuntu-2204-lts",
            "ubuntu-2404-lts",
            "talos-omni-1110",
            "debian-13",
        ] {
            let known = catalogue.system(slug);
            assert!(known.is_some_and(OperatingSystem::orderable), "{slug}");
        }
    }

    #[test]
    fn names_are_compared_as_the_switch_says() {
        let catalogue = Catalogue::builtin().unwrap();
        let find = |name, profile| catalogue.location(name, &Switches::of(profile)).is_some();
        assert!(find("EU: Rotterdam", Profile::Document));
        assert!(!find("eu: rotterdam ", Profile::Document));
        assert!(find("eu: rotterdam ", Profile::Observed));
    }
}
