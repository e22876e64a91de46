//! What was said of where the process acts: to the controllers, and in the log.

use super::{Acting, Leases, Shared};
use crate::runtime::clock;
use std::{collections::HashMap, time::Duration};

/// What was said last.
#[derive(Default)]
pub(super) struct Told {
    /// Where the process acts, and since when.
    acting: Acting,
    /// The beginnings that were told of.
    gains: HashMap<Option<String>, Duration>,
    /// The lines of the log, by lease.
    lines: HashMap<String, String>,
}

impl Told {
    /// Says where the process acts, as far as that has changed.
    pub(super) fn tell(&mut self, shared: &Shared, lease: &str) {
        let now = clock::now().mono;
        let (acting, lines, is_whole) = {
            let leases = shared.leases();
            let is_whole = matches!(*leases, Leases::Cluster { .. });
            (leases.acting(now), lines(&leases, now), is_whole)
        };
        // A namespace that another one has left is no reason to list everything afresh: whoever may write
        // leases there could ask for that again and again.
        let is_own = |place: &Option<String>| !is_whole || place.is_none();
        for (place, line) in lines {
            if self.lines.get(&place) != Some(&line) {
                tracing::info!(lease, place, "{line}");
                self.lines.insert(place, line);
            }
        }
        if acting == self.acting {
            return;
        }
        let mut is_gain = false;
        for (place, since) in &acting {
            if let Some(since) = since
                && self.gains.insert(place.clone(), *since) != Some(*since)
                && is_own(place)
            {
                is_gain = true;
            }
        }
        self.acting = acting;
        shared.news.send_modify(|news| {
            news.changes += 1;
            news.gains += u64::from(is_gain);
        });
    }
}

/// Who has each lease.
fn lines(leases: &Leases, now: Duration) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for (place, seat) in leases.seats() {
        let line = match (seat.since(now), seat.begins(now), seat.holder()) {
            (Some(_), ..) => "acting".to_owned(),
            (None, Some(_), _) => "the lease is ours; acting once all others have seen that".into(),
            (None, None, Some(holder)) => format!("standing by: {holder} has the lease"),
            (None, None, None) => "standing by: the lease is not ours".into(),
        };
        lines.push((place.to_owned(), line));
    }
    if let Leases::Cluster { others, .. } = leases {
        for place in others.namespaces() {
            let line = match others.has(place) {
                true => "left to the operator of this namespace",
                false => "no operator of its own",
            };
            lines.push((place.clone(), line.to_owned()));
        }
    }
    lines
}
