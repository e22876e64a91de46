//! How a case starts: a profile, some switches set, with a state file or
//! without one. Defaults and values of the switches come from the page.

use std::sync::LazyLock;

use proptest::prelude::*;

/// Switches that the model follows.
const FOLLOWED: &[&str] = &[
    "unusedTags",
    "deleteUsedTag",
    "renameTag",
    "duplicateTag",
    "removeAbsentTag",
    "tagReleased",
    "releaseFailed",
    "releaseWhileWaiting",
    "releaseReleasing",
    "releaseReleased",
    "exhausted",
    "unknownContract",
    "commandUndelivered",
    "commandBusy",
    "reinstallBusy",
    "commandOrder",
    "commandType",
    "listOrder",
    "duplicateKeyName",
    "usageOpenEnd",
    "resultsAbove50",
    "stateView",
    "absentFields",
];

/// A row of the page's table of switches.
#[derive(Clone, Debug)]
struct Switch {
    name: String,
    values: Vec<String>,
    document: String,
    observed: String,
}

/// The table of switches in `docs/contributing/simulator.md`.
static TABLE: LazyLock<Vec<Switch>> = LazyLock::new(table);

fn table() -> Vec<Switch> {
    let page = include_str!("../../../../../docs/contributing/simulator.md");
    let words = |cell: &str| -> Vec<String> {
        let parts = cell.split(',').map(|word| word.trim().trim_matches('`'));
        parts.map(str::to_owned).collect()
    };
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, values, document, observed, _origin, _about, _] = cells[..] else {
            return None;
        };
        Some(Switch {
            name: words(name).remove(0),
            values: words(values),
            document: words(document).remove(0),
            observed: words(observed).remove(0),
        })
    });
    let all: Vec<Switch> = rows.filter(|row| row.values.len() > 1).collect();
    for name in FOLLOWED {
        assert!(all.iter().any(|row| row.name == *name), "{name} is gone");
    }
    all
}

/// What a case starts with.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) observed: bool,
    /// With a state file, so that it can be started again.
    pub(crate) kept: bool,
    /// Switches that differ from the profile.
    pub(crate) turned: Vec<(String, String)>,
}

impl Setup {
    /// The value of a switch.
    pub(crate) fn switch(&self, name: &str) -> String {
        let turned = self.turned.iter().find(|(known, _)| known == name);
        if let Some((_, value)) = turned {
            return value.clone();
        }
        let row = TABLE.iter().find(|row| row.name == name).unwrap();
        match self.observed {
            true => row.observed.clone(),
            false => row.document.clone(),
        }
    }

    /// Any start; half of the cases leave all switches alone.
    pub(crate) fn any() -> impl Strategy<Value = Self> {
        let followed = TABLE
            .iter()
            .filter(|row| FOLLOWED.contains(&row.name.as_str()));
        let turns: Vec<_> = followed
            .map(|row| {
                let name = row.name.clone();
                prop_oneof![
                    2 => Just(None),
                    1 => prop::sample::select(row.values.clone()).prop_map(Some),
                ]
                .prop_map(move |value| Some((name.clone(), value?)))
            })
            .collect();
        let turned = prop_oneof![Just(None), turns.prop_map(Some)];
        // With a state file every answer waits for the disk: few are enough.
        let kept = prop::bool::weighted(0.15);
        (any::<bool>(), kept, turned).prop_map(|(observed, kept, turned)| Self {
            observed,
            kept,
            turned: turned.into_iter().flatten().flatten().collect(),
        })
    }
}
