//! Tests: the largest status of a command, whatever the provider shows.

use super::*;
use crate::sizes::{largest, lengthen, long, written};
use api::{bounds::stored_size, records::LARGEST_RECORDS};

/// A command that the provider accepted, with the longest texts.
fn taken(action: PowerAction) -> CommandRecord {
    let mut record = accepted(action, &long(), 100);
    record.message = Some(long());
    record.intent.attempt = largest::text(32);
    record.intent.account.name = largest::text(253);
    record.intent.account.uid = largest::text(36);
    record.intent.account.account_id = largest::text(32);
    record.intent.account.credentials_hash = largest::text(12);
    record.intent.listed = ListedCommands {
        since: Some(WALL),
        recent: largest::words(crate::provider_commands::MOST_RECORDED, 8),
    };
    record
}

#[test]
fn the_largest_command_has_less_than_64_kib() {
    let spec = json!({
        "targetRef": {"kind": "BareMetalServer", "name": largest::text(253)},
        "action": "Shutdown", "timeout": "23h59m59.999s", "escalateAfter": "23h59m59.998s",
        "ttlSecondsAfterFinished": 31_536_000,
    });
    let sent = [taken(PowerAction::Shutdown), taken(PowerAction::PowerOff)];
    let case = Case::new(PowerAction::Shutdown).sent(&sent).object(|o| {
        let status = o.status.as_mut().unwrap();
        status.last_handled_reconcile_at = Some(largest::text(128));
    });
    let decision = case.decide();
    let (mut status, _) = decision.status(&case.0.subject, jiff::Timestamp::UNIX_EPOCH);
    lengthen(&mut status.conditions);
    let status = written::<ServerCommand>(&spec, &status);
    let records = &status["records"];
    assert_eq!(records["sent"].as_array().map(Vec::len), Some(2));
    assert!(
        stored_size(records) < LARGEST_RECORDS,
        "{} bytes",
        stored_size(records)
    );
    assert!(status["providerState"].as_str().unwrap().ends_with('…'));
}
