//! The coverage page lists every operation of the client, with the source files that call it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use api::all_crds;

use super::{ROOT, files_below};

/// The client's list of operations. The client's tests compare it with its source and with the API's page.
const OPERATIONS: &str = "crates/hosting/tests/client/operations.rs";
/// Where operations are called, and the file of the client that calls some itself.
const CALLERS: [&str; 2] = ["src", "crates/kubectl-flexmetal/src"];
const CHECK: &str = "crates/hosting/src/check.rs";
/// Users of an operation other than kinds.
const OTHERS: [&str; 2] = ["accounts", "kubectl plugin"];

/// A row of the page.
struct CoverageRow {
    call: String,
    whose: Vec<String>,
    files: BTreeSet<String>,
}

fn read_checkout_file(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Method and path of each operation of the client, with the name of its function.
fn operations() -> BTreeMap<String, String> {
    let text = read_checkout_file(OPERATIONS);
    let rows = text.lines().filter_map(|line| {
        let quoted: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
        let [call, method, path] = quoted[..] else {
            return None;
        };
        let is_row = path.starts_with("/v3/");
        is_row.then(|| (format!("{method} {path}"), call.to_owned()))
    });
    rows.collect()
}

/// The rows of the page by operation.
fn rows() -> BTreeMap<String, CoverageRow> {
    let page = read_checkout_file("docs/contributing/coverage.md");
    let mut rows = BTreeMap::new();
    for line in page.lines().filter(|line| line.contains("/v3/")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [operation, call, whose, from] = cells[..] else {
            panic!("not four columns: {line}");
        };
        let quoted = |cell: &str| -> Vec<String> {
            let quotes = cell.split('`').skip(1).step_by(2);
            quotes.map(str::to_owned).collect()
        };
        let row = CoverageRow {
            call: quoted(call).concat(),
            whose: whose.split(", ").map(str::to_owned).collect(),
            files: quoted(from).into_iter().collect(),
        };
        let previous = rows.insert(quoted(operation).concat(), row);
        assert!(previous.is_none(), "twice in the table: {operation}");
    }
    rows
}

/// The files that call this function, without tests.
fn callers(call: &str, sources: &BTreeMap<String, String>) -> BTreeSet<String> {
    let calls = ["client", "client()"].map(|client| format!("{client}.{call}("));
    let callers = sources
        .iter()
        .filter(|(_, source)| calls.iter().any(|call| source.contains(call)));
    callers.map(|(path, _)| path.clone()).collect()
}

/// The sources by path, without tests and whitespace.
fn sources() -> BTreeMap<String, String> {
    let mut sources = BTreeMap::new();
    let files = CALLERS.map(|path| files_below(&Path::new(ROOT).join(path), "rs"));
    let check = Path::new(ROOT).join(CHECK);
    for file in files.into_iter().flatten().chain([check]) {
        let path = file
            .strip_prefix(ROOT)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        if path.contains("/tests/") || path.ends_with("tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        sources.insert(path, text.split_whitespace().collect());
    }
    sources
}

#[test]
fn coverage_page_lists_client_operations() {
    let operations = operations();
    let calls: BTreeMap<_, _> = rows()
        .into_iter()
        .map(|(key, row)| (key, row.call))
        .collect();
    assert_eq!(calls, operations);
    assert!(operations.len() > 40, "only {} were read", operations.len());
}

#[test]
fn operations_are_called_as_documented() {
    let (sources, mut wrong) = (sources(), Vec::new());
    for (operation, row) in rows() {
        let callers = callers(&row.call, &sources);
        if row.files != callers || callers.is_empty() {
            wrong.push(format!(
                "{operation}: the row says {:?}, it is called from {callers:?}",
                row.files
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "docs/contributing/coverage.md: {wrong:#?}"
    );
}

#[test]
fn called_operations_have_existing_kinds() {
    let kinds: Vec<String> = all_crds()
        .into_iter()
        .map(|crd| crd.spec.names.kind)
        .collect();
    for (operation, row) in rows() {
        for whose in &row.whose {
            let is_kind = kinds.contains(whose);
            assert!(
                is_kind || OTHERS.contains(&whose.as_str()),
                "{operation} is called for {whose}, which is no kind"
            );
            assert!(!whose.is_empty(), "{operation} is for nobody");
        }
    }
}
