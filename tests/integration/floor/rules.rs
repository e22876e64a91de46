//! What goes wrong at the proxy before the API server: rules that pick requests, and what these meet.

use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use axum::http::{Method, Uri};

/// What a request meets that a rule picks.
#[derive(Clone)]
pub(crate) enum Fault {
    /// Nothing; it is counted.
    Pass,
    /// It is refused with this status.
    Refuse(u16),
    /// It is answered with this text, as if all were well.
    Say(String),
    /// It is held until the watches are cut, and then refused.
    Hold,
    /// Somebody else changes the object first, by this merge patch; then it goes on its way.
    Overtake(String),
}

/// A request as a rule sees it.
pub(crate) struct Call<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) body: &'a str,
}

impl Call<'_> {
    /// Whether it writes this server, or its status where `part` is `/status`.
    pub(crate) fn writes(&self, name: &str, part: &str) -> bool {
        *self.method != Method::GET
            && self
                .path
                .ends_with(&format!("/baremetalservers/{name}{part}"))
    }

    /// Whether it is the listing of servers.
    pub(crate) fn lists(&self) -> bool {
        self.is_of_servers() && !self.query.contains("watch=true")
    }

    /// Whether it is a watch of servers.
    pub(crate) fn watches(&self) -> bool {
        self.is_of_servers() && self.query.contains("watch=true")
    }

    fn is_of_servers(&self) -> bool {
        *self.method == Method::GET && self.path.ends_with("/baremetalservers")
    }
}

type Pick = Box<dyn Fn(&Call) -> bool + Send + Sync>;

struct Rule {
    fault: Fault,
    left: usize,
    picks: Pick,
}

/// All rules of a proxy.
#[derive(Default)]
pub(super) struct Rules(Mutex<(Vec<Rule>, usize)>);

impl Rules {
    pub(super) fn add(&self, fault: Fault, left: usize, picks: Pick) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.0.push(Rule { fault, left, picks });
    }

    pub(super) fn clear(&self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.0.clear();
    }

    pub(super) fn hits(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// What this request meets.
    pub(super) fn meet(&self, method: &Method, uri: &Uri, body: &Bytes) -> Option<Fault> {
        let call = Call {
            method,
            path: uri.path(),
            query: uri.query().unwrap_or_default(),
            body: std::str::from_utf8(body).unwrap_or_default(),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (rules, hits) = &mut *all;
        let rule = rules
            .iter_mut()
            .find(|rule| rule.left > 0 && (rule.picks)(&call))?;
        rule.left -= 1;
        *hits += 1;
        Some(rule.fault.clone())
    }
}
