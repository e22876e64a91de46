//! The client of the hosting API.
//!
//! One [`Client`] speaks to one account: one base URL, one key. Each resource
//! of the API has a module with its records (tolerant to read, strict to
//! write) and its operations as methods of the client.
//!
//! Three rules hold for every call:
//!
//! * One call is at most one request on the wire. Nothing is repeated, no
//!   redirect is followed; whoever calls decides what a failure means.
//! * The key leaves this process in one header to one origin, and in no text.
//! * What comes back is not trusted: sizes and times are capped, texts are
//!   cleaned, and an answer that is not understood is an [`Error`], never an
//!   empty result.

mod answer;
mod client;
mod http;
mod record;
mod text;

pub mod catalogue;
pub mod endpoint;
pub mod error;
pub mod page;
pub mod quota;
pub mod secret;
pub mod server;
pub mod tag;
pub mod transport;

#[cfg(test)]
mod tests;

pub use client::{Client, ClientOptions};
pub use endpoint::{BaseUrl, BaseUrlError};
pub use error::{Error, Refusal};
pub use http::ClientError;
pub use page::Page;
pub use secret::{ApiKey, KeyError};
pub use server::{Order, OrderOutcome, Server, ServerFilter, ServerId, ServerStatus};
pub use tag::TagRecord;
pub use transport::Transport;
