//! Tests of the decision: what each state leads to, and a small world in which decisions are carried out.

pub(crate) mod readings;
mod world;

use super::*;
use crate::controllers::command::facts::{add, is_under_way};
use crate::kinds::server::BareMetalServerStatus;
use crate::{
    account::view::View,
    controllers::{
        account_facts::AccountFacts,
        command::facts::{CommandMemory, FIRST_PAGES, MOST_PAGES, Observation, ServerFact, stands},
        mark::ClusterId,
        pass::{Memory, Subject},
    },
    kinds::{
        BareMetalServer, Interval, ManagementPolicy, Reason, ServerCommand,
        command::{CommandIntent, ListedCommands, ServerCommandSpec, ServerRef},
        conditions::{self, Type},
        names::{COMMAND_ANNOTATION, OBJECT_FINALIZER, RELEASE_ANNOTATION},
        references::{AccountKind, PinnedAccount},
    },
    runtime::Moment,
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

const NOW: Duration = Duration::from_secs(10_000);
const WALL: i64 = 1_790_000_000;
const MACHINE: &str = "00000000-0000-4000-8000-000000000001";

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A server with a delivered machine.
fn server() -> BareMetalServer {
    serde_json::from_value(json!({
        "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
        "metadata": {"name": "web", "namespace": "shop", "uid": "server-1"},
        "spec": {"location": "here", "instanceType": "small", "os": {"slug": "some-os"}},
        "status": {
            "uuid": MACHINE, "providerStatus": "delivered",
            "account": {"kind": "ProviderAccount", "name": "default"},
            "order": {"cluster": "c", "uid": "server-1", "mark": "m", "epoch": 1, "attempt": "a",
                "sendBy": "2026-01-01T00:00:00Z", "outcome": "Created"},
        },
    }))
    .unwrap()
}

fn account() -> OrderAccount {
    OrderAccount {
        kind: AccountKind::ProviderAccount,
        name: "default".into(),
        uid: "account-1".into(),
        lineage: "lineage-1".into(),
        connection: "c0ffee".into(),
    }
}

/// An attempt that was started so many seconds ago.
fn attempt(action: PowerAction, name: &str, ago: i64) -> CommandRecord {
    CommandRecord::open(CommandIntent {
        uid: "uid-1".into(),
        action,
        machine: MACHINE.into(),
        attempt: name.into(),
        started_at: WALL - ago,
        send_by: WALL - ago + 30,
        account: account(),
        listed: ListedCommands::default(),
    })
}

fn accepted(action: PowerAction, state: &str, ago: i64) -> CommandRecord {
    CommandRecord {
        outcome: Some(CommandOutcome::Accepted),
        id: Some("00000000-0000-4000-8000-0000000000c1".into()),
        state: Some(state.into()),
        ..attempt(action, "a1", ago)
    }
}

/// Facts under construction. They start with a command that nothing keeps from being sent.
#[derive(Clone)]
struct Case(Facts);

impl Case {
    fn new(action: PowerAction) -> Self {
        let spec = ServerCommandSpec {
            server_ref: ServerRef { name: "web".into() },
            action,
            timeout: None,
            escalate_after: None,
            ttl_seconds_after_finished: None,
        };
        let mut object = ServerCommand::new("reboot-1", spec);
        let meta = &mut object.metadata;
        meta.namespace = Some("shop".into());
        meta.uid = Some("uid-1".into());
        meta.generation = Some(1);
        meta.creation_timestamp = moment(WALL - 60);
        object.status = Some(ServerCommandStatus {
            account: Some(PinnedAccount::of(None)),
            ..ServerCommandStatus::default()
        });
        Self(Facts {
            subject: Subject {
                now: Moment {
                    wall: WALL,
                    mono: NOW,
                },
                acting_since: Duration::ZERO,
                first_seen: NOW - secs(60),
                cluster: ClusterId::parse("0123456789abcdef").unwrap(),
                kind_deleting: Some(false),
                account: AccountFacts::Found {
                    view: View::usable(),
                    terms: crate::account::Terms::Own,
                },
                memory: Memory::default(),
                object: Arc::new(object),
            },
            steady: WALL,
            server: ServerFact::Found(Arc::new(server())),
            is_namespace_suspended: false,
            is_first: true,
        })
    }

    fn facts(mut self, change: impl FnOnce(&mut Facts)) -> Self {
        change(&mut self.0);
        self
    }

    fn object(self, change: impl FnOnce(&mut ServerCommand)) -> Self {
        self.facts(|f| change(Arc::make_mut(&mut f.subject.object)))
    }

    fn server(self, change: impl FnOnce(&mut BareMetalServer)) -> Self {
        let mut found = server();
        change(&mut found);
        self.facts(|f| f.server = ServerFact::Found(Arc::new(found)))
    }

    fn own(self, change: impl FnOnce(&mut CommandMemory)) -> Self {
        self.facts(|f| change(&mut f.subject.memory.own))
    }

    /// These were started, by the status; the last one by the annotation too.
    fn sent(self, records: &[CommandRecord]) -> Self {
        let text = serde_json::to_string(&records.last().unwrap().intent).unwrap();
        self.object(|o| {
            o.status.get_or_insert_default().sent = records.to_vec();
            o.metadata.annotations = Some([(COMMAND_ANNOTATION.to_owned(), text)].into());
            o.metadata.finalizers = Some(vec![OBJECT_FINALIZER.into()]);
        })
    }

    /// The annotation says this, and nothing else does.
    fn noted(self, text: &str) -> Self {
        let annotations = [(COMMAND_ANNOTATION.to_owned(), text.to_owned())];
        self.object(|o| o.metadata.annotations = Some(annotations.into()))
    }

    fn deleted(self) -> Self {
        self.object(|o| o.metadata.deletion_timestamp = moment(WALL - 1))
    }

    fn late(self) -> Self {
        self.object(|o| o.metadata.creation_timestamp = moment(WALL - 1800))
    }

    /// The search for the last attempt began so long ago, and the list missed it so long ago.
    fn searched(self, began: u64, missed: Option<u64>) -> Self {
        self.own(|own| {
            own.searches_for(Some("a1"), NOW - secs(began));
            if let Some(missed) = missed {
                own.note(Observation::NotListed("a1".into(), NOW - secs(missed)));
            }
        })
    }

    fn decide(&self) -> Decision {
        decide(&self.0)
    }

    /// Effect, reason, and whether it has come to its end: well, or badly.
    fn short(&self) -> (Option<&'static str>, Option<Reason>, Option<bool>) {
        let decision = self.decide();
        let effect = decision.effect.as_ref().map(|effect| match effect {
            Effect::Send(new) => match new.action {
                PowerAction::PowerOff => "send power-off",
                _ => "send",
            },
            Effect::Look(_) => "look",
            Effect::Search { .. } => "search",
            Effect::LetGo => "let go",
            Effect::Delete => "delete",
        });
        let (status, _) = decision.status(&self.0.subject, jiff::Timestamp::UNIX_EPOCH);
        let is = |kind| conditions::is_true(&status.conditions, kind);
        let end = match (is(Type::Complete), is(Type::Failed)) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
            (true, true) => panic!("both"),
        };
        (effect, decision.cause.map(|cause| cause.reason), end)
    }
}

