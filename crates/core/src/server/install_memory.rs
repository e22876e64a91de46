//! What one process remembers about re-installations. Losing it is safe.

use crate::provider_commands::Search;
use api::install::InstallRecord;
use std::time::Duration;

/// Memory of one object's re-installations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct InstallMemory {
    /// Record of the last re-installation, as far as this process knows its outcome.
    pub record: Option<Box<InstallRecord>>,
    /// The search for the provider's command of the open re-installation.
    pub search: Option<Search>,
    /// When it was last polled.
    pub polled_at: Option<Duration>,
    /// When and why the server could not be installed.
    pub busy: Option<(Duration, String)>,
    /// Number of command pages that did not suffice to read all commands.
    pub too_few_pages: Option<u32>,
    /// Nonce of the attempt without an answer, and since when this process sees it.
    pub unanswered: Option<(String, Duration)>,
}

/// What an effect observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallObservation {
    /// The server cannot be installed now: the explanation.
    Busy(String, Duration),
    /// The request was sent or prepared: the record by then.
    Sent(Box<InstallRecord>, Duration),
    /// The command was polled.
    Polled(Box<InstallRecord>, Duration),
    /// The server has more commands than this number of pages shows.
    Longer(u32),
    /// The command list that started at this time does not contain the attempt's command.
    NotListed(String, Duration),
    /// Several commands may belong to the attempt: their IDs.
    Several(String, String),
}

impl InstallMemory {
    /// Records what an effect observed.
    pub fn record_observation(&mut self, observation: InstallObservation) {
        match observation {
            InstallObservation::Busy(explanation, at) => self.busy = Some((at, explanation)),
            InstallObservation::Sent(record, at) => {
                self.record = Some(record);
                self.busy = None;
                self.polled_at = Some(at);
            }
            InstallObservation::Polled(record, at) => {
                self.record = Some(record);
                self.polled_at = Some(at);
            }
            InstallObservation::Longer(pages) => self.too_few_pages = Some(pages),
            InstallObservation::NotListed(attempt, at) => {
                Search::record_missed(&mut self.search, &attempt, at);
                self.polled_at = Some(at);
            }
            InstallObservation::Several(attempt, ids) => {
                Search::record_several(&mut self.search, &attempt, ids);
            }
        }
    }

    /// Follows the open re-installation, if any.
    pub fn follow_open(&mut self, open: Option<&InstallRecord>, now: Duration) {
        let sought = open.filter(|record| record.command_id.is_none());
        let attempt = sought.map(|record| record.intent.attempt.as_str());
        Search::follow(&mut self.search, attempt, now);
        let unanswered = open.filter(|record| record.outcome.is_none());
        let unanswered = unanswered.map(|record| record.intent.attempt.clone());
        if self.unanswered.as_ref().map(|(attempt, _)| attempt) != unanswered.as_ref() {
            self.unanswered = unanswered.map(|attempt| (attempt, now));
        }
    }
}
