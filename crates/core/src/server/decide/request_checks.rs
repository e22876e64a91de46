//! The request of an order or a re-installation, checked against the catalogue, the quota and the API's rules.

use super::{
    super::facts::{Installation, ServerFacts},
    placement_candidates::{PlacementCandidate, list_candidates, sort_candidates},
    stock,
    terms::is_same,
};
use crate::{
    account::view::Catalogue,
    explanation::Explanation,
    stored_keys::KeyLookup,
    wording::{did_you_mean, listed},
};
use api::{Reason, installation::OperatingSystemSpec};
use hosting_types::{
    Order, SecretText,
    request::{InvalidRequest, is_host_name},
    server::{DiskWipe, Partition, PartitionSize, Reinstall, SystemChoice, SystemFamily},
};
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// The placement to order at: the first candidate that is available.
///
/// # Errors
/// What is wrong with the spec, as far as it was checked; or why no candidate is available now.
pub fn choose_placement(
    facts: &ServerFacts,
    catalogue: &Catalogue,
) -> Result<OrderPlacement, Explanation> {
    let spec = &facts.object.spec;
    if spec.os.is_none() {
        let first = list_candidates(spec).next();
        return Err(explain_mistakes(&find_mistakes(
            facts,
            catalogue,
            first.as_ref(),
        )));
    }
    let mut first_lack = None;
    let mut doubtful = None;
    let mut mistake = None;
    for candidate in sort_candidates(facts) {
        if candidate.alternative.is_none() {
            let wrong = find_mistakes(facts, catalogue, Some(&candidate));
            if !wrong.is_empty() {
                return Err(explain_mistakes(&wrong));
            }
        }
        // A mistake in an alternative counts only if no candidate is available: the provider may have dropped its type.
        let placement = match resolve_placement(catalogue, &candidate) {
            Ok(placement) => placement,
            Err(wrong) => {
                mistake.get_or_insert_with(|| explain_mistakes(&wrong));
                continue;
            }
        };
        let demand = candidate.demand(spec);
        match demand.find_shortage(catalogue) {
            Some(lack) => _ = first_lack.get_or_insert((candidate, lack)),
            None if demand.is_without_contract(catalogue) => _ = doubtful.get_or_insert(placement),
            None => return Ok(placement),
        }
    }
    match (doubtful, mistake, first_lack) {
        // The provider's answer decides.
        (Some(placement), ..) => Ok(placement),
        (None, Some(mistake), _) => Err(mistake),
        (None, None, Some((first, lack))) => Err(stock::explain_lack(facts, &first, lack)),
        // Only a spec that orders no server may leave them out.
        (None, None, None) => Err(explain_mistakes(&find_mistakes(facts, catalogue, None))),
    }
}

/// A field that cannot be used.
struct Mistake {
    /// The field to change. If several are named, one of them.
    field: String,
    /// What is wrong, with the nearest name.
    what: String,
    /// What is possible.
    possible: String,
}

impl Mistake {
    /// A name that the provider does not know.
    fn unknown<'a>(
        noun: &str,
        field: String,
        name: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        Self {
            field,
            what: format!(
                "Unknown {noun} {name:?}{}",
                did_you_mean(name, known.clone())
            ),
            possible: format!("Available at the provider: {}. ", listed(known)),
        }
    }

    /// A field that is not set.
    fn missing(field: &str, what: &str) -> Self {
        Self {
            field: field.to_owned(),
            what: format!("Missing {what}"),
            possible: String::new(),
        }
    }
}

/// All mistakes in one message. If there is only one, also what is possible.
fn explain_mistakes(all: &[Mistake]) -> Explanation {
    let end = |what: &str| if what.ends_with('?') { " " } else { ". " };
    let what = all.iter().map(|mistake| mistake.what.as_str());
    let what: String = what.flat_map(|what| [what, end(what)]).collect();
    let possible = match all {
        [one] => one.possible.as_str(),
        _ => "",
    };
    let fields: Vec<&str> = all.iter().map(|mistake| mistake.field.as_str()).collect();
    invalid(format!("{what}{possible}Correct {}", fields.join(", ")))
}

