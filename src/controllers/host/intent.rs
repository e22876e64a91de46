//! Writes an attempt to status before its request. Status suffices: an object that lost it counts what it asks for as
//! performed and sends nothing.

use super::HostContext;
use crate::controllers::writes::WriteOutcome;
use api::{DedicatedHost, host::DedicatedHostStatus};
use flexmetal_core::attempt_state::{AttemptState, Closed, Reply};
use std::sync::Arc;

/// Writes a status with an attempt, on the version that was read. `shown`: compares a read object with the attempt.
pub(super) async fn write_intent(
    ctx: &HostContext,
    mut object: Arc<DedicatedHost>,
    status: &DedicatedHostStatus,
    shown: impl Fn(&DedicatedHost) -> Reply,
) -> AttemptState {
    let mut state = AttemptState::WriteStatus;
    loop {
        let reply = match state {
            AttemptState::WriteStatus => match ctx.write_status(&object, status).await {
                Some(WriteOutcome::Done(written)) => {
                    object = written;
                    Reply::Done
                }
                // A new nonce is always a difference, so None means that nothing was written.
                Some(WriteOutcome::Stale) | None => {
                    return AttemptState::Closed(Closed::NotStarted);
                }
                Some(WriteOutcome::Unknown(failure)) => {
                    tracing::warn!(
                        namespace = object.metadata.namespace,
                        name = object.metadata.name,
                        error = &failure as &dyn std::error::Error,
                        "host record unconfirmed"
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
            AttemptState::Send | AttemptState::Closed(_) => return state,
        };
        state = state.after(reply);
    }
}
