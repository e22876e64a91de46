//! The client of the hosting API, which `docs/contributing/hosting-api.md` describes: ids
//! such as 4.4-1 are rows of that page.
//!
//! One [`Client`] serves one account: one base URL, one key. Each resource
//! of the API has a file with its operations as methods of the client, and with
//! the reading of its records; the records are in the crate `hosting-types`.
//!
//! Three rules hold for every call:
//!
//! * One call is at most one request on the wire. Nothing is repeated, no
//!   redirect is followed; the caller decides what a failure means.
//! * The key leaves this process in one header to one origin, and in no text.
//! * Answers are not trusted: sizes and times are capped, texts are
//!   cleaned, and an answer that is not understood is an [`Error`], never an
//!   empty result.
//!
//! Any call may give these errors, besides those of its own list:
//! [`Error::NotSent`] without a connection, [`Error::Interrupted`] without a
//! whole answer, [`Error::AccessDenied`] for a key that does not pass (5-4,
//! 5-5), [`Error::Forbidden`] for one without the right to this call,
//! [`Error::RateLimited`] (7-7), [`Error::Server`] (7-6),
//! [`Error::Unexpected`] for a redirect, and after a success
//! [`Error::Undecodable`] or [`Error::TooLarge`].
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
mod calls;
mod client;
mod gate;
mod hidden;
mod http;
mod lists;
mod record;

pub mod dial;
pub mod listing;
pub mod page;
pub mod proxy;
pub mod transport;

#[cfg(test)]
mod tests;

pub use client::{Client, ClientOptions, READ_TIMEOUT};
pub use dial::Dial;
pub use gate::Gates;
pub use hosting_types::request::CHANGE_TIMEOUT;
pub use http::{ClientError, check_ca_bundle};
pub use proxy::ProviderProxy;
pub use transport::Transport;
