//! A look that a person or a tool asks for: by a word in an annotation, which status repeats once the look was had.
//!
//! Whoever may write the object may ask as often as he likes. So a request only says from which moment on a look
//! counts, and no look follows the last one sooner than the account's pace.

use api::{
    bounds::{LONGEST_REQUEST, cut_text},
    names::{FLUX_REQUEST, RECONCILE_REQUEST},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::time::Duration;

/// The word by which somebody asks for a look now. One that is too long to be shown whole
/// in status is none.
pub fn find_request(meta: &ObjectMeta) -> Option<&str> {
    let annotations = meta.annotations.as_ref()?;
    let of = |name| annotations.get(name).map(String::as_str);
    let asked = of(RECONCILE_REQUEST).or_else(|| of(FLUX_REQUEST))?;
    let is_cut = cut_text(asked, LONGEST_REQUEST).is_some();
    (!asked.is_empty() && !is_cut).then_some(asked)
}

/// By which word somebody asks, and since when this process has known it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReconcileRequest(Option<(String, Duration)>);

impl ReconcileRequest {
    /// Notes the word that stands on the object now.
    pub fn record_request(&mut self, word: Option<&str>, now: Duration) {
        let known = self.0.as_ref().map(|(word, _)| word.as_str());
        if known != word {
            self.0 = word.map(|word| (word.to_owned(), now));
        }
    }

    /// Since when the present word is known.
    pub fn since(&self) -> Option<Duration> {
        self.0.as_ref().map(|(_, since)| *since)
    }

    /// The word that status does not repeat yet, and since when it is known.
    pub fn open(&self, handled: Option<&str>) -> Option<(&str, Duration)> {
        let (word, since) = self.0.as_ref()?;
        (Some(word.as_str()) != handled).then_some((word, *since))
    }
}

/// When a look may begin that answers a request of this moment; None: the last one does. `pace`: the least time from
/// one look to the next.
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
        // Status has bounds in bytes as they are stored.
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
        assert_eq!(asked.open(None), None);
        asked.record_request(Some("now"), at(10));
        asked.record_request(Some("now"), at(20));
        assert_eq!(asked.open(None), Some(("now", at(10))));
        assert_eq!(asked.open(Some("before")), Some(("now", at(10))));
        assert_eq!(asked.open(Some("now")), None);
        asked.record_request(Some("again"), at(30));
        assert_eq!(asked.open(Some("now")), Some(("again", at(30))));
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
