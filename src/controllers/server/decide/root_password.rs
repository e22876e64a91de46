//! `spec.rootPassword`: the password of a Windows machine is stored once for each installation, while it can be had.
//!
//! Status notes that it was stored, and from then on nobody asks for it again, whatever becomes of the Secret. A process
//! that wrote the Secret and not the note leaves one that asks once more, and finds its own Secret.

use super::{
    super::facts::{Facts, is_same_uuid},
    Decision, Effect, remedy,
};
use crate::{
    controllers::{account_facts::Purpose, again::Again},
    kinds::{
        Interval, Reason,
        conditions::{Type, Wanted},
        reinstall::InstallStatus,
        root_password::{
            AVAILABLE_FOR, PasswordWarning, RootPassword, RootPasswordStatus, installed_at,
        },
        server::BareMetalServerStatus,
    },
};
use hosting::{Server, ServerStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

const HOUR: i64 = 3_600;
/// It is looked at this often at the least: a name may come free, and a clock be turned back.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);
/// The longest pause between two tries, in polls of the account; the first is one, and each is twice the one before.
const MOST_POLLS: u32 = 20;

/// One installation, by the machine and the second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Installed {
    /// The machine.
    pub machine: String,
    /// When, in seconds since 1970.
    pub at: i64,
}

/// What this process knows of the password of one installation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Known {
    of: Installed,
    /// The Secret that it was stored in.
    stored: Option<String>,
    /// That Secret was deleted, or is another's.
    is_deleted: bool,
    /// The name that is another's.
    taken: Option<String>,
    /// Tries in a row that brought nothing.
    tries: u32,
    /// The last of them.
    tried: Duration,
}

/// How a try, or the deletion, ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It is in the Secret of this name.
    Stored(String),
    /// The provider shows none.
    Absent,
    /// The name is another's; the provider was not asked.
    Taken(String),
    /// The Secret is not there any more.
    Deleted,
}

impl Known {
    /// Takes in how it ended.
    pub fn note(&mut self, of: &Installed, end: End, now: Duration) {
        if self.of != *of {
            *self = Self {
                of: of.clone(),
                ..Self::default()
            };
        }
        self.taken = None;
        match end {
            End::Stored(secret) => self.stored = Some(secret),
            End::Deleted => self.is_deleted = true,
            End::Taken(name) => {
                self.taken = Some(name);
                self.tried = now;
            }
            End::Absent => {
                self.tries += 1;
                self.tried = now;
            }
        }
    }
}

/// Adds what is due to a decision, where nothing else is, and notes in status what is known. Returns what is said.
pub fn keep(facts: &Facts, decision: &mut Decision) -> Option<Wanted> {
    let uuid = decision.draft.status.uuid.clone();
    let of = delivered(facts, &decision.draft.status);
    let status = &mut decision.draft.status;
    let shown = status.root_password.as_ref().map(|p| p.machine.clone());
    let wanted = facts.object.spec.root_password.as_ref();
    let Some((wanted, of)) = wanted.zip(of).filter(|_| !facts.deleting()) else {
        if wanted.is_none() || shown != uuid {
            let kind = Type::RootPasswordStored.as_str();
            status.conditions.retain(|c| c.type_ != kind);
        }
        return None;
    };
    let mut record = noted(facts, status, &of)?;
    let known = Some(&facts.memory.root_password).filter(|known| known.of == of);
    let now = facts.steady_wall();
    if let Some(stored) = known.and_then(|k| k.stored.as_ref()) {
        record.secret.get_or_insert_with(|| stored.clone());
        record.stored_at = record.stored_at.or_else(|| moment(now));
    }
    if known.is_some_and(|k| k.is_deleted) {
        record.deleted_at = record.deleted_at.or_else(|| moment(now));
    }
    let said = match (&record.stored_at, &record.secret) {
        (Some(stored), Some(secret)) => {
            let secret = secret.clone();
            let stored = stored.0.as_second();
            forget(decision, wanted, &record, (secret, stored), of, now)
        }
        _ => fetch(facts, decision, wanted, &mut record, of, known, now),
    };
    decision.draft.status.root_password = Some(record);
    Some(said)
}

