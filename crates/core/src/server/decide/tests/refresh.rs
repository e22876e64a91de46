//! What a reconcile knows and remembers about an object.

use super::{protocol::*, *};
use crate::{
    account::ownership_tags,
    last_error::LastError,
    server::{
        memory::ServerObservation,
        refresh::{ServerIndex, refresh_facts},
    },
};

/// Servers and owners outside of the object.
#[derive(Default)]
struct Outside {
    servers: Vec<SeenServer>,
    /// Servers that only a read shows, and not the search by tag.
    read: Vec<SeenServer>,
    /// The existing owners; none if unknown.
    owners: Option<Vec<Owner>>,
    /// Servers that other objects have recorded.
    recorded: Vec<String>,
    /// Servers that other objects of the namespace name in their spec.
    named: Vec<String>,
}

impl ServerIndex for Outside {
    fn servers_by_namespaced_name_hash(&self, place: &str) -> Vec<SeenServer> {
        let is_it = |s: &&SeenServer| ownership_tags::name_hashes(&s.server).any(|it| it == place);
        self.servers.iter().filter(is_it).cloned().collect()
    }

    fn find_server(&self, uuid: &str) -> Option<SeenServer> {
        let mut all = self.servers.iter().chain(&self.read);
        all.find(|s| s.server.id.as_str() == uuid).cloned()
    }

    fn is_owner(&self, owner: &str, _: &str) -> Option<bool> {
        let owners = self.owners.as_ref()?;
        Some(owners.iter().any(|it| it.as_str() == owner))
    }

    fn is_recorded(&self, uuid: &str, _: &str) -> bool {
        self.recorded.iter().any(|it| it == uuid)
    }

    fn is_named(&self, uuid: &str, namespace: &str, _: &str) -> bool {
        namespace == "shop" && self.named.iter().any(|it| it == uuid)
    }
}

fn outside(servers: Vec<Server>) -> Outside {
    Outside {
        servers: servers.into_iter().map(seen).collect(),
        owners: Some(Vec::new()),
        ..Outside::default()
    }
}

fn refreshed(case: Case, outside: &Outside) -> ServerFacts {
    let mut facts = case.0;
    refresh_facts(&mut facts, Some(outside));
    facts
}

fn ids<'a>(all: impl IntoIterator<Item = &'a SeenServer>) -> Vec<&'a str> {
    all.into_iter().map(|s| s.server.id.as_str()).collect()
}

fn delivered(number: u8, tag: &str) -> Server {
    server(number, ServerStatus::Delivered, &[tag])
}

#[test]
fn order_tags_distinguish_own_and_previous_servers() {
    let (own, previous) = (own_tag(), previous_tag());
    let known = outside(vec![
        delivered(3, &previous),
        delivered(2, &previous),
        server(4, ServerStatus::Released, &[&previous]),
        delivered(1, &own),
        server(5, ServerStatus::Released, &[&own]),
        server(6, ServerStatus::Delivered, &[&own, &previous]),
        delivered(7, &other_tag()),
    ]);
    let facts = refreshed(Case::new(), &known);
    let mut own = ids(&facts.own);
    own.sort_unstable();
    assert_eq!(own, [uuid(1), uuid(5), uuid(6)], "in any state");
    assert_eq!(ids(&facts.previous), [uuid(2), uuid(3)], "live ones alone");
    let nobody = refreshed(
        Case::new().facts(|f| f.namespace_uid = Err("no".into())),
        &known,
    );
    assert_eq!((nobody.own.len(), nobody.previous.len()), (0, 0));
}

#[test]
fn recorded_server_is_known_without_tags() {
    let bare = outside(vec![delivered(1, "web")]);
    let facts = refreshed(created(), &bare);
    assert_eq!(
        (facts.own.len(), ids(&facts.recorded)),
        (0, vec![&*uuid(1)])
    );
    assert_eq!(short(&Case(facts).decide()).1, Some(Reason::TagsMissing));
    // A server that is read during a reconcile is the object's own.
    let read = Outside {
        read: vec![seen(delivered(1, &own_tag()))],
        ..outside(Vec::new())
    };
    let facts = refreshed(created(), &read);
    assert_eq!(ids(&facts.own), [uuid(1)]);
}

