//! A second key of an account: what shows that it is of the same one, and what came of its trial.

use hosting_types::{Refusal, ServerId};

/// A machine by which a key shows that it is of the same account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The machine.
    pub id: ServerId,
    /// The mark of the object that has it on record, which it has to bear; None: the account remembers it itself.
    pub mark: Option<String>,
}

/// What came of the trial of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It shows one of the machines.
    Shows,
    /// It is accepted, and there was no machine to be shown.
    Accepted,
    /// It is accepted, and shows none of the machines.
    ShowsNone,
    /// 401 or 403.
    Refused(Refusal),
    /// Nobody knows yet. Says why.
    Failed(String),
}