fn reboot() -> Case {
    Case::new(PowerAction::Reboot)
}

fn shutdown(after: u64) -> Case {
    let escalates = Some(Interval(secs(after)));
    Case::new(PowerAction::Shutdown).object(|o| o.spec.escalate_after = escalates)
}

#[test]
fn a_command_is_sent_to_a_delivered_machine_of_a_server_that_lets_it() {
    let waits = |reason| (None, Some(reason), None);
    let fails = |reason| (None, Some(reason), Some(false));
    let due = (Some("send"), Some(Reason::Progressing), None);
    let released = |s: &mut BareMetalServer| {
        let annotations = [(RELEASE_ANNOTATION.to_owned(), MACHINE.to_owned())];
        s.metadata.annotations = Some(annotations.into());
    };
    let missing = reboot().facts(|f| f.server = ServerFact::Missing);
    let unreadable = reboot().facts(|f| f.server = ServerFact::Unreadable("no".into()));
    let word = |word: &'static str| {
        reboot().server(move |s| s.status.as_mut().unwrap().provider_status = Some(word.into()))
    };
    let behind = reboot().facts(|f| f.is_first = false);
    let busy = reboot().own(|own| own.note(Observation::Busy("it runs another".into(), NOW)));
    let was_busy = reboot().own(|own| {
        own.note(Observation::Busy("it runs another".into(), NOW - secs(30)));
    });
    let observed = reboot().server(|s| {
        s.spec.management_policy = Some(ManagementPolicy::ObserveOnly);
    });
    let suspended = reboot().facts(|f| f.is_namespace_suspended = true);
    let own_word = suspended.clone().server(|s| s.spec.suspend = Some(false));
    for (what, case, expected) in [
        ("all is well", reboot(), due),
        ("no server", missing, waits(Reason::ReferenceNotFound)),
        (
            "one that cannot be read",
            unreadable,
            waits(Reason::ChecksFailed),
        ),
        (
            "not delivered",
            word("created"),
            waits(Reason::ServerNotReady),
        ),
        (
            "released by others",
            word("released"),
            waits(Reason::ServerNotReady),
        ),
        (
            "being deleted",
            reboot().server(|s| s.metadata.deletion_timestamp = moment(WALL)),
            fails(Reason::ServerEnding),
        ),
        (
            "release begun",
            reboot().server(released),
            fails(Reason::ServerEnding),
        ),
        ("only looked at", observed, waits(Reason::ObserveOnly)),
        (
            "suspended",
            reboot().server(|s| s.spec.suspend = Some(true)),
            waits(Reason::Suspended),
        ),
        (
            "suspended by its namespace",
            suspended,
            waits(Reason::Suspended),
        ),
        ("its own word", own_word, due),
        ("behind another one", behind, waits(Reason::Queued)),
        ("a busy machine", busy, waits(Reason::Queued)),
        ("it was busy", was_busy, due),
        ("too late", reboot().late(), fails(Reason::CommandTimeout)),
        ("deleted", reboot().deleted(), (None, None, None)),
    ] {
        assert_eq!(case.short(), expected, "{what}");
    }
}

