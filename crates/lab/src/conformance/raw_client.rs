//! Raw calls: their status, body and headers as they come, which the client hides.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::Write;
use std::time::Duration;

use hosting_types::{BaseUrl, secret::ApiKey};
use http::{HeaderValue, Method};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::sleep;

use super::{DrillError, masking::mask};

/// How often a call is made at most, if it certainly had no effect or is a read.
const ATTEMPTS: u32 = 6;
/// The pause after a 429 without `Retry-After`. After a read without an answer, it doubles with each attempt.
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
    /// How often the call is made at most.
    attempts: u32,
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
            attempts: ATTEMPTS,
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

    pub(super) fn once(mut self) -> Self {
        self.attempts = 1;
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

/// The UUID of a record, which is safe as a path segment.
pub(super) fn uuid(record: &Value) -> Option<String> {
    let text = record["uuid"].as_str()?;
    text.parse::<uuid::Uuid>().ok()?;
    Some(text.to_owned())
}

/// Sends raw calls with the account's key.
pub(super) struct RawClient {
    http: reqwest::Client,
    base_url: BaseUrl,
    key: HeaderValue,
    wrong_key: HeaderValue,
    refusals: RefCell<Vec<String>>,
    /// The signal that ends the drill, once it has arrived. The clean-up has none, so that signals do not end it.
    pub(super) interrupt: Option<watch::Receiver<Option<&'static str>>>,
}

/// A list of more pages has no end.
const MAX_PAGES: u32 = 1000;

impl RawClient {
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
            interrupt: None,
        })
    }

    /// Makes a call. A read without an answer, and any call that the API answers with 429, is repeated a few times
    /// unless it is to be made once.
    ///
    /// # Errors
    /// [`DrillError::Interrupted`]: a signal arrived, and a change certainly had no effect. Otherwise no complete answer
    /// came.
    pub(super) async fn send(&self, call: RawCall<'_>) -> Result<RawAnswer, DrillError> {
        let mut attempt = 1;
        loop {
            // A signal cancels a read. A change ends first, because its outcome must be known.
            let answered = if call.method == Method::GET {
                self.unless_interrupted(self.send_once(&call)).await?
            } else {
                self.unless_interrupted(std::future::ready(())).await?;
                self.send_once(&call).await
            };
            let wait = match answered {
                Ok((answer, wait)) if attempt < call.attempts && answer.status == 429 => wait,
                Ok((answer, _)) => {
                    self.remember_refusal(&call, &answer);
                    return Ok(answer);
                }
                Err(_) if attempt < call.attempts && call.method == Method::GET => {
                    PAUSE * 2_u32.pow(attempt - 1)
                }
                Err(error) => {
                    let operation = operation(&call);
                    return Err(DrillError::NoAnswer(operation, error.without_url()));
                }
            };
            attempt += 1;
            self.unless_interrupted(sleep(wait)).await?;
        }
    }

    /// The result of work that has no effect, unless a signal arrives first.
    pub(super) async fn unless_interrupted<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, DrillError> {
        let Some(mut interrupt) = self.interrupt.clone() else {
            return Ok(work.await);
        };
        tokio::select! {
            biased;
            Ok(signal) = interrupt.wait_for(Option::is_some) => {
                Err(DrillError::Interrupted(signal.unwrap_or_default()))
            }
            done = work => Ok(done),
        }
    }

    /// All records of a list, each once. Reads pages until one has nothing new, or fails after [`MAX_PAGES`].
    pub(super) async fn list_all(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Vec<Value>, DrillError> {
        let (mut all, mut known) = (Vec::new(), HashSet::new());
        for _ in 0..MAX_PAGES {
            let range = format!("start={},results=50", all.len());
            let call = RawCall::get(path).query(query).range(&range);
            let name = operation(&call);
            let answer = self.send(call).await?;
            let records = match &answer.body {
                // An error may be an array, too.
                Value::Array(records) if answer.is_success() => records,
                _ => {
                    let why = format!("{name}: {}", answer.describe());
                    return Err(DrillError::Refused(why));
                }
            };
            let count = all.len();
            for record in records {
                if known.insert(format!("{} {}", record["uuid"], record["tag"])) {
                    all.push(record.clone());
                }
            }
            if all.len() == count {
                return Ok(all);
            }
        }
        let why = format!("{}: more than {MAX_PAGES} pages", path.join("/"));
        Err(DrillError::Refused(why))
    }

    async fn send_once(&self, call: &RawCall<'_>) -> Result<(RawAnswer, Duration), reqwest::Error> {
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
        Ok((answer, pause))
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

    /// Prints progress without the key and addresses to standard error, which may already be closed.
    pub(super) fn print_progress(&self, line: &str) {
        let _ = writeln!(std::io::stderr(), "conformance: {}", self.mask(line));
    }

    /// A text without the key and addresses.
    pub(super) fn mask(&self, text: &str) -> String {
        mask(text, &self.key)
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
