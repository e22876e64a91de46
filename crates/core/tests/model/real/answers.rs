//! Answers of the provider that did not give what was asked for, as the client returns them.

use hosting_types::{Error, Refusal, error::Interruption};

pub fn refusal(status: u16) -> Refusal {
    Refusal {
        status,
        code: None,
        message: String::new(),
        fields: Vec::new(),
        retry_after: None,
        idempotent: false,
    }
}

/// 401: the key does not pass.
pub fn denied() -> Error {
    Error::AccessDenied(refusal(401))
}

/// 404, as another account would answer.
pub fn not_found() -> Error {
    Error::NotFound(refusal(404))
}

/// 422: not done, for sure.
pub fn refused() -> Error {
    Error::Refused(refusal(422))
}

/// 500.
pub fn broke() -> Error {
    Error::Server(refusal(500))
}

/// No answer.
pub fn lost() -> Error {
    Error::Interrupted(Interruption {
        cause: "no answer".into(),
        idempotent: false,
    })
}
