//! The next status as decided: conditions without times, all other fields as they will be written.

use super::super::facts::ServerFacts;
use crate::{
    acknowledgement::{Situation, withdraw},
    explanation::{Explanation, ReadyState},
    wording::omitted,
};
use api::{
    Reason,
    acknowledgement::AcknowledgementEffect,
    conditions::{self, DesiredCondition, Type},
    records::ServerRecords,
    server::{Address, BareMetalServerSpec, BareMetalServerStatus, MOST_ADDRESSES},
};
use hosting_types::{Server, secret::HIDDEN_WORDS};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

/// Prefix of the provider ID of a Node.
const PROVIDER_ID: &str = "flexmetal://";

/// The provider's message, hidden if it may repeat secret texts that were sent.
pub fn status_message<'a>(facts: &ServerFacts, server: &'a Server) -> Option<&'a str> {
    let message = Some(&*server.status_message).filter(|message| !message.is_empty());
    message.map(|message| match facts.had_secret_texts() {
        true => HIDDEN_WORDS,
        false => message,
    })
}

/// The next status.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredStatus {
    /// All fields. The conditions are still the present ones.
    pub status: BareMetalServerStatus,
    /// The desired conditions; empty: the present ones stay.
    pub conditions: Vec<DesiredCondition>,
    /// Reason for which the object waits under [`ReferenceGrace`](crate::reference_grace::ReferenceGrace).
    pub waiting_reason: Option<Reason>,
    /// What is left of the grace period, if its end changes the status.
    pub grace_left: Option<Duration>,
    /// Generation of the object.
    generation: Option<i64>,
}

impl DesiredStatus {
    /// The status as it is.
    pub fn unchanged(facts: &ServerFacts) -> Self {
        Self {
            status: facts.status(),
            conditions: Vec::new(),
            waiting_reason: None,
            grace_left: None,
            generation: facts.object.metadata.generation,
        }
    }

    /// The status of an object that waits for this reason. The fields of the server stay.
    pub fn waiting(facts: &ServerFacts, explanation: Explanation) -> Self {
        let mut desired = Self::unchanged(facts);
        desired.set(facts, explanation, None);
        desired
    }

    /// Sets all conditions from one explanation. `synced` overrides the condition Synced.
    pub fn set(
        &mut self,
        facts: &ServerFacts,
        explanation: Explanation,
        synced: Option<(bool, Reason, String)>,
    ) {
        self.waiting_reason =
            (explanation.ready_state == ReadyState::Missing).then_some(explanation.reason);
        let before = &self.status.conditions;
        let (explanation, rest) =
            explanation.apply_grace(&facts.memory.reference_grace, facts.now.mono, before);
        self.grace_left = rest;
        let synced = synced.map(|(in_sync, reason, message)| {
            DesiredCondition::new(Type::Synced, in_sync, reason, message)
        });
        let before = &self.status.conditions;
        if !explanation.is_kept(before, facts.deleting()) {
            self.status.observed_generation = facts.object.metadata.generation;
        }
        self.conditions = explanation.to_conditions(synced, before, facts.deleting());
    }

    /// Sets Synced to false with this reason, in place of any other.
    pub fn set_unsynced(&mut self, reason: Reason, message: impl Into<String>) {
        self.conditions.retain(|c| c.kind != Type::Synced);
        let synced = DesiredCondition::new(Type::Synced, false, reason, message);
        self.conditions.push(synced);
    }

    /// Takes over what the provider shows of the server.
    pub fn show_server(&mut self, facts: &ServerFacts, server: &Server) {
        let status = &mut self.status;
        // Keep the first spelling: other records use it.
        status.uuid.take_if(|uuid| server.id != **uuid);
        let uuid = status.uuid.get_or_insert_with(|| server.id.as_str().into());
        status.provider_id = Some(format!("{PROVIDER_ID}{uuid}"));
        status.provider_status = Some(server.status.as_str().into());
        status.status_message = status_message(facts, server).map(str::to_owned);
        let addresses = server.addresses.iter().take(MOST_ADDRESSES);
        status.addresses = addresses.map(|a| Address::from_text(a)).collect();
        status.addresses_omitted = omitted(server.addresses.len(), MOST_ADDRESSES);
        status.created_at = server.created_at.and_then(time);
        status.delivered_at = server.delivered_at.and_then(time);
        status.released_at = server.released_at.and_then(time);
        let took = server.delivered_at.zip(server.created_at);
        let took = took.and_then(|(delivered, created)| delivered.checked_sub(created));
        status.provisioning_seconds = took.filter(|took| *took >= 0);
        let shown = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        status.location = shown(&server.location);
        status.instance_type = shown(&server.instance_type);
        status.os = shown(&server.os_slug);
        status.hostname = shown(&server.name);
        status.contract_id.clone_from(&server.contract_id);
    }

