//! Every row that is our choice names its switch, or says why it has none.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::page::{Row, quoted, rows};
use crate::rig::Rig;

/// The switches that a row names.
fn named(row: &Row) -> Vec<&'static str> {
    // As a sentence or in brackets, one or several.
    let after = row.text.split_once("witch").map(|(_, after)| after);
    quoted(after.unwrap_or_default()).collect()
}

/// Every switch with the record that the control port shows of it.
async fn switches(rig: &Rig) -> BTreeMap<String, Value> {
    let shown = rig.look("switches").await;
    let rows = shown.as_array().unwrap().iter();
    rows.map(|row| (row["name"].as_str().unwrap().to_owned(), row.clone()))
        .collect()
}

#[tokio::test]
async fn contract_choice_has_switch_or_is_fixed() {
    let switches = switches(&Rig::new().await).await;
    for row in rows() {
        let named = named(&row);
        for switch in &named {
            assert!(switches.contains_key(*switch), "{}: {switch}", row.id);
        }
        let fixed = row.text.contains(" Fixed: ") || row.text.contains("(fixed");
        if row.origin == "our choice" {
            assert_eq!(named.is_empty(), fixed, "{}: {}", row.id, row.text);
        }
    }
}

/// The origins of rows, the most trusted first, and their words in the record
/// of a switch.
const ORIGINS: [(&str, &str); 3] = [
    ("documented", "documented"),
    ("seen in clients", "seen"),
    ("our choice", "ourChoice"),
];

#[tokio::test]
async fn contract_switch_has_best_origin_of_rows() {
    let page = include_str!("../../../../docs/contributing/simulator.md");
    for (name, switch) in switches(&Rig::new().await).await {
        let naming = rows().filter(|row| named(row).contains(&name.as_str()));
        let naming: Vec<_> = naming.map(|row| row.origin).collect();
        let mut origins = ORIGINS.into_iter();
        let best = origins.find(|(origin, _)| naming.contains(origin));
        let (origin, word) = best.unwrap_or_else(|| panic!("no row names {name}"));
        assert_eq!(switch["origin"], word, "{name}");
        let start = format!("| `{name}` |");
        let line = page.lines().find(|line| line.starts_with(&start)).unwrap();
        assert!(line.contains(&format!(" | {origin} | ")), "{line}");
    }
}
