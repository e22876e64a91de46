//! The password of the account (section 4.2 of `docs/contributing/hosting-api.md`).
//!
//! Nothing here is printed, and an answer that echoes a password is shown without it.

use crate::client::{Call, Client};
use hosting_types::{error::Error, request::InvalidRequest, secret::SecretText};
use http::Method;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChangeBody<'a> {
    current_password: &'a str,
    new_password: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResetBody<'a> {
    email_address: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ValidateBody<'a> {
    new_password: &'a str,
    reset_hash: &'a str,
}

impl Client {
    /// Changes the password: `PUT /v3/account/password` (4.2-1).
    ///
    /// # Errors
    ///
    /// [`Error::AccessDenied`] with 401 where the current password is wrong
    /// (4.2-3); [`Error::RateLimited`] after too many
    /// logins (4.2-4), so a wrong password must not be tried again.
    pub async fn change_password(
        &self,
        current: &SecretText,
        new: &SecretText,
    ) -> Result<(), Error> {
        given("currentPassword", current)?;
        given("newPassword", new)?;
        let body = ChangeBody {
            current_password: current.expose(),
            new_password: new.expose(),
        };
        let path = ["account", "password"];
        let call = Call::new(Method::PUT, &path)
            .hiding([current.clone(), new.clone()])
            .json(&body)?;
        self.call(call).await?.done()
    }

    /// Starts a reset: `POST /v3/account/password/reset` (4.2-5). A hash is
    /// sent to this address, which must be the account's main one.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] with 422 where the user is logged in (4.2-7).
    pub async fn reset_password(&self, email_address: &str) -> Result<(), Error> {
        if !is_email_address(email_address) {
            return Err(InvalidRequest::EmailAddress.into());
        }
        let path = ["account", "password", "reset"];
        let call = Call::new(Method::POST, &path).json(&ResetBody { email_address })?;
        self.call(call).await?.done()
    }

    /// Completes a reset with the hash from the mail:
    /// `PUT /v3/account/password/reset/validate` (4.2-8).
    ///
    /// # Errors
    ///
    /// [`Error::Forbidden`] for a wrong hash (4.2-10) or key,
    /// [`Error::Refused`] with 422 where the user is logged in (4.2-7).
    pub async fn validate_password_reset(
        &self,
        new: &SecretText,
        reset_hash: &SecretText,
    ) -> Result<(), Error> {
        given("newPassword", new)?;
        given("resetHash", reset_hash)?;
        let body = ValidateBody {
            new_password: new.expose(),
            reset_hash: reset_hash.expose(),
        };
        let path = ["account", "password", "reset", "validate"];
        let call = Call::new(Method::PUT, &path)
            .hiding([new.clone(), reset_hash.clone()])
            .json(&body)?;
        self.call(call).await?.done()
    }
}

/// A password of blanks is allowed, an empty one is not.
fn given(field: &'static str, secret: &SecretText) -> Result<(), Error> {
    if secret.expose().is_empty() {
        return Err(InvalidRequest::Empty { field }.into());
    }
    Ok(())
}

/// Only finds an obvious mix-up.
fn is_email_address(text: &str) -> bool {
    text.len() <= 254
        && !text
            .chars()
            .any(|letter| letter.is_whitespace() || letter.is_control())
        && text
            .rsplit_once('@')
            .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty())
}
