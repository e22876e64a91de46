//! A small WebDriver client for Chromium. The usual library enables `preserve_order` of `serde_json` in the whole
//! build, so the programs under test would differ from the shipped ones.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};

/// Time limit of a command: a browser's first start on a busy computer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The protocol's JSON field of an element's ID.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

#[derive(Debug, thiserror::Error)]
pub(crate) enum BrowserError {
    #[error("ChromeDriver cannot be asked")]
    Unreachable(#[from] reqwest::Error),
    #[error("ChromeDriver refused {command}: {message}")]
    Refused { command: String, message: String },
    #[error("ChromeDriver answered {command} without {what}")]
    Unreadable { command: String, what: &'static str },
}

/// A browser window.
pub(crate) struct Browser {
    http: reqwest::Client,
    session: String,
}

impl Browser {
    /// Opens a window of this size, without background requests to the network.
    pub(crate) async fn open(
        port: u16,
        profile: &Path,
        (width, height): (u32, u32),
    ) -> Result<Self, BrowserError> {
        let flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-proxy-server",
            "--force-device-scale-factor=1",
            &format!("--user-data-dir={}", profile.display()),
            &format!("--window-size={width},{height}"),
        ];
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"args": flags},
        }}});
        let mut browser = Self {
            http: reqwest::Client::builder()
                .no_proxy()
                .timeout(REQUEST_TIMEOUT)
                .build()?,
            session: format!("http://127.0.0.1:{port}/session"),
        };
        let opened = browser.ask(Method::POST, "", capabilities).await?;
        let id = text(&opened["sessionId"], "", "a session's id")?;
        browser.session = format!("{}/{id}", browser.session);
        Ok(browser)
    }

    /// Ends the browser. Otherwise the driver keeps it running.
    pub(crate) async fn close(self) -> Result<(), BrowserError> {
        self.ask(Method::DELETE, "", Value::Null).await?;
        Ok(())
    }

    pub(crate) async fn go_to(&self, url: &str) -> Result<(), BrowserError> {
        self.ask(Method::POST, "/url", json!({"url": url})).await?;
        Ok(())
    }

    /// Whether the page has a visible element for this XPath.
    pub(crate) async fn shows(&self, path: &str) -> Result<bool, BrowserError> {
        let element = self.find(path).await?;
        let command = format!("/element/{element}/displayed");
        let shown = self.ask(Method::GET, &command, Value::Null).await?;
        Ok(shown == Value::Bool(true))
    }

    /// Clicks the element for this XPath.
    pub(crate) async fn press(&self, path: &str) -> Result<(), BrowserError> {
        let element = self.find(path).await?;
        let command = format!("/element/{element}/click");
        self.ask(Method::POST, &command, json!({})).await?;
        Ok(())
    }

    /// A screenshot of the window, as a PNG.
    pub(crate) async fn picture(&self) -> Result<Vec<u8>, BrowserError> {
        let command = "/screenshot";
        let picture = self.ask(Method::GET, command, Value::Null).await?;
        let picture = text(&picture, command, "a picture")?;
        STANDARD
            .decode(picture)
            .map_err(|_| unreadable(command, "base64"))
    }

    async fn find(&self, path: &str) -> Result<String, BrowserError> {
        let command = "/element";
        let wanted = json!({"using": "xpath", "value": path});
        let found = self.ask(Method::POST, command, wanted).await?;
        text(&found[ELEMENT], command, "an element's id")
    }

    /// Sends one command and returns its result.
    async fn ask(&self, method: Method, path: &str, body: Value) -> Result<Value, BrowserError> {
        let mut request = self.http.request(method, format!("{}{path}", self.session));
        if !body.is_null() {
            request = request.json(&body);
        }
        let mut answer: Value = request.send().await?.json().await?;
        let value = answer["value"].take();
        if value.get("error").is_some() {
            return Err(BrowserError::Refused {
                command: path.to_owned(),
                message: value["message"].as_str().unwrap_or_default().to_owned(),
            });
        }
        Ok(value)
    }
}

fn text(value: &Value, command: &str, what: &'static str) -> Result<String, BrowserError> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| unreadable(command, what))
}

fn unreadable(command: &str, what: &'static str) -> BrowserError {
    BrowserError::Unreadable {
        command: command.to_owned(),
        what,
    }
}
