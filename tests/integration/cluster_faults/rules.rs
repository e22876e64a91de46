//! The fault rules of the proxy: they match requests and name a fault for each.

use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use axum::http::{Method, Uri};

/// What happens to a request that a rule matches.
#[derive(Clone)]
pub(crate) enum ProxyFault {
    /// Nothing. The rule counts it.
    Pass,
    /// The proxy refuses it with this status code.
    Refuse(u16),
    /// The proxy answers it with this text and success.
    Answer(String),
    /// The proxy delays it until the watches are cut, and then refuses it.
    Hold,
    /// Another client changes the object first, with this merge patch. Then the proxy forwards the request.
    Overtake(String),
}

/// A request as a rule sees it.
pub(crate) struct ProxiedCall<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) body: &'a str,
}

impl ProxiedCall<'_> {
    /// Whether it writes this server, or its status if `part` is `/status`.
    pub(crate) fn writes(&self, name: &str, part: &str) -> bool {
        *self.method != Method::GET
            && self
                .path
                .ends_with(&format!("/baremetalservers/{name}{part}"))
    }

    /// Whether it lists servers.
    pub(crate) fn lists(&self) -> bool {
        self.is_of_servers() && !self.query.contains("watch=true")
    }

    /// Whether it watches servers.
    pub(crate) fn watches(&self) -> bool {
        self.is_of_servers() && self.query.contains("watch=true")
    }

    fn is_of_servers(&self) -> bool {
        *self.method == Method::GET && self.path.ends_with("/baremetalservers")
    }
}

type CallPredicate = Box<dyn Fn(&ProxiedCall) -> bool + Send + Sync>;

struct ProxyRule {
    fault: ProxyFault,
    left: usize,
    picks: CallPredicate,
}

/// All rules of a proxy.
#[derive(Default)]
pub(super) struct ProxyRules(Mutex<(Vec<ProxyRule>, usize)>);

impl ProxyRules {
    pub(super) fn add(&self, fault: ProxyFault, left: usize, picks: CallPredicate) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.0.push(ProxyRule { fault, left, picks });
    }

    pub(super) fn clear(&self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.0.clear();
    }

    pub(super) fn hits(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// The fault for this request.
    pub(super) fn match_call(
        &self,
        method: &Method,
        uri: &Uri,
        body: &Bytes,
    ) -> Option<ProxyFault> {
        let call = ProxiedCall {
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
