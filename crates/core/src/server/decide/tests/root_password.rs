//! `spec.rootPassword`: fetched while the provider has it, stored once per installation, and warned about before it
//! expires.

mod failures;
mod stored;

use super::{existing::with_status, *};
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

/// When the server was delivered.
const INSTALLED: i64 = EPOCH + 60;
const HOUR: i64 = 3_600;

/// A delivered server whose password is wanted, before its status is written.
fn new() -> Case {
    named(
        has(with_status(ServerStatus::Delivered), "Windows-2022"),
        "pass",
    )
}

/// The same after the status is written and the Secret name is found free.
fn with_root_password() -> Case {
    free(written(new()))
}

/// The server has this operating system.
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
        .holding(OutputKind::Secret, name)
}

fn stored_for(case: Case, ttl: u64) -> Case {
    case.spec(|s| s.root_password.as_mut().unwrap().ttl = Some(Interval::seconds(ttl)))
}

fn first_installation() -> Installed {
    Installed {
        server: uuid(1),
        revision: None,
    }
}

/// This many seconds after the delivery.
fn at(case: Case, seconds: i64) -> Case {
    case.facts(|f| {
        let since = u64::try_from(INSTALLED + seconds - START).unwrap();
        f.now.wall = INSTALLED + seconds;
        f.now.mono = secs(since);
        f.own[0].seen = f.now.mono;
    })
}

/// This many seconds later.
fn later(case: Case, seconds: i64) -> Case {
    let now = case.0.now.wall - INSTALLED;
    at(case, now + seconds)
}

/// A step for the last installation ended like this.
fn seen(case: Case, end: PasswordEnd) -> Case {
    let now = case.0.now.mono;
    let (of, _) = Installed::last(&case.decide().desired.status).expect("it is delivered");
    let observation = ServerObservation::Password { of, end };
    case.memory(|m| m.record_observation(observation, now))
}

fn failed(case: Case, failure: PasswordFailure) -> Case {
    seen(case, PasswordEnd::Failed(failure))
}

fn free(case: Case) -> Case {
    let name = case.0.object.spec.root_password.as_ref();
    let name = name.expect("it is wanted").secret_ref.name.clone();
    seen(case, PasswordEnd::Free(name))
}

fn stored_in(case: Case, name: &str) -> Case {
    let now = case.0.now.wall;
    written(seen(case, PasswordEnd::Stored(name.into(), now)))
}

/// The decided status is written.
fn written(case: Case) -> Case {
    let status = case
        .decide()
        .desired
        .finish(Timestamp::from_second(START).unwrap());
    case.object(|o| o.status = Some(status))
}

/// The operator restarted.
fn restarted(case: Case) -> Case {
    case.memory(|m| *m = ServerMemory::default())
}

fn password_condition(case: &Case) -> DesiredCondition {
    let decision = case.decide();
    let said = decision.desired.condition(Type::RootPasswordStored);
    said.expect("it is said").clone()
}