/// The mistakes in the spec's own placement, system and host name.
fn find_mistakes(
    facts: &ServerFacts,
    catalogue: &Catalogue,
    first: Option<&PlacementCandidate<'_>>,
) -> Vec<Mistake> {
    let mut all = match first {
        Some(first) => resolve_placement(catalogue, first)
            .err()
            .unwrap_or_default(),
        None => {
            let spec = &facts.object.spec;
            let location = Mistake::missing("spec.location", "location");
            let kind = Mistake::missing("spec.instanceType", "instance type");
            let location = spec.location.is_none().then_some(location);
            let kind = spec.instance_type.is_none().then_some(kind);
            location.into_iter().chain(kind).collect()
        }
    };
    match &facts.object.spec.os {
        Some(os) => all.extend(unknown_system(os, catalogue)),
        None => all.push(without_system()),
    }
    all.extend(wrong_host_name(facts));
    all
}

/// The API requires this for one system only. Here it applies to every server.
fn wrong_host_name(facts: &ServerFacts) -> Option<Mistake> {
    let name = facts.hostname();
    (!is_host_name(name)).then(|| Mistake {
        field: "spec.hostname".to_owned(),
        what: format!("Invalid host name {name:?}"),
        possible: "Use labels of 1 to 63 letters, digits and inner hyphens, joined by dots, 253 characters at most. ".to_owned(),
    })
}

/// A broken rule of the API, which names its own fields. The spec has the same names.
fn describe_in_spec(broken: &InvalidRequest) -> String {
    let said = broken.to_string();
    let fields = [
        "os.kernelParams",
        "os.partitions",
        "postInstallScript",
        "userData",
    ];
    match fields.iter().any(|field| said.starts_with(field)) {
        true => format!(
            "The request is invalid; spec.{said}. Correct it, or the Secret or ConfigMap that it names"
        ),
        false => format!("The request is invalid; {said}. Correct the field of that name in spec"),
    }
}

fn invalid(message: String) -> Explanation {
    Explanation::stalled(Reason::InvalidSpec, message)
}

/// The order, checked against the API's rules.
///
/// # Errors
/// Which rule is broken.
pub fn build_order(
    facts: &ServerFacts,
    at: &OrderPlacement,
    installation: &Installation,
) -> Result<Order, Explanation> {
    let order = assemble_order(facts, at, system_of(facts)?, installation);
    match order.check() {
        Ok(()) => Ok(order),
        Err(broken) => Err(invalid(describe_in_spec(&broken))),
    }
}

/// The re-installation, with everything from the spec, checked against the API's rules.
///
/// # Errors
/// Which rule is broken.
pub fn build_reinstall(
    facts: &ServerFacts,
    installation: &Installation,
) -> Result<Reinstall, Explanation> {
    let os = system_of(facts)?;
    let catalogue = facts.view().and_then(|view| view.catalogue.as_ref());
    let unknown = catalogue.and_then(|(_, catalogue)| unknown_system(os, catalogue));
    let wrong: Vec<Mistake> = unknown.into_iter().chain(wrong_host_name(facts)).collect();
    if !wrong.is_empty() {
        return Err(explain_mistakes(&wrong));
    }
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
        Err(broken) => Err(invalid(describe_in_spec(&broken))),
    }
}

fn keys_to_send(installation: &Installation) -> Vec<String> {
    let keys = installation.ssh_keys.iter();
    keys.map(|key| key.sent.clone()).collect()
}

fn script_to_send(os: &OperatingSystemSpec, installation: &Installation) -> Option<SecretText> {
    let script = installation.post_install_script.as_ref();
    script.map(|script| SystemFamily::of_slug(&os.slug).runnable(script))
}

