//! Locations, plans, operating systems and quota (sections 4.3, 4.7 and 4.8).

use axum::Extension;
use axum::extract::{RawQuery, State};
use jiff::civil::Date;
use serde_json::{Value, json};

use super::super::answer::{Answer, Refusal};
use super::super::catalogue::OperatingSystem;
use super::super::profile::UsageDates;
use super::super::state::Period;
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

/// `GET /v3/flexMetal/quota/usage`
pub(super) async fn quota(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Outcome {
    let (world, _) = shared.settled();
    let account = &world.accounts[caller.0];
    Ok(Answer::list(
        account.quota.usage(&account.catalogue, account.taken()),
    ))
}

/// `GET /v3/flexMetal/usage`
pub(super) async fn usage(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Outcome {
    let mut days = [None, None];
    for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        let day = match name.as_ref() {
            _ if value.is_empty() => continue,
            "startDate" => &mut days[0],
            "endDate" => &mut days[1],
            _ => continue,
        };
        let read = Date::strptime("%Y-%m-%d", value.as_ref()).ok();
        let read = read.filter(|_| value.len() == "YYYY-MM-DD".len());
        *day = Some(read.ok_or_else(|| Refusal::breach(name, "must be a date, YYYY-MM-DD"))?);
    }
    let [first, last] = days;
    if first.zip(last).is_some_and(|(first, last)| last < first) {
        return Err(Refusal::breach("endDate", "must not be before startDate"));
    }
    let (world, now) = shared.settled();
    let period = match (first, last) {
        (None, None) if world.switches.usage_dates == UsageDates::Month => Period::month(now),
        (first, last) => Period::new(first, last),
    };
    let records = world.accounts[caller.0].usage(period, now, &world.switches);
    Ok(Answer::list(records))
}

/// `GET /v3/flexMetal/capacity/commit`
pub(super) async fn commits(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Outcome {
    let (world, _) = shared.settled();
    let account = &world.accounts[caller.0];
    let records = account.quota.commits(&account.catalogue, account.taken());
    Ok(Answer::list(records))
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
