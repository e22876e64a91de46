//! One power command and the release of its server, under every interleaving of two leaders, crashes, lost or late
//! answers, user actions and a replaced server. The properties judge what reaches the provider.

mod moves;
mod scenes;
mod world;

use api::{command::PowerAction, target::TargetKind};
use flexmetal_core::attempt_state::AttemptState;
use scenes::{REBOOT, Scene, Variant};
use stateright::{Checker, HasDiscoveries, Model, Property};
use world::*;

const SAFE: &str = "no command is sent twice, nor to another's machine, nor after the release";

impl Model for Scene {
    type State = State;
    type Action = Move;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            version: 0,
            annotation: None,
            sent: Vec::new(),
            ended: None,
            server: 1,
            is_deleted: false,
            is_release_recorded: false,
            has_asked: false,
            is_released: false,
            made: Vec::new(),
            wire: Vec::new(),
            posts: Vec::new(),
            processes: [process(0), process(0)],
            attempts: 0,
            crashes: self.crashes,
            user_actions: u8::from(self.has_user_actions),
            broken: None,
        }]
    }

    fn actions(&self, state: &State, moves: &mut Vec<Move>) {
        if state.broken.is_some() {
            return;
        }
        // Between the last read and the request, time and server do not change: other rules cover that.
        let is_let = |p: &Process| p.sending.as_ref().is_some_and(|sending| sending.is_let);
        let sends = state.processes.iter().any(is_let);
        let is_due = |(_, until): &(PowerAction, u8)| *until <= state.now;
        if state.now < TICKS && !sends && !state.wire.iter().any(is_due) {
            moves.push(Move::Tick);
        }
        moves.extend((0..state.wire.len()).map(Move::Arrive));
        let made = state.made.iter().enumerate();
        moves.extend(
            made.filter(|(_, made)| !made.is_over)
                .map(|(n, _)| Move::End(n)),
        );
        for (it, me) in state.processes.iter().enumerate() {
            if state.crashes > 0 && *me != process(state.now) {
                moves.push(Move::Crash(it));
            }
            match &me.sending {
                None => moves.push(Move::Pass(it)),
                Some(sending) if sending.is_let => {
                    let fates = [Fate::Done, Fate::Unanswered, Fate::Late, Fate::Lost];
                    moves.extend(fates.map(|fate| Move::Post(it, fate)));
                }
                Some(sending) if self.is_next(sending) => moves.push(Move::CheckServer(it)),
                Some(_) => {
                    let fates = [Fate::Done, Fate::Unanswered, Fate::Lost];
                    moves.extend(fates.map(|fate| Move::Write(it, fate)));
                }
            }
        }
        if state.user_actions > 0 {
            moves.extend([Move::UserCommand, Move::MakeUp]);
            if state.annotation.is_some() {
                moves.push(Move::Strip);
            }
        }
        if self.rebinds && state.server == 1 && !sends {
            moves.push(Move::Rebind);
        }
        if self.ends {
            moves.extend(self.release_moves(state));
        }
    }

    fn next_state(&self, state: &State, chosen: Move) -> Option<State> {
        self.go(state, chosen).filter(|next| next != state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SAFE, |_, state: &State| state.broken.is_none()),
            Property::sometimes("it is done", |_, s: &State| s.ended == Some(true)),
            Property::sometimes("it fails", |_, s: &State| s.ended == Some(false)),
            Property::sometimes("all that may happen does", |scene: &Self, s: &State| {
                let is_off = s.posts.contains(&PowerAction::PowerOff);
                (s.is_released || !scene.ends)
                    && (is_off || scene.action != PowerAction::Shutdown)
                    && !s.posts.is_empty()
            }),
        ]
    }
}

impl Scene {
    /// Whether all writes are done.
    fn is_next(&self, sending: &Sending) -> bool {
        sending.stage == AttemptState::Send
            || self.variant == Variant::NoStatus && sending.stage == AttemptState::WriteStatus
    }

    /// The steps of a release: delete, record, ask for the commands, send.
    fn release_moves(&self, state: &State) -> Vec<Move> {
        let is_early = self.variant == Variant::Early;
        let mut moves = Vec::new();
        if !state.is_deleted {
            moves.push(Move::Delete);
        } else if state.is_release_recorded && state.has_asked && !state.is_released {
            moves.push(Move::Release);
        }
        if state.is_deleted && !state.is_release_recorded {
            moves.push(Move::RecordRelease);
        }
        if !state.has_asked && (is_early || state.is_release_recorded) {
            moves.push(Move::Ask);
        }
        moves
    }
}

/// The number of states, or the moves to what broke.
fn walk(scene: &Scene) -> Result<usize, Vec<Move>> {
    let checker = scene
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let states = checker.unique_state_count();
    println!("command model: {scene:?}: {states} states");
    let mut found = checker.discoveries();
    match found.remove(SAFE) {
        Some(path) => Err(path.into_actions()),
        None => {
            assert_eq!(found.len(), 3, "what may happen does: {:?}", found.keys());
            Ok(states)
        }
    }
}

fn holds(scene: Scene) {
    match walk(&scene) {
        Ok(states) => assert!(states > 1000, "a model that hardly moves proves nothing"),
        Err(moves) => panic!("{scene:?}: {moves:?}"),
    }
}

fn breaks(scene: Scene) {
    let walked = walk(&scene);
    assert!(walked.is_err(), "{scene:?}: {walked:?}");
}

/// The walks, and their seconds if not every run includes them.
const WALKS: [(&str, Option<u32>, Scene); 7] = [
    ("crashes and losses", None, REBOOT),
    (
        "a person's command and a note that was made up",
        Some(7),
        Scene {
            has_user_actions: true,
            crashes: 0,
            ..REBOOT
        },
    ),
    (
        "a shutdown and the power-off after it",
        None,
        Scene {
            action: PowerAction::Shutdown,
            crashes: 0,
            ..REBOOT
        },
    ),
    (
        "a release",
        Some(8),
        Scene {
            ends: true,
            ..REBOOT
        },
    ),
    (
        "another machine",
        Some(4),
        Scene {
            rebinds: true,
            ..REBOOT
        },
    ),
    (
        "the restart of a host",
        None,
        Scene {
            kind: TargetKind::DedicatedHost,
            ..REBOOT
        },
    ),
    ("the start of a host", Some(2), START),
];

const START: Scene = Scene {
    kind: TargetKind::DedicatedHost,
    action: PowerAction::PowerOn,
    ..REBOOT
};

#[test]
fn no_command_is_repeated_late_or_misrouted() {
    let taken = tiers::select("walks of commands", Vec::from(WALKS), |walk| walk.1);
    for (name, _, scene) in taken {
        println!("{name}");
        holds(scene);
    }
}

#[test]
fn model_detects_missing_server_check() {
    let variant = Variant::Unseen;
    breaks(Scene {
        ends: true,
        variant,
        ..REBOOT
    });
    breaks(Scene {
        rebinds: true,
        variant,
        ..REBOOT
    });
}

#[test]
fn model_detects_command_check_too_early() {
    breaks(Scene {
        ends: true,
        variant: Variant::Early,
        ..REBOOT
    });
}

#[test]
fn model_detects_send_before_status_write() {
    breaks(Scene {
        variant: Variant::NoStatus,
        ..REBOOT
    });
}

#[test]
fn model_detects_resend_of_unknown_outcome() {
    let variant = Variant::Again;
    breaks(Scene { variant, ..REBOOT });
    breaks(Scene { variant, ..START });
}
