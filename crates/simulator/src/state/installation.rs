//! The installation of a dedicated host, and its log (section 4.8).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::clock::Moment;

/// An installation, decided when it is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Installation {
    pub(super) number: u64,
    pub(super) at: Moment,
    pub(super) ends: Moment,
    pub(super) fails: bool,
    /// Why it fails, if it was told to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    pub(super) os: u32,
    pub(super) hostname: String,
}

impl Installation {
    /// Its first tenth is preparation.
    fn starts(&self) -> Moment {
        self.at.after(self.ends.since(self.at) / 10)
    }

    /// The word in `installStatus` (seen in clients).
    pub(super) fn status(&self, now: Moment) -> &'static str {
        match self.fails {
            _ if now < self.starts() => "created",
            _ if now < self.ends => "installing",
            true => "failed",
            false => "finished",
        }
    }

    /// Whether it is still under way.
    pub(super) fn busy(&self, now: Moment) -> bool {
        now < self.ends
    }

    /// Whether it has installed its system.
    pub(super) fn finished(&self, now: Moment) -> bool {
        !self.fails && self.ends <= now
    }

    /// The entries in the host's log so far, oldest first.
    pub(super) fn log(&self, now: Moment) -> Vec<Value> {
        let end = match (self.fails, &self.reason) {
            (true, Some(reason)) => &format!("Installation failed: {reason}"),
            (true, None) => "Installation failed",
            (false, _) => "Installation finished",
        };
        let lines = [
            (self.at, "Installation requested", false),
            (self.starts(), "Installation started", false),
            (self.ends, end, true),
        ];
        let shown = (1_u64..).zip(lines).filter(|(_, (at, _, _))| *at <= now);
        shown
            .map(|(line, (at, text, last))| {
                let open = !last || self.fails;
                json!({
                    "id": self.number * 10 + line,
                    "issueOpen": u8::from(open),
                    "dateStamp": at.unix(),
                    "issueCategory": "OS installation",
                    "issueDescription": text,
                    "issueResolved": if open { "" } else { "resolved" },
                    "catName": "Installation",
                })
            })
            .collect()
    }
}

/// How long an installation takes, and whether it fails.
#[derive(Clone, Debug)]
pub(crate) struct Outlook {
    pub(crate) lasting: Duration,
    pub(crate) fails: bool,
    /// Why it fails, where a fault rule says so.
    pub(crate) reason: Option<String>,
}
