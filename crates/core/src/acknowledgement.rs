//! Acknowledgements of users. A token names one situation of one object from one moment on. It counts only while status
//! shows it, the situation is the same, and the token is unused. Only the user writes the annotation.

use api::{
    acknowledgement::{
        Acknowledged, AcknowledgementEffect, LONGEST_SUBJECT, MOST_ACKNOWLEDGED,
        PendingAcknowledgement,
    },
    names::ACKNOWLEDGE,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use sha2::{Digest as _, Sha256};

/// Bytes of a token; each has two hex digits.
const TOKEN: usize = 6;

/// A situation in which the operator acts only after a user acknowledges it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Situation {
    /// What the operator does after the acknowledgement.
    pub effect: AcknowledgementEffect,
    /// All parts that the token covers.
    exact: Vec<String>,
    /// A short description for users, which may omit parts.
    subject: String,
}

impl Situation {
    /// Creates a situation. A change of any part of `exact` makes its token void.
    pub fn new(
        effect: AcknowledgementEffect,
        exact: impl IntoIterator<Item = impl Into<String>>,
        subject: impl Into<String>,
    ) -> Self {
        Self {
            effect,
            exact: exact.into_iter().map(Into::into).collect(),
            subject: subject.into(),
        }
    }

    /// The token of this situation, for the object with this UID and a situation that began at `since`.
    fn token(&self, uid: &str, since: i64) -> String {
        let mut hash = Sha256::new();
        let (effect, since) = (format!("{:?}", self.effect), since.to_string());
        let parts = [uid, &effect, &since].into_iter();
        for part in parts.chain(self.exact.iter().map(String::as_str)) {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let digits = hash.finalize();
        let digits = digits.iter().take(TOKEN);
        digits.map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The acknowledgements of an object: its annotation, and the two lists of its status.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledgements<'a> {
    /// UID of the object.
    pub uid: &'a str,
    /// The annotation [`ACKNOWLEDGE`].
    pub annotation: Option<&'a str>,
    /// `status.pendingAcknowledgements`.
    pub pending: &'a [PendingAcknowledgement],
    /// `status.acknowledged`.
    pub acknowledged: &'a [Acknowledged],
    /// The wall clock, in seconds since 1970.
    pub now: i64,
}

impl<'a> Acknowledgements<'a> {
    /// The acknowledgements of an object with this metadata.
    pub fn from_meta(
        meta: &'a ObjectMeta,
        pending: &'a [PendingAcknowledgement],
        acknowledged: &'a [Acknowledged],
        now: i64,
    ) -> Self {
        let annotations = meta.annotations.as_ref();
        Self {
            uid: meta.uid.as_deref().unwrap_or_default(),
            annotation: annotations.and_then(|all| all.get(ACKNOWLEDGE).map(String::as_str)),
            pending,
            acknowledged,
            now,
        }
    }
}

impl Acknowledgements<'_> {
    /// Whether a user acknowledges exactly this situation, by a token that status shows.
    pub fn is_given(&self, situation: &Situation) -> bool {
        self.token(situation).is_some()
    }

    /// The token by which a user acknowledges exactly this situation.
    pub fn token(&self, situation: &Situation) -> Option<&str> {
        let shown = self.shown(situation).filter(|entry| self.is_named(entry));
        shown.map(|entry| entry.token.as_str())
    }

    /// Whether status shows exactly this situation.
    pub fn is_pending(&self, situation: &Situation) -> bool {
        self.shown(situation).is_some()
    }

    /// What a user has to do, for the end of a message.
    pub fn remedy(&self, situation: &Situation) -> String {
        format!("set {ACKNOWLEDGE} to {}", self.entry(situation).token)
    }

    /// Adds a situation to the next status. It replaces another one of the same effect.
    pub fn ask(&self, situation: &Situation, pending: &mut Vec<PendingAcknowledgement>) {
        let entry = self.entry(situation);
        match pending.iter_mut().find(|p| p.effect == entry.effect) {
            Some(existing) => *existing = entry,
            None => pending.push(entry),
        }
    }

    /// Moves the acknowledged entries of an effect from pending to acknowledged.
    pub fn use_up(
        &self,
        effect: AcknowledgementEffect,
        pending: &mut Vec<PendingAcknowledgement>,
        acknowledged: &mut Vec<Acknowledged>,
    ) {
        let is_given =
            |entry: &PendingAcknowledgement| entry.effect == effect && self.is_named(entry);
        self.use_up_those(is_given, pending, acknowledged);
    }

    /// Moves the entry of this token from pending to acknowledged, if status still shows it.
    pub fn use_up_token(
        &self,
        token: &str,
        pending: &mut Vec<PendingAcknowledgement>,
        acknowledged: &mut Vec<Acknowledged>,
    ) {
        let is_it = |entry: &PendingAcknowledgement| entry.token == token && !self.is_used(token);
        self.use_up_those(is_it, pending, acknowledged);
    }

    fn use_up_those(
        &self,
        is_used_up: impl Fn(&PendingAcknowledgement) -> bool,
        pending: &mut Vec<PendingAcknowledgement>,
        acknowledged: &mut Vec<Acknowledged>,
    ) {
        for entry in self.pending.iter().filter(|entry| is_used_up(entry)) {
            pending.retain(|p| p.token != entry.token);
            acknowledged.push(Acknowledged {
                token: entry.token.clone(),
                effect: entry.effect,
                acknowledged_at: time(self.now),
            });
        }
        let surplus = acknowledged.len().saturating_sub(MOST_ACKNOWLEDGED);
        acknowledged.drain(..surplus);
    }

    /// The entry of exactly this situation in status. The token of another object or moment does not match.
    fn shown(&self, situation: &Situation) -> Option<&PendingAcknowledgement> {
        self.pending.iter().find(|entry| {
            entry.effect == situation.effect
                && entry.token == situation.token(self.uid, entry.since.0.as_second())
                && !self.is_used(&entry.token)
        })
    }

    /// The entry of this situation in the next status.
    pub fn entry(&self, situation: &Situation) -> PendingAcknowledgement {
        if let Some(shown) = self.shown(situation) {
            return shown.clone();
        }
        let effect = situation.effect;
        let of_effect = self.pending.iter().filter(|p| p.effect == effect);
        let latest = of_effect.map(|p| p.since.0.as_second()).max();
        // The clock may have gone back, and a situation may end and begin again within a second.
        let mut since = self.now.max(latest.map_or(i64::MIN, |since| since + 1));
        while self.is_used(&situation.token(self.uid, since)) {
            since += 1;
        }
        PendingAcknowledgement {
            token: situation.token(self.uid, since),
            effect,
            subject: situation.subject.chars().take(LONGEST_SUBJECT).collect(),
            since: time(since),
        }
    }

    /// Whether the annotation names the token of this entry, and the token is unused.
    fn is_named(&self, entry: &PendingAcknowledgement) -> bool {
        let mut tokens = self.annotation.iter().flat_map(|text| text.split(','));
        tokens.any(|token| token.trim() == entry.token) && !self.is_used(&entry.token)
    }

    fn is_used(&self, token: &str) -> bool {
        self.acknowledged.iter().any(|used| used.token == token)
    }
}

/// Removes the entries of an effect from the next status; their situation has ended.
pub fn withdraw(effect: AcknowledgementEffect, pending: &mut Vec<PendingAcknowledgement>) {
    pending.retain(|entry| entry.effect != effect);
}

fn time(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use AcknowledgementEffect::{AssumeAbsent, OrderAnother};

    const NOW: i64 = 1_790_000_000;

    /// An object: its status as the operator writes it, and its annotation as a user writes it.
    #[derive(Clone, Default)]
    struct AcknowledgedObject {
        uid: String,
        annotation: Option<String>,
        pending: Vec<PendingAcknowledgement>,
        acknowledged: Vec<Acknowledged>,
    }

    impl AcknowledgedObject {
        fn new(uid: &str) -> Self {
            Self {
                uid: uid.into(),
                ..Self::default()
            }
        }

        fn at(&self, now: i64) -> Acknowledgements<'_> {
            Acknowledgements {
                uid: &self.uid,
                annotation: self.annotation.as_deref(),
                pending: &self.pending,
                acknowledged: &self.acknowledged,
                now,
            }
        }

        /// Writes the status that asks for this. Returns the token.
        fn ask(&mut self, situation: &Situation, now: i64) -> String {
            let mut pending = self.pending.clone();
            self.at(now).ask(situation, &mut pending);
            self.pending = pending;
            let shown = self.pending.iter().find(|p| p.effect == situation.effect);
            shown.unwrap().token.clone()
        }

        fn give(&mut self, annotation: &str) {
            self.annotation = Some(annotation.to_owned());
        }

        fn use_up(&mut self, effect: AcknowledgementEffect, now: i64) {
            let (mut pending, mut acknowledged) = (self.pending.clone(), self.acknowledged.clone());
            self.at(now).use_up(effect, &mut pending, &mut acknowledged);
            (self.pending, self.acknowledged) = (pending, acknowledged);
        }

        fn is_given(&self, situation: &Situation) -> bool {
            self.at(NOW + 99).is_given(situation)
        }
    }

