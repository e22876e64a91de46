//! How a simulator is started.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;

use super::clock::span;

/// Which reading of the API the switches start from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Exactly as the document says.
    #[default]
    Document,
    /// As real clients see it.
    Observed,
}

/// Who moves the clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClockMode {
    /// It runs by itself, this many virtual seconds per real second.
    Real {
        /// At least 0; 1 is real time.
        speed: f64,
    },
    /// It stands still until the control port moves it.
    Driven,
}

/// How long a delivery takes, in virtual time: skewed to the short end, as
/// real ones are, and never outside the two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The quickest.
    pub min: Duration,
    /// The slowest.
    pub max: Duration,
}

impl Delivery {
    /// Every delivery takes this long.
    pub fn exactly(span: Duration) -> Self {
        Self {
            min: span,
            max: span,
        }
    }
}

/// All options of a simulator.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address of the API; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Address of the control port; port 0 picks a free one.
    pub control: SocketAddr,
    /// A key of the first account; a random one when absent and the state has
    /// no valid one. Not used beside `accounts`.
    pub api_key: Option<String>,
    /// Where the switches start from.
    pub profile: Profile,
    /// Switches that differ from the profile: name and value.
    pub switches: Vec<(String, String)>,
    /// Who moves the clock.
    pub clock: ClockMode,
    /// Where virtual time starts, in Unix seconds; the wall clock when absent.
    pub clock_start: Option<u64>,
    /// How long a delivery takes.
    pub delivery: Delivery,
    /// How long `releasing` lasts.
    pub release: Duration,
    /// Share of deliveries that fail, 0 to 1.
    pub failure_rate: f64,
    /// Seed of all randomness; a random one when absent.
    pub seed: Option<u64>,
    /// How long a new machine and its tags stay out of listings and tag
    /// look-ups (a GET by uuid sees it at once).
    pub list_lag: Duration,
    /// How long a power command takes.
    pub command: Duration,
    /// How long an installation on a delivered machine or a host takes.
    pub install: Duration,
    /// Share of commands and installations that fail, 0 to 1.
    pub command_failure_rate: f64,
    /// A file of accounts and keys; one account when absent.
    pub accounts: Option<PathBuf>,
    /// A file of what can be ordered; the built-in one when absent.
    pub catalogue: Option<PathBuf>,
    /// A file that keeps the accounts over a restart.
    pub state: Option<PathBuf>,
    /// Whose `X-Forwarded-For` is believed; nobody's when empty.
    pub trusted_proxies: Vec<IpNet>,
}

impl Default for Options {
    fn default() -> Self {
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            listen: free,
            control: free,
            api_key: None,
            profile: Profile::Document,
            switches: Vec::new(),
            clock: ClockMode::Real { speed: 1.0 },
            clock_start: None,
            delivery: Delivery {
                min: Duration::from_mins(3),
                max: Duration::from_mins(15),
            },
            release: Duration::from_secs(5),
            failure_rate: 0.0,
            seed: None,
            list_lag: Duration::ZERO,
            command: Duration::from_secs(10),
            install: Duration::from_mins(5),
            command_failure_rate: 0.0,
            accounts: None,
            catalogue: None,
            state: None,
            trusted_proxies: Vec::new(),
        }
    }
}

/// A word on the command line that cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not {1}")]
pub struct InvalidOption(String, &'static str);

impl FromStr for Profile {
    type Err = InvalidOption;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "document" => Ok(Self::Document),
            "observed" => Ok(Self::Observed),
            _ => Err(InvalidOption(
                text.to_owned(),
                "a profile: document or observed",
            )),
        }
    }
}

/// `N` or `MIN..MAX`, both in seconds.
impl FromStr for Delivery {
    type Err = InvalidOption;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let seconds = |part: &str| part.trim().parse().ok().and_then(span);
        let found = match text.split_once("..") {
            Some((min, max)) => seconds(min).zip(seconds(max)),
            None => seconds(text).map(|exact| (exact, exact)),
        };
        found
            .filter(|(min, max)| min <= max)
            .map(|(min, max)| Self { min, max })
            .ok_or_else(|| InvalidOption(text.to_owned(), "a span: SECONDS or MIN..MAX"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_a_number_or_two() {
        let seconds = Duration::from_secs;
        assert_eq!("7".parse(), Ok(Delivery::exactly(seconds(7))));
        assert_eq!(
            "180..900".parse(),
            Ok(Delivery {
                min: seconds(180),
                max: seconds(900)
            })
        );
        for bad in ["", "..", "9..3", "-1", "NaN", "1e300"] {
            assert!(bad.parse::<Delivery>().is_err(), "{bad}");
        }
    }
}
