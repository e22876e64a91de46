//! `spec.rootPassword`: asked for while it can be had, stored once for each installation, told before it is too late.

mod failures;
mod stored;

use super::{existing::kept, *};
use crate::{
    last_error::LastError,
    server::{
        decide::{
            precondition,
            root_password::{deletion_due_at, may_fetch, may_find},
        },
        memory::ServerObservation,
        password_memory::{PasswordEnd, PasswordFailure},
    },
};
use api::{
    ManagementPolicy,
    command::{CommandOutcome, ListedCommands},
    conditions::DesiredCondition,
    install::{FinishedInstall, InstallEnd, InstallHistory, InstallIntent, InstallRecord},
    outputs::{OutputRef, Outputs},
    root_password::{Installed, PasswordWarning, RootPassword},
};

/// When the machine was delivered.
const INSTALLED: i64 = EPOCH + 60;
const HOUR: i64 = 3_600;

/// A delivered server whose password is wanted, of which nothing is written yet.
fn new() -> Case {
    named(has(kept(ServerStatus::Delivered), "Windows-2022"), "pass")
}

/// The same once its status is written and the name of the Secret is seen to be free.
fn wanted() -> Case {
    free(written(new()))
}

/// The machine has this system.
fn has(case: Case, slug: &str) -> Case {
    case.shown(|s| s.os_slug = slug.into())
}

fn named(case: Case, name: &str) -> Case {
    let secret_ref = OutputRef { name: name.into() };
    let password = RootPassword {
        secret_ref,
        ttl: None,
    };
    case.spec(|s| s.root_password = Some(password))
        .holding(OutputPlace::Secret, name)
}

fn kept_for(case: Case, ttl: u64) -> Case {
    case.spec(|s| s.root_password.as_mut().unwrap().ttl = Some(Interval::seconds(ttl)))
}

fn first_installation() -> Installed {
    Installed {
        server: uuid(1),
        revision: None,
    }
}

/// So many seconds after the delivery.
fn at(case: Case, seconds: i64) -> Case {
    case.facts(|f| {
        let since = u64::try_from(INSTALLED + seconds - START).unwrap();
        f.now.wall = INSTALLED + seconds;
        f.now.mono = secs(since);
        f.own[0].seen = f.now.mono;
    })
}

/// So much later.
fn later(case: Case, seconds: i64) -> Case {
    let now = case.0.now.wall - INSTALLED;
    at(case, now + seconds)
}

/// A step with the last installation ended like this.
fn seen(case: Case, end: PasswordEnd) -> Case {
    let now = case.0.now.mono;
    let (of, _) = Installed::last(&case.decide().desired.status).expect("it is delivered");
    let noted = ServerObservation::Password { of, end };
    case.memory(|m| m.record_observation(noted, now))
}

fn failed(case: Case, failure: PasswordFailure) -> Case {
    seen(case, PasswordEnd::Failed(failure))
}

fn free(case: Case) -> Case {
    let name = case.0.object.spec.root_password.as_ref();
    let name = name.expect("it is wanted").secret_ref.name.clone();
    seen(case, PasswordEnd::Free(name))
}

fn kept_in(case: Case, name: &str) -> Case {
    let now = case.0.now.wall;
    written(seen(case, PasswordEnd::Stored(name.into(), now)))
}

/// The status stands that was decided.
fn written(case: Case) -> Case {
    let status = case
        .decide()
        .desired
        .finish(Timestamp::from_second(START).unwrap());
    case.object(|o| o.status = Some(status))
}

/// Another process.
fn restarted(case: Case) -> Case {
    case.memory(|m| *m = ServerMemory::default())
}

fn said(case: &Case) -> DesiredCondition {
    let decision = case.decide();
    let said = decision.desired.condition(Type::RootPasswordStored);
    said.expect("it is said").clone()
}

/// The step that is due.
fn step(case: &Case) -> &'static str {
    match case.decide().effect {
        // A look whether somebody deleted it comes last.
        None | Some(ServerEffect::CheckDeletedOutputs(_)) => "none",
        Some(ServerEffect::RecordOutput(_)) => "record",
        Some(ServerEffect::FindPassword { .. }) => "find",
        Some(ServerEffect::FetchPassword { .. }) => "fetch",
        Some(ServerEffect::ForgetPassword { .. }) => "forget",
        other => panic!("{other:?}"),
    }
}

