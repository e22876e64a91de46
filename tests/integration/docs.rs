//! README, docs and examples are correct: paths, tests and targets exist, every reason has its entry,
//! and the API server accepts every manifest. The commands of the task pages do what the pages say.

mod coverage;
mod links;
mod names;
// Here, and not beside this module: tests start in the order of their names, and a long test should not start last.
pub(crate) mod tasks;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use api::{Reason, timing::BOUNDS};
use flexmetal_core::report::{EventReason, ServerEvent};
use serde_json::{Value, json};

use crate::crds;
pub(crate) use links::anchors;

/// The checkout.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// The page that describes each folder.
const ARCHITECTURE: &str = "docs/contributing/architecture.md";
/// The page with the tests of each promise, rule and fault.
const PROMISES: &str = "docs/contributing/promises-and-tests.md";
/// The first folders of paths in the tree. Other texts are not paths.
const FOLDERS: [&str; 8] = [
    "src/",
    "tests/",
    "docs/",
    "examples/",
    "deploy/",
    "crds/",
    "benchmarks/",
    ".ci/",
];

/// All pages with their paths, README first.
fn pages() -> Vec<(PathBuf, String)> {
    let mut files = vec![
        Path::new(ROOT).join("README.md"),
        Path::new(ROOT).join("CONTRIBUTING.md"),
        Path::new(ROOT).join("SECURITY.md"),
        Path::new(ROOT).join("benchmarks/README.md"),
    ];
    files.extend(files_below(&Path::new(ROOT).join("docs"), "md"));
    let read = |file: PathBuf| {
        let text =
            fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        (file, text)
    };
    files.into_iter().map(read).collect()
}

fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path, extension));
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The words of a text that are paths of the tree, such as `src/main.rs`.
fn paths(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || "/._-:".contains(c);
    text.split(|c| !word(c))
        .filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)))
        .map(|word| word.trim_end_matches(['.', ':']).to_owned())
        .collect()
}

#[test]
fn every_path_in_the_pages_exists() {
    let mut checked = 0;
    for (page, text) in pages() {
        for path in paths(&text) {
            let (file, _) = path.split_once("::").unwrap_or((&path, ""));
            let there = Path::new(ROOT).join(file);
            // The output of `make bench` may not exist yet.
            let made = file.starts_with("benchmarks/results/");
            assert!(there.exists() || made, "{} names {file}", page.display());
            checked += 1;
        }
    }
    assert!(checked > 50, "only {checked} paths were found");
}

#[test]
fn architecture_page_names_every_folder_of_the_tree() {
    let page = fs::read_to_string(Path::new(ROOT).join(ARCHITECTURE)).unwrap();
    for parent in ["src", "crates", "tests"] {
        for entry in fs::read_dir(Path::new(ROOT).join(parent)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let folder = format!("{parent}/{name}");
            assert!(
                !path.is_dir() || page.contains(&format!("`{folder}`")),
                "{ARCHITECTURE} does not say what {folder} is for"
            );
        }
    }
}

/// Fails unless every test that the page names exists, and each row with this start names one.
fn check_rows_name_tests(page: &str, row: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(ROOT).join(page)).unwrap();
    let mut named = 0;
    for path in paths(&text) {
        let Some((file, test)) = path.split_once("::") else {
            continue;
        };
        let source = fs::read_to_string(Path::new(ROOT).join(file)).unwrap();
        assert!(
            source.contains(&format!("fn {test}(")),
            "{page} names {test} in {file}"
        );
        named += 1;
    }
    assert!(named >= 9, "{page}: only {named} tests are named");
    let rows = text.lines().filter(|line| line.starts_with(row));
    rows.map(|line| {
        assert!(line.contains("::"), "{page}: no test holds: {line}");
        line.split('|').nth(1).unwrap().trim().to_owned()
    })
    .collect()
}

#[test]
fn every_test_that_a_promise_names_exists() {
    let rows = check_rows_name_tests(PROMISES, "| G");
    assert_eq!(rows.len(), 11, "{rows:?}");
}

#[test]
fn every_fault_of_the_page_has_its_tests() {
    let page = fs::read_to_string(Path::new(ROOT).join(PROMISES)).unwrap();
    let (_, section) = page.split_once("\n## Faults").expect("the section");
    let section = section.split("\n## ").next().unwrap();
    let rows: Vec<&str> = section
        .lines()
        .filter(|l| l.starts_with("| "))
        .skip(1)
        .collect();
    assert!(rows.len() > 30, "{} rows", rows.len());
    for row in rows {
        assert!(row.contains("::"), "no test holds: {row}");
    }
}

