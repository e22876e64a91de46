//! Compares everything that the account shows with the model.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::marks::PREFIX;
use super::rig::{Rig, WHITELIST};
use super::world::{MONTH_END, OFFERS, World};
use super::{listings, records};

/// The cheap comparisons, made after each transition.
pub(crate) async fn quick(rig: &Rig, world: &World) {
    quota(rig, world).await;
    tags(rig, world).await;
    let machines = world.machines.len();
    let start = machines.saturating_sub(3);
    let (status, page) = rig.page(super::rig::SERVERS, start, 50).await;
    assert_eq!(status, 200, "{page}");
    assert_eq!(page.as_array().unwrap().len(), machines - start, "machines");
}

/// All comparisons.
pub(crate) async fn whole(rig: &Rig, world: &World) {
    let clock = rig.steer("GET", "clock", Value::Null).await;
    assert_eq!(clock["virtual"].as_f64(), Some(as_f64(world.now)), "time");
    listings::all(rig, world).await;
    tag_pages(rig, world).await;
    commits(rig, world).await;
    availability(rig, world).await;
    commands(rig, world).await;
    usage(rig, world).await;
    access(rig, world).await;
    marks(rig, world).await;
}

fn as_f64(seconds: u64) -> f64 {
    f64::from(u32::try_from(seconds).unwrap())
}

async fn quota(rig: &Rig, world: &World) {
    let mut rows = Vec::new();
    let places = rig.get("/v3/flexMetal/quota/usage").await;
    for place in places.as_array().unwrap() {
        for row in place["quotaUsage"].as_array().unwrap() {
            let names = (&place["location"]["name"], &row["instanceType"]["name"]);
            let known = |(place, kind): &(&str, &str)| names.0 == place && names.1 == kind;
            let Some(offer) = OFFERS.iter().position(known) else {
                assert_eq!(row["usage"], 0, "{names:?} was never ordered");
                continue;
            };
            let [kind, contract] = ["quotaType", "contractId"].map(|key| row[key].clone());
            rows.push(json!([offer, kind, contract, row["quota"], row["usage"]]).to_string());
        }
    }
    let pools = world.pools.iter().map(|pool| {
        let contract = pool.contract.as_str();
        let kind = if contract.is_empty() {
            "onDemand"
        } else {
            "commit"
        };
        let taken = world.taken(pool.offer, contract);
        json!([pool.offer, kind, contract, pool.quota, taken]).to_string()
    });
    let mut expected: Vec<String> = pools.collect();
    rows.sort_unstable();
    expected.sort_unstable();
    assert_eq!(rows, expected, "quota");
}

async fn tags(rig: &Rig, world: &World) {
    let shown = rig.pages("/v3/flexMetal/tags", 50).await;
    let mut names: Vec<&str> = shown
        .iter()
        .map(|tag| tag["tag"].as_str().unwrap())
        .collect();
    let mut expected: Vec<&str> = world.tags.iter().map(String::as_str).collect();
    names.sort_unstable();
    expected.sort_unstable();
    assert_eq!(names, expected, "tags");
    for record in &shown {
        world.check_tag(record["tag"].as_str().unwrap(), record);
    }
}

/// Pages of other lengths give the same list, and each tag alone its record.
async fn tag_pages(rig: &Rig, world: &World) {
    let path = "/v3/flexMetal/tags";
    let shown = rig.pages(path, 50).await;
    let length = 1 + rig.steps % 7 + shown.len() / 8;
    assert_eq!(rig.pages(path, length).await, shown, "pages of {length}");
    let first = rig.get(path).await;
    assert_eq!(first, json!(shown[..shown.len().min(25)]), "first page");
    for tag in super::transitions::vocabulary() {
        let (status, answer) = rig.page(&format!("{path}/{tag}"), 0, 0).await;
        assert_eq!(status, if world.lists(&tag) { 200 } else { 404 }, "{tag}");
        if status == 200 {
            world.check_tag(&tag, records::single(&answer));
        }
    }
}

async fn commits(rig: &Rig, world: &World) {
    let mut shown = BTreeSet::new();
    for place in rig
        .get("/v3/flexMetal/capacity/commit")
        .await
        .as_array()
        .unwrap()
    {
        for commit in place["commits"].as_array().unwrap() {
            let names = [&place["location"]["name"], &commit["instanceType"]["name"]];
            let row = json!([names, commit["capacity"], commit["inUse"]]);
            assert!(shown.insert(row.to_string()), "{row} is listed twice");
        }
    }
    let mut expected = BTreeSet::new();
    for (offer, (location, kind)) in OFFERS.iter().enumerate() {
        let pools = world.pools.iter();
        let mut pools = pools.filter(|pool| pool.offer == offer && !pool.contract.is_empty());
        let capacity = pools.clone().map(|pool| pool.quota).sum::<usize>();
        let taken = |contract: &str| world.taken(offer, contract);
        let in_use = pools
            .clone()
            .map(|pool| taken(&pool.contract))
            .sum::<usize>();
        if pools.next().is_some() {
            expected.insert(json!([[location, kind], capacity, in_use]).to_string());
        }
    }
    assert_eq!(shown, expected, "committed capacity");
}

