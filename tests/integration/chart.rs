//! The Helm chart: what it renders, whether the API server accepts it, and whether
//! an operator with exactly its rights, arguments and environment completes an order.

mod admission;
mod helm;
mod install;
mod installed_policies;
mod monitoring;
mod options;
mod pod;
mod policies;
mod printed_commands;
mod reinstall;
pub(crate) mod render;
mod rights;
mod rights_proxy;
mod server_charts;
mod state_metrics;
mod user_roles;
mod values_schema;

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A file or folder of the checkout.
fn checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The values files in `deploy/chart/ci`, by name.
fn values_files() -> Vec<(String, PathBuf)> {
    let mut files: Vec<_> = std::fs::read_dir(checkout("deploy/chart/ci"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name.trim_end_matches("-values").to_owned(), path)
        })
        .collect();
    files.sort();
    assert!(files.len() >= 4);
    files
}

/// The objects of one kind.
pub(crate) fn of_kind<'a>(objects: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}
