//! Reads the hardware listing and the root password of a server.

use crate::{
    client::Client,
    record::{self, DecodeError, Record},
};
use hosting_types::{
    error::Error,
    secret::SecretText,
    server::{HardwareListing, ServerId},
};

impl Client {
    /// The hardware of a server: `GET /v3/flexMetal/servers/{uuid}/lshw` (4.4-25). [`Error::NotFound`]: the account has
    /// no such server (4.4-28). [`Error::Undecodable`]: also for a listing over 128 KiB.
    pub async fn hardware_listing(&self, id: &ServerId) -> Result<HardwareListing, Error> {
        let path = ["flexMetal", "servers", id.as_str(), "lshw"];
        self.get(&path).await?.decode(|body| {
            let record = record::one(body)?;
            if !record.has("lshw") && !record.has("createdAt") {
                return Err("the answer is no hardware listing".to_owned());
            }
            Ok(HardwareListing {
                created_at: record.seconds("createdAt"),
                listing: record.tree("lshw"),
            })
        })
    }

    /// The root password of a Windows server, for 24 hours after the installation (2.11-3): `GET
    /// /v3/flexMetal/servers/{uuid}/rootPassword` (4.4-26). [`Error::NotFound`]: none, or no longer (4.4-27).
    pub async fn root_password(&self, id: &ServerId) -> Result<SecretText, Error> {
        let path = ["flexMetal", "servers", id.as_str(), "rootPassword"];
        self.get(&path)
            .await?
            .decode(|body| root_password(&record::one(body)?))
    }
}

fn root_password(record: &Record<'_>) -> Result<SecretText, DecodeError> {
    // Unchanged: a cleaned password would be a different one.
    match record.raw_text("rootPassword") {
        "" => Err("the answer holds no rootPassword".to_owned()),
        password => Ok(SecretText::new(password)),
    }
}
