//! Which requests a rule applies to.

use serde::{Deserialize, Serialize};

/// Start of every path of the API.
const ROOT: &str = "/v3";

/// Which requests a rule matches. An absent field matches all.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Pattern {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    /// The whole path, or its start when it ends in `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Part of the query as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    /// Part of the body as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// The account of the key that it was sent with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    account: Option<String>,
}

/// A request as rules see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    /// The path as the API knows it; `None` when it does not.
    pub(crate) template: Option<&'static str>,
    pub(crate) query: &'a str,
    pub(crate) body: &'a [u8],
    /// The account of its key; `None` when no account has it.
    pub(crate) account: Option<&'a str>,
}

impl Pattern {
    /// Why no request can ever have this path.
    pub(super) fn flaw(&self) -> Option<&'static str> {
        let path = self.path.as_deref()?;
        let start = path.strip_suffix('*');
        let (text, open) = (start.unwrap_or(path), start.is_some());
        if text.contains('*') {
            Some("path can have * at its end only")
        } else if text.contains(['{', '}']) {
            Some("path must be a real path, or the start of one and *; {…} is not a placeholder")
        } else if text.contains('?') {
            Some("path must not contain a query: use the field query")
        } else if !(text.starts_with(ROOT) || open && ROOT.starts_with(text)) {
            Some("path must begin with /v3")
        } else {
            None
        }
    }

    pub(super) fn picks(&self, request: Candidate<'_>) -> bool {
        let method = self.method.as_deref();
        let path = self
            .path
            .as_deref()
            .is_none_or(|path| match path.strip_suffix('*') {
                Some(start) => request.path.starts_with(start),
                // Requests arrive here without a trailing slash.
                None => request.path == path.trim_end_matches('/'),
            });
        let body = self.body.as_deref();
        method.is_none_or(|method| request.method.eq_ignore_ascii_case(method))
            && path
            && self
                .query
                .as_deref()
                .is_none_or(|part| request.query.contains(part))
            && body.is_none_or(|part| String::from_utf8_lossy(request.body).contains(part))
            && (self.account.as_deref()).is_none_or(|account| request.account == Some(account))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pattern_picks_by_all_that_it_names() {
        let request = Candidate {
            method: "GET",
            path: "/v3/a",
            template: None,
            query: "tag=x",
            body: b"{\"name\":\"n\"}",
            account: Some("one"),
        };
        for (pattern, picked) in [
            (json!({}), true),
            (json!({"method": "get"}), true),
            (json!({"method": "POST"}), false),
            (json!({"path": "/v3/a"}), true),
            (json!({"path": "/v3/a/"}), true),
            (json!({"path": "/v3"}), false),
            (json!({"path": "/v3/*"}), true),
            (json!({"query": "tag=x"}), true),
            (json!({"query": "tag=y"}), false),
            (json!({"body": "\"n\""}), true),
            (json!({"body": "\"m\"", "path": "/v3/a"}), false),
            (json!({"account": "one"}), true),
            (json!({"account": "two", "path": "/v3/a"}), false),
        ] {
            let read: Pattern = serde_json::from_value(pattern.clone()).unwrap();
            assert_eq!(read.picks(request), picked, "{pattern}");
        }
    }

    #[test]
    fn impossible_path_pattern_names_its_flaw() {
        let flaw = |path: &str| {
            let read: Pattern = serde_json::from_value(json!({"path": path})).unwrap();
            read.flaw()
        };
        for good in ["/v3/flexMetal/servers/", "/v3/a*", "/v3*", "/v*", "*"] {
            assert_eq!(flaw(good), None, "{good}");
        }
        for (bad, word) in [
            ("/v3/flexMetal/servers/*/commands", "end"),
            ("/v3/a**", "end"),
            ("/v3/flexMetal/servers/{uuid}", "{…}"),
            ("/v3/flexMetal/servers?tag=a", "query"),
            ("flexMetal/servers", "/v3"),
            ("/v4*", "/v3"),
            ("", "/v3"),
        ] {
            assert!(flaw(bad).is_some_and(|told| told.contains(word)), "{bad}");
        }
    }
}
