//! Quota, usage and committed capacity (section 4.7).

use axum::Extension;
use axum::extract::{RawQuery, State};
use jiff::civil::Date;

use super::super::answer::{Answer, Refusal};
use super::super::profile::UsageDates;
use super::super::state::Period;
use super::super::world::{Caller, Shared};
use super::Outcome;

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