#[test]
fn old_list_does_not_hide_missing_server() {
    let old = |case: Case| {
        case.view(|v| v.servers = Some((secs(500), Arc::new(vec![delivered(1, &own_tag())]))))
    };
    for case in [created(), created().spec(|s| s.external_id = Some(uuid(1)))] {
        let facts = refreshed(old(case), &outside(Vec::new()));
        assert_eq!((facts.recorded.is_none(), facts.own.len()), (true, 0));
        assert_eq!(short(&Case(facts).decide()).0, Some("Read"));
    }
    // It is not adopted again either, if a list that began before the reads shows it.
    let back = Outside {
        servers: vec![SeenServer {
            seen: secs(850),
            ..seen(delivered(1, &own_tag()))
        }],
        ..outside(Vec::new())
    };
    let facts = refreshed(gone(), &back);
    assert_eq!(
        outcome(&Case(facts).decide()).unwrap().0,
        Some(OrderOutcome::Created)
    );
}

#[test]
fn listed_server_counts_as_own_despite_reads() {
    let listed = Case::new().view(|v| {
        let list = Arc::make_mut(v.complete_list.as_mut().unwrap());
        list.servers.push(Arc::new(delivered(1, &own_tag())));
    });
    let facts = refreshed(listed, &outside(Vec::new()));
    assert_eq!(ids(&facts.own), [uuid(1)]);
    assert_ne!(short(&Case(facts).decide()).0, Some("Order"));
}

#[test]
fn server_listed_again_is_not_missing() {
    let missed = |known: &Outside| {
        let facts = refreshed(created().missed(&[900]), known);
        facts.memory.protocol.missing().is_some()
    };
    assert!(missed(&outside(Vec::new())));
    assert!(!missed(&outside(vec![delivered(1, &own_tag())])));
    assert!(!missed(&outside(vec![delivered(1, "web")])), "it is there");
}

#[test]
fn missing_reads_reset_on_new_connection_or_leader() {
    let missed = |case: Case| {
        let first = Case(refreshed(case.missed(&[800, 900]), &outside(Vec::new())));
        move |change: fn(Case) -> Case| {
            let next = refreshed(change(first.clone()), &outside(Vec::new()));
            next.memory.protocol.missing().is_some()
        }
    };
    let missed = missed(created());
    assert!(missed(|case| case));
    assert!(!missed(|case| case.blocked(Reason::KeyRejected)));
    assert!(!missed(
        |case| case.view(|v| v.credentials_hash = Some("c0ffee000002".into()))
    ));
    assert!(
        !missed(|case| case.facts(|f| f.leader_since = secs(500))),
        "a new leader"
    );
    // Lists may fail while reads succeed. Each read must be recorded, or it is repeated at once.
    assert!(missed(|case| case.view(|v| v.is_unreachable = true)));
}

#[test]
fn untagged_server_is_suspected_by_name_and_age() {
    let bare = || server(1, ServerStatus::Delivered, &[&cluster().tag()]);
    let suspected = |case: Case, server: Server| {
        let case = case.view(|v| v.servers = Some((secs(990), Arc::new(vec![server]))));
        !refreshed(case, &outside(Vec::new())).suspects.is_empty()
    };
    let unnamed = Server {
        name: " WEB ".into(),
        created_at: None,
        tags: Vec::new(),
        ..bare()
    };
    let named = |name: &str| Server {
        name: name.into(),
        ..bare()
    };
    let made = |at| Server {
        created_at: Some(at),
        ..bare()
    };
    // The sequence number is from a clock that was a year ahead; the time is right.
    let ahead = || {
        open().object(|o| {
            let order = o.status.as_mut().unwrap().records.order.as_mut().unwrap();
            order.seq += 31_536_000;
        })
    };
    let renamed = || open().spec(|s| s.hostname = Some("renamed".into()));
    for (what, case, server, is_suspect) in [
        ("bare", open(), bare(), true),
        ("nothing tells its age", open(), unnamed, true),
        ("another name", open(), named("db"), false),
        ("the spec was edited since", renamed(), bare(), true),
        ("by another clock", open(), made(EPOCH - 300), true),
        ("older than the order", open(), made(EPOCH - 301), false),
        ("a number of the future", ahead(), made(EPOCH), true),
        (
            "without an open order of any age",
            Case::new(),
            made(7),
            true,
        ),
        ("tagged", open(), delivered(1, &other_tag()), false),
        (
            "over",
            open(),
            Server {
                status: ServerStatus::Released,
                ..bare()
            },
            false,
        ),
    ] {
        assert_eq!(suspected(case, server), is_suspect, "{what}");
    }
}

