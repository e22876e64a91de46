//! What the API answers: the envelope around records, and the error record.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{DATE, EXPIRES};
use serde::Serialize;
use serde_json::{Value, json};

use super::clock::Moment;
use super::page::PAGE_TOKEN;
use super::profile::{SingleAnswer, Switches};

/// Codes of the error record. Only the one for a missing entity is known from
/// the API; the others are our choice and stable.
pub(crate) mod code {
    /// Nothing of that name exists (seen in clients).
    pub(crate) const NOT_FOUND: i64 = 10_001;
    /// The body is not a JSON object.
    pub(crate) const INVALID_BODY: i64 = 10_002;
    /// The key is missing, unknown or revoked.
    pub(crate) const INVALID_CREDENTIALS: i64 = 10_003;
    /// A rule about a field is broken.
    pub(crate) const VALIDATION: i64 = 10_004;
    /// The state of the entity does not allow it.
    pub(crate) const CONFLICT: i64 = 10_005;
    /// Quota used up, or nothing in stock.
    pub(crate) const EXHAUSTED: i64 = 10_006;
    /// The path exists, the method does not.
    pub(crate) const METHOD: i64 = 10_007;
    /// Too many attempts.
    pub(crate) const THROTTLED: i64 = 10_008;
    /// Caused by a fault.
    pub(crate) const FAULT: i64 = 10_999;
}

/// What a request changed, for the ledger; attached to the answer.
#[derive(Clone, Debug)]
pub(crate) struct Effect(pub(crate) Value);

/// A successful answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Already serialised: records may borrow from the account.
    response: Response,
    effect: Option<Effect>,
    onward: Option<Onward>,
}

/// Token of the next page.
#[derive(Debug)]
pub(crate) struct Onward {
    pub(crate) token: String,
    pub(crate) now: Moment,
    pub(crate) until: Moment,
}

impl Answer {
    fn new(response: impl IntoResponse) -> Self {
        Self {
            response: response.into_response(),
            effect: None,
            onward: None,
        }
    }

    /// Several records.
    pub(crate) fn list(records: Vec<impl Serialize>) -> Self {
        Self::new(Json(records))
    }

    /// One record, in the envelope that the switches ask for.
    pub(crate) fn one(record: impl Serialize, switches: &Switches) -> Self {
        match switches.single_answer {
            SingleAnswer::Array => Self::list(vec![record]),
            SingleAnswer::Object => Self::bare(record),
        }
    }

    /// One record that never comes in an array.
    pub(crate) fn bare(record: impl Serialize) -> Self {
        Self::new(Json(record))
    }

    /// Done, nothing to show.
    pub(crate) fn empty() -> Self {
        Self::new(StatusCode::NO_CONTENT)
    }

    /// The same answer, with the token of the next page.
    pub(crate) fn leading_to(self, onward: Option<Onward>) -> Self {
        Self { onward, ..self }
    }

    /// The same answer, with what it changed.
    pub(crate) fn changing(self, effect: Value) -> Self {
        Self {
            effect: Some(Effect(effect)),
            ..self
        }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = self.response;
        let headers = response.headers_mut();
        if let Some(Onward { token, now, until }) = self.onward
            && let (Ok(token), Ok(now), Ok(until)) = (
                token.parse(),
                now.http_date().parse(),
                until.http_date().parse(),
            )
        {
            headers.insert(PAGE_TOKEN, token);
            // Both by the same clock, or a driven one would seem long expired.
            headers.insert(DATE, now);
            headers.insert(EXPIRES, until);
        }
        if let Some(effect) = self.effect {
            response.extensions_mut().insert(effect);
        }
        response
    }
}

/// One broken rule about one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    pub(crate) property: String,
    pub(crate) message: String,
}

/// Most broken rules in one record: a body of one megabyte can break half a
/// million, and the record would be many times longer than the body.
pub(crate) const TOLD: usize = 100;

/// A refusal: a status and the error record. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    code: i64,
    message: String,
    pub(crate) errors: Vec<Breach>,
}

impl Refusal {
    /// A refusal without single fields to blame.
    pub(crate) fn new(status: StatusCode, code: i64, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            errors: Vec::new(),
        }
    }

    /// The same refusal with another code in its record.
    pub(crate) fn coded(self, code: i64) -> Self {
        Self { code, ..self }
    }

    /// 404: nothing has that name.
    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, code::NOT_FOUND, "Entity not found")
    }

    /// 400: it cannot be read.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::INVALID_BODY, message)
    }

    /// 409: the state does not allow it.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code::CONFLICT, message)
    }

    /// 422: the state does not allow it.
    pub(crate) fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code::CONFLICT, message)
    }

    /// 422 with the broken rules.
    pub(crate) fn breaches(errors: Vec<Breach>) -> Self {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Self {
            errors,
            ..Self::new(status, code::VALIDATION, "Validation failed")
        }
    }

    /// 422 with one broken rule.
    pub(crate) fn breach(property: impl Into<String>, message: impl Into<String>) -> Self {
        Self::breaches(vec![Breach {
            property: property.into(),
            message: message.into(),
        }])
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let errors: Vec<Value> = self
            .errors
            .into_iter()
            .map(|breach| json!({"property": breach.property, "message": breach.message}))
            .collect();
        let record =
            json!({"errorCode": self.code, "errorMessage": self.message, "errors": errors});
        (self.status, Json(record)).into_response()
    }
}