/// The installation of the machine that the status shows, where it is delivered and seen to be the object's.
fn delivered(facts: &Facts, status: &BareMetalServerStatus) -> Option<Installed> {
    let uuid = status.uuid.as_deref()?;
    let is_it = |server: &Server| {
        server.status == ServerStatus::Delivered && is_same_uuid(server.id.as_str(), uuid)
    };
    facts.own.iter().find(|s| is_it(&s.server))?;
    Some(Installed {
        machine: uuid.to_owned(),
        at: installed_at(status)?,
    })
}

/// What status notes of this installation. What an earlier object of this name had there says nothing of this one.
fn noted(
    facts: &Facts,
    status: &BareMetalServerStatus,
    of: &Installed,
) -> Option<RootPasswordStatus> {
    let order = facts.object.status.as_ref().and_then(|s| s.order.as_ref());
    let is_own = order.is_some_and(|order| order.intent.uid == facts.uid());
    let is_it =
        |p: &RootPasswordStatus| p.machine == of.machine && p.installed_at.0.as_second() == of.at;
    let shown = status.root_password.clone();
    let record = shown.filter(|p| is_own && is_it(p));
    Some(match record {
        Some(record) => record,
        None => RootPasswordStatus {
            machine: of.machine.clone(),
            installed_at: moment(of.at)?,
            available_until: moment(of.at.saturating_add(AVAILABLE_FOR))?,
            stored_at: None,
            secret: None,
            deleted_at: None,
            warned: None,
        },
    })
}

/// What is due of a password that is stored: its Secret goes when its time is over.
fn forget(
    decision: &mut Decision,
    wanted: &RootPassword,
    record: &RootPasswordStatus,
    (secret, stored): (String, i64),
    of: Installed,
    now: i64,
) -> Wanted {
    let machine = &record.machine;
    let text = match &record.deleted_at {
        Some(_) => format!(
            "the password of machine {machine} was in Secret {secret}, which is deleted (spec.rootPassword.ttl)"
        ),
        None => format!("the password of machine {machine} is in Secret {secret}"),
    };
    if record.deleted_at.is_none()
        && let Some(end) = end(wanted, stored)
    {
        match end.saturating_sub(now) {
            rest if rest > 0 => look_within(decision, seconds(rest)),
            _ => due(decision, Effect::ForgetPassword { of, secret }),
        }
    }
    Wanted::new(Type::RootPasswordStored, true, Reason::PasswordStored, text)
}

/// When a Secret that was written then goes.
fn end(wanted: &RootPassword, stored: i64) -> Option<i64> {
    let ttl = i64::try_from(wanted.ttl?.0.as_secs()).unwrap_or(i64::MAX);
    Some(stored.saturating_add(ttl))
}

