//! Turns an answer on the wire into a body or an [`Error`].

use std::{fmt::Debug, time::Duration};

use http::{HeaderMap, StatusCode, header};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    body,
    page::PageToken,
    record::{self, Body, DecodeError, Record},
    redaction::Hidden,
    transport::{Caps, Cut, Response, TransportError},
};
use hosting_types::{
    error::{BoxError, Error, Interruption, NotSent},
    refusal::Refusal,
    secret::HIDDEN_WORDS,
};

/// The most entries of `errors` that are kept.
const FIELDS: usize = 16;

/// The most bytes of a host name that are shown.
const HOST: usize = 253;

/// The most bytes of a content type that are shown.
const TYPE: usize = 64;

/// The longest `Retry-After` that is honoured.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// A 2xx with its complete body.
pub(super) struct ApiAnswer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// Token of the next page, on paths that have one. An unusable token does not end the list; the caller decides.
    pub(super) next: Result<Option<PageToken>, DecodeError>,
    /// Secrets that no text of the body may show.
    hidden: Hidden,
    /// Whether the operation is idempotent.
    idempotent: bool,
    /// The content type, if it is not JSON.
    other_type: Option<String>,
    _decode_permit: Option<OwnedSemaphorePermit>,
}

impl ApiAnswer {
    /// Reads the body with `read`, which sees plain JSON.
    pub(super) fn decode<T>(
        &self,
        read: impl FnOnce(Body<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, Error> {
        let result = body::read_whole(&self.body, |value| read(Body::new(value, &self.hidden)));
        result.map_err(|why| self.misfit(why))
    }

    /// Reads a listing, each record with `read`.
    pub(super) fn decode_each<T: Debug>(
        &self,
        read: impl Fn(&Record<'_>) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, Error> {
        if !body::is_list(&self.body) {
            return self.decode(|body| record::all(body)?.iter().map(read).collect());
        }
        let records = body::read_list(&self.body, |value, index| {
            read(&record::entry(value, index, &self.hidden)?)
        });
        records.map_err(|why| self.misfit(why))
    }

    /// The success of an operation without a result (204): no body, or JSON that is not an error record. HTML is not
    /// from the API.
    pub(super) fn done(&self) -> Result<(), Error> {
        if self.is_empty() {
            return Ok(());
        }
        self.decode(record::no_error)
    }

    /// The success of an operation whose answer is not documented: nothing, or records, of which the first is read.
    pub(super) fn may_show<T: Default>(
        &self,
        read: impl FnOnce(&Record<'_>) -> T,
    ) -> Result<T, Error> {
        if self.is_empty() {
            return Ok(T::default());
        }
        self.decode(|body| {
            record::no_error(body)?;
            Ok(record::all(body)?.first().map(read).unwrap_or_default())
        })
    }

    fn is_empty(&self) -> bool {
        body::is_blank(&self.body) || self.body.trim_ascii() == b"null"
    }

    /// This answer does not fit the operation.
    pub(super) fn misfit(&self, why: DecodeError) -> Error {
        Error::Undecodable {
            status: self.status,
            why: match &self.other_type {
                Some(other) => format!("{why}; {}", not_json(other)),
                None => why,
            },
            idempotent: self.idempotent,
        }
    }
}

/// Classifies a failed exchange.
pub(super) fn broken(error: TransportError, idempotent: bool) -> Error {
    match error {
        TransportError::Build(cause) => Error::NotSent(NotSent::Build(cause)),
        TransportError::Connect(cause) => Error::NotSent(NotSent::Connect(cause)),
        TransportError::Interrupted(cause) => interrupted(cause, idempotent),
    }
}

fn interrupted(cause: BoxError, idempotent: bool) -> Error {
    Error::Interrupted(Interruption {
        source: cause,
        idempotent,
    })
}

/// Classifies an answer. The status decides first: a refusal stays a refusal even if its body was cut off.
pub(super) fn sort(
    response: Response,
    caps: Caps,
    hidden: Hidden,
    idempotent: bool,
) -> Result<ApiAnswer, Error> {
    let status = response.status;
    if status.is_success() {
        return match response.cut {
            None => Ok(ApiAnswer {
                status: status.as_u16(),
                body: response.body,
                next: page_token(&response.headers),
                other_type: other_type(&response.headers, &hidden),
                hidden,
                idempotent,
                _decode_permit: response.decode_permit,
            }),
            Some(Cut::TooLarge) => Err(Error::TooLarge { cap: caps.success }),
            Some(Cut::Broken(cause)) => Err(interrupted(cause, idempotent)),
        };
    }
    let refusal = Refusal {
        retry_after: retry_after(&response.headers),
        idempotent,
        ..refusal(status, &response.headers, &response.body, &hidden)
    };
    Err(match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Error::AccessDenied(refusal),
        StatusCode::NOT_FOUND => Error::NotFound(refusal),
        StatusCode::TOO_MANY_REQUESTS => Error::RateLimited(refusal),
        status if status.is_client_error() => Error::Refused(refusal),
        status if status.is_server_error() => Error::Server(refusal),
        _ => Error::Unexpected(refusal),
    })
}

fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8], hidden: &Hidden) -> Refusal {
    let mut refusal = Refusal {
        status: status.as_u16(),
        code: None,
        message: String::new(),
        fields: Vec::new(),
        retry_after: None,
        idempotent: false,
    };
    // Other bodies are not shown, since the base URL may lead to what its author cannot read. Invalid JSON is no error
    // here.
    let _ = body::read_whole(body, |value| {
        if let Some(record) = first(value, hidden).filter(is_error) {
            refusal.message = record.message("errorMessage");
            refusal.fields = fields(&record);
            if hidden.hides_words() {
                refusal.message = HIDDEN_WORDS.to_owned();
                refusal.fields = field_names(&record, hidden);
            } else {
                refusal.code = record.number("errorCode");
            }
        }
        Ok(())
    });
    if refusal.message.is_empty() && refusal.fields.is_empty() {
        refusal.message = status.canonical_reason().unwrap_or("no text").to_owned();
        if let Some(hint) = explain_wrong_endpoint(status, headers, hidden) {
            refusal.message = format!("{}; {hint}", refusal.message);
        }
    }
    refusal
}

/// Why the answer seems not to be from the hosting API: the base URL may be wrong.
fn explain_wrong_endpoint(
    status: StatusCode,
    headers: &HeaderMap,
    hidden: &Hidden,
) -> Option<String> {
    if status.is_redirection() {
        let to = headers.get(header::LOCATION)?.to_str().ok()?;
        let to = url::Url::parse(to).ok();
        let to = to.as_ref().and_then(url::Url::host_str);
        let to = to.map_or_else(|| "another path".to_owned(), |host| hidden.text(host, HOST));
        return Some(format!("it redirects to {to}; check baseURL"));
    }
    // A gateway in front of the API answers like this while the API is down.
    let may_be_short = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    let other = other_type(headers, hidden).filter(|_| !may_be_short)?;
    Some(not_json(&other))
}

fn not_json(other: &str) -> String {
    format!("the answer is {other}, not JSON; check baseURL")
}

/// The content type, if it is given and is not JSON.
fn other_type(headers: &HeaderMap, hidden: &Hidden) -> Option<String> {
    let content = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let content = content.split(';').next()?.trim().to_ascii_lowercase();
    (!content.is_empty() && !content.contains("json")).then(|| hidden.text(&content, TYPE))
}

/// The error record of a body: an object, or the first one of an array.
fn first<'a>(value: &'a Value, hidden: &'a Hidden) -> Option<Record<'a>> {
    match value {
        Value::Array(entries) => entries
            .iter()
            .find_map(|entry| Record::from_value(entry, hidden)),
        other => Record::from_value(other, hidden),
    }
}

/// Whether a record is an error record of the API (2.2).
fn is_error(record: &Record<'_>) -> bool {
    record.number("errorCode").is_some() || !record.raw_text("errorMessage").is_empty()
}

fn fields(record: &Record<'_>) -> Vec<(String, String)> {
    record
        .records("errors")
        .iter()
        .take(FIELDS)
        .map(|field| (field.message("property"), field.message("message")))
        .filter(|(property, message)| !property.is_empty() || !message.is_empty())
        .collect()
}

/// The request fields that an error record names, without its messages. Any other name may be a secret.
fn field_names(record: &Record<'_>, hidden: &Hidden) -> Vec<(String, String)> {
    let named = record.records("errors").into_iter().take(FIELDS);
    let named = named.map(|field| field.raw_text("property").to_owned());
    let is_field = |name: &String| {
        let mut parts = name.split(['.', '[', ']']).filter(|part| !part.is_empty());
        parts.all(|part| hidden.was_field(part) || part.parse::<u8>().is_ok())
    };
    let named = named.filter(|name| !name.is_empty() && is_field(name));
    named.map(|name| (String::new(), name)).collect()
}

/// The header `PAGE-TOKEN`.
fn page_token(headers: &HeaderMap) -> Result<Option<PageToken>, DecodeError> {
    let Some(token) = headers.get("page-token") else {
        return Ok(None);
    };
    let token = token.to_str().ok().map(str::trim);
    if token == Some("") {
        return Ok(None);
    }
    let expires = headers
        .get(header::EXPIRES)
        .and_then(|date| http_date(date.to_str().ok()?));
    match token.and_then(|token| PageToken::new(token, expires, now(headers))) {
        Some(token) => Ok(Some(token)),
        None => Err("the PAGE-TOKEN cannot be sent back".to_owned()),
    }
}

/// The API's own clock if the answer has it, so that a wrong clock in this process does not matter.
fn now(headers: &HeaderMap) -> jiff::Timestamp {
    date(headers).unwrap_or_else(jiff::Timestamp::now)
}

/// When the answer was made, by the API's clock in whole seconds.
pub(super) fn date(headers: &HeaderMap) -> Option<jiff::Timestamp> {
    http_date(headers.get(header::DATE)?.to_str().ok()?)
}

/// `Retry-After` in both forms: seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let wait = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match wait.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            // A date in the past means: now.
            Duration::try_from(http_date(wait)?.duration_since(now(headers))).unwrap_or_default()
        }
    };
    Some(wait.min(LONGEST_WAIT))
}

fn http_date(text: &str) -> Option<jiff::Timestamp> {
    jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(text)
        .ok()
}
