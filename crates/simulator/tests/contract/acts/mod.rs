//! What each switch does: for each of its values the same calls, and what must
//! be seen. This file holds the form of the table and its completeness; the
//! lines are in the files of their sections.

mod access;
mod commands;
mod hosts;
mod lists;
mod orders;
mod servers;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::rig::Rig;

/// A switch, and the values that a line of the table tries.
pub(crate) type Acted = (&'static str, &'static [&'static str]);

const TABLE: &[&[Acted]] = &[
    access::ACTED,
    commands::ACTED,
    hosts::ACTED,
    lists::ACTED,
    orders::ACTED,
    servers::ACTED,
];

/// Declares lines: a test for each switch. The calls run once for each value,
/// each time against a fresh simulator.
#[macro_export]
macro_rules! acts {
    ($($name:ident $switch:literal |$rig:ident| $calls:block $($value:literal => $seen:tt),+;)+) => {
        $(
            #[tokio::test]
            async fn $name() {
                let calls = async |$rig: &$crate::rig::Rig| serde_json::to_value($calls).unwrap();
                let mut all: Vec<serde_json::Value> = Vec::new();
                $(
                    let rig = $crate::rig::Rig::new().await;
                    rig.turn($switch, $value).await;
                    let seen = calls(&rig).await;
                    assert_eq!(seen, serde_json::json!($seen), "{}={}", $switch, $value);
                    assert!(!all.contains(&seen), "{}={} does what another value does", $switch, $value);
                    all.push(seen);
                )+
            }
        )+
        pub(crate) const ACTED: &[$crate::acts::Acted] = &[$(($switch, &[$($value),+])),+];
    };
}

/// The fields of a record that are there, of those named.
pub(crate) fn present(record: &Value, names: &[&str]) -> Value {
    let fields = record.as_object().unwrap().iter();
    let named = fields.filter(|(name, _)| names.contains(&name.as_str()));
    named
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[tokio::test]
async fn contract_every_switch_value_has_a_case() {
    let shown = Rig::new().await.look("switches").await;
    let mut values = BTreeSet::new();
    for row in shown.as_array().unwrap() {
        for value in row["values"].as_array().unwrap() {
            values.insert((row["name"].as_str().unwrap(), value.as_str().unwrap()));
        }
    }
    let lines = TABLE.iter().copied().flatten();
    let acted =
        lines.flat_map(|(switch, values)| values.iter().map(move |value| (*switch, *value)));
    assert_eq!(acted.clone().count(), values.len());
    let acted: BTreeSet<_> = acted.collect();
    let silent: Vec<_> = values.difference(&acted).collect();
    assert!(silent.is_empty(), "no line for {silent:?}");
    let unknown: Vec<_> = acted.difference(&values).collect();
    assert!(unknown.is_empty(), "no such values: {unknown:?}");
}

#[tokio::test]
async fn contract_page_lists_switches_as_served() {
    let page = include_str!("../../../../../docs/contributing/simulator.md");
    let (_, table) = page.split_once("| Switch | Values |").unwrap();
    let lines = table.lines().skip(2);
    let lines: Vec<&str> = lines.take_while(|line| line.starts_with('|')).collect();
    let shown = Rig::new().await.look("switches").await;
    let rows = shown.as_array().unwrap().iter().map(|row| {
        let text = |field: &str| row[field].as_str().unwrap();
        let values = row["values"].as_array().unwrap().iter();
        let values: Vec<_> = values
            .map(|value| format!("`{}`", value.as_str().unwrap()))
            .collect();
        let origin = match text("origin") {
            "documented" => "documented",
            "seen" => "seen in clients",
            "ourChoice" => "our choice",
            other => panic!("{other}"),
        };
        format!(
            "| `{}` | {} | `{}` | `{}` | {origin} | {} |",
            text("name"),
            values.join(", "),
            text("document"),
            text("observed"),
            text("about")
        )
    });
    let rows: Vec<String> = rows.collect();
    for (row, line) in rows.iter().zip(&lines) {
        assert_eq!(row, line);
    }
    assert_eq!(rows.len(), lines.len());
}
