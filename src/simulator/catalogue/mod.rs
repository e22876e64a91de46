//! What can be ordered: locations, instance types, operating systems.

mod builtin;

use serde_json::{Value, json};

use super::profile::{CatalogueNames, Switches};

/// A place (section 2.3).
#[derive(Debug)]
pub(crate) struct Location {
    pub(crate) id: u32,
    pub(crate) name: &'static str,
    short_name: &'static str,
    display_name: &'static str,
    country: (u32, &'static str, &'static str),
    data_centre: &'static str,
}

/// A kind of machine (sections 2.4 and 2.5). Memory and disks in GB, the base
/// clock in MHz.
#[derive(Debug)]
pub(crate) struct InstanceType {
    pub(crate) id: u32,
    pub(crate) name: &'static str,
    cpu: &'static str,
    base_clock: u32,
    sockets: u32,
    cores: u32,
    memory: u32,
    disks: &'static [(&'static str, u32)],
    network: &'static [(&'static str, u32)],
    gpu: Option<(&'static str, u32)>,
    generation: &'static str,
}

/// What an installation of a system allows and needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Linux,
    Windows,
    /// The Kubernetes-focused systems.
    Talos,
    /// Boots a script of the user's own.
    CustomIpxe,
}

/// An operating system.
#[derive(Debug)]
pub(crate) struct OperatingSystem {
    id: u32,
    name: &'static str,
    pub(crate) slug: &'static str,
    pub(crate) family: Family,
    for_servers: bool,
    active: bool,
}

impl OperatingSystem {
    /// Whether an on-demand server can be ordered with it.
    pub(crate) fn orderable(&self) -> bool {
        self.for_servers && self.active
    }

    /// The record of `GET /v3/operatingsystem`.
    pub(crate) fn record(&self) -> Value {
        let group = if self.family == Family::Windows { 1 } else { 2 };
        json!({
            "id": self.id,
            "name": self.name,
            "slug": self.slug,
            "osGroup": group,
            "isOdp": 0,
            "availableForFlexMetal": u8::from(self.for_servers),
            "active": u8::from(self.active),
        })
    }
}

/// A kind of machine offered in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Offer {
    pub(crate) location: u32,
    pub(crate) instance_type: u32,
}

/// All of it. Constant for the life of a simulator; what is left in stock is
/// kept by the account.
#[derive(Debug)]
pub(crate) struct Catalogue {
    pub(crate) locations: &'static [Location],
    pub(crate) instance_types: &'static [InstanceType],
    pub(crate) systems: &'static [OperatingSystem],
    /// Offers in the order of locations, then types, with the number of
    /// machines there at the start; `None` is more than anybody asks for.
    pub(crate) offers: Vec<(Offer, Option<usize>)>,
}

impl Catalogue {
    /// Every name that the document and real clients mention.
    pub(crate) fn builtin() -> Self {
        builtin::catalogue()
    }

    /// The location that an order names.
    pub(crate) fn location(&self, name: &str, switches: &Switches) -> Option<&'static Location> {
        self.locations
            .iter()
            .find(|place| same(place.name, name, switches))
    }

    /// The instance type that an order names, offered anywhere.
    pub(crate) fn instance_type(
        &self,
        name: &str,
        switches: &Switches,
    ) -> Option<&'static InstanceType> {
        self.instance_types
            .iter()
            .find(|kind| same(kind.name, name, switches))
    }

    /// The system with this slug.
    pub(crate) fn system(&self, slug: &str) -> Option<&'static OperatingSystem> {
        self.systems.iter().find(|system| system.slug == slug)
    }

    /// Whether this kind is offered there.
    pub(crate) fn offers(&self, offer: Offer) -> bool {
        self.offers.iter().any(|(known, _)| *known == offer)
    }

    /// `{id, name}` of a location.
    pub(crate) fn location_brief(&self, id: u32) -> Value {
        let name = self
            .locations
            .iter()
            .find(|place| place.id == id)
            .map_or("", |place| place.name);
        json!({"id": id, "name": name})
    }

    /// `{id, name}` of an instance type.
    pub(crate) fn instance_type_brief(&self, id: u32) -> Value {
        let name = self
            .instance_types
            .iter()
            .find(|kind| kind.id == id)
            .map_or("", |kind| kind.name);
        json!({"id": id, "name": name})
    }
}

