//! The request that an order would send, checked against the catalogue, the quota and the API's rules.

use super::{
    super::facts::{Facts, Installation},
    candidates::{Candidate, in_order},
    stock,
    terms::is_same,
};
use crate::{
    account::view::Catalogue,
    cause::Cause,
    stored_keys::Found,
    wording::{MOST_NAMES, did_you_mean, listed},
};
use api::{Reason, installation::OperatingSystem};
use hosting_types::{
    Order, SecretText,
    request::{InvalidRequest, is_host_name},
    server::{DiskWipe, Partition, PartitionSize, Reinstall, SystemChoice, SystemFamily},
};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;

/// The place and type to order at: those of the first candidate that can be had.
///
/// # Errors
/// What is wrong with the spec, as far as it was looked at; or why none of them can be had now.
pub fn place(facts: &Facts, catalogue: &Catalogue) -> Result<Place, Cause> {
    let spec = &facts.object.spec;
    let os = system_of(facts)?;
    let mut first_lack = None;
    let mut doubtful = None;
    let mut mistake = None;
    for candidate in in_order(facts) {
        // A mistake in one of them counts where none of the others can be had: the provider may have dropped its type.
        let place = match place_of(catalogue, &candidate) {
            Err(cause) if candidate.alternative.is_some() => {
                mistake.get_or_insert(cause);
                continue;
            }
            place => place?,
        };
        if candidate.alternative.is_none() {
            is_offered(os, catalogue)?;
            is_named(facts)?;
        }
        let demand = candidate.demand(spec);
        match demand.lack(catalogue) {
            Some(lack) => _ = first_lack.get_or_insert((candidate, lack)),
            None if demand.is_without_contract(catalogue) => _ = doubtful.get_or_insert(place),
            None => return Ok(place),
        }
    }
    match (doubtful, mistake, first_lack) {
        // Left to the provider's answer.
        (Some(place), ..) => Ok(place),
        (None, Some(mistake), _) => Err(mistake),
        (None, None, Some((first, lack))) => Err(stock::cause(facts, &first, lack)),
        // Only a spec that orders no server may leave them out.
        (None, None, None) => Err(invalid(
            "spec.location and spec.instanceType: both are needed to order a server; set them"
                .to_owned(),
        )),
    }
}

/// The API asks this of one system only; here it holds for every server.
fn is_named(facts: &Facts) -> Result<(), Cause> {
    match is_host_name(facts.hostname()) {
        true => Ok(()),
        false => Err(invalid(format!(
            "spec.hostname: {:?} is no host name: labels of 1 to 63 letters, digits and inner hyphens, joined by dots, 253 characters at most; set one",
            facts.hostname()
        ))),
    }
}

/// A broken rule of the API, which names its own fields. These have the same names in the spec.
fn in_spec(broken: &InvalidRequest) -> String {
    let said = broken.to_string();
    let fields = [
        "os.kernelParams",
        "os.partitions",
        "postInstallScript",
        "userData",
    ];
    match fields.iter().any(|field| said.starts_with(field)) {
        true => format!("spec.{said}; correct it, or what lies where it refers to"),
        false => format!("{said}; correct the field of that name in spec"),
    }
}

fn invalid(message: String) -> Cause {
    Cause::needs_person(Reason::InvalidSpec, message)
}

/// The request, checked against the API's rules.
///
/// # Errors
/// Which rule is broken.
pub fn request(facts: &Facts, at: &Place, installation: &Installation) -> Result<Order, Cause> {
    let order = order(facts, at, system_of(facts)?, installation);
    match order.check() {
        Ok(()) => Ok(order),
        Err(broken) => Err(invalid(in_spec(&broken))),
    }
}

/// The request of a re-installation, with all that the spec says, checked against the API's rules.
///
/// # Errors
/// Which rule is broken.
pub fn reinstallation(facts: &Facts, installation: &Installation) -> Result<Reinstall, Cause> {
    let os = system_of(facts)?;
    let catalogue = facts.view().and_then(|view| view.catalogue.as_ref());
    if let Some((_, catalogue)) = catalogue {
        is_offered(os, catalogue)?;
    }
    is_named(facts)?;
    let install = facts.object.spec.install.unwrap_or_default();
    let request = Reinstall {
        name: Some(facts.hostname().into()),
        ssh_keys: Some(keys_to_send(installation)),
        post_install_script: script_to_send(os, installation),
        os: Some(system(os, installation)),
        user_data: installation.user_data.clone(),
        wipe: match install.wipes_disk() {
            true => DiskWipe::Whole,
            false => DiskWipe::Skip,
        },
    };
    match request.check() {
        Ok(()) => Ok(request),
        Err(broken) => Err(invalid(in_spec(&broken))),
    }
}

fn keys_to_send(installation: &Installation) -> Vec<String> {
    let keys = installation.ssh_keys.iter();
    keys.map(|key| key.sent.clone()).collect()
}

fn script_to_send(os: &OperatingSystem, installation: &Installation) -> Option<SecretText> {
    let script = installation.post_install_script.as_ref();
    script.map(|script| SystemFamily::of_slug(&os.slug).runnable(script))
}

/// The system that the spec names. Only a spec that orders and installs nothing may leave it out.
fn system_of(facts: &Facts) -> Result<&OperatingSystem, Cause> {
    let none = || invalid("spec.os: needed to order or install a server; set it".to_owned());
    facts.object.spec.os.as_ref().ok_or_else(none)
}

