//! Read-only mode (`--read-only`): everything is read and decided, and no change is sent or recorded. A kind blocks its
//! change before the request of a user is answered. Servers (several effects) and whitelists (steps of one change) have
//! functions of their own for it. The client refuses a change that a kind does not block.

use crate::{
    account::view::ListKind,
    explanation::{Explanation, ReadyState},
    reconcile::{Decision, Subject, last_read_at},
};
use api::Kind;

/// What a decision asks for.
pub trait Effect {
    /// What it changes, in words that follow "would"; None: it only reads.
    fn change(&self) -> Option<String>;
}

/// Explains that this change is not made; None: the effect only reads.
pub fn explain_blocked_change(effect: &impl Effect) -> Option<Explanation> {
    let what = effect.change()?;
    Some(Explanation::read_only(&format!("would {what}")))
}

impl<S: Clone + Default, E: Effect> Decision<S, E> {
    /// In read-only mode: reports a change instead of making it, and reads `list` again at the idle interval.
    #[must_use]
    pub fn block_change<K: Kind<Status = S>, T>(
        mut self,
        subject: &Subject<K, T>,
        list: Option<ListKind>,
    ) -> Self {
        let blocked = self.effect.as_ref().and_then(explain_blocked_change);
        let Some(blocked) = blocked.filter(|_| subject.read_only) else {
            return self;
        };
        self.effect = None;
        if let Some((list, view)) = list.zip(subject.view()) {
            let last = last_read_at(view, list).unwrap_or_default();
            self.wants = Some((list, last + view.times.idle_poll_interval));
        }
        // An ended object is sent nothing more; its conditions stay.
        match self.is_over {
            true => self,
            false => self.with_blocked(blocked),
        }
    }
}

impl<S, E> Decision<S, E> {
    /// Reports what is not sent: an object that is as declared otherwise stays ready.
    #[must_use]
    pub fn with_blocked(mut self, blocked: Explanation) -> Self {
        let is_ready = |explanation: &Explanation| explanation.ready_state == ReadyState::Ready;
        if !self.explanation.as_ref().is_some_and(is_ready) {
            self.explanation = Some(blocked.clone());
        }
        self.blocked = Some(blocked);
        self
    }
}
