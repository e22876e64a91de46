//! Reads the end of a host's installation log, of any length, and the last error in it.

use super::act::HostEffectResult;
use crate::{account::Permit, runtime::clock};
use api::host_install::HostLog;
use flexmetal_core::{
    host::facts::{HostFacts, HostObservation, InstallLogSnapshot, MOST_LOG_PAGES},
    reconcile::Ended,
};
use futures::FutureExt as _;
use hosting::listing::Listing;
use hosting_types::{HostId, host::InstallLogEntry, list::ListGap, page::Page};
use tokio::sync::Mutex;

/// The most characters of a log line that are shown.
const LINE: usize = 256;
/// The words that identify an error in a log.
const ERRORS: [&str; 2] = ["error", "fail"];

/// Reads the log. A line of it is shown only if the installation sent no secrets. A failed read blocks nothing else.
pub(super) async fn read_log(
    facts: &HostFacts,
    mut permit: Permit,
    pages: u32,
) -> HostEffectResult {
    let at = clock::now().mono;
    let open = facts
        .install()
        .and_then(|known| known.unfinished().cloned());
    let shown = open.filter(|open| !open.intent.secret_texts);
    let id = HostId(facts.number());
    let seen = facts.subject.memory.own.log.as_ref();
    let seen = seen.map(|snapshot| snapshot.log).unwrap_or_default();
    let observation = match log_of(&mut permit, id, pages, seen).await {
        Ok(log) => HostObservation::Log(InstallLogSnapshot {
            at,
            log: log.summary(),
            error: shown.and_then(|open| last_error(log.entries, &open.intent.log)),
        }),
        Err(NoLog::Longer) => HostObservation::LongLog,
        Err(NoLog::Failed(why)) => HostObservation::NoLog(clock::now().mono, why, false),
        Err(NoLog::TooLong(why)) => HostObservation::NoLog(clock::now().mono, why, true),
    };
    (Ended::Done, observation)
}

/// Why a log is not available.
pub(super) enum NoLog {
    /// It has more pages than were allowed; the next read asks for more.
    Longer,
    /// Its end was not found; with the message.
    TooLong(String),
    /// Any other failure; with the message.
    Failed(String),
}

/// The entries of a log; of a long log, older ones are missing.
pub(super) struct InstallLog {
    entries: Vec<InstallLogEntry>,
    /// The number of entries.
    count: u32,
}

impl InstallLog {
    /// How far the log goes.
    pub(super) fn summary(&self) -> HostLog {
        let entries = self.entries.iter();
        HostLog {
            entries: i64::from(self.count),
            last_id: entries.clone().filter_map(|entry| entry.id).max(),
            newest: entries
                .filter_map(|entry| entry.written_at)
                .max()
                .filter(|at| *at > 0),
        }
    }
}

/// Reads the log with at most `pages` calls: a short log whole, of a long one the end. `seen`: how far it went before.
pub(super) async fn log_of(
    permit: &mut Permit,
    id: HostId,
    pages: u32,
    seen: HostLog,
) -> Result<InstallLog, NoLog> {
    if pages >= MOST_LOG_PAGES {
        return end_of_log(permit, id, pages, seen).await;
    }
    let calls = Mutex::new((permit, pages));
    let calls = &calls;
    let list = Listing::of_install_log(move |page| {
        async move {
            let mut calls = calls.lock().await;
            let Some(left) = calls.1.checked_sub(1) else {
                return Err(ListGap::TooMany);
            };
            calls.1 = left;
            let page = calls
                .0
                .call(async |client| client.install_log(id, page, &[]).await);
            Ok(page.await?)
        }
        .boxed()
    });
    // The log grows while the host is installed.
    match list.growing().collect().await {
        Ok(all) => {
            let entries = all.into_records();
            let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
            Ok(InstallLog { entries, count })
        }
        Err(incomplete) => Err(match incomplete.gap {
            ListGap::Failed(error) => NoLog::Failed(error.explain()),
            ListGap::TooMany => NoLog::Longer,
            gap => NoLog::Failed(gap.to_string()),
        }),
    }
}

async fn end_of_log(
    permit: &mut Permit,
    id: HostId,
    pages: u32,
    seen: HostLog,
) -> Result<InstallLog, NoLog> {
    let mut entries = Vec::new();
    let mut search = EndSearch::new(u32::try_from(seen.entries).unwrap_or_default());
    // The last call is for the last page.
    let mut is_found = false;
    for _ in 1..pages {
        let page = Page::new(search.start, Page::MOST);
        let found = permit.call(async |client| client.install_log(id, page, &[]).await);
        let found = found.await;
        let found = found.map_err(|error| NoLog::Failed(error.explain()))?;
        let came = found.len();
        entries.extend(found);
        if is_found {
            let count = search.least;
            return Ok(InstallLog { entries, count });
        }
        is_found = search.is_over_after(came);
    }
    Err(NoLog::TooLong(format!(
        "its end is not within {pages} pages"
    )))
}

