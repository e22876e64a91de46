//! What waits for an acknowledgement, and what was acknowledged. Users acknowledge a token of status by the annotation
//! [`ACKNOWLEDGE`](super::names::ACKNOWLEDGE).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most entries of `status.acknowledged`.
pub const MOST_ACKNOWLEDGED: usize = 5;
/// Most characters of a subject.
pub const LONGEST_SUBJECT: usize = 256;

/// What the operator does once it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AcknowledgementEffect {
    /// It orders a server next to those of this name in an earlier namespace.
    OrderAnother,
    /// It takes the server of this name in an earlier namespace.
    Adopt,
    /// It assumes that the order made no server, or that the server is gone.
    AssumeAbsent,
    /// It keeps the account ID and forgets the known servers that the account does not show.
    SameAccount,
    /// It uses the new base URL or key as another account and gives up the servers that are recorded here.
    NewAccount,
    /// It begins as many releases as the release limit allows once more.
    LiftReleaseLimit,
    /// It changes the whitelist although that may lock the operator out.
    AllowLockout,
    /// It removes the entries of other objects from the whitelist.
    RemoveOthersEntries,
}

/// One situation that waits for an acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingAcknowledgement {
    /// Value for the annotation `flexmetal.dev/acknowledge`. It is valid for this object, this effect and this
    /// situation, works once, and expires when the situation changes.
    #[schemars(length(max = 12))]
    pub token: String,
    /// What the operator does once the token is given.
    pub effect: AcknowledgementEffect,
    /// Servers, order, account or list that it concerns, at most 256 characters. The token is for all of it.
    #[schemars(length(max = 256))]
    pub subject: String,
    /// Time since which the status has this token.
    pub since: Time,
}

/// An acknowledgement that the operator acted on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Acknowledged {
    /// The token that was given.
    #[schemars(length(max = 12))]
    pub token: String,
    /// What the operator did.
    pub effect: AcknowledgementEffect,
    /// Time at which the operator acted on the token.
    pub acknowledged_at: Time,
}