#[test]
fn password_is_found_fetched_and_stored_once() {
    // The checks right before rest on the written status.
    assert_eq!(step(&new()), "none");
    assert_eq!(new().decide().requeue_once_written, Requeue::Now);
    assert_eq!(step(&written(new())), "find");
    assert_eq!(step(&wanted()), "fetch");
    // What nobody would find again at the end is not created.
    let unheld = |case: Case| case.object(|o| o.status.as_mut().unwrap().records.outputs.clear());
    assert_eq!(step(&unheld(written(new()))), "record");
    assert_eq!(step(&unheld(wanted())), "record");
    assert!(
        may_find(&wanted().0, &first_installation(), "pass")
            && !may_find(&unheld(wanted()).0, &first_installation(), "pass")
    );
    assert!(matches!(
        wanted().decide().effect,
        Some(ServerEffect::FetchPassword { of: asked, secret }) if asked == first_installation() && secret == "pass"
    ));
    let said_first = said(&wanted());
    assert_eq!(said_first.reason, Reason::Pending);
    let until = Timestamp::from_second(INSTALLED + 86_400).unwrap();
    assert!(said_first.message.contains(&until.to_string()));
    let stored = kept_in(wanted(), "pass");
    assert_eq!(step(&stored), "none");
    assert_eq!(said(&stored).reason, Reason::InSync);
    assert_eq!(said(&stored).status, Some(true));
    // By the note alone, in another process, under another name, and after the window.
    let noted = restarted(stored);
    assert_eq!(step(&noted), "none");
    let moved = named(noted.clone(), "other");
    assert_eq!(step(&moved), "none");
    assert!(said(&moved).message.contains("Secret pass"));
    let late = at(noted.clone(), 90_000);
    assert_eq!((step(&late), said(&late).reason), ("none", Reason::InSync));
    // What an earlier object of this name had in its status was restored, and its Secret went with it.
    let restored = noted.object(|o| {
        let order = o.status.as_mut().unwrap().records.order.as_mut().unwrap();
        order.uid = "uid-0".into();
    });
    let password = restored.decide().desired.status.records.root_password;
    assert!(password.is_none_or(|p| p.stored_at.is_none()));
}

#[test]
fn blocked_password_fetch_reports_why() {
    let reinstalled = installed_again(wanted(), None);
    for (case, words) in [
        (wanted().spec(|s| s.suspend = Some(true)), "spec.suspend"),
        (
            wanted().spec(|s| s.management_policy = Some(ManagementPolicy::ObserveOnly)),
            "spec.managementPolicy",
        ),
        (
            wanted().blocked(Reason::KeyRejected),
            "the account cannot be used",
        ),
        (reinstalled, "being re-installed"),
    ] {
        assert_eq!(step(&case), "none", "{words}");
        let told = said(&case);
        assert_eq!(told.reason, Reason::Pending);
        assert!(told.message.contains(words), "{}", told.message);
        // Whatever it is, people hear of it in time.
        for (seconds, warning) in [(18, PasswordWarning::SixHours), (23, PasswordWarning::Hour)] {
            let near = at(case.clone(), seconds * HOUR).decide();
            let record = near.desired.status.records.root_password.unwrap();
            assert_eq!(record.warned, Some(warning), "{words}");
        }
        // And that it cannot be had any more is not known while nobody may ask.
        let over = at(case, 25 * HOUR);
        assert_eq!(said(&over).reason, Reason::Pending, "{words}");
    }
    assert_eq!(step(&kept(ServerStatus::Delivered)), "none");
    for case in [
        wanted().deleting(),
        named(kept(ServerStatus::Created), "pass"),
        named(kept(ServerStatus::Failed), "pass"),
    ] {
        let effect = case.decide().effect;
        let is_ours = matches!(
            effect,
            Some(ServerEffect::FindPassword { .. } | ServerEffect::FetchPassword { .. })
        );
        assert!(!is_ours, "{effect:?}");
    }
    // Windows is still to be installed.
    for seconds in [600, 90_000] {
        let linux = has(at(wanted(), seconds), "ubuntu-2404-lts");
        assert_eq!(
            (step(&linux), said(&linux).reason),
            ("none", Reason::Pending)
        );
        let record = linux.decide().desired.status.records.root_password.unwrap();
        assert_eq!(record.warned, None);
    }
}

/// What is said of it while all else of the server goes well.
pub(super) fn condition_cases() -> Vec<Case> {
    let trouble = || PasswordFailure::Error("Secret pass: the API server answers 403".into());
    let stored = kept_in(at(kept_for(wanted(), 3600), 600), "pass");
    vec![
        wanted(),
        has(wanted(), "ubuntu-2404-lts"),
        failed(wanted(), PasswordFailure::Absent),
        failed(wanted(), PasswordFailure::Taken("pass".into())),
        failed(wanted(), trouble()),
        failed(at(wanted(), 25 * HOUR), PasswordFailure::Absent),
        failed(at(stored.clone(), 5000), trouble()),
        seen(at(stored.clone(), 5000), PasswordEnd::Deleted),
        installed_again(stored.clone(), Some(InstallEnd::TimedOut)),
        stored,
    ]
}

/// A re-installation of the machine that was started, and ended like this at this moment.
fn installed_again(case: Case, end: Option<InstallEnd>) -> Case {
    let now = case.0.now.wall;
    let known = case
        .0
        .object
        .status
        .as_ref()
        .unwrap()
        .records
        .install
        .clone();
    let mut install = known.unwrap_or_else(|| InstallHistory::new("uid-1", &uuid(1), 0, INSTALLED));
    let revision = install.revision + 1;
    let intent = InstallIntent {
        uid: "uid-1".into(),
        machine: uuid(1),
        revision,
        wipe_disk: true,
        attempt: "a".into(),
        started_at: now - 60,
        send_by: now - 30,
        account: ordered_from(ACCOUNT_ID, CONNECTION),
        listed: ListedCommands::default(),
        sent: Default::default(),
        key_uids: Vec::new(),
        secret_texts: false,
    };
    install.last = Some(InstallRecord {
        outcome: Some(CommandOutcome::Accepted),
        end,
        ended_at: end.map(|_| now),
        ..InstallRecord::open(intent)
    });
    install.revision = revision;
    if end == Some(InstallEnd::Finished) {
        install.finished = Some(FinishedInstall { revision, at: now });
    }
    case.object(|o| o.status.as_mut().unwrap().records.install = Some(install))
        .spec(|s| {
            s.install = Some(api::install::Install {
                revision,
                wipe_disk: None,
            })
        })
}

