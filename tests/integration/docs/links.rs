//! Links lead to files and headings that exist, and pages for users do not link to pages for contributors.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::{ROOT, pages, words::user_pages};

/// The lines of a page outside code blocks.
pub(super) fn outside_blocks(page: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_inside ^= is_fence;
        !is_inside && !is_fence
    })
}

/// The targets of a page's links within the checkout.
fn links(page: &str) -> Vec<&str> {
    let targets = outside_blocks(page).flat_map(|line| line.split("](").skip(1));
    let targets = targets.filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

/// The anchors that GitHub gives to the headings of a page.
pub(crate) fn anchors(page: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let headings = outside_blocks(page).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let anchor = anchor(line.trim_start_matches('#').trim());
            let count = counts.entry(anchor.clone()).or_default();
            *count += 1;
            match *count {
                1 => anchor,
                more => format!("{anchor}-{}", more - 1),
            }
        })
        .collect()
}

/// The anchor of a heading. For a link, its text counts.
fn anchor(heading: &str) -> String {
    let mut parts = heading.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    let text = parts.fold(first, |text, part| {
        text + part.split_once(')').map_or("", |(_, rest)| rest)
    });
    text.chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .flat_map(char::to_lowercase)
        .collect()
}

#[test]
fn every_link_target_exists() {
    let mut wrong = Vec::new();
    for (page, text) in pages() {
        for link in links(&text) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let file = match path {
                "" => page.clone(),
                path => page.parent().unwrap().join(path),
            };
            let is_page = file.extension().is_some_and(|e| e == "md");
            let is_there = match heading {
                "" => file.exists(),
                heading if is_page => {
                    fs::read_to_string(&file).is_ok_and(|text| anchors(&text).contains(heading))
                }
                _ => file.exists(),
            };
            if !is_there {
                wrong.push(format!("{} links {link}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn user_pages_do_not_link_contributor_pages() {
    let contributing = fs::canonicalize(Path::new(ROOT).join("docs/contributing")).unwrap();
    let mut wrong = Vec::new();
    for (page, text) in user_pages() {
        let folder = Path::new(ROOT).join(&page);
        let folder = folder.parent().unwrap();
        for link in links(&text) {
            let path = link.split('#').next().unwrap_or_default();
            let target = fs::canonicalize(folder.join(path));
            if target.is_ok_and(|target| target.starts_with(&contributing)) {
                wrong.push(format!("{page} links {link}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn anchors_are_those_of_github() {
    let page = "# One: `two`, three\n```sh\n# no heading\n```\n## NoStock\n## NoStock\n### A [link](b.md#c) – d_e\n";
    let expected = ["a-link--d_e", "nostock", "nostock-1", "one-two-three"];
    assert!(anchors(page).iter().eq(expected), "{:?}", anchors(page));
}
