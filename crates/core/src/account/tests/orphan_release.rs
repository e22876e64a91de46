//! Machines that no object claims, released by policy or by a person's word.

use super::*;
use crate::{
    account::{
        decide::orphan_release::{Start, is_due, is_in_time, is_unchanged, speaks_of, start},
        marks,
    },
    mark::ClusterId,
    moment::Moment,
};
use api::{
    Interval, Policies,
    brake::{BegunRelease, BrakeStatus, ReleaseBrake},
    names::RELEASE_ORPHAN,
    orphan::{Orphan, OrphanMode, OrphanRelease},
};

const CLUSTER: &str = "0123456789abcdef";
const DAY: Duration = Duration::from_secs(24 * 3600);
const HOUR: Duration = Duration::from_secs(3600);
const WINDOW: Duration = Duration::from_secs(10);

pub(super) fn lost() -> Server {
    let mark = marks::mark(CLUSTER, "shop", "web", "uid-web");
    Server {
        tags: vec![
            marks::cluster_tag(CLUSTER),
            format!("fmo-order:{mark}00000001"),
        ],
        ..machine(3)
    }
}

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

/// An account whose policy is to release the machine now.
pub(super) fn due() -> Facts {
    let mut facts = facts();
    facts.report.as_mut().unwrap().verdict = Verdict::Found(vec![Arc::new(lost())]);
    facts.releases_after = Some(DAY);
    facts.spec.release_brake = Some(ReleaseBrake {
        max_releases: 1,
        window: Interval::seconds(3600),
    });
    facts.status.orphans = vec![Orphan {
        uuid: uuid(3),
        hostname: String::new(),
        order_tag: None,
        since: Some(at(facts.wall - 24 * 3600)),
        location: String::new(),
        instance_type: String::new(),
        adopt: None,
        release: None,
    }];
    facts.now += 3 * HOUR;
    facts.orphan_memory.since.insert(uuid(3), facts.now - HOUR);
    facts
}

/// A brake that holds what comes after a release that was counted.
fn engaged() -> BrakeStatus {
    BrakeStatus {
        begun: vec![BegunRelease {
            uuid: uuid(8),
            at: at(facts().wall),
        }],
        engaged_since: Some(at(facts().wall)),
    }
}

fn releases(facts: &Facts) -> bool {
    let next = decide(facts).releases;
    next.is_some_and(|server| server.id == lost().id)
}

#[test]
fn a_machine_is_released_by_policy_only_when_everything_says_so() {
    assert!(releases(&due()));
    let note = OrphanRelease {
        uuid: uuid(9),
        attempt: "a9".into(),
        send_by: at(facts().wall),
    };
    type Change<'a> = &'a dyn Fn(&mut Facts);
    let cases: [(&str, Change); 20] = [
        ("no policy", &|f| f.releases_after = None),
        ("no brake", &|f| f.spec.release_brake = None),
        ("a second early", &|f| f.wall -= 1),
        ("never shown", &|f| f.status.orphans.clear()),
        ("not shown since when", &|f| {
            f.status.orphans[0].since = None
        }),
        ("just seen by this process", &|f| {
            f.orphan_memory
                .since
                .insert(uuid(3), f.now - HOUR + Duration::from_secs(1));
        }),
        ("not seen by this process", &|f| {
            f.orphan_memory.since.clear()
        }),
        ("an object of its mark lives", &|f| {
            f.orphans_of_living.insert(uuid(3));
        }),
        ("another account object is the same account", &|f| {
            f.is_only_account = false
        }),
        ("another release may be under way", &|f| {
            f.status.orphan_release = Some(note.clone())
        }),
        ("tried in vain", &|f| {
            f.orphan_memory
                .hold(&uuid(3), "no".into(), f.now, Duration::from_secs(1))
        }),
        ("nobody wants to know of orphans", &|f| {
            f.spec.orphan_policy.mode = OrphanMode::Off
        }),
        ("the namespace is suspended", &|f| {
            f.is_namespace_suspended = Some(true)
        }),
        ("the namespace was not read", &|f| {
            f.is_namespace_suspended = None
        }),
        ("another was tried just now", &|f| {
            f.orphan_memory.rest = f.now + Duration::from_secs(1)
        }),
        ("the brake is engaged", &|f| {
            f.status.release_brake = Some(engaged())
        }),
        ("the account is suspended", &|f| {
            f.spec.defaults = Some(Policies {
                suspend: Some(true),
                ..Policies::default()
            });
        }),
        ("the account is being deleted", &|f| {
            f.meta.deletion_timestamp = Some(at(f.wall))
        }),
        ("the key was not tried", &|f| {
            f.report.as_mut().unwrap().key = KeyState::Untried;
        }),
        ("the key is refused", &|f| {
            f.report.as_mut().unwrap().key = rejected();
        }),
    ];
    for (what, change) in cases {
        let mut facts = due();
        change(&mut facts);
        assert!(!releases(&facts), "{what}");
    }
}

