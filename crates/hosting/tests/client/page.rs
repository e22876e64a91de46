//! Reads the page of the API: its operations and their error answers.

use std::collections::BTreeSet;

use crate::operations::Operation;

const PAGE: &str = include_str!("../../../../docs/contributing/hosting-api.md");

/// A row of section 4: its id and its text.
fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| 4."));
    rows.filter_map(|row| {
        let mut cells = row.split(" | ");
        Some((cells.next()?, cells.next()?))
    })
}

/// Method and path of each operation that a text names.
fn named(text: &str) -> Vec<(String, String)> {
    let quoted = text.split('`').skip(1).step_by(2);
    let named = quoted.filter_map(|quote| {
        let (method, path) = quote.split_once(' ')?;
        let known = ["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&method);
        (known && path.starts_with("/v3/")).then(|| (method.to_owned(), path.to_owned()))
    });
    named.collect()
}

/// All operations, as method and path with its variable parts named.
pub(crate) fn operations() -> BTreeSet<(String, String)> {
    rows().flat_map(|(_, text)| named(text)).collect()
}

/// The operations of a section such as `4`, as the table knows them.
fn operations_of(section: &str) -> Vec<Operation> {
    let here = rows().filter(|(id, _)| id.split('-').next() == Some(section));
    let here: BTreeSet<_> = here.flat_map(|(_, text)| named(text)).collect();
    let all = Operation::ALL.iter().copied();
    all.filter(|it| here.contains(&(it.method().to_owned(), it.template().to_owned())))
        .collect()
}

/// Error statuses that a text names.
fn statuses(text: &str) -> BTreeSet<u16> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let numbers = words
        .filter(|word| word.len() == 3)
        .filter_map(|word| word.parse().ok());
    numbers
        .filter(|number| (400..600).contains(number))
        .collect()
}

/// Rows that do not name their operations by method or path.
fn operations_of_row(id: &str) -> Option<&'static [Operation]> {
    use Operation::{
        AddTag, ChangePassword, CreateSshKey, CreateTag, DeleteSshKey, HardwareListing, Host,
        Hosts, InstallHost, InstallLog, InstanceTypes, Order, Reinstall, Release, RemoveTag,
        RenameTag, ResetPassword, RestartHost, RootPassword, Server, Servers, StartHost, StopHost,
        Usage, ValidateReset,
    };
    Some(match id {
        "2-3" | "2-4" => &[ChangePassword],
        "2-7" => &[ResetPassword, ValidateReset],
        "2-10" => &[ValidateReset],
        "3-6" => &[InstanceTypes],
        "4-8" => &[Servers],
        "4-11" | "4-12" | "4-13" | "4-14" => &[Order],
        "4-27" => &[RootPassword],
        "4-28" => &[Server, Release, RootPassword, AddTag, RemoveTag],
        "4-29" => &[Reinstall, HardwareListing],
        "6-4" | "6-20" => &[CreateTag],
        "6-23" => &[RenameTag],
        "6-17" => &[AddTag, RemoveTag],
        "6-18" => &[AddTag],
        "6-21" => &[RemoveTag],
        "7-4" | "7-5" => &[Usage],
        "8-15" => &[StartHost, StopHost, RestartHost, InstallHost, InstallLog],
        "8-16" | "8-17" => &[InstallHost],
        "8-21" => &[CreateSshKey],
        "8-24" => &[DeleteSshKey],
        "8-27" => &[Host],
        "8-28" | "8-34" => &[Hosts],
        _ => return None,
    })
}

/// Each error answer that section 4 lists: row, status, and operation.
pub(crate) fn errors() -> BTreeSet<(String, u16, Operation)> {
    let mut all = BTreeSet::new();
    for (id, text) in rows() {
        let statuses = statuses(text);
        if statuses.is_empty() {
            continue;
        }
        let section = id.split('-').next().unwrap();
        let operations =
            operations_of_row(id).map_or_else(|| of_text(section, text), <[_]>::to_vec);
        assert!(!operations.is_empty(), "4.{id} speaks of no operation");
        for status in statuses {
            let speakers = operations.iter();
            all.extend(speakers.map(|it| (format!("4.{id}"), status, *it)));
        }
    }
    all
}

/// The operations of a section that a text means by method and kind of path; all if it names neither.
fn of_text(section: &str, text: &str) -> Vec<Operation> {
    let methods: Vec<_> = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        .into_iter()
        .filter(|method| {
            text.split(|c: char| !c.is_ascii_alphabetic())
                .any(|word| word == *method)
        })
        .collect();
    let part = ["{uuid}", "{hostId}"]
        .into_iter()
        .find(|part| text.contains(part));
    let single = text.contains("of a tag").then_some("/tags/{tag}");
    let entry = text
        .contains("no such entry")
        .then_some("/{apiKeyWhitelistId}");
    let key = text.contains("no such API key").then_some("/whitelist");
    let stored = text.contains("no such key").then_some("/sshKey/{uuid}");
    let command = section == "5";
    operations_of(section)
        .into_iter()
        .filter(|it| methods.is_empty() || methods.contains(&it.method()))
        .filter(|it| part.is_none_or(|part| it.template().contains(part)))
        .filter(|it| single.is_none_or(|end| it.template().ends_with(end)))
        .filter(|it| entry.is_none_or(|end| it.template().ends_with(end)))
        .filter(|it| key.is_none_or(|end| it.template().ends_with(end)))
        .filter(|it| stored.is_none_or(|end| it.template().ends_with(end)))
        .filter(|it| !command || it.template().contains("/commands"))
        .collect()
}

#[test]
fn the_page_is_read_as_it_is_meant() {
    let errors = errors();
    let of = |id: &str| {
        let rows = errors.iter().filter(|(row, _, _)| row == id);
        let statuses: Vec<_> = rows.map(|(_, status, it)| (*status, *it)).collect();
        statuses
    };
    use Operation::{AddToWhitelist, ChangeWhitelist, DeleteTag, Order, RenameTag, Tag, Whitelist};
    assert_eq!(of("4.1-7"), [(404, Whitelist), (404, AddToWhitelist)]);
    assert_eq!(of("4.1-9"), [(422, AddToWhitelist), (422, ChangeWhitelist)]);
    assert_eq!(of("4.1-11").len(), 4);
    assert_eq!(of("4.4-11"), [(400, Order)]);
    assert_eq!(of("4.4-28").len(), 5);
    assert_eq!(of("4.5-8").len(), 3);
    assert_eq!(
        of("4.6-12"),
        [(404, Tag), (404, RenameTag), (404, DeleteTag)]
    );
    assert_eq!(of("4.7-5").len(), 2);
    assert_eq!(of("4.8-15").len(), 5);
    assert_eq!(of("4.9-2"), [(503, Operation::Health)]);
}