/// The due step.
fn step(case: &Case) -> &'static str {
    match case.decide().effect {
        // The check for deleted outputs comes last.
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
    // The checks right before a step need the written status.
    assert_eq!(step(&new()), "none");
    assert_eq!(new().decide().requeue_once_written, Requeue::Now);
    assert_eq!(step(&written(new())), "find");
    assert_eq!(step(&with_root_password()), "fetch");
    // A Secret without a record is not created: nothing would delete it later.
    let unrecorded =
        |case: Case| case.object(|o| o.status.as_mut().unwrap().records.outputs.clear());
    assert_eq!(step(&unrecorded(written(new()))), "record");
    assert_eq!(step(&unrecorded(with_root_password())), "record");
    assert!(
        may_find(&with_root_password().0, &first_installation(), "pass")
            && !may_find(
                &unrecorded(with_root_password()).0,
                &first_installation(),
                "pass"
            )
    );
    assert!(matches!(
        with_root_password().decide().effect,
        Some(ServerEffect::FetchPassword { of: asked, secret }) if asked == first_installation() && secret == "pass"
    ));
    let said_first = password_condition(&with_root_password());
    assert_eq!(said_first.reason, Reason::Pending);
    let until = Timestamp::from_second(INSTALLED + 86_400).unwrap();
    assert!(said_first.message.contains(&until.to_string()));
    let stored = stored_in(with_root_password(), "pass");
    assert_eq!(step(&stored), "none");
    assert_eq!(password_condition(&stored).reason, Reason::InSync);
    assert_eq!(password_condition(&stored).status, Some(true));
    // The record alone suffices: after a restart, under another name, and after the window.
    let recorded = restarted(stored);
    assert_eq!(step(&recorded), "none");
    let moved = named(recorded.clone(), "other");
    assert_eq!(step(&moved), "none");
    assert!(password_condition(&moved).message.contains("Secret pass"));
    let late = at(recorded.clone(), 90_000);
    assert_eq!(
        (step(&late), password_condition(&late).reason),
        ("none", Reason::InSync)
    );
    // The restored status of an earlier object does not count; its Secret is gone.
    let restored = recorded.object(|o| {
        let order = o.status.as_mut().unwrap().records.order.as_mut().unwrap();
        order.uid = "uid-0".into();
    });
    let password = restored.decide().desired.status.records.root_password;
    assert!(password.is_none_or(|p| p.stored_at.is_none()));
}

#[test]
fn blocked_password_fetch_reports_why() {
    let reinstalled = installed_again(with_root_password(), None);
    for (case, words) in [
        (
            with_root_password().spec(|s| s.suspend = Some(true)),
            "spec.suspend",
        ),
        (
            with_root_password()
                .spec(|s| s.management_policy = Some(ManagementPolicy::ObserveOnly)),
            "spec.managementPolicy",
        ),
        (
            with_root_password().blocked(Reason::KeyRejected),
            "the account cannot be used",
        ),
        (reinstalled, "being re-installed"),
    ] {
        assert_eq!(step(&case), "none", "{words}");
        let condition = password_condition(&case);
        assert_eq!(condition.reason, Reason::Pending);
        assert!(condition.message.contains(words), "{}", condition.message);
        // The user is warned in time anyway.
        for (seconds, warning) in [(18, PasswordWarning::SixHours), (23, PasswordWarning::Hour)] {
            let near = at(case.clone(), seconds * HOUR).decide();
            let record = near.desired.status.records.root_password.unwrap();
            assert_eq!(record.warned, Some(warning), "{words}");
        }
        // While nothing is fetched, the password is not reported as missed.
        let over = at(case, 25 * HOUR);
        assert_eq!(password_condition(&over).reason, Reason::Pending, "{words}");
    }
    assert_eq!(step(&with_status(ServerStatus::Delivered)), "none");
    for case in [
        with_root_password().deleting(),
        named(with_status(ServerStatus::Created), "pass"),
        named(with_status(ServerStatus::Failed), "pass"),
    ] {
        let effect = case.decide().effect;
        let is_ours = matches!(
            effect,
            Some(ServerEffect::FindPassword { .. } | ServerEffect::FetchPassword { .. })
        );
        assert!(!is_ours, "{effect:?}");
    }
    // The server still has Linux; Windows is not installed yet.
    for seconds in [600, 90_000] {
        let linux = has(at(with_root_password(), seconds), "ubuntu-2404-lts");
        assert_eq!(
            (step(&linux), password_condition(&linux).reason),
            ("none", Reason::Pending)
        );
        let record = linux.decide().desired.status.records.root_password.unwrap();
        assert_eq!(record.warned, None);
    }
}

