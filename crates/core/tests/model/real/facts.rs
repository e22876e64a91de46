//! Facts, from all that a process sees.

use super::{super::world::*, *};
use api::Reason;
use flexmetal_core::{
    account::{
        left_behind::{Left, LeftBehind},
        marks,
        view::{Catalogue, Proof, Sighting, State, View},
    },
    account_facts::AccountFacts,
    power::KnownCommand,
    server::{
        facts::{Facts, Installation},
        recall::{Known, recall},
    },
    server_commands::UnderWay,
};
use hosting_types::Server;

/// All that one pass sees. Also the key under which its decision is remembered: few passes of a run
/// differ, and deciding costs much more than looking it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sight {
    pub object: Obj,
    pub memory: u32,
    pub now: Tick,
    pub started: Tick,
    pub settings: SettingsA,
    pub blocked: bool,
    pub proof: Option<ProofA>,
    pub seen: [Option<Machine>; MOST_MACHINES],
    pub bare: Option<(u8, Machine)>,
    /// The other object that this process knows.
    pub neighbour: Option<Who>,
    /// The machine that the other object has on record.
    pub neighbours: Option<u8>,
    /// The other object has an order of its own in its metadata, or the note of a release.
    pub neighbour_noted: bool,
    pub connection: Connection,
    pub kind_deleting: bool,
    pub acting_since: Tick,
    pub first_seen: Tick,
    pub newcomer: bool,
}

/// Every machine that bears the object's mark.
pub fn bearing(s: &Sight) -> Vec<Sighting> {
    let seen = Seen {
        machines: machines(s),
        neighbour: None,
        neighbours: None,
        neighbour_noted: false,
    };
    seen.bearing(mark(s.object.who))
}

fn machines(s: &Sight) -> Vec<Sighting> {
    let numbered = (0u8..).zip(&s.seen);
    let all = numbered.filter_map(|(number, m)| m.as_ref().map(|m| (number, m)));
    let sighting = |(number, m)| Sighting {
        server: Arc::new(server(number, m)),
        seen: moment(s.now, s.started).mono,
    };
    all.map(sighting).collect()
}

/// The facts, recalled as every pass does it.
pub fn facts(s: &Sight) -> Facts {
    let now = moment(s.now, s.started);
    let machines = machines(s);
    let proof = s.proof.map(|p| {
        let began = ticks(p.began - s.started);
        let mut servers: Vec<Arc<Server>> = machines
            .iter()
            .map(|x| x.server.clone())
            .filter(|x| p.shown & (1 << machine_of(x.id.as_str())) != 0)
            .collect();
        if p.control {
            servers.push(Arc::new(control_server(s.connection.account())));
        }
        Arc::new(Proof {
            began,
            ended: began,
            servers,
        })
    });
    let view = View {
        state: match s.settings.block {
            Some(reason) => State::Blocked(Reason::ALL[usize::from(reason)], "as it is".into()),
            None if s.blocked => State::Blocked(Reason::KeyRejected, "refused".into()),
            None => State::Usable,
        },
        times: times(),
        proof,
        known: known(s.settings.known),
        catalogue: Some((now.mono, Arc::new(Catalogue::default()))),
        servers: s.proof.map(|p| {
            let bare = s.bare.iter().map(|(number, m)| server(*number, m));
            (ticks(p.began - s.started), Arc::new(bare.collect()))
        }),
        used_before: s.settings.used_before,
        uid: ACCOUNT_UID.into(),
        connection: Some(word(s.connection)),
        lineage: s.settings.lineage.map(lineage),
        no_orders: (s.settings.no_orders)
            .then(|| (Reason::Pending, "the account is being recorded".into())),
        defaults: Some(defaults(&s.object)),
        release_limit: s.settings.release_limit.map(|(counted, blocked)| {
            let counted = ReleaseLimitA {
                counted,
                blocked,
                ..ReleaseLimitA::default()
            };
            (RELEASE_LIMIT, release_limit_status(&counted))
        }),
        ..View::usable()
    };
    let mut facts = Facts {
        now,
        wall_at_start: wall(s.started),
        acting_since: ticks(s.acting_since - s.started),
        first_seen: ticks(s.first_seen - s.started),
        is_newcomer: s.newcomer,
        cluster: cluster(),
        all_namespaces: true,
        kind_deleting: Some(s.kind_deleting),
        object: Arc::new(object(&s.object)),
        account: AccountFacts::Found {
            view,
            terms: flexmetal_core::account::terms::Terms::Own,
        },
        installation: Some(Ok(Installation::default())),
        denied: None,
        named_keys: Vec::new(),
        own: Vec::new(),
        recorded: None,
        retained: Vec::new(),
        unlisted: Vec::new(),
        former: None,
        external: None,
        other_marks: Vec::new(),
        recorded_elsewhere: Vec::new(),
        commands: UnderWay::Nothing,
        power: KnownCommand::NotRead,
        memory: (*MEMORIES.get(s.memory)).clone(),
    };
    let seen = Seen {
        machines,
        neighbour: s.neighbour,
        neighbours: s.neighbours,
        neighbour_noted: s.neighbour_noted,
    };
    recall(&mut facts, Some(&seen));
    facts
}

/// What a process has seen beside the object.
struct Seen {
    machines: Vec<Sighting>,
    neighbour: Option<Who>,
    neighbours: Option<u8>,
    neighbour_noted: bool,
}

impl Known for Seen {
    fn bearing(&self, mark: &Mark) -> Vec<Sighting> {
        let prefix = mark.tag_prefix();
        let bears = |x: &&Sighting| x.server.tags.iter().any(|t| t.starts_with(&prefix));
        self.machines.iter().filter(bears).cloned().collect()
    }

    fn machine(&self, uuid: &str) -> Option<Sighting> {
        let is = |x: &&Sighting| x.server.id.as_str() == uuid;
        self.machines.iter().find(is).cloned()
    }

    fn left_behind(&self, of: &Left<'_>) -> LeftBehind {
        let is = |x: &&Sighting| marks::retained_at(&x.server).any(|at| at == of.place);
        LeftBehind {
            machines: self.machines.iter().filter(is).cloned().collect(),
            unlisted: Vec::new(),
        }
    }

    fn is_claimed(&self, claimed: &Mark, _except: &str, _: bool) -> Option<bool> {
        Some(self.neighbour.is_some_and(|who| mark(who) == claimed))
    }

    fn has_settled(&self, claimed: &Mark, machine: &str) -> bool {
        let is_its = self.neighbour.is_some_and(|who| mark(who) == claimed);
        is_its && (self.neighbour_noted || self.is_recorded(machine, ""))
    }

    fn is_recorded(&self, machine: &str, _except: &str) -> bool {
        self.neighbours
            .is_some_and(|number| uuid(number) == machine)
    }
}