#[test]
fn only_a_delivered_machine_of_this_cluster_is_released() {
    let facts = due();
    let of = |change: &dyn Fn(&mut Server)| {
        let mut server = lost();
        change(&mut server);
        is_due(&facts, &server)
    };
    assert!(of(&|_| {}));
    assert!(!of(&|s| s.status = ServerStatus::Provisioning));
    assert!(!of(&|s| s.status = ServerStatus::Failed));
    assert!(!of(&|s| s.tags.truncate(1)), "nobody's order");
    assert!(!of(&|s| drop(s.tags.remove(0))), "no cluster's");
    let foreign = || marks::cluster_tag("fedcba9876543210");
    assert!(!of(&|s| s.tags[0] = foreign()), "another cluster's");
    assert!(!of(&|s| s.tags.push(foreign())), "another cluster's, too");
    assert!(!of(&|s| s.tags.push("fmo-retained".into())));
    assert!(!of(&|s| s.id = ServerId::parse(&uuid(4)).unwrap()));
}

#[test]
fn a_persons_word_needs_neither_policy_nor_time_but_a_while_of_being_seen() {
    let asked = |word: &str| {
        let mut facts = due();
        facts.releases_after = None;
        facts.spec.release_brake = None;
        let annotations = facts.meta.annotations.get_or_insert_default();
        annotations.insert(RELEASE_ORPHAN.into(), word.into());
        facts
    };
    assert!(releases(&asked(&uuid(3))));
    assert!(releases(&asked(&format!(
        "{}, {}",
        uuid(7),
        uuid(3).to_uppercase()
    ))));
    for word in ["", ",", "all", "*", &uuid(7)] {
        assert!(!releases(&asked(word)), "{word}");
    }
    let seen = |ago: u64| {
        let mut facts = asked(&uuid(3));
        let since = facts.now - Duration::from_secs(ago);
        facts.orphan_memory.since.insert(uuid(3), since);
        releases(&facts)
    };
    assert!(seen(600) && !seen(599));
    // It is used up once none of them is an orphan, and not while one may be.
    let forgets = |facts: &Facts| decide(facts).effect == Some(Effect::ForgetOrphans);
    assert!(!forgets(&asked(&uuid(3))) && forgets(&asked(&uuid(7))));
    let verdict = |facts: &mut Facts, verdict| facts.report.as_mut().unwrap().verdict = verdict;
    let mut unchecked = asked(&uuid(7));
    verdict(&mut unchecked, Verdict::NotChecked);
    assert!(!forgets(&unchecked));
}

