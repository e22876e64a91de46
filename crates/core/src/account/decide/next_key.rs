//! Which key of the Secret is in use, and when the one in `apiKeyNext` takes its place. Pure.
//!
//! The next key is tried beside the one in use, and replaces it once it has shown a machine on record, or where none is
//! that it would have to show. There is no way back while it works and stands there: where it is refused, or was taken out,
//! the key of `apiKey` is tried beside it.

use super::{
    super::facts::{Facts, KeyFault},
    lineage, trouble,
};
use crate::{
    account::{
        key_state::KeyState,
        next_key::{Evidence, Tried},
        on_record::OnRecord,
    },
    backoff::LONGEST_PAUSE,
};
use api::{
    Interval, Reason,
    account::AccountStatus,
    conditions::{Type, Wanted},
    key_in_use::{KeyEntry, KeyInUse},
};
use hosting_types::ServerId;
use std::time::Duration;

/// Most machines that a key is asked for in one trial.
const MOST: usize = 5;
/// Time between two looks while calls over the former key come to their end.
const DRAINING: Duration = Duration::from_secs(1);

/// The hash of a key, or why there is none.
pub type Hash = Result<String, KeyFault>;

/// The entries of a key Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries {
    /// That of `apiKey`.
    pub present: Hash,
    /// That of `apiKeyNext`; None: there is no such entry, or it is empty.
    pub next: Option<Hash>,
}

/// What the entries are to the account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// The entry with the key to use. None: neither; a connection that there is stays.
    pub in_use: Option<KeyEntry>,
    /// The entry with the key to try beside it.
    pub beside: Option<KeyEntry>,
}

/// What is known of the keys in use.
#[derive(Clone, Copy, Debug, Default)]
pub struct InForce<'a> {
    /// Hash of the key of the connection that there is.
    pub connected: Option<&'a str>,
    /// That of the last one that was seen to lead to this account, on record.
    pub recorded: Option<&'a str>,
    /// Whether the key of the connection is refused.
    pub is_refused: bool,
    /// That of a next key which was refused after it had been in use.
    pub given_up: Option<&'a str>,
    /// That of a next key which was of no use when it was tried last, in the place of one that stands there no more.
    pub is_of_no_use: Option<&'a str>,
    /// That of the key in `apiKey` while the next key was in use.
    pub left: Option<&'a str>,
}

/// The keys of an account, for its decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// The entries; None: the Secret was not read, or is of no use.
    pub entries: Option<Entries>,
    /// What they are.
    pub roles: Roles,
    /// What came of the trial of the key beside the one in use; None: nothing yet.
    pub tried: Option<Tried>,
    /// The trial told nothing against it, and an order has to be settled first.
    pub waits_for_orders: bool,
    /// How long until the next trial; None: none is due, or one is under way.
    pub again: Option<Duration>,
    /// Whether the key in use showed a machine on record when it was tried.
    pub is_shown: bool,
    /// Whether calls over the former key may still follow.
    pub is_draining: bool,
}

/// Says what the entries are.
pub fn roles(entries: &Entries, in_force: InForce<'_>) -> Roles {
    let present = entries.present.as_deref().ok();
    let next = entries.next.as_ref().and_then(|next| next.as_deref().ok());
    let next = next.filter(|next| present != Some(*next));
    let find = |hash: &str| match hash {
        hash if present == Some(hash) => Some(KeyEntry::Present),
        hash if next == Some(hash) => Some(KeyEntry::Next),
        _ => None,
    };
    let any = || {
        let present = present.map(|_| KeyEntry::Present);
        present.or(next.map(|_| KeyEntry::Next))
    };
    let in_use = match (in_force.connected, in_force.recorded) {
        // A key that stands in the Secret no more makes way for the one that was written in its place; any other one
        // is tried first.
        (Some(connected), _) => find(connected).or_else(|| {
            let is_written = present.is_some() && present != in_force.left;
            is_written.then_some(KeyEntry::Present)
        }),
        (None, Some(recorded)) => find(recorded).or_else(any),
        (None, None) => any(),
    };
    let any_beside = || {
        let is_skipped = |next: &&str| in_force.is_refused && in_force.is_of_no_use == Some(*next);
        let next = next.filter(|next| !is_skipped(next) || present.is_none());
        let next = next.map(|_| KeyEntry::Next);
        next.or(present.map(|_| KeyEntry::Present))
    };
    let is_given_up = next.is_some() && next == in_force.given_up;
    let beside = match in_use {
        Some(KeyEntry::Present) => next
            .filter(|_| !is_given_up || in_force.is_refused)
            .map(|_| KeyEntry::Next),
        Some(KeyEntry::Next) => present
            .filter(|_| in_force.is_refused)
            .map(|_| KeyEntry::Present),
        None => any_beside(),
    };
    Roles { in_use, beside }
}

