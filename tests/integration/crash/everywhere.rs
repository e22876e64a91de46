//! Every blow at every place of an order and of a release.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinSet;

use super::blow::{Blow, Phase, Point, life};
use super::course::{Place, Side};
use super::judge;
use super::stage::Stage;
use crate::cluster::cluster;
use crate::rig::quick_timing;

/// Worlds at once. Each is mostly waiting; more of them only wait for the cores.
const STAGES: usize = 5;
/// A place that one run happened to pass by is tried again.
const TRIES: u32 = 3;

/// A point to be tried, and how often it was already.
#[derive(Clone)]
struct Trial {
    point: Point,
    tries: u32,
}

/// What is still to do, and what became of the rest.
#[derive(Default)]
struct Book {
    orders: VecDeque<Trial>,
    releases: VecDeque<Trial>,
    lives: u32,
    well: usize,
    failures: Vec<String>,
}

#[tokio::test]
async fn no_crash_and_no_loss_makes_it_order_twice_or_lose_a_machine() {
    tokio::task::LocalSet::new()
        .run_until(strike_everywhere())
        .await;
}

async fn strike_everywhere() {
    let mut stage = Stage::set(cluster(), quick_timing()).await;
    let places = record(&mut stage).await;
    drop(stage);
    let mut book = Book::default();
    for (phase, place) in places {
        say(&format!("{phase:?}: {place}"));
        for blow in Blow::ALL {
            let (place, tries) = (place.clone(), 0);
            let point = Point { phase, place, blow };
            book.queue(phase).push_back(Trial { point, tries });
        }
    }
    let all = book.orders.len() + book.releases.len();
    let book = Arc::new(Mutex::new(book));

    let mut stages = JoinSet::new();
    for _ in 0..STAGES {
        stages.spawn_local(play(book.clone()));
    }
    while let Some(ended) = stages.join_next().await {
        ended.expect("a stage reports its failures");
    }

    let book = lock(&book);
    say(&format!("crash points: {} of {all}", book.well));
    assert!(book.failures.is_empty(), "{:#?}", book.failures);
    assert_eq!(book.well, all);
}

/// The effects of a run without faults, in order of arrival.
async fn record(stage: &mut Stage) -> Vec<(Phase, Place)> {
    let name = "recorded";
    stage.course.begin(name);
    stage.world.create(&crate::rig::server(name)).await;
    let object = stage.world.wait_ready(name, super::stage::AT_ITS_END).await;
    assert_eq!(
        judge::after_order(&stage.world, &object).await,
        Vec::<String>::new()
    );
    let order = stage.course.seen();
    stage.course.begin(name);
    stage.world.delete(name).await;
    stage.world.wait_gone(name, super::stage::AT_ITS_END).await;
    assert_eq!(
        judge::after_release(&stage.world, &object).await,
        Vec::<String>::new()
    );
    let release = stage.course.seen();

    // Looks at a machine in motion come at their own pace. Before the release is
    // sent the machine stands still, so there each look belongs to the release.
    let sent =
        |place: &Place| place.side == Side::Hosting && place.sort.starts_with("DELETE servers");
    let send = release.iter().position(sent).expect("a release is sent");
    let effect = |place: &Place| !place.sort.starts_with("GET ");
    let order = order
        .into_iter()
        .filter(effect)
        .map(|place| (Phase::Order, place));
    let release = release.into_iter().enumerate();
    let release = release.filter(|(index, place)| *index < send || effect(place));
    order
        .chain(release.map(|(_, place)| (Phase::Release, place)))
        .collect()
}

/// Lives one object after the other until no point is left.
async fn play(book: Arc<Mutex<Book>>) {
    let mut standing: Option<Stage> = None;
    loop {
        let next = lock(&book).next();
        let Some((name, order, release)) = next else {
            break;
        };
        let mut stage = match standing.take() {
            Some(stage) => stage,
            None => Stage::set(cluster(), quick_timing()).await,
        };
        let points = (
            order.as_ref().map(|t| t.point.clone()),
            release.as_ref().map(|t| t.point.clone()),
        );
        // A task of its own: when it panics its stage falls with it and shows
        // its logs, and the other points go on.
        let mut alone = JoinSet::new();
        alone.spawn_local(async move {
            let reached = life(&mut stage, &name, points.0.as_ref(), points.1.as_ref()).await;
            (stage, reached)
        });
        match alone.join_next().await {
            Some(Ok((stage, (ordered, released)))) => {
                standing = Some(stage);
                let mut book = lock(&book);
                book.settle(order, ordered);
                book.settle(release, released);
            }
            other => {
                let why = match other {
                    Some(Err(error)) => panic_text(error),
                    _ => "no end".to_owned(),
                };
                let named = [order, release].into_iter().flatten();
                let named: Vec<String> = named.map(|trial| trial.point.to_string()).collect();
                lock(&book)
                    .failures
                    .push(format!("[{}]: {why}", named.join(" / ")));
            }
        }
    }
    if let Some(stage) = standing {
        let findings = judge::after_anything(&stage.world).await;
        lock(&book).failures.extend(findings);
    }
}

impl Book {
    fn queue(&mut self, phase: Phase) -> &mut VecDeque<Trial> {
        match phase {
            Phase::Order => &mut self.orders,
            Phase::Release => &mut self.releases,
        }
    }

    /// The next object's name and points.
    fn next(&mut self) -> Option<(String, Option<Trial>, Option<Trial>)> {
        let (order, release) = (self.orders.pop_front(), self.releases.pop_front());
        (order.is_some() || release.is_some()).then(|| {
            self.lives += 1;
            (format!("life-{}", self.lives), order, release)
        })
    }

    fn settle(&mut self, trial: Option<Trial>, reached: bool) {
        let Some(mut trial) = trial else { return };
        trial.tries += 1;
        match (reached, trial.tries < TRIES) {
            (true, _) => self.well += 1,
            (false, true) => self.queue(trial.point.phase).push_back(trial),
            (false, false) => self
                .failures
                .push(format!("never reached: {}", trial.point)),
        }
    }
}

fn lock(book: &Mutex<Book>) -> std::sync::MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "cancelled".to_owned();
    };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without words")
        .to_owned()
}

/// Past the capture of the test program: these lines are wanted when all is well, too.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
