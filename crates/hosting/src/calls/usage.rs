//! What servers have used (sections 2.15 and 4.7 of `docs/contributing/hosting-api.md`).

use super::server::decode;
use crate::{
    client::{Call, Client},
    record::{DecodeError, Record},
};
use hosting_types::{error::Error, request::InvalidRequest, usage::*};
use http::Method;
use jiff::civil::Date;

impl Client {
    /// What all servers have used from the first to the last of these days: `GET /v3/flexMetal/usage` (4.7-2). Without
    /// days the API chooses. [`Error::NotSent`]: the end is before the start. [`Error::Refused`]: 405 or 422 (4.7-5).
    pub async fn usage(&self, start: Option<Date>, end: Option<Date>) -> Result<Vec<Usage>, Error> {
        if let (Some(start), Some(end)) = (start, end)
            && end < start
        {
            return Err(InvalidRequest::Dates.into());
        }
        let [start, end] = [start, end].map(|date| date.map(|date| date.to_string()));
        let mut call = Call::new(Method::GET, &["flexMetal", "usage"]).large();
        if let Some(start) = &start {
            call = call.query("startDate", start);
        }
        if let Some(end) = &end {
            call = call.query("endDate", end);
        }
        let answer = self.call(call).await?;
        answer.decode_each(usage)
    }
}

fn usage(record: &Record<'_>) -> Result<Usage, DecodeError> {
    let server = record
        .record("server")
        .ok_or_else(|| "a usage record has no server".to_owned())?;
    Ok(Usage {
        server: decode::server(&server)?,
        started_at: record.time("startedAt"),
        ended_at: record.time("endedAt"),
        total_hours: record.number("totalHours"),
        total_minutes: record.number("totalMinutes"),
        bandwidth_in: record.number("bandwidthIn"),
        bandwidth_out: record.number("bandwidthOut"),
        total_egress_bytes: record.number("totalEgressBytes"),
    })
}