/// What follows from a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It takes the place of the key in use, and what is known goes on.
    Succeeds,
    /// It takes that place as any new key does: nothing is on record that it would have to show.
    Replaces,
    /// An order has to be settled first.
    Waits,
    /// It is tried again.
    Again,
}

/// Says what follows from a trial. `is_ordering`: an order is under way or not settled. `is_refused`: the key
/// in use is, so that nothing can be settled over it.
pub fn step(
    tried: &Tried,
    status: &AccountStatus,
    on_record: &OnRecord,
    is_ordering: bool,
    is_refused: bool,
) -> Step {
    let must_show = || {
        let machines = lineage::machines(status, on_record);
        machines.iter().any(|machine| machine.live)
    };
    match tried {
        Tried::Shows => Step::Succeeds,
        Tried::Accepted | Tried::ShowsNone if must_show() => Step::Again,
        Tried::Accepted | Tried::ShowsNone
            if !is_refused && (is_ordering || !on_record.open.is_empty()) =>
        {
            Step::Waits
        }
        Tried::Accepted | Tried::ShowsNone => Step::Replaces,
        Tried::Refused(_) | Tried::Failed(_) => Step::Again,
    }
}

/// The machines that a key is asked for in this round, few at a time: those that the key in use shows first, then live
/// ones, and all of them in their turn.
pub fn evidence(
    status: &AccountStatus,
    on_record: &OnRecord,
    is_shown: impl Fn(&str) -> bool,
    round: usize,
) -> Vec<Evidence> {
    let mut machines = lineage::machines(status, on_record);
    machines.sort_by_cached_key(|machine| (!is_shown(&machine.uuid), !machine.live));
    let rounds = machines.len().div_ceil(MOST).max(1);
    let machines = machines.into_iter().skip(round % rounds * MOST);
    let ids = machines.filter_map(|machine| {
        let id = ServerId::parse(&machine.uuid).ok()?;
        Some(Evidence {
            id,
            mark: machine.mark,
        })
    });
    ids.take(MOST).collect()
}

/// What is remembered of a trial: a failure says nothing against what was known, and other words for the same are no news.
pub fn verdict(before: Option<Tried>, tried: Tried) -> Tried {
    match (before, tried) {
        (Some(before), Tried::Failed(_)) => before,
        (Some(before @ Tried::Refused(_)), Tried::Refused(_)) => before,
        (_, tried) => tried,
    }
}

/// The key in use, for the status; None: as before.
pub(super) fn in_use(facts: &Facts, accepted: bool) -> Option<KeyInUse> {
    let in_force = facts.in_force.as_ref()?;
    (accepted && !facts.keys.is_draining).then(|| KeyInUse {
        entry: facts.keys.roles.in_use,
        key_hash: in_force.key_hash.clone(),
    })
}

/// When to look again.
pub(super) fn again(facts: &Facts) -> Option<Duration> {
    let draining = facts.keys.is_draining.then_some(DRAINING);
    [draining, facts.keys.again].into_iter().flatten().min()
}

/// The condition of an account whose Secret has the entry `apiKeyNext`, or had it while the key in use was there.
pub(super) fn condition(facts: &Facts) -> Option<Wanted> {
    let (status, reason, message) = said(facts)?;
    Some(Wanted {
        kind: Type::NextKeyAccepted,
        status,
        reason,
        message,
    })
}

