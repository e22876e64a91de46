//! A simulated world with lost requests and answers, late lists, crashes, two operators, restored statuses and other
//! users. In every run, each revision erases the host at most once, and the object ends idle.

use super::*;
use crate::{host::decide::attempt::HostInstallCheck, host_record::against, reconcile::Ended};
use hosting_types::Error;
use proptest::prelude::*;
use std::collections::VecDeque;

/// Time between two reconciles.
const STEP: Duration = Duration::from_secs(20);
/// Steps without faults after which the object must be idle.
const SETTLES: usize = 200;
/// Steps that an installation takes.
const TAKES: usize = 5;

/// What happens in one step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Fine,
    /// A request does not arrive, and its sender does not know.
    CallLost,
    /// A request arrives, and its answer is lost.
    AnswerLost,
    /// A request arrives some steps later; its sender does not know.
    ArrivesLate,
    /// The process forgets everything after the request.
    Crash,
    /// The process forgets everything between the recorded intent and the request.
    CrashBefore,
    /// Polls return the list of some steps ago.
    ListLate,
    /// The poll returns an empty list.
    ListEmpty,
    /// The log cannot be read.
    LogFails,
    /// A user raises the revision.
    Raise,
    /// Another user installs the host at the provider.
    ByOthers,
    /// The other operator takes over.
    Takeover,
    /// The status is restored from a backup.
    Restore,
}

struct World {
    case: Case,
    host: Host,
    log: HostLog,
    ends: Option<usize>,
    /// The lists of the last steps.
    previous_lists: VecDeque<Host>,
    late: usize,
    is_blank: bool,
    /// Requests that arrive later: the step and the revision.
    under_way: Vec<(usize, i64)>,
    /// The revisions of the requests that arrived.
    installed: Vec<i64>,
    backups: VecDeque<DedicatedHostStatus>,
    /// The memory of the other operator.
    other: Memory<HostMemory>,
    step: usize,
    nonce: usize,
}

impl World {
    fn new() -> Self {
        Self {
            case: Case::new(),
            host: host(),
            log: HostLog::default(),
            ends: None,
            previous_lists: VecDeque::new(),
            late: 0,
            is_blank: false,
            under_way: Vec::new(),
            installed: Vec::new(),
            backups: VecDeque::new(),
            other: Memory::default(),
            step: 0,
            nonce: 0,
        }
    }

    fn now(&self) -> Duration {
        NOW + STEP * u32::try_from(self.step).unwrap()
    }

    fn wall(&self) -> i64 {
        WALL + i64::try_from(self.now().as_secs() - NOW.as_secs()).unwrap()
    }

    /// Adds an entry to the installation log.
    fn writes(&mut self) {
        self.log = HostLog {
            entries: self.log.entries + 1,
            last_id: Some(self.log.last_id.unwrap_or_default() + 1),
            newest: Some(self.wall()),
        };
    }

    /// The provider handles the request of this revision.
    fn arrives(&mut self, revision: i64) -> Result<(), u16> {
        if self.ends.is_some() {
            return Err(422);
        }
        self.installed.push(revision);
        self.host.install_status = InstallStatus::Created;
        self.ends = Some(self.step + TAKES);
        self.writes();
        Ok(())
    }

    fn step(&mut self, fate: Fate) {
        self.step += 1;
        let step = self.step;
        if self.ends.is_some_and(|at| at <= step) {
            self.ends = None;
            self.host.install_status = InstallStatus::Finished;
            self.writes();
        }
        let all = std::mem::take(&mut self.under_way);
        let (due, later): (Vec<_>, Vec<_>) = all.into_iter().partition(|(at, _)| *at <= step);
        self.under_way = later;
        for (_, revision) in due {
            let _ = self.arrives(revision);
        }
        self.change(fate);
        self.previous_lists.push_front(self.host.clone());
        self.previous_lists.truncate(4);
        self.late = match fate {
            Fate::ListLate => 3,
            _ => self.late.saturating_sub(1),
        };
        self.is_blank = fate == Fate::ListEmpty;
        self.list_hosts();
        self.reconcile(fate);
    }

