//! The request that an order would send, checked against the catalogue, the quota and the API's rules.

use super::{
    super::facts::{Facts, ServerKey},
    stock,
    terms::is_same,
};
use crate::controllers::{cause::Cause, stored_keys::Found};
use crate::{
    account::{supply::Demand, view::Catalogue},
    kinds::{
        Reason,
        wording::{MOST_NAMES, did_you_mean, listed},
    },
};
use hosting::{
    Order,
    catalogue::PlanLocation,
    request::is_host_name,
    server::{SystemChoice, SystemFamily},
};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;

/// The request, checked against the catalogue and the API's rules.
pub fn request(
    facts: &Facts,
    catalogue: &Catalogue,
    ssh_keys: Vec<String>,
) -> Result<Order, Cause> {
    let spec = &facts.object.spec;
    let invalid = |message: String| Cause::needs_person(Reason::InvalidSpec, message);

    if !catalogue.locations.is_empty()
        && !catalogue
            .locations
            .iter()
            .any(|l| is_same(&l.name, &spec.location))
    {
        let known = catalogue.locations.iter().map(|l| l.name.as_str());
        return Err(invalid(format!(
            "spec.location: the provider has no location {:?}; it has {}{}; correct it",
            spec.location,
            names(known.clone()),
            did_you_mean(&spec.location, known)
        )));
    }
    if !catalogue.plans.is_empty() {
        let Some(plan) = catalogue
            .plans
            .iter()
            .find(|p| is_same(&p.name, &spec.instance_type))
        else {
            let known = catalogue.plans.iter().map(|p| p.name.as_str());
            return Err(invalid(format!(
                "spec.instanceType: the provider has no type {:?}; it has {}{}; correct it",
                spec.instance_type,
                names(known.clone()),
                did_you_mean(&spec.instance_type, known)
            )));
        };
        let offers = |l: &PlanLocation| is_same(&l.name, &spec.location);
        if !plan.locations.iter().any(offers) {
            return Err(invalid(format!(
                "spec.instanceType: {:?} is not offered at {:?}; it is at {}; change one of the two",
                spec.instance_type,
                spec.location,
                names(plan.locations.iter().map(|l| l.name.as_str()))
            )));
        }
    }
    let offered = |slug: &str| {
        catalogue
            .systems
            .iter()
            .any(|s| s.for_servers && s.active && s.slug == slug)
    };
    if !catalogue.systems.is_empty() && !offered(&spec.os.slug) {
        let known = catalogue
            .systems
            .iter()
            .filter(|s| s.for_servers && s.active && !s.slug.is_empty())
            .map(|s| s.slug.as_str())
            // Not those that would be refused next.
            .filter(|slug| beyond_slug(SystemFamily::of_slug(slug)).is_none());
        return Err(invalid(format!(
            "spec.os.slug: the provider has no system {:?}; it has {}{}; correct it",
            spec.os.slug,
            names(known.clone()),
            did_you_mean(&spec.os.slug, known)
        )));
    }
    if let Some(more) = beyond_slug(SystemFamily::of_slug(&spec.os.slug)) {
        return Err(invalid(format!(
            "spec.os.slug: {:?} needs {more} as well, which a BareMetalServer cannot give yet; choose another system",
            spec.os.slug
        )));
    }
    // The API asks this of one system only; here it holds for every server.
    if !is_host_name(facts.hostname()) {
        return Err(invalid(format!(
            "spec.hostname: {:?} is no host name: labels of 1 to 63 letters, digits and inner hyphens, joined by dots, 253 characters at most; set one",
            facts.hostname()
        )));
    }
    let order = Order {
        name: facts.hostname().into(),
        location: spec.location.clone(),
        instance_type: spec.instance_type.clone(),
        os: SystemChoice::of_slug(&spec.os.slug),
        ssh_keys,
        tags: spec.tags.clone(),
        contract_id: spec.contract_id.clone().filter(|c| !c.is_empty()),
        overflow: spec.overflow.unwrap_or(false),
        ..Order::default()
    };
    order
        .check()
        .map_err(|e| invalid(format!("{e}; correct the field of that name in spec")))?;
    match Demand::of(&order).lack(catalogue) {
        Some(lack) => Err(stock::cause(facts, lack)),
        None => Ok(order),
    }
}

/// What a system must be given besides its slug (2.8-14 and 2.8-16 of the API).
fn beyond_slug(family: SystemFamily) -> Option<&'static str> {
    match family {
        SystemFamily::Talos => Some("the kernel parameter siderolink.api"),
        SystemFamily::CustomIpxe => Some("the address of an iPXE script"),
        SystemFamily::Linux | SystemFamily::Windows => None,
    }
}

/// The names that the provider has; of a long list, where all of it is found.
fn names<'a>(known: impl Iterator<Item = &'a str> + Clone) -> String {
    let more = match known.clone().collect::<BTreeSet<_>>().len() > MOST_NAMES {
        true => " (for all see \"Names at the provider\" in docs/troubleshooting.md)",
        false => "",
    };
    format!("{}{more}", listed(known))
}

/// Hash of the keys that an order sends, by which later edits are seen.
pub fn keys_hash(keys: &[ServerKey]) -> String {
    let mut hash = Sha256::new();
    for key in keys {
        hash.update(key.known_by.as_bytes());
        hash.update([0]);
    }
    shown(hash)
}

/// Hash of what the spec asks for, by which a changed request is seen. Keys count by where they lie, and those that are
/// named also by their identifier: one that was stored again is another request.
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
    ]);
    let mut hash = Sha256::new();
    hash.update(asked.to_string());
    for found in &facts.named_keys {
        if let Found::Ready(stored) = found {
            hash.update(stored.uuid.as_bytes());
        }
        hash.update([0]);
    }
    shown(hash)
}

fn shown(hash: Sha256) -> String {
    let digest = hash.finalize();
    digest.iter().take(8).map(|b| format!("{b:02x}")).collect()
}
