//! Sums over the servers with the cluster's tag, updated with each record. Every order needs them, so counting all
//! servers each time would take quadratic time.

use flexmetal_core::account::{
    facts::CountedServers,
    ownership_tags::{self, creation_time},
};
use hosting_types::Server;
use std::collections::BTreeMap;

/// How many servers there are, and when they were created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveServerCounts {
    counts: CountedServers,
    /// Number of servers by the second of their creation.
    created: BTreeMap<i64, usize>,
}

impl LiveServerCounts {
    pub(super) fn add(&mut self, server: &Server) {
        self.counts.live += usize::from(server.status.is_live());
        self.counts.retained += usize::from(is_retained(server));
        if let Some(at) = creation_time(server) {
            *self.created.entry(at).or_default() += 1;
        }
    }

    /// Subtracts what [`LiveServerCounts::add`] added for this record.
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

    /// How many were created at or after this Unix second.
    pub(crate) fn created_since(&self, since: i64) -> usize {
        self.created.range(since..).map(|(_, number)| number).sum()
    }
}

fn is_retained(server: &Server) -> bool {
    server.status.is_live() && ownership_tags::is_retained(server)
}
