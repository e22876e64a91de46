//! A look that somebody asks for, of the kinds that share the pass: had at the pace of the account, then acknowledged.

use super::{Decision, Subject, looked};
use crate::{account::view::List, account_facts::Purpose, request::answered_at};
use api::Kind;
use std::time::Duration;

/// What a look at an object is.
pub enum Sight<E> {
    /// The decision rests on no look: it answers a request by itself.
    Unneeded,
    /// Nobody can look now: a request waits.
    Blind,
    /// The account's list, which is looked at for all who want it.
    List(List),
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
        sight: impl FnOnce() -> Sight<E>,
    ) -> Self {
        let handled = K::handled(&mut self.status).as_deref();
        let Some((word, since)) = subject.memory.asked.open(handled) else {
            return self;
        };
        // Nothing was said of it yet: the first status answers.
        let is_new = self.cause.is_none() && K::conditions(&self.status).is_empty();
        if is_new || subject.is_deleting() {
            return self;
        }
        let sight = sight();
        let view = match (&sight, subject.account.usable(Purpose::Change)) {
            (Sight::Blind, _) | (Sight::List(_) | Sight::Own { .. }, Err(_)) => return self,
            (_, view) => view.ok(),
        };
        let pace = view.map_or(Duration::ZERO, |view| view.times.active_poll_interval);
        let next = match &sight {
            Sight::Unneeded | Sight::Blind => None,
            Sight::List(list) => {
                let last = view.and_then(|view| looked(view, *list));
                answered_at(since, last, pace)
            }
            Sight::Own { last, .. } => answered_at(since, *last, pace),
        };
        let Some(next) = next else {
            *K::handled(&mut self.status) = Some(word.to_owned());
            return self;
        };
        let rest = next.saturating_sub(subject.now.mono);
        match sight {
            Sight::List(list) => {
                let last = view.and_then(|view| looked(view, list));
                // What was wanted before, unless it is there.
                let open = self
                    .wants
                    .filter(|(of, at)| *of == list && last < Some(*at));
                self.wants = Some((list, open.map_or(next, |(_, at)| at.min(next))));
            }
            Sight::Own { effect, .. } if rest.is_zero() => {
                self.effect.get_or_insert(effect);
            }
            Sight::Own { .. } => self.again = self.again.min(rest),
            Sight::Unneeded | Sight::Blind => {}
        }
        self
    }
}
