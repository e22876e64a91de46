//! The life of one object, from creation to its end, with at most one blow in
//! each half, and the judge after each.

use std::time::Duration;

use flexmetal_operator::kinds::names::ACCOUNT_FINALIZER;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::blow::{Phase, Point, strike};
use super::course::{Place, Side};
use super::judge::{self, Findings};
use super::stage::{AT_ITS_END, Stage};
use lab::rig::{Health, condition, eventually, health, server};

/// After this time without an effect a recorded course is taken to be over.
const QUIET: Duration = Duration::from_millis(1500);

/// The blows in the two halves of a life.
#[derive(Clone, Copy, Default)]
pub(crate) struct Blows<'a> {
    pub(crate) first: Option<&'a Point>,
    pub(crate) second: Option<&'a Point>,
}

/// Which of the places of the blows were reached, and all places that were seen.
pub(crate) struct Lived {
    pub(crate) reached: (bool, bool),
    pub(crate) seen: (Vec<Place>, Vec<Place>),
}

/// A server: ordered, Ready, released, gone.
///
/// # Panics
/// If it does not come to its end, or the judge finds something.
pub(crate) async fn of_server(stage: &mut Stage, name: &str, blows: Blows<'_>) -> Lived {
    let watch = stage.arm(name, blows.first);
    stage.world.create(&server(name)).await;
    let ordered = strike(stage, blows.first, watch).await;
    let object = ready(stage, name).await;
    let findings = judge::after_order(&stage.world, &object).await;
    judged(blows.first, &findings);
    let order = seen(stage, blows).await;

    let watch = stage.arm(name, blows.second);
    stage.world.delete(name).await;
    let released = strike(stage, blows.second, watch).await;
    stage.world.wait_gone(name, AT_ITS_END).await;
    judged(
        blows.second,
        &judge::after_release(&stage.world, &object).await,
    );
    let release = seen(stage, blows).await;
    Lived {
        reached: (ordered, released),
        seen: (order, release),
    }
}

/// An account with a Secret: used by a server that orders nothing, held for it,
/// and let go with it.
///
/// # Panics
/// As [`of_server`].
pub(crate) async fn of_account(stage: &mut Stage, name: &str, blows: Blows<'_>) -> Lived {
    let watch = stage.arm(name, blows.first);
    stage.write_account(name).await;
    let user = format!("user-of-{name}");
    let mut object = server(&user);
    object["spec"]["suspend"] = json!(true);
    object["spec"]["accountRef"] = json!({"name": name});
    stage.world.create(&object).await;
    let held = strike(stage, blows.first, watch).await;
    let world = &stage.world;
    eventually("the account is held and Ready", AT_ITS_END, async || {
        let account = world.accounts().get(name).await.ok()?;
        let secret = world.secrets().get(name).await.ok()?;
        let is_held = |finalizers: &[String]| finalizers.iter().any(|f| f == ACCOUNT_FINALIZER);
        let ready = condition(&account.data, "Ready").is_some_and(|c| c["status"] == "True");
        (is_held(account.finalizers()) && is_held(secret.finalizers()) && ready).then_some(())
    })
    .await;
    judged(blows.first, &judge::after_anything(world).await);
    let hold = seen(stage, blows).await;

    let watch = stage.arm(name, blows.second);
    stage.world.delete(&user).await;
    stage.world.wait_gone(&user, AT_ITS_END).await;
    let parameters = DeleteParams::default();
    let deleted = stage.world.accounts().delete(name, &parameters).await;
    deleted.expect("an account can be deleted");
    let deleted = stage.world.secrets().delete(name, &parameters).await;
    deleted.expect("a Secret can be deleted");
    let let_go = strike(stage, blows.second, watch).await;
    let world = &stage.world;
    eventually("account and Secret are gone", AT_ITS_END, async || {
        let account = world.accounts().get_opt(name).await.ok()?;
        let secret = world.secrets().get_opt(name).await.ok()?;
        (account.is_none() && secret.is_none()).then_some(())
    })
    .await;
    judged(blows.second, &judge::after_anything(world).await);
    let end = seen(stage, blows).await;
    Lived {
        reached: (held, let_go),
        seen: (hold, end),
    }
}

/// The places where blows are to strike: the effects of two lives without any,
/// in order of arrival.
pub(crate) async fn places(stage: &mut Stage) -> Vec<(Phase, Place)> {
    let server = of_server(stage, "recorded", Blows::default()).await;
    let account = of_account(stage, "recorded", Blows::default()).await;
    let (order, release) = server.seen;
    let (hold, let_go) = account.seen;
    // Looks at a machine in motion come at their own pace. Before the release is
    // sent the machine stands still, so there each look belongs to the release.
    let sends =
        |place: &Place| place.side == Side::Hosting && place.sort.starts_with("DELETE servers");
    let send = release.iter().position(sends).expect("a release is sent");
    let phases = [
        (Phase::Order, order, 0),
        (Phase::Release, release, send),
        (Phase::Hold, hold, 0),
        (Phase::LetGo, let_go, 0),
    ];
    let mut places = Vec::new();
    for (phase, seen, looks_until) in phases {
        for (index, place) in seen.into_iter().enumerate() {
            let look = place.sort.starts_with("GET ");
            // Of an account, the first report counts; what it tells of its users and
            // machines it writes at its own pace.
            let counts = place.sort == "PATCH provideraccounts/status"
                && (phase == Phase::LetGo || place.nth > 1);
            if !counts && (index < looks_until || !look) {
                places.push((phase, place));
            }
        }
    }
    places
}

/// The object once it is Ready.
async fn ready(stage: &Stage, name: &str) -> Value {
    let world = &stage.world;
    let look = |object: &Value| (health(object) == Health::Current).then(|| object.clone());
    let waited = world.try_wait_for(name, "Ready", AT_ITS_END, look).await;
    match waited {
        Ok(object) => object,
        Err(sentence) => {
            // The books say more of what went wrong than the object does.
            let findings = judge::after_anything(world).await;
            panic!("{sentence}\n{findings:#?}")
        }
    }
}

fn judged(point: Option<&Point>, findings: &Findings) {
    let point = point.map_or("without a blow".to_owned(), Point::to_string);
    assert!(findings.is_empty(), "{point}: {findings:#?}");
}

/// All effects of this half. In a life without blows it is waited for those
/// that come after the state that was awaited, such as events.
async fn seen(stage: &Stage, blows: Blows<'_>) -> Vec<Place> {
    let mut seen = stage.course.seen();
    if blows.first.is_some() || blows.second.is_some() {
        return seen;
    }
    let mut since = Instant::now();
    while since.elapsed() < QUIET {
        sleep(Duration::from_millis(50)).await;
        let now = stage.course.seen();
        if now.len() != seen.len() {
            (seen, since) = (now, Instant::now());
        }
    }
    seen
}
