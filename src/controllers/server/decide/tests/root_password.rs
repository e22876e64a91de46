//! `spec.rootPassword`: asked for while it can be had, stored once for each installation, told before it is too late.

use super::{machine::kept, *};
use crate::{
    controllers::server::{
        decide::{
            fence,
            root_password::{forgotten_at, may_fetch, may_find},
        },
        memory::Observation,
        password_memory::{PasswordEnd, PasswordFailure},
    },
    controllers::trouble::Trouble,
    kinds::{
        ManagementPolicy,
        command::{CommandOutcome, ListedCommands},
        conditions::Wanted,
        outputs::{OutputRef, Outputs},
        reinstall::{FinishedInstall, InstallEnd, InstallIntent, InstallRecord, InstallStatus},
        root_password::{Installed, PasswordWarning, RootPassword},
    },
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
    let (of, _) = Installed::last(&case.decide().draft.status).expect("it is delivered");
    let noted = Observation::Password { of, end };
    case.memory(|m| m.note(noted, now, secs(60)))
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
        .draft
        .finish(Timestamp::from_second(START).unwrap());
    case.object(|o| o.status = Some(status))
}

/// Another process.
fn restarted(case: Case) -> Case {
    case.memory(|m| *m = Memory::default())
}

fn said(case: &Case) -> Wanted {
    let decision = case.decide();
    let said = decision.draft.condition(Type::RootPasswordStored);
    said.expect("it is said").clone()
}

/// The step that is due.
fn step(case: &Case) -> &'static str {
    match case.decide().effect {
        None => "none",
        Some(Effect::FindPassword { .. }) => "find",
        Some(Effect::FetchPassword { .. }) => "fetch",
        Some(Effect::ForgetPassword { .. }) => "forget",
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_is_looked_for_then_asked_for_and_never_after_it_was_stored() {
    // The checks right before rest on the written status.
    assert_eq!(step(&new()), "none");
    assert_eq!(new().decide().once_written, Again::AtOnce);
    assert_eq!(step(&written(new())), "find");
    assert_eq!(step(&wanted()), "fetch");
    assert!(matches!(
        wanted().decide().effect,
        Some(Effect::FetchPassword { of: asked, secret }) if asked == of() && secret == "pass"
    ));
    let said_first = said(&wanted());
    assert_eq!(said_first.reason, Reason::PasswordPending);
    let until = Timestamp::from_second(INSTALLED + 86_400).unwrap();
    assert!(said_first.message.contains(&until.to_string()));
    let stored = kept_in(wanted(), "pass");
    assert_eq!(step(&stored), "none");
    assert_eq!(said(&stored).reason, Reason::PasswordStored);
    assert_eq!(said(&stored).status, Some(true));
    // By the note alone, in another process, under another name, and after the window.
    let noted = restarted(stored);
    assert_eq!(step(&noted), "none");
    let moved = named(noted.clone(), "other");
    assert_eq!(step(&moved), "none");
    assert!(said(&moved).message.contains("Secret pass"));
    let late = at(noted.clone(), 90_000);
    assert_eq!(
        (step(&late), said(&late).reason),
        ("none", Reason::PasswordStored)
    );
    // What an earlier object of this name had in its status was restored, and its Secret went with it.
    let restored = noted.object(|o| {
        let order = o.status.as_mut().unwrap().order.as_mut().unwrap();
        order.intent.uid = "uid-0".into();
    });
    let password = restored.decide().draft.status.root_password;
    assert!(password.is_none_or(|p| p.stored_at.is_none()));
}

#[test]
fn nothing_is_asked_while_it_must_not_be_and_people_are_told_why() {
    let reinstalled = installed_again(wanted(), None);
    for (case, words) in [
        (wanted().spec(|s| s.suspend = Some(true)), "spec.suspend"),
        (
            wanted().spec(|s| s.management_policy = Some(ManagementPolicy::ObserveOnly)),
            "ObserveOnly",
        ),
        (
            wanted().blocked(Reason::KeyRejected),
            "the account cannot be used",
        ),
        (reinstalled, "being installed again"),
    ] {
        assert_eq!(step(&case), "none", "{words}");
        let told = said(&case);
        assert_eq!(told.reason, Reason::PasswordPending);
        assert!(told.message.contains(words), "{}", told.message);
        // Whatever it is, people hear of it in time.
        for (seconds, warning) in [(18, PasswordWarning::SixHours), (23, PasswordWarning::Hour)] {
            let near = at(case.clone(), seconds * HOUR).decide();
            let record = near.draft.status.root_password.unwrap();
            assert_eq!(record.warned, Some(warning), "{words}");
        }
        // And that it cannot be had any more is not known while nobody may ask.
        let over = at(case, 25 * HOUR);
        assert_eq!(said(&over).reason, Reason::PasswordPending, "{words}");
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
            Some(Effect::FindPassword { .. } | Effect::FetchPassword { .. })
        );
        assert!(!is_ours, "{effect:?}");
    }
    // Windows is still to be installed.
    for seconds in [600, 90_000] {
        let linux = has(at(wanted(), seconds), "ubuntu-2404-lts");
        assert_eq!(
            (step(&linux), said(&linux).reason),
            ("none", Reason::PasswordPending)
        );
        let record = linux.decide().draft.status.root_password.unwrap();
        assert_eq!(record.warned, None);
    }
}

