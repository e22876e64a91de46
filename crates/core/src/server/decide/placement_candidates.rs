//! Where an order may go: the placement of the spec, then its alternatives, in this order.

use super::{super::facts::ServerFacts, terms::is_same};
use crate::account::order_supply::Demand;
use api::server::{BareMetalServerSpec, OrderRecord, Replaced};
use hosting_types::ServerStatus;

/// A location and an instance type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementCandidate<'a> {
    /// Index in `spec.alternatives`; None: the spec's own placement.
    pub alternative: Option<usize>,
    /// Name of the location.
    pub location: &'a str,
    /// Name of the instance type.
    pub instance_type: &'a str,
}

impl PlacementCandidate<'_> {
    /// Path of this field in the spec.
    pub fn field(&self, name: &str) -> String {
        match self.alternative {
            None => format!("spec.{name}"),
            Some(index) => format!("spec.alternatives[{index}].{name}"),
        }
    }

    /// The demand of an order for it.
    pub fn demand(&self, spec: &BareMetalServerSpec) -> Demand {
        Demand::new(
            self.location,
            self.instance_type,
            spec.contract_id.as_deref(),
            spec.overflow.unwrap_or(false),
        )
    }

    /// Whether this is the same placement.
    pub fn matches(&self, location: &str, instance_type: &str) -> bool {
        is_same(self.location, location) && is_same(self.instance_type, instance_type)
    }
}

/// The spec's own placement. Only a spec that orders no server may leave it out.
fn first(spec: &BareMetalServerSpec) -> Option<PlacementCandidate<'_>> {
    Some(PlacementCandidate {
        alternative: None,
        location: spec.location.as_deref()?,
        instance_type: spec.instance_type.as_deref()?,
    })
}

/// All candidates, with the spec's own placement first.
pub fn list_candidates(
    spec: &BareMetalServerSpec,
) -> impl Iterator<Item = PlacementCandidate<'_>> + Clone {
    let first = first(spec).into_iter();
    first.flat_map(move |first| {
        let others = spec.alternatives.iter().enumerate();
        let others = others.map(move |(index, other)| PlacementCandidate {
            alternative: Some(index),
            location: other.location.as_deref().unwrap_or(first.location),
            instance_type: other
                .instance_type
                .as_deref()
                .unwrap_or(first.instance_type),
        });
        std::iter::once(first).chain(others)
    })
}

/// All candidates in the order of trial: a placement where a server of this object failed comes last.
pub fn sort_candidates(facts: &ServerFacts) -> Vec<PlacementCandidate<'_>> {
    let status = facts.object.status.as_ref();
    let replaced = status.map_or(&[][..], |s| &s.replaced_servers);
    let is_failed = |r: &&Replaced| ServerStatus::parse(&r.provider_status) == ServerStatus::Failed;
    let failures = |c: &PlacementCandidate<'_>| {
        let failed = replaced.iter().filter(is_failed);
        failed
            .filter(|r| c.matches(&r.location, &r.instance_type))
            .count()
    };
    let mut all: Vec<PlacementCandidate<'_>> = list_candidates(&facts.object.spec).collect();
    all.sort_by_key(failures);
    all
}

/// The candidate that this order was for. The first one if the record names none, or none of the present ones.
pub fn find_ordered_candidate<'a>(
    spec: &'a BareMetalServerSpec,
    record: &OrderRecord,
) -> Option<PlacementCandidate<'a>> {
    let recorded = record
        .location
        .as_deref()
        .zip(record.instance_type.as_deref());
    let is_ordered =
        |c: &PlacementCandidate<'_>| recorded.is_some_and(|(at, of)| c.matches(at, of));
    list_candidates(spec)
        .find(is_ordered)
        .or_else(|| first(spec))
}
