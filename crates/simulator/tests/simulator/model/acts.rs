//! Carries out a transition over HTTP, and checks its answer.

use serde_json::{Value, json};

use super::listings::{self, listing};
use super::records::{public_key, single};
use super::rig::{Rig, SERVERS, WHITELIST};
use super::transitions::{Order, Spoilt, Transition};
use super::world::{Expected, OFFERS, REASON, Shows, World};

fn body(order: &Order) -> String {
    let (location, kind) = OFFERS[order.offer];
    let mut body = json!({
        "name": order.name, "location": location, "instanceType": kind,
        "os": {"slug": "ubuntu-2404-lts"}, "sshKey": [], "tags": order.tags,
        "overflow": order.overflow,
    });
    if let Some(contract) = order.contract {
        body["contractId"] = json!(contract);
    }
    match order.spoilt {
        Some(Spoilt::NoJson) => return "{\"name\":".to_owned(),
        Some(Spoilt::UnknownPlace) => body["location"] = json!("Moon"),
        Some(Spoilt::InvalidTag) => body["tags"] = json!(["no tag"]),
        Some(Spoilt::InvalidContract) => body["contractId"] = json!("lower"),
        None => {}
    }
    body.to_string()
}

fn whitelisted(range: &str, active: bool) -> String {
    json!({"ipRange": range, "active": u8::from(active)}).to_string()
}

/// The request of a transition: method, path, body.
fn request(rig: &Rig, transition: &Transition) -> Option<(&'static str, String, String)> {
    use Transition as T;
    let none = String::new();
    let tags = "/v3/flexMetal/tags";
    let named = |tag: &str| json!({"tag": tag}).to_string();
    Some(match transition {
        T::Order(order) | T::Fleet(_, order) => ("POST", SERVERS.to_owned(), body(order)),
        T::Release(place) => ("DELETE", rig.server(*place), none),
        T::PutTag(place, tag) => ("POST", format!("{}/tag/{tag}", rig.server(*place)), none),
        T::TakeTag(place, tag) => ("DELETE", format!("{}/tag/{tag}", rig.server(*place)), none),
        T::CreateTag(tag) => ("POST", tags.to_owned(), named(tag)),
        T::RenameTag(tag, name) => ("PUT", format!("{tags}/{tag}"), named(name)),
        T::DeleteTag(tag) => ("DELETE", format!("{tags}/{tag}"), none),
        T::Command(place, word, _) => {
            let body = json!({"command": word}).to_string();
            ("POST", format!("{}/commands", rig.server(*place)), body)
        }
        T::Reinstall(place, slug, _) => {
            let body = json!({"os": {"slug": slug}, "sshKey": [public_key("me")]});
            ("PATCH", rig.server(*place), body.to_string())
        }
        T::StoreKey(name) => {
            let body = json!({"name": name, "publicKey": public_key(name)});
            ("POST", "/v3/sshKey".to_owned(), body.to_string())
        }
        T::DeleteKey(place) => ("DELETE", rig.ssh_key(*place), none),
        T::Allow(range, active) => ("POST", WHITELIST.to_owned(), whitelisted(range, *active)),
        T::ChangeEntry(place, range, active) => {
            ("PUT", rig.entry(*place), whitelisted(range, *active))
        }
        T::Disallow(place) => ("DELETE", rig.entry(*place), none),
        _ => return None,
    })
}

/// Whether what it starts is going to fail.
fn fails(transition: &Transition) -> bool {
    use Transition as T;
    match transition {
        T::Order(order) | T::Fleet(_, order) => order.fails,
        T::Command(_, _, fails) | T::Reinstall(_, _, fails) => *fails,
        _ => false,
    }
}