#[test]
fn every_threat_names_an_existing_test() {
    let mut rows = check_rows_name_tests("docs/contributing/threats.md", "| H");
    rows.retain(|row| row != "Harm");
    rows.extend(check_rows_name_tests("docs/contributing/threats.md", "| S"));
    let threats = [
        "H1", "H2", "H3", "H4", "H5", "H6", "S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8",
    ];
    assert_eq!(rows, threats);
}

#[test]
fn each_reason_has_exactly_one_heading() {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/troubleshooting.md")).unwrap();
    let headings: Vec<&str> = links::outside_blocks(&page)
        .filter_map(|line| line.strip_prefix("### "))
        .map(|heading| heading.trim().trim_matches('`'))
        .collect();
    for reason in Reason::ALL.iter().map(|reason| reason.as_str()) {
        let count = headings
            .iter()
            .filter(|heading| **heading == reason)
            .count();
        assert_eq!(count, 1, "headings of {reason}");
        let heading = format!("\n### {reason}\n");
        let (_, below) = page.split_once(&heading).expect(reason);
        let body = below.split("\n#").next().unwrap_or_default();
        let sentences = body.matches(['.', ':']).count();
        assert!(sentences >= 2, "{reason} says only: {body}");
    }
    let others = EventReason::OTHERS.map(EventReason::as_str);
    for reason in others {
        let is_named = headings.contains(&reason) || page.contains(&format!("`{reason}`"));
        assert!(is_named, "the page does not name {reason}");
    }
    // Headings of symptoms have several words.
    let is_word = |heading: &&str| heading.chars().all(|c| c.is_ascii_alphanumeric());
    let reasons: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    let words = headings.into_iter().filter(is_word);
    let left: Vec<&str> = words
        .filter(|word| !reasons.contains(word) && !others.contains(word))
        .collect();
    assert!(left.is_empty(), "no reasons: {left:?}");
}

