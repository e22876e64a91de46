//! Checks what the compiler does not: the folders of a crate use each other in one direction, and the crate that
//! decides does no I/O.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Which other folders each folder of the operator may use.
const ALLOWED_USES: [(&str, &[&str]); 3] = [
    ("runtime", &[]),
    ("account", &["runtime"]),
    ("controllers", &["account", "runtime"]),
];

/// What no decision may use of the standard library: no clock, no files, no network, nothing asynchronous.
const IMPURE: [&str; 10] = [
    "Instant",
    "SystemTime",
    "::now()",
    "std::fs",
    "std::env",
    "net::Tcp",
    "net::Udp",
    "ToSocketAddrs",
    "async fn",
    ".await",
];

/// Dependencies that the crate that decides must not have, directly or indirectly.
const FORBIDDEN_DEPENDENCIES: [&str; 8] = [
    "kube ",
    "kube-client ",
    "kube-runtime ",
    "reqwest ",
    "hyper ",
    "tokio ",
    "rand ",
    "getrandom ",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The sources of a folder by path, without tests and comments.
fn sources(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(path).unwrap();
            open.extend(entries.map(|entry| entry.unwrap().path()));
            continue;
        }
        let short = path.strip_prefix(folder).unwrap().to_owned();
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

/// The modules that follow `prefix` anywhere, in groups too.
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

/// The kinds: the folders that are modules themselves. Other folders have parts or tests of the file of their name.
fn kinds(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    entries
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("mod.rs").is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

#[test]
fn folders_use_each_other_one_way() {
    for (folder, allowed) in ALLOWED_USES {
        let sources = sources(&root().join("src").join(folder));
        assert!(sources.len() > 5, "{folder}: {}", sources.len());
        for (path, code) in sources {
            for used in used(&code, "crate::") {
                assert!(
                    used == folder || allowed.contains(&used.as_str()),
                    "{folder}/{} uses crate::{used}",
                    path.display()
                );
            }
        }
    }
}

/// In `flexmetal-core`, all kinds may use `account`, `protocol` and `reconcile`.
#[test]
fn kinds_and_shared_files_use_no_other_kind() {
    const SHARED: [&str; 3] = ["account", "protocol", "reconcile"];
    let (work, core) = ("src/controllers", "crates/core/src");
    let (of_work, mut of_core) = (kinds(work), kinds(core));
    of_core.retain(|kind| !SHARED.contains(&kind.as_str()));
    for known in ["host", "server", "whitelist"] {
        for kinds in [&of_work, &of_core] {
            assert!(kinds.iter().any(|kind| kind == known), "{kinds:?}");
        }
    }
    for (folder, kinds, prefixes, tables) in [
        (
            work,
            &of_work,
            &["controllers::", "super::"][..],
            &["mod.rs"][..],
        ),
        (work, &of_core, &["flexmetal_core::"], &[]),
        // `readings.rs` is the test of every kind.
        (
            core,
            &of_core,
            &["crate::", "super::"],
            &["lib.rs", "readings.rs"],
        ),
    ] {
        for (path, code) in sources(&root().join(folder)) {
            if tables.iter().any(|table| path == Path::new(table)) {
                continue;
            }
            let own = kinds.iter().find(|kind| path.starts_with(kind));
            for prefix in prefixes {
                for used in used(&code, prefix) {
                    assert!(
                        !kinds.contains(&used) || own == Some(&used),
                        "{folder}/{} uses {prefix}{used}",
                        path.display()
                    );
                }
            }
        }
    }
}

/// Files that decide without I/O, but are not in `flexmetal-core` yet.
const PURE: [&str; 4] = [
    "account/rate_limiter/queue.rs",
    "account/limits.rs",
    "account/poll_plan.rs",
    "account/servers/known.rs",
];

#[test]
fn decisions_touch_nothing_that_acts() {
    let mut sources = sources(&root().join("crates/core/src"));
    assert!(sources.len() >= 100, "only {} files", sources.len());
    let work = self::sources(&root().join("src"));
    for path in PURE {
        let code = &work[Path::new(path)];
        for acts in ["tokio", "kube", "hosting::", "clock::", "rand::", "uuid::"] {
            assert!(!code.contains(acts), "{path} has {acts:?}");
        }
        sources.insert(path.into(), code.clone());
    }
    for (path, code) in sources {
        for impure in IMPURE {
            assert!(!code.contains(impure), "{} has {impure:?}", path.display());
        }
    }
}

#[test]
fn decisions_are_built_without_client_and_runtime() {
    let tree = |package: &str| {
        let tree = Command::new(env!("CARGO"))
            .args([
                "tree",
                "--locked",
                "--offline",
                "--prefix=none",
                "--edges=normal",
            ])
            .args(["--package", package])
            .current_dir(root())
            .output()
            .unwrap();
        assert!(tree.status.success(), "{tree:?}");
        String::from_utf8(tree.stdout).unwrap()
    };
    let far = |package: &str| -> Vec<&str> {
        let tree = tree(package);
        let has = |name: &&str| tree.lines().any(|line| line.starts_with(name));
        FORBIDDEN_DEPENDENCIES.into_iter().filter(has).collect()
    };
    assert_eq!(far("flexmetal-core"), Vec::<&str>::new());
    assert_eq!(far("flexmetal-api"), Vec::<&str>::new());
    // Checks the names themselves: the operator has all these dependencies.
    assert_eq!(far("flexmetal-operator"), FORBIDDEN_DEPENDENCIES);
    let of_kubernetes = ["kube", "k8s-openapi", "flexmetal-api"];
    let client = tree("flexmetal-hosting");
    for library in of_kubernetes {
        assert!(
            !client.lines().any(|line| line.starts_with(library)),
            "the client knows nothing of Kubernetes: {library}"
        );
    }
}

#[test]
fn client_and_simulator_share_nothing() {
    let manifest = |name: &str| {
        fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap()
    };
    let (hosting, simulator) = (manifest("hosting"), manifest("simulator"));
    assert!(!simulator.contains("hosting.workspace") && !simulator.contains("hosting-types"));
    let (product, development) = hosting.split_once("[dev-dependencies]").unwrap();
    assert!(!product.contains("simulator.workspace"));
    assert!(development.contains("simulator.workspace"), "for its tests");
}
