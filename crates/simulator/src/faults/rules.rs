//! Rules that pick requests.

use http::HeaderValue;
use rand::RngExt;
use rand::rngs::StdRng;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::super::clock::span;
use super::pattern::{Candidate, Pattern};
use super::reach::reach;
use super::{Fault, Harm};

/// One fault, or several at once.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum OneOrMore {
    One(Fault),
    More(Vec<Fault>),
}

/// Chosen by the form instead of by trial: the error then names the unknown fault
/// and the known ones.
impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let read = match value.is_array() {
            true => serde_json::from_value(value).map(Self::More),
            false => serde_json::from_value(value).map(Self::One),
        };
        read.map_err(D::Error::custom)
    }
}

/// A rule as it is given to the control port.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Rule {
    #[serde(rename = "match", default)]
    pattern: Pattern,
    fault: OneOrMore,
    /// Hits at most this many requests; without it, until deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    /// Lets this many matching requests pass first.
    #[serde(default)]
    skip: u64,
    /// Hits this share of the matching requests, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
}

/// A rule that is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum InvalidRule {
    #[error("a fault's status must be 200 to 599")]
    Status,
    #[error("a refusal's status must be 300 to 599")]
    Refusal,
    #[error("rate must be 0 to 1")]
    Rate,
    #[error("seconds must be 0 or more")]
    Seconds,
    #[error("contentType must be a header's value")]
    ContentType,
    #[error("fault is empty")]
    Empty,
    #[error("{0}")]
    Path(&'static str),
}

impl Rule {
    fn faults(&self) -> &[Fault] {
        match &self.fault {
            OneOrMore::One(fault) => std::slice::from_ref(fault),
            OneOrMore::More(faults) => faults,
        }
    }

