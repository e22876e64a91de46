//! The account object: where it leads to, by the deciding code that ships.

use super::{
    real::{self, Account},
    world::*,
};
use flexmetal_core::account::decide::decide;
use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex},
};

/// What an account's decision makes of it.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    settings: SettingsA,
    /// What its status says next.
    status: AccountA,
}

static DECIDED: LazyLock<Mutex<HashMap<Account, Outcome>>> = LazyLock::new(Mutex::default);

impl AccountA {
    /// Whether somebody has used the account, as its status shows.
    pub fn is_used(&self) -> bool {
        self.endpoint.is_some() || self.lineage.is_some()
    }
}

/// The passes over the account object until its status stands. Without the lease nothing is written, and
/// what is decided is in force all the same.
pub fn pass(world: &mut World, process: usize) {
    for _ in 0..4 {
        let p = &world.processes[process];
        let account = Account {
            status: world.account,
            connection: p.connection,
            refused: p.blocked,
            proof: p.proof,
            seen: p.seen,
            started: p.started,
            used_before: p.settings.used_before,
            missed: p.settings.missed,
            objects: p.cache.map(|o| o.map(|o| (o.who, o.status))),
        };
        let outcome = decided(&account);
        let p = &mut world.processes[process];
        p.settings = outcome.settings;
        if p.acting.is_none() || outcome.status == world.account {
            return;
        }
        world.account = outcome.status;
    }
    panic!("the account object does not come to rest");
}

fn decided(account: &Account) -> Outcome {
    if let Some(known) = DECIDED.lock().unwrap().get(account) {
        return *known;
    }
    let facts = real::account(account);
    let decision = decide(&facts);
    let before = account.status;
    let lineage = decision.account_id.as_deref().map(real::lineage_of);
    let outcome = Outcome {
        settings: SettingsA {
            used_before: facts.used_before,
            lineage: decision
                .account_id_in_force
                .as_deref()
                .map(real::lineage_of),
            known: real::known_of(&decision.known),
            block: decision
                .block
                .map(|(reason, _)| real::reason_number(reason)),
            no_orders: decision.no_orders.is_some(),
            release_limit: before.release_limit.map(|b| (b.counted, b.blocked)),
            missed: facts
                .missed_since
                .map(|began| real::tick_of(began, account.started)),
        },
        status: AccountA {
            endpoint: decision
                .verified
                .map(|e| real::connection_of(&e))
                .or(before.endpoint),
            lineage: lineage.or(before.lineage),
            known: real::known_of(&decision.known),
            lineages: before.lineages + u8::from(lineage.is_some()),
            asked: real::lists(&decision.pending, &decision.acknowledged),
            given: before.given,
            release_limit: before.release_limit.map(|b| match &decision.release_limit {
                None => ReleaseLimitA {
                    counted: 0,
                    blocked: false,
                    words: b.words + u8::from(b.blocked),
                    ..b
                },
                Some(_) => b,
            }),
        },
    };
    DECIDED.lock().unwrap().insert(*account, outcome);
    outcome
}
