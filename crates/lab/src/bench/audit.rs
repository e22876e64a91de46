//! Writes to Kubernetes, as the API server's audit log shows them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Deserialize;

/// The writes of one user in one stretch of the log, by verb, resource and
/// whether the API server accepted them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Writes {
    by_kind: BTreeMap<String, u64>,
    refused: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    verb: String,
    user: User,
    object_ref: Option<Object>,
    response_status: Option<Answer>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    resource: String,
    subresource: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    code: u16,
}

/// How many lines the log has: where a stretch starts.
pub(crate) fn length(log: &Path) -> io::Result<usize> {
    Ok(std::fs::read_to_string(log)?.lines().count())
}

/// The writes of `user` in the lines `from..to`.
pub(crate) fn writes(log: &Path, user: &str, from: usize, to: usize) -> io::Result<Writes> {
    let text = std::fs::read_to_string(log)?;
    Ok(count(text.lines().take(to).skip(from), user))
}

fn count<'a>(lines: impl Iterator<Item = &'a str>, user: &str) -> Writes {
    let mut writes = Writes::default();
    for line in lines {
        let Ok(entry) = serde_json::from_str::<Entry>(line) else {
            continue;
        };
        if entry.user.username != user {
            continue;
        }
        let object = entry.object_ref.map_or_else(String::new, |object| {
            let sub = object.subresource.map(|sub| format!("/{sub}"));
            format!("{}{}", object.resource, sub.unwrap_or_default())
        });
        let code = entry.response_status.map_or(0, |answer| answer.code);
        let (counts, kind) = if (200..300).contains(&code) {
            (&mut writes.by_kind, format!("{} {object}", entry.verb))
        } else {
            (
                &mut writes.refused,
                format!("{} {object} ({code})", entry.verb),
            )
        };
        *counts.entry(kind).or_default() += 1;
    }
    writes
}

impl Writes {
    /// All that were accepted.
    pub(crate) fn total(&self) -> u64 {
        self.by_kind.values().sum()
    }

    /// Those to one resource and its subresources.
    pub(crate) fn of(&self, resource: &str) -> u64 {
        let mut sum = 0;
        for (kind, number) in &self.by_kind {
            let object = kind.split(' ').nth(1).unwrap_or_default();
            if object.split('/').next() == Some(resource) {
                sum += number;
            }
        }
        sum
    }

    /// Those that were accepted, and those that were not.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&str, u64)> {
        let all = self.by_kind.iter().chain(&self.refused);
        all.map(|(kind, number)| (kind.as_str(), *number))
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Both stretches together.
    pub(crate) fn and(mut self, other: Self) -> Self {
        for (kind, number) in other.by_kind {
            *self.by_kind.entry(kind).or_default() += number;
        }
        for (kind, number) in other.refused {
            *self.refused.entry(kind).or_default() += number;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_users_accepted_writes_count() {
        let line = |user: &str, resource: &str, code: u16| {
            format!(
                r#"{{"verb":"patch","user":{{"username":"{user}"}},"objectRef":{{"resource":"{resource}","subresource":"status"}},"responseStatus":{{"code":{code}}}}}"#
            )
        };
        let lines = [
            line("operator", "servers", 200),
            line("operator", "servers", 409),
            line("admin", "servers", 200),
            line("operator", "events", 201),
            "half a li".to_owned(),
        ];
        let writes = count(lines.iter().map(String::as_str), "operator");
        assert_eq!(
            (writes.total(), writes.of("servers"), writes.refused()),
            (2, 1, 1)
        );
    }
}
