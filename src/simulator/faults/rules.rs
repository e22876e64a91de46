//! Rules that pick requests.

use rand::RngExt;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};

use super::super::clock::span;
use super::{Fault, Harm};

/// Which requests a rule picks. What is absent picks all.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Pattern {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    /// The whole path, or its start when it ends in `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Part of the query as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    /// Part of the body as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

/// A request as rules see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) body: &'a [u8],
}

impl Pattern {
    fn picks(&self, request: Candidate<'_>) -> bool {
        let method = self.method.as_deref();
        let path = self
            .path
            .as_deref()
            .is_none_or(|path| match path.strip_suffix('*') {
                Some(start) => request.path.starts_with(start),
                None => request.path == path,
            });
        let body = self.body.as_deref();
        method.is_none_or(|method| request.method.eq_ignore_ascii_case(method))
            && path
            && self
                .query
                .as_deref()
                .is_none_or(|part| request.query.contains(part))
            && body.is_none_or(|part| String::from_utf8_lossy(request.body).contains(part))
    }
}

/// One fault, or several at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(Fault),
    More(Vec<Fault>),
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

/// A rule that makes no sense.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum InvalidRule {
    #[error("a fault's status must be 200 to 599")]
    Status,
    #[error("rate must be 0 to 1")]
    Rate,
    #[error("seconds must be 0 or more")]
    Seconds,
    #[error("fault is empty")]
    Empty,
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
        if self.rate.is_some_and(|rate| !(0.0..=1.0).contains(&rate)) {
            return Err(InvalidRule::Rate);
        }
        for fault in self.faults() {
            match fault {
                Fault::Refuse { status: code, .. } | Fault::Status { code, .. }
                    if !(200..600).contains(code) =>
                {
                    return Err(InvalidRule::Status);
                }
                Fault::StaleList { seconds } if span(*seconds).is_none() => {
                    return Err(InvalidRule::Seconds);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A rule at work.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Active {
    id: u64,
    #[serde(flatten)]
    rule: Rule,
    matched: u64,
    applied: u64,
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

    /// Takes a rule on and gives it a number.
    ///
    /// # Errors
    /// When the rule makes no sense.
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

    /// Drops one rule. `false` when there is none of this number.
    pub(crate) fn remove(&mut self, id: u64) -> bool {
        let before = self.rules.len();
        self.rules.retain(|active| active.id != id);
        self.rules.len() < before
    }

    /// Drops all rules.
    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The first rule that hits this request, with its number. A rule that
    /// lets a request pass leaves it to the rules after it.
    pub(crate) fn strike(&mut self, request: Candidate<'_>) -> Option<(u64, Harm)> {
        for active in &mut self.rules {
            let spent = active
                .rule
                .count
                .is_some_and(|count| active.applied >= count);
            if spent || !active.rule.pattern.picks(request) {
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
            query: "tag=x",
            body: b"{\"name\":\"n\"}",
        };
        faults.strike(request).map(|(id, _)| id)
    }

    #[test]
    fn rules_pick_by_all_that_they_name() {
        for (pattern, picked) in [
            (json!({}), true),
            (json!({"method": "get"}), true),
            (json!({"method": "POST"}), false),
            (json!({"path": "/v3/a"}), true),
            (json!({"path": "/v3"}), false),
            (json!({"path": "/v3/*"}), true),
            (json!({"query": "tag=x"}), true),
            (json!({"query": "tag=y"}), false),
            (json!({"body": "\"n\""}), true),
            (json!({"body": "\"m\"", "path": "/v3/a"}), false),
        ] {
            let mut faults = faults(&[json!({"match": pattern, "fault": "dropBefore"})]);
            assert_eq!(strikes(&mut faults, "/v3/a").is_some(), picked, "{pattern}");
        }
    }

    #[test]
    fn a_rule_lets_some_pass_hits_some_and_leaves_the_rest_to_the_next() {
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
                InvalidRule::Status,
            ),
            (json!({"fault": "truncate", "rate": 1.1}), InvalidRule::Rate),
            (
                json!({"fault": {"staleList": {"seconds": -1.0}}}),
                InvalidRule::Seconds,
            ),
            (json!({"fault": []}), InvalidRule::Empty),
        ] {
            let rule: Rule = serde_json::from_value(rule).unwrap();
            assert_eq!(faults.add(rule), Err(error));
        }
        assert!(serde_json::from_value::<Rule>(json!({"fault": "explode"})).is_err());
        assert!(serde_json::from_value::<Rule>(json!({"fault": "truncate", "cuont": 1})).is_err());
    }
}