#[test]
fn the_account_of_the_server_stands_in_status_before_anything_is_asked_of_it() {
    let other = reboot().server(|s| {
        let account = s.status.as_mut().unwrap().account.as_mut().unwrap();
        account.name = "other".into();
    });
    let decision = other.decide();
    assert_eq!(decision.effect, None);
    assert!(decision.goes_on);
    assert_eq!(decision.status.account.unwrap().name, "other");
}

#[test]
fn a_copy_and_an_object_that_was_restored_send_nothing() {
    let fails = (None, Some(Reason::NotRepeated), Some(false));
    let mut other = attempt(PowerAction::Reboot, "a1", 9);
    other.intent.uid = "uid-0".into();
    let copy = reboot().sent(&[other]);
    assert_eq!(copy.short(), fails);
    let restored = copy.object(|o| o.status = None);
    assert_eq!(restored.short(), fails);
    let garbled = reboot().noted("?");
    assert_eq!(garbled.short(), fails);
    // It has lost its status: what the annotation tells may have been sent.
    let text = serde_json::to_string(&attempt(PowerAction::Reboot, "a1", 9).intent).unwrap();
    let lost = reboot().noted(&text).object(|o| o.status = None);
    assert_eq!(lost.short(), fails);
    assert!(!needs_server(&lost.0) && lost.decide().status.sent.is_empty());
}

