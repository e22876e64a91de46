//! Usage (section 2.15) and what the account pays for now.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::civil::Date;
use serde_json::{Value, json};

use super::super::clock::Moment;
use super::super::profile::{BandwidthOut, Switches, UsageOpenEnd};
use super::Account;
use super::machine::Machine;
use super::status::Status;

/// The days that a report covers; open where absent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Period {
    pub(crate) from: Option<Moment>,
    pub(crate) until: Option<Moment>,
}

impl Period {
    /// The month of a moment.
    pub(crate) fn month(now: Moment) -> Self {
        let seconds = i64::try_from(now.unix()).unwrap_or_default();
        let today = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
        let today = today.to_zoned(jiff::tz::TimeZone::UTC).date();
        Self::new(Some(today.first_of_month()), Some(today.last_of_month()))
    }

    /// From the start of one day to the end of another, in UTC.
    pub(crate) fn new(first: Option<Date>, last: Option<Date>) -> Self {
        let start = |date: Date| {
            let zoned = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
            let seconds = u64::try_from(zoned.timestamp().as_second()).ok()?;
            Some(Moment::from_unix(seconds))
        };
        Self {
            from: first.and_then(start),
            until: last.and_then(|date| start(date.tomorrow().ok()?)),
        }
    }
}

/// Minutes, rounded up: 59 s are billed as an hour.
fn minutes(span: Duration) -> u64 {
    let minutes = span.as_micros().div_ceil(60_000_000);
    u64::try_from(minutes).unwrap_or(u64::MAX)
}

/// When it was used: from its delivery until its release.
fn used(machine: &Machine, now: Moment) -> Option<(Moment, Option<Moment>)> {
    let from = machine.entered(Status::Delivered, now)?;
    let mut ends = machine.history.iter().filter(|step| step.at <= now);
    let end = ends.find(|step| step.at >= from && !step.status.live());
    Some((from, end.map(|step| step.at)))
}

impl Account {
    /// The records of machines used within a period, oldest first.
    pub(crate) fn usage(&self, period: Period, now: Moment, switches: &Switches) -> Vec<Value> {
        let records = self.machines.iter().filter_map(|machine| {
            let (began, ended) = used(machine, now)?;
            let from = period.from.map_or(began, |from| began.max(from));
            let mut until = ended.unwrap_or(now);
            until = period.until.map_or(until, |last| until.min(last));
            let outside = until < from || period.from.is_some_and(|first| until < first);
            if outside || machine.hidden {
                return None;
            }
            let minutes = minutes(until.since(from));
            let open = ended.is_none() && until == now;
            let ended_at = match switches.usage_open_end {
                UsageOpenEnd::Null if open => Value::Null,
                _ => json!(until.iso()),
            };
            // Steady traffic, different from machine to machine, in bytes.
            let rate = u64::from(machine.uuid.as_bytes().last().copied().unwrap_or_default()) + 1;
            let mut record = json!({
                "server": machine.record(now, &self.catalogue, switches),
                "startedAt": from.iso(),
                "endedAt": ended_at,
                // Every started hour is billed.
                "totalHours": minutes.div_ceil(60),
                "totalMinutes": minutes,
                "bandwidthIn": minutes.saturating_mul(rate * 1_000_000),
                "totalEgressBytes": minutes.saturating_mul(rate * 4_000_000),
            });
            if switches.bandwidth_out == BandwidthOut::Show {
                record["bandwidthOut"] = record["totalEgressBytes"].clone();
            }
            Some(record)
        });
        records.collect()
    }

    /// What is being paid for: machines by type, and the hours so far.
    pub(crate) fn paying(&self, now: Moment) -> Value {
        let mut types: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
        for machine in &self.machines {
            let Some((from, None)) = used(machine, now) else {
                continue;
            };
            let kind = self.catalogue.kind(machine.offer.instance_type);
            let entry = types.entry(kind.map_or("", |kind| &kind.name)).or_default();
            entry.0 += 1;
            entry.1 += minutes(now.since(from)).div_ceil(60);
        }
        let machines: usize = types.values().map(|(number, _)| number).sum();
        let types: BTreeMap<_, _> = types
            .into_iter()
            .map(|(name, (number, hours))| (name, json!({"machines": number, "hours": hours})))
            .collect();
        json!({"account": self.name, "machines": machines, "instanceTypes": types})
    }
}