#[test]
fn external_server_follows_the_newest_list_or_read() {
    let named = |listed: bool, read: Option<u64>| {
        let server = delivered(5, "web");
        let case = Case::new().named(5, None).view(|v| {
            let servers = if listed {
                vec![server.clone()]
            } else {
                Vec::new()
            };
            v.servers = Some((secs(990), Arc::new(servers)));
        });
        let read = read.map(|at| SeenServer {
            seen: secs(at),
            ..seen(server.clone())
        });
        let known = Outside {
            read: read.into_iter().collect(),
            ..outside(Vec::new())
        };
        refreshed(case, &known)
            .external
            .unwrap()
            .shown
            .map(|s| s.seen)
    };
    assert_eq!(named(true, None), Some(secs(990)));
    assert_eq!(named(true, Some(995)), Some(secs(995)));
    assert_eq!(named(true, Some(900)), Some(secs(990)));
    assert_eq!(named(false, Some(995)), Some(secs(995)));
    assert_eq!(
        named(false, Some(900)),
        None,
        "the list does not show it any more"
    );
    assert_eq!(named(false, None), None);
    // A server with the object's tag is its own.
    let own = delivered(5, &own_tag());
    let listed = Case::new()
        .named(5, None)
        .view(|v| v.servers = Some((secs(990), Arc::new(vec![own]))));
    assert_eq!(ids(&refreshed(listed, &outside(Vec::new())).own), [uuid(5)]);
}

#[test]
fn what_others_have_of_its_servers_is_known() {
    let known = |owners| Outside {
        owners,
        recorded: vec![uuid(2)],
        ..outside(vec![delivered(1, &own_tag()), delivered(2, &own_tag())])
    };
    let elsewhere = |tag: &str, known: &Outside| {
        let case = external::named(&[tag]).view(|v| {
            v.servers = Some((secs(990), Arc::new(vec![delivered(5, tag)])));
        });
        let facts = refreshed(case, known);
        let ids = |all: &[ServerId]| {
            all.iter()
                .map(|id| id.as_str().to_owned())
                .collect::<Vec<_>>()
        };
        (ids(&facts.recorded_elsewhere), ids(&facts.owned_elsewhere))
    };
    let (none, five) = (Vec::<String>::new(), vec![uuid(5)]);
    let api = Some(vec![owner_of("api")]);
    assert_eq!(
        elsewhere(&other_tag(), &known(api)),
        (vec![uuid(2)], five.clone())
    );
    assert_eq!(
        elsewhere(&other_tag(), &known(Some(Vec::new()))).1,
        none,
        "it is gone"
    );
    assert_eq!(
        elsewhere(&other_tag(), &known(None)).1,
        five,
        "nobody knows"
    );
    // No object is left from before the namespace was recreated.
    assert_eq!(elsewhere(&previous_tag(), &known(None)).1, none);
    let handed = |named| {
        let known = Outside {
            named,
            ..outside(Vec::new())
        };
        refreshed(created(), &known).is_handed_over
    };
    assert!(handed(vec![uuid(1)]) && !handed(vec![uuid(2)]));
}

#[test]
fn absence_counts_only_from_conclusive_lists() {
    let absent = |case: Case| {
        let facts = refreshed(case, &outside(Vec::new()));
        facts.memory.protocol.absent()
    };
    assert_eq!(absent(open()), Some((secs(990), secs(990))));
    assert_eq!(absent(open().listed(360)), None, "it may still arrive");
    assert_eq!(absent(open().empty()), None, "without a known server");
    assert_eq!(absent(Case::new()), None, "nothing is looked for");
}

#[test]
fn servers_stay_known_without_an_account() {
    let mut facts = Case::new().with(1, ServerStatus::Delivered).0;
    refresh_facts(&mut facts, None::<&Outside>);
    assert_eq!(facts.own.len(), 1);
}

#[test]
fn unsent_order_leaves_a_backoff() {
    let backoff_after = |outcome| {
        let mut memory = ServerMemory::default();
        for _ in 0..5 {
            let failed = ServerObservation::Failed(LastError::check_failed("why"));
            memory.record_observation(failed, secs(50));
        }
        let record = Box::new(order_record(outcome, None));
        memory.record_observation(ServerObservation::Ordered(record), secs(100));
        (
            memory.backoff.failures(),
            memory.backoff.remaining(secs(100)),
        )
    };
    assert_eq!(
        backoff_after(Some(OrderOutcome::NotSent)),
        (1, Some(secs(1)))
    );
    assert_eq!(backoff_after(Some(OrderOutcome::Refused)), (0, None));
    assert_eq!(backoff_after(None), (0, None));
}

/// A read shows that a duplicate is gone.
#[test]
fn only_recorded_server_read_reports_it_missing() {
    let case =
        super::existing::with_status(ServerStatus::Delivered).with(2, ServerStatus::Delivered);
    let case = case.memory(|m| {
        let read = ServerObservation::Read {
            uuid: uuid(2),
            at: secs(995),
            is_there: false,
        };
        m.record_observation(read, secs(995));
    });
    assert_eq!(case.0.memory.protocol.missing(), None);
}
