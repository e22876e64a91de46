//! Who may steer: everybody who reaches the control port, but no page of
//! another site in the browser of somebody who does.

use axum::Json;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Method, StatusCode};
use serde_json::json;

/// Lets a request through unless a browser says that another site sends it.
/// Looking is free: a browser does not show the answer to the other site.
pub(super) async fn guard(request: Request, next: Next) -> Response {
    let looking = matches!(*request.method(), Method::GET | Method::HEAD);
    if looking || own(request.headers()) {
        return next.run(request).await;
    }
    let error = json!({"error": "not from a page of another site"});
    (StatusCode::FORBIDDEN, Json(error)).into_response()
}

/// Programs name no origin; a browser names the one of the page.
fn own(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else {
        return true;
    };
    let page = origin.to_str().ok();
    let page = page.and_then(|origin| Some(origin.split_once("://")?.1));
    let here = headers.get(HOST).and_then(|host| host.to_str().ok());
    page.is_some() && page == here
}