#[test]
fn what_the_annotation_alone_shows_is_not_followed_nor_recorded_and_holds_nothing() {
    // Nothing is sent before the status shows the attempt: this one ended between the two writes, or somebody made it up.
    let text = serde_json::to_string(&attempt(PowerAction::Reboot, "a1", 9).intent).unwrap();
    let noted = reboot().noted(&text);
    assert_eq!(noted.short().0, Some("send"));
    assert!(noted.decide().status.sent.is_empty());
    assert!(noted.0.open_attempt().is_none());
    assert!(!is_under_way(&noted.0.subject.object));
    // Beside what the status shows it says nothing either, whatever is in it.
    let sent = reboot().sent(&[accepted(PowerAction::Reboot, "pending", 9)]);
    for text in [
        "?".to_owned(),
        text.replace("uid-1", "uid-0"),
        text.replace(MACHINE, "other"),
    ] {
        let forged = sent.clone().noted(&text);
        assert_eq!(forged.short(), sent.short());
        assert_eq!(forged.decide().status.sent, sent.decide().status.sent);
    }
    let due = shutdown(300).sent(&[accepted(PowerAction::Shutdown, "pending", 300)]);
    assert_eq!(due.noted("?").short().0, Some("send power-off"));
}

#[test]
fn what_was_not_sent_is_no_step_and_no_more_than_two_are_kept() {
    let outcome = |outcome, name| CommandRecord {
        outcome: Some(outcome),
        ..attempt(PowerAction::PowerOff, name, 5)
    };
    let shut = accepted(PowerAction::Shutdown, "pending", 90);
    let unsent = outcome(CommandOutcome::NotSent, "a2");
    let refused = outcome(CommandOutcome::Refused, "a3");
    let records = [shut.clone(), unsent.clone()];
    assert_eq!(stands(&records, "uid-1"), Some(&shut));
    assert_eq!(stands(&records, "uid-0"), None);
    let case = shutdown(300).sent(&records);
    assert_eq!(case.decide().status.command_id, shut.id);
    for (records, under_way) in [
        (vec![unsent.clone()], false),
        (vec![refused.clone()], false),
        (vec![shut.clone(), unsent], true),
        (vec![shut.clone(), refused.clone()], false),
    ] {
        let case = shutdown(300).sent(&records);
        assert_eq!(
            is_under_way(&case.0.subject.object),
            under_way,
            "{records:?}"
        );
    }
    let mut many = vec![
        shut,
        refused.clone(),
        outcome(CommandOutcome::NotSent, "a4"),
    ];
    add(&mut many, attempt(PowerAction::PowerOff, "a5", 1));
    let names: Vec<&str> = many.iter().map(|r| r.intent.attempt.as_str()).collect();
    assert_eq!(names, ["a3", "a5"]);
}

#[test]
fn more_pages_are_asked_for_where_the_list_was_longer_and_the_request_keeps_its_call() {
    let pages = |case: &Case| match case.decide().effect {
        Some(Effect::Send(new)) => new.pages,
        other => panic!("{other:?}"),
    };
    assert_eq!(pages(&reboot()), FIRST_PAGES);
    let mut case = reboot();
    for _ in 0..5 {
        let few = pages(&case);
        case = case.own(|own| own.note(Observation::Longer(few)));
    }
    assert_eq!(pages(&case), MOST_PAGES);
    let effect = case.decide().effect.unwrap();
    assert_eq!(
        crate::controllers::command::turn(&effect).unwrap().1,
        MOST_PAGES + 2
    );
    let open = attempt(PowerAction::Reboot, "a1", 9);
    let search = case.sent(&[open]).searched(30, None).decide().effect;
    assert!(matches!(
        search,
        Some(Effect::Search {
            pages: MOST_PAGES,
            ..
        })
    ));
}