/// What is said of it while all else of the server goes well.
pub(super) fn told() -> Vec<Case> {
    let trouble = || PasswordFailure::Trouble("Secret pass: the API server answers 403".into());
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
    let known = case.0.object.status.as_ref().unwrap().install.clone();
    let mut install = known.unwrap_or_else(|| InstallStatus::new("uid-1", &uuid(1), 0, INSTALLED));
    let revision = install.revision + 1;
    let intent = InstallIntent {
        uid: "uid-1".into(),
        machine: uuid(1),
        revision,
        wipe_disk: true,
        attempt: "a".into(),
        started_at: now - 60,
        send_by: now - 30,
        account: ordered_from(LINEAGE, CONNECTION),
        listed: ListedCommands::default(),
        sent: Default::default(),
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
    case.object(|o| o.status.as_mut().unwrap().install = Some(install))
        .spec(|s| {
            s.install = Some(crate::kinds::reinstall::Install {
                revision,
                wipe_disk: None,
            })
        })
}

#[test]
fn each_installation_has_a_password_of_its_own() {
    let stored = kept_in(wanted(), "pass");
    let open = installed_again(stored.clone(), None);
    assert!(!may_fetch(&open.0, &of(), "pass"), "while it goes on");
    assert_eq!(said(&open).reason, Reason::PasswordStored);
    let anew = written(later(
        installed_again(stored.clone(), Some(InstallEnd::Finished)),
        60,
    ));
    let next = Installed {
        revision: Some(1),
        ..of()
    };
    assert_eq!(step(&anew), "find");
    assert_eq!(step(&free(anew.clone())), "fetch");
    assert!(may_fetch(&anew.0, &next, "pass") && !may_fetch(&anew.0, &of(), "pass"));
    let noted = anew.decide().draft.status.root_password.unwrap();
    assert_eq!((noted.of(), noted.stored_at), (next.clone(), None));
    // Its day begins when it was finished, however long ago the machine was delivered.
    assert_eq!(noted.installed_at, time(stored.0.now.wall));
    // One that failed or was refused afterwards takes its place in status, and changes nothing of it, noted or not.
    for end in [InstallEnd::Failed, InstallEnd::Refused] {
        let failed = installed_again(anew.clone(), Some(end));
        let (last, _) = Installed::last(&failed.0.status()).unwrap();
        assert_eq!(last, next);
        assert_eq!(said(&failed).reason, Reason::PasswordPending);
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
        assert_eq!(doubted.reason, Reason::PasswordStored);
        assert!(
            doubted.message.contains("status.install.last"),
            "{}",
            doubted.message
        );
    }
}

#[test]
fn a_machine_of_which_no_delivery_is_known_has_its_day_all_the_same() {
    let unknown = new().facts(|f| Arc::make_mut(&mut f.own[0].server).delivered_at = None);
    let unknown = free(written(
        unknown.object(|o| o.status.as_mut().unwrap().delivered_at = None),
    ));
    assert_eq!(step(&unknown), "fetch");
    assert_eq!(said(&unknown).reason, Reason::PasswordPending);
    // Until the provider says when it was.
    let told = unknown.facts(|f| {
        Arc::make_mut(&mut f.own[0].server).delivered_at = Some(INSTALLED);
    });
    let record = told.decide().draft.status.root_password.unwrap();
    assert_eq!(record.installed_at, time(INSTALLED));
}

#[test]
fn the_checks_right_before_are_made_on_what_is_there_then() {
    let fresh = |case: Case| {
        let find = may_find(&case.0, &of(), "pass");
        let fetch = may_fetch(&case.0, &of(), "pass");
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
    let record =
        |status, tags: &[&str]| fence::may_read_password(&wanted().0, &server(1, status, tags));
    let other = cluster()
        .object_mark("shop", "other", "uid-9")
        .order_tag(EPOCH);
    let retained = format!("{RETAINED_PREFIX}0123456789abcdef");
    assert!(record(ServerStatus::Delivered, &[&own_tag()]));
    assert!(!record(ServerStatus::Delivered, &[]));
    assert!(!record(ServerStatus::Delivered, &[&own_tag(), &other]));
    assert!(!record(ServerStatus::Delivered, &[&own_tag(), &retained]));
    assert!(!record(ServerStatus::Provisioning, &[&own_tag()]));
}

#[test]
fn what_brings_nothing_is_tried_at_growing_pauses_and_people_are_told_in_time() {
    for failure in [
        PasswordFailure::Absent,
        PasswordFailure::Trouble("the hosting API does not answer".into()),
    ] {
        let mut case = at(wanted(), 600);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            assert_eq!(step(&case), "fetch");
            case = failed(case, failure.clone());
            assert_eq!(step(&case), "none");
            let Again::After(pause) = case.decide().again else {
                panic!("{:?}", case.decide().again);
            };
            pauses.push(pause.as_secs());
            case = later(case, i64::try_from(pause.as_secs()).unwrap());
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
        let hour = at(case.clone(), 23 * HOUR);
        assert_eq!(warned(&hour), Some(PasswordWarning::Hour));
        // Before the first try there is nothing to warn of.
        assert_eq!(warned(&at(wanted(), 23 * HOUR)), None);
        // Nothing else of the object waits for it.
        let tagged = case.spec(|s| s.tags = vec!["team:web".into()]);
        assert!(matches!(
            tagged.decide().effect,
            Some(Effect::AddTag { .. })
        ));
    }
}

#[test]
fn it_is_missed_once_the_provider_says_so_and_not_by_a_clock() {
    let over = at(wanted(), 25 * HOUR);
    assert_eq!(
        (step(&over), said(&over).reason),
        ("fetch", Reason::PasswordPending)
    );
    // What was said before the end says nothing of it.
    let before = at(
        failed(at(wanted(), 23 * HOUR), PasswordFailure::Absent),
        25 * HOUR,
    );
    assert_eq!(
        (step(&before), said(&before).reason),
        ("fetch", Reason::PasswordPending)
    );
    let missed = written(failed(over.clone(), PasswordFailure::Absent));
    let told = said(&missed);
    assert_eq!(
        (told.status, told.reason),
        (Some(false), Reason::PasswordMissed)
    );
    assert!(
        told.message.contains("spec.install.revision"),
        "{}",
        told.message
    );
    // Noted, nobody asks again, in another process neither.
    for still in [missed.clone(), restarted(missed.clone())] {
        let still = later(still, HOUR);
        assert_eq!(
            (step(&still), said(&still).reason),
            ("none", Reason::PasswordMissed)
        );
    }
    // A re-installation whose end nobody knows may have brought one, and the provider says so or not.
    let doubted = installed_again(later(missed.clone(), HOUR), Some(InstallEnd::Unknown));
    assert_eq!(
        (step(&doubted), said(&doubted).reason),
        ("fetch", Reason::PasswordPending)
    );
    let none = failed(later(doubted, 60), PasswordFailure::Absent);
    assert_eq!(
        (step(&none), said(&none).reason),
        ("none", Reason::PasswordMissed)
    );
    // By a clock that was ahead: with the right one it is asked for, and a warning is a warning again.
    let early = at(restarted(missed), 600);
    assert_eq!(step(&early), "find");
    let record = early.decide().draft.status.root_password.unwrap();
    assert_eq!(record.warned, None);
    // Whoever never answers is not asked for ever.
    let mut silent = at(wanted(), 47 * HOUR);
    for _ in 0..7 {
        silent = failed(silent, PasswordFailure::Trouble("no answer".into()));
    }
    let once_more = at(silent.clone(), 48 * HOUR);
    assert_eq!(step(&once_more), "fetch", "a few failures are no answer");
    let silent = failed(silent, PasswordFailure::Trouble("no answer".into()));
    let given_up = at(silent, 48 * HOUR);
    assert_eq!(
        (step(&given_up), said(&given_up).reason),
        ("none", Reason::PasswordMissed)
    );
    // One that this process stored, or found stored, is not missed.
    let stored = kept_in(over, "pass");
    assert_eq!(said(&stored).reason, Reason::PasswordStored);
}

#[test]
fn a_name_that_is_taken_is_told_and_another_one_is_tried_at_once() {
    let absent = failed(wanted(), PasswordFailure::Absent);
    let taken = failed(absent, PasswordFailure::Taken("pass".into()));
    assert_eq!(step(&taken), "none");
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
    assert_eq!(step(&named(taken.clone(), "free")), "find");
    let later = later(taken, 600);
    assert_eq!(step(&later), "find");
    // It came free.
    assert_eq!(step(&free(later)), "fetch");
}

#[test]
fn what_keeps_failing_of_the_object_neither_starves_it_nor_keeps_people_from_being_told() {
    let at_once = Some(OutputRef { name: "out".into() });
    let outputs = Outputs {
        config_map_ref: at_once,
        secret_ref: None,
    };
    let output = wanted().spec(|s| s.outputs = Some(outputs));
    assert!(matches!(
        output.decide().effect,
        Some(Effect::WriteOutput(_))
    ));
    let tagged = wanted().spec(|s| s.tags = vec!["team:web".into()]);
    let first = at(tagged.clone(), 23 * HOUR).decide();
    assert!(matches!(first.effect, Some(Effect::AddTag { .. })));
    let record = first.draft.status.root_password.unwrap();
    assert_eq!(record.warned, Some(PasswordWarning::Hour));
    let now = tagged.0.now.mono;
    let refused = tagged.memory(|m| {
        m.note(
            Observation::Failed(Trouble::unexpected("no")),
            now,
            secs(60),
        );
    });
    assert_eq!(step(&refused), "fetch");
    let effect = refused.decide().effect.unwrap();
    assert_eq!(refused.0.memory.holds_back(&effect, now), None);
}

#[test]
fn nothing_is_said_of_the_password_of_a_machine_that_is_gone() {
    let stored = kept_in(wanted(), "pass");
    let gone = stored.facts(|f| f.own.clear()).object(|o| {
        let status = o.status.as_mut().unwrap();
        status.uuid = None;
        status.root_password = None;
    });
    let kind = Type::RootPasswordStored.as_str();
    let conditions = gone.decide().draft.status.conditions;
    assert!(conditions.iter().all(|c| c.type_ != kind));
}

#[test]
fn the_secret_goes_when_its_time_is_over_and_only_then() {
    let stored = kept_in(at(kept_for(wanted(), 3600), 600), "pass");
    let ends = INSTALLED + 600 + 3600;
    assert_eq!(step(&at(stored.clone(), 600 + 3599)), "none");
    let over = at(stored.clone(), 600 + 3600);
    assert_eq!(step(&over), "forget");
    assert_eq!(forgotten_at(&over.0, &of(), "pass"), Some(ends));
    assert_eq!(forgotten_at(&stored.0, &of(), "pass"), None);
    assert_eq!(forgotten_at(&over.0, &of(), "other"), None);
    let raised = kept_for(over.clone(), 7200);
    assert_eq!(step(&raised), "none");
    assert_eq!(forgotten_at(&raised.0, &of(), "pass"), None);
    assert_eq!(
        step(&named(over.clone(), "pass")),
        "none",
        "without a ttl it stays"
    );
    // Whatever becomes of the server and its spec.
    for case in [
        over.clone().spec(|s| s.root_password = None),
        over.clone().spec(|s| s.suspend = Some(true)),
        over.clone().blocked(Reason::KeyRejected),
    ] {
        let effect = case.decide().effect;
        let is_it =
            matches!(&effect, Some(Effect::ForgetPassword { secret, .. }) if secret == "pass");
        assert!(is_it, "{effect:?}");
        assert_eq!(forgotten_at(&case.0, &of(), "pass"), Some(ends));
    }
    let deleting = over.clone().deleting().spec(|s| s.suspend = Some(true));
    assert_eq!(step(&deleting), "forget");
    // What fails has a pause.
    let refused = failed(over.clone(), PasswordFailure::Trouble("no".into()));
    assert_eq!(step(&refused), "none");
    let told = said(&refused).message;
    assert!(
        told.contains("to be deleted since") && told.contains("no;"),
        "{told}"
    );
    assert_eq!(step(&later(refused, 15)), "forget");
    let gone = seen(over, PasswordEnd::Deleted);
    assert_eq!(step(&gone), "none");
    let deleted = gone.decide().draft.status.root_password.unwrap();
    assert!(deleted.deleted_at.is_some());
    let noted = restarted(written(gone));
    assert_eq!(
        (step(&noted), said(&noted).reason),
        ("none", Reason::PasswordStored)
    );
}

#[test]
fn without_the_wish_nothing_is_said_and_what_was_noted_stays() {
    let stored = kept_in(wanted(), "pass");
    let without = stored.spec(|s| s.root_password = None);
    let status = without
        .decide()
        .draft
        .finish(Timestamp::from_second(START).unwrap());
    let kind = Type::RootPasswordStored.as_str();
    assert!(status.conditions.iter().all(|c| c.type_ != kind));
    assert!(status.root_password.is_some_and(|p| p.stored_at.is_some()));
}
