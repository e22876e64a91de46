//! The base URL of an account's API, and how paths are joined to it.

use std::fmt;

use url::{Host, Url};

/// The longest accepted base URL, in bytes, since status shows it.
const LONGEST: usize = 1024;

/// The base URL of the hosting API, without the version: `https://host[/prefix]`. Stored without a slash at the end, so
/// that two spellings of one address are equal.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BaseUrl {
    url: Url,
    text: String,
}

/// Why a text is not a usable base URL. Each message names `baseURL` and the remedy, and never repeats the text, which
/// may contain a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BaseUrlError {
    /// Not an absolute URL with a host.
    #[error("baseURL is not an absolute URL; write it as https://host")]
    NotAUrl,
    /// Neither https nor http.
    #[error("baseURL has a scheme other than https; write it as https://host")]
    Scheme,
    /// More than 1024 bytes as it is stored.
    #[error(
        "baseURL has more than {LONGEST} bytes as stored (percent-encoded, & as six); write it as https://host"
    )]
    TooLong,
    /// A user name or password in front of the host.
    #[error("baseURL has user information; remove it, the key belongs in the Secret")]
    UserInfo,
    /// A query or fragment at the end.
    #[error("baseURL has a query or a fragment; remove everything from ? or # on")]
    QueryOrFragment,
    /// The version prefix is part of it.
    #[error("baseURL ends with the version; remove /v3, every call adds it")]
    Version,
}

impl BaseUrl {
    /// Reads an https or http base URL; the module `dial` of the client decides whether it may be dialled. Err: the
    /// field and the remedy.
    pub fn parse(text: &str) -> Result<Self, BaseUrlError> {
        if text.len() > LONGEST {
            return Err(BaseUrlError::TooLong);
        }
        let mut url = Url::parse(text.trim()).map_err(|_| BaseUrlError::NotAUrl)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BaseUrlError::UserInfo);
        }
        match url.scheme() {
            "https" | "http" => {}
            _ => return Err(BaseUrlError::Scheme),
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(BaseUrlError::QueryOrFragment);
        }
        let path = url.path().trim_end_matches('/').to_owned();
        if path == "/v3" || path.ends_with("/v3") {
            return Err(BaseUrlError::Version);
        }
        url.set_path(&path);
        let text = url.as_str().trim_end_matches('/').to_owned();
        // Percent-encoding makes non-ASCII longer, and the API server stores `&` as six bytes.
        if text.len() + 5 * text.matches('&').count() > LONGEST {
            return Err(BaseUrlError::TooLong);
        }
        Ok(Self { url, text })
    }

    /// Reads a base URL from the bytes of a Secret. Err: the field and the remedy.
    pub fn parse_bytes(bytes: &[u8]) -> Result<Self, BaseUrlError> {
        if bytes.len() > LONGEST {
            return Err(BaseUrlError::TooLong);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| BaseUrlError::NotAUrl)?;
        Self::parse(text)
    }

    /// The URL, without a slash at the end.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is plain http.
    pub fn is_plain(&self) -> bool {
        self.url.scheme() == "http"
    }

    /// Its host: a name or an address.
    pub fn host(&self) -> Option<Host<&str>> {
        self.url.host()
    }

    /// The URL of `/v3/` and the segments, each encoded as one segment. A segment must not be `.` or `..`: URLs drop
    /// these, so a call for one record would become a call for all.
    pub fn join(&self, segments: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.url.clone();
        // A URL with a host always has path segments.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push("v3").extend(segments);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BaseUrl({})", self.text)
    }
}
