//! Why an object that names no account has none yet.

use crate::{account::key::AccountKey, account_facts::AccountFacts, again::Again, cause::Cause};
use api::{Reason, names::DEFAULT_ACCOUNT};
use std::time::Duration;

/// The backstop of an object that is woken when accounts change.
pub const WOKEN: Duration = Duration::from_secs(300);
/// How soon it is looked again where nobody can say yet.
const UNKNOWN: Duration = Duration::from_secs(10);

/// Why an object has no account yet that names none, and when to look again at the latest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecided {
    /// Why, for people.
    pub cause: Cause,
    /// When to look again.
    pub rest: Duration,
}

impl Undecided {
    /// The facts of an account with this in the place of one that is missing.
    pub fn facts(undecided: Option<&Self>, facts: AccountFacts) -> AccountFacts {
        match (undecided, facts) {
            (Some(undecided), AccountFacts::Missing(_)) => {
                AccountFacts::Undecided(undecided.cause.clone())
            }
            (_, facts) => facts,
        }
    }

    /// When to look again.
    pub fn again(undecided: Option<&Self>, again: Again) -> Again {
        match (undecided, again) {
            (Some(undecided), Again::After(delay)) => Again::After(delay.min(undecided.rest)),
            (_, again) => again,
        }
    }
}

/// What an object is called that names none.
pub const NAMES_NONE: &str =
    "spec.accountRef: it names no account, and its namespace has no ProviderAccount default";

/// Nobody can say yet which account it is. Says why.
pub fn unknown(why: &str) -> Undecided {
    let message = format!(
        "{NAMES_NONE}; which account stands in is not known yet: {why}; looked at again every 10s"
    );
    Undecided {
        cause: Cause::waits(Reason::AccountNotFound, message),
        rest: UNKNOWN,
    }
}

/// One account of the cluster stands in soon.
pub fn soon(key: &AccountKey, patience: Duration, rest: Duration) -> Undecided {
    let message = format!(
        "{NAMES_NONE}; {key}, the default of the cluster, is used for good once the namespace has had none of its own for {}",
        api::Interval(patience)
    );
    Undecided {
        cause: Cause::waits(Reason::AccountNotFound, message),
        rest,
    }
}

/// Several accounts of the cluster would stand in.
pub fn several(keys: &[AccountKey]) -> Undecided {
    let names: Vec<String> = keys.iter().map(ToString::to_string).collect();
    let last = keys.last();
    let unmark = last.map(|key| key.command("annotate", &format!("{DEFAULT_ACCOUNT}-")));
    let message = format!(
        "{NAMES_NONE}; {} each say that they are the default of the cluster and serve it, so none of them is used: create a ProviderAccount default, or leave the word to one of them, such as by: {}",
        names.join(" and "),
        unmark.unwrap_or_default()
    );
    Undecided {
        cause: Cause::needs_person(Reason::SeveralDefaults, message),
        rest: WOKEN,
    }
}
