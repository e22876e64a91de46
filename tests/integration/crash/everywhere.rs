//! Every fault at every place of every life.

use std::collections::{BTreeSet, VecDeque};
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use futures::future::join_all;
use tokio::task::{JoinError, JoinSet, LocalSet};

use super::{
    call_trace::Place,
    fault_point::{Fault, FaultPoint},
    judge,
    lives::{self, ALL, Life},
    proxied_world::ProxiedWorld,
};
use lab::rig::{cluster, quick_timing};

/// Worlds at once. Each is mostly waiting; more of them only wait for the cores.
const WORLDS: usize = 5;
/// The lives that are tried: all of them, but for a first look by hand that names a part of a kind in `CRASH_LIFE`.
static LIVES: LazyLock<Vec<&'static dyn Life>> = LazyLock::new(|| {
    let only = std::env::var("CRASH_LIFE").unwrap_or_default();
    let lives = ALL.into_iter().filter(|life| life.kind().contains(&only));
    lives.collect()
});
/// The lives in which every run tries each fault at each place: the plain life of a server, and that of an account.
const ALWAYS: [&str; 2] = ["BareMetalServer", "ProviderAccount"];
/// How often a place is tried that a run did not happen to reach.
const TRIES: u32 = 3;

/// A point to be tried, and how often it was already.
#[derive(Clone)]
struct Trial {
    point: FaultPoint,
    tries: u32,
}

/// A life to run, with a fault in each phase that has one left.
struct Turn {
    life: usize,
    name: String,
    trials: Vec<Option<Trial>>,
}

/// What is still to do for a kind, and how much went well.
struct Chapter {
    life: &'static dyn Life,
    /// By phase.
    open: Vec<VecDeque<Trial>>,
    /// All points, and those of them that this run tries.
    known: usize,
    all: usize,
    well: usize,
}

/// All kinds.
struct Book {
    chapters: Vec<Chapter>,
    turns: u32,
    failures: Vec<String>,
}

/// The places of each phase of one life.
type Places = Vec<Vec<Place>>;

#[tokio::test]
async fn no_fault_orders_twice_or_loses_servers() {
    // One thread: the closures of the rig borrow across their waits.
    LocalSet::new()
        .run_until(Box::pin(inject_everywhere()))
        .await;
}

async fn inject_everywhere() {
    assert!(!LIVES.is_empty(), "CRASH_LIFE names no kind");
    let (worlds, places) = recorded().await;
    let chapters = LIVES.iter().copied().zip(places);
    let mut chapters: Vec<Chapter> = chapters
        .map(|(life, places)| chapter(life, &places))
        .collect();
    keep_those_of_this_run(&mut chapters);
    let book = Book {
        chapters,
        turns: 0,
        failures: Vec::new(),
    };
    let book = Arc::new(Mutex::new(book));

    let mut playing = JoinSet::new();
    for world in worlds {
        playing.spawn_local(play(book.clone(), world));
    }
    // Kept to the end: a world that stops holds up this thread, on which the proxies of the others run.
    let mut played = Vec::new();
    while let Some(ended) = playing.join_next().await {
        played.extend(ended.expect("a world reports its failures"));
    }

    let book = lock(&book);
    for chapter in &book.chapters {
        let (kind, well, all) = (chapter.life.kind(), chapter.well, chapter.all);
        let known = chapter.known;
        say(&format!(
            "crash points of {kind}: {well} of {all}, {known} known"
        ));
    }
    // Past all that the worlds show when they fall.
    for failure in &book.failures {
        say(failure);
    }
    assert!(book.failures.is_empty(), "{:#?}", book.failures);
    assert!(book.chapters.iter().all(|it| it.well == it.all));
}

/// The worlds, and the places of each life that were seen in two of them: what only one of two runs reaches
/// cannot be expected of all others.
async fn recorded() -> (Vec<ProxiedWorld>, Vec<Places>) {
    let twice = (0..LIVES.len()).chain(0..LIVES.len());
    let queue: Arc<Mutex<VecDeque<usize>>> = Arc::new(Mutex::new(twice.collect()));
    let recordings = (0..WORLDS).map(|world| {
        let queue = queue.clone();
        async move {
            let mut proxied = fresh().await;
            let mut recorded = Vec::new();
            loop {
                // Not in a `while let`: that would keep the lock for the whole round.
                let next = queue.lock().expect("nobody panics with it").pop_front();
                let Some(life) = next else { break };
                let name = format!("recorded-{world}-{}", recorded.len());
                let places = lives::record(LIVES[life], &mut proxied, &name).await;
                recorded.push((life, places));
            }
            (proxied, recorded)
        }
    });
    let (worlds, recorded): (Vec<_>, Vec<_>) = join_all(recordings).await.into_iter().unzip();
    let recorded: Vec<_> = recorded.into_iter().flatten().collect();
    let both = (0..LIVES.len()).map(|life| {
        let mut of_life = recorded.iter().filter(|(it, _)| *it == life);
        let (Some((_, one)), Some((_, other))) = (of_life.next(), of_life.next()) else {
            panic!("each life is recorded twice");
        };
        let phases = one.iter().zip(other);
        let both = phases.map(|(one, other)| {
            let both = one.iter().filter(|place| other.contains(place));
            both.cloned().collect()
        });
        both.collect()
    });
    (worlds, both.collect())
}

