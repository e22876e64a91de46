//! Declared names: no word that Kubernetes, Rust and the hosting API do not use, no type twice, short names of tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use regex::Regex;

use super::{ROOT, files_below};

/// Words that no declared name may have: names are those of Kubernetes, Rust and the hosting API.
const WORDS: &str = "machine machines lineage brake seat keeper told tell mark marks note notes noted look looks \
    wake wakes stand stands standing mend proof round rounds rival rivals patience contest draft \
    trouble recall reread lane lanes turn turns beside evidence audience sibling siblings sight \
    sighting fence succession incarnation incarnations withheld newcomer motion whim wish reach \
    room weights heard deaf cause concluded garbled stranger former";
/// Names of functions that say nothing without their callers.
const BARE: [&str; 10] = [
    "note", "keep", "hold", "look", "say", "read", "of", "its", "tell", "tend",
];
/// Types that are declared more than once, since a trait of a library gives them their names: `Service` and `Deref`.
const TWINS: [&str; 3] = ["Error", "Response", "Target"];
/// Most words in the name of a test.
const MOST_WORDS: usize = 8;

/// A declaration: where it is, what it declares, and its name.
struct Declaration {
    path: String,
    kind: String,
    name: String,
}

/// The words of a name in either spelling.
fn words(name: &str) -> Vec<String> {
    let mut spaced = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            spaced.push('_');
        }
        spaced.push(letter.to_ascii_lowercase());
    }
    let words = spaced.split('_').filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// The sources in these folders, with their paths.
fn sources(folders: &[&str]) -> Vec<(String, String)> {
    let root = Path::new(ROOT);
    let files = folders
        .iter()
        .flat_map(|folder| files_below(&root.join(folder), "rs"));
    let named = files.map(|file| {
        let path = file
            .strip_prefix(root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        (path, fs::read_to_string(file).unwrap())
    });
    named.collect()
}

/// The declarations of the operator and its crates. The simulator has words of its own.
fn declarations() -> Vec<Declaration> {
    let declared =
        Regex::new(r"\b(fn|struct|enum|trait|type|mod|const|static)(?: mut)? +([A-Za-z0-9_]+)")
            .unwrap();
    let mut all = Vec::new();
    for (path, text) in sources(&["src", "crates"]) {
        if path.starts_with("crates/simulator/") {
            continue;
        }
        let found = declared.captures_iter(&text).map(|found| Declaration {
            path: path.clone(),
            kind: found[1].to_owned(),
            name: found[2].to_owned(),
        });
        all.extend(found);
    }
    all
}

#[test]
fn declared_names_use_common_words() {
    let replaced: BTreeSet<&str> = WORDS.split_whitespace().collect();
    let all = declarations();
    assert!(all.len() > 5_000, "{} declarations found", all.len());
    let has_replaced = |name: &str| {
        words(name)
            .iter()
            .any(|word| replaced.contains(word.as_str()))
    };
    let is_wrong = |it: &Declaration| {
        has_replaced(&it.name) || (it.kind == "fn" && BARE.contains(&it.name.as_str()))
    };
    let wrong = all.iter().filter(|it| is_wrong(it));
    let wrong: Vec<String> = wrong
        .map(|it| format!("{}: {} {}", it.path, it.kind, it.name))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn type_names_are_declared_once() {
    let is_test = |path: &str| {
        path.contains("/tests/") || path.ends_with("tests.rs") || path.contains("/benches/")
    };
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let types = ["struct", "enum", "trait", "type"];
    for it in declarations() {
        let is_type = types.contains(&it.kind.as_str()) && it.name.starts_with(char::is_uppercase);
        if is_type && !is_test(&it.path) {
            places.entry(it.name).or_default().push(it.path);
        }
    }
    places.retain(|_, paths| paths.len() > 1);
    let twins: Vec<&str> = places.keys().map(String::as_str).collect();
    assert_eq!(twins, TWINS, "{places:#?}");
}

#[test]
fn test_names_have_at_most_eight_words() {
    let test =
        Regex::new(r"#\[(?:tokio::)?test[^\n]*\n(?:[^\n]*#\[[^\n]*\n)*[^\n]*fn ([a-z0-9_]+)")
            .unwrap();
    let mut count = 0;
    let mut long = Vec::new();
    for (_, text) in sources(&["src", "crates", "tests"]) {
        for found in test.captures_iter(&text) {
            count += 1;
            let name = &found[1];
            if name.split('_').count() > MOST_WORDS {
                long.push(name.to_owned());
            }
        }
    }
    assert!(count > 1_000, "{count} tests found");
    assert!(long.is_empty(), "{long:#?}");
}
