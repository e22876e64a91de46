//! Machines that cost and that nobody claims.

use super::{super::view::Proof, marks};
use crate::kinds::account::{KnownMachine, Orphan};
use hosting::Server;
use std::collections::HashSet;

/// Most orphans that are named.
pub const NAMED: usize = 20;

/// The result of a look for orphans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not judged: not all namespaces are watched, or no complete listing was compared yet.
    NotChecked,
    /// Live machines of this cluster that no object claims: how many, and the first of them by identity.
    Found {
        /// How many there are; zero is the good case.
        count: usize,
        /// The first [`NAMED`].
        first: Vec<Orphan>,
    },
}

/// Compares a complete listing with the claims, which must have been asked for after it: a machine
/// is there before the object forgets it, never the other way round.
///
/// `disowned` holds the machines whose mark is of an object that has another one, on another account.
/// `ordering` holds the marks with an order in flight. None: the listing proves nothing, since it shows
/// none of the machines that the account is known by.
pub(crate) fn judge(
    proof: &Proof,
    known: &[KnownMachine],
    claims: Option<&HashSet<String>>,
    disowned: &HashSet<String>,
    ordering: &HashSet<String>,
) -> Option<Verdict> {
    let Some(claims) = claims else {
        return Some(Verdict::NotChecked);
    };
    let shown = |k: &KnownMachine| proof.servers.iter().any(|s| s.id.as_str() == k.uuid);
    if !known.is_empty() && !known.iter().any(shown) {
        return None;
    }
    let claimed = |server: &Server| {
        let is_disowned = disowned.contains(server.id.as_str());
        marks::object_marks(server)
            .any(|mark| ordering.contains(mark) || (claims.contains(mark) && !is_disowned))
    };
    let mut orphans: Vec<Orphan> = proof
        .servers
        .iter()
        .filter(|s| s.status.is_live() && !marks::is_retained(s) && !claimed(s))
        .map(|s| Orphan {
            uuid: s.id.as_str().to_owned(),
            hostname: s.name.clone(),
            order_tag: marks::order_tag(s).map(str::to_owned),
        })
        .collect();
    orphans.sort_by(|a, b| a.uuid.cmp(&b.uuid));
    let count = orphans.len();
    orphans.truncate(NAMED);
    Some(Verdict::Found {
        count,
        first: orphans,
    })
}