#[test]
fn each_installation_has_a_password_of_its_own() {
    let stored = kept_in(wanted(), "pass");
    let open = installed_again(stored.clone(), None);
    assert!(
        !may_fetch(&open.0, &first_installation(), "pass"),
        "while it goes on"
    );
    assert_eq!(said(&open).reason, Reason::InSync);
    let anew = written(later(
        installed_again(stored.clone(), Some(InstallEnd::Finished)),
        60,
    ));
    let next = Installed {
        revision: Some(1),
        ..first_installation()
    };
    assert_eq!(step(&anew), "find");
    assert_eq!(step(&free(anew.clone())), "fetch");
    assert!(
        may_fetch(&anew.0, &next, "pass") && !may_fetch(&anew.0, &first_installation(), "pass")
    );
    let noted = anew.decide().desired.status.records.root_password.unwrap();
    assert_eq!(
        (noted.installation(), noted.stored_at),
        (next.clone(), None)
    );
    // Its day begins when it was finished, however long ago the machine was delivered.
    assert_eq!(noted.installed_at, time(stored.0.now.wall));
    // One that failed or was refused afterwards takes its place in status, and changes nothing of it, noted or not.
    for end in [InstallEnd::Failed, InstallEnd::Refused] {
        let failed = installed_again(anew.clone(), Some(end));
        let (last, _) = Installed::last(&failed.0.status()).unwrap();
        assert_eq!(last, next);
        assert_eq!(said(&failed).reason, Reason::Pending);
    }
    // Clocks play no part in which it is: the next one has another, although this one seemed later.
    let second = kept_in(free(anew), "pass");
    let back = installed_again(at(second, 0), Some(InstallEnd::Finished));
    assert_eq!(step(&written(back)), "find");
    // One whose end nobody knows may have changed it.
    for end in [
        InstallEnd::Unknown,
        InstallEnd::TimedOut,
        InstallEnd::NotRepeated,
    ] {
        let doubted = said(&installed_again(stored.clone(), Some(end)));
        assert_eq!(doubted.reason, Reason::InSync);
        assert!(
            doubted.message.contains("status.install.last"),
            "{}",
            doubted.message
        );
    }
}

#[test]
fn password_window_starts_without_delivery_time() {
    let unknown = new().shown(|s| s.delivered_at = None);
    let unknown = free(written(
        unknown.object(|o| o.status.as_mut().unwrap().delivered_at = None),
    ));
    assert_eq!(step(&unknown), "fetch");
    assert_eq!(said(&unknown).reason, Reason::Pending);
    // Until the provider says when it was.
    let told = unknown.facts(|f| {
        Arc::make_mut(&mut f.own[0].server).delivered_at = Some(INSTALLED);
    });
    let record = told.decide().desired.status.records.root_password.unwrap();
    assert_eq!(record.installed_at, time(INSTALLED));
}

#[test]
fn password_checks_use_the_current_object() {
    let fresh = |case: Case| {
        let find = may_find(&case.0, &first_installation(), "pass");
        let fetch = may_fetch(&case.0, &first_installation(), "pass");
        assert!(find || !fetch);
        (find, fetch)
    };
    assert_eq!(fresh(wanted()), (true, true));
    assert_eq!(
        fresh(wanted().spec(|s| s.suspend = Some(true))),
        (true, false)
    );
    assert_eq!(fresh(wanted().blocked(Reason::KeyRejected)), (true, false));
    assert_eq!(fresh(installed_again(wanted(), None)), (true, false));
    for gone in [
        wanted().deleting(),
        named(wanted(), "other"),
        wanted().spec(|s| s.root_password = None),
        kept_in(wanted(), "pass"),
        installed_again(wanted(), Some(InstallEnd::Finished)),
        wanted().object(|o| o.status.as_mut().unwrap().uuid = Some(uuid(9))),
    ] {
        assert_eq!(fresh(gone), (false, false));
    }
    let record = |status, tags: &[&str]| {
        precondition::may_read_password(&wanted().0, &server(1, status, tags))
    };
    assert!(record(ServerStatus::Delivered, &[&own_tag()]));
    assert!(!record(ServerStatus::Delivered, &[]));
    assert!(!record(
        ServerStatus::Delivered,
        &[&own_tag(), &other_tag()]
    ));
    assert!(!record(
        ServerStatus::Delivered,
        &[&own_tag(), RETAINED_TAG]
    ));
    assert!(!record(ServerStatus::Provisioning, &[&own_tag()]));
}
