//! The one effect that wipes a host: the note in status, then the request, once; and the looks at its log.

use super::{
    HostContext,
    act::{Done, busy, ended, failed, held, nonce, read_host, reread_with_key, stale},
    note::note,
    switched,
    texts::{self, Texts},
};
use crate::{
    account::{Account, Permit},
    runtime::clock,
};
use api::{
    DedicatedHost, Reason,
    host_install::{HostInstallRecord, HostLog, RequestForm},
};
use flexmetal_core::{
    cause::Cause,
    host::{
        decide::{
            attempt::{self, Before},
            install::{self, NewInstall},
        },
        facts::{Facts, LogSight, MOST_LOG_PAGES, Observation},
    },
    host_record::against,
    once::{self, Closed, Stage},
    pass::Ended,
    server_commands::UnderWay,
    trouble::Trouble,
};
use futures::FutureExt as _;
use hosting::listing::Listing;
use hosting_types::{
    HostId, SshKeyId,
    host::{HostInstall, InstallForm, InstallLogEntry},
    list::Gap,
    page::Page,
};
use tokio::sync::Mutex;

/// So many characters of a line of a log are shown.
const LINE: usize = 256;
/// What names an error in a log.
const ERRORS: [&str; 2] = ["error", "fail"];

/// Notes that the host is installed, and sends the request at most once: on object, account, host and log as they were read
/// right before.
pub(super) async fn install(
    ctx: &HostContext,
    facts: &Facts,
    account: &Account,
    mut permit: Permit,
    new: &NewInstall,
) -> Done {
    let since = clock::now();
    let window = account.view().times.send_window;
    let fresh = match reread_with_key(ctx, facts, account).await {
        Ok(fresh) => fresh,
        Err(done) => return done,
    };
    let Some(known) = install::may_start(&fresh, new) else {
        return stale();
    };
    let texts = match texts::read(ctx, &fresh.subject.object).await {
        Ok(texts) => texts,
        Err(cause) => return held(&fresh, cause),
    };
    let request = match request(
        &fresh.subject.object,
        new,
        texts,
        account.view().install_form,
    ) {
        Ok(request) => request,
        Err(cause) => return held(&fresh, cause),
    };
    let id = HostId(new.host);
    let host = match read_host(&mut permit, id).await {
        Ok(host) => host,
        Err(done) => return done,
    };
    if let Some(why) = against(&host, new.host, new.server_id, Some(&known)) {
        return busy(&fresh, &why);
    }
    let seen = known.log.unwrap_or_default();
    let log = match log_of(&mut permit, id, new.pages, seen).await {
        Ok(log) => log.summary(),
        Err(NoLog::Longer) => return (Ended::Done, Observation::LongLog),
        Err(NoLog::Failed(why) | NoLog::TooLong(why)) => {
            let why = format!("the log of host {id} cannot be read ({why})");
            return busy(&fresh, &why);
        }
    };
    let started = (since, window);
    let intent = attempt::intent(&fresh, new, nonce(), started, (&host, log));
    if let Before::Repeated(why) = attempt::before(&known, &log) {
        let record = attempt::repeated(intent, why, clock::now().wall);
        return told(Ended::Done, record);
    }
    if !ctx.may_act() {
        return stale();
    }
    if clock::now().since(since.mono) >= window {
        let why = "the looks at the host right before took too long";
        return failed(Trouble::unexpected(why));
    }
    let record = HostInstallRecord::open(intent);
    let status = attempt::installing(&fresh, known, &record);
    let object = fresh.subject.object.clone();
    let shown = |object: &_| attempt::shown_install(object, &record.intent);
    match note(ctx, object, &status, shown).await {
        Stage::Send => {}
        Stage::Closed(Closed::NotStarted) => return stale(),
        _ => {
            let why = "that it is under way could not be noted in the object's status";
            return unsent(record, why);
        }
    }
    // Who sends a command notes that first, and reads this object then: from here on none begins.
    let host = switched(ctx, &fresh.subject.object);
    let commands = ctx.server_commands.clone();
    let commands = commands.under_way_now(&host).await;
    let against = match reread_with_key(ctx, &fresh, account).await {
        _ if !matches!(commands, Ok(UnderWay::Nothing)) => {
            Some("a ServerCommand may be under way, or they could not be read")
        }
        Err(_) => Some("object, account or SSH key could not be read after it was noted"),
        Ok(last) if !install::may_send(&last, new, &record.intent) => {
            Some("object, account or SSH key changed after it was noted")
        }
        Ok(_) if !once::may_send(since, record.intent.send_by, clock::now(), window) => {
            Some("it was started too long ago")
        }
        Ok(_) if !account.stands_on(&permit, Some(&new.account.connection)) => {
            Some("the account has another key or URL since it was started")
        }
        Ok(_) if !ctx.may_act() => Some("this operator does not act there any more"),
        Ok(_) => None,
    };
    if let Some(why) = against {
        return unsent(record, why);
    }
    // The last that is known if this process ends before the answer.
    tracing::info!(
        namespace = fresh.subject.namespace(),
        name = fresh.subject.name(),
        host = new.host,
        revision = new.revision,
        attempt = record.intent.attempt,
        "sending an installation"
    );
    let answer = permit.call(async |client| client.install_host(id, &request).await);
    let answer = answer.await;
    let mut ended = ended(&answer);
    if let Err(error) = &answer {
        let why = attempt::explained(error, record.intent.secret_texts);
        tracing::warn!(
            attempt = record.intent.attempt,
            error = why,
            "an installation was not taken, or its answer was lost"
        );
        if let Ended::Failed(trouble) = &mut ended {
            trouble.message = why;
        }
    }
    told(ended, attempt::answered_install(record, &answer))
}

