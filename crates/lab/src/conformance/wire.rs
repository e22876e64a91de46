//! Raw calls: their status, body and headers as they come, which the client hides.

use std::cell::RefCell;
use std::net::IpAddr;
use std::time::Duration;

use hosting_types::{BaseUrl, secret::ApiKey};
use http::{HeaderValue, Method};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::DrillError;

/// How often a call is made if it certainly had no effect, or is a read. The pauses double.
const ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_secs(1);
/// The longest `Retry-After` that is waited for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The most characters of a message of the API.
const MESSAGE: usize = 300;
/// The most refusals that the report lists.
const LISTED: usize = 60;

/// One raw call.
pub(super) struct RawCall<'a> {
    pub(super) method: Method,
    /// Segments after `/v3/`.
    pub(super) path: &'a [&'a str],
    pub(super) query: &'a [(&'a str, &'a str)],
    pub(super) range: Option<&'a str>,
    pub(super) body: Option<Value>,
    /// Use a key that does not exist.
    pub(super) wrong_key: bool,
}

impl<'a> RawCall<'a> {
    pub(super) fn new(method: Method, path: &'a [&'a str]) -> Self {
        Self {
            method,
            path,
            query: &[],
            range: None,
            body: None,
            wrong_key: false,
        }
    }

    pub(super) fn get(path: &'a [&'a str]) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn query(mut self, query: &'a [(&'a str, &'a str)]) -> Self {
        self.query = query;
        self
    }

    pub(super) fn range(mut self, range: &'a str) -> Self {
        self.range = Some(range);
        self
    }

    pub(super) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }
}

/// An answer.
pub(super) struct RawAnswer {
    pub(super) status: u16,
    pub(super) body: Value,
    pub(super) has_page_token: bool,
}

impl RawAnswer {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The record of a single answer, in an array or bare.
    pub(super) fn record(&self) -> &Value {
        match &self.body {
            Value::Array(records) => records.first().unwrap_or(&Value::Null),
            other => other,
        }
    }

    /// The records of a list.
    pub(super) fn records(&self) -> &[Value] {
        self.body.as_array().map_or(&[], Vec::as_slice)
    }

    /// A text of the record.
    pub(super) fn text(&self, field: &str) -> &str {
        self.record()[field].as_str().unwrap_or_default()
    }

    /// Whether an error record names a property that contains `part`.
    pub(super) fn names(&self, part: &str) -> bool {
        self.properties().any(|property| property.contains(part))
    }

    fn properties(&self) -> impl Iterator<Item = &str> {
        let fields = self.record()["errors"].as_array().into_iter().flatten();
        fields.filter_map(|field| field["property"].as_str())
    }

    /// The status and the named properties, for the report.
    pub(super) fn describe(&self) -> String {
        let named: Vec<&str> = self.properties().collect();
        match named.is_empty() {
            true => self.status.to_string(),
            false => format!("{} for {}", self.status, named.join(", ")),
        }
    }
}

/// Sends raw calls with the account's key.
pub(super) struct Wire {
    http: reqwest::Client,
    base_url: BaseUrl,
    key: HeaderValue,
    wrong_key: HeaderValue,
    refusals: RefCell<Vec<String>>,
}

impl Wire {
    pub(super) fn new(base_url: BaseUrl, key: &ApiKey) -> Result<Self, DrillError> {
        #[expect(clippy::disallowed_methods, reason = "this is the header")]
        let mut header = HeaderValue::from_str(key.expose()).map_err(DrillError::Key)?;
        header.set_sensitive(true);
        let wrong = format!("conformance-{}", uuid::Uuid::new_v4().simple());
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            // A change must never be repeated because a pooled connection was closed.
            .pool_max_idle_per_host(0)
            .timeout(hosting::CHANGE_TIMEOUT)
            .build()
            .map_err(DrillError::Http)?;
        Ok(Self {
            http,
            base_url,
            key: header,
            wrong_key: HeaderValue::from_str(&wrong).map_err(DrillError::Key)?,
            refusals: RefCell::default(),
        })
    }

    /// Makes a call. A read without an answer, and any call that the API answers with 429, is repeated a few times.
    ///
    /// # Errors
    /// No complete answer came.
    pub(super) async fn send(&self, call: RawCall<'_>) -> Result<RawAnswer, DrillError> {
        let mut attempt = 1;
        loop {
            let wait = match self.send_once(&call).await {
                Ok((answer, Some(wait))) if attempt < ATTEMPTS && answer.status == 429 => wait,
                Ok((answer, _)) => {
                    self.remember_refusal(&call, &answer);
                    return Ok(answer);
                }
                Err(_) if attempt < ATTEMPTS && call.method == Method::GET => {
                    PAUSE * 2_u32.pow(attempt - 1)
                }
                Err(error) => {
                    let operation = operation(&call);
                    return Err(DrillError::NoAnswer(operation, error.without_url()));
                }
            };
            attempt += 1;
            sleep(wait).await;
        }
    }