fn same(known: &str, asked: &str, switches: &Switches) -> bool {
    match switches.catalogue_names {
        CatalogueNames::Exact => known == asked,
        CatalogueNames::Caseless => known.eq_ignore_ascii_case(asked.trim()),
    }
}

impl Location {
    /// The record of section 2.3.
    pub(crate) fn record(&self) -> Value {
        let (country_id, country, country_short) = self.country;
        json!({
            "id": self.id,
            "name": self.name,
            "shortName": self.short_name,
            "displayName": self.display_name,
            "countryId": country_id,
            "countryName": country,
            "countryShortName": country_short,
        })
    }

    /// The location part of a plan (section 2.5).
    pub(crate) fn in_plan(&self, availability: &str) -> Value {
        json!({"name": self.name, "dcCode": self.data_centre, "availability": availability})
    }
}

impl InstanceType {
    /// The deprecated record of section 2.4.
    pub(crate) fn record(&self, location: u32) -> Value {
        let storage: u32 = self.disks.iter().map(|(_, size)| size).sum();
        json!({
            "id": self.id,
            "locationId": location,
            "name": self.name,
            "sockets": self.sockets,
            "cores": self.cores,
            "memory": self.memory,
            "memoryType": "ddr4",
            "storage": storage,
            "storageType": self.disks.first().map_or("", |(kind, _)| kind),
            "generationName": self.generation,
        })
    }

    /// The plan of section 2.5, with its locations.
    pub(crate) fn plan(&self, locations: &[Value]) -> Value {
        let parts = |all: &[(&str, u32)], amount: &str| -> Vec<Value> {
            all.iter()
                .map(|(kind, number)| json!({"type": kind, amount: number}))
                .collect()
        };
        json!({
            "name": self.name,
            "hardwareDetails": {
                "cpu": {
                    "name": self.cpu,
                    "baseClock": self.base_clock,
                    "cpuCount": self.sockets,
                    "cpuCores": self.cores,
                    "totalCores": self.sockets * self.cores,
                },
                "memory": {"type": "ddr4", "size": self.memory},
                "disks": parts(self.disks, "size"),
                "networkInterfaces": parts(self.network, "count"),
                "gpu": self.gpu.map(|(name, vram)| json!({"name": name, "vram": vram})),
            },
            "locations": locations,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::options::Profile;
    use super::*;

    #[test]
    fn every_name_of_the_document_is_there_once() {
        let catalogue = Catalogue::builtin();
        let types: Vec<_> = catalogue
            .instance_types
            .iter()
            .map(|kind| kind.name)
            .collect();
        for name in [
            "bm7.std.8",
            "bm7.hmm.8",
            "bm8.std.32",
            "bm9.hmm.32",
            "bm9.std.32",
            "bm9.hmm.12",
        ] {
            assert_eq!(
                types.iter().filter(|known| **known == name).count(),
                1,
                "{name}"
            );
        }
        for slug in [
            "ubuntu-2204-lts",
            "ubuntu-2404-lts",
            "talos-omni-1110",
            "debian-13",
        ] {
            assert!(
                catalogue
                    .system(slug)
                    .is_some_and(OperatingSystem::orderable),
                "{slug}"
            );
        }
        let ids: BTreeSet<_> = catalogue.locations.iter().map(|place| place.id).collect();
        assert_eq!(ids.len(), catalogue.locations.len());
        let offers: BTreeSet<_> = catalogue.offers.iter().map(|(offer, _)| *offer).collect();
        assert_eq!(offers.len(), catalogue.offers.len());
    }

    #[test]
    fn names_are_compared_as_the_switch_says() {
        let catalogue = Catalogue::builtin();
        let find = |name, profile| catalogue.location(name, &Switches::of(profile)).is_some();
        assert!(find("EU: Rotterdam", Profile::Document));
        assert!(!find("eu: rotterdam ", Profile::Document));
        assert!(find("eu: rotterdam ", Profile::Observed));
    }
}