#[test]
fn those_that_cannot_be_released_are_in_nobodys_way() {
    let mut facts = due();
    let stuck = (10..40).map(|number| {
        Arc::new(Server {
            status: ServerStatus::Provisioning,
            ..Server {
                id: ServerId::parse(&uuid(number)).unwrap(),
                ..lost()
            }
        })
    });
    let all = stuck.chain([Arc::new(lost())]).collect();
    facts.report.as_mut().unwrap().verdict = Verdict::Found(all);
    assert!(releases(&facts));
    let lines = decide(&facts).orphans.unwrap();
    assert_eq!((lines.len(), lines[0].uuid.clone()), (20, uuid(3)));
    // The oldest first, and the next while that one is held.
    let mut younger = lost();
    younger.id = ServerId::parse(&uuid(50)).unwrap();
    let both = vec![Arc::new(lost()), Arc::new(younger)];
    facts.report.as_mut().unwrap().verdict = Verdict::Found(both);
    let mut line = facts.status.orphans[0].clone();
    line.uuid = uuid(50);
    facts.status.orphans.push(line);
    let since = facts.now - HOUR;
    facts.orphan_memory.since.insert(uuid(50), since);
    assert!(releases(&facts));
    let now = facts.now;
    facts.orphan_memory.hold(&uuid(3), "no".into(), now, WINDOW);
    assert_eq!(decide(&facts).releases.unwrap().id.as_str(), uuid(50));
}

#[test]
fn the_note_counts_at_the_brake_and_ends_with_what_it_speaks_of() {
    let facts = due();
    let Start::Note(note, Some(counted)) = start(&facts, &lost(), "a1", WINDOW) else {
        panic!("it may begin");
    };
    assert_eq!(note.send_by, at(facts.wall + 10));
    assert!(counted.counts(&uuid(3)));
    let mut braked = due();
    let mut full = counted.clone();
    full.begun[0].uuid = uuid(8);
    braked.status.release_brake = Some(full);
    assert!(matches!(
        start(&braked, &lost(), "a1", WINDOW),
        Start::Held(Some(_))
    ));
    let mut late = due();
    late.releases_after = None;
    assert_eq!(start(&late, &lost(), "a1", WINDOW), Start::NotDue);

    let mut noted = due();
    noted.status.orphan_release = Some(note.clone());
    assert_eq!(decide(&noted).orphan_release, Some(note.clone()));
    assert_eq!(
        start(&noted, &lost(), "a1", WINDOW),
        Start::NotDue,
        "one at a time"
    );
    let grace = 600;
    let left = |wall: i64| {
        let mut facts = noted.clone();
        facts.wall = wall;
        decide(&facts).orphan_release.is_some()
    };
    let send_by = facts.wall + 10;
    assert!(left(send_by + grace - 1) && !left(send_by + grace));
    assert!(left(send_by - 99_999), "a clock that was turned back");
    // By a clock that was ahead: this process has seen it for long enough.
    let mut seen = noted.clone();
    seen.wall = send_by - 99_999;
    let longest = seen.times().send_window + Duration::from_secs(600);
    seen.orphan_memory.noted = Some((note.clone(), seen.now - longest));
    assert!(decide(&seen).orphan_release.is_some());
    seen.now += Duration::from_secs(1);
    assert_eq!(decide(&seen).orphan_release, None);
    let another = OrphanRelease {
        attempt: "a2".into(),
        ..note.clone()
    };
    noted.orphan_memory.ended = Some((another, true));
    assert!(
        decide(&noted).orphan_release.is_some(),
        "of the same second"
    );
    noted.orphan_memory.ended = Some((note, false));
    assert_eq!(decide(&noted).orphan_release, None);
}

#[test]
fn whatever_speaks_of_a_machine_holds_its_release() {
    let cluster = ClusterId::parse(CLUSTER).unwrap();
    let meta = |name: &str, uid: &str| ObjectMeta {
        name: Some(name.into()),
        namespace: Some("shop".into()),
        uid: Some(uid.into()),
        ..ObjectMeta::default()
    };
    let speaks = |meta: &ObjectMeta, text: &str| speaks_of(&cluster, meta, text, &lost());
    assert!(speaks(&meta("web", "uid-web"), "{}"), "its own object");
    assert!(!speaks(&meta("web", "uid-other"), "{}"));
    assert!(!speaks(&meta("db", "uid-web"), "{}"));
    let other = meta("db", "uid-db");
    assert!(speaks(
        &other,
        &format!("{{\"externalID\":\"{}\"}}", uuid(3).to_uppercase())
    ));
    let mark = marks::mark(CLUSTER, "shop", "web", "uid-web");
    assert!(
        speaks(&other, &format!("{{\\\"mark\\\":\\\"{mark}\\\"}}")),
        "a restored note"
    );
    assert!(!speaks(&other, &uuid(4)));
}

