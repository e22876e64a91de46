//! The password of the account (section 4.2 of `docs/contributing/hosting-api.md`). Nothing here is printed, and echoed
//! passwords are masked.

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
    /// [`Error::AccessDenied`] with 401: the current password is wrong (4.2-3). [`Error::RateLimited`]: too many logins
    /// (4.2-4), so do not retry a wrong password.
    pub async fn change_password(
        &self,
        current: &SecretText,
        new: &SecretText,
    ) -> Result<(), Error> {
        check_password("currentPassword", current)?;
        check_password("newPassword", new)?;
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

    /// Starts a reset: `POST /v3/account/password/reset` (4.2-5). The API mails a hash to this address, the account's
    /// main one. [`Error::Refused`] with 422: the user is logged in (4.2-7).
    pub async fn reset_password(&self, email_address: &str) -> Result<(), Error> {
        if !is_email_address(email_address) {
            return Err(InvalidRequest::EmailAddress.into());
        }
        let path = ["account", "password", "reset"];
        let call = Call::new(Method::POST, &path).json(&ResetBody { email_address })?;
        self.call(call).await?.done()
    }

    /// Completes a reset with the mailed hash: `PUT /v3/account/password/reset/validate` (4.2-8).
    ///
    /// # Errors
    /// [`Error::Forbidden`]: a wrong hash (4.2-10) or key. [`Error::Refused`] with 422: the user is logged in (4.2-7).
    pub async fn validate_password_reset(
        &self,
        new: &SecretText,
        reset_hash: &SecretText,
    ) -> Result<(), Error> {
        check_password("newPassword", new)?;
        check_password("resetHash", reset_hash)?;
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
fn check_password(field: &'static str, secret: &SecretText) -> Result<(), Error> {
    if secret.expose().is_empty() {
        return Err(InvalidRequest::Empty { field }.into());
    }
    Ok(())
}

/// Finds only obvious mistakes.
fn is_email_address(text: &str) -> bool {
    text.len() <= 254
        && !text
            .chars()
            .any(|letter| letter.is_whitespace() || letter.is_control())
        && text
            .rsplit_once('@')
            .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty())
}
