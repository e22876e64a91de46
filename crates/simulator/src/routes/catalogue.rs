//! What can be ordered: locations, plans and operating systems (sections 4.3 and
//! 4.8); and the health of the API (4.9).

use axum::Extension;
use axum::extract::State;
use serde_json::{Value, json};

use super::super::answer::{Answer, Refusal};
use super::super::catalogue::OperatingSystem;
use super::super::world::{Caller, Shared};
use super::{Outcome, Path};

/// `GET /v3/flexMetal/location`
pub(super) async fn locations(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Outcome {
    let world = shared.lock();
    let locations = world.accounts[caller.0].catalogue.locations.iter();
    Ok(Answer::list(
        locations
            .map(super::super::catalogue::Location::record)
            .collect(),
    ))
}

/// `GET /v3/flexMetal/location/{locationId}/instanceTypes`
pub(super) async fn instance_types(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(location): Path<String>,
) -> Outcome {
    let world = shared.lock();
    let catalogue = &world.accounts[caller.0].catalogue;
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
pub(super) async fn plans(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Outcome {
    let (world, _) = shared.settled();
    let account = &world.accounts[caller.0];
    let plans = account.catalogue.instance_types.iter().map(|kind| {
        let offers = account.catalogue.offers.iter().map(|(offer, _)| *offer);
        let here = offers.filter(|offer| offer.instance_type == kind.id);
        let locations: Vec<Value> = here
            .filter_map(|offer| {
                let places = &account.catalogue.locations;
                let place = places.iter().find(|place| place.id == offer.location)?;
                Some(place.in_plan(account.quota.availability(offer, account.taken())))
            })
            .collect();
        kind.plan(&locations)
    });
    Ok(Answer::list(plans.collect()))
}

/// `GET /v3/health`
pub(super) async fn health() -> Outcome {
    Ok(Answer::bare(json!({"status": "OK"})))
}

/// `GET /v3/operatingsystem`
pub(super) async fn systems(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Outcome {
    let world = shared.lock();
    let systems = world.accounts[caller.0].catalogue.systems.iter();
    Ok(Answer::list(systems.map(OperatingSystem::record).collect()))
}
