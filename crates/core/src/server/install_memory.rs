//! What one process remembers of a re-installation. To lose it is always safe.

use crate::provider_commands::Search;
use api::install::InstallRecord;
use std::time::Duration;

/// Memory of the re-installations of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct InstallMemory {
    /// The last one, as far as this process knows what came of it.
    pub record: Option<Box<InstallRecord>>,
    /// The search for the command by which it goes on.
    pub search: Option<Search>,
    /// When it was last looked at.
    pub polled_at: Option<Duration>,
    /// Why the machine could not be installed, and when.
    pub busy: Option<(Duration, String)>,
    /// So many pages of its commands were too few to read all of them.
    pub too_few_pages: Option<u32>,
    /// The attempt whose request was not answered, by its nonce, and since when this process sees it.
    pub unanswered: Option<(String, Duration)>,
}

/// What an effect brought to light.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallObservation {
    /// The machine cannot be installed now: in words.
    Busy(String, Duration),
    /// The request was sent, or was about to be, with what came of it by then.
    Sent(Box<InstallRecord>, Duration),
    /// It was looked at.
    Polled(Box<InstallRecord>, Duration),
    /// The machine has more commands than so many pages show.
    Longer(u32),
    /// The list of commands, begun then, does not show the one of this attempt.
    NotListed(String, Duration),
    /// It shows several that may be it.
    Several(String, String),
}

impl InstallMemory {
    /// Takes in what an effect brought to light.
    pub fn record_observation(&mut self, observation: InstallObservation) {
        match observation {
            InstallObservation::Busy(why, at) => self.busy = Some((at, why)),
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

    /// Notes the re-installation that is open, or that none is.
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
