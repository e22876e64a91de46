//! Counts writes to Kubernetes with the API server's audit log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::PathBuf;

use serde::Deserialize;

/// The writes of one user in one stretch of the log, by verb, resource and result.
/// Without lease renewals, which happen periodically in any case.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Writes {
    by_kind: BTreeMap<String, u64>,
    refused: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditEvent {
    verb: String,
    user: AuditUser,
    object_ref: Option<AuditObjectRef>,
    response_status: Option<AuditResponseStatus>,
}

#[derive(Deserialize)]
struct AuditUser {
    username: String,
}

#[derive(Deserialize)]
struct AuditObjectRef {
    #[serde(default)]
    resource: String,
    subresource: Option<String>,
}

#[derive(Deserialize)]
struct AuditResponseStatus {
    #[serde(default)]
    code: u16,
}

/// The log of one user's writes. It grows to some hundred megabytes, so each read starts where the last one ended.
pub(crate) struct AuditLog {
    file: PathBuf,
    user: &'static str,
    /// Offset of the first line that is not counted yet.
    read: u64,
    total: Writes,
}

impl AuditLog {
    /// Opens the log with no line counted.
    pub(crate) fn new(file: PathBuf, user: &'static str) -> Self {
        Self {
            file,
            user,
            read: 0,
            total: Writes::default(),
        }
    }

    /// All writes up to now.
    pub(crate) fn writes(&mut self) -> io::Result<&Writes> {
        let mut file = File::open(&self.file)?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut lines = BufReader::new(file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = lines.read_until(b'\n', &mut line)?;
            // A line that is still being written is counted by a later read.
            if line.last() != Some(&b'\n') {
                return Ok(&self.total);
            }
            self.read += u64::try_from(length).unwrap_or_default();
            self.total.count(&line, self.user);
        }
    }
}

impl Writes {
    /// Counts one line of the log, if it is about this user.
    fn count(&mut self, line: &[u8], user: &str) {
        let Ok(entry) = serde_json::from_slice::<AuditEvent>(line) else {
            return;
        };
        if entry.user.username != user {
            return;
        }
        if entry
            .object_ref
            .as_ref()
            .is_some_and(|o| o.resource == "leases")
        {
            return;
        }
        let object = entry.object_ref.map_or_else(String::new, |object| {
            let sub = object.subresource.map(|sub| format!("/{sub}"));
            format!("{}{}", object.resource, sub.unwrap_or_default())
        });
        let code = entry.response_status.map_or(0, |answer| answer.code);
        let (counts, kind) = if (200..300).contains(&code) {
            (&mut self.by_kind, format!("{} {object}", entry.verb))
        } else {
            let kind = format!("{} {object} ({code})", entry.verb);
            (&mut self.refused, kind)
        };
        *counts.entry(kind).or_default() += 1;
    }

    /// The writes after `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let less = |now: &BTreeMap<String, u64>, then: &BTreeMap<String, u64>| {
            now.iter()
                .map(|(kind, number)| (kind, number - then.get(kind).copied().unwrap_or_default()))
                .filter(|(_, number)| *number > 0)
                .map(|(kind, number)| (kind.clone(), number))
                .collect()
        };
        Self {
            by_kind: less(&self.by_kind, &earlier.by_kind),
            refused: less(&self.refused, &earlier.refused),
        }
    }

    /// Number of accepted writes.
    pub(crate) fn total(&self) -> u64 {
        self.by_kind.values().sum()
    }

    /// Number of accepted writes to one resource and its subresources.
    pub(crate) fn total_for_resource(&self, resource: &str) -> u64 {
        let mut sum = 0;
        for (kind, number) in &self.by_kind {
            let object = kind.split(' ').nth(1).unwrap_or_default();
            if object.split('/').next() == Some(resource) {
                sum += number;
            }
        }
        sum
    }

    /// The counts of accepted and refused writes, by kind.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&str, u64)> {
        let all = self.by_kind.iter().chain(&self.refused);
        all.map(|(kind, number)| (kind.as_str(), *number))
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.values().sum()
    }

    /// The sum of two stretches.
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
            line("operator", "leases", 200),
            "half a li".to_owned(),
        ];
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit.log");
        std::fs::write(&file, lines.join("\n")).unwrap();
        let mut log = AuditLog::new(file.clone(), "operator");
        let first = log.writes().unwrap().clone();
        assert_eq!(
            (
                first.total(),
                first.total_for_resource("servers"),
                first.refused()
            ),
            (2, 1, 1)
        );
        // The half-written line is complete now, and more follow.
        let more = [
            &lines[..5],
            &[line("operator", "servers", 200), String::new()],
        ]
        .concat();
        std::fs::write(&file, more.join("\n")).unwrap();
        let later = log.writes().unwrap().since(&first);
        assert_eq!(
            (
                later.total(),
                later.total_for_resource("servers"),
                later.refused()
            ),
            (1, 1, 0)
        );
        assert_eq!(log.writes().unwrap().total(), 3);
    }
}
