//! What can be ordered: locations, plans and operating systems (sections 2.3, 2.5, 2.18, 4.3 and 4.8 of
//! `docs/contributing/hosting-api.md`).

use crate::{
    client::Client,
    record::{DecodeError, Record},
};
use hosting_types::{catalogue::*, error::Error};

impl Client {
    /// All locations: `GET /v3/flexMetal/location` (4.3-1).
    pub async fn locations(&self) -> Result<Vec<Location>, Error> {
        let answer = self.get_large(&["flexMetal", "location"]).await?;
        answer.decode_each(location)
    }

    /// All plans: `GET /v3/flexMetal/plans` (4.3-4).
    pub async fn plans(&self) -> Result<Vec<Plan>, Error> {
        let answer = self.get_large(&["flexMetal", "plans"]).await?;
        answer.decode_each(plan)
    }

    /// All operating systems, also those for dedicated hosts: `GET /v3/operatingsystem` (4.8-18).
    pub async fn operating_systems(&self) -> Result<Vec<OperatingSystem>, Error> {
        let answer = self.get_large(&["operatingsystem"]).await?;
        answer.decode_each(operating_system)
    }
}

pub(super) fn location(record: &Record<'_>) -> Result<Location, DecodeError> {
    Ok(Location {
        id: record.number("id"),
        name: record.required_name("name")?,
        short_name: record.text("shortName"),
        display_name: record.text("displayName"),
        country_id: record.number("countryId"),
        country_name: record.text("countryName"),
        country_short_name: record.text("countryShortName"),
    })
}

fn plan(record: &Record<'_>) -> Result<Plan, DecodeError> {
    let hardware = record.record("hardwareDetails");
    let one = |field: &str| {
        hardware
            .as_ref()
            .and_then(|hardware| hardware.record(field))
    };
    let many = |field: &str| {
        hardware
            .as_ref()
            .map(|hardware| hardware.records(field))
            .unwrap_or_default()
    };
    Ok(Plan {
        name: record.required_name("name")?,
        cpu: one("cpu").map(|cpu| Cpu {
            name: cpu.text("name"),
            base_clock: cpu.number("baseClock"),
            count: cpu.number("cpuCount"),
            cores: cpu.number("cpuCores"),
            total_cores: cpu.number("totalCores"),
        }),
        memory: one("memory").map(|memory| part(&memory, "type", "size")),
        disks: many("disks")
            .iter()
            .map(|disk| part(disk, "type", "size"))
            .collect(),
        network_interfaces: many("networkInterfaces")
            .iter()
            .map(|interface| Interfaces {
                kind: interface.text("type"),
                count: interface.number("count"),
            })
            .collect(),
        gpu: one("gpu").map(|gpu| part(&gpu, "name", "vram")),
        locations: record.records("locations").iter().map(at).collect(),
    })
}

fn part(record: &Record<'_>, kind: &str, size: &str) -> HardwarePart {
    HardwarePart {
        kind: record.text(kind),
        size: record.number(size),
    }
}

fn at(record: &Record<'_>) -> PlanLocation {
    PlanLocation {
        name: record.name("name"),
        data_centre: record.text("dcCode"),
        availability: Availability::parse(&record.text("availability")),
    }
}

fn operating_system(record: &Record<'_>) -> Result<OperatingSystem, DecodeError> {
    // The document shows no fields, so a missing switch does not exclude an entry.
    let flag = |field: &str| !record.is_given(field) || record.flag(field);
    let (id, slug) = (record.number("id"), record.name("slug"));
    if id.is_none() && slug.is_empty() {
        return Err("an operating system has neither id nor slug".to_owned());
    }
    Ok(OperatingSystem {
        id,
        name: record.text("name"),
        slug,
        group: record.number("osGroup").map(|group| match group {
            1 => SystemGroup::Windows,
            2 => SystemGroup::Unix,
            other => SystemGroup::Other(other),
        }),
        is_odp: record.flag("isOdp"),
        for_servers: flag("availableForFlexMetal"),
        active: flag("active"),
    })
}