#[test]
fn it_is_sent_only_on_a_fresh_record_that_shows_what_was_judged() {
    let moment = |mono: u64, wall: i64| Moment {
        mono: Duration::from_secs(mono),
        wall,
    };
    let since = moment(100, 1000);
    let may = |now| is_in_time(since, now, WINDOW);
    assert!(may(moment(109, 1009)));
    assert!(!may(moment(110, 1009)), "late");
    assert!(!may(moment(101, 999)), "a turned clock");
    let of = |change: &dyn Fn(&mut Server)| {
        let mut server = lost();
        change(&mut server);
        is_unchanged(&lost(), &server)
    };
    assert!(
        of(&|s| s.tags.push("web".into())),
        "people's tags are theirs"
    );
    assert!(of(&|s| s.tags.reverse()));
    assert!(!of(&|s| s.tags.push("fmo-retained".into())));
    assert!(
        !of(&|s| s.tags.push(format!("fmo-order:{}", "a".repeat(32)))),
        "taken on"
    );
    assert!(!of(&|s| s.tags.clear()));
    assert!(!of(&|s| s.status = ServerStatus::Releasing));
    assert!(!of(&|s| s.id = ServerId::parse(&uuid(4)).unwrap()));
}

#[test]
fn being_seen_has_no_breaks() {
    let found = |numbers: &[usize]| {
        let servers = numbers.iter().map(|number| Arc::new(machine(*number)));
        Verdict::Found(servers.collect())
    };
    let secs = Duration::from_secs;
    let mut memory = OrphanMemory::default();
    let note = OrphanRelease {
        uuid: uuid(1),
        attempt: "a1".into(),
        send_by: at(1),
    };
    memory.look(Some(&found(&[1, 2])), None, secs(10));
    memory.look(Some(&found(&[1])), Some(&note), secs(20));
    memory.look(Some(&found(&[1, 2])), Some(&note), secs(30));
    assert_eq!(
        (memory.since[&uuid(1)], memory.since[&uuid(2)]),
        (secs(10), secs(30))
    );
    assert_eq!(memory.noted, Some((note, secs(20))));
    for (nobody_knows, at) in [(Some(&Verdict::NotChecked), 40), (None, 60)] {
        memory.look(nobody_knows, None, secs(at));
        memory.look(Some(&found(&[1])), None, secs(at + 10));
        assert_eq!(memory.since[&uuid(1)], secs(at + 10));
    }
    assert_eq!(memory.noted, None);
    memory.hold(&uuid(1), "no".into(), secs(70), secs(9));
    assert_eq!(memory.held[&uuid(1)].until, secs(79));
    memory.hold(&uuid(1), "no".into(), secs(70), secs(9));
    assert_eq!(memory.held[&uuid(1)].until, secs(88), "it doubles");
    memory.look(Some(&found(&[])), None, secs(80));
    assert!(memory.held.is_empty());
}

