//! The accounts and keys at the start: those of the state file, and after them the
//! configured ones that are not in it.

use std::sync::Arc;

use super::accounts::{InvalidAccounts, PlannedAccount};
use super::catalogue::{Catalogue, Offer};
use super::clock::Moment;
use super::journal::Line;
use super::keys::Keys;
use super::profile::Switches;
use super::state::{Account, Login, Numbers};

/// Accounts in their order, and the keys of all of them.
#[derive(Default)]
pub(super) struct Roster {
    pub(super) keys: Keys,
    pub(super) accounts: Vec<Account>,
    numbers: Numbers,
}

impl Roster {
    /// Replays all stored changes: accounts come in the order in which the file
    /// first mentions them.
    pub(super) fn kept(lines: Vec<Line>, catalogue: &Arc<Catalogue>) -> Self {
        let mut roster = Self::default();
        for line in lines {
            if let Some(written) = line.keys {
                roster.keys = written;
            }
            for (name, changes) in line.accounts {
                let account = roster.named(&name, catalogue);
                for change in changes {
                    account.restore(change);
                }
            }
        }
        for account in &mut roster.accounts {
            account.index_all();
        }
        roster
    }

    fn named(&mut self, name: &str, catalogue: &Arc<Catalogue>) -> &mut Account {
        let mut accounts = self.accounts.iter();
        let known = accounts.position(|account| account.name == name);
        let place = known.unwrap_or_else(|| {
            let login = Login::new("", "");
            let account = Account::new(name, catalogue.clone(), self.numbers.clone(), login);
            self.accounts.push(account);
            self.accounts.len() - 1
        });
        &mut self.accounts[place]
    }

    /// The name of the first account.
    pub(super) fn first(&self) -> Option<&str> {
        self.accounts.first().map(|account| account.name.as_str())
    }

    /// Adds the configured ones. A stored account, and a stored key, stay as they
    /// are: a restart must not make a revoked key valid.
    ///
    /// # Errors
    /// When a configured account is invalid, stored or not.
    pub(super) fn admit(
        &mut self,
        planned: &[PlannedAccount],
        catalogue: &Arc<Catalogue>,
        switches: &Switches,
        now: Moment,
    ) -> Result<(), InvalidAccounts> {
        let mut keys = Keys::default();
        for plan in planned {
            let known = (catalogue, &self.numbers, switches);
            let mut account = account(plan, known, &mut keys, now)?;
            let mut names = self.accounts.iter().map(|kept| &kept.name);
            if names.all(|name| *name != account.name) {
                // Only now: the stored ones have their ids.
                account.house(plan.hosts.labels(), now);
                self.accounts.push(account);
            }
        }
        self.keys.add_missing(keys);
        Ok(())
    }

    /// Generates a key for the first account, unless it has a valid one.
    pub(super) fn make_up_key(&mut self) {
        let Some(first) = self.first().map(str::to_owned) else {
            return;
        };
        if self.keys.of(&first).is_none() {
            // Not from the seed: a key must not be guessable.
            let made_up = format!("sim-{}", uuid::Uuid::new_v4().simple());
            self.keys.set(&made_up, &first, true);
        }
    }
}

fn account(
    plan: &PlannedAccount,
    (catalogue, numbers, switches): (&Arc<Catalogue>, &Numbers, &Switches),
    keys: &mut Keys,
    now: Moment,
) -> Result<Account, InvalidAccounts> {
    let login = Login::new(&plan.email_address, &plan.password);
    let mut account = Account::new(&plan.name, catalogue.clone(), numbers.clone(), login);
    let invalid = |problem: String| InvalidAccounts::Value {
        account: plan.name.clone(),
        problem,
    };
    for quota in &plan.quota {
        let place = catalogue.location(&quota.location, switches);
        let kind = catalogue.instance_type(&quota.instance_type, switches);
        let offer = place.zip(kind).map(|(place, kind)| Offer {
            location: place.id,
            instance_type: kind.id,
        });
        let offer = offer.filter(|offer| catalogue.offers(*offer));
        let unknown = || {
            let (kind, place) = (&quota.instance_type, &quota.location);
            invalid(format!("{kind:?} is not offered at {place:?}"))
        };
        let pool = Some(quota.contract_id.clone()).filter(|pool| !pool.is_empty());
        account
            .quota
            .set_quota(offer.ok_or_else(unknown)?, pool, quota.quota);
    }
    for planned in &plan.keys {
        let number = keys.set(&planned.key, &plan.name, true).to_string();
        for range in &planned.whitelist {
            let added = keys.allow(&plan.name, &number, None, range.clone(), now);
            added.map_err(|_| invalid("a whitelist cannot be kept".to_owned()))?;
        }
    }
    Ok(account)
}
