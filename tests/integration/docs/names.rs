//! Declared names are in the field's words: none that CONTRIBUTING replaces, no two types of one name, short names of tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use regex::Regex;

use super::{ROOT, entries, files_below};

/// Words that no declared name may have.
const WORDS: &str = include_str!("names.txt");
/// `NAME # REASON`: names that a dependency or the hosting API gives.
const EXCEPTIONS: &str = include_str!("names-exceptions.txt");
/// Names of functions that say nothing without their callers.
const BARE: [&str; 10] = [
    "note", "keep", "hold", "look", "say", "read", "of", "its", "tell", "tend",
];
/// Most declarations with such a word, and most type names that are declared more than once.
const MOST: (usize, usize) = (40, 20);
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

/// The sources of the operator and its crates without the simulator.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(ROOT);
    let mut files = files_below(&root.join("src"), "rs");
    files.extend(files_below(&root.join("crates"), "rs"));
    let named = files.into_iter().map(|file| {
        let path = file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        (path, fs::read_to_string(file).unwrap())
    });
    named
        .filter(|(path, _)| !path.starts_with("crates/simulator/"))
        .collect()
}

fn declarations() -> Vec<Declaration> {
    let declared = Regex::new(
        r"\b(fn|struct|enum|trait|type|mod|const|static)(?: mut)? +([A-Za-z0-9_]+)",
    )
    .unwrap();
    let of_file = |(path, text): (String, String)| {
        let all: Vec<Declaration> = declared
            .captures_iter(&text)
            .map(|found| Declaration {
                path: path.clone(),
                kind: found[1].to_owned(),
                name: found[2].to_owned(),
            })
            .collect();
        all
    };
    sources().into_iter().flat_map(of_file).collect()
}

fn exceptions() -> BTreeSet<&'static str> {
    let lines = entries(EXCEPTIONS).map(|line| line.split_once(" # ").expect("NAME # REASON"));
    lines
        .map(|(name, reason)| {
            assert!(reason.len() > 10, "{name}: why?");
            name
        })
        .collect()
}

#[test]
fn declared_names_use_common_words() {
    let (replaced, exceptions) = (entries(WORDS).collect::<BTreeSet<_>>(), exceptions());
    let all = declarations();
    let mut wrong = Vec::new();
    let mut bare = Vec::new();
    for Declaration { path, kind, name } in &all {
        let place = format!("{path}: {kind} {name}");
        if exceptions.contains(name.as_str()) {
            continue;
        }
        if words(name).iter().any(|word| replaced.contains(word.as_str())) {
            wrong.push(place.clone());
        }
        if kind == "fn" && BARE.contains(&name.as_str()) {
            bare.push(place);
        }
    }
    assert!(wrong.len() <= MOST.0, "{}: {wrong:#?}", wrong.len());
    assert!(bare.is_empty(), "{bare:#?}");
    for exception in exceptions {
        let is_needed = all.iter().any(|it| it.name == exception);
        assert!(is_needed, "nothing needs the exception {exception}");
    }
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
    assert!(places.len() <= MOST.1, "{}: {places:#?}", places.len());
}

#[test]
fn test_names_have_at_most_eight_words() {
    let root = Path::new(ROOT);
    let mut files = files_below(&root.join("tests"), "rs");
    files.extend(files_below(&root.join("src"), "rs"));
    files.extend(files_below(&root.join("crates"), "rs"));
    let test = Regex::new(
        r"#\[(?:tokio::)?test[^\n]*\n(?:[^\n]*#\[[^\n]*\n)*[^\n]*fn ([a-z0-9_]+)",
    )
    .unwrap();
    let mut count = 0;
    let mut long = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
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