    fn order_another(servers: &[&str]) -> Situation {
        Situation::new(
            OrderAnother,
            servers.iter().copied(),
            format!("servers {}", servers.join(", ")),
        )
    }

    fn absent(why: &str) -> Situation {
        Situation::new(AssumeAbsent, ["tag", why], why)
    }

    #[test]
    fn token_needs_status_and_annotation() {
        let mut object = AcknowledgedObject::new("u");
        let asked = order_another(&["a"]);
        let token = object.at(NOW).entry(&asked).token;
        assert_eq!(token.len(), 2 * TOKEN);
        object.give(&token);
        assert!(!object.is_given(&asked), "status does not show it");
        assert_eq!(object.ask(&asked, NOW), token);
        assert!(object.is_given(&asked));
        assert!(object.at(NOW).remedy(&asked).ends_with(&token));
        for other in ["", ",", &token[1..], &format!("{token}{token}"), "yes"] {
            object.give(other);
            assert!(!object.is_given(&asked), "{other:?}");
        }
        for right in [
            format!(" {token} "),
            format!("x,{token}"),
            format!("{token},"),
        ] {
            object.give(&right);
            assert!(object.is_given(&asked), "{right:?}");
        }
    }

    #[test]
    fn a_token_stays_while_its_situation_does() {
        let mut object = AcknowledgedObject::new("u");
        let token = object.ask(&order_another(&["a"]), NOW);
        let before = object.pending.clone();
        assert_eq!(object.ask(&order_another(&["a"]), NOW + 500), token);
        assert_eq!(object.pending, before, "nothing is written");
    }