    /// Shows location, type and system as the spec has them, until the provider shows the server.
    pub fn show_spec(&mut self, spec: &BareMetalServerSpec) {
        let status = &mut self.status;
        let is_shown = status.uuid.is_some();
        for (shown, asked) in [
            (&mut status.location, spec.location.as_ref()),
            (&mut status.instance_type, spec.instance_type.as_ref()),
            (&mut status.os, spec.os.as_ref().map(|os| &os.slug)),
        ] {
            if !is_shown || shown.is_none() {
                *shown = asked.cloned();
            }
        }
    }

    /// Whether nothing is reported of the object yet. The first steps of a new one are not worth a write.
    pub fn is_silent(&self) -> bool {
        self.status.conditions.is_empty() && self.conditions.is_empty()
    }

    /// Publishes what a user may acknowledge.
    pub fn request_acknowledgement(&mut self, facts: &ServerFacts, situation: &Situation) {
        let pending = &mut self.status.pending_acknowledgements;
        facts.acknowledgements().ask(situation, pending);
    }

    /// Withdraws the pending acknowledgements of this effect.
    pub fn withdraw(&mut self, effect: AcknowledgementEffect) {
        withdraw(effect, &mut self.status.pending_acknowledgements);
    }

    /// Records that the operator acts on the user's acknowledgement of this effect.
    pub fn record_acknowledged(&mut self, facts: &ServerFacts, effect: AcknowledgementEffect) {
        let status = &mut self.status;
        let pending = &mut status.pending_acknowledgements;
        let given = facts.acknowledgements();
        given.use_up(effect, pending, &mut status.acknowledged);
    }

    /// Records that the operator acted on this token.
    pub fn use_up_token(&mut self, facts: &ServerFacts, token: &str) {
        let status = &mut self.status;
        let pending = &mut status.pending_acknowledgements;
        let given = facts.acknowledgements();
        given.use_up_token(token, pending, &mut status.acknowledged);
    }

    /// Drops the fields of a server, before the object gets another one.
    pub fn forget_server(&mut self) {
        let BareMetalServerStatus {
            observed_generation,
            mut conditions,
            account_ref,
            policies,
            replaced_servers,
            last_handled_reconcile_at,
            pending_acknowledgements,
            acknowledged,
            records,
            ..
        } = std::mem::take(&mut self.status);
        conditions.retain(|it| it.type_ != Type::RootPasswordStored.as_str());
        self.conditions
            .retain(|it| it.kind != Type::RootPasswordStored);
        self.status = BareMetalServerStatus {
            observed_generation,
            conditions,
            account_ref,
            policies,
            replaced_servers,
            last_handled_reconcile_at,
            pending_acknowledgements,
            acknowledged,
            records: ServerRecords {
                order: records.order,
                outputs: records.outputs,
                expiry_warning: records.expiry_warning,
                ..ServerRecords::default()
            },
            ..BareMetalServerStatus::default()
        };
    }

    /// The status to write at this moment.
    pub fn finish(&self, now: Timestamp) -> BareMetalServerStatus {
        let mut status = self.status.clone();
        if !self.conditions.is_empty() {
            status.conditions = conditions::merge(
                &self.status.conditions,
                &self.conditions,
                conditions::Generations {
                    observed: status.observed_generation,
                    current: self.generation,
                },
                now,
            );
        }
        status
    }

    /// The desired condition of this type.
    pub fn condition(&self, kind: Type) -> Option<&DesiredCondition> {
        self.conditions.iter().find(|c| c.kind == kind)
    }
}

/// A time in seconds since 1970, as status has it; none if out of range.
pub(super) fn time(unix: i64) -> Option<Time> {
    Timestamp::from_second(unix).ok().map(Time)
}
