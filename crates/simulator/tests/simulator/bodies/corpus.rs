//! The stored bodies: a folder per operation, with an index of the expected results.
//! `any` holds texts that are not a body of any operation.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A stored body.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) file: String,
    pub(crate) bytes: Vec<u8>,
    /// The expected status.
    pub(crate) status: u16,
    /// The fields that the refusal must name, and no others.
    pub(crate) properties: BTreeSet<String>,
}

fn folder(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("tests/simulator/corpus").join(name)
}

/// Names of the files of a folder, except the index.
pub(crate) fn files(name: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(folder(name)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "index.txt").collect()
}

/// All stored bodies of a folder, from its index: a line has the status, the file
/// and the fields. Every file has its line.
pub(crate) fn kept(name: &str) -> Vec<Kept> {
    let index = fs::read_to_string(folder(name).join("index.txt")).unwrap();
    let kept: Vec<Kept> = index
        .lines()
        .map(|line| {
            let mut words = line.split('\t');
            let status = words.next().unwrap().parse().unwrap();
            let file = words.next().unwrap().to_owned();
            let bytes = fs::read(folder(name).join(&file)).unwrap();
            let properties = words.map(str::to_owned).collect();
            Kept {
                file,
                bytes,
                status,
                properties,
            }
        })
        .collect();
    let listed: BTreeSet<String> = kept.iter().map(|kept| kept.file.clone()).collect();
    assert_eq!(listed, files(name), "the index of {name}");
    kept
}