fn said(facts: &Facts) -> Option<Said> {
    let entries = facts.keys.entries.as_ref()?;
    let Some(next) = entries.next.as_ref() else {
        let is_taken_out = facts.in_force.is_some() && facts.keys.roles.in_use.is_none();
        return facts
            .keys
            .roles
            .beside
            .filter(|_| is_taken_out)
            .map(|entry| beside(facts, entry));
    };
    Some(match next {
        Err(fault) => unusable(facts, fault),
        Ok(next) if entries.present.as_ref() == Ok(next) => (
            Some(true),
            Reason::KeyAccepted,
            format!(
                "entry \"apiKeyNext\" of {} holds the same key as \"apiKey\"; remove it: {}",
                facts.secret_name(),
                change(facts, r#"[{"op":"remove","path":"/data/apiKeyNext"}]"#)
            ),
        ),
        Ok(_) if facts.keys.roles.in_use == Some(KeyEntry::Next) => taken(facts),
        Ok(_) if facts.keys.roles.beside == Some(KeyEntry::Next) => beside(facts, KeyEntry::Next),
        Ok(_) if facts.keys.roles.in_use.is_none() => match facts.keys.roles.beside {
            Some(entry) => beside(facts, entry),
            None => untried(facts, KeyEntry::Next),
        },
        Ok(_) => (
            Some(false),
            Reason::KeyRejected,
            format!(
                "the key in entry \"apiKeyNext\" of {} was in use until it was refused, and the one in \"apiKey\" is used again; put another key there, read from FILE: {}",
                facts.secret_name(),
                put(facts)
            ),
        ),
    })
}

type Said = (Option<bool>, Reason, String);

fn unusable(facts: &Facts, fault: &KeyFault) -> Said {
    let why = match fault {
        KeyFault::Invalid(why) => why.as_str(),
        KeyFault::Absent | KeyFault::OtherType => "it holds no key",
    };
    let text = format!(
        "entry \"apiKeyNext\" of {}: {why}; the key in use stays; to replace it by what is in FILE: {}",
        facts.secret_name(),
        put(facts)
    );
    (Some(false), Reason::InvalidKey, text)
}

/// It is the key in use.
fn taken(facts: &Facts) -> Said {
    let secret = facts.secret_name();
    match facts.report.as_ref().map(|report| &report.key) {
        Some(KeyState::Rejected(refusal)) => {
            let text = format!(
                "the hosting API rejects the key in entry \"apiKeyNext\" of {secret}, which was in use ({refusal}); put another key there, read from FILE: {}",
                put(facts)
            );
            (Some(false), Reason::KeyRejected, text)
        }
        Some(KeyState::Accepted) if facts.keys.is_draining => {
            let text = format!(
                "new calls are made with the key in entry \"apiKeyNext\" of {secret}, and the last ones with the former key come to their end within minutes; keep both keys valid until then"
            );
            (None, Reason::Pending, text)
        }
        Some(KeyState::Accepted) => {
            let text = format!(
                "the key in entry \"apiKeyNext\" of {secret} is in use; move it to the entry \"apiKey\": {}",
                promote(facts)
            );
            (Some(true), Reason::KeyAccepted, text)
        }
        Some(KeyState::Untried) | None => untried(facts, KeyEntry::Next),
    }
}

fn untried(facts: &Facts, entry: KeyEntry) -> Said {
    let text = format!(
        "the key in entry \"{entry}\" of {} was not tried yet; that follows within a minute",
        facts.secret_name()
    );
    (None, Reason::Pending, text)
}

/// It is tried beside the key in use.
fn beside(facts: &Facts, entry: KeyEntry) -> Said {
    let key = format!("the key in entry \"{entry}\" of {}", facts.secret_name());
    let in_use = match facts.keys.roles.in_use {
        Some(_) => "the key in use stays",
        None => "the key in use stands in no entry any more, and is used until this one works",
    };
    let put = || format!("read from FILE: {}", trouble::put_key(facts, entry));
    let most = Interval(LONGEST_PAUSE);
    let again = format!("tried again, at growing intervals of at most {most}");
    match &facts.keys.tried {
        None => untried(facts, entry),
        Some(_) if facts.keys.waits_for_orders => {
            let at_once = match entry {
                KeyEntry::Next => format!("; to use it at once: {}", promote(facts)),
                KeyEntry::Present => String::new(),
            };
            let text = format!(
                "{key} works, and is used once no order is open, since no machine on record shows that it leads to the same account{at_once}"
            );
            (None, Reason::Pending, text)
        }
        Some(Tried::Refused(refusal)) => {
            let text = format!(
                "the hosting API rejects {key} ({refusal}); {in_use}; {again}; put a valid key there, {}",
                put()
            );
            (Some(false), Reason::KeyRejected, text)
        }
        // A machine came on record since, which it is asked for in a moment.
        Some(Tried::Shows | Tried::Accepted) => untried(facts, entry),
        Some(Tried::ShowsNone) => {
            let text = format!(
                "{key} belongs to another account: it shows none of the machines on record that it was asked for; {in_use}; {again}; put a key of this account there, {}",
                put()
            );
            (Some(false), Reason::AccountChanged, text)
        }
        Some(Tried::Failed(why)) => {
            let text = format!("{key} could not be tried: {why}; {again}");
            (None, Reason::ProviderUnreachable, text)
        }
    }
}

/// The command that puts a key into the entry `apiKeyNext`.
fn put(facts: &Facts) -> String {
    trouble::put_key(facts, KeyEntry::Next)
}

/// The command that moves the key from `apiKeyNext` to `apiKey`, by one write.
fn promote(facts: &Facts) -> String {
    change(
        facts,
        r#"[{"op":"move","from":"/data/apiKeyNext","path":"/data/apiKey"}]"#,
    )
}

fn change(facts: &Facts, patch: &str) -> String {
    let (namespace, name) = (&facts.secret_namespace, &facts.spec.api_key_secret_ref.name);
    format!("kubectl patch secret {name} -n {namespace} --type=json -p '{patch}'")
}
