//! The bytes of an answer, read as JSON within a limit of memory.

use serde_json::Value;

use super::record::Misfit;

/// Reads a whole body, of at most `cap` bytes.
pub(super) fn read(bytes: &[u8], cap: usize) -> Result<Value, Misfit> {
    if is_blank(bytes) {
        return Err("the body is empty".to_owned());
    }
    if takes_too_much(bytes, cap) {
        return Err("the body has more values than any answer".to_owned());
    }
    // The parser's message has the position and no text of the body.
    serde_json::from_slice(bytes).map_err(|error| format!("the body is not JSON: {error}"))
}

pub(super) fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_whitespace)
}

/// Whether the tree of a body would take many times the memory of its text:
/// some hundred bytes for each object, however small. Limits the tree to about
/// twenty times the cap.
fn takes_too_much(bytes: &[u8], cap: usize) -> bool {
    let (mut objects, mut entries) = (0_usize, 0_usize);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => objects += 1,
            b',' if !is_text => entries += 1,
            _ => {}
        }
    }
    objects > cap / 64 || entries > cap / 8
}
