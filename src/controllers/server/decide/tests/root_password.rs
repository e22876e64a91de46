//! `spec.rootPassword`: asked for while it can be had, stored once for each installation, told before it is too late.

use super::{machine::kept, *};
use crate::{
    controllers::server::{
        decide::{
            fence,
            root_password::{End, Installed, may_fetch, may_forget},
        },
        memory::Observation,
    },
    kinds::{
        ManagementPolicy,
        command::{CommandOutcome, ListedCommands},
        conditions::Wanted,
        outputs::OutputRef,
        reinstall::{InstallEnd, InstallIntent, InstallRecord, InstallStatus},
        root_password::{PasswordWarning, RootPassword, installed_at},
    },
};

/// When the machine was delivered.
const INSTALLED: i64 = EPOCH + 60;
const HOUR: i64 = 3_600;

/// A delivered server whose password is wanted.
fn wanted() -> Case {
    named(has(kept(ServerStatus::Delivered), "Windows-2022"), "pass")
}

/// The machine has this system.
fn has(case: Case, slug: &str) -> Case {
    case.facts(|f| Arc::make_mut(&mut f.own[0].server).os_slug = slug.into())
}

fn named(case: Case, name: &str) -> Case {
    let secret_ref = OutputRef { name: name.into() };
    let password = RootPassword {
        secret_ref,
        ttl: None,
    };
    case.spec(|s| s.root_password = Some(password))
}

fn kept_for(case: Case, ttl: u64) -> Case {
    case.spec(|s| s.root_password.as_mut().unwrap().ttl = Some(Interval::seconds(ttl)))
}

fn of() -> Installed {
    Installed {
        machine: uuid(1),
        at: INSTALLED,
    }
}

/// So many seconds after the installation.
fn at(case: Case, seconds: i64) -> Case {
    case.facts(|f| {
        let since = u64::try_from(INSTALLED + seconds - START).unwrap();
        f.now.wall = INSTALLED + seconds;
        f.now.mono = secs(since);
        f.own[0].seen = f.now.mono;
    })
}

fn seen(case: Case, end: End) -> Case {
    let now = case.0.now.mono;
    let noted = Observation::Password { of: of(), end };
    case.memory(|m| m.note(noted, now, secs(60)))
}

/// The status stands that was decided.
fn written(case: Case) -> Case {
    let status = case
        .decide()
        .draft
        .finish(Timestamp::from_second(START).unwrap());
    case.object(|o| o.status = Some(status))
}

fn said(case: &Case) -> Wanted {
    let decision = case.decide();
    let said = decision.draft.condition(Type::RootPasswordStored);
    said.expect("it is said").clone()
}