/// Carries it out; `world` is the one after it.
pub(crate) async fn act(rig: &mut Rig, world: &World, transition: &Transition) {
    use Transition as T;
    if let Some((method, path, body)) = request(rig, transition) {
        let doomed = fails(transition);
        if doomed {
            let rule = json!({
                "match": {"method": method, "path": path},
                "fault": {"fail": {"message": REASON}},
            });
            rig.steer("POST", "faults", rule).await;
        }
        let mut answers = Vec::new();
        for expected in &world.expected {
            let answer = rig.call(method, &path, body.clone()).await;
            judge(expected, &answer, (method, &path));
            learn(rig, &expected.shows, &answer.1);
            answers.push(answer);
        }
        if doomed {
            rig.steer("DELETE", "faults", Value::Null).await;
        }
        if let T::Reinstall(place, ..) = transition
            && answers[0].0 == 200
        {
            learn_update(rig, world, *place).await;
        }
        // In a series of orders the last answer matches the world.
        for (expected, (_, answer)) in world.expected.iter().zip(&answers) {
            if answer["errorCode"].is_null() {
                world.check_shown(&expected.shows, rig, answer);
            }
        }
        return;
    }
    match transition {
        T::Advance(seconds) => {
            let body = json!({"advanceSeconds": seconds});
            rig.steer("POST", "clock", body).await;
        }
        T::Quota(offer, contract, quota) => rig.quota(*offer, contract, *quota).await,
        T::Stock(offer, free) => rig.stock(*offer, *free).await,
        T::List(status, tags, page) => listing(rig, world, status, tags, *page).await,
        T::LongPage(results) => long_page(rig, world, *results).await,
        T::Restart => rig.restart().await,
        _ => {}
    }
}

/// Compares status and envelope.
fn judge(expected: &Expected, (status, answer): &(u16, Value), request: (&str, &str)) {
    assert!(
        expected.statuses.contains(status),
        "{request:?}: {status} {answer}, not {:?}",
        expected.statuses
    );
    if *status >= 400 {
        assert!(answer["errorCode"].is_i64(), "{request:?}: {answer}");
        assert!(answer["errorMessage"].is_string(), "{request:?}: {answer}");
        assert!(answer["errors"].is_array(), "{request:?}: {answer}");
    }
}

/// Records the name of what was made.
fn learn(rig: &mut Rig, shows: &Shows, answer: &Value) {
    if *shows == Shows::Nothing {
        return;
    }
    let record = single(answer);
    let uuid = || record["uuid"].as_str().unwrap().to_owned();
    match shows {
        Shows::Machine(place) if *place == rig.machines.len() => {
            assert!(!rig.machines.contains(&uuid()), "a name given twice");
            rig.machines.push(uuid());
            rig.commands.push(Vec::new());
        }
        Shows::Command(place, _) => rig.commands[*place].push(uuid()),
        Shows::SshKey(place) if *place == rig.ssh_keys.len() => rig.ssh_keys.push(uuid()),
        Shows::Entry(place) if *place == rig.entries.len() => {
            rig.entries.push(record["id"].as_u64().unwrap());
        }
        _ => {}
    }
}

/// A re-installation does not show the id of its command: the list does.
async fn learn_update(rig: &mut Rig, world: &World, place: usize) {
    let path = format!("{}/commands", rig.server(place));
    let shown = rig.pages(&path, 50).await;
    let newest = match world.is("commandOrder", "newestFirst") {
        true => shown.first(),
        false => shown.last(),
    };
    let uuid = newest.unwrap()["uuid"].as_str().unwrap().to_owned();
    assert!(!rig.commands[place].contains(&uuid), "no new command");
    rig.commands[place].push(uuid);
}

/// Asks for more than 50.
async fn long_page(rig: &Rig, world: &World, results: usize) {
    let (status, page) = rig.page(SERVERS, 0, results).await;
    match world.expected.first() {
        Some(expected) => judge(expected, &(status, page), ("GET", SERVERS)),
        None => {
            assert_eq!(status, 200, "{page}");
            let shown = page.as_array().unwrap();
            let all = listings::places(world, "", &[]);
            assert_eq!(shown.len(), all.len().min(50), "a page cut to 50");
        }
    }
}