    #[test]
    fn a_token_is_used_once() {
        let mut object = AcknowledgedObject::new("u");
        let asked = order_another(&["a"]);
        let token = object.ask(&asked, NOW);
        object.give(&token);
        object.use_up(OrderAnother, NOW + 1);
        assert!(object.pending.is_empty() && !object.is_given(&asked));
        assert_eq!(object.acknowledged[0].token, token);
        // The same situation gets another token the next time, even if the clock went back.
        for now in [NOW, NOW + 1, NOW + 1000] {
            let mut again = object.clone();
            assert_ne!(again.ask(&asked, now), token);
            assert!(!again.is_given(&asked));
        }
    }

    #[test]
    fn the_same_situation_twice_has_two_tokens() {
        let mut object = AcknowledgedObject::new("u");
        let asked = order_another(&["a"]);
        let first = object.ask(&asked, NOW);
        object.give(&first);
        // Within the same second, and unused.
        object.ask(&order_another(&["a", "b"]), NOW);
        let second = object.ask(&asked, NOW);
        assert_ne!(first, second);
        assert!(!object.is_given(&asked));
        withdraw(OrderAnother, &mut object.pending);
        let third = object.ask(&asked, NOW + 60);
        assert!(third != first && third != second);
        assert!(!object.is_given(&asked));
    }

