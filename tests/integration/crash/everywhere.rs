//! Every fault at every place.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::{JoinError, JoinSet, LocalSet};

use super::call_trace::Place;
use super::fault_point::{Fault, FaultPoint, Phase};
use super::judge;
use super::life::{self, FaultPoints};
use super::proxied_world::ProxiedWorld;
use lab::rig::{cluster, quick_timing};

/// Worlds at once. Each is mostly waiting; more of them only wait for the cores.
const WORLDS: usize = 5;
/// How often a place is tried that a run did not happen to reach.
const TRIES: u32 = 3;
/// What a recorded trace must hold at least; otherwise the recording is wrong.
const EXPECTED: [(Phase, &str); 16] = [
    (Phase::Order, "cluster PATCH baremetalservers #1"),
    (Phase::Order, "cluster PATCH baremetalservers/status #1"),
    (Phase::Order, "hosting POST servers #1"),
    (Phase::Order, "cluster PATCH baremetalservers/status #2"),
    (Phase::Order, "cluster PATCH baremetalservers/status #3"),
    (Phase::Order, "cluster POST events (Delivered) #1"),
    (Phase::Release, "hosting GET servers/{uuid} #1"),
    (Phase::Release, "cluster PATCH baremetalservers #1"),
    (Phase::Release, "hosting DELETE servers/{uuid} #1"),
    (Phase::Release, "cluster PATCH baremetalservers/status #1"),
    (Phase::Release, "cluster PATCH baremetalservers #2"),
    (Phase::Release, "cluster POST events (Released) #1"),
    (Phase::Hold, "cluster PATCH provideraccounts #1"),
    (Phase::Hold, "cluster PATCH secrets #1"),
    (Phase::LetGo, "cluster PATCH secrets #1"),
    (Phase::LetGo, "cluster PATCH provideraccounts #1"),
];

/// A point to be tried, and how often it was already.
#[derive(Clone)]
struct Trial {
    point: FaultPoint,
    tries: u32,
}

/// A life to run: of a server, or of an account.
struct Turn {
    name: String,
    of_account: bool,
    first: Option<Trial>,
    second: Option<Trial>,
}

/// What is still to do, and what became of the rest.
#[derive(Default)]
struct Book {
    open: BTreeMap<Phase, VecDeque<Trial>>,
    turns: u32,
    well: usize,
    failures: Vec<String>,
}

#[tokio::test]
async fn no_crash_and_no_loss_makes_it_order_twice_or_lose_a_machine() {
    // One thread: the closures of the rig borrow across their waits.
    LocalSet::new()
        .run_until(Box::pin(inject_everywhere()))
        .await;
}

async fn inject_everywhere() {
    let ((proxied, places), (other, other_places)) = tokio::join!(recorded(), recorded());
    // What only one of two runs reaches cannot be expected of all others.
    let places = places
        .into_iter()
        .filter(|place| other_places.contains(place));
    let places: Vec<_> = places.collect();
    let named: Vec<_> = places
        .iter()
        .map(|(phase, place)| (*phase, place.to_string()))
        .collect();
    for (phase, place) in EXPECTED {
        assert!(
            named.contains(&(phase, place.to_owned())),
            "{phase:?}: no {place} in {named:#?}"
        );
    }
    let mut book = Book::default();
    for (phase, place) in places {
        say(&format!("{phase:?}: {place}"));
        for fault in Fault::ALL {
            let (place, tries) = (place.clone(), 0);
            let point = FaultPoint {
                phase,
                place,
                fault,
            };
            book.open
                .entry(phase)
                .or_default()
                .push_back(Trial { point, tries });
        }
    }
    let all: usize = book.open.values().map(VecDeque::len).sum();
    let book = Arc::new(Mutex::new(book));

    let mut worlds = JoinSet::new();
    let standing = [Some(proxied), Some(other)].into_iter();
    for standing in standing.chain(std::iter::repeat_with(|| None)).take(WORLDS) {
        worlds.spawn_local(play(book.clone(), standing));
    }
    while let Some(ended) = worlds.join_next().await {
        ended.expect("a world reports its failures");
    }

    let book = lock(&book);
    say(&format!("crash points: {} of {all}", book.well));
    assert!(book.failures.is_empty(), "{:#?}", book.failures);
    assert_eq!(book.well, all);
}

/// A world, and the places that were seen in it.
async fn recorded() -> (ProxiedWorld, Vec<(Phase, Place)>) {
    let mut proxied = ProxiedWorld::start(cluster(), quick_timing()).await;
    let places = life::places(&mut proxied).await;
    (proxied, places)
}

/// Runs one life after the other until no point is left.
async fn play(book: Arc<Mutex<Book>>, mut standing: Option<ProxiedWorld>) {
    loop {
        // Not in a `while let`: that would keep the lock for the whole round.
        let next = lock(&book).next();
        let Some(turn) = next else { break };
        let mut proxied = match standing.take() {
            Some(proxied) => proxied,
            None => ProxiedWorld::start(cluster(), quick_timing()).await,
        };
        let points =
            [&turn.first, &turn.second].map(|trial| trial.as_ref().map(|t| t.point.clone()));
        let (name, of_account) = (turn.name.clone(), turn.of_account);
        // A task of its own: when it panics, its world is dropped with it and
        // shows its logs, and the other points go on.
        let mut alone = JoinSet::new();
        alone.spawn_local(async move {
            let faults = FaultPoints {
                first: points[0].as_ref(),
                second: points[1].as_ref(),
            };
            let lived = if of_account {
                life::of_account(&mut proxied, &name, faults).await
            } else {
                life::of_server(&mut proxied, &name, faults).await
            };
            (proxied, lived.reached)
        });
        match alone.join_next().await {
            Some(Ok((proxied, (first, second)))) => {
                standing = Some(proxied);
                let mut book = lock(&book);
                book.settle(turn.first, first);
                book.settle(turn.second, second);
            }
            Some(Err(error)) => {
                let trials = [turn.first, turn.second].into_iter().flatten();
                let points: Vec<String> = trials.map(|trial| trial.point.to_string()).collect();
                let failure = format!("[{}]: {}", points.join(" / "), words(error));
                lock(&book).failures.push(failure);
            }
            None => unreachable!("one task was spawned"),
        }
    }
    if let Some(proxied) = standing {
        let findings = judge::after_anything(&proxied.world).await;
        lock(&book).failures.extend(findings);
    }
}

impl Book {
    fn take(&mut self, phase: Phase) -> Option<Trial> {
        self.open.get_mut(&phase)?.pop_front()
    }

    fn next(&mut self) -> Option<Turn> {
        for (of_account, phases) in [
            (false, (Phase::Order, Phase::Release)),
            (true, (Phase::Hold, Phase::LetGo)),
        ] {
            let (first, second) = (self.take(phases.0), self.take(phases.1));
            if first.is_some() || second.is_some() {
                self.turns += 1;
                let name = format!("life-{}", self.turns);
                return Some(Turn {
                    name,
                    of_account,
                    first,
                    second,
                });
            }
        }
        None
    }

    fn settle(&mut self, trial: Option<Trial>, reached: bool) {
        let Some(mut trial) = trial else { return };
        trial.tries += 1;
        match (reached, trial.tries < TRIES) {
            (true, _) => self.well += 1,
            (false, true) => self
                .open
                .entry(trial.point.phase)
                .or_default()
                .push_back(trial),
            (false, false) => self
                .failures
                .push(format!("never reached: {}", trial.point)),
        }
    }
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a task said when it panicked.
fn words(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "cancelled".to_owned();
    };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}

/// Past the output capture of the test program: these lines are wanted when all is well, too.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