/// The system with its settings.
fn system(os: &OperatingSystem, installation: &Installation) -> SystemChoice {
    let partitions = os.partitions.iter().map(|partition| Partition {
        target: partition.target.clone(),
        filesystem: partition.filesystem.as_str().to_owned(),
        size: partition
            .size_mb
            .and_then(|size| u32::try_from(size).ok())
            .map_or(PartitionSize::Rest, PartitionSize::Megabytes),
    });
    SystemChoice {
        slug: os.slug.clone(),
        kernel_params: installation.kernel_params.clone(),
        partitions: partitions.collect(),
        ipxe_script_url: os.ipxe_script_url.as_ref().map(SecretText::new),
    }
}

fn order(facts: &Facts, at: &Place, os: &OperatingSystem, installation: &Installation) -> Order {
    let spec = &facts.object.spec;
    Order {
        name: facts.hostname().into(),
        location: at.location.clone(),
        instance_type: at.instance_type.clone(),
        os: system(os, installation),
        ssh_keys: keys_to_send(installation),
        tags: spec.tags.clone(),
        contract_id: spec.contract_id.clone().filter(|c| !c.is_empty()),
        overflow: spec.overflow.unwrap_or(false),
        post_install_script: script_to_send(os, installation),
        user_data: installation.user_data.clone(),
    }
}

/// Place and type as the provider writes them, which takes no other case (2.7-22).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the location.
    pub location: String,
    /// Name of the instance type.
    pub instance_type: String,
}

/// What the provider calls a candidate. What the catalogue does not list is left to the provider's answer.
fn place_of(catalogue: &Catalogue, candidate: &Candidate<'_>) -> Result<Place, Cause> {
    let Candidate {
        location,
        instance_type,
        ..
    } = *candidate;
    let mut place = Place {
        location: location.to_owned(),
        instance_type: instance_type.to_owned(),
    };
    if !catalogue.locations.is_empty() {
        let mut known = catalogue.locations.iter().map(|l| l.name.as_str());
        let all = known.clone();
        place.location = known
            .find(|name| is_same(name, location))
            .ok_or_else(|| {
                let field = candidate.field("location");
                invalid(format!(
                    "{field}: the provider has no location {location:?}; it has {}{}; correct it",
                    listed_or_more(all.clone()),
                    did_you_mean(location, all)
                ))
            })?
            .to_owned();
    }
    if !catalogue.plans.is_empty() {
        let field = candidate.field("instanceType");
        let mut plans = catalogue.plans.iter();
        let Some(plan) = plans.find(|p| is_same(&p.name, instance_type)) else {
            let known = catalogue.plans.iter().map(|p| p.name.as_str());
            return Err(invalid(format!(
                "{field}: the provider has no type {instance_type:?}; it has {}{}; correct it",
                listed_or_more(known.clone()),
                did_you_mean(instance_type, known)
            )));
        };
        if !plan.locations.iter().any(|l| is_same(&l.name, location)) {
            return Err(invalid(format!(
                "{field}: {instance_type:?} is not offered at {location:?}; it is at {}; change one of the two",
                listed_or_more(plan.locations.iter().map(|l| l.name.as_str()))
            )));
        }
        place.instance_type.clone_from(&plan.name);
    }
    Ok(place)
}

fn is_offered(os: &OperatingSystem, catalogue: &Catalogue) -> Result<(), Cause> {
    let slug = &os.slug;
    let offered = catalogue.systems.iter();
    let offered = offered.filter(|s| s.for_servers && s.active && !s.slug.is_empty());
    let known = offered.map(|s| s.slug.as_str());
    if catalogue.systems.is_empty() || known.clone().any(|known| known == slug) {
        return Ok(());
    }
    Err(invalid(format!(
        "spec.os.slug: the provider has no system {slug:?}; it has {}{}; correct it",
        listed_or_more(known.clone()),
        did_you_mean(slug, known)
    )))
}

/// The names that the provider has; of a long list, where all of it is found.
fn listed_or_more<'a>(known: impl Iterator<Item = &'a str> + Clone) -> String {
    let more = match known.clone().collect::<BTreeSet<_>>().len() > MOST_NAMES {
        true => " (for all see \"Names at the provider\" in docs/troubleshooting.md)",
        false => "",
    };
    format!("{}{more}", listed(known))
}

/// Hash of what the spec asks for, by which a changed request is seen. Keys and texts count by where they lie, and keys
/// that are named also by their identifier: one that was stored again is another request.
pub fn request_hash(facts: &Facts) -> String {
    let spec = &facts.object.spec;
    let asked = json!([
        facts.hostname(),
        spec.location,
        spec.instance_type,
        spec.os,
        spec.ssh_keys,
        spec.tags,
        spec.contract_id,
        spec.overflow,
        spec.alternatives,
        spec.post_install_script,
        spec.user_data,
    ]);
    let mut hash = Sha256::new();
    hash.update(asked.to_string());
    for found in &facts.named_keys {
        if let Found::Ready(stored) = found {
            hash.update(stored.uuid.as_bytes());
        }
        hash.update([0]);
    }
    let digest = hash.finalize();
    digest.iter().take(8).map(|b| format!("{b:02x}")).collect()
}
