//! Commands that are not younger than the adoption of their server: both may come from a backup, and the command may have
//! been sent by an object that no longer exists. Nothing tells such a command from a new one.

use api::{
    BareMetalServer, ServerCommand,
    acknowledgement::AcknowledgementEffect,
    kind::controller,
    order::{OrderOutcome, OrderRecord},
};

/// How far the clocks of the operators may differ, in seconds.
const CLOCK_TOLERANCE_SECONDS: i64 = 60;

/// Why a command is older than the adoption of its server; None: it is younger, its server was ordered, or this very
/// object created it. `now`: in Unix seconds.
pub fn explain_older_command(
    command: &ServerCommand,
    server: &BareMetalServer,
    now: i64,
) -> Option<String> {
    let owner = controller(&command.metadata);
    if owner.is_some_and(|owner| server.metadata.uid.as_ref() == Some(&owner.uid)) {
        return None;
    }
    explain_missing_adoption(server).or_else(|| {
        let order = server.own_order().filter(|order| order.nonce.is_empty())?;
        let (adopted, created) = (order.outcome_at?, command.metadata.creation_timestamp.as_ref()?);
        // A time from a clock that ran ahead would refuse every later command.
        let is_older = created.0.as_second() <= adopted && adopted <= now + CLOCK_TOLERANCE_SECONDS;
        is_older.then(|| {
            format!(
                "{} adopted its server after this command was created; this may be a restored command that was sent before, so it is not sent. If still needed, create another ServerCommand",
                describe_server(server)
            )
        })
    })
}

/// Why a server takes no command before its adoption; None: its object has adopted it, or orders one.
pub fn explain_missing_adoption(server: &BareMetalServer) -> Option<String> {
    let order = server.own_order();
    if order.and_then(OrderRecord::created).is_some() {
        return None;
    }
    let status = server.status.as_ref();
    let mut pending = status
        .into_iter()
        .flat_map(|it| &it.pending_acknowledgements);
    let adopts = server.spec.external_id.is_some()
        || order.is_some_and(|order| order.outcome == Some(OrderOutcome::Adopting))
        || pending.any(|it| it.effect == AcknowledgementEffect::Adopt);
    adopts.then(|| {
        format!(
            "{} has not adopted its server yet; a command from before that may be a restored one that was sent already, so none is sent. Create a ServerCommand once the server is adopted",
            describe_server(server)
        )
    })
}

fn describe_server(server: &BareMetalServer) -> String {
    let name = server.metadata.name.as_deref().unwrap_or_default();
    format!("BareMetalServer {name}")
}