#[test]
fn after_its_intent_was_noted_it_is_sent_only_where_the_server_is_still_the_one_that_takes_it() {
    let decision = reboot().decide();
    let Some(Effect::Send(new)) = decision.effect else {
        panic!("{decision:?}");
    };
    // The intent stands: a decision on it would look for the command.
    let noted = |case: Case| case.sent(&[attempt(PowerAction::Reboot, "a1", 0)]);
    let may = |case: Case| may_send(&noted(case).0, &new);
    let status = |change: fn(&mut BareMetalServerStatus)| {
        reboot().server(move |s| change(s.status.as_mut().unwrap()))
    };
    assert!(may(reboot()));
    let released = |s: &mut BareMetalServer| {
        let annotations = [(RELEASE_ANNOTATION.to_owned(), MACHINE.to_owned())];
        s.metadata.annotations = Some(annotations.into());
    };
    for (what, case) in [
        ("gone", reboot().facts(|f| f.server = ServerFact::Missing)),
        (
            "not read",
            reboot().facts(|f| f.server = ServerFact::Unreadable("no".into())),
        ),
        (
            "deleted",
            reboot().server(|s| s.metadata.deletion_timestamp = moment(WALL)),
        ),
        ("released", reboot().server(released)),
        (
            "suspended",
            reboot().server(|s| s.spec.suspend = Some(true)),
        ),
        (
            "suspended by its namespace",
            reboot().facts(|f| f.is_namespace_suspended = true),
        ),
        (
            "another object",
            reboot().server(|s| s.metadata.uid = Some("server-2".into())),
        ),
        (
            "another machine",
            status(|s| s.uuid = Some("00000000-0000-4000-8000-000000000002".into())),
        ),
        ("no machine", status(|s| s.uuid = None)),
        (
            "not delivered",
            status(|s| s.provider_status = Some("releasing".into())),
        ),
        ("itself deleted", reboot().deleted()),
    ] {
        assert!(!may(case), "{what}");
    }
}

#[test]
fn the_server_is_read_only_where_a_command_may_be_about_to_be_sent() {
    let sent = |state: &str| reboot().sent(&[accepted(PowerAction::Reboot, state, 9)]);
    let shut = |ago| shutdown(300).sent(&[accepted(PowerAction::Shutdown, "pending", ago)]);
    let open = reboot().sent(&[attempt(PowerAction::Reboot, "a1", 9)]);
    for (what, case, expected) in [
        ("not sent", reboot(), true),
        ("behind", reboot().facts(|f| f.is_first = false), false),
        ("late", reboot().late(), false),
        ("deleted", reboot().deleted(), false),
        ("a copy", reboot().noted("?"), false),
        ("sent", sent("pending"), false),
        ("unknown", open, false),
        ("a shutdown in its time", shut(299), false),
        ("a shutdown past its time", shut(300), true),
    ] {
        assert_eq!(needs_server(&case.0), expected, "{what}");
    }
}

#[test]
fn what_waits_looks_again_by_itself() {
    let long = Some(Interval(secs(24 * 3600)));
    let behind = reboot().object(|o| o.spec.timeout = long);
    let behind = behind.facts(|f| f.is_first = false).decide();
    assert!(behind.again <= secs(600), "{:?}", behind.again);
    let message = behind.cause.unwrap().message;
    assert!(!message.contains("older"), "{message}");
}