#[test]
fn reference_has_generated_pages_only() {
    let kinds = api::all_crds().into_iter().map(|crd| crd.spec.names.kind);
    let kinds = kinds.map(|kind| format!("{}.md", kind.to_lowercase()));
    let others = ["cli.md", "json.md", "metrics.md", "rights.md"].map(str::to_owned);
    let expected: BTreeSet<String> = kinds.chain(others).collect();
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(Path::new(ROOT).join("docs/reference")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let header = "<!-- Generated by `make generate`. Do not edit. -->\n";
        assert!(text.starts_with(header), "{}", path.display());
        found.insert(path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    assert_eq!(found, expected);
}

#[test]
fn documented_server_events_match_the_code() {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/kinds/baremetalserver.md")).unwrap();
    let (_, section) = page.split_once("\n## Events\n").expect("the section");
    let section = section.split("\n## ").next().unwrap();
    let entries: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    assert_eq!(entries, ServerEvent::ALL.map(ServerEvent::as_str));
}

/// Fields of Kubernetes' own kinds that pages mention.
const OF_KUBERNETES: [&str; 1] = ["spec.providerID"];

/// The API server prunes or refuses a field that does not exist.
#[test]
fn fields_named_in_pages_exist_in_crds() {
    let definitions = crds::definitions();
    let is_field = |path: &str| {
        let parts: Vec<&str> = path.split('.').collect();
        let has_it = |crd: &Value| has_field(crds::root(crd), &parts);
        definitions.iter().any(has_it) || OF_KUBERNETES.contains(&path)
    };
    let (mut named, mut wrong, mut internal) = (0, Vec::new(), Vec::new());
    for (page, text) in pages() {
        // Inline code, without code blocks.
        let prose: String = text.split("```").step_by(2).collect();
        for code in prose.split('`').skip(1).step_by(2) {
            if !code.starts_with("spec.") && !code.starts_with("status.") {
                continue;
            }
            let end = code.find(|c: char| !c.is_ascii_alphanumeric() && !".[]".contains(c));
            let path = without_indices(&code[..end.unwrap_or(code.len())]);
            if !is_field(path.trim_end_matches('.')) {
                wrong.push(format!("{}: {code}", page.display()));
            }
            if path.starts_with("status.records.") {
                internal.push(format!("{}: {code}", page.display()));
            }
            named += 1;
        }
        for path in fields_of_status(&text) {
            if !is_field(&path) {
                wrong.push(format!("{}: {path}", page.display()));
            }
            named += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Records are internal to the operator. Their schema is open, so nothing can check a field in them.
    assert!(internal.is_empty(), "{internal:#?}");
    assert!(named > 100, "only {named} fields were found");
    for removed in [
        "spec.releaseBrake",
        "status.observed.os",
        "spec.timing.settle",
    ] {
        assert!(!is_field(removed), "{removed}");
    }
}

/// The fields in the first column of the table under the heading Status.
/// After a colon follow the fields of the field before it, until the next semicolon.
fn fields_of_status(page: &str) -> Vec<String> {
    let Some((_, table)) = page.split_once("\n## Status\n\n| Field | Meaning |\n") else {
        return Vec::new();
    };
    let rows = table
        .lines()
        .take_while(|line| line.starts_with('|'))
        .skip(1);
    let mut fields = Vec::new();
    for part in rows.flat_map(|row| row.split('|').nth(1).unwrap_or_default().split(';')) {
        let codes = |text: &str| -> Vec<String> {
            let codes = text.split('`').skip(1).step_by(2);
            codes.map(without_indices).collect()
        };
        let (outer, inner) = part.split_once(':').unwrap_or((part, ""));
        let outer = codes(outer);
        let within = outer.first().cloned().unwrap_or_default();
        fields.extend(outer.iter().map(|field| format!("status.{field}")));
        let inner = codes(inner);
        fields.extend(inner.iter().map(|field| format!("status.{within}.{field}")));
    }
    fields
}

/// Whether a schema has the field at this path.
fn has_field(schema: &Value, path: &[&str]) -> bool {
    let Some((field, rest)) = path.split_first() else {
        return true;
    };
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return true;
    }
    let inner = [
        &schema["properties"][*field],
        &schema["additionalProperties"],
    ];
    let mut inner = inner.into_iter().filter(|inner| inner.is_object());
    match schema["type"].as_str() {
        Some("array") => has_field(&schema["items"], path),
        _ => inner.any(|inner| has_field(inner, rest)),
    }
}

/// A path without list indices: `a[].b[0].c` is `a.b.c`.
fn without_indices(path: &str) -> String {
    let parts = path.split('[').enumerate();
    let parts = parts.map(|(number, part)| match number {
        0 => part,
        _ => part.split_once(']').map_or("", |(_, rest)| rest),
    });
    parts.collect()
}

#[test]
fn bounds_of_the_times_are_in_their_page() {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/kinds/provideraccount.md")).unwrap();
    for bounds in BOUNDS {
        let row = format!(
            "| `{}` | {} | {} | {} |",
            bounds.field, bounds.minimum, bounds.default, bounds.maximum
        );
        assert!(page.contains(&row), "no row: {row}");
    }
}

#[test]
fn every_make_target_in_the_pages_exists() {
    let makefile = fs::read_to_string(Path::new(ROOT).join("Makefile")).unwrap();
    for (page, text) in pages() {
        // In code only: in prose `make` is a common verb.
        for call in ["`make ", "\nmake "]
            .iter()
            .flat_map(|c| text.split(c).skip(1))
        {
            let end = call.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            let target = &call[..end.unwrap_or(call.len())];
            assert!(
                target.is_empty() || makefile.contains(&format!("\n{target}:")),
                "{} names make {target}",
                page.display()
            );
        }
    }
}

#[tokio::test]
async fn api_server_accepts_documented_manifests() {
    let cluster = crds::installed().await;
    let namespace = cluster.namespace("docs").await;
    let mut manifests = Vec::new();
    for file in files_below(&Path::new(ROOT).join("examples"), "yaml") {
        // A file for kustomize. The API server does not know its kind.
        if !file.ends_with("kustomization.yaml") {
            manifests.push((file.clone(), fs::read_to_string(&file).unwrap()));
        }
    }
    // The task tests run the manifests of the tasks, which include invalid ones.
    let pages = pages()
        .into_iter()
        .filter(|(page, _)| !page.starts_with(Path::new(ROOT).join("docs/tasks")));
    for (page, text) in pages {
        for block in blocks(&text) {
            manifests.push((page.clone(), block));
        }
    }
    let mut taken = 0;
    for (file, text) in manifests {
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text)
            .unwrap_or_else(|error| panic!("{}: {error}\n{text}", file.display()));
        for mut object in objects {
            // Uses a namespace that exists. The test creates nothing.
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("namespace");
            }
            let command = [
                "-n",
                &namespace,
                "apply",
                "--server-side",
                "--dry-run=server",
            ];
            let strict = ["--validate=strict", "-f", "-"];
            let output = cluster
                .kubectl_with_input(&[&command[..], &strict].concat(), &object.to_string())
                .await;
            let messages = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && messages.is_empty(),
                "{}: {messages}\n{}",
                file.display(),
                json!(object)
            );
            taken += 1;
        }
    }
    assert!(taken >= 12, "only {taken} objects were found");
}

/// The manifests in a page: YAML blocks, and here-documents of commands.
fn blocks(page: &str) -> Vec<String> {
    let fenced = page.split("```yaml\n").skip(1);
    let here = page.split("<<'END'\n").skip(1);
    let fenced = fenced.map(|rest| rest.split("```").next().unwrap().to_owned());
    let here = here.map(|rest| rest.split("\nEND\n").next().unwrap().to_owned());
    fenced.chain(here).collect()
}
