//! Committed capacity and the instance types of a location, both deprecated in favour of plans and quotas (sections
//! 2.4, 2.16, 4.3 and 4.7 of `docs/contributing/hosting-api.md`).

use super::catalogue::location;
use crate::{
    client::Client,
    record::{DecodeError, Record},
};
use hosting_types::{capacity::*, error::Error, identity::LocationId};

impl Client {
    /// The instance types of a location, deprecated: `GET /v3/flexMetal/location/{locationId}/instanceTypes` (4.3-2).
    /// [`Error::NotFound`]: no such location (4.3-6).
    pub async fn instance_types(&self, location: LocationId) -> Result<Vec<InstanceType>, Error> {
        let location = location.to_string();
        let path = ["flexMetal", "location", location.as_str(), "instanceTypes"];
        let answer = self.get_large(&path).await?;
        answer.decode_each(instance_type)
    }

    /// All commitments, deprecated: `GET /v3/flexMetal/capacity/commit` (4.7-7).
    pub async fn capacity_commits(&self) -> Result<Vec<CapacityCommit>, Error> {
        let answer = self.get_large(&["flexMetal", "capacity", "commit"]).await?;
        answer.decode_each(capacity)
    }
}

fn instance_type(record: &Record<'_>) -> Result<InstanceType, DecodeError> {
    Ok(InstanceType {
        id: record.number("id"),
        location_id: record.number("locationId"),
        name: record.required_name("name")?,
        sockets: record.number("sockets"),
        cores: record.number("cores"),
        memory: record.number("memory"),
        memory_type: record.text("memoryType"),
        storage: record.number("storage"),
        storage_type: record.text("storageType"),
        generation_name: record.text("generationName"),
    })
}

fn capacity(record: &Record<'_>) -> Result<CapacityCommit, DecodeError> {
    let place = record
        .record("location")
        .ok_or_else(|| "a commitment has no location".to_owned())?;
    Ok(CapacityCommit {
        location: location(&place)?,
        commits: record
            .records("commits")
            .iter()
            .map(commit)
            .collect::<Result<_, _>>()?,
    })
}

fn commit(record: &Record<'_>) -> Result<Commit, DecodeError> {
    let kind = record
        .record("instanceType")
        .ok_or_else(|| "a commitment has no instanceType".to_owned())?;
    Ok(Commit {
        instance_type: instance_type(&kind)?,
        capacity: record.number("capacity"),
        in_use: record.number("inUse"),
    })
}
