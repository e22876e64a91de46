//! The catalogue as a file: the one that is built in, or one of the user's.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Catalogue, Offer};

/// Names are those of the API; hardware and stock are our choice, so that
/// availability differs between locations.
const BUILTIN: &str = include_str!("builtin.json");

/// Why a catalogue cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidCatalogue {
    /// It is not JSON of the right shape.
    #[error("cannot read it as JSON")]
    Json(#[from] serde_json::Error),
    /// Two entries share an id, name or slug.
    #[error("{0} is listed twice")]
    Twice(String),
    /// An offer names a location or an instance type that does not exist.
    #[error("an offer names {0:?}, which does not exist")]
    Unknown(String),
}

/// A place (section 2.3).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Location {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(super) short_name: String,
    pub(super) display_name: String,
    pub(super) country_id: u32,
    pub(super) country_name: String,
    pub(super) country_short_name: String,
    pub(super) dc_code: String,
}

/// A processor. The clock is in MHz.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Cpu {
    pub(crate) name: String,
    pub(super) base_clock: u32,
    pub(crate) cpu_count: u32,
    pub(crate) cpu_cores: u32,
}

/// A part with a size in GB.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Sized {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) size: u32,
}

/// A part that occurs several times.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Counted {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) count: u32,
}

/// A graphics processor, memory in GB.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gpu {
    pub(super) name: String,
    pub(super) vram: u32,
}

/// A kind of machine (sections 2.4 and 2.5).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct InstanceType {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(super) generation_name: String,
    pub(crate) cpu: Cpu,
    pub(crate) memory: Sized,
    pub(crate) disks: Vec<Sized>,
    pub(crate) network_interfaces: Vec<Counted>,
    #[serde(default)]
    pub(super) gpu: Option<Gpu>,
}

/// What an installation of a system allows and needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Family {
    Linux,
    Windows,
    /// The Kubernetes-focused systems.
    Talos,
    /// Boots a script of the user's own.
    CustomIpxe,
}

/// An operating system.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OperatingSystem {
    pub(crate) id: u32,
    pub(super) name: String,
    pub(crate) slug: String,
    pub(crate) family: Family,
    pub(super) available_for_flex_metal: bool,
    pub(crate) active: bool,
}

/// A kind of machine at a location.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OfferLine {
    location: String,
    instance_type: String,
    /// How many machines exist, including those in use; null means no limit.
    machines: Option<usize>,
}

/// The file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CatalogueFile {
    locations: Vec<Location>,
    instance_types: Vec<InstanceType>,
    operating_systems: Vec<OperatingSystem>,
    offers: Vec<OfferLine>,
}

impl Catalogue {
    /// The one with every name that the document and real clients mention.
    ///
    /// # Errors
    /// Never, as a test proves.
    pub(crate) fn builtin() -> Result<Self, InvalidCatalogue> {
        Self::read(BUILTIN)
    }

    /// Reads a catalogue from the text of a file.
    ///
    /// # Errors
    /// When it is not JSON of that shape, or contradicts itself.
    pub(crate) fn read(text: &str) -> Result<Self, InvalidCatalogue> {
        let file: CatalogueFile = serde_json::from_str(text)?;
        once("location", file.locations.iter().map(|place| place.id))?;
        once("location", file.locations.iter().map(|place| &place.name))?;
        once("type", file.instance_types.iter().map(|kind| kind.id))?;
        once("type", file.instance_types.iter().map(|kind| &kind.name))?;
        once("system", file.operating_systems.iter().map(|os| os.id))?;
        once("system", file.operating_systems.iter().map(|os| &os.slug))?;
        let mut catalogue = Self {
            locations: file.locations,
            instance_types: file.instance_types,
            systems: file.operating_systems,
            offers: Vec::new(),
        };
        for line in file.offers {
            let place = catalogue.locations.iter().find(|p| p.name == line.location);
            let kinds = catalogue.instance_types.iter();
            let kind = kinds.clone().find(|kind| kind.name == line.instance_type);
            let location = place.ok_or(InvalidCatalogue::Unknown(line.location))?.id;
            let instance_type = kind
                .ok_or(InvalidCatalogue::Unknown(line.instance_type))?
                .id;
            let offer = Offer {
                location,
                instance_type,
            };
            catalogue.offers.push((offer, line.machines));
        }
        once(
            "offer",
            catalogue
                .offers
                .iter()
                .map(|(offer, _)| format!("{} at {}", offer.instance_type, offer.location)),
        )?;
        Ok(catalogue)
    }

    /// The same as a file, as a template for users.
    pub(crate) fn file(&self) -> serde_json::Value {
        let lines = self.offers.iter().map(|(offer, machines)| OfferLine {
            location: self
                .place(offer.location)
                .map_or_else(String::new, |p| p.name.clone()),
            instance_type: self
                .kind(offer.instance_type)
                .map_or_else(String::new, |kind| kind.name.clone()),
            machines: *machines,
        });
        serde_json::json!({
            "locations": self.locations,
            "instanceTypes": self.instance_types,
            "operatingSystems": self.systems,
            "offers": lines.collect::<Vec<_>>(),
        })
    }
}

fn once<T: ToString>(kind: &str, names: impl Iterator<Item = T>) -> Result<(), InvalidCatalogue> {
    let mut seen = BTreeSet::new();
    for name in names {
        let name = format!("{kind} {}", name.to_string());
        if !seen.insert(name.clone()) {
            return Err(InvalidCatalogue::Twice(name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_catalogue_reads_back_unchanged() {
        let catalogue = Catalogue::builtin().unwrap();
        let again = Catalogue::read(&catalogue.file().to_string()).unwrap();
        assert_eq!(catalogue.file(), again.file());
        assert!(
            catalogue
                .instance_types
                .iter()
                .any(|kind| kind.gpu.is_some())
        );
    }

    #[test]
    fn a_catalogue_that_contradicts_itself_is_refused() {
        let broken = |change: fn(&mut serde_json::Value)| {
            let mut file = Catalogue::builtin().unwrap().file();
            change(&mut file);
            Catalogue::read(&file.to_string()).unwrap_err().to_string()
        };
        assert_eq!(
            broken(|file| file["offers"][0]["location"] = "Moon".into()),
            "an offer names \"Moon\", which does not exist"
        );
        assert_eq!(
            broken(|file| file["locations"][0]["id"] = 31.into()),
            "location 31 is listed twice"
        );
        assert_eq!(
            broken(|file| file["locations"][0]["nme"] = 31.into()),
            "cannot read it as JSON"
        );
    }
}
