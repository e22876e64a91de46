//! Whether the API reports itself healthy (sections 2.23 and 4.9 of
//! `docs/contributing/hosting-api.md`).

/// Health as the API reports it (2.23-1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// `OK`
    Ok,
    /// `FAIL`
    Fail,
    /// Another word.
    Other(String),
}
