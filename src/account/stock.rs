//! Looking at what can be ordered, when somebody wants to order.

use super::{breaker::Contact, budget::Lane, live::Core, pace, rounds::explain, view::Catalogue};
use crate::runtime::clock;
use hosting::{Client, Error, listing::Gap};
use std::{sync::Arc, time::Duration};

impl Core {
    /// A look that begins at or after this moment is wanted. Nothing happens when one is there.
    pub(super) fn want_catalogue(&self, not_before: Duration) {
        let mut knowledge = self.knowledge();
        if knowledge
            .catalogue
            .as_ref()
            .is_some_and(|(at, _)| *at >= not_before)
        {
            return;
        }
        if knowledge.catalogue_wants.insert(not_before) {
            drop(knowledge);
            self.restock.notify_one();
        }
    }

    /// Makes the looks that are wanted. Never ends.
    pub(super) async fn keep_stock(&self) {
        let mut failures = 0;
        let mut retry_at = Duration::ZERO;
        loop {
            let Some(due) = self.next_stocktaking() else {
                self.restock.notified().await;
                continue;
            };
            tokio::select! {
                biased;
                () = self.restock.notified() => continue,
                () = clock::sleep_until(due.max(retry_at)) => {}
            }
            let Some(client) = self.knowledge().client() else {
                self.restock.notified().await;
                continue;
            };
            let at = clock::now().mono;
            match self.stocktaking(&client).await {
                Ok(catalogue) => {
                    failures = 0;
                    retry_at = Duration::ZERO;
                    let mut knowledge = self.knowledge();
                    knowledge.catalogue = Some((at, Arc::new(catalogue)));
                    knowledge.catalogue_error = None;
                    knowledge.catalogue_wants.retain(|wanted| *wanted > at);
                    drop(knowledge);
                    self.announce();
                }
                Err(error) => {
                    failures += 1;
                    retry_at = clock::now().mono + pace::pause(failures, 1.0);
                    let is_key = matches!(error, Error::AccessDenied(_));
                    let shown = explain(&Gap::Failed(error));
                    tracing::debug!(failures, "{}", shown.1);
                    let is_news = {
                        let mut knowledge = self.knowledge();
                        let before = knowledge.catalogue_error.take();
                        if failures >= 2 && !is_key {
                            knowledge.catalogue_error = Some(shown);
                        }
                        before.is_none() != knowledge.catalogue_error.is_none()
                    };
                    if is_news {
                        self.announce();
                    }
                }
            }
        }
    }

    /// When the next look is due. Many that wait for stock ask again and again: one look serves them all.
    fn next_stocktaking(&self) -> Option<Duration> {
        let knowledge = self.knowledge();
        if *knowledge.breaker.contact() != Contact::Accepted {
            return None;
        }
        let wanted = *knowledge.catalogue_wants.first()?;
        let spacing = knowledge.times()?.poll_moving;
        Some(match &knowledge.catalogue {
            Some((at, _)) => wanted.max(*at + spacing),
            None => wanted,
        })
    }

    async fn stocktaking(&self, client: &Client) -> Result<Catalogue, Error> {
        let lane = Lane::Catalogue;
        Ok(Catalogue {
            quotas: self.call(lane, client.quota_usage()).await?,
            plans: self.call(lane, client.plans()).await?,
            locations: self.call(lane, client.locations()).await?,
            systems: self.call(lane, client.operating_systems()).await?,
        })
    }
}
