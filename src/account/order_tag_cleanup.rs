//! Removal of order tags that no object needs any more.

use super::{
    Connection,
    account_reads::{is_own_tag, read_with_restarts},
    session::Core,
};
use crate::runtime::clock;
use flexmetal_core::account::{
    order_tags::{MOST_REMOVED, OldOrderTags},
    priority::Priority,
};
use futures::FutureExt as _;
use hosting::listing::Listing;
use hosting_types::{Error, list::ListGap};
use std::time::Duration;

/// After a scan that left no old tag, tags are listed again when today's are old enough.
const LIST_AGAIN: Duration = Duration::from_secs(86_400);

impl Core {
    /// The order tags that may be removed once all servers are listed after this; None: none are due. Fails only if the
    /// key is rejected; any other failure waits for the next scan.
    pub(crate) async fn old_order_tags(
        &self,
        by: &Connection,
    ) -> Result<Option<OldOrderTags>, ListGap> {
        if by.client.is_read_only() {
            return Ok(None);
        }
        let now = clock::now().mono;
        let known = {
            let state = self.state();
            let is_due = |listed: Duration| now >= listed + LIST_AGAIN;
            let is_due = state.order_tags_listed.is_none_or(is_due);
            if !is_due || state.connection_for_changes().is_none() {
                return Ok(None);
            }
            state.known().to_vec()
        };
        let read = || {
            let mut old = OldOrderTags::new(clock::steady_wall(), known.clone(), &self.cluster_tag);
            async move {
                let pages = Listing::of_tags(|page| {
                    async move {
                        let tags = by.client.tags(page);
                        Ok(self.call(by, Priority::OrphanScan, tags).await?)
                    }
                    .boxed()
                });
                let mut pages = pages.leaving_out(is_own_tag).growing();
                while let Some(page) = pages.next_page().await? {
                    page.iter().for_each(|tag| old.add_tag(tag));
                }
                Ok(old)
            }
            .boxed()
        };
        match read_with_restarts(read).await {
            Ok((_, old)) if old.is_empty() => {
                self.state().order_tags_listed = Some(now);
                Ok(None)
            }
            Ok((_, old)) => Ok(Some(old)),
            Err(ListGap::Failed(error @ Error::AccessDenied(_))) => Err(error.into()),
            Err(ListGap::Failed(error @ Error::Forbidden { .. })) => {
                tracing::debug!(
                    account = %self.account.key,
                    error = error.explain(),
                    "tag list forbidden"
                );
                self.state().order_tags_listed = Some(now);
                Ok(None)
            }
            Err(gap) => {
                tracing::debug!(account = %self.account.key, error = %gap, "tag list failed");
                Ok(None)
            }
        }
    }

    /// Removes the tags that no object of the account has recorded. A task of its own sends the calls.
    pub(crate) fn remove_order_tags(&self, old: OldOrderTags) {
        // Not all objects are known yet.
        let Some(on_record) = self.subscribers.recorded_resources(&self.account.key) else {
            return;
        };
        let tags = old.to_remove(&on_record);
        let is_rest = tags.len() < MOST_REMOVED;
        self.state().order_tags_listed = is_rest.then(|| clock::now().mono);
        self.unneeded_tags.send_replace(tags);
    }

    /// Removes the tags that the last scan found. Never returns.
    pub(crate) async fn run_tag_removal(&self) {
        let mut unneeded = self.unneeded_tags.subscribe();
        while unneeded.changed().await.is_ok() {
            let tags = unneeded.borrow_and_update().clone();
            for tag in tags {
                if let Err(error) = self.remove_tag(&tag).await {
                    tracing::debug!(tag, error = error.explain(), "order tag removal failed");
                    self.state().order_tags_listed = None;
                    break;
                }
            }
        }
    }

    async fn remove_tag(&self, tag: &str) -> Result<(), Error> {
        let Some(connection) = self.state().connection_for_changes() else {
            return Ok(());
        };
        let call = connection.client.delete_tag(tag);
        match self.call(&connection, Priority::Catalogue, call).await {
            Ok(()) => {
                tracing::debug!(tag, "order tag removed");
                Ok(())
            }
            Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
