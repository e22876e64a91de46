//! Whether the API reports itself healthy (sections 2.23 and 4.9 of
//! `docs/contributing/hosting-api.md`).

use crate::{client::Client, record};
use hosting_types::{error::Error, health::*};

impl Client {
    /// The health of the API: `GET /v3/health` (4.9-1). It needs no key, so it says nothing about the key.
    /// [`Error::Server`]: 503 while the API is down (4.9-2).
    pub async fn health(&self) -> Result<Health, Error> {
        self.get(&["health"]).await?.decode(|body| {
            let status = record::one(body)?.required_text("status")?;
            Ok(match status.as_str() {
                "OK" => Health::Ok,
                "FAIL" => Health::Fail,
                _ => Health::Other(status),
            })
        })
    }
}
