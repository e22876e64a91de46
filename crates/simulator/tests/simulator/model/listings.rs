//! Lists of machines: which, in which order, page by page.

use serde_json::Value;

use super::rig::{Rig, SERVERS};
use super::transitions::FILTERS;
use super::world::{Machine, State, World};

/// Whether a filter matches a machine; `None` for one in the long view, whose step
/// is unknown.
fn admits(world: &World, machine: &Machine, status: &str) -> Option<bool> {
    let state = world.state(machine);
    let long = world.is("stateView", "long");
    Some(match status {
        "" => true,
        "creating" | "provisioning" if state == State::Waiting && long => return None,
        "creating" => state == State::Waiting,
        "delivered" => state == State::Delivered,
        "failed" => state == State::Failed,
        "releasing" => state == State::Releasing,
        "released" => state == State::Released,
        _ => false,
    })
}

/// Numbers of the machines that a filter may show, in the list's order.
pub(crate) fn places(world: &World, status: &str, tags: &[String]) -> Vec<usize> {
    let mut found = Vec::new();
    for (place, machine) in world.machines.iter().enumerate() {
        let bears = tags.iter().all(|tag| machine.tags.contains(tag));
        if bears && admits(world, machine, status) != Some(false) {
            found.push(place);
        }
    }
    if world.is("listOrder", "newestFirst") {
        found.reverse();
    }
    found
}

fn path(status: &str, tags: &[String]) -> String {
    let mut path = format!("{SERVERS}?x=1");
    if !status.is_empty() {
        path.push_str(&format!("&status={status}"));
    }
    for tag in tags {
        path.push_str(&format!("&tag={tag}"));
    }
    path
}

fn numbers(rig: &Rig, records: &[Value]) -> Vec<usize> {
    let number = |record: &Value| {
        let uuid = record["uuid"].as_str().unwrap();
        let found = rig.machines.iter().position(|known| known == uuid);
        found.unwrap_or_else(|| panic!("{uuid} was never ordered"))
    };
    records.iter().map(number).collect()
}

/// Compares one list, in pages of `results`; 0 asks for the first page only,
/// without a header.
pub(crate) async fn listing(
    rig: &Rig,
    world: &World,
    status: &str,
    tags: &[String],
    results: usize,
) {
    let path = path(status, tags);
    let mut expected = places(world, status, tags);
    let shown = match results {
        0 => rig.get(&path).await.as_array().unwrap().clone(),
        _ => rig.pages(&path, results).await,
    };
    let found = numbers(rig, &shown);
    // Machines of unknown step may be missing, but must be in order.
    expected.retain(|place| {
        found.contains(place) || admits(world, &world.machines[*place], status).is_some()
    });
    if results == 0 {
        expected.truncate(15);
    }
    assert_eq!(found, expected, "{path} in pages of {results}");
    for (place, record) in found.iter().zip(&shown) {
        world.check_machine(*place, rig, record);
    }
}

/// Compares the list under every filter, and by every tag.
pub(crate) async fn all(rig: &Rig, world: &World) {
    listing(rig, world, "", &[], 50).await;
    listing(rig, world, "", &[], 0).await;
    // Pages of another length each time, and few enough of them.
    let length = 1 + rig.steps % 13 + world.machines.len() / 8;
    listing(rig, world, "", &[], length).await;
    let mut waiting = Vec::new();
    for status in FILTERS {
        listing(rig, world, status, &[], 50).await;
        if ["creating", "provisioning"].contains(&status) {
            let shown = rig.pages(&path(status, &[]), 50).await;
            waiting.extend(numbers(rig, &shown));
        }
    }
    let before = waiting.len();
    waiting.sort_unstable();
    waiting.dedup();
    assert_eq!(waiting.len(), before, "creating and provisioning at once");
    for tag in super::transitions::vocabulary() {
        let one = [tag];
        listing(rig, world, "", &one, 50).await;
        let [tag] = one;
        let two = [tag, "a".to_owned()];
        listing(rig, world, "delivered", &two, 3).await;
    }
    for place in 0..world.machines.len().min(20) {
        let record = rig.get(&rig.server(place)).await;
        world.check_machine(place, rig, super::records::single(&record));
    }
}