    /// Applies what users and the other operator do.
    fn change(&mut self, fate: Fate) {
        let step = self.step;
        let case = self.case.clone();
        let edited = |o: &mut DedicatedHost| {
            o.metadata.generation = Some(i64::try_from(step).unwrap() + 1);
        };
        self.case = match fate {
            Fate::Raise => {
                let revision = install::wanted_revision(&case.0) + 1;
                case.installs(revision).object(edited)
            }
            Fate::Restore if self.under_way.is_empty() && self.backups.len() > 3 => {
                let old = self.backups.back().cloned();
                // A cluster restore also restarts the operators.
                self.other = Memory::default();
                let now = self.now();
                case.object(|o| o.status = old).facts(|f| {
                    f.subject.memory = Memory::default();
                    f.subject.leader_since = now;
                })
            }
            Fate::Takeover => {
                let now = self.now();
                let other = std::mem::take(&mut self.other);
                self.other = case.0.subject.memory.clone();
                case.facts(|f| {
                    f.subject.memory = other;
                    f.subject.leader_since = now;
                })
            }
            Fate::ByOthers => {
                if self.ends.is_none() {
                    self.host.install_status = InstallStatus::Created;
                    self.ends = Some(step + TAKES);
                    self.writes();
                }
                case
            }
            _ => case,
        };
    }

    /// Polls the account's hosts and refreshes the memory.
    fn list_hosts(&mut self) {
        let now = self.now();
        let shown = self.previous_lists[self.late.min(self.previous_lists.len() - 1)].clone();
        let shown = match self.is_blank {
            true => Vec::new(),
            false => vec![shown],
        };
        let wall = self.wall();
        // Begins before this step, so it does not show what the step does.
        let before = now - secs(1);
        let case = self.case.clone().list(before, &shown);
        let case = case.view(|v| v.catalogue.as_mut().unwrap().0 = before);
        let case = case.facts(|f| f.subject.now = Moment { wall, mono: now });
        self.case = case.refreshed();
    }

    fn reconcile(&mut self, fate: Fate) {
        for _ in 0..4 {
            let decision = self.case.decide();
            let now = self.now();
            let rest = self.case.0.subject.memory.backoff.remaining(now);
            match decision.effect.clone().filter(|_| rest.is_none()) {
                Some(effect) => self.act(&effect, fate),
                None => {
                    let (status, _) =
                        decision.status(&self.case.0.subject, jiff::Timestamp::UNIX_EPOCH);
                    self.backups.push_front(status.clone());
                    self.backups.truncate(12);
                    self.case = self.case.clone().object(|o| o.status = Some(status));
                    if !decision.requeue_once_written {
                        return;
                    }
                }
            }
            self.case = self.case.clone().refreshed();
        }
    }

    fn nonce(&mut self) -> String {
        self.nonce += 1;
        format!("n{}", self.nonce)
    }

    fn act(&mut self, effect: &HostEffect, fate: Fate) {
        let now = self.now();
        let started = (self.case.0.subject.now, secs(30));
        match effect {
            HostEffect::ReadLog { .. } if fate == Fate::LogFails => {
                self.record_observation(
                    HostObservation::NoLog(now, "no".into(), false),
                    Ended::Done,
                );
            }
            HostEffect::ReadLog { .. } => {
                let log = self.log;
                self.record_observation(
                    HostObservation::Log(InstallLogSnapshot {
                        at: now + secs(1),
                        log,
                        error: None,
                    }),
                    Ended::Done,
                );
            }
            HostEffect::Install(new) => {
                let Some(known) = install::may_start(&self.case.0, new) else {
                    return self.record_observation(HostObservation::Nothing, Ended::Stale);
                };
                let against = against(&self.host, new.host, new.server_id, None);
                if against.is_some() || fate == Fate::LogFails {
                    let blocked = BlockedInstall {
                        generation: self.case.0.subject.object.metadata.generation,
                        at: now,
                        explanation: Explanation::waits(Reason::ChecksFailed, "no"),
                    };
                    return self.record_observation(
                        HostObservation::Blocked(Box::new(blocked)),
                        Ended::Done,
                    );
                }
                let nonce = self.nonce();
                let check = (&self.host, self.log);
                let intent = attempt::intent(&self.case.0, new, nonce, started, check);
                if let HostInstallCheck::Repeated(why) =
                    attempt::check_before_install(&known, &self.log)
                {
                    let repeated = attempt::repeated(intent, why, self.wall());
                    return self.record_observation(
                        HostObservation::Installed(Box::new(repeated), now),
                        Ended::Done,
                    );
                }
                let record = HostInstallRecord::unfinished(intent);
                let status = attempt::installing(&self.case.0, known, &record);
                self.case = self.case.clone().object(|o| o.status = Some(status));
                assert!(install::may_send(&self.case.0, new, &record.intent));
                if let Some(answer) = self.send(new.revision, fate) {
                    let answered = attempt::answered_install(record, &answer);
                    self.record_observation(
                        HostObservation::Installed(Box::new(answered), now),
                        Ended::Done,
                    );
                }
            }
            HostEffect::Power { .. } => panic!("nobody wishes for power"),
        }
    }

