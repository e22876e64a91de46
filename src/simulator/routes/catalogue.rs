//! Locations, plans, operating systems and quota (sections 4.3, 4.7 and 4.8).

use axum::extract::{Path, State};
use serde_json::Value;

use super::super::answer::{Answer, Refusal};
use super::super::catalogue::OperatingSystem;
use super::super::world::Shared;
use super::Outcome;

/// `GET /v3/flexMetal/location`
pub(super) async fn locations(State(shared): State<Shared>) -> Outcome {
    let world = shared.lock();
    let locations = world.account.catalogue.locations.iter();
    Ok(Answer::list(
        locations
            .map(super::super::catalogue::Location::record)
            .collect(),
    ))
}

/// `GET /v3/flexMetal/location/{locationId}/instanceTypes`
pub(super) async fn instance_types(
    State(shared): State<Shared>,
    Path(location): Path<String>,
) -> Outcome {
    let world = shared.lock();
    let catalogue = &world.account.catalogue;
    let known = location
        .parse()
        .ok()
        .filter(|id| catalogue.locations.iter().any(|place| place.id == *id));
    let location: u32 = known.ok_or_else(Refusal::not_found)?;
    let offers = catalogue
        .offers
        .iter()
        .filter(|(offer, _)| offer.location == location);
    let records = offers.filter_map(|(offer, _)| {
        let kind = catalogue
            .instance_types
            .iter()
            .find(|kind| kind.id == offer.instance_type)?;
        Some(kind.record(location))
    });
    Ok(Answer::list(records.collect()))
}

/// `GET /v3/flexMetal/plans`
pub(super) async fn plans(State(shared): State<Shared>) -> Outcome {
    let (world, _) = shared.settled();
    let account = &world.account;
    let plans = account.catalogue.instance_types.iter().map(|kind| {
        let offers = account.catalogue.offers.iter().map(|(offer, _)| *offer);
        let here = offers.filter(|offer| offer.instance_type == kind.id);
        let locations: Vec<Value> = here
            .filter_map(|offer| {
                let places = account.catalogue.locations;
                let place = places.iter().find(|place| place.id == offer.location)?;
                Some(place.in_plan(account.quota.availability(offer, account.machines())))
            })
            .collect();
        kind.plan(&locations)
    });
    Ok(Answer::list(plans.collect()))
}

/// `GET /v3/flexMetal/quota/usage`
pub(super) async fn quota(State(shared): State<Shared>) -> Outcome {
    let (world, _) = shared.settled();
    let account = &world.account;
    Ok(Answer::list(
        account.quota.usage(&account.catalogue, account.machines()),
    ))
}

/// `GET /v3/operatingsystem`
pub(super) async fn systems(State(shared): State<Shared>) -> Outcome {
    let world = shared.lock();
    let systems = world.account.catalogue.systems.iter();
    Ok(Answer::list(systems.map(OperatingSystem::record).collect()))
}
