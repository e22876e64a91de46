//! A reconcile that a user or a tool requests with an annotation; status repeats its value once it is handled. A
//! request only says from when on a read counts: reads keep the account's poll interval.

use api::{
    bounds::{LONGEST_REQUEST, cut_text},
    names::{FLUX_REQUEST, RECONCILE_REQUEST},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::time::Duration;

/// The value that requests a reconcile now. None if it is too long for status to show it whole.
pub fn find_request(meta: &ObjectMeta) -> Option<&str> {
    let annotations = meta.annotations.as_ref()?;
    let of = |name| annotations.get(name).map(String::as_str);
    let asked = of(RECONCILE_REQUEST).or_else(|| of(FLUX_REQUEST))?;
    let is_cut = cut_text(asked, LONGEST_REQUEST).is_some();
    (!asked.is_empty() && !is_cut).then_some(asked)
}

/// The requested value, and since when this process knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReconcileRequest(Option<(String, Duration)>);

impl ReconcileRequest {
    /// Records the value that the object has now.
    pub fn record_request(&mut self, word: Option<&str>, now: Duration) {
        let known = self.0.as_ref().map(|(word, _)| word.as_str());
        if known != word {
            self.0 = word.map(|word| (word.to_owned(), now));
        }
    }

    /// Since when this process knows the present value.
    pub fn since(&self) -> Option<Duration> {
        self.0.as_ref().map(|(_, since)| *since)
    }

    /// The value that status does not repeat yet, and since when this process knows it.
    pub fn unhandled(&self, handled: Option<&str>) -> Option<(&str, Duration)> {
        let (word, since) = self.0.as_ref()?;
        (Some(word.as_str()) != handled).then_some((word, *since))
    }
}

/// When a read may begin that answers a request of this moment; None: the last read answers it. `pace`: the shortest
/// time between two reads.
pub fn answered_at(since: Duration, last: Option<Duration>, pace: Duration) -> Option<Duration> {
    match last {
        Some(last) if last >= since => None,
        Some(last) => Some(since.max(last + pace)),
        None => Some(since),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn meta(annotations: &[(&str, String)]) -> ObjectMeta {
        let annotations = annotations
            .iter()
            .map(|(n, v)| ((*n).to_owned(), v.clone()));
        ObjectMeta {
            annotations: Some(annotations.collect()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn own_request_wins_over_flux() {
        let of = |all: &[(&str, String)]| find_request(&meta(all)).map(str::len);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(FLUX_REQUEST, "then".into())]), Some(4));
        let both = [
            (FLUX_REQUEST, "then".into()),
            (RECONCILE_REQUEST, "now".into()),
        ];
        assert_eq!(of(&both), Some(3));
        assert_eq!(of(&[(RECONCILE_REQUEST, String::new())]), None);
        assert_eq!(of(&[(RECONCILE_REQUEST, "x".repeat(128))]), Some(128));
        assert_eq!(of(&[(RECONCILE_REQUEST, "x".repeat(129))]), None);
        // Status limits bytes as they are stored.
        assert_eq!(of(&[(RECONCILE_REQUEST, "&".repeat(21))]), Some(21));
        assert_eq!(of(&[(RECONCILE_REQUEST, "&".repeat(22))]), None);
    }

    proptest::proptest! {
        #[test]
        fn every_request_is_shown_whole(asked in "[a-z<&\"\n\u{1}é]{0,130}") {
            let meta = meta(&[(RECONCILE_REQUEST, asked)]);
            if let Some(word) = find_request(&meta) {
                let mut status = serde_json::json!({"lastHandledReconcileAt": word});
                api::bounds::cut_status::<api::BareMetalServer>(&mut status);
                proptest::prop_assert_eq!(&status["lastHandledReconcileAt"], word);
            }
        }
    }

    #[test]
    fn request_is_open_until_status_repeats_it() {
        let mut asked = ReconcileRequest::default();
        assert_eq!(asked.unhandled(None), None);
        asked.record_request(Some("now"), at(10));
        asked.record_request(Some("now"), at(20));
        assert_eq!(asked.unhandled(None), Some(("now", at(10))));
        assert_eq!(asked.unhandled(Some("before")), Some(("now", at(10))));
        assert_eq!(asked.unhandled(Some("now")), None);
        asked.record_request(Some("again"), at(30));
        assert_eq!(asked.unhandled(Some("now")), Some(("again", at(30))));
        asked.record_request(None, at(40));
        assert_eq!(asked.since(), None);
    }

    #[test]
    fn request_needs_later_read_at_poll_pace() {
        let pace = at(30);
        assert_eq!(answered_at(at(100), None, pace), Some(at(100)));
        assert_eq!(answered_at(at(100), Some(at(100)), pace), None);
        assert_eq!(answered_at(at(100), Some(at(99)), pace), Some(at(129)));
        assert_eq!(answered_at(at(100), Some(at(10)), pace), Some(at(100)));
    }
}
