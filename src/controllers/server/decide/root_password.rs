//! `spec.rootPassword`: the password of a Windows machine is stored once for each installation, while it can be had.
//!
//! Status notes that it was stored, and from then on nobody asks for it again, whatever becomes of the Secret. A process
//! that wrote the Secret and not the note leaves a Secret that says of which installation it is: it is looked at before
//! anything is asked for, or called missed. What fails here has pauses of its own, and holds up nothing else.

use super::{
    super::{
        facts::{Facts, is_same_uuid},
        password_memory::{PasswordFailure, PasswordMemory},
    },
    Decision, Effect, remedy,
};
use crate::{
    controllers::{account_facts::Purpose, again::Again},
    kinds::{
        Interval, Reason,
        conditions::{Type, Wanted},
        reinstall::{InstallEnd, InstallStatus},
        root_password::{Installed, PasswordWarning, RootPassword, RootPasswordStatus},
        server::BareMetalServerStatus,
    },
};
use hosting::{Server, ServerStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

const HOUR: i64 = 3_600;
/// After the end of the window nobody who never answers is asked for longer, nor fewer times.
const GIVEN_UP_AFTER: i64 = 86_400;
const GIVEN_UP_TRIES: u32 = 8;
/// It is looked at this often at the least: a name may come free, and a clock be turned back.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);
/// The first pause between two tries where no account says how often to look.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
/// The longest pause, in first ones; each is twice the one before.
const MOST_POLLS: u32 = 20;

/// Adds what is due to a decision, and notes in status what is known. Returns what is said.
pub fn keep(facts: &Facts, decision: &mut Decision) -> Option<Wanted> {
    let shown = decision.draft.status.root_password.take();
    let wanted = facts.object.spec.root_password.as_ref();
    let sought = wanted
        .zip(delivered(facts, &decision.draft.status))
        .filter(|_| !facts.deleting());
    let machine = shown.as_ref().map(|shown| shown.machine.clone());
    let is_of_it = machine.is_some() && machine == decision.draft.status.uuid;
    if sought.is_none() && (wanted.is_none() || !is_of_it) {
        let kind = Type::RootPasswordStored.as_str();
        let conditions = &mut decision.draft.status.conditions;
        conditions.retain(|c| c.type_ != kind);
    }
    let mut record = shown.filter(|_| is_own(facts));
    if let Some((_, (of, at))) = &sought {
        let known = record.take().filter(|record| record.of() == *of);
        record = match known {
            // Its day begins when the provider says so, once it does.
            Some(record) => record.begin(*at),
            None => RootPasswordStatus::new(of, at.unwrap_or(facts.steady_wall())),
        };
    }
    let mut record = record?;
    let of = record.of();
    let known = Some(&facts.memory.root_password).filter(|known| known.of == of);
    take_in(&mut record, known, facts.steady_wall());
    record.delete_at = delete_at(wanted, &record);
    forget(facts, decision, &record, known);
    let said = match (&record.secret, sought) {
        (Some(secret), sought) => {
            let overdue = overdue(facts, &record, known);
            // What stands against the deletion is said whatever else is wanted.
            (sought.is_some() || overdue.is_some())
                .then(|| stored(decision, &record, overdue, secret))
        }
        (None, Some((wanted, _))) => Some(fetch(facts, decision, wanted, &mut record, known)),
        (None, None) => None,
    };
    decision.draft.status.root_password = Some(record);
    said
}

/// The last installation of the machine that the status shows, where it is delivered and seen to be the object's, and
/// when it was.
fn delivered(facts: &Facts, status: &BareMetalServerStatus) -> Option<(Installed, Option<i64>)> {
    let uuid = status.uuid.as_deref()?;
    let is_it = |server: &Server| {
        server.status == ServerStatus::Delivered && is_same_uuid(server.id.as_str(), uuid)
    };
    facts.own.iter().find(|s| is_it(&s.server))?;
    Installed::last(status)
}

/// Whether the status is this object's, and not that of an earlier one of this name, which was restored.
fn is_own(facts: &Facts) -> bool {
    let order = facts.object.status.as_ref().and_then(|s| s.order.as_ref());
    order.is_some_and(|order| order.intent.uid == facts.uid())
}

/// Notes what this process has done.
fn take_in(record: &mut RootPasswordStatus, known: Option<&PasswordMemory>, now: i64) {
    let Some(known) = known else { return };
    if let Some((secret, at)) = &known.stored
        && record.secret.is_none()
    {
        record.secret = Some(secret.clone());
        record.stored_at = moment(*at);
    }
    if known.is_deleted && record.secret.is_some() {
        record.deleted_at = record.deleted_at.take().or_else(|| moment(now));
    }
}

/// When the Secret goes: as the spec says, or, where it says nothing of a password any more, as it said last.
fn delete_at(wanted: Option<&RootPassword>, record: &RootPasswordStatus) -> Option<Time> {
    let Some(wanted) = wanted else {
        return record.delete_at.clone();
    };
    let ttl = i64::try_from(wanted.ttl?.0.as_secs()).unwrap_or(i64::MAX);
    let stored = record.stored_at.as_ref()?.0.as_second();
    moment(stored.saturating_add(ttl))
}

/// The Secret goes when its time is over, whatever becomes of the server and of its spec.
fn forget(
    facts: &Facts,
    decision: &mut Decision,
    record: &RootPasswordStatus,
    known: Option<&PasswordMemory>,
) {
    let written = facts.object.status.as_ref();
    let written = written.and_then(|status| status.root_password.as_ref());
    let is_written = written.is_some_and(|written| written.secret == record.secret);
    let (Some(secret), Some(at), None) = (&record.secret, &record.delete_at, &record.deleted_at)
    else {
        return;
    };
    if !is_written {
        return;
    }
    let rest = at.0.as_second().saturating_sub(facts.steady_wall());
    let rest = seconds(rest).max(pause(facts, known));
    let forget = Effect::ForgetPassword {
        of: record.of(),
        secret: secret.clone(),
    };
    due_after(facts, decision, rest, forget);
}

/// What is said of a password that is stored.
fn stored(
    decision: &Decision,
    record: &RootPasswordStatus,
    overdue: Option<String>,
    secret: &str,
) -> Wanted {
    let machine = &record.machine;
    let mut text = match &record.deleted_at {
        Some(_) => format!(
            "the password of machine {machine} was in Secret {secret}, which is deleted (spec.rootPassword.ttl)"
        ),
        None => format!("the password of machine {machine} is in Secret {secret}"),
    };
    if let Some(overdue) = overdue {
        text += &overdue;
    }
    if let Some((revision, _)) = in_doubt(decision, record) {
        text += &format!(
            "; whether re-installation {revision}, of which the end is not known, gave it another one nobody can say: see status.install.last"
        );
    }
    Wanted::new(Type::RootPasswordStored, true, Reason::PasswordStored, text)
}

/// Why the Secret is still there, although its time is over.
fn overdue(
    facts: &Facts,
    record: &RootPasswordStatus,
    known: Option<&PasswordMemory>,
) -> Option<String> {
    let at = record
        .delete_at
        .as_ref()
        .filter(|_| record.deleted_at.is_none())?
        .0;
    let failure = known.and_then(|known| known.failure.as_ref())?;
    let (PasswordFailure::Trouble(why), true) = (failure, at.as_second() <= facts.steady_wall())
    else {
        return None;
    };
    Some(format!(
        "; by spec.rootPassword.ttl it is to be deleted since {at}: {why}; tried again, at growing intervals"
    ))
}

/// A later re-installation that may have taken place and was not seen to be finished: its revision, and when that was
/// settled, in seconds since 1970.
fn in_doubt(decision: &Decision, record: &RootPasswordStatus) -> Option<(i64, i64)> {
    let install = decision.draft.status.install.as_ref();
    let install = install.filter(|install| install.machine == record.machine)?;
    let last = install.last.as_ref()?;
    let is_later = Some(last.intent.revision) > record.revision;
    let may_be = matches!(
        last.end,
        Some(InstallEnd::Unknown | InstallEnd::TimedOut | InstallEnd::NotRepeated)
    );
    (is_later && may_be).then_some((last.intent.revision, last.ended_at.unwrap_or(0)))
}

/// What is due of a password that is not stored, and what is said of it.
fn fetch(
    facts: &Facts,
    decision: &mut Decision,
    wanted: &RootPassword,
    record: &mut RootPasswordStatus,
    known: Option<&PasswordMemory>,
) -> Wanted {
    let machine = record.machine.clone();
    // The spec may ask for Windows, and a re-installation that brings it is still to come.
    if let Some(slug) = other_system(decision) {
        let text = format!(
            "machine {machine} has {slug}, and only Windows has a root password; it is asked for once Windows is installed: raise spec.install.revision for that, which wipes the machine, or take spec.rootPassword out"
        );
        return not_yet(Reason::PasswordPending, text);
    }
    let until = record.available_until.0;
    let rest = until.as_second().saturating_sub(facts.steady_wall());
    if rest > 0 && record.warned == Some(PasswordWarning::Missed) {
        record.warned = None;
    }
    if is_missed(facts, decision, record, known, rest) {
        record.warned = Some(PasswordWarning::Missed);
        let text = format!(
            "the password of machine {machine} could be had until {until} and was not stored, so it cannot be had any more; set one by another way into the machine, or raise spec.install.revision to install it again, which wipes it"
        );
        return not_yet(Reason::PasswordMissed, text);
    }
    // A moment to warn at, a name that comes free, a clock that is put right.
    look_within(decision, LONGEST_SLEEP);
    let obstacle = obstacle(facts, decision, wanted, known);
    let said = said(facts, wanted, &machine, until, obstacle.as_ref());
    let (of, secret) = (record.of(), wanted.secret_ref.name.clone());
    let is_free = known.is_some_and(|known| known.free.as_ref() == Some(&secret));
    // The checks right before rest on what the written status shows.
    let written = facts.status();
    let is_written = written.provider_status == decision.draft.status.provider_status
        && Installed::last(&written).is_some_and(|(last, _)| last == of);
    let step = match is_free {
        false => Some(Effect::FindPassword { of, secret }),
        true => may_ask(facts, obstacle.as_ref()).then_some(Effect::FetchPassword { of, secret }),
    };
    if !is_written {
        decision.once_written = Again::AtOnce;
    } else if let Some(step) = step {
        let pause = match &obstacle {
            Some(Obstacle::Taken) => until_looked_again(facts, known),
            _ => pause(facts, known),
        };
        due_after(facts, decision, pause, step);
    }
    let is_under_way = !facts.memory.queued
        && matches!(
            decision.effect,
            Some(Effect::FindPassword { .. } | Effect::FetchPassword { .. })
        );
    // What is about to be asked for, as far as anybody knows, needs no warning.
    if obstacle.is_some() || is_written && !is_under_way {
        record.warned = record.warned.max(warning(rest));
    }
    said
}

/// Whether the provider has said, after the end of the window, that there is none any more. What a clock says is not enough
/// to send anybody to another installation, which wipes the machine.
fn is_missed(
    facts: &Facts,
    decision: &Decision,
    record: &RootPasswordStatus,
    known: Option<&PasswordMemory>,
    rest: i64,
) -> bool {
    let doubt = in_doubt(decision, record);
    // A re-installation whose end nobody knows may have brought another one since.
    let since = doubt.map_or(i64::MAX, |(_, at)| facts.now.wall.saturating_sub(at));
    let since = seconds(since.min(rest.saturating_neg()));
    let said_so = |known: &PasswordMemory| {
        known.failure == Some(PasswordFailure::Absent) && known.tried + since >= facts.now.mono
    };
    let is_given_up = doubt.is_none()
        && rest <= -GIVEN_UP_AFTER
        && known.is_some_and(|known| known.tries >= GIVEN_UP_TRIES);
    let is_noted = record.warned == Some(PasswordWarning::Missed) && doubt.is_none();
    rest <= 0 && (is_noted || is_given_up || known.is_some_and(said_so))
}

/// What stands against storing it now.
enum Obstacle {
    /// The name is another's.
    Taken,
    /// The server is suspended, or only looked at; in words.
    Held(String),
    /// The machine may be getting another password at this moment.
    Reinstalling,
    /// The account cannot be used; in words.
    Account(String),
    /// The provider showed none.
    Absent,
    /// The last try failed; in words.
    Failed(String),
}

fn obstacle(
    facts: &Facts,
    decision: &Decision,
    wanted: &RootPassword,
    known: Option<&PasswordMemory>,
) -> Option<Obstacle> {
    let failure = known.and_then(|known| known.failure.as_ref());
    if failure == Some(&PasswordFailure::Taken(wanted.secret_ref.name.clone())) {
        return Some(Obstacle::Taken);
    }
    if let Some(held) = remedy::held(facts, "the password is not asked for") {
        return Some(Obstacle::Held(held.message));
    }
    let install = decision.draft.status.install.as_ref();
    if install.and_then(InstallStatus::open).is_some() {
        return Some(Obstacle::Reinstalling);
    }
    if let Err(cause) = facts.account.usable(Purpose::Change) {
        return Some(Obstacle::Account(cause.message));
    }
    match failure {
        Some(PasswordFailure::Absent) => Some(Obstacle::Absent),
        Some(PasswordFailure::Trouble(why)) => Some(Obstacle::Failed(why.clone())),
        Some(PasswordFailure::Taken(_)) | None => None,
    }
}

fn said(
    facts: &Facts,
    wanted: &RootPassword,
    machine: &str,
    until: Timestamp,
    obstacle: Option<&Obstacle>,
) -> Wanted {
    let (name, namespace) = (&wanted.secret_ref.name, facts.namespace());
    let again = "it is asked for again, at growing intervals";
    let why = match obstacle {
        None => "it is asked for".to_owned(),
        Some(Obstacle::Taken) => {
            let text = format!(
                "spec.rootPassword.secretRef: Secret {name} is not this object's, so it stays as it is and nothing is written; name another one before {until}, when the password cannot be had any more, or, if nobody needs that one, delete it: kubectl delete secret {name} -n {namespace}; looked at again every {}",
                Interval(LONGEST_SLEEP)
            );
            return not_yet(Reason::OutputNotOwned, text);
        }
        Some(Obstacle::Held(why)) => why.clone(),
        Some(Obstacle::Reinstalling) => {
            "it is being installed again, and then has another one, which is asked for".to_owned()
        }
        Some(Obstacle::Account(why)) => format!("the account cannot be used: {why}"),
        Some(Obstacle::Absent) => format!("the provider shows none; {again}"),
        Some(Obstacle::Failed(why)) => format!("{why}; {again}"),
    };
    let can = match until.as_second() > facts.steady_wall() {
        true => "can",
        false => "could",
    };
    let text = format!(
        "the password of machine {machine} is not stored yet, and {can} be had until {until}: {why}"
    );
    not_yet(Reason::PasswordPending, text)
}

fn not_yet(reason: Reason, text: String) -> Wanted {
    Wanted::new(Type::RootPasswordStored, false, reason, text)
}

/// Whether the provider may be asked.
fn may_ask(facts: &Facts, obstacle: Option<&Obstacle>) -> bool {
    let is_let = matches!(
        obstacle,
        None | Some(Obstacle::Absent | Obstacle::Failed(_))
    );
    is_let && shows_delivered(&facts.status())
}

fn shows_delivered(status: &BareMetalServerStatus) -> bool {
    let open = status.install.as_ref().and_then(InstallStatus::open);
    status.provider_status.as_deref() == Some(ServerStatus::Delivered.as_str()) && open.is_none()
}

fn warning(rest: i64) -> Option<PasswordWarning> {
    match rest {
        rest if rest <= HOUR => Some(PasswordWarning::Hour),
        rest if rest <= 6 * HOUR => Some(PasswordWarning::SixHours),
        _ => None,
    }
}

/// The system of the machine, where it is known to be another than Windows.
fn other_system(decision: &Decision) -> Option<&str> {
    let observed = decision.draft.status.observed.as_ref();
    let slug = observed.and_then(|o| o.os_slug.as_deref())?;
    let is_windows = slug.to_ascii_lowercase().starts_with("win");
    (!is_windows).then_some(slug)
}

/// How long it is until the next try.
fn pause(facts: &Facts, known: Option<&PasswordMemory>) -> Duration {
    let Some(known) = known.filter(|known| known.tries > 0) else {
        return Duration::ZERO;
    };
    let view = facts.view();
    let first = view.map_or(FIRST_PAUSE, |view| view.times.active_poll_interval);
    let doubled = 1_u32.checked_shl(known.tries - 1).unwrap_or(u32::MAX);
    let pause = first * doubled.min(MOST_POLLS);
    (known.tried + pause).saturating_sub(facts.now.mono)
}

/// How long it is until a name that is another's is looked at again.
fn until_looked_again(facts: &Facts, known: Option<&PasswordMemory>) -> Duration {
    let tried = known.map_or(Duration::ZERO, |known| known.tried);
    (tried + LONGEST_SLEEP).saturating_sub(facts.now.mono)
}

/// An effect after a pause. It goes before what is held back after failures, which may fail for ever while the day of the
/// password passes, and before a look that can wait; all else goes before it.
fn due_after(facts: &Facts, decision: &mut Decision, pause: Duration, effect: Effect) {
    if !pause.is_zero() {
        return look_within(decision, pause);
    }
    if let Some(other) = &decision.effect {
        let held = facts.memory.holds_back(other, facts.now.mono);
        if held.is_none() && !matches!(other, Effect::LookAtHardware { .. }) {
            return;
        }
        look_within(decision, held.unwrap_or(LONGEST_SLEEP));
    }
    decision.effect = Some(effect);
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

/// What is noted of this installation on the object as it is right before, where it is still the last one.
fn noted(fresh: &Facts, of: &Installed) -> Option<Option<RootPasswordStatus>> {
    let status = fresh.status();
    let (last, _) = Installed::last(&status)?;
    let record = status.root_password.filter(|_| is_own(fresh));
    (last == *of).then_some(record.filter(|record| record.of() == *of))
}

/// Whether the Secret may be looked at for this password, judged again on the object as it is right before.
pub fn may_find(fresh: &Facts, of: &Installed, secret: &str) -> bool {
    let named = fresh.object.spec.root_password.as_ref();
    let is_stored =
        |record: Option<RootPasswordStatus>| record.is_some_and(|record| record.secret.is_some());
    named.is_some_and(|wanted| wanted.secret_ref.name == secret)
        && noted(fresh, of).is_some_and(|record| !is_stored(record))
        && !fresh.deleting()
}

/// The same for whether the password may be asked for.
pub fn may_fetch(fresh: &Facts, of: &Installed, secret: &str) -> bool {
    may_find(fresh, of, secret)
        && shows_delivered(&fresh.status())
        && fresh.account.usable(Purpose::Change).is_ok()
        && fresh
            .known_policies()
            .is_some_and(|policies| policies.let_send())
}

/// When the Secret that holds it is to be deleted, in seconds since 1970, judged again on the object as it is right before.
/// None: it is to stay.
pub fn forgotten_at(fresh: &Facts, of: &Installed, secret: &str) -> Option<i64> {
    let record = fresh.status().root_password.filter(|_| is_own(fresh))?;
    let is_it = record.of() == *of && record.secret.as_deref() == Some(secret);
    let at = delete_at(fresh.object.spec.root_password.as_ref(), &record)?;
    let at = at.0.as_second();
    (is_it && record.deleted_at.is_none() && at <= fresh.steady_wall()).then_some(at)
}
