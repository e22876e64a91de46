//! The records, identifiers, words, request rules and error classes of the hosting API as plain data, without a client.
//! IDs such as 4.4-1 are rows of `docs/contributing/hosting-api.md`.

pub mod capacity;
pub mod catalogue;
pub mod command;
pub mod endpoint;
pub mod error;
pub mod health;
pub mod host;
pub mod identity;
pub mod list;
pub mod page;
pub mod quota;
pub mod refusal;
pub mod request;
pub mod secret;
pub mod server;
pub mod ssh_key;
pub mod tag;
pub mod text;
pub mod usage;
pub mod whitelist;

pub use endpoint::{BaseUrl, BaseUrlError};
pub use error::Error;
pub use identity::{ApiKeyId, CommandId, HostId, LocationId, ServerId, SshKeyId, WhitelistEntryId};
pub use page::Page;
pub use refusal::Refusal;
pub use secret::{ApiKey, ApiKeyError, SecretText};
pub use server::{Order, OrderResult, Server, ServerFilter, ServerStatus, StatusFilter};
pub use tag::TagRecord;
