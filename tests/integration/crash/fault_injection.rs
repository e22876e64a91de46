//! Every fault at every position of every lifecycle.

use std::collections::{BTreeSet, VecDeque};
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use futures::future::join_all;
use tokio::task::{JoinError, JoinSet, LocalSet};

use super::{
    call_trace::TracePosition,
    fault_point::{CallFault, FaultPoint},
    judge,
    lifecycles::{self, ALL, Lifecycle},
    proxied_world::ProxiedWorld,
};
use lab::rig::{cluster, quick_timing};

/// Number of parallel worlds. Each mostly waits. More of them only compete for the cores.
const WORLDS: usize = 5;
/// The lifecycles to test: all of them, or for manual runs those whose kind contains `CRASH_LIFE`.
static LIFECYCLES: LazyLock<Vec<&'static dyn Lifecycle>> = LazyLock::new(|| {
    let only = std::env::var("CRASH_LIFE").unwrap_or_default();
    let lives = ALL.into_iter().filter(|life| life.kind().contains(&only));
    lives.collect()
});
/// Every run tests every position of this lifecycle, with one fault each: a plain server.
const ALWAYS: &str = "BareMetalServer";
/// Every run tests every fault at these positions of it: a mistake there pays for a second server, or loses one.
const ORDER_AND_RELEASE: [&str; 2] = [
    "hosting POST servers #1",
    "hosting DELETE servers/{uuid} #1",
];
/// How often a position is tried that a run did not reach.
const TRIES: u32 = 3;

/// A fault point to test, and how often it was tried.
#[derive(Clone)]
struct FaultTrial {
    point: FaultPoint,
    tries: u32,
}

/// A lifecycle to run, with a fault in each phase that has one left.
struct LifecycleRun {
    life: usize,
    name: String,
    trials: Vec<Option<FaultTrial>>,
}

/// The remaining trials of a kind, and the number of successful ones.
struct LifecyclePlan {
    life: &'static dyn Lifecycle,
    /// By phase.
    open: Vec<VecDeque<FaultTrial>>,
    /// The number of all points, and of those that this run tests.
    known: usize,
    all: usize,
    well: usize,
    /// The number of points that no run reached: two recordings shared them by chance, such as a repeated write.
    not_reached: usize,
}

/// The plans of all kinds.
struct FaultPlan {
    plans: Vec<LifecyclePlan>,
    runs: u32,
    failures: Vec<String>,
}

/// The positions of each phase of one lifecycle.
type PositionsByPhase = Vec<Vec<TracePosition>>;

#[tokio::test]
async fn no_fault_orders_twice_or_loses_servers() {
    // One thread: the rig's closures borrow across awaits.
    LocalSet::new()
        .run_until(Box::pin(inject_all_faults()))
        .await;
}

async fn inject_all_faults() {
    assert!(!LIFECYCLES.is_empty(), "CRASH_LIFE names no kind");
    let (worlds, places) = record_all_positions().await;
    let chapters = LIFECYCLES.iter().copied().zip(places);
    let mut chapters: Vec<LifecyclePlan> = chapters
        .map(|(life, places)| plan_lifecycle(life, &places))
        .collect();
    select_trials_of_this_run(&mut chapters);
    let book = FaultPlan {
        plans: chapters,
        runs: 0,
        failures: Vec::new(),
    };
    let book = Arc::new(Mutex::new(book));

    let mut playing = JoinSet::new();
    for world in worlds {
        playing.spawn_local(run_lifecycles(book.clone(), world));
    }
    // Kept to the end: stopping a world blocks this thread, which also runs the proxies of the others.
    let mut played = Vec::new();
    while let Some(ended) = playing.join_next().await {
        played.extend(ended.expect("a world reports its failures"));
    }

    let book = lock(&book);
    for chapter in &book.plans {
        let (kind, well, all) = (chapter.life.kind(), chapter.well, chapter.all);
        let (known, not_reached) = (chapter.known, chapter.not_reached);
        print_line(&format!(
            "crash points of {kind}: {well} of {all}, {not_reached} not reached, {known} known"
        ));
    }
    // After the output that the worlds print when they are dropped.
    for failure in &book.failures {
        print_line(failure);
    }
    assert!(book.failures.is_empty(), "{:#?}", book.failures);
    // More is no chance: the trap is broken, or a call has moved.
    let count = |number: fn(&LifecyclePlan) -> usize| book.plans.iter().map(number).sum::<usize>();
    let (not_reached, all) = (count(|it| it.not_reached), count(|it| it.all));
    assert!(
        not_reached * 10 <= all,
        "{not_reached} of {all} not reached"
    );
    let always = book.plans.iter().find(|it| it.life.kind() == ALWAYS);
    assert_eq!(always.map_or(0, |it| it.not_reached), 0, "{ALWAYS}");
}

