//! What the kinds share that keep something small at the provider: what is known of any object, what a
//! decision is and the status that follows from it, and the look that somebody asks for.

mod ask;
mod decision;
mod subject;
#[cfg(test)]
mod tests;

pub use ask::Sight;
pub use decision::Decision;
pub use subject::{KIND_UNSEEN, Memory, Subject};

use crate::{
    account::view::{List, View},
    trouble::Trouble,
};
use std::time::Duration;

/// How an effect ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was carried out, or brought something to light.
    Done,
    /// What it rested on has changed meanwhile.
    Stale,
    /// It failed.
    Failed(Trouble),
}

/// When the newest look at a list started.
pub fn looked(view: &View, list: List) -> Option<Duration> {
    match list {
        List::Catalogue => view.catalogue.as_ref().map(|(at, _)| *at),
        List::Servers => view.servers.as_ref().map(|(at, _)| *at),
        List::Tags => view.tags.as_ref().map(|(at, _)| *at),
        List::SshKeys => view.ssh_keys.as_ref().map(|(at, _)| *at),
        List::Hosts => view.hosts.as_ref().map(|(at, _)| *at),
    }
}