/// Cases of its condition while the rest of the server is fine.
pub(super) fn condition_cases() -> Vec<Case> {
    let error = || PasswordFailure::Error("Secret pass: the API server answers 403".into());
    let stored = stored_in(at(stored_for(with_root_password(), 3600), 600), "pass");
    vec![
        with_root_password(),
        has(with_root_password(), "ubuntu-2404-lts"),
        failed(with_root_password(), PasswordFailure::Absent),
        failed(with_root_password(), PasswordFailure::Taken("pass".into())),
        failed(with_root_password(), error()),
        failed(at(with_root_password(), 25 * HOUR), PasswordFailure::Absent),
        failed(at(stored.clone(), 5000), error()),
        seen(at(stored.clone(), 5000), PasswordEnd::Deleted),
        installed_again(stored.clone(), Some(InstallEnd::TimedOut)),
        stored,
    ]
}

/// The server was re-installed now, with this end.
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
        server: uuid(1),
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
        ..InstallRecord::unfinished(intent)
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
    let stored = stored_in(with_root_password(), "pass");
    let open = installed_again(stored.clone(), None);
    assert!(
        !may_fetch(&open.0, &first_installation(), "pass"),
        "while it goes on"
    );
    assert_eq!(password_condition(&open).reason, Reason::InSync);
    let reinstalled = written(later(
        installed_again(stored.clone(), Some(InstallEnd::Finished)),
        60,
    ));
    let next = Installed {
        revision: Some(1),
        ..first_installation()
    };
    assert_eq!(step(&reinstalled), "find");
    assert_eq!(step(&free(reinstalled.clone())), "fetch");
    assert!(
        may_fetch(&reinstalled.0, &next, "pass")
            && !may_fetch(&reinstalled.0, &first_installation(), "pass")
    );
    let recorded = reinstalled
        .decide()
        .desired
        .status
        .records
        .root_password
        .unwrap();
    assert_eq!(
        (recorded.installation(), recorded.stored_at),
        (next.clone(), None)
    );
    // The window starts when the installation finished, not at the delivery.
    assert_eq!(recorded.installed_at, time(stored.0.now.wall));
    // A later failed or refused re-installation replaces it in status and changes nothing, recorded or not.
    for end in [InstallEnd::Failed, InstallEnd::Refused] {
        let failed = installed_again(reinstalled.clone(), Some(end));
        let (last, _) = Installed::last(&failed.0.status()).unwrap();
        assert_eq!(last, next);
        assert_eq!(password_condition(&failed).reason, Reason::Pending);
    }
    // Clocks do not identify an installation: the next one counts even if it seems older.
    let second = stored_in(free(reinstalled), "pass");
    let back = installed_again(at(second, 0), Some(InstallEnd::Finished));
    assert_eq!(step(&written(back)), "find");
    // A re-installation with an unknown end may have changed the password.
    for end in [
        InstallEnd::Unknown,
        InstallEnd::TimedOut,
        InstallEnd::NotRepeated,
    ] {
        let doubted = password_condition(&installed_again(stored.clone(), Some(end)));
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
    assert_eq!(password_condition(&unknown).reason, Reason::Pending);
    // Until the provider reports the delivery time.
    let reported = unknown.facts(|f| {
        Arc::make_mut(&mut f.own[0].server).delivered_at = Some(INSTALLED);
    });
    let record = reported
        .decide()
        .desired
        .status
        .records
        .root_password
        .unwrap();
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
    assert_eq!(fresh(with_root_password()), (true, true));
    assert_eq!(
        fresh(with_root_password().spec(|s| s.suspend = Some(true))),
        (true, false)
    );
    assert_eq!(
        fresh(with_root_password().blocked(Reason::KeyRejected)),
        (true, false)
    );
    assert_eq!(
        fresh(installed_again(with_root_password(), None)),
        (true, false)
    );
    for gone in [
        with_root_password().deleting(),
        named(with_root_password(), "other"),
        with_root_password().spec(|s| s.root_password = None),
        stored_in(with_root_password(), "pass"),
        installed_again(with_root_password(), Some(InstallEnd::Finished)),
        with_root_password().object(|o| o.status.as_mut().unwrap().uuid = Some(uuid(9))),
    ] {
        assert_eq!(fresh(gone), (false, false));
    }
    let record = |status, tags: &[&str]| {
        precondition::may_read_password(&with_root_password().0, &server(1, status, tags))
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