/// The search for the end of a log of unknown length: it reads ever later pages until one is empty, then pages in
/// between.
struct EndSearch {
    /// The log has at least this many entries.
    least: u32,
    /// The log had at most this many entries, if known.
    most: Option<u32>,
    /// The start of the next page; at the end of the search, of the last page.
    start: u32,
    step: u32,
}

impl EndSearch {
    fn new(seen: u32) -> Self {
        Self {
            least: 0,
            most: None,
            start: seen.saturating_sub(1),
            step: Page::MOST,
        }
    }

    /// Whether the end is known, after a page with this many entries.
    fn is_over_after(&mut self, came: usize) -> bool {
        match u32::try_from(came).unwrap_or(u32::MAX) {
            0 => self.most = Some(self.start),
            came => self.least = self.start.saturating_add(came),
        }
        let least = self.least;
        let is_over = self.most.is_some_and(|most| most <= least);
        self.start = match self.most {
            _ if is_over => least.saturating_sub(Page::MOST),
            Some(most) if most - least > Page::MOST => least + (most - least) / 2,
            Some(_) => least,
            None => least.saturating_add(self.step - Page::MOST),
        };
        if self.most.is_none() {
            self.step = self.step.saturating_mul(2);
        }
        is_over
    }
}

/// The last line that names an error, of the lines after `before`.
fn last_error(mut entries: Vec<InstallLogEntry>, before: &HostLog) -> Option<String> {
    entries.retain(|entry| match (entry.id, before.last_id) {
        (Some(id), Some(last)) => id > last,
        (Some(_), None) => before.entries == 0 || entry.written_at > before.newest,
        (None, _) => entry.written_at > before.newest,
    });
    entries.sort_by_key(|entry| (entry.written_at, entry.id));
    entries.iter().rev().map(line).find(|line| {
        let line = line.to_lowercase();
        ERRORS.iter().any(|word| line.contains(word))
    })
}

fn line(entry: &InstallLogEntry) -> String {
    let category = [&entry.category_name, &entry.category];
    let category = category.into_iter().find(|text| !text.is_empty());
    let parts = [
        category.map(|text| format!("{text}:")),
        Some(entry.description.clone()),
        Some(entry.resolved.clone()),
    ];
    let parts = parts.into_iter().flatten().filter(|part| !part.is_empty());
    let line = parts.collect::<Vec<_>>().join(" ");
    line.chars()
        .filter(|letter| !letter.is_control())
        .take(LINE)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: Option<i64>, at: i64, text: &str) -> InstallLogEntry {
        InstallLogEntry {
            id,
            is_open: false,
            written_at: Some(at),
            category: "install".into(),
            category_name: String::new(),
            description: text.into(),
            resolved: String::new(),
        }
    }

    #[test]
    fn last_error_of_this_installation_is_shortened() {
        let long = "x".repeat(500);
        let before = HostLog {
            entries: 2,
            last_id: Some(2),
            newest: Some(102),
        };
        let mut log = vec![
            entry(Some(1), 101, "step"),
            entry(Some(2), 102, "an error of the one before"),
            entry(Some(3), 103, "step"),
        ];
        assert_eq!(last_error(log.clone(), &before), None);
        log.push(entry(Some(4), 104, "disk failure"));
        log.push(entry(Some(5), 105, "step"));
        let shown = last_error(log.clone(), &before);
        assert_eq!(shown.as_deref(), Some("install: disk failure"));
        log.push(entry(Some(6), 106, &format!("a\u{7}b Error {long}")));
        let shown = last_error(log.clone(), &before).unwrap();
        assert!(shown.starts_with("install: ab Error x"), "{shown}");
        assert_eq!(shown.chars().count(), LINE);
        let summary = |entries: &[InstallLogEntry]| {
            let count = u32::try_from(entries.len()).unwrap();
            let entries = entries.to_vec();
            InstallLog { entries, count }.summary()
        };
        let found = summary(&log);
        assert_eq!((found.entries, found.last_id), (6, Some(6)));
        assert_eq!(found.newest, Some(106));
        // A date of 0 counts as none.
        assert_eq!(summary(&[entry(None, 0, "a")]).newest, None);
    }

    #[test]
    fn log_end_is_found_at_any_length() {
        for length in [0_u32, 1, 49, 50, 980, 981, 1200, 12_345] {
            for seen in [0, length / 2, length, length.saturating_sub(7), length + 60] {
                let mut search = EndSearch::new(seen);
                let came = |start: u32| length.saturating_sub(start).min(Page::MOST) as usize;
                let mut calls = 1;
                while !search.is_over_after(came(search.start)) {
                    calls += 1;
                    assert!(calls < MOST_LOG_PAGES - 1, "{length} entries, {seen} seen");
                }
                assert_eq!(search.least, length, "{seen} seen");
                assert_eq!(search.start, length.saturating_sub(Page::MOST));
                assert!(seen != length || calls <= 2, "{calls} calls");
            }
        }
    }
}
