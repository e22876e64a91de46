//! Which parameters a request to the control port may have. A misspelt one
//! must not be ignored: the judge would check something else, and find nothing.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::Method;

use super::Unfollowed;

const LEDGER: &[&str] = &["method", "path", "since", "account", "machine", "format"];
const INVARIANTS: &[&str] = &["prefix", "account"];
const ACCOUNT: &[&str] = &["account"];

/// Lets a request through unless a name in its query means nothing there.
pub(super) async fn guard(request: Request, next: Next) -> Response {
    let known = known(request.method(), request.uri().path());
    let query = request.uri().query().unwrap_or_default();
    let mut names = url::form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name);
    let unknown = names.find(|name| !known.contains(&name.as_ref()));
    match unknown {
        Some(name) => refused(&name, known).into_response(),
        None => next.run(request).await,
    }
}

fn known(method: &Method, path: &str) -> &'static [&'static str] {
    let path = path.strip_prefix("/_simulator/").unwrap_or_default();
    let subject = path.split('/').next().unwrap_or_default();
    match (method, subject) {
        (&Method::GET, "ledger") if path == subject => LEDGER,
        (&Method::GET, "invariants") => INVARIANTS,
        (_, "machines") | (&Method::POST, "hosts" | "quota" | "availability" | "keys") => ACCOUNT,
        _ => &[],
    }
}

fn refused(name: &str, known: &[&str]) -> Unfollowed {
    let known = match known {
        [] => "there are none".to_owned(),
        known => format!("there are {}", known.join(", ")),
    };
    Unfollowed::Value(format!("no parameter {name:?} here: {known}"))
}
