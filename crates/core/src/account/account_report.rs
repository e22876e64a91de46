//! How an account stands, for the status of its object.

use super::view::{Catalogue, Proof};
use crate::account::{
    key_state::KeyState,
    orphans::{Others, Verdict},
};
use api::{Reason, account::KnownMachine, delivery::Deliveries};
use std::{sync::Arc, time::Duration};

/// How an account stands, for its status.
#[derive(Clone, Debug)]
pub struct AccountReport {
    /// What is known of the key.
    pub key: KeyState,
    /// The rounds fail.
    pub error: Option<(Reason, String)>,
    /// The last complete listing.
    pub proof: Option<Arc<Proof>>,
    /// The result of the last look for orphans.
    pub verdict: Verdict,
    /// How many machines there are.
    pub counts: Counts,
    /// How long deliveries took.
    pub deliveries: Arc<Deliveries>,
    /// The machines to remember from now on.
    pub known: Vec<KnownMachine>,
    /// What can be ordered, with the moment of the look; None: nobody has looked.
    pub catalogue: Option<(Duration, Arc<Catalogue>)>,
    /// How many calls may be made.
    pub calls: Calls,
}

/// How many calls an account may make, each minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// While the API does not ask for fewer.
    pub full: u32,
    /// Now.
    pub in_force: u32,
}

/// How many machines of the cluster an account has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Live ones.
    pub live: usize,
    /// Live ones that were retained by policy.
    pub retained: usize,
    /// Live ones with the mark of an object that has another one, too.
    pub duplicates: usize,
    /// Live machines that are not the cluster's; None before the first count.
    pub others: Option<Others>,
}