/// The word of a plan: nothing left is unavailable, no limit is high, and
/// more is never a lower word.
async fn availability(rig: &Rig, world: &World) {
    let plans = rig.get("/v3/flexMetal/plans").await;
    let mut ranked = Vec::new();
    for (offer, (location, kind)) in OFFERS.iter().enumerate() {
        let mut all = plans.as_array().unwrap().iter();
        let plan = all.find(|plan| plan["name"] == *kind).unwrap();
        let mut places = plan["locations"].as_array().unwrap().iter();
        let place = places.find(|place| place["name"] == *location).unwrap();
        let word = place["availability"].as_str().unwrap();
        let rank = ["unavailable", "low", "medium", "high"]
            .iter()
            .position(|known| *known == word)
            .unwrap_or_else(|| panic!("{word} is no availability"));
        let free = world.free(offer);
        assert_eq!(free == Some(0), rank == 0, "{free:?} left, and {word}");
        assert!(free.is_some() || rank == 3, "no limit, and {word}");
        ranked.push((free.unwrap_or(usize::MAX), rank));
    }
    ranked.sort_unstable();
    assert!(ranked.is_sorted_by_key(|(_, rank)| *rank), "{ranked:?}");
}

async fn commands(rig: &Rig, world: &World) {
    for (place, machine) in world.machines.iter().enumerate() {
        if machine.commands.is_empty() && place % 8 > 0 {
            continue;
        }
        let path = format!("{}/commands", rig.server(place));
        for kind in ["", "update-server", "reboot"] {
            let mut expected: Vec<usize> = (0..machine.commands.len()).collect();
            if !kind.is_empty() && world.is("commandType", "filter") {
                expected.retain(|number| machine.commands[*number].word == kind);
            }
            if world.is("commandOrder", "newestFirst") {
                expected.reverse();
            }
            let length = 1 + rig.steps % 3;
            let path = format!("{path}?type={kind}");
            let shown = rig.pages(&path, length).await;
            assert_eq!(shown.len(), expected.len(), "{path}: {shown:?}");
            for (number, record) in expected.iter().zip(&shown) {
                world.check_command(place, *number, rig, record);
            }
        }
        for (number, uuid) in rig.commands[place].iter().enumerate() {
            let record = rig.get(&format!("{path}/{uuid}")).await;
            world.check_command(place, number, rig, records::single(&record));
        }
    }
}

async fn usage(rig: &Rig, world: &World) {
    let in_november = world.now < MONTH_END;
    let (early, late) = ((0, MONTH_END), (MONTH_END, u64::MAX));
    let periods = [
        ("", if in_november { early } else { late }),
        ("?startDate=2023-11-01&endDate=2023-11-30", early),
        ("?startDate=2023-12-01&endDate=2023-12-31", late),
        ("?startDate=2023-11-01&endDate=2023-12-31", (0, u64::MAX)),
    ];
    for (query, (from, until)) in periods {
        let path = format!("/v3/flexMetal/usage{query}");
        let shown = rig.get(&path).await;
        let mut expected = Vec::new();
        for (place, machine) in world.machines.iter().enumerate() {
            let Some((began, ended)) = world.used(machine) else {
                continue;
            };
            let (began, last) = (began.max(from), ended.unwrap_or(world.now).min(until));
            if began > last {
                continue;
            }
            let minutes = (last - began).div_ceil(60);
            let open = ended.is_none() && last == world.now;
            let null = open && world.is("usageOpenEnd", "null");
            let ended_at = if null { Value::Null } else { json!(iso(last)) };
            let hours = minutes.div_ceil(60);
            let uuid = &rig.machines[place];
            expected.push(json!([uuid, iso(began), ended_at, minutes, hours]));
        }
        let rows = shown.as_array().unwrap().iter().map(|row| {
            let [began, ended, minutes, hours] =
                ["startedAt", "endedAt", "totalMinutes", "totalHours"].map(|key| &row[key]);
            json!([row["server"]["uuid"], began, ended, minutes, hours])
        });
        assert_eq!(rows.collect::<Vec<_>>(), expected, "{path}");
    }
}

/// Seconds as a date-time with milliseconds and a Z.
fn iso(seconds: u64) -> String {
    let moment = jiff::Timestamp::from_second(i64::try_from(seconds).unwrap()).unwrap();
    format!("{}.000Z", moment.strftime("%Y-%m-%dT%H:%M:%S"))
}

async fn access(rig: &Rig, world: &World) {
    let keys = (0..world.ssh_keys.len()).filter(|place| !world.ssh_keys[*place].deleted);
    let keys: Vec<usize> = keys.collect();
    let shown = rig.get("/v3/sshKey").await;
    assert_eq!(shown.as_array().unwrap().len(), keys.len(), "SSH keys");
    for (place, record) in keys.iter().zip(shown.as_array().unwrap()) {
        world.check_key(*place, rig, record);
    }
    let entries = (0..world.whitelist.len()).filter(|place| !world.whitelist[*place].removed);
    let entries: Vec<usize> = entries.collect();
    let shown = rig.pages(WHITELIST, 1 + rig.steps % 3).await;
    assert_eq!(shown.len(), entries.len(), "whitelist");
    for (place, record) in entries.iter().zip(&shown) {
        world.check_entry(*place, rig, record);
    }
}

/// The judge of histories finds what happened, and nothing else.
async fn marks(rig: &Rig, world: &World) {
    let report = rig
        .steer("GET", &format!("invariants?prefix={PREFIX}"), Value::Null)
        .await;
    let violations = report["violations"].as_array().unwrap();
    let named = |rule: &str, key: &str| -> BTreeSet<String> {
        let found = violations.iter().filter(|found| found["rule"] == rule);
        found
            .map(|found| found[key].as_str().unwrap().to_owned())
            .collect()
    };
    let twice: BTreeSet<String> = world.ordered_twice().into_iter().collect();
    assert_eq!(named("orderedTwice", "tag"), twice);
    let live: BTreeSet<String> = world.twice_live.iter().cloned().collect();
    assert_eq!(named("twoLiveMachines", "mark"), live);
    let unmarked = world
        .unmarked
        .iter()
        .map(|place| rig.machines[*place].clone());
    let unmarked: BTreeSet<String> = unmarked.collect();
    assert_eq!(named("releasedWithoutMark", "machine"), unmarked);
}
