//! The judge finds what must not happen, and nothing else.

use super::*;

const ONE: &str = "fmo-order:aaaaaaaaaaaaaaaaaaaaaaaa00000001";
const ONE_LATER: &str = "fmo-order:aaaaaaaaaaaaaaaaaaaaaaaa00000002";
const TWO: &str = "fmo-order:bbbbbbbbbbbbbbbbbbbbbbbb00000001";
const MARK: &str = "aaaaaaaaaaaaaaaaaaaaaaaa";

/// The broken rules.
async fn broken(rig: &Rig) -> Vec<String> {
    let report = rig.look("invariants").await;
    let violations = report["violations"].as_array().unwrap().iter();
    violations
        .map(|violation| violation["rule"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn one_machine_after_the_other_is_fine() {
    let rig = Rig::new().await;
    let first = rig.order("a", &[ONE]).await;
    rig.order("b", &[TWO]).await;
    rig.advance(DELIVERY).await;
    rig.delete(&format!("{SERVERS}/{first}")).await;
    rig.advance(RELEASE).await;
    let second = rig.order("a", &[ONE_LATER]).await;
    let report = rig.look("invariants?prefix=fmo-order:").await;
    assert_eq!(report["violations"], json!([]));
    let mark = &report["marks"][MARK];
    assert_eq!(mark["orders"].as_array().unwrap().len(), 2);
    assert_eq!(mark["releases"][0]["machine"], first);
    let live: Vec<&Value> = mark["machines"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|machine| machine["live"] == true)
        .map(|machine| &machine["machine"])
        .collect();
    assert_eq!(live, [&json!(second)]);
    assert_eq!(report["marks"].as_object().unwrap().len(), 2);
}

#[tokio::test]
async fn two_live_machines_of_one_mark_are_found_also_afterwards() {
    let rig = Rig::new().await;
    let first = rig.order("a", &[ONE]).await;
    rig.advance(10).await;
    let second = rig.order("a", &[ONE_LATER]).await;
    assert_eq!(broken(&rig).await, ["twoLiveMachines"]);
    rig.delete(&format!("{SERVERS}/{second}")).await;
    rig.advance(RELEASE).await;
    let report = rig.look("invariants").await;
    assert_eq!(report["violations"][0]["machines"], json!([first, second]));
    assert_eq!(report["violations"][0]["mark"], MARK);
    assert_eq!(report["violations"][0]["since"], 1_700_000_010.0);
}

#[tokio::test]
async fn a_tag_accepted_twice_is_found_though_the_first_machine_is_gone() {
    let rig = Rig::new().await;
    let first = rig.order("a", &[ONE]).await;
    rig.delete(&format!("{SERVERS}/{first}")).await;
    rig.advance(RELEASE).await;
    rig.delete(&format!("/v3/flexMetal/tags/{ONE}")).await;
    rig.control(Method::DELETE, "ledger", &Value::Null).await;
    rig.order("a", &[ONE]).await;
    assert_eq!(broken(&rig).await, ["orderedTwice"]);
}

#[tokio::test]
async fn releasing_a_machine_without_a_mark_is_found() {
    let rig = Rig::new().await;
    let other = rig
        .steer("machines", json!({"name": "other", "tags": ["x"]}))
        .await;
    rig.delete(&format!("{SERVERS}/{}", other["uuid"].as_str().unwrap()))
        .await;
    let report = rig.look("invariants").await;
    assert_eq!(report["violations"][0]["rule"], "releasedWithoutMark");
    assert_eq!(report["violations"][0]["machine"], other["uuid"]);
    assert_eq!(report["violations"][0]["tags"], json!(["x"]));
}

#[tokio::test]
async fn machines_that_only_pass_a_mark_on_are_no_twins() {
    let rig = Rig::new().await;
    let first = rig.order("a", &[ONE]).await;
    rig.advance(10).await;
    rig.delete(&format!("{SERVERS}/{first}/tag/{ONE}")).await;
    rig.advance(10).await;
    rig.order("a", &[ONE_LATER]).await;
    assert_eq!(broken(&rig).await, [""; 0]);
    rig.post(&format!("{SERVERS}/{first}/tag/{ONE}"), &Value::Null)
        .await;
    assert_eq!(broken(&rig).await, ["twoLiveMachines"]);
}

#[tokio::test]
async fn other_prefixes_have_other_marks() {
    let rig = Rig::new().await;
    rig.order("a", &[ONE]).await;
    rig.order("b", &[ONE]).await;
    assert_eq!(
        rig.look("invariants?prefix=other:").await,
        json!({"violations": [], "marks": {}})
    );
}
