//! The states of a server (section 3.1, and the longer list that clients see).

use serde::{Deserialize, Serialize};

use super::super::answer::Refusal;
use super::super::profile::{CreatingFilter, Switches, UnknownStatusFilter};

/// State of a server, in the order of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Created,
    Discovering,
    Discovered,
    Allocating,
    Allocated,
    ConfiguringNetwork,
    NetworkConfigured,
    Provisioning,
    Provisioned,
    Delivered,
    Failed,
    Releasing,
    Released,
}

impl Status {
    /// The steps to `delivered` in the long view, after `created`.
    pub(crate) const PIPELINE: [Self; 8] = [
        Self::Discovering,
        Self::Discovered,
        Self::Allocating,
        Self::Allocated,
        Self::ConfiguringNetwork,
        Self::NetworkConfigured,
        Self::Provisioning,
        Self::Provisioned,
    ];

    const WORDS: [(Self, &'static str); 13] = [
        (Self::Created, "created"),
        (Self::Discovering, "discovering"),
        (Self::Discovered, "discovered"),
        (Self::Allocating, "allocating"),
        (Self::Allocated, "allocated"),
        (Self::ConfiguringNetwork, "configuring_network"),
        (Self::NetworkConfigured, "network_configured"),
        (Self::Provisioning, "provisioning"),
        (Self::Provisioned, "provisioned"),
        (Self::Delivered, "delivered"),
        (Self::Failed, "failed"),
        (Self::Releasing, "releasing"),
        (Self::Released, "released"),
    ];

    /// The word in a record.
    pub(crate) fn word(self) -> &'static str {
        Self::WORDS
            .iter()
            .find(|(status, _)| *status == self)
            .map_or("", |(_, word)| word)
    }

    /// Neither failed, nor releasing, nor released: it costs money and can be used.
    pub(crate) fn live(self) -> bool {
        !matches!(self, Self::Failed | Self::Releasing | Self::Released)
    }

    /// On the way to `delivered`.
    pub(crate) fn waiting(self) -> bool {
        self.live() && self != Self::Delivered
    }

    /// Holds hardware and counts against quota. The API itself has released a failed
    /// one.
    pub(crate) fn holds_hardware(self) -> bool {
        !matches!(self, Self::Failed | Self::Released)
    }
}

/// The list's `status` filter (section 4.4). Its words are not the record's:
/// `creating` is in no record, and shares the waiting states with
/// `provisioning`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusFilter {
    Creating(CreatingFilter),
    Provisioning(CreatingFilter),
    Exactly(Status),
    /// A word that no record has.
    Nothing,
}

impl StatusFilter {
    /// Reads the filter's word.
    ///
    /// # Errors
    /// 422 for a word outside the documented ones, where the switch says so.
    pub(crate) fn read(word: &str, switches: &Switches) -> Result<Self, Refusal> {
        match word {
            "creating" => return Ok(Self::Creating(switches.creating_filter)),
            "provisioning" => return Ok(Self::Provisioning(switches.creating_filter)),
            _ => {}
        }
        let known = Status::WORDS
            .iter()
            .find(|(_, text)| *text == word)
            .map(|(status, _)| *status);
        match (known, switches.unknown_status_filter) {
            (Some(status), _) if !status.waiting() => Ok(Self::Exactly(status)),
            (known, UnknownStatusFilter::MatchRecord) => {
                Ok(known.map_or(Self::Nothing, Self::Exactly))
            }
            (_, UnknownStatusFilter::Refuse422) => Err(Refusal::breach(
                "status",
                "must be one of creating, provisioning, delivered, failed, releasing, released",
            )),
        }
    }

    /// Whether a machine in this state is shown.
    pub(crate) fn admits(self, status: Status) -> bool {
        let late = |split| match split {
            CreatingFilter::Waiting => {
                matches!(status, Status::Provisioning | Status::Provisioned)
            }
            CreatingFilter::Created => status != Status::Created,
        };
        match self {
            Self::Creating(split) => status.waiting() && !late(split),
            Self::Provisioning(split) => status.waiting() && late(split),
            Self::Exactly(wanted) => status == wanted,
            Self::Nothing => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::options::Profile;
    use super::*;

    #[test]
    fn words_are_those_of_the_serialised_record() {
        for (status, word) in Status::WORDS {
            assert_eq!(serde_json::to_value(status).unwrap(), word);
            assert_eq!(status.word(), word);
        }
    }

    #[test]
    fn each_waiting_state_matches_one_filter() {
        let mut switches = Switches::of(Profile::Observed);
        for word in ["waiting", "created"] {
            switches.set("creatingFilter", word).unwrap();
            let creating = StatusFilter::read("creating", &switches).unwrap();
            let provisioning = StatusFilter::read("provisioning", &switches).unwrap();
            for (status, _) in Status::WORDS {
                let hits =
                    u8::from(creating.admits(status)) + u8::from(provisioning.admits(status));
                assert_eq!(hits == 1, status.waiting(), "{status:?}");
            }
        }
    }

    #[test]
    fn words_outside_the_document_follow_the_switch() {
        let document = Switches::of(Profile::Document);
        let observed = Switches::of(Profile::Observed);
        for word in ["created", "allocating", "no-such-state"] {
            assert!(StatusFilter::read(word, &document).is_err(), "{word}");
        }
        assert_eq!(
            StatusFilter::read("created", &observed).unwrap(),
            StatusFilter::Exactly(Status::Created)
        );
        assert_eq!(
            StatusFilter::read("no-such-state", &observed).unwrap(),
            StatusFilter::Nothing
        );
    }
}