/// What is due of a password that is not stored.
fn fetch(
    facts: &Facts,
    decision: &mut Decision,
    wanted: &RootPassword,
    record: &mut RootPasswordStatus,
    of: Installed,
    known: Option<&Known>,
    now: i64,
) -> Wanted {
    let not_yet = |reason, text: String| Wanted::new(Type::RootPasswordStored, false, reason, text);
    let rest = of.at.saturating_add(AVAILABLE_FOR).saturating_sub(now);
    let until = &record.available_until.0;
    let machine = &record.machine;
    let name = &wanted.secret_ref.name;
    // The spec may ask for Windows, and a re-installation that brings it is still to come.
    if let Some(slug) = other_system(decision) {
        let text = format!(
            "machine {machine} has {slug}, and only Windows has a root password; it is asked for once Windows is installed: raise spec.install.revision for that, which wipes the machine, or take spec.rootPassword out"
        );
        return not_yet(Reason::PasswordPending, text);
    }
    if rest <= 0 {
        let text = format!(
            "the password of machine {machine} could be had until {until} and was not stored, so it cannot be had any more; set one by another way into the machine, or raise spec.install.revision to install it again, which wipes it"
        );
        record.warned = Some(PasswordWarning::Missed);
        return not_yet(Reason::PasswordMissed, text);
    }
    let taken = known.is_some_and(|k| k.taken.as_ref() == Some(name));
    let is_held = !facts.policies().let_send();
    let said = if taken {
        let text = format!(
            "spec.rootPassword.secretRef: Secret {name} is not this object's, so it stays as it is and nothing is written; name another one before {until}, when the password cannot be had any more, or, if nobody needs that one, delete it: kubectl delete secret {name} -n {}; looked at again every {}",
            facts.namespace(),
            Interval(LONGEST_SLEEP)
        );
        not_yet(Reason::OutputNotOwned, text)
    } else if let Some(held) = remedy::held(facts, "the password is not asked for") {
        let text = format!("it can be had until {until}; {}", held.message);
        not_yet(Reason::PasswordPending, text)
    } else {
        let text = format!(
            "the password of machine {machine} is not stored yet; it is asked for until {until}, at growing intervals while the provider shows none"
        );
        not_yet(Reason::PasswordPending, text)
    };
    // What is asked for the first time needs no warning.
    if taken || is_held || known.is_some_and(|k| k.tries > 0) {
        let warning = [
            (HOUR, PasswordWarning::Hour),
            (6 * HOUR, PasswordWarning::SixHours),
        ];
        let near = warning.into_iter().find(|(near, _)| rest <= *near);
        record.warned = record.warned.max(near.map(|(_, warning)| warning));
    }
    for next in [rest, rest - HOUR, rest - 6 * HOUR] {
        if next > 0 {
            look_within(decision, seconds(next));
        }
    }
    if is_held || reinstall_goes_on(decision) {
        return said;
    }
    let Ok(view) = facts.account.usable(Purpose::End) else {
        return said;
    };
    let pause = match known {
        Some(_) if taken => LONGEST_SLEEP,
        Some(known) if known.tries > 0 => {
            let doubled = 1_u32.checked_shl(known.tries - 1).unwrap_or(u32::MAX);
            view.times.active_poll_interval * doubled.min(MOST_POLLS)
        }
        _ => Duration::ZERO,
    };
    let tried = known.map_or(Duration::ZERO, |k| k.tried);
    let pause = (tried + pause).saturating_sub(facts.now.mono);
    match pause.is_zero() || known.is_none() {
        true => {
            let secret = name.clone();
            due(decision, Effect::FetchPassword { of, secret });
        }
        false => look_within(decision, pause),
    }
    said
}

/// The system of the machine, where it is known to be another than Windows.
fn other_system(decision: &Decision) -> Option<&str> {
    let observed = decision.draft.status.observed.as_ref();
    let slug = observed.and_then(|o| o.os_slug.as_deref())?;
    let is_windows = slug.to_ascii_lowercase().starts_with("win");
    (!is_windows).then_some(slug)
}

/// Whether the machine may be getting another password at this moment.
fn reinstall_goes_on(decision: &Decision) -> bool {
    let install = decision.draft.status.install.as_ref();
    install.and_then(InstallStatus::open).is_some()
}

fn due(decision: &mut Decision, effect: Effect) {
    decision.effect.get_or_insert(effect);
}

fn look_within(decision: &mut Decision, rest: Duration) {
    if decision.again != Again::AtOnce {
        decision.again = decision.again.within(rest.min(LONGEST_SLEEP));
    }
}

fn seconds(rest: i64) -> Duration {
    Duration::from_secs(u64::try_from(rest).unwrap_or(0))
}

fn moment(at: i64) -> Option<Time> {
    Timestamp::from_second(at).ok().map(Time)
}

/// Whether the password may be asked for, judged again on the object as it is right before.
pub fn may_fetch(fresh: &Facts, of: &Installed, secret: &str) -> bool {
    let named = fresh.object.spec.root_password.as_ref();
    let status = fresh.status();
    let is_noted = noted(fresh, &status, of).is_some_and(|record| record.stored_at.is_some());
    named.is_some_and(|wanted| wanted.secret_ref.name == secret)
        && !is_noted
        && status
            .install
            .as_ref()
            .and_then(InstallStatus::open)
            .is_none()
        && !fresh.deleting()
        && fresh
            .known_policies()
            .is_some_and(|policies| policies.let_send())
}

/// Whether the Secret may be deleted, judged again on the object as it is right before.
pub fn may_forget(fresh: &Facts, of: &Installed, secret: &str) -> bool {
    let Some(wanted) = &fresh.object.spec.root_password else {
        return false;
    };
    let Some(record) = noted(fresh, &fresh.status(), of) else {
        return false;
    };
    let stored = record.stored_at.map(|stored| stored.0.as_second());
    let is_over = stored
        .and_then(|stored| end(wanted, stored))
        .is_some_and(|end| end <= fresh.steady_wall());
    record.secret.as_deref() == Some(secret) && is_over && !fresh.deleting()
}