    fn check(&self) -> Result<(), InvalidRule> {
        if self.faults().is_empty() {
            return Err(InvalidRule::Empty);
        }
        if let Some(flaw) = self.pattern.flaw() {
            return Err(InvalidRule::Path(flaw));
        }
        if self.rate.is_some_and(|rate| !(0.0..=1.0).contains(&rate)) {
            return Err(InvalidRule::Rate);
        }
        for fault in self.faults() {
            match fault {
                Fault::Refuse { status, .. } if !(300..600).contains(status) => {
                    return Err(InvalidRule::Refusal);
                }
                Fault::Status { code, .. } if !(200..600).contains(code) => {
                    return Err(InvalidRule::Status);
                }
                Fault::StaleList { seconds } if span(*seconds).is_none() => {
                    return Err(InvalidRule::Seconds);
                }
                Fault::Body { content_type, .. }
                    if HeaderValue::from_str(content_type).is_err() =>
                {
                    return Err(InvalidRule::ContentType);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// An active rule.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Active {
    id: u64,
    #[serde(flatten)]
    rule: Rule,
    matched: u64,
    applied: u64,
}

impl Active {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Requests that it has hit.
    pub(crate) fn applied(&self) -> u64 {
        self.applied
    }

    /// Whether it is used up.
    pub(crate) fn spent(&self) -> bool {
        self.rule.count.is_some_and(|count| self.applied >= count)
    }
}

/// All rules, in the order they were given.
#[derive(Debug)]
pub(crate) struct Faults {
    rules: Vec<Active>,
    next: u64,
    /// Its own, so that faults do not change how machines are delivered.
    rng: StdRng,
}

impl Faults {
    pub(crate) fn new(rng: StdRng) -> Self {
        Self {
            rules: Vec::new(),
            next: 0,
            rng,
        }
    }

    /// Adds a rule and gives it a number.
    ///
    /// # Errors
    /// When the rule is invalid.
    pub(crate) fn add(&mut self, rule: Rule) -> Result<u64, InvalidRule> {
        rule.check()?;
        self.next += 1;
        self.rules.push(Active {
            id: self.next,
            rule,
            matched: 0,
            applied: 0,
        });
        Ok(self.next)
    }

    /// All rules, used-up ones too.
    pub(crate) fn rules(&self) -> &[Active] {
        &self.rules
    }

    /// Deletes one rule. `false` when none has this number.
    pub(crate) fn remove(&mut self, id: u64) -> bool {
        let before = self.rules.len();
        self.rules.retain(|active| active.id != id);
        self.rules.len() < before
    }

    /// Deletes all rules.
    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The first rule that hits this request, with its number. A rule that
    /// lets a request pass leaves it to the rules after it.
    pub(crate) fn strike(&mut self, request: Candidate<'_>) -> Option<(u64, Harm)> {
        for active in &mut self.rules {
            let rule = &active.rule;
            let meant = rule.pattern.picks(request) && reach(rule.faults(), request);
            if active.spent() || !meant {
                continue;
            }
            active.matched += 1;
            let early = active.matched <= active.rule.skip;
            let lucky = active
                .rule
                .rate
                .is_some_and(|rate| self.rng.random::<f64>() >= rate);
            if early || lucky {
                continue;
            }
            active.applied += 1;
            return Some((active.id, Harm(active.rule.faults().to_vec())));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use serde_json::json;

    use super::*;

    fn faults(rules: &[serde_json::Value]) -> Faults {
        let mut faults = Faults::new(StdRng::seed_from_u64(1));
        for rule in rules {
            faults
                .add(serde_json::from_value(rule.clone()).unwrap())
                .unwrap();
        }
        faults
    }

    fn strikes(faults: &mut Faults, path: &str) -> Option<u64> {
        let request = Candidate {
            method: "GET",
            path,
            template: None,
            query: "tag=x",
            body: b"{\"name\":\"n\"}",
            account: None,
        };
        faults.strike(request).map(|(id, _)| id)
    }

    #[test]
    fn skip_and_count_leave_rest_to_next_rule() {
        let mut faults = faults(&[
            json!({"fault": "dropBefore", "skip": 1, "count": 2}),
            json!({"fault": "emptyBody", "count": 2}),
        ]);
        let hits: Vec<_> = (0..6).map(|_| strikes(&mut faults, "/")).collect();
        assert_eq!(hits, [Some(2), Some(1), Some(1), Some(2), None, None]);
        assert!(faults.remove(1) && !faults.remove(1));
    }

    #[test]
    fn a_rate_hits_its_share() {
        let mut faults = faults(&[json!({"fault": "dropAfter", "rate": 0.25})]);
        let hits = (0..1_000)
            .filter(|_| strikes(&mut faults, "/").is_some())
            .count();
        assert!((200..300).contains(&hits), "{hits}");
    }

    #[test]
    fn rules_that_make_no_sense_are_refused() {
        let mut faults = faults(&[]);
        for (rule, error) in [
            (
                json!({"fault": {"status": {"code": 99}}}),
                InvalidRule::Status,
            ),
            (
                json!({"fault": {"refuse": {"status": 600, "message": ""}}}),
                InvalidRule::Refusal,
            ),
            // A success is not a refusal.
            (
                json!({"fault": {"refuse": {"status": 204, "message": ""}}}),
                InvalidRule::Refusal,
            ),
            (json!({"fault": "truncate", "rate": 1.1}), InvalidRule::Rate),
            (
                json!({"fault": {"staleList": {"seconds": -1.0}}}),
                InvalidRule::Seconds,
            ),
            (
                json!({"fault": {"body": {"text": "", "contentType": "a\nb"}}}),
                InvalidRule::ContentType,
            ),
            (json!({"fault": []}), InvalidRule::Empty),
        ] {
            let rule: Rule = serde_json::from_value(rule).unwrap();
            assert_eq!(faults.add(rule), Err(error));
        }
        for fault in [
            json!("explode"),
            json!({"explode": {}}),
            json!(["truncate", "explode"]),
        ] {
            let unread = serde_json::from_value::<Rule>(json!({"fault": fault})).unwrap_err();
            let told = unread.to_string();
            for word in ["explode", "dropBefore", "staleList", "body"] {
                assert!(told.contains(&format!("`{word}`")), "{word}: {told}");
            }
        }
        assert!(serde_json::from_value::<Rule>(json!({"fault": "truncate", "cuont": 1})).is_err());
    }
}
