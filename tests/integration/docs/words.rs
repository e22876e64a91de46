//! The text that users read uses plain words, and is short.

use std::fs;
use std::path::{Path, PathBuf};

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::{ROOT, files_below};
use crate::crds;

/// Maximum number of words in all hand-written user pages.
const MOST_WORDS: usize = 25_000;
/// Maximum number of words in a page about a kind.
const MOST_WORDS_OF_A_KIND: usize = 1_500;
/// Maximum number of words in other pages.
const MOST_WORDS_OF: [(&str, usize); 2] =
    [("docs/concepts.md", 1_000), ("docs/promises.md", 1_200)];
/// Maximum number of lines in the README.
const MOST_LINES_OF_README: usize = 120;
/// The other files that users read.
const OTHERS: [&str; 9] = [
    "CHANGELOG.md",
    "deploy/chart/values-ha.yaml",
    "deploy/chart/values-namespaced.yaml",
    "deploy/chart/Chart.yaml",
    "deploy/chart/files/policies/protection.yaml",
    "deploy/chart/templates/NOTES.txt",
    "deploy/chart/templates/policies.yaml",
    "deploy/chart/values.schema.json",
    "deploy/chart/values.yaml",
];

/// The path of a file in the checkout, and its text.
fn path_and_text(file: &Path) -> (String, String) {
    let path = file.strip_prefix(ROOT).unwrap().to_str().unwrap();
    (path.to_owned(), fs::read_to_string(file).unwrap())
}

/// The hand-written user pages, with their paths in the checkout.
pub(super) fn user_pages() -> Vec<(String, String)> {
    let mut files = vec![Path::new(ROOT).join("README.md")];
    files.extend(files_below(&Path::new(ROOT).join("docs"), "md"));
    let pages = files.iter().map(|file| path_and_text(file));
    let others = ["docs/contributing/", "docs/reference/"];
    pages
        .filter(|(path, _)| others.iter().all(|folder| !path.starts_with(folder)))
        .collect()
}

/// The lines of a word list without comments.
fn entries(file: &'static str) -> impl Iterator<Item = &'static str> {
    file.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn expressions() -> Vec<Regex> {
    let build = |line: &str| RegexBuilder::new(line).case_insensitive(true).build();
    let lines = entries(include_str!("words.txt"));
    lines.map(|line| build(line).unwrap()).collect()
}

/// The exempt texts. Each has a reason.
fn exceptions() -> Vec<&'static str> {
    let lines = entries(include_str!("words-exceptions.txt"));
    let split = lines.map(|line| line.split_once(" # ").expect("TEXT # REASON"));
    split
        .map(|(text, reason)| {
            assert!(reason.len() > 10, "{text}: why?");
            text
        })
        .collect()
}

/// Adds the descriptions and rule messages of a CRD, one per line.
fn add_descriptions(value: &Value, texts: &mut String) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_str() {
                    Some(text) if name == "description" || name == "message" => {
                        texts.push_str(text);
                        texts.push('\n');
                    }
                    _ => add_descriptions(field, texts),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_descriptions(item, texts)),
        _ => {}
    }
}

/// All texts that users read, with their location.
fn texts() -> Vec<(String, String)> {
    let mut texts = user_pages();
    let mut files: Vec<PathBuf> = OTHERS
        .iter()
        .map(|path| Path::new(ROOT).join(path))
        .collect();
    files.extend(files_below(&Path::new(ROOT).join("examples"), "yaml"));
    texts.extend(files.iter().map(|file| path_and_text(file)));
    for crd in crds::definitions() {
        let mut descriptions = String::new();
        add_descriptions(&crd, &mut descriptions);
        let plural = crd["spec"]["names"]["plural"].as_str().unwrap();
        texts.push((format!("crds/{plural}.yaml"), descriptions));
    }
    texts
}

#[test]
fn users_read_plain_words() {
    let (expressions, exceptions, texts) = (expressions(), exceptions(), texts());
    assert!(expressions.len() > 30, "{expressions:?}");
    let mut wrong = Vec::new();
    for (path, text) in &texts {
        for line in text.lines() {
            let mut left = line.to_owned();
            for exception in &exceptions {
                left = left.replace(exception, "");
            }
            let found = expressions.iter().find_map(|e| e.find(&left));
            wrong.extend(found.map(|found| format!("{path}: {:?} in: {line}", found.as_str())));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for exception in exceptions {
        assert!(
            texts.iter().any(|(_, text)| text.contains(exception)),
            "nothing needs the exception {exception}"
        );
    }
}

#[test]
fn expressions_match_whole_words_in_any_case() {
    let expressions = expressions();
    let is_refused = |text: &str| expressions.iter().any(|e| e.is_match(text));
    for text in [
        "The machines",
        "Machine 4",
        "it was told",
        "One pass over all",
    ] {
        assert!(is_refused(text), "{text}");
    }
    for text in [
        "The servers",
        "Helm needs no tolerance",
        "It passes the test",
    ] {
        assert!(!is_refused(text), "{text}");
    }
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

#[test]
fn pages_are_short() {
    let pages = user_pages();
    let of = |path: &str| {
        let page = pages.iter().find(|(other, _)| other == path);
        let (_, text) = page.unwrap_or_else(|| panic!("no {path}"));
        text.as_str()
    };
    let mut long = Vec::new();
    let mut judge = |path: &str, what: &str, count: usize, most: usize| {
        if count > most {
            long.push(format!("{path}: {count} {what}, at most {most}"));
        }
    };
    let lines = of("README.md").lines().count();
    judge("README.md", "lines", lines, MOST_LINES_OF_README);
    for (path, most) in MOST_WORDS_OF {
        judge(path, "words", words(of(path)), most);
    }
    let kinds = pages
        .iter()
        .filter(|(path, _)| path.starts_with("docs/kinds/"));
    for (path, text) in kinds {
        judge(path, "words", words(text), MOST_WORDS_OF_A_KIND);
    }
    let all = pages.iter().map(|(_, text)| words(text)).sum::<usize>();
    judge("all pages", "words", all, MOST_WORDS);
    assert!(long.is_empty(), "{long:#?}");
}