/// A world in which nothing happened yet.
async fn fresh() -> ProxiedWorld {
    ProxiedWorld::start(cluster(), quick_timing()).await
}

/// What is to be tried of a kind: every fault at every place.
fn chapter(life: &'static dyn Life, places: &Places) -> Chapter {
    let phases = life.phases();
    let open = phases.iter().zip(places).map(|(phase, places)| {
        let points = places.iter().flat_map(|place| {
            say(&format!("{} {phase}: {place}", life.kind()));
            Fault::ALL.map(|fault| FaultPoint {
                phase,
                place: place.clone(),
                fault,
            })
        });
        let trials = points.map(|point| Trial { point, tries: 0 });
        trials.collect()
    });
    let open: Vec<VecDeque<Trial>> = open.collect();
    for (phase, place) in life.expected() {
        let mut points = open.iter().flatten().map(|trial| &trial.point);
        let is_there = points.any(|it| it.phase == *phase && it.place.to_string() == *place);
        assert!(is_there, "{}: no {place} in {places:#?}", life.kind());
    }
    let known = open.iter().map(VecDeque::len).sum();
    Chapter {
        life,
        open,
        known,
        all: known,
        well: 0,
    }
}

/// Keeps the points that the tier of this run takes: all of some lives, one of each sort of step of the others, and as many
/// of the rest as it says.
fn keep_those_of_this_run(chapters: &mut [Chapter]) {
    let mut sorts = BTreeSet::new();
    let mut points = Vec::new();
    for chapter in chapters.iter() {
        let kind = chapter.life.kind();
        for trial in chapter.open.iter().flatten() {
            let FaultPoint { place, fault, .. } = &trial.point;
            // Another fault at each step, so that each fault is among them.
            let first = Fault::ALL[sorts.len() % Fault::ALL.len()];
            let is_always = ALWAYS.contains(&kind)
                || *fault == first && sorts.insert((kind, place.side, place.sort.clone()));
            points.push((format!("{kind} {}", trial.point), is_always));
        }
    }
    let name = |(name, is_always): &(String, bool)| (!is_always).then(|| name.clone());
    let taken = tiers::select_by_name("crash points", points, name);
    let taken: BTreeSet<String> = taken.into_iter().map(|(name, _)| name).collect();
    for chapter in chapters {
        let kind = chapter.life.kind();
        for open in &mut chapter.open {
            open.retain(|trial| taken.contains(&format!("{kind} {}", trial.point)));
        }
        chapter.all = chapter.open.iter().map(VecDeque::len).sum();
    }
}

/// Runs one life after the other until no point is left. Returns the world that still stands.
async fn play(book: Arc<Mutex<Book>>, proxied: ProxiedWorld) -> Option<ProxiedWorld> {
    let mut standing = Some(proxied);
    loop {
        let next = lock(&book).next();
        let Some(turn) = next else { break };
        let mut proxied = match standing.take() {
            Some(proxied) => proxied,
            None => fresh().await,
        };
        let points = turn.trials.iter();
        let points: Vec<_> = points
            .map(|trial| trial.as_ref().map(|trial| trial.point.clone()))
            .collect();
        let (life, name) = (LIVES[turn.life], turn.name.clone());
        // A task of its own: when it panics, its world is dropped with it and
        // shows its logs, and the other points go on.
        let mut alone = JoinSet::new();
        alone.spawn_local(async move {
            let reached = lives::live(life, &mut proxied, &name, &points).await;
            (proxied, reached)
        });
        match alone.join_next().await {
            Some(Ok((proxied, reached))) => {
                standing = Some(proxied);
                lock(&book).settle(turn, &reached);
            }
            Some(Err(error)) => {
                let trials = turn.trials.into_iter().flatten();
                let points: Vec<String> = trials.map(|trial| trial.point.to_string()).collect();
                let failure = format!("[{}]: {}", points.join(" / "), words(error));
                lock(&book).failures.push(failure);
            }
            None => unreachable!("one task was spawned"),
        }
    }
    if let Some(proxied) = &standing {
        let findings = judge::after_anything(&proxied.world).await;
        lock(&book).failures.extend(findings);
    }
    standing
}

impl Book {
    /// The next life.
    fn next(&mut self) -> Option<Turn> {
        for (life, chapter) in self.chapters.iter_mut().enumerate() {
            let trials: Vec<_> = chapter.open.iter_mut().map(VecDeque::pop_front).collect();
            if trials.iter().any(Option::is_some) {
                self.turns += 1;
                let name = format!("life-{}", self.turns);
                return Some(Turn { life, name, trials });
            }
        }
        None
    }

    fn settle(&mut self, turn: Turn, reached: &[bool]) {
        let chapter = &mut self.chapters[turn.life];
        for (phase, (trial, reached)) in turn.trials.into_iter().zip(reached).enumerate() {
            let Some(mut trial) = trial else { continue };
            trial.tries += 1;
            match (reached, trial.tries < TRIES) {
                (true, _) => chapter.well += 1,
                (false, true) => chapter.open[phase].push_back(trial),
                (false, false) => self
                    .failures
                    .push(format!("never reached: {}", trial.point)),
            }
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
