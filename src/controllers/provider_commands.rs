//! Lists the commands of a provider's server page by page, with the calls of a permit that has other uses too.

use crate::account::Permit;
use flexmetal_core::{
    last_error::LastError,
    provider_commands::{MOST_PAGES, NotListed},
};
use futures::FutureExt as _;
use hosting::listing::Listing;
use hosting_types::{ServerId, command::Command, list::ListGap};
use tokio::sync::Mutex;

/// All commands of a provider's server, or of one kind (the API's `type`), by at most `pages` calls of the permit.
///
/// # Errors
/// Why the list is not available.
pub async fn list_commands(
    permit: &mut Permit,
    id: &ServerId,
    kind: Option<&'static str>,
    pages: u32,
) -> Result<Vec<Command>, NotListed> {
    let calls = Mutex::new((permit, pages));
    let calls = &calls;
    let list = Listing::of_commands(move |page| {
        async move {
            let mut calls = calls.lock().await;
            let Some(left) = calls.1.checked_sub(1) else {
                return Err(ListGap::TooMany);
            };
            calls.1 = left;
            let page = calls
                .0
                .call(async |client| client.commands(id, kind, page).await);
            Ok(page.await?)
        }
        .boxed()
    });
    match list.collect().await {
        Ok(all) => Ok(all.into_records()),
        Err(incomplete) => Err(match incomplete.gap {
            ListGap::Failed(error) => {
                tracing::debug!(error = error.explain(), "command list failed");
                NotListed::Failed(LastError::from_provider(&error))
            }
            ListGap::TooMany if pages < MOST_PAGES => NotListed::Longer(pages),
            gap => NotListed::Failed(LastError::check_failed(&gap.to_string())),
        }),
    }
}
