//! Faults in the bytes of an answer.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::response::Response;
use futures::{StreamExt, stream};
use http::HeaderValue;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use serde_json::Value;
use uuid::Uuid;

use super::faults::{Fault, Harm};

/// Longest answer that the simulator itself gives.
const LONGEST: usize = 64 * 1024 * 1024;

/// Applies the faults to the body.
pub(crate) async fn mangle(response: Response, harm: &Harm) -> Response {
    let mut response = response;
    for fault in &harm.0 {
        response = match fault {
            Fault::Truncate => truncated(response).await,
            Fault::EmptyBody => with_body(response, Body::empty()),
            Fault::Body { text, content_type } => written(response, text, content_type),
            Fault::Oversize { bytes } => oversized(response, *bytes),
            Fault::UpperCase => shouted(response).await,
            _ => response,
        };
    }
    response
}

fn with_body(response: Response, body: Body) -> Response {
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, body)
}

/// A text that is not the API's, as a proxy in between would send.
fn written(response: Response, text: &str, content_type: &str) -> Response {
    let mut response = with_body(response, Body::from(text.to_owned()));
    if let Ok(kind) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    response
}

/// With its identifiers in capital letters.
async fn shouted(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let whole = to_bytes(body, LONGEST).await.unwrap_or_default();
    let Ok(mut record) = serde_json::from_slice::<Value>(&whole) else {
        return Response::from_parts(parts, Body::from(whole));
    };
    shout(&mut record);
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(record.to_string()))
}

fn shout(value: &mut Value) {
    match value {
        Value::String(text) if Uuid::try_parse(text).is_ok() => text.make_ascii_uppercase(),
        Value::Array(all) => all.iter_mut().for_each(shout),
        Value::Object(fields) => fields.values_mut().for_each(shout),
        _ => {}
    }
}

/// Announces the whole length, sends half and closes.
async fn truncated(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let Ok(whole) = to_bytes(body, LONGEST).await else {
        return Response::from_parts(parts, Body::empty());
    };
    parts
        .headers
        .insert(CONTENT_LENGTH, HeaderValue::from(whole.len()));
    let half = whole.slice(..whole.len() / 2);
    let broken = async {
        // Lets the first half leave the socket's buffer; an immediate error would
        // lose the head and that half.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Err(io::Error::from(io::ErrorKind::ConnectionAborted))
    };
    let pieces = stream::once(async { Ok(half) }).chain(stream::once(broken));
    Response::from_parts(parts, Body::from_stream(pieces))
}

/// Blanks before the real body, which stays readable for a client that reads all.
fn oversized(response: Response, bytes: u64) -> Response {
    const PIECE: usize = 64 * 1024;
    static BLANKS: [u8; PIECE] = [b' '; PIECE];
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    let pieces = bytes.div_ceil(u64::try_from(PIECE).unwrap_or(u64::MAX));
    let blanks = stream::iter(0..pieces).map(|_| Ok(Bytes::from_static(&BLANKS)));
    Response::from_parts(
        parts,
        Body::from_stream(blanks.chain(body.into_data_stream())),
    )
}