#[test]
fn a_line_says_how_it_is_released_and_the_message_when_that_happens() {
    let facts = due();
    let command = format!(
        "kubectl annotate provideraccount default -n n flexmetal.dev/release-orphan={} --overwrite",
        uuid(3)
    );
    assert_eq!(decide(&facts).orphans.unwrap()[0].release, Some(command));
    let mut twin = due();
    twin.orphans_of_living.insert(uuid(3));
    assert_eq!(decide(&twin).orphans.unwrap()[0].release, None);
    let (_, _, message) = condition(&facts, Type::OrphansFound);
    assert!(
        message.contains("24h after it was first shown"),
        "{message}"
    );
    let mut held = due();
    held.orphan_memory.hold(
        &uuid(3),
        "BareMetalServer shop/web speaks of it".into(),
        held.now,
        WINDOW,
    );
    let (_, _, message) = condition(&held, Type::OrphansFound);
    assert!(
        message.contains("not released now: BareMetalServer shop/web"),
        "{message}"
    );
    // What holds all of them is told once, and nothing is promised or offered beside it.
    let mut shared = due();
    shared.is_only_account = false;
    let (_, _, message) = condition(&shared, Type::OrphansFound);
    assert!(
        message.contains("none is released now: another account object"),
        "{message}"
    );
    assert!(!message.contains("24h"), "{message}");
    assert_eq!(decide(&shared).orphans.unwrap()[0].release, None);
    // A second command keeps the first word.
    let mut asked = due();
    let annotations = asked.meta.annotations.get_or_insert_default();
    annotations.insert(RELEASE_ORPHAN.into(), uuid(7));
    let command = decide(&asked).orphans.unwrap()[0].release.clone().unwrap();
    assert!(
        command.contains(&format!("{},{} ", uuid(7), uuid(3))),
        "{command}"
    );
}

#[test]
fn since_when_is_never_told_from_a_clock_that_was_wrong() {
    let since = |recorded: i64, created: Option<i64>| {
        let mut facts = due();
        facts.status.orphans[0].since = Some(at(recorded));
        let server = Server {
            created_at: created,
            ..lost()
        };
        facts.report.as_mut().unwrap().verdict = Verdict::Found(vec![Arc::new(server)]);
        let line = decide(&facts).orphans.unwrap().remove(0);
        line.since.unwrap().0.as_second() - facts.wall
    };
    let now = facts().wall;
    assert_eq!(since(now - 60, None), -60);
    assert_eq!(since(now + 60, None), 0, "it was ahead");
    assert_eq!(since(now - 9999, Some(now - 30)), 0, "it was behind");
    assert_eq!(since(now - 60, Some(now - 30)), -60);
}

#[test]
fn a_release_that_came_to_nothing_does_not_count_at_the_brake() {
    let mut facts = due();
    let Start::Note(note, Some(counted)) = start(&facts, &lost(), "a1", WINDOW) else {
        panic!("it may start");
    };
    facts.status.orphan_release = Some(note.clone());
    facts.status.release_brake = Some(counted.clone());
    let counts = |facts: &Facts| decide(facts).brake.unwrap().begun.len();
    assert_eq!(counts(&facts), 1, "it may be on its way");
    facts.orphan_memory.ended = Some((note.clone(), false));
    assert_eq!(counts(&facts), 1, "it was taken");
    facts.orphan_memory.ended = Some((note, true));
    let decision = decide(&facts);
    assert_eq!((decision.orphan_release, counts(&facts)), (None, 0));
    // Once the note is off nothing is taken off again.
    facts.status.orphan_release = None;
    assert_eq!(counts(&facts), 1);
}

#[test]
fn attempts_in_vain_come_more_and_more_rarely_and_let_others_have_their_line() {
    let mut memory = OrphanMemory::default();
    let secs = Duration::from_secs;
    let rests: Vec<Duration> = (0..6)
        .map(|_| {
            memory.rest(secs(0), secs(30), true);
            memory.rest
        })
        .collect();
    assert_eq!(rests, [60, 120, 240, 480, 480, 480].map(secs));
    memory.rest(secs(0), secs(30), false);
    assert_eq!(memory.rest, secs(30));
    // Those that were tried in vain make room in status, also when their pause is over.
    let mut facts = due();
    let many = (10..40).map(|number| Server {
        id: ServerId::parse(&uuid(number)).unwrap(),
        ..lost()
    });
    for server in many.clone() {
        let uuid = server.id.as_str();
        facts
            .orphan_memory
            .hold(uuid, "no".into(), secs(0), secs(1));
    }
    let all = many.chain([lost()]).map(Arc::new).collect();
    facts.report.as_mut().unwrap().verdict = Verdict::Found(all);
    assert_eq!(decide(&facts).orphans.unwrap()[0].uuid, uuid(3));
}
