//! The Helm chart: what it renders, whether the API server accepts it, and that an
//! operator with exactly its rights, arguments and environment completes an order.

mod admission;
mod closed;
mod helm;
mod in_force;
mod install;
mod notes;
mod of_servers;
mod people;
mod pod;
mod policies;
mod reinstall;
mod render;
mod rights;
mod rights_proxy;

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A file or folder of the checkout.
fn checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The values files that the chart is rendered with, by name.
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

/// The objects of a kind among rendered ones.
fn of_kind<'a>(objects: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}