    #[test]
    fn changed_situation_voids_token() {
        let mut object = AcknowledgedObject::new("u");
        let token = object.ask(&order_another(&["a", "b"]), NOW);
        object.give(&token);
        // Also before the next status is written.
        for other in [
            order_another(&["a", "b", "c"]),
            order_another(&["a"]),
            order_another(&[]),
        ] {
            assert!(!object.is_given(&other), "{other:?}");
        }
        object.ask(&order_another(&["a"]), NOW + 1);
        assert!(!object.is_given(&order_another(&["a"])));
        assert!(!object.is_given(&order_another(&["a", "b"])));
    }

    #[test]
    fn a_copied_manifest_acknowledges_nothing() {
        let mut object = AcknowledgedObject::new("u");
        let asked = order_another(&["a"]);
        object.ask(&asked, NOW);
        object.give(&object.pending[0].token.clone());
        // With the status of the original, as a restore may bring it, and with its own status.
        let mut copy = AcknowledgedObject {
            uid: "another".into(),
            ..object.clone()
        };
        assert!(object.is_given(&asked) && !copy.is_given(&asked));
        copy.ask(&asked, NOW);
        assert!(!copy.is_given(&asked));
        assert_ne!(copy.pending[0].token, object.pending[0].token);
    }

    #[test]
    fn pending_acknowledgements_are_independent() {
        let mut object = AcknowledgedObject::new("u");
        let (one, other) = (order_another(&["a"]), absent("lost"));
        let (first, second) = (object.ask(&one, NOW), object.ask(&other, NOW));
        assert_ne!(first, second);
        object.give(&second);
        assert!(!object.is_given(&one) && object.is_given(&other));
        object.give(&format!("{first},{second}"));
        assert!(object.is_given(&one) && object.is_given(&other));
        object.use_up(AssumeAbsent, NOW);
        assert!(object.is_given(&one) && !object.is_given(&other));
        assert_eq!(object.pending.len(), 1);
    }

    #[test]
    fn only_given_tokens_are_used_up() {
        let mut object = AcknowledgedObject::new("u");
        let token = object.ask(&order_another(&["a"]), NOW);
        object.use_up(OrderAnother, NOW + 1);
        assert_eq!(object.pending.len(), 1, "it is not given");
        object.give(&token);
        object.use_up(AssumeAbsent, NOW + 1);
        assert_eq!(object.pending.len(), 1, "another effect");
        object.use_up(OrderAnother, NOW + 1);
        assert!(object.pending.is_empty());
    }

    #[test]
    fn recorded_token_is_used_up_once() {
        let mut object = AcknowledgedObject::new("u");
        let token = object.ask(&order_another(&["a"]), NOW);
        let use_up = |object: &AcknowledgedObject, token: &str| {
            let (mut pending, mut used) = (object.pending.clone(), object.acknowledged.clone());
            object.at(NOW).use_up_token(token, &mut pending, &mut used);
            (pending.len(), used.len())
        };
        assert_eq!(use_up(&object, "000000000000"), (1, 0));
        assert_eq!(use_up(&object, &token), (0, 1));
        object.give(&token);
        object.use_up(OrderAnother, NOW);
        assert_eq!(use_up(&object, &token), (0, 1));
    }

    #[test]
    fn last_five_tokens_are_recorded_in_order() {
        let mut object = AcknowledgedObject::new("u");
        let mut tokens = Vec::new();
        for number in 0..7 {
            let token = object.ask(&order_another(&[&number.to_string()]), NOW + number);
            object.give(&token);
            object.use_up(OrderAnother, NOW + number);
            tokens.push(token);
        }
        let kept: Vec<&str> = object.acknowledged.iter().map(|a| &*a.token).collect();
        assert_eq!(kept, tokens[2..].iter().collect::<Vec<_>>());
    }

    #[test]
    fn token_covers_subject_beyond_the_cut() {
        let many: Vec<String> = (0..100).map(|n| format!("ä-server-{n}")).collect();
        let names: Vec<&str> = many.iter().map(String::as_str).collect();
        let mut object = AcknowledgedObject::new("u");
        let token = object.ask(&order_another(&names), NOW);
        assert_eq!(object.pending[0].subject.chars().count(), LONGEST_SUBJECT);
        object.give(&token);
        assert!(object.is_given(&order_another(&names)));
        assert!(!object.is_given(&order_another(&names[..99])));
    }
}
