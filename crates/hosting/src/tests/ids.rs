//! The page of the API: its IDs are in order, and those that the code cites exist.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../../../../docs/contributing/hosting-api.md");

/// All rows: ID and origin.
fn rows() -> Vec<(&'static str, &'static str)> {
    let cells = |line: &'static str| line.trim_matches('|').split(" | ").collect::<Vec<_>>();
    PAGE.lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| id"))
        .map(cells)
        .map(|cells| (cells[0].trim(), cells[cells.len() - 1].trim()))
        .collect()
}

fn is_id(text: &str) -> bool {
    let Some((section, number)) = text.split_once('-') else {
        return false;
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    section.split('.').all(digits) && section.split('.').count() <= 2 && digits(number)
}

#[test]
fn every_row_has_its_number_and_its_origin() {
    let mut last = ("", 0);
    let mut sections = HashSet::new();
    for (id, origin) in rows() {
        assert!(is_id(id), "{id}");
        assert!(
            ["documented", "seen in clients", "our choice"].contains(&origin),
            "{id}: {origin}"
        );
        let (section, number) = id.split_once('-').unwrap();
        let number: u32 = number.parse().unwrap();
        if section != last.0 {
            assert!(sections.insert(section), "{id} stands apart");
            last = (section, 0);
        }
        assert_eq!(number, last.1 + 1, "{id}");
        last = (section, number);
    }
    assert!(sections.len() > 30, "{}", sections.len());
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_id_cited_in_code_is_documented() {
    let known: HashSet<_> = rows().into_iter().map(|(id, _)| id).collect();
    let mut files = Vec::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut files,
    );
    let mut cited = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for line in text.lines().filter(|line| line.trim().starts_with("//")) {
            // Only IDs of sections with two numbers: `8-2` may be a range.
            let words = line.split(|letter: char| !matches!(letter, '0'..='9' | '.' | '-'));
            let words = words.map(|word| word.trim_end_matches('.'));
            for id in words.filter(|word| is_id(word) && word.contains('.')) {
                assert!(known.contains(id), "{}: {id}", file.display());
                cited += 1;
            }
        }
    }
    assert!(cited > 60, "{cited}");
}
