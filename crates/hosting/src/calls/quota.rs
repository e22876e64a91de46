//! How many servers may be ordered, and how many are (sections 2.14 and 4.7 of
//! `docs/contributing/hosting-api.md`).

use crate::{
    client::Client,
    record::{DecodeError, Record},
};
use hosting_types::{error::Error, quota::*};

impl Client {
    /// All quotas of the account: `GET /v3/flexMetal/quota/usage` (4.7-1). [`Error::Undecodable`]: also for a quota
    /// without a location.
    pub async fn quota_usage(&self) -> Result<Vec<LocationQuota>, Error> {
        let answer = self.get_large(&["flexMetal", "quota", "usage"]).await?;
        answer.decode_each(quota)
    }
}

fn quota(record: &Record<'_>) -> Result<LocationQuota, DecodeError> {
    // A quota without a location limits nothing, so it is not accepted.
    let location = record.inner_text("location", "name");
    if location.is_empty() {
        return Err("a quota has no location".to_owned());
    }
    Ok(LocationQuota {
        location_id: record.inner_number("location", "id"),
        location,
        usages: record
            .records("quotaUsage")
            .iter()
            .map(|usage| QuotaUsage {
                instance_type_id: usage.inner_number("instanceType", "id"),
                instance_type: usage.inner_text("instanceType", "name"),
                quota_type: usage.text("quotaType"),
                contract_id: usage.optional_text("contractId"),
                quota: usage.number("quota"),
                usage: usage.number("usage"),
            })
            .collect(),
    })
}
