//! The order of a server as its object records it: the request, and its outcome.

use super::{BareMetalServer, references::AccountKind, rfc3339};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, ops::Not};

/// The account that gets a request, so that lists of another account decide nothing about it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderAccount {
    /// Kind of the account object.
    pub kind: AccountKind,
    /// Name of the account object.
    pub name: String,
    /// UID of the account object.
    pub uid: String,
    /// Random identifier of the account at the provider, as in `status.accountID` of the account object.
    #[serde(rename = "accountID")]
    pub account_id: String,
    /// Hash of the account object, its base URL and its key, as used for the request: 12 hex digits.
    #[serde(rename = "credentialsHash")]
    pub credentials_hash: String,
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

/// The last order, or the server that the object is about to adopt.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderRecord {
    /// UID of the ordering object. A record with the UID of another object, as after a restore, does not count.
    pub uid: String,
    /// Number of the order: the Unix second of its start, higher in every further order.
    pub seq: u32,
    /// Nonce of the order: only its creator sends the order. Empty if none was sent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nonce: String,
    /// Time after which the order is no longer sent.
    #[serde(with = "rfc3339")]
    pub send_by: i64,
    /// Host name that was ordered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// ID of the account that the order went to (`status.accountID` there).
    #[serde(rename = "accountID")]
    pub account_id: String,
    /// Outcome of the order. Unset while it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OrderOutcome>,
    /// UUID of the server that the order created, or that the object adopts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Time of the outcome.
    #[serde(
        default,
        with = "rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub outcome_at: Option<i64>,
    /// Whether the answer to the order was lost.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub answer_lost: bool,
    /// Orders in a row whose answer was lost and that created no server.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u8,
    /// Orders in a row that were cut off by the end of the operator's process and created no server.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: u8,
    /// Details of the outcome, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How many orders in a row were refused or not sent; sets the backoff of the next one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: i32,
    /// Token by which a user acknowledged this order, if it needed one. It is used up once the order may have created a
    /// server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledgement: Option<String>,
    /// Hash of what the spec requested, to show that a refused request was changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_hash: Option<String>,
    /// Name of the ordered location: the spec's, or one of its alternatives'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Name of the ordered instance type, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// Hashes of what was sent and the provider does not return, by the field of the spec, to show later edits: 8 hex
    /// digits each, 4 of what may be a secret. Empty if not known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sent: BTreeMap<String, String>,
    /// UIDs of the SshKey objects whose keys were sent, as read right before.
    #[serde(default, rename = "keyUIDs", skip_serializing_if = "Vec::is_empty")]
    pub key_uids: Vec<String>,
    /// Whether one of its texts came from a Secret or ConfigMap.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub secret_texts: bool,
}

impl OrderRecord {
    /// The server that the object has by this record.
    pub fn created(&self) -> Option<&str> {
        let is_created = self.outcome == Some(OrderOutcome::Created);
        self.server.as_deref().filter(|_| is_created)
    }

    /// When it was started, in Unix seconds, or earlier: its sequence number may be ahead of the clock.
    pub fn started_at(&self) -> i64 {
        i64::from(self.seq).min(self.send_by)
    }
}

impl BareMetalServer {
    /// The order record of the object. One that was copied or restored from another object is not its own.
    pub fn own_order(&self) -> Option<&OrderRecord> {
        let order = self.status.as_ref()?.records.order.as_ref()?;
        (self.metadata.uid.as_ref() == Some(&order.uid)).then_some(order)
    }
}

/// Outcome of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OrderOutcome {
    /// The server is the object's.
    Created,
    /// The provider refused the order.
    Refused,
    /// The order never left the operator.
    NotSent,
    /// The order created no server: complete lists confirmed that, or a user acknowledged it.
    Absent,
    /// The object is about to adopt a server that it did not order.
    Adopting,
}

impl OrderOutcome {
    /// Whether the order is known to have created no server.
    pub fn made_no_server(self) -> bool {
        matches!(self, Self::Refused | Self::NotSent | Self::Absent)
    }
}
