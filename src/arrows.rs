//! Reads the sources: arrows between folders point one way, and what decides does no I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// What a folder may use besides itself.
const ARROWS: [(&str, &[&str]); 4] = [
    ("kinds", &[]),
    ("runtime", &[]),
    ("account", &["kinds", "runtime"]),
    ("controllers", &["account", "kinds", "runtime"]),
];

/// What neither facts nor decisions nor the machine of acts may touch: no client, no runtime, no
/// clock, no randomness.
const IMPURE: [&str; 18] = [
    "tokio",
    "reqwest",
    // Grouped imports would slip by a longer list, and of kube nothing is data but the object.
    "use kube",
    "kube::Client",
    "kube::Api",
    "kube::runtime",
    "hosting::Client",
    "Instant",
    "SystemTime",
    "rand::",
    "Uuid::new",
    "clock::",
    "::now()",
    "std::fs",
    "std::env",
    "std::net",
    "async fn",
    ".await",
];

/// The sources of a folder of `src` by path, without tests and without comments.
fn sources(folder: &str) -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    let mut open = vec![root.join(folder)];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(path).unwrap();
            open.extend(entries.map(|entry| entry.unwrap().path()));
            continue;
        }
        let short = path.strip_prefix(&root).unwrap().to_owned();
        let is_test = short.components().any(|part| {
            let part = part.as_os_str().to_string_lossy();
            part.starts_with("tests") || part.ends_with("_tests.rs")
        });
        if is_test {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let code = product
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .fold(String::new(), |code, line| code + line + "\n");
        found.insert(short, code);
    }
    found
}

/// The modules that follow `prefix` wherever it stands, in groups too.
fn used(code: &str, prefix: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            None => all.push(word(rest)),
            Some(group) => {
                let mut depth = 0;
                let mut is_start = true;
                for (at, letter) in group.char_indices() {
                    match letter {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => is_start = true,
                        _ if is_start && !letter.is_whitespace() => {
                            all.push(word(&group[at..]));
                            is_start = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    all
}

fn word(text: &str) -> String {
    let is_inner = |c: &char| c.is_alphanumeric() || *c == '_';
    text.chars().take_while(is_inner).collect()
}

/// The kinds: the folders of the controllers that are modules by themselves. The others hold parts
/// or tests of a file of the floor.
fn kinds() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/controllers");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .filter(|entry| entry.path().join("mod.rs").is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

#[test]
fn arrows_between_folders_point_one_way() {
    for (folder, allowed) in ARROWS {
        let sources = sources(folder);
        assert!(sources.len() > 5, "{folder}: {}", sources.len());
        for (path, code) in sources {
            for used in used(&code, "crate::") {
                assert!(
                    used == folder || allowed.contains(&used.as_str()),
                    "{} uses crate::{used}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn no_kind_uses_another_and_the_floor_uses_none() {
    let kinds = kinds();
    for known in ["account", "server", "whitelist"] {
        assert!(kinds.iter().any(|kind| kind == known), "{kinds:?}");
    }
    for (path, code) in sources("controllers") {
        let inner = path.strip_prefix("controllers").unwrap();
        if inner == Path::new("mod.rs") {
            continue; // The table of kinds.
        }
        let own = kinds.iter().find(|kind| inner.starts_with(kind));
        for prefix in ["controllers::", "super::"] {
            for used in used(&code, prefix) {
                assert!(
                    !kinds.contains(&used) || own == Some(&used),
                    "{} uses {prefix}{used}",
                    path.display()
                );
            }
        }
    }
}

/// What is pure besides the folders `decide`: the ends of paths, each of which has to be there.
const PURE: [&str; 18] = [
    "facts.rs",
    "once.rs",
    "cause.rs",
    "again.rs",
    "pace.rs",
    "mark.rs",
    "recall.rs",
    "answers.rs",
    "memory.rs",
    "remedy.rs",
    "turns/queue.rs",
    "account/limits.rs",
    "machines/orphans.rs",
    "machines/known.rs",
    "account/key_state.rs",
    "lease/seat.rs",
    "lease/others.rs",
    "ssh_key/public_key.rs",
];

#[test]
fn decisions_import_nothing_that_acts() {
    let mut looked_at = 0;
    let mut missing = BTreeSet::from(PURE);
    for folder in ["controllers", "account", "runtime"] {
        for (path, code) in sources(folder) {
            let ends: Vec<_> = PURE.iter().filter(|end| path.ends_with(end)).collect();
            if ends.is_empty() && !path.to_string_lossy().contains("/decide") {
                continue;
            }
            for end in ends {
                missing.remove(end);
            }
            looked_at += 1;
            for impure in IMPURE {
                assert!(!code.contains(impure), "{} has {impure:?}", path.display());
            }
        }
    }
    assert!(missing.is_empty(), "no longer there: {missing:?}");
    assert!(looked_at >= 30, "only {looked_at} files were looked at");
}

#[test]
fn client_and_simulator_share_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let manifest = |name: &str| fs::read_to_string(root.join(name).join("Cargo.toml")).unwrap();
    let (hosting, simulator) = (manifest("hosting"), manifest("simulator"));
    assert!(!simulator.contains("hosting.workspace"));
    let (product, development) = hosting.split_once("[dev-dependencies]").unwrap();
    assert!(!product.contains("simulator.workspace"));
    assert!(development.contains("simulator.workspace"), "for its tests");
    for library in ["kube", "k8s-openapi"] {
        assert!(
            !hosting.contains(library),
            "the client knows nothing of Kubernetes"
        );
    }
}
