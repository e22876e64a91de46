//! Stored answers: good ones of every operation from the simulator in both profiles, odd but readable ones, and
//! malicious ones; each unchanged and mutated.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use futures::executor::block_on;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{
    KEY,
    every_call::{NAMES, Outcome, call},
    script::{Script, answer},
};

fn folder(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("src/tests/corpus").join(name)
}

/// Names without their ending, and bytes.
fn recorded_answers(name: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder(name)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap();
            (name.to_owned(), fs::read(&path).unwrap())
        })
        .collect()
}

fn call_with_answer(name: &str, status: u16, body: &[u8]) -> Outcome {
    let (client, _) = Script::client(vec![Ok(answer(status, body))]);
    let outcome = block_on(call(&client, name));
    let text = &outcome.text;
    assert!(!text.contains(KEY), "{name}: {text}");
    assert!(text.len() < 64 * 1024, "{name}: {} bytes", text.len());
    assert!(!text.chars().any(char::is_control), "{name}: {text:?}");
    outcome
}

#[test]
fn valid_answers_of_both_profiles_decode() {
    for profile in ["document", "observed"] {
        let answers = recorded_answers(profile);
        let names: BTreeSet<&str> = answers.keys().map(String::as_str).collect();
        assert_eq!(names, BTreeSet::from(NAMES), "{profile}");
        for (name, body) in &answers {
            let status = if body.is_empty() { 204 } else { 200 };
            let outcome = call_with_answer(name, status, body);
            assert_eq!(
                outcome.word, "Decoded",
                "{profile}/{name}: {}",
                outcome.text
            );
        }
    }
}

#[test]
fn odd_answers_are_read_all_the_same() {
    let answers = recorded_answers("tolerated");
    assert!(answers.len() >= 12);
    for (name, body) in answers {
        for operation in ["server", "servers", "release"] {
            let outcome = call_with_answer(operation, 200, &body);
            assert_eq!(outcome.word, "Decoded", "{name}: {}", outcome.text);
        }
    }
}

#[test]
fn malformed_answers_fail_unless_listed() {
    let index = fs::read_to_string(folder("nasty").join("index.txt")).unwrap();
    let named: BTreeMap<&str, BTreeSet<&str>> = index
        .lines()
        .map(|line| {
            let (file, names) = line.split_once('\t').unwrap();
            (file, names.split(' ').collect())
        })
        .collect();
    let answers = recorded_answers("nasty");
    assert!(named.keys().all(|file| answers.contains_key(*file)));
    let mut wrong = String::new();
    for (file, body) in &answers {
        let read_by = named.get(file.as_str()).cloned().unwrap_or_default();
        let mut decoded = BTreeSet::new();
        for operation in NAMES {
            let outcome = call_with_answer(operation, 200, body);
            match outcome.word {
                "UndecodableAnswer" => {}
                "Unknown" if operation == "order" => {}
                // More than the client accepts for a change.
                "AnswerTooLarge" if body.len() > 64 << 10 => {}
                "Decoded" => _ = decoded.insert(operation),
                word => panic!("{file}: {operation} is {word}"),
            }
        }
        if decoded != read_by {
            let names: Vec<&str> = decoded.into_iter().collect();
            wrong.push_str(&format!("{file}\t{}\n", names.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "not as the index says:\n{wrong}");
}

#[test]
fn malformed_refusal_keeps_status_meaning() {
    for (file, body) in recorded_answers("nasty") {
        for (status, word, order) in [
            (302, "UnexpectedAnswer", "Unknown"),
            (400, "Refused", "Refused"),
            (401, "AccessDenied", "AccessDenied"),
            (403, "Forbidden", "Forbidden"),
            (404, "NotFound", "NotFound"),
            (409, "Refused", "Unknown"),
            (422, "Refused", "Refused"),
            (429, "RateLimited", "RateLimited"),
            (500, "ServerError", "Unknown"),
            (599, "ServerError", "Unknown"),
        ] {
            for operation in NAMES {
                let outcome = call_with_answer(operation, status, &body);
                let expected = match (status, operation) {
                    (403, "quota_usage" | "servers") => "AccessDenied",
                    (_, "order") => order,
                    _ => word,
                };
                assert_eq!(outcome.word, expected, "{file} with {status}: {operation}");
                assert!(!outcome.text.is_empty());
            }
        }
    }
}

const WORDS: [&str; 14] = [
    "null",
    "[]",
    "{}",
    "\"\"",
    "-1",
    "1e308",
    "1e400",
    "9223372036854775808",
    "\"x\"",
    "[null]",
    "{\"id\":null}",
    "\"\\u0000\\u001b\"",
    "true",
    "\"9999-12-31T23:59:60Z\"",
];

/// A body with one mutation.
fn changed(mut body: Vec<u8>, kind: u8, at: &Index, other: &Index) -> Vec<u8> {
    if body.is_empty() {
        return body;
    }
    let place = at.index(body.len());
    match kind {
        0 => body[place] ^= 1 << other.index(8),
        1 => body.truncate(place),
        2 => {
            let end = place + other.index(body.len() - place);
            body.drain(place..end);
        }
        3 => {
            let end = place + other.index(body.len() - place);
            let part = body[place..end].to_vec();
            body.splice(place..place, part);
        }
        _ => {
            let colons: Vec<usize> = (0..body.len()).filter(|at| body[*at] == b':').collect();
            if !colons.is_empty() {
                let from = colons[at.index(colons.len())] + 1;
                let rest = body[from..].iter();
                let length = rest.take_while(|byte| !b",}]".contains(byte)).count();
                let word = WORDS[other.index(WORDS.len())];
                body.splice(from..from + length, word.bytes());
            }
        }
    }
    body
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn mutated_answer_gives_result_or_error(
        observed in any::<bool>(),
        operation in prop::sample::select(NAMES.to_vec()),
        changes in prop::collection::vec((0u8..8, any::<Index>(), any::<Index>()), 1..4),
        status in prop_oneof![4 => Just(200u16), 1 => 200u16..600],
    ) {
        let profile = if observed { "observed" } else { "document" };
        let path = folder(profile).join(operation).with_extension("json");
        let mut body = fs::read(path).unwrap();
        for (kind, at, other) in &changes {
            body = changed(body, *kind, at, other);
        }
        call_with_answer(operation, status, &body);
    }
}
