//! The list of a machine's commands, page by page, by the calls of a permit that was given for something else as well.

use super::{
    act::Outcome,
    facts::{MOST_PAGES, Observation},
};
use crate::{
    account::Permit,
    controllers::{pass::Ended, trouble::Trouble},
};
use futures::FutureExt as _;
use hosting::{
    Error, ServerId,
    command::Command,
    listing::{Gap, Listing},
};
use tokio::sync::Mutex;

/// The commands of a machine, the whole list, by so many calls of the permit at most: what else it was given for is left of
/// it.
///
/// # Errors
/// What comes of the pass, where the list cannot be had.
pub(super) async fn commands_of(
    permit: &mut Permit,
    id: &ServerId,
    pages: u32,
) -> Result<Vec<Command>, Outcome> {
    let calls = Mutex::new((permit, pages));
    let calls = &calls;
    let list = Listing::of_commands(move |page| {
        async move {
            let mut calls = calls.lock().await;
            // The list is longer: more pages are asked for next time.
            let Some(left) = calls.1.checked_sub(1) else {
                return Err(Gap::TooMany);
            };
            calls.1 = left;
            let page = calls
                .0
                .call(async |client| client.commands(id, None, page).await);
            Ok(page.await?)
        }
        .boxed()
    });
    match list.collect().await {
        Ok(all) => Ok(all.into_records()),
        Err(incomplete) => Err(match incomplete.gap {
            Gap::Failed(error) => not_done(&error),
            Gap::TooMany if pages < MOST_PAGES => (Ended::Done, Observation::Longer(pages)),
            gap => failed(&gap.to_string()),
        }),
    }
}

pub(super) fn failed(why: &str) -> Outcome {
    (
        Ended::Failed(Trouble::unexpected(why)),
        Observation::Nothing,
    )
}

pub(super) fn not_done(error: &Error) -> Outcome {
    tracing::debug!(error = error.explain(), "a look at a command failed");
    (
        Ended::Failed(Trouble::of_provider(error)),
        Observation::Nothing,
    )
}