#[test]
fn a_command_that_may_have_been_sent_is_looked_for_and_never_sent_again() {
    let open = attempt(PowerAction::Reboot, "a1", 9);
    let by_status = reboot().sent(std::slice::from_ref(&open));
    let stripped = by_status.clone().object(|o| o.metadata.annotations = None);
    let waits = Some(Reason::OutcomeUnknown);
    for case in [&by_status, &stripped] {
        // Until its time to send is over, another process may be about to: what is there is none of it.
        let early = case.clone().searched(29, None);
        assert_eq!(early.short(), (None, waits, None));
        let own = early.own(|own| own.sent = Some(open.clone()));
        assert_eq!(own.short(), (Some("search"), waits, None));
        let case = case.clone().searched(30, None);
        assert_eq!(case.short(), (Some("search"), waits, None));
        let looked = case.clone().searched(90, Some(5));
        assert_eq!(looked.short(), (None, waits, None));
        // The account's absence grace period is ten minutes: a list from within it proves nothing.
        let behind = by_status.clone().searched(730, Some(101));
        assert_eq!(behind.short(), (Some("search"), waits, None));
        let settled = by_status.clone().searched(730, Some(100));
        assert_eq!(settled.short(), (None, waits, Some(false)));
    }
    let several = by_status.clone().searched(1, None).own(|own| {
        own.note(Observation::Several("a1".into(), "x, y".into()));
    });
    assert_eq!(several.short(), (None, waits, Some(false)));
    assert_eq!(by_status.clone().late().short(), (None, waits, Some(false)));
    let elsewhere = |case: Case| {
        case.facts(|f| {
            if let AccountFacts::Found { view, .. } = &mut f.subject.account {
                view.connection = Some("other".into());
                view.lineage = Some("other".into());
            }
        })
    };
    assert_eq!(
        elsewhere(by_status.clone()).short(),
        (None, waits, Some(false))
    );
    let known = reboot().sent(&[accepted(PowerAction::Reboot, "pending", 9)]);
    assert_eq!(elsewhere(known).short(), (None, waits, Some(false)));
    // Deleted meanwhile: it is looked for all the same, so that the next one does not run beside it.
    let deleted = by_status.searched(30, None).deleted();
    assert_eq!(deleted.short(), (Some("search"), waits, None));
}

#[test]
fn what_this_process_knows_of_the_outcome_counts_although_it_is_not_on_record() {
    let open = attempt(PowerAction::Reboot, "a1", 9);
    let case = reboot().sent(std::slice::from_ref(&open));
    let done = CommandRecord {
        intent: open.intent.clone(),
        ..accepted(PowerAction::Reboot, "finished", 9)
    };
    let known = |record| {
        case.clone()
            .own(|own| own.note(Observation::Sent(record, NOW)))
    };
    assert_eq!(known(done).short().2, Some(true));
    let unsent = CommandRecord {
        outcome: Some(CommandOutcome::NotSent),
        ..open.clone()
    };
    assert_eq!(known(unsent).short().0, Some("send"));
    let refused = CommandRecord {
        outcome: Some(CommandOutcome::Refused),
        message: Some("not today".into()),
        ..open
    };
    let refused = known(refused);
    assert_eq!(
        refused.short(),
        (None, Some(Reason::RequestRefused), Some(false))
    );
    let message = refused.decide().cause.unwrap().message;
    assert!(message.contains("not today"), "{message}");
}

#[test]
fn a_command_is_followed_to_its_end() {
    let sent = |state: &str| reboot().sent(&[accepted(PowerAction::Reboot, state, 9)]);
    assert_eq!(
        sent("finished").short(),
        (None, Some(Reason::Completed), Some(true))
    );
    assert_eq!(
        sent("failed").short(),
        (None, Some(Reason::CommandFailed), Some(false))
    );
    for word in ["pending", "queued"] {
        let case = sent(word);
        assert_eq!(case.short().0, Some("look"), "{word}");
        let looked = case.clone().own(|own| own.looked = Some(NOW - secs(10)));
        let decision = looked.decide();
        assert_eq!((decision.effect, decision.again), (None, secs(20)));
        let never = case.late();
        assert_eq!(
            never.short(),
            (None, Some(Reason::CommandTimeout), Some(false))
        );
    }
}

