//! Searches every log line of this process, of every crate and level, for secrets.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::canaries;

static SEEN: Mutex<Seen> = Mutex::new(Seen {
    targets: BTreeSet::new(),
    leaks: Vec::new(),
});
static INSTALLED: OnceLock<()> = OnceLock::new();

struct Seen {
    /// The crates that have logged something.
    targets: BTreeSet<String>,
    leaks: Vec<String>,
}

/// Captures all logs from now on, also `log` records.
pub(crate) fn watch() {
    INSTALLED.get_or_init(|| {
        tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_max_level(LevelFilter::TRACE)
            .with_writer(Lines)
            .finish()
            .init();
    });
}

/// Fails the test if a line contained a secret.
pub(crate) fn none_leaked() {
    let seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(seen.leaks.is_empty(), "logs show secrets: {:?}", seen.leaks);
}

/// The crates that have logged something so far.
pub(crate) fn crates() -> BTreeSet<String> {
    let seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    seen.targets.clone()
}

#[derive(Clone, Copy)]
struct Lines;

impl io::Write for Lines {
    /// One whole line at a time.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let leak = canaries::found_in(&text);
        // `TRACE target: message`, after the names of spans.
        let mut words = text.split_ascii_whitespace().skip(1);
        let target = words.find(|word| word.ends_with(':') && !word.contains('{'));
        let target = target
            .and_then(|word| word.split(':').next())
            .unwrap_or_default();
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen.targets.contains(target) {
            seen.targets.insert(target.to_owned());
        }
        if leak.is_some() {
            seen.leaks.push(text.into_owned());
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }
}