fn asks(case: &Case) -> bool {
    match case.decide().effect {
        Some(Effect::FetchPassword { of: asked, secret }) => {
            assert_eq!((asked, secret.is_empty()), (of(), false));
            true
        }
        None => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_is_asked_for_once_the_machine_is_delivered_and_never_after_it_was_stored() {
    assert!(asks(&wanted()));
    let said_first = said(&wanted());
    assert_eq!(said_first.reason, Reason::PasswordPending);
    let until = Timestamp::from_second(INSTALLED + 86_400).unwrap();
    assert!(said_first.message.contains(&until.to_string()));
    let stored = seen(wanted(), End::Stored("pass".into()));
    assert!(!asks(&stored));
    assert_eq!(said(&stored).reason, Reason::PasswordStored);
    assert_eq!(said(&stored).status, Some(true));
    // By the note alone, in another process, under another name, and after the window.
    let noted = written(stored).memory(|m| *m = Memory::default());
    assert!(!asks(&noted));
    assert!(!asks(&named(noted.clone(), "other")));
    assert!(
        said(&named(noted.clone(), "other"))
            .message
            .contains("Secret pass")
    );
    let late = at(noted.clone(), 90_000);
    assert!(!asks(&late));
    assert_eq!(said(&late).reason, Reason::PasswordStored);
    // Of another installation it is another one.
    let anew = noted.clone().facts(|f| {
        Arc::make_mut(&mut f.own[0].server).delivered_at = Some(INSTALLED + 5);
    });
    assert!(matches!(
        anew.decide().effect,
        Some(Effect::FetchPassword { .. })
    ));
    // What an earlier object of this name had in its status was restored, and its Secret went with it.
    let restored = noted.object(|o| {
        let order = o.status.as_mut().unwrap().order.as_mut().unwrap();
        order.intent.uid = "uid-0".into();
    });
    let restored = restored.decide();
    let password = restored.draft.status.root_password;
    assert!(password.is_none_or(|p| p.stored_at.is_none() || restored.effect.is_some()));
}

#[test]
fn nothing_is_asked_while_it_must_not_be() {
    for case in [
        wanted().spec(|s| s.suspend = Some(true)),
        wanted().spec(|s| s.management_policy = Some(ManagementPolicy::ObserveOnly)),
        wanted().blocked(Reason::KeyRejected),
        kept(ServerStatus::Delivered),
        at(wanted(), 86_400),
    ] {
        assert!(!asks(&case), "{case:?}");
        let fresh = case.blocked(Reason::KeyRejected);
        assert!(!asks(&fresh));
    }
    let deleting = wanted().deleting().decide().effect;
    assert!(!matches!(deleting, Some(Effect::FetchPassword { .. })));
    for status in [ServerStatus::Created, ServerStatus::Failed] {
        let effect = named(kept(status), "pass").decide().effect;
        assert!(
            !matches!(effect, Some(Effect::FetchPassword { .. })),
            "{effect:?}"
        );
    }
    // Windows is still to be installed.
    for (case, seconds) in [(wanted(), 600), (wanted(), 90_000)] {
        let linux = has(at(case, seconds), "ubuntu-2404-lts");
        assert!(!asks(&linux));
        assert_eq!(said(&linux).reason, Reason::PasswordPending);
    }
    let suspended = said(&wanted().spec(|s| s.suspend = Some(true)));
    assert_eq!(suspended.reason, Reason::PasswordPending);
    assert!(
        suspended.message.contains("spec.suspend"),
        "{}",
        suspended.message
    );
}

/// A re-installation of the machine that was started, and ended like this.
fn installed_again(case: Case, end: Option<InstallEnd>, ended_at: i64) -> Case {
    let intent = InstallIntent {
        uid: "uid-1".into(),
        machine: uuid(1),
        revision: 1,
        wipe_disk: true,
        attempt: "a".into(),
        started_at: ended_at - 60,
        send_by: ended_at - 30,
        account: ordered_from(LINEAGE, CONNECTION),
        listed: ListedCommands::default(),
        sent: Default::default(),
    };
    let last = InstallRecord {
        outcome: Some(CommandOutcome::Accepted),
        end,
        ended_at: end.map(|_| ended_at),
        ..InstallRecord::open(intent)
    };
    let mut install = InstallStatus::new("uid-1", &uuid(1), 0, INSTALLED);
    install.last = Some(last);
    case.object(|o| o.status.as_mut().unwrap().install = Some(install))
}

#[test]
fn each_installation_has_a_password_of_its_own() {
    let stored = written(seen(wanted(), End::Stored("pass".into())));
    let open = installed_again(stored.clone(), None, INSTALLED + 400);
    assert!(!may_fetch(&open.0, &of(), "pass"), "while it goes on");
    let unstored = installed_again(written(wanted()), None, INSTALLED + 400);
    assert!(!matches!(
        unstored.decide().effect,
        Some(Effect::FetchPassword { .. })
    ));
    let anew = installed_again(stored, Some(InstallEnd::Finished), INSTALLED + 400);
    let later = Installed {
        at: INSTALLED + 400,
        ..of()
    };
    let status = anew.0.status();
    assert_eq!(installed_at(&status), Some(later.at));
    assert!(may_fetch(&anew.0, &later, "pass"));
    let noted = anew.decide().draft.status.root_password.unwrap();
    assert_eq!(noted.installed_at, time(later.at));
    assert_eq!(noted.stored_at, None);
    // One that failed afterwards takes its place in status, and changes nothing of it.
    let failed = written(anew).object(|_| {});
    let failed = installed_again(failed, Some(InstallEnd::Failed), INSTALLED + 420);
    assert_eq!(installed_at(&failed.0.status()), Some(later.at));
    // What is said of another machine is none of this one's.
    let mut other = status;
    other.uuid = Some(uuid(9));
    assert_eq!(installed_at(&other), Some(INSTALLED));
}

#[test]
fn the_checks_right_before_are_made_on_what_is_there_then() {
    let fresh = |case: Case| may_fetch(&case.0, &of(), "pass");
    assert!(fresh(wanted()));
    assert!(!fresh(wanted().spec(|s| s.suspend = Some(true))));
    assert!(!fresh(wanted().deleting()));
    assert!(!fresh(named(wanted(), "other")));
    assert!(!fresh(wanted().spec(|s| s.root_password = None)));
    let stored = written(seen(wanted(), End::Stored("pass".into())));
    assert!(!fresh(stored));
    let record =
        |status, tags: &[&str]| fence::may_read_password(&wanted().0, &server(1, status, tags));
    let other = cluster()
        .object_mark("shop", "other", "uid-9")
        .order_tag(EPOCH);
    assert!(record(ServerStatus::Delivered, &[&own_tag()]));
    assert!(!record(ServerStatus::Delivered, &[]));
    assert!(!record(ServerStatus::Delivered, &[&own_tag(), &other]));
    assert!(!record(ServerStatus::Provisioning, &[&own_tag()]));
}

#[test]
fn while_the_provider_shows_none_the_pauses_grow_and_people_are_told_in_time() {
    let mut case = at(wanted(), 600);
    let mut pauses = Vec::new();
    for _ in 0..7 {
        assert!(asks(&case));
        case = seen(case, End::Absent);
        assert!(!asks(&case));
        let Again::After(pause) = case.decide().again else {
            panic!("{:?}", case.decide().again);
        };
        pauses.push(pause.as_secs());
        let later = case.0.now.wall - INSTALLED + i64::try_from(pause.as_secs()).unwrap();
        case = at(case, later);
    }
    // By polls of 15 s.
    assert_eq!(pauses, [15, 30, 60, 120, 240, 300, 300]);
    let warned = |case: &Case| {
        let record = case.decide().draft.status.root_password.unwrap();
        record.warned
    };
    assert_eq!(warned(&case), None);
    let near = at(case.clone(), 18 * HOUR);
    assert_eq!(warned(&near), Some(PasswordWarning::SixHours));
    assert_eq!(
        warned(&at(case.clone(), 23 * HOUR)),
        Some(PasswordWarning::Hour)
    );
    // It is given once, and the end is told as such.
    let over = at(written(near), 24 * HOUR);
    assert_eq!(warned(&over), Some(PasswordWarning::Missed));
    let missed = said(&over);
    assert_eq!(
        (missed.status, missed.reason),
        (Some(false), Reason::PasswordMissed)
    );
    assert!(
        missed.message.contains("spec.install.revision"),
        "{}",
        missed.message
    );
    // Before the first try there is nothing to warn of.
    assert_eq!(warned(&at(wanted(), 23 * HOUR)), None);
}

#[test]
fn a_name_that_is_taken_is_told_and_another_one_is_tried_at_once() {
    let taken = seen(wanted(), End::Taken("pass".into()));
    assert!(!asks(&taken));
    let told = said(&taken);
    assert_eq!(
        (told.status, told.reason),
        (Some(false), Reason::OutputNotOwned)
    );
    for word in [
        "spec.rootPassword.secretRef",
        "kubectl delete secret pass -n shop",
    ] {
        assert!(told.message.contains(word), "{}", told.message);
    }
    assert!(asks(&named(taken.clone(), "free")));
    let at_first = taken.0.now.wall - INSTALLED;
    assert!(asks(&at(taken, at_first + 600)));
}

#[test]
fn the_secret_goes_when_its_time_is_over_and_only_then() {
    let stored = written(seen(
        at(kept_for(wanted(), 3600), 600),
        End::Stored("pass".into()),
    ));
    let forgets = |case: &Case| {
        let effect = case.decide().effect;
        matches!(effect, Some(Effect::ForgetPassword { secret, .. }) if secret == "pass")
    };
    assert!(!forgets(&at(stored.clone(), 600 + 3599)));
    let over = at(stored.clone(), 600 + 3600);
    assert!(forgets(&over));
    assert!(may_forget(&over.0, &of(), "pass"));
    assert!(!may_forget(&stored.0, &of(), "pass"));
    assert!(!may_forget(&over.0, &of(), "other"));
    let raised = kept_for(over.clone(), 7200);
    assert!(!forgets(&raised) && !may_forget(&raised.0, &of(), "pass"));
    assert!(
        !forgets(&named(over.clone(), "pass")),
        "without a ttl it stays"
    );
    let gone = seen(over, End::Deleted);
    assert!(!forgets(&gone));
    assert!(
        gone.decide()
            .draft
            .status
            .root_password
            .unwrap()
            .deleted_at
            .is_some()
    );
    let noted = written(gone).memory(|m| *m = Memory::default());
    assert!(!forgets(&noted) && !asks(&noted));
    assert_eq!(said(&noted).reason, Reason::PasswordStored);
}

#[test]
fn without_the_wish_nothing_is_said_and_what_was_noted_stays() {
    let stored = written(seen(wanted(), End::Stored("pass".into())));
    let without = stored.spec(|s| s.root_password = None);
    let status = without
        .decide()
        .draft
        .finish(Timestamp::from_second(START).unwrap());
    let kind = Type::RootPasswordStored.as_str();
    assert!(status.conditions.iter().all(|c| c.type_ != kind));
    assert!(status.root_password.is_some_and(|p| p.stored_at.is_some()));
}