    /// Sends a request. None: the process crashed and has forgotten it.
    fn send(&mut self, revision: i64, fate: Fate) -> Option<Result<(), Error>> {
        let lost = || Error::TooLarge { cap: 1 };
        let answer = match fate {
            Fate::CallLost => Err(lost()),
            Fate::ArrivesLate => {
                self.under_way.push((self.step + 2, revision));
                Err(lost())
            }
            Fate::AnswerLost => {
                let _ = self.arrives(revision);
                Err(lost())
            }
            Fate::Crash | Fate::CrashBefore => {
                if fate == Fate::Crash {
                    let _ = self.arrives(revision);
                }
                let now = self.now();
                self.case = self.case.clone().facts(|f| {
                    f.subject.memory = Memory::default();
                    f.subject.leader_since = now;
                });
                return None;
            }
            // A refused request counts as lost here.
            _ => self.arrives(revision).map_err(|_| lost()),
        };
        Some(answer)
    }

    fn record_observation(&mut self, observation: HostObservation, ended: Ended) {
        let now = self.now();
        self.case = self.case.clone().facts(|f| {
            f.subject.memory.own.record_observation(observation);
            f.subject.memory.record_effect(ended, now);
        });
    }

    fn is_idle(&self) -> bool {
        let state = self.case.reason_and_state().1;
        let idle = [
            Some(crate::explanation::ReadyState::Ready),
            Some(crate::explanation::ReadyState::Stalled),
        ];
        self.case.effect().is_none() && idle.contains(&state)
    }
}

fn is_once<T: PartialEq>(all: &[T]) -> bool {
    (0..all.len()).all(|at| !all[..at].contains(&all[at]))
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        8 => Just(Fate::Fine),
        1 => Just(Fate::CallLost),
        1 => Just(Fate::AnswerLost),
        1 => Just(Fate::ArrivesLate),
        1 => Just(Fate::Crash),
        1 => Just(Fate::CrashBefore),
        1 => Just(Fate::ListLate),
        1 => Just(Fate::ListEmpty),
        1 => Just(Fate::LogFails),
        3 => Just(Fate::Raise),
        1 => Just(Fate::ByOthers),
        1 => Just(Fate::Takeover),
        1 => Just(Fate::Restore),
    ];
    prop::collection::vec(fate, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn each_revision_installs_at_most_once(fates in fates()) {
        let mut world = World::new();
        (0..4).for_each(|_| world.step(Fate::Fine));
        for fate in &fates {
            world.step(*fate);
            prop_assert!(is_once(&world.installed), "{:?}", world.installed);
        }
        for _ in 0..SETTLES {
            world.step(Fate::Fine);
        }
        prop_assert!(is_once(&world.installed), "{:?}", world.installed);
        prop_assert!(world.is_idle(), "{:?} {:?}", world.case.decide(), world.host);
        let wanted = install::wanted_revision(&world.case.0);
        prop_assert!(world.installed.iter().all(|revision| *revision <= wanted));
    }

    #[test]
    fn each_raised_revision_is_installed_without_faults(revisions in 1i64..4) {
        let mut world = World::new();
        (0..4).for_each(|_| world.step(Fate::Fine));
        for _ in 0..revisions {
            world.step(Fate::Raise);
            (0..20).for_each(|_| world.step(Fate::Fine));
        }
        let all: Vec<i64> = (1..=revisions).collect();
        prop_assert_eq!(&world.installed, &all);
        prop_assert_eq!(world.case.reason(), Some(Reason::Available));
    }
}
