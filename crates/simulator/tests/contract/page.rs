//! The page of the API as data: its rows, and the operations of section 4.

use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../docs/contributing/hosting-api.md");

/// A row with an id.
pub(crate) struct Row {
    pub(crate) id: &'static str,
    pub(crate) text: &'static str,
    pub(crate) origin: &'static str,
}

/// All rows, from top to bottom.
pub(crate) fn rows() -> impl Iterator<Item = Row> {
    PAGE.lines().filter_map(|line| {
        let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let (id, rest) = line.split_once(" | ")?;
        let (text, origin) = rest.rsplit_once(" | ")?;
        let (section, number) = id.split_once('-')?;
        let digits =
            |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
        (digits(section) && digits(number)).then_some(Row { id, text, origin })
    })
}

/// What stands between backticks.
pub(crate) fn quoted(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split('`').skip(1).step_by(2)
}

/// Every operation of section 4: method and path with its parameters.
pub(crate) fn operations() -> BTreeSet<&'static str> {
    let methods = ["GET ", "POST ", "PUT ", "PATCH ", "DELETE "];
    let section = rows().filter(|row| row.id.starts_with("4."));
    section
        .flat_map(|row| quoted(row.text))
        .filter(|text| methods.iter().any(|method| text.starts_with(method)))
        .filter(|text| text.contains(" /v3/"))
        .collect()
}

#[test]
fn contract_the_page_has_rows_and_operations() {
    assert!(rows().count() > 300);
    let all = operations();
    assert_eq!(all.len(), 43, "{all:#?}");
    for known in ["GET /v3/health", "PATCH /v3/flexMetal/servers/{uuid}"] {
        assert!(all.contains(known), "{known}");
    }
    let origins: BTreeSet<_> = rows().map(|row| row.origin).collect();
    let known = ["documented", "our choice", "seen in clients"];
    assert_eq!(origins.into_iter().collect::<Vec<_>>(), known);
}
