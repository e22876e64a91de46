//! Facts and decisions do no I/O: no cluster, no network, no clock, no chance.

use std::{fs, path::Path};

/// What must not be named, however it is imported.
const FORBIDDEN: &[&str] = &[
    "kube::Client",
    "kube::Api",
    "kube::runtime",
    "kube::api",
    "kube::client",
    "reqwest",
    "tokio",
    "Instant",
    "SystemTime",
    "Timestamp::now",
    "Zoned::now",
    "runtime::clock",
    "rand::",
    "uuid::Uuid",
    "std::fs",
    "std::env",
    "std::net",
    "std::thread",
    "async fn",
    ".await",
];

fn sources() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/controllers/server");
    let mut paths: Vec<_> = ["facts.rs", "memory.rs", "mark.rs"]
        .iter()
        .map(|f| folder.join(f))
        .collect();
    for entry in fs::read_dir(folder.join("decide")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            paths.push(path);
        }
    }
    paths
        .iter()
        .map(|p| (p.display().to_string(), fs::read_to_string(p).unwrap()))
        .collect()
}

/// The code without comments, without blanks, so that `use kube::{Api, Client}` cannot hide by its layout.
fn code(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn decisions_import_nothing_that_acts() {
    let sources = sources();
    assert!(sources.len() >= 13, "found {}", sources.len());
    for (path, text) in sources {
        let code = code(&text);
        for word in FORBIDDEN {
            assert!(!code.contains(word), "{path} names {word}");
        }
        // Grouped imports of kube would slip by the list: the only thing of it that is data is the object.
        assert!(!code.contains("use kube"), "{path} imports from kube");
        for group in code.split("use std::").skip(1) {
            let group = group.split(';').next().unwrap_or_default();
            for word in ["fs", "env", "net", "thread", "process", "io"] {
                let named = group
                    .split(|c: char| !c.is_alphanumeric())
                    .any(|w| w == word);
                assert!(!named, "{path} imports std::{word}");
            }
        }
    }
}