/// The system in the spec. Only a spec that orders and installs nothing may leave it out.
fn system_of(facts: &ServerFacts) -> Result<&OperatingSystemSpec, Explanation> {
    let none = || explain_mistakes(&[without_system()]);
    facts.object.spec.os.as_ref().ok_or_else(none)
}

fn without_system() -> Mistake {
    Mistake::missing("spec.os", "operating system")
}

/// The system with its settings.
fn system(os: &OperatingSystemSpec, installation: &Installation) -> SystemChoice {
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

fn assemble_order(
    facts: &ServerFacts,
    at: &OrderPlacement,
    os: &OperatingSystemSpec,
    installation: &Installation,
) -> Order {
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

/// Location and instance type in the provider's spelling, which must match its case (2.7-22).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderPlacement {
    /// Name of the location.
    pub location: String,
    /// Name of the instance type.
    pub instance_type: String,
}

/// The provider's spelling of a candidate. Without a list in the catalogue, the provider's answer decides.
fn resolve_placement(
    catalogue: &Catalogue,
    candidate: &PlacementCandidate<'_>,
) -> Result<OrderPlacement, Vec<Mistake>> {
    let PlacementCandidate {
        location,
        instance_type,
        ..
    } = *candidate;
    let mut placement = OrderPlacement {
        location: location.to_owned(),
        instance_type: instance_type.to_owned(),
    };
    let mut wrong = Vec::new();
    if !catalogue.locations.is_empty() {
        let known = catalogue.locations.iter().map(|l| l.name.as_str());
        match known.clone().find(|name| is_same(name, location)) {
            Some(name) => name.clone_into(&mut placement.location),
            None => {
                let field = candidate.field("location");
                wrong.push(Mistake::unknown("location", field, location, known));
            }
        }
    }
    if !catalogue.plans.is_empty() {
        let field = candidate.field("instanceType");
        let mut plans = catalogue.plans.iter();
        match plans.find(|p| is_same(&p.name, instance_type)) {
            Some(plan) => {
                let is_there = plan.locations.iter().any(|l| is_same(&l.name, location));
                if wrong.is_empty() && !is_there {
                    let offered = plan.locations.iter().map(|l| l.name.as_str());
                    wrong.push(Mistake {
                        field: format!("{field} or {}", candidate.field("location")),
                        what: format!("No {instance_type:?} is offered at {location:?}"),
                        possible: format!("Offered at {}. ", listed(offered)),
                    });
                }
                placement.instance_type.clone_from(&plan.name);
            }
            None => {
                let known = catalogue.plans.iter().map(|p| p.name.as_str());
                wrong.push(Mistake::unknown(
                    "instance type",
                    field,
                    instance_type,
                    known,
                ));
            }
        }
    }
    match wrong.is_empty() {
        true => Ok(placement),
        false => Err(wrong),
    }
}

/// A system that the provider does not offer for servers.
fn unknown_system(os: &OperatingSystemSpec, catalogue: &Catalogue) -> Option<Mistake> {
    let slug = &os.slug;
    let offered = catalogue.systems.iter();
    let offered = offered.filter(|s| s.for_servers && s.active && !s.slug.is_empty());
    let known = offered.map(|s| s.slug.as_str());
    if catalogue.systems.is_empty() || known.clone().any(|known| known == slug) {
        return None;
    }
    let field = "spec.os.slug".to_owned();
    Some(Mistake::unknown("operating system", field, slug, known))
}

/// Hash of what the spec asks for, which shows a changed request. Keys and texts count by reference. Named keys also
/// count by UUID, so a key that was stored again changes it.
pub fn request_hash(facts: &ServerFacts) -> String {
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
        if let KeyLookup::Ready(stored) = found {
            hash.update(stored.uuid.as_bytes());
        }
        hash.update([0]);
    }
    let digest = hash.finalize();
    digest.iter().take(8).map(|b| format!("{b:02x}")).collect()
}