/// The worlds, and the positions of each lifecycle that two recordings share.
/// A position that only one run reaches cannot be expected of all others.
async fn record_all_positions() -> (Vec<ProxiedWorld>, Vec<PositionsByPhase>) {
    let twice = (0..LIFECYCLES.len()).chain(0..LIFECYCLES.len());
    let queue: Arc<Mutex<VecDeque<usize>>> = Arc::new(Mutex::new(twice.collect()));
    let recordings = (0..WORLDS).map(|world| {
        let queue = queue.clone();
        async move {
            let mut proxied = start_world().await;
            let mut recorded = Vec::new();
            loop {
                // Not in a `while let`, which would keep the lock for the whole iteration.
                let next = queue.lock().expect("nobody panics with it").pop_front();
                let Some(life) = next else { break };
                let name = format!("recorded-{world}-{}", recorded.len());
                let places =
                    lifecycles::record_positions(LIFECYCLES[life], &mut proxied, &name).await;
                recorded.push((life, places));
            }
            (proxied, recorded)
        }
    });
    let (worlds, recorded): (Vec<_>, Vec<_>) = join_all(recordings).await.into_iter().unzip();
    let recorded: Vec<_> = recorded.into_iter().flatten().collect();
    let both = (0..LIFECYCLES.len()).map(|life| {
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

/// A new world.
async fn start_world() -> ProxiedWorld {
    ProxiedWorld::start(cluster(), quick_timing()).await
}

/// All trials of a lifecycle: every fault at every position.
fn plan_lifecycle(life: &'static dyn Lifecycle, places: &PositionsByPhase) -> LifecyclePlan {
    let phases = life.phases();
    let open = phases.iter().zip(places).map(|(phase, places)| {
        let points = places.iter().flat_map(|place| {
            print_line(&format!("{} {phase}: {place}", life.kind()));
            CallFault::ALL.map(|fault| FaultPoint {
                phase,
                place: place.clone(),
                fault,
            })
        });
        let trials = points.map(|point| FaultTrial { point, tries: 0 });
        trials.collect()
    });
    let open: Vec<VecDeque<FaultTrial>> = open.collect();
    for (phase, place) in life.expected() {
        let mut points = open.iter().flatten().map(|trial| &trial.point);
        let is_there = points.any(|it| it.phase == *phase && it.place.to_string() == *place);
        assert!(is_there, "{}: no {place} in {places:#?}", life.kind());
    }
    let known = open.iter().map(VecDeque::len).sum();
    LifecyclePlan {
        life,
        open,
        known,
        all: known,
        well: 0,
        not_reached: 0,
    }
}

/// Keeps the points that this run's tier selects: in [`ALWAYS`] every fault at the order and at the release and one at
/// each other position, one at each kind of request of the other lifecycles, and a share of the rest.
fn select_trials_of_this_run(chapters: &mut [LifecyclePlan]) {
    let mut requests = BTreeSet::new();
    let mut points = Vec::new();
    let mut costly = 0;
    for chapter in chapters.iter() {
        let kind = chapter.life.kind();
        for trial in chapter.open.iter().flatten() {
            let FaultPoint {
                phase,
                place,
                fault,
            } = &trial.point;
            // A different fault at each step, so that every fault is included.
            let first = CallFault::ALL[requests.len() % CallFault::ALL.len()];
            let occurrence = (kind == ALWAYS).then_some((*phase, place.nth));
            let request = (kind, place.api, place.kind.clone(), occurrence);
            let is_costly =
                kind == ALWAYS && ORDER_AND_RELEASE.contains(&place.to_string().as_str());
            let is_always = is_costly || *fault == first && requests.insert(request);
            costly += usize::from(is_costly);
            points.push((format!("{kind} {}", trial.point), is_always));
        }
    }
    let has_always = chapters.iter().any(|chapter| chapter.life.kind() == ALWAYS);
    let all = ORDER_AND_RELEASE.len() * CallFault::ALL.len();
    assert_eq!(
        costly,
        if has_always { all } else { 0 },
        "{ORDER_AND_RELEASE:?}"
    );
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

/// Runs one lifecycle after the other until no point is left. Returns the world that still runs.
async fn run_lifecycles(
    book: Arc<Mutex<FaultPlan>>,
    proxied: ProxiedWorld,
) -> Option<ProxiedWorld> {
    let mut running = Some(proxied);
    loop {
        let next = lock(&book).next();
        let Some(run) = next else { break };
        let mut proxied = match running.take() {
            Some(proxied) => proxied,
            None => start_world().await,
        };
        let points = run.trials.iter();
        let points: Vec<_> = points
            .map(|trial| trial.as_ref().map(|trial| trial.point.clone()))
            .collect();
        let (life, name) = (LIFECYCLES[run.life], run.name.clone());
        // In its own task: if it panics, its world is dropped with it and shows its logs,
        // and the other points continue.
        let mut alone = JoinSet::new();
        alone.spawn_local(async move {
            let reached = lifecycles::run_lifecycle(life, &mut proxied, &name, &points).await;
            (proxied, reached)
        });
        match alone.join_next().await {
            Some(Ok((proxied, reached))) => {
                running = Some(proxied);
                lock(&book).record_run(run, &reached);
            }
            Some(Err(error)) => {
                let trials = run.trials.into_iter().flatten();
                let points: Vec<String> = trials.map(|trial| trial.point.to_string()).collect();
                let failure = format!("[{}]: {}", points.join(" / "), format_join_error(error));
                lock(&book).failures.push(failure);
            }
            None => unreachable!("one task was spawned"),
        }
    }
    if let Some(proxied) = &running {
        let findings = judge::check_at_any_time(&proxied.world).await;
        lock(&book).failures.extend(findings);
    }
    running
}

impl FaultPlan {
    /// The next lifecycle to run.
    fn next(&mut self) -> Option<LifecycleRun> {
        for (life, chapter) in self.plans.iter_mut().enumerate() {
            let trials: Vec<_> = chapter.open.iter_mut().map(VecDeque::pop_front).collect();
            if trials.iter().any(Option::is_some) {
                self.runs += 1;
                let name = format!("life-{}", self.runs);
                return Some(LifecycleRun { life, name, trials });
            }
        }
        None
    }

    fn record_run(&mut self, run: LifecycleRun, reached: &[bool]) {
        let chapter = &mut self.plans[run.life];
        for (phase, (trial, reached)) in run.trials.into_iter().zip(reached).enumerate() {
            let Some(mut trial) = trial else { continue };
            trial.tries += 1;
            match (reached, trial.tries < TRIES) {
                (true, _) => chapter.well += 1,
                (false, true) => chapter.open[phase].push_back(trial),
                (false, false) => {
                    let never = format!("never reached: {}", trial.point);
                    match is_expected(chapter.life, &trial.point) {
                        true => self.failures.push(never),
                        false => {
                            chapter.not_reached += 1;
                            print_line(&never);
                        }
                    }
                }
            }
        }
    }
}

/// Whether the lifecycle lists the position among those that every run reaches.
fn is_expected(life: &dyn Lifecycle, point: &FaultPoint) -> bool {
    let place = point.place.to_string();
    let mut expected = life.expected().iter();
    expected.any(|(phase, it)| *phase == point.phase && *it == place)
}

fn lock(book: &Mutex<FaultPlan>) -> MutexGuard<'_, FaultPlan> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The message of a task's panic.
fn format_join_error(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "cancelled".to_owned();
    };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}

/// Prints past the test program's output capture. These lines are wanted on success too.
fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
