//! The one write that notes an attempt in status, before its request.
//!
//! The steps are those of [`Stage`]. The note stands in status alone: an object that lost its status counts what it asks for
//! as performed and sends nothing, so a second trace would stop nothing more.

use super::HostContext;
use crate::controllers::writes::WriteOutcome;
use api::{DedicatedHost, host::DedicatedHostStatus};
use flexmetal_core::attempt_state::{AttemptState, Closed, Reply};
use std::sync::Arc;

/// Writes a status with an attempt in it, on the version of the object that was read. `shown`: what a read says of the attempt.
pub(super) async fn write_intent(
    ctx: &HostContext,
    mut object: Arc<DedicatedHost>,
    status: &DedicatedHostStatus,
    shown: impl Fn(&DedicatedHost) -> Reply,
) -> AttemptState {
    let mut stage = AttemptState::WriteStatus;
    loop {
        let reply = match stage {
            AttemptState::WriteStatus => match ctx.write_status(&object, status).await {
                Some(WriteOutcome::Done(written)) => {
                    object = written;
                    Reply::Done
                }
                // Without a difference, which a new nonce is, nothing was written.
                Some(WriteOutcome::Stale) | None => {
                    return AttemptState::Closed(Closed::NotStarted);
                }
                Some(WriteOutcome::Unknown(failure)) => {
                    tracing::warn!(
                        error = &failure as &dyn std::error::Error,
                        "the answer to the write that notes a request to a host was lost"
                    );
                    Reply::Unknown
                }
            },
            AttemptState::ReadStatus => match ctx.read_object(&object).await {
                Ok(Some(found)) => shown(&found),
                Ok(None) => Reply::Stale,
                Err(_) => Reply::Unknown,
            },
            AttemptState::WriteMetadata | AttemptState::ReadMetadata => Reply::Stale,
            AttemptState::Send | AttemptState::Closed(_) => return stage,
        };
        stage = stage.after(reply);
    }
}
