//! The order of a server as its object records it: the intent, and the outcome.

use super::{names::ORDER_TAG, references::AccountKind, rfc3339};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, ops::Not};

/// The intent to order, written before the order is sent, in metadata and in status.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// Identifier of the ordering cluster, 16 hex digits.
    pub cluster: String,
    /// UID of the ordering object.
    pub uid: String,
    /// Mark of the object, 24 hex digits.
    pub mark: String,
    /// Number of the attempt: the Unix second of its start, higher in every further attempt.
    pub epoch: i64,
    /// Nonce of this attempt.
    pub attempt: String,
    /// Time after which the order is no longer sent.
    #[serde(with = "rfc3339")]
    pub send_by: i64,
    /// Host name that was ordered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// The account that the order goes to. Unset where that is not known any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<OrderAccount>,
    /// How many attempts in a row before this one had an unknown outcome and turned out to have made no machine.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown_before: i32,
}

impl Intent {
    /// The tag of the order, by which its machine is found.
    pub fn tag(&self) -> String {
        let epoch = self.epoch.clamp(0, i64::from(u32::MAX));
        format!("{ORDER_TAG}{}{epoch:08x}", self.mark)
    }
}

/// The account that an order goes to, so that nothing is concluded from what another one shows.
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
    pub lineage: String,
    /// Hash of the account object, its base URL and its key that the request goes out with: 12 hex digits.
    #[serde(rename = "credentialsHash")]
    pub connection: String,
}

/// The order annotation: the intent, and the outcome of an order that is known to have made no machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderNote {
    /// What is intended.
    #[serde(flatten)]
    pub intent: Intent,
    /// How it ended without a machine. Unset while the order is open, or made one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OrderOutcome>,
}

impl OrderNote {
    /// The note of an order that is open, or made a machine.
    pub fn open(intent: Intent) -> Self {
        Self {
            intent,
            outcome: None,
        }
    }
}

impl OrderOutcome {
    /// Whether the order is known to have made no machine.
    pub fn is_closed(self) -> bool {
        self != Self::Created
    }
}

// serde's skip_serializing_if passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(n: &i32) -> bool {
    *n == 0
}

/// The last order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderRecord {
    /// What was intended.
    #[serde(flatten)]
    pub intent: Intent,
    /// Outcome of the order: `Created`, `Refused`, `NotSent` or `Absent`. Unset while it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OrderOutcome>,
    /// Time of the outcome.
    #[serde(
        default,
        with = "rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub outcome_at: Option<i64>,
    /// Whether a user acknowledged the outcome `Absent`. The operator found any other outcome out itself.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub acknowledged: bool,
    /// Details of the outcome, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How many attempts in a row were refused or not sent; sets the pace of the next one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: i32,
    /// Token by which a user acknowledged this order, if it needed one. It is used up once the order may have made a
    /// server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledgement: Option<String>,
    /// Hash of what the spec asked for, to show that a refused request was changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_hash: Option<String>,
    /// Name of the location that was ordered: that of the spec, or of one of its alternatives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Name of the instance type that was ordered, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// Hashes of what was sent and the provider does not give back, by the field of the spec, to show later edits: 8 hex
    /// digits each, 4 of what may be a secret. Empty where that is not known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sent: BTreeMap<String, String>,
}

impl OrderRecord {
    /// The record of an order whose outcome is not known.
    pub fn open(intent: Intent) -> Self {
        Self {
            intent,
            outcome: None,
            outcome_at: None,
            acknowledged: false,
            message: None,
            failures: 0,
            acknowledgement: None,
            request_hash: None,
            location: None,
            instance_type: None,
            sent: BTreeMap::new(),
        }
    }
}

/// Outcome of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OrderOutcome {
    /// A machine bears the mark; its identifier is in `status.uuid`.
    Created,
    /// The provider refused the order.
    Refused,
    /// The order never left the operator.
    NotSent,
    /// The outcome was unknown, and it was proved that no machine was made.
    Absent,
}
