//! Shared by most kinds: the facts of any object, the decision with the status that follows from it, and requested
//! reconciles.

mod decision;
mod reconcile_request;
mod subject;
#[cfg(test)]
mod tests;

pub use decision::Decision;
pub use reconcile_request::ReadSource;
pub use subject::{CRD_RETRY, Memory, Subject};

use crate::{
    account::view::{AccountView, ListKind},
    last_error::LastError,
};
use std::time::Duration;

/// How an effect ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was done, or found something new.
    Done,
    /// The facts behind it have changed.
    Stale,
    /// It failed.
    Failed(LastError),
}

/// When the newest read of a list started.
pub fn last_read_at(view: &AccountView, list: ListKind) -> Option<Duration> {
    match list {
        ListKind::Catalogue => view.catalogue.as_ref().map(|(at, _)| *at),
        ListKind::Servers => view.servers.as_ref().map(|(at, _)| *at),
        ListKind::Tags => view.tags.as_ref().map(|(at, _)| *at),
        ListKind::SshKeys => view.ssh_keys.as_ref().map(|(at, _)| *at),
        ListKind::Hosts => view.hosts.as_ref().map(|(at, _)| *at),
    }
}
