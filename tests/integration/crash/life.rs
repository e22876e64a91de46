//! The life of one object, from creation to its end, with at most one fault
//! in each half, and the judge after each.

use std::time::Duration;

use flexmetal_operator::kinds::names::ACCOUNT_FINALIZER;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::call_trace::{Place, Side};
use super::fault_point::{FaultPoint, Phase, inject};
use super::judge::{self, Findings};
use super::proxied_world::{AT_ITS_END, ProxiedWorld};
use lab::rig::{Health, condition, eventually, health, server};

/// After this time without an effect a recorded trace counts as complete.
const QUIET: Duration = Duration::from_millis(1500);

/// The faults in the two halves of a life.
#[derive(Clone, Copy, Default)]
pub(crate) struct FaultPoints<'a> {
    pub(crate) first: Option<&'a FaultPoint>,
    pub(crate) second: Option<&'a FaultPoint>,
}

/// Whether the places of the faults were reached, and all places that were seen.
pub(crate) struct Lived {
    pub(crate) reached: (bool, bool),
    pub(crate) seen: (Vec<Place>, Vec<Place>),
}

/// A server: ordered, Ready, released, gone.
///
/// # Panics
/// If it does not end, or the judge finds something.
pub(crate) async fn of_server(
    proxied: &mut ProxiedWorld,
    name: &str,
    faults: FaultPoints<'_>,
) -> Lived {
    let watch = proxied.arm(name, faults.first);
    proxied.world.create(&server(name)).await;
    let ordered = inject(proxied, faults.first, watch).await;
    let object = ready(proxied, name).await;
    let findings = judge::after_order(&proxied.world, &object).await;
    judged(faults.first, &findings);
    let order = seen(proxied, faults).await;

    let watch = proxied.arm(name, faults.second);
    proxied.world.delete(name).await;
    let released = inject(proxied, faults.second, watch).await;
    proxied.world.wait_gone(name, AT_ITS_END).await;
    judged(
        faults.second,
        &judge::after_release(&proxied.world, &object).await,
    );
    let release = seen(proxied, faults).await;
    Lived {
        reached: (ordered, released),
        seen: (order, release),
    }
}

/// An account with a Secret: used by a server that orders nothing, held for it,
/// and freed when the server is gone.
///
/// # Panics
/// As [`of_server`].
pub(crate) async fn of_account(
    proxied: &mut ProxiedWorld,
    name: &str,
    faults: FaultPoints<'_>,
) -> Lived {
    let watch = proxied.arm(name, faults.first);
    proxied.write_account(name).await;
    let user = format!("user-of-{name}");
    let mut object = server(&user);
    object["spec"]["suspend"] = json!(true);
    object["spec"]["accountRef"] = json!({"name": name});
    proxied.world.create(&object).await;
    let held = inject(proxied, faults.first, watch).await;
    let world = &proxied.world;
    eventually("the account is held and Ready", AT_ITS_END, async || {
        let account = world.accounts().get(name).await.ok()?;
        let secret = world.secrets().get(name).await.ok()?;
        let is_held = |finalizers: &[String]| finalizers.iter().any(|f| f == ACCOUNT_FINALIZER);
        let ready = condition(&account.data, "Ready").is_some_and(|c| c["status"] == "True");
        (is_held(account.finalizers()) && is_held(secret.finalizers()) && ready).then_some(())
    })
    .await;
    judged(faults.first, &judge::after_anything(world).await);
    let hold = seen(proxied, faults).await;

    let watch = proxied.arm(name, faults.second);
    proxied.world.delete(&user).await;
    proxied.world.wait_gone(&user, AT_ITS_END).await;
    let parameters = DeleteParams::default();
    let deleted = proxied.world.accounts().delete(name, &parameters).await;
    deleted.expect("an account can be deleted");
    let deleted = proxied.world.secrets().delete(name, &parameters).await;
    deleted.expect("a Secret can be deleted");
    let let_go = inject(proxied, faults.second, watch).await;
    let world = &proxied.world;
    eventually("account and Secret are gone", AT_ITS_END, async || {
        let account = world.accounts().get_opt(name).await.ok()?;
        let secret = world.secrets().get_opt(name).await.ok()?;
        (account.is_none() && secret.is_none()).then_some(())
    })
    .await;
    judged(faults.second, &judge::after_anything(world).await);
    let end = seen(proxied, faults).await;
    Lived {
        reached: (held, let_go),
        seen: (hold, end),
    }
}

/// The places for faults: the effects of two lives without any,
/// in order of arrival.
pub(crate) async fn places(proxied: &mut ProxiedWorld) -> Vec<(Phase, Place)> {
    let server = of_server(proxied, "recorded", FaultPoints::default()).await;
    let account = of_account(proxied, "recorded", FaultPoints::default()).await;
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
            // Of an account, only the first report counts: it writes the counts of
            // its users and machines at its own pace.
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
async fn ready(proxied: &ProxiedWorld, name: &str) -> Value {
    let world = &proxied.world;
    let look = |object: &Value| (health(object) == Health::Current).then(|| object.clone());
    let waited = world.try_wait_for(name, "Ready", AT_ITS_END, look).await;
    match waited {
        Ok(object) => object,
        Err(sentence) => {
            // The simulator's records say more about what went wrong than the object does.
            let findings = judge::after_anything(world).await;
            panic!("{sentence}\n{findings:#?}")
        }
    }
}

fn judged(point: Option<&FaultPoint>, findings: &Findings) {
    let point = point.map_or("without a fault".to_owned(), FaultPoint::to_string);
    assert!(findings.is_empty(), "{point}: {findings:#?}");
}

/// All effects of this half. In a life without faults it also waits for those
/// that follow the awaited state, such as events.
async fn seen(proxied: &ProxiedWorld, faults: FaultPoints<'_>) -> Vec<Place> {
    let mut seen = proxied.trace.seen();
    if faults.first.is_some() || faults.second.is_some() {
        return seen;
    }
    let mut since = Instant::now();
    while since.elapsed() < QUIET {
        sleep(Duration::from_millis(50)).await;
        let now = proxied.trace.seen();
        if now.len() != seen.len() {
            (seen, since) = (now, Instant::now());
        }
    }
    seen
}
