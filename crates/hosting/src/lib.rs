//! The client of the hosting API: one [`Client`] for one account, with one base URL and one key. IDs such as 4.4-1 are
//! rows of `docs/contributing/hosting-api.md`; the records are in the crate `hosting-types`.
//!
//! One call is at most one request: nothing is repeated, no redirect is followed. The key is in one header to one
//! origin, and in no text. Sizes and times are limited, texts are cleaned, and an unreadable answer is an [`Error`],
//! never an empty result.
//!
//! Any call may return, besides the errors in its own list: [`Error::NotSent`] without a connection,
//! [`Error::Interrupted`] without a complete answer, [`Error::AccessDenied`] for a refused key (5-4, 5-5),
//! [`Error::Forbidden`] for a key without this right, [`Error::RateLimited`] (7-7), [`Error::Server`] (7-6),
//! [`Error::Unexpected`] for a redirect, and after a success [`Error::Undecodable`] or [`Error::TooLarge`].
//!
//! [`Error`]: hosting_types::Error
//! [`Error::NotSent`]: hosting_types::Error::NotSent
//! [`Error::Interrupted`]: hosting_types::Error::Interrupted
//! [`Error::AccessDenied`]: hosting_types::Error::AccessDenied
//! [`Error::Forbidden`]: hosting_types::Error::Forbidden
//! [`Error::RateLimited`]: hosting_types::Error::RateLimited
//! [`Error::Server`]: hosting_types::Error::Server
//! [`Error::Unexpected`]: hosting_types::Error::Unexpected
//! [`Error::Undecodable`]: hosting_types::Error::Undecodable
//! [`Error::TooLarge`]: hosting_types::Error::TooLarge

mod answer;
mod body;
mod body_budget;
mod calls;
mod client;
mod http;
mod lists;
mod observer;
mod record;
mod redaction;

pub mod check;
pub mod dial;
pub mod listing;
pub mod page;
pub mod proxy;
pub mod transport;

#[cfg(test)]
mod tests;

pub use body_budget::Gates;
pub use client::{Client, ClientOptions, READ_TIMEOUT};
pub use dial::Dial;
pub use hosting_types::request::CHANGE_TIMEOUT;
pub use http::{ClientError, check_ca_bundle};
pub use observer::{CallObserver, ObservedCall};
pub use proxy::ProviderProxy;
pub use transport::Transport;
