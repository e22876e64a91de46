//! The stored SSH key. Its private half is dropped at once, so nobody can log in to the server.

use http::Method;
use serde_json::json;

use super::raw_client::{RawAnswer, RawCall, uuid};
use super::{Drill, DrillError};
use crate::demo::ssh_key::in_one_line;

impl Drill {
    /// Stores the key, and tries a second one of the same name.
    pub(super) async fn store_key(&mut self) -> Result<(), DrillError> {
        let stored = self.send_key().await?;
        if !stored.is_success() {
            return Err(DrillError::Refused(format!(
                "the SSH key: {}",
                stored.describe()
            )));
        }
        let second = self.send_key().await?;
        self.record_status(
            "duplicateKeyName",
            &second,
            &[(200, "accept"), (422, "refuse422")],
        );
        Ok(())
    }

    async fn send_key(&mut self) -> Result<RawAnswer, DrillError> {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519)
            .map_err(|error| DrillError::Call(error.to_string()))?;
        let body = json!({"name": self.run_name, "publicKey": in_one_line(pair.public_key_raw())});
        let call = RawCall::new(Method::POST, &["sshKey"]).body(body);
        let answer = self.raw.send(call).await?;
        if answer.is_success() {
            self.keys.extend(uuid(answer.record()));
        }
        Ok(answer)
    }

    /// The UUID of the first stored key, as orders and re-installations name it.
    pub(super) fn key(&self) -> &str {
        self.keys.first().map_or("", String::as_str)
    }
}
