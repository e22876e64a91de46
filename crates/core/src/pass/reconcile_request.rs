//! A look that somebody asks for, of the kinds that share the pass: had at the pace of the account, then acknowledged.

use super::{Decision, Subject, last_read_at};
use crate::{account::view::ListKind, reconcile_request::answered_at, resolved_account::Purpose};
use api::Kind;
use std::time::Duration;

/// What a look at an object is.
pub enum ReadSource<E> {
    /// The decision rests on no look: it answers a request by itself.
    NotNeeded,
    /// Nobody can look now: a request waits.
    Unavailable,
    /// The account's list, which is looked at for all who want it.
    List(ListKind),
    /// A look of the object's own.
    Own {
        /// When the last one began.
        last: Option<Duration>,
        /// How another one is had.
        effect: E,
    },
}

impl<S: Clone + Default, E> Decision<S, E> {
    /// Handles a request for a look. What is decided anyway goes ahead of it.
    #[must_use]
    pub fn answering<K: Kind<Status = S>, T>(
        mut self,
        subject: &Subject<K, T>,
        sight: impl FnOnce() -> ReadSource<E>,
    ) -> Self {
        let handled = K::handled(&mut self.status).as_deref();
        let Some((word, since)) = subject.memory.request.open(handled) else {
            return self;
        };
        // Nothing was said of it yet: the first status answers.
        let is_new = self.explanation.is_none() && K::conditions(&self.status).is_empty();
        if is_new || subject.is_deleting() {
            return self;
        }
        let sight = sight();
        let view = match (&sight, subject.account.usable(Purpose::Change)) {
            (ReadSource::Unavailable, _)
            | (ReadSource::List(_) | ReadSource::Own { .. }, Err(_)) => return self,
            (_, view) => view.ok(),
        };
        let pace = view.map_or(Duration::ZERO, |view| view.times.active_poll_interval);
        let next = match &sight {
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
        match sight {
            ReadSource::List(list) => {
                let last = view.and_then(|view| last_read_at(view, list));
                // What was wanted before, unless it is there.
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