#[test]
fn a_shutdown_that_is_not_done_is_followed_by_a_power_off_where_that_is_asked_for() {
    let sent = |case: Case, state: &str, ago| {
        let case = case.sent(&[accepted(PowerAction::Shutdown, state, ago)]);
        case.own(|own| own.looked = Some(NOW - secs(1)))
    };
    let plain = Case::new(PowerAction::Shutdown);
    assert_eq!(sent(plain, "pending", 900).short().0, None);
    let early = sent(shutdown(300), "pending", 290).decide();
    assert_eq!((early.effect, early.again), (None, secs(10)));
    let due = sent(shutdown(300), "pending", 300);
    assert_eq!(due.short().0, Some("send power-off"));
    assert_eq!(
        sent(shutdown(300), "failed", 1).short().0,
        Some("send power-off")
    );
    assert_eq!(sent(shutdown(300), "finished", 900).short().2, Some(true));
    // A clock that was turned forward switches nothing off.
    let turned = sent(shutdown(300), "pending", 10).facts(|f| f.subject.now.wall += 1000);
    assert_eq!(turned.short().0, None);
    assert_eq!(due.clone().deleted().short().0, None);
    // What holds the power-off up does not hide how the shutdown goes on.
    let suspended = due.server(|s| s.spec.suspend = Some(true));
    assert_eq!(suspended.short(), (None, Some(Reason::Progressing), None));
    // Nor what rules it out.
    let ending = sent(shutdown(300), "pending", 300)
        .server(|s| s.metadata.deletion_timestamp = moment(WALL));
    assert_eq!(ending.short(), (None, Some(Reason::Progressing), None));
    // Nor does a lost answer stop it: it is another command.
    let lost = shutdown(300).sent(&[attempt(PowerAction::Shutdown, "a1", 300)]);
    assert_eq!(lost.searched(9, Some(1)).short().0, Some("send power-off"));
    let both = [
        accepted(PowerAction::Shutdown, "pending", 400),
        CommandRecord {
            intent: attempt(PowerAction::PowerOff, "a2", 90).intent,
            ..accepted(PowerAction::PowerOff, "finished", 90)
        },
    ];
    let off = shutdown(300).sent(&both);
    assert_eq!(off.short(), (None, Some(Reason::Completed), Some(true)));
    // Once it was sent it is not sent again, whatever is said last.
    let turned: Vec<CommandRecord> = both.iter().rev().cloned().collect();
    let case = sent(shutdown(300), "pending", 900).sent(&turned);
    assert_eq!(case.short().0, None);
}

#[test]
fn what_is_over_is_held_by_nothing_and_goes_when_its_time_has_passed() {
    let over = |ttl, ago: i64| {
        reboot().object(|o| {
            o.spec.ttl_seconds_after_finished = ttl;
            let status = o.status.get_or_insert_default();
            status.finished_at = moment(WALL - ago);
            let done = conditions::Wanted::new(Type::Complete, true, Reason::Completed, "");
            status.conditions =
                conditions::merge(&[], &[done], Some(1), jiff::Timestamp::UNIX_EPOCH);
        })
    };
    let held = over(Some(0), 9).object(|o| {
        o.metadata.finalizers = Some(vec![OBJECT_FINALIZER.into()]);
    });
    assert_eq!(held.short().0, Some("let go"));
    // Another one puts it on again: with pauses, until the object goes.
    let contested = held.facts(|f| f.subject.memory.holds.put_back(NOW));
    assert_eq!(contested.short().0, None);
    assert_eq!(contested.deleted().short().0, Some("let go"));
    assert_eq!(over(None, 900_000).short().0, None);
    assert_eq!(over(Some(0), 0).short().0, Some("delete"));
    let waits = over(Some(100), 99).decide();
    assert_eq!((waits.effect, waits.again), (None, secs(1)));
    assert_eq!(over(Some(100), 100).short().0, Some("delete"));
    let turned = over(Some(100), 0).facts(|f| f.subject.now.wall += 1000);
    assert_eq!(turned.short().0, None, "its clock was turned");
}