    async fn send_once(
        &self,
        call: &RawCall<'_>,
    ) -> Result<(RawAnswer, Option<Duration>), reqwest::Error> {
        let url = self.base_url.join(call.path, call.query);
        let key = if call.wrong_key {
            &self.wrong_key
        } else {
            &self.key
        };
        let mut request = self
            .http
            .request(call.method.clone(), url)
            .header("private-token", key);
        if let Some(range) = call.range {
            request = request.header("ranged-data", range);
        }
        if let Some(body) = &call.body {
            request = request.json(body);
        }
        let answer = request.send().await?;
        let headers = answer.headers();
        let seconds = headers.get(http::header::RETRY_AFTER);
        let seconds = seconds.and_then(|it| it.to_str().ok()?.trim().parse().ok());
        let pause = seconds
            .map_or(PAUSE, Duration::from_secs)
            .min(LONGEST_PAUSE);
        let has_page_token = headers.contains_key("page-token");
        let status = answer.status().as_u16();
        let body = answer.bytes().await?;
        let answer = RawAnswer {
            status,
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
            has_page_token,
        };
        Ok((answer, Some(pause)))
    }

    /// Remembers how the API refuses a call.
    fn remember_refusal(&self, call: &RawCall<'_>, answer: &RawAnswer) {
        if answer.is_success() {
            return;
        }
        let record = answer.record();
        let code = match record["errorCode"].as_i64() {
            Some(code) => format!("code {code}"),
            None => "no error record".to_owned(),
        };
        let message = record["errorMessage"].as_str().unwrap_or_default();
        let message = message.chars().filter(|it| !it.is_control()).take(MESSAGE);
        let (operation, named) = (operation(call), answer.describe());
        let line = format!(
            "{operation}: {named}, {code}: {}",
            String::from_iter(message)
        );
        let mut refusals = self.refusals.borrow_mut();
        if refusals.len() < LISTED && !refusals.contains(&line) {
            refusals.push(line);
        }
    }

    /// A text without the key and addresses.
    pub(super) fn scrub(&self, text: &str) -> String {
        scrub(text, &self.key)
    }

    /// The refusals so far, each once.
    pub(super) fn refusals(&self) -> Vec<String> {
        self.refusals.borrow().clone()
    }
}

/// Method and path, without identifiers.
fn operation(call: &RawCall<'_>) -> String {
    let segments = call.path.iter().map(|segment| {
        let is_own = segment.contains("conformance-") || segment.parse::<uuid::Uuid>().is_ok();
        if is_own { "{}" } else { segment }
    });
    let segments: Vec<&str> = segments.collect();
    format!("{} /v3/{}", call.method, segments.join("/"))
}

/// A text without what must not be in a report: the key, IP addresses and e-mail addresses.
fn scrub(text: &str, key: &HeaderValue) -> String {
    let text = match key.to_str() {
        Ok(key) => text.replace(key, "<key>"),
        Err(_) => return String::new(),
    };
    let lines = text.split('\n').map(|line| {
        let words = line.split(' ').map(|word| match has_address(word) {
            true => "<address>",
            false => word,
        });
        words.collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether a word has an IP address, also with a port or a prefix length, or an e-mail address.
fn has_address(word: &str) -> bool {
    let is_other = |it: char| !(it.is_ascii_hexdigit() || it == ':' || it == '.');
    let is_ip = |text: &str| text.parse::<IpAddr>().is_ok();
    let mut parts = word.split(is_other);
    word.contains('@')
        || parts.any(|part| {
            let part = part
                .trim_matches('.')
                .trim_start_matches(|it| it == ':' && !part.starts_with("::"));
            let before_port = part.split(':').next().unwrap_or_default();
            is_ip(part) || is_ip(part.trim_end_matches(':')) || is_ip(before_port)
        })
}

/// Waits for a state, with pauses that grow from 0.2 s to 5 s. None: not within the time.
pub(super) async fn poll<T>(
    within: Duration,
    mut probe: impl AsyncFnMut() -> Result<Option<T>, DrillError>,
) -> Result<Option<T>, DrillError> {
    let start = Instant::now();
    loop {
        if let Some(found) = probe().await? {
            return Ok(Some(found));
        }
        if start.elapsed() > within {
            return Ok(None);
        }
        let pause = (start.elapsed() / 8).clamp(Duration::from_millis(200), Duration::from_secs(5));
        sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_shows_neither_key_nor_address() {
        let key = HeaderValue::from_static("k-123");
        let words = "Key k-123 is refused from 192.0.2.7, (2001:db8::1)\nor owner@example.com.";
        assert_eq!(
            scrub(words, &key),
            "Key <key> is refused from <address> <address>\nor <address>"
        );
        for word in [
            "192.0.2.7/32,",
            "192.0.2.7:443",
            "from:192.0.2.7",
            "2001:db8::/32",
            "[2001:db8::]",
            "http://10.0.0.5:8480",
        ] {
            assert_eq!(scrub(word, &key), "<address>", "{word}");
        }
        let harmless = "3.5 of 4: created at 2026-11-01T12:00:01Z, version 1.2.3";
        assert_eq!(scrub(harmless, &key), harmless);
    }
}
