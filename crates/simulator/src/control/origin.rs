//! Who may read and change things: everybody who reaches the control port, but no
//! page of another site in such a person's browser.

use std::net::IpAddr;

use axum::Json;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::json;

/// Message for a change that another site sends.
const FOREIGN_PAGE: &str = "not from a page of another site";
/// Message for a host name that could be anybody's.
const FOREIGN_NAME: &str = "ask by an IP address or localhost, as in http://127.0.0.1:8481, \
    or send the header Host: localhost: behind another name the page of a stranger could hide";

/// Lets a request through unless a browser could be sending it for another
/// site. Reads are allowed: a browser does not show the answer to the other site.
pub(super) async fn guard(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let looking = matches!(*request.method(), Method::GET | Method::HEAD);
    let error = if !headers.get_all(HOST).iter().all(is_address) {
        FOREIGN_NAME
    } else if !looking && !own(headers) {
        FOREIGN_PAGE
    } else {
        return next.run(request).await;
    };
    (StatusCode::FORBIDDEN, Json(json!({"error": error}))).into_response()
}

/// Whether a host is an IP address or `localhost`. The owner of any other name can
/// point it at this machine after serving a page from another one (DNS rebinding):
/// the browser then treats both as one site. A program need not send a host.
fn is_address(host: &HeaderValue) -> bool {
    let text = host.to_str().ok();
    let authority = text.and_then(|text| text.parse::<Authority>().ok());
    authority.is_some_and(|authority| {
        let name = authority.host();
        let bare = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        name.eq_ignore_ascii_case("localhost") || bare.unwrap_or(name).parse::<IpAddr>().is_ok()
    })
}

/// Programs send no origin; a browser sends that of the page.
fn own(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else {
        return true;
    };
    let page = origin.to_str().ok();
    let page = page.and_then(|origin| Some(origin.split_once("://")?.1));
    let here = headers.get(HOST).and_then(|host| host.to_str().ok());
    page.is_some() && page == here
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_no_names() {
        for (host, address) in [
            ("127.0.0.1", true),
            ("127.0.0.1:8481", true),
            ("192.0.2.7:80", true),
            ("[::1]:8481", true),
            ("[::1]", true),
            ("localhost", true),
            ("LocalHost:8481", true),
            ("evil.example", false),
            ("evil.example:8481", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
            ("127.0.0.1 evil.example", false),
        ] {
            let header = HeaderValue::from_str(host).unwrap();
            assert_eq!(is_address(&header), address, "{host:?}");
        }
    }
}