/// The request.
fn request(
    object: &DedicatedHost,
    new: &NewInstall,
    texts: Texts,
    form: RequestForm,
) -> Result<HostInstall, Cause> {
    let person = |why: String| {
        let text = format!("spec: {why}; correct it");
        Cause::needs_person(Reason::InvalidSpec, text)
    };
    let spec = &object.spec;
    let Some(install) = &spec.install else {
        return Err(person("there is no install any more".to_owned()));
    };
    let key = SshKeyId::parse(&new.key);
    let key = key.map_err(|_| person("the SSH key has no usable identifier".to_owned()))?;
    let request = HostInstall {
        os_id: new.os_id,
        family: new.family,
        hostname: spec.hostname.clone(),
        kernel_params: texts.params,
        post_install_script: texts.script.map(|script| new.family.runnable(&script)),
        ssh_key: Some(key),
        quick_format: install.wipe_disk,
        form: match form {
            RequestForm::Documented => InstallForm::default(),
            RequestForm::Observed => InstallForm::OBSERVED,
        },
    };
    request.check().map_err(|why| person(why.to_string()))?;
    Ok(request)
}

fn unsent(record: HostInstallRecord, why: &str) -> Done {
    told(Ended::Stale, attempt::unsent_install(record, why))
}

fn told(ended: Ended, record: HostInstallRecord) -> Done {
    let at = clock::now().mono;
    (ended, Observation::Installed(Box::new(record), at))
}

/// Reads the log. A line of it is shown where it is of an installation with which no secret went. That it cannot be read holds
/// up nothing else.
pub(super) async fn read_log(facts: &Facts, mut permit: Permit, pages: u32) -> Done {
    let at = clock::now().mono;
    let open = facts.install().and_then(|known| known.open().cloned());
    let shown = open.filter(|open| !open.intent.secret_texts);
    let id = HostId(facts.number());
    let seen = facts.subject.memory.own.log.as_ref();
    let seen = seen.map(|sight| sight.log).unwrap_or_default();
    let observation = match log_of(&mut permit, id, pages, seen).await {
        Ok(log) => Observation::Log(LogSight {
            at,
            log: log.summary(),
            error: shown.and_then(|open| last_error(log.entries, &open.intent.log)),
        }),
        Err(NoLog::Longer) => Observation::LongLog,
        Err(NoLog::Failed(why)) => Observation::NoLog(clock::now().mono, why, false),
        Err(NoLog::TooLong(why)) => Observation::NoLog(clock::now().mono, why, true),
    };
    (Ended::Done, observation)
}

/// Why a log cannot be had.
enum NoLog {
    /// It is longer than so many pages: more are asked for next time.
    Longer,
    /// Its end is not found: in words.
    TooLong(String),
    /// Anything else: in words.
    Failed(String),
}

/// A log: its entries, but for older ones of a long log.
struct Log {
    entries: Vec<InstallLogEntry>,
    /// How many there are.
    count: u32,
}

impl Log {
    /// How far it goes.
    fn summary(&self) -> HostLog {
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

/// The log, by so many calls of the permit at most: a short one whole, of a long one the end. `seen`: how far it went before.
async fn log_of(permit: &mut Permit, id: HostId, pages: u32, seen: HostLog) -> Result<Log, NoLog> {
    if pages >= MOST_LOG_PAGES {
        return end_of_log(permit, id, pages, seen).await;
    }
    let calls = Mutex::new((permit, pages));
    let calls = &calls;
    let list = Listing::of_install_log(move |page| {
        async move {
            let mut calls = calls.lock().await;
            let Some(left) = calls.1.checked_sub(1) else {
                return Err(Gap::TooMany);
            };
            calls.1 = left;
            let page = calls
                .0
                .call(async |client| client.install_log(id, page, &[]).await);
            Ok(page.await?)
        }
        .boxed()
    });
    // It grows while the host is installed.
    match list.growing().collect().await {
        Ok(all) => {
            let entries = all.into_records();
            let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
            Ok(Log { entries, count })
        }
        Err(incomplete) => Err(match incomplete.gap {
            Gap::Failed(error) => NoLog::Failed(error.explain()),
            Gap::TooMany => NoLog::Longer,
            gap => NoLog::Failed(gap.to_string()),
        }),
    }
}

async fn end_of_log(
    permit: &mut Permit,
    id: HostId,
    pages: u32,
    seen: HostLog,
) -> Result<Log, NoLog> {
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
            return Ok(Log { entries, count });
        }
        is_found = search.is_over_after(came);
    }
    Err(NoLog::TooLong(format!(
        "its end is not found within {pages} pages"
    )))
}

/// The search for the end of a log. Nothing says how long it is: pages are read further and further on until one is empty,
/// then between.
struct EndSearch {
    /// It has at least so many entries.
    least: u32,
    /// It had no more than so many.
    most: Option<u32>,
    /// Where the next page starts; in the end the last one.
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

    /// Whether the end is known, after a page with so many entries.
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

/// The last line that names an error, of those that came after.
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
    fn the_last_error_of_this_installation_is_shown_and_it_is_short() {
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
            Log { entries, count }.summary()
        };
        let told = summary(&log);
        assert_eq!((told.entries, told.last_id), (6, Some(6)));
        assert_eq!(told.newest, Some(106));
        // A date of 0 is none.
        assert_eq!(summary(&[entry(None, 0, "a")]).newest, None);
    }

    #[test]
    fn the_end_of_a_log_is_found_however_long_it_is() {
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
