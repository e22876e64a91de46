//! A requested reconcile: it reads at the account's poll interval, then acknowledges the request.

use super::{Decision, Subject, last_read_at};
use crate::{account::view::ListKind, reconcile_request::answered_at, resolved_account::Purpose};
use api::Kind;
use std::time::Duration;

/// Where a requested reconcile reads from.
pub enum ReadSource<E> {
    /// The decision needs no read: it answers a request by itself.
    NotNeeded,
    /// No read is possible now: a request waits.
    Unavailable,
    /// The account's list, which is read for all objects that want it.
    List(ListKind),
    /// A read of this object only.
    Own {
        /// When the last one began.
        last: Option<Duration>,
        /// The effect that reads again.
        effect: E,
    },
}

impl<S: Clone + Default, E> Decision<S, E> {
    /// Handles a requested reconcile. What is decided anyway goes first.
    #[must_use]
    pub fn answering<K: Kind<Status = S>, T>(
        mut self,
        subject: &Subject<K, T>,
        read_source: impl FnOnce() -> ReadSource<E>,
    ) -> Self {
        let handled = K::handled(&mut self.status).as_deref();
        let Some((word, since)) = subject.memory.request.unhandled(handled) else {
            return self;
        };
        // The object has no conditions yet: its first status answers.
        let is_new = self.explanation.is_none() && K::conditions(&self.status).is_empty();
        if is_new || subject.is_deleting() {
            return self;
        }
        let source = read_source();
        let view = match (&source, subject.account.usable(Purpose::Change)) {
            (ReadSource::Unavailable, _)
            | (ReadSource::List(_) | ReadSource::Own { .. }, Err(_)) => return self,
            (_, view) => view.ok(),
        };
        let pace = view.map_or(Duration::ZERO, |view| view.times.active_poll_interval);
        let next = match &source {
            ReadSource::NotNeeded | ReadSource::Unavailable => None,
            ReadSource::List(list) => {
                let last = view.and_then(|view| last_read_at(view, *list));
                answered_at(since, last, pace)
            }
            ReadSource::Own { last, .. } => answered_at(since, *last, pace),
        };
        let Some(next) = next else {
            *K::handled(&mut self.status) = Some(word.to_owned());
            return self;
        };
        let rest = next.saturating_sub(subject.now.mono);
        match source {
            ReadSource::List(list) => {
                let last = view.and_then(|view| last_read_at(view, list));
                // The list that was requested before, unless it has arrived.
                let open = self
                    .wants
                    .filter(|(of, at)| *of == list && last < Some(*at));
                self.wants = Some((list, open.map_or(next, |(_, at)| at.min(next))));
            }
            ReadSource::Own { effect, .. } if rest.is_zero() => {
                self.effect.get_or_insert(effect);
            }
            ReadSource::Own { .. } => self.requeue_after = self.requeue_after.min(rest),
            ReadSource::NotNeeded | ReadSource::Unavailable => {}
        }
        self
    }
}
