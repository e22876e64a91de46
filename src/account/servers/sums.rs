//! Sums over the machines of ours, kept up to date with each record. Every order asks for them, so going
//! through all machines would make many orders cost the square of their number.

use flexmetal_core::account::{facts::CountedServers, ownership_tags};
use hosting_types::Server;
use std::collections::BTreeMap;

/// How many machines there are, and when they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    counts: CountedServers,
    /// By the second in which they were made.
    created: BTreeMap<i64, usize>,
}

impl Sums {
    pub(super) fn add(&mut self, server: &Server) {
        self.counts.live += usize::from(server.status.is_live());
        self.counts.retained += usize::from(is_retained(server));
        if let Some(at) = creation_time(server) {
            *self.created.entry(at).or_default() += 1;
        }
    }

    /// Takes back what [`Sums::add`] added for this very record.
    pub(super) fn remove(&mut self, server: &Server) {
        self.counts.live -= usize::from(server.status.is_live());
        self.counts.retained -= usize::from(is_retained(server));
        if let Some(at) = creation_time(server)
            && let Some(number) = self.created.get_mut(&at)
        {
            *number -= 1;
            if *number == 0 {
                self.created.remove(&at);
            }
        }
    }

    pub(crate) fn counts(&self) -> CountedServers {
        self.counts
    }

    /// How many were made at or after this Unix second.
    pub(crate) fn created_since(&self, since: i64) -> usize {
        self.created.range(since..).map(|(_, number)| number).sum()
    }
}

/// So far may two clocks differ that are set at all, in seconds. A tag that says more says nothing.
const DAY: i64 = 24 * 3600;

/// When a machine was made, in Unix seconds: the later of what the provider says and of the number in its
/// order tag, which is of our own clock. So a provider whose clock is behind makes no machine look old.
pub(crate) fn creation_time(server: &Server) -> Option<i64> {
    let created = server.created_at?;
    let ordered = server
        .tags
        .iter()
        .filter_map(|tag| ownership_tags::seq(tag));
    let near = ordered.filter(|at| at.abs_diff(created) <= DAY.unsigned_abs());
    Some(near.fold(created, i64::max))
}

fn is_retained(server: &Server) -> bool {
    server.status.is_live() && ownership_tags::is_retained(server)
}
