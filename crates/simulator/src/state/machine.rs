//! One machine and its history.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::super::catalogue::{Catalogue, Offer};
use super::super::clock::Moment;
use super::super::profile::{AbsentFields, IdleMessage, Switches};
use super::commands::Command;
use super::history::History;
use super::status::Status;

/// Who moved a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Cause {
    Order,
    Pipeline,
    Release,
    /// Somebody at the control port.
    Control,
}

/// A change of state, past or to come.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) at: Moment,
    #[serde(rename = "state")]
    pub(crate) status: Status,
    /// Its number among all changes of the account: with a driven clock many happen
    /// at one moment.
    #[serde(default)]
    pub(crate) tick: u64,
    pub(crate) cause: Cause,
    /// Becomes `statusMessage` when not empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
}

impl Step {
    /// A step without a message.
    pub(crate) fn new(at: Moment, status: Status, cause: Cause) -> Self {
        Self {
            at,
            status,
            tick: 0,
            cause,
            message: String::new(),
        }
    }

    /// The same step with a message.
    pub(crate) fn saying(self, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..self
        }
    }
}

/// The tags that a machine bore from one moment on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tagging {
    pub(crate) at: Moment,
    /// See [`Step::tick`].
    #[serde(default)]
    pub(crate) tick: u64,
    pub(crate) tags: Vec<String>,
}

/// A DELETE that the API accepted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Release {
    pub(crate) at: Moment,
    pub(crate) tags: Vec<String>,
}

/// A machine and its history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Its number among those of all accounts, from 1.
    pub(super) number: u64,
    pub(crate) uuid: Uuid,
    pub(crate) name: String,
    pub(crate) offer: Offer,
    /// The system that it shows, and the one it was delivered with.
    pub(crate) slug: String,
    pub(crate) first_slug: String,
    /// The contract whose pool it came from; `None` is the on-demand pool.
    pub(crate) contract: Option<String>,
    pub(crate) history: History,
    pub(crate) plan: VecDeque<Step>,
    pub(crate) taggings: Vec<Tagging>,
    pub(crate) addresses: Vec<String>,
    pub(crate) addressed_at: Option<Moment>,
    pub(crate) hidden: bool,
    /// Ordered over the API, not added by the control port.
    pub(crate) ordered: bool,
    pub(crate) releases: Vec<Release>,
    /// In order of time, re-installations too.
    pub(crate) commands: Vec<Command>,
    /// Power switched among the hosts, not by a command.
    pub(crate) switched: Option<(Moment, bool)>,
}

/// A machine at its creation.
#[derive(Clone, Debug)]
pub(crate) struct Birth {
    pub(crate) number: u64,
    pub(crate) uuid: Uuid,
    pub(crate) name: String,
    pub(crate) offer: Offer,
    pub(crate) slug: String,
    pub(crate) contract: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) at: Moment,
    pub(crate) addresses: Vec<String>,
    /// Ordered over the API, or added by the control port.
    pub(crate) ordered: bool,
}

impl Machine {
    /// A machine in its first state.
    pub(super) fn new(birth: Birth, mut plan: VecDeque<Step>) -> Self {
        let cause = if birth.ordered {
            Cause::Order
        } else {
            Cause::Control
        };
        plan.shrink_to_fit();
        Self {
            number: birth.number,
            uuid: birth.uuid,
            name: birth.name,
            offer: birth.offer,
            first_slug: birth.slug.clone(),
            slug: birth.slug,
            contract: birth.contract,
            history: History::new(Step::new(birth.at, Status::Created, cause)),
            plan,
            taggings: vec![Tagging {
                at: birth.at,
                tick: 0,
                tags: birth.tags,
            }],
            addresses: birth.addresses,
            addressed_at: None,
            hidden: false,
            ordered: birth.ordered,
            releases: Vec::new(),
            commands: Vec::new(),
            switched: None,
        }
    }

    /// When it was created.
    pub(crate) fn created_at(&self) -> Option<Moment> {
        Some(self.history.began())
    }

    /// The last thing that happened at or before `at`; the first ever if none.
    pub(crate) fn step(&self, at: Moment) -> Option<&Step> {
        self.history.step(at)
    }

    /// The state now.
    pub(crate) fn status(&self) -> Status {
        self.history.status()
    }

    /// The state at that time.
    pub(crate) fn status_at(&self, at: Moment) -> Status {
        self.history.status_at(at)
    }

    /// The tags now.
    pub(crate) fn tags(&self) -> &[String] {
        self.taggings.last().map_or(&[], |tagging| &tagging.tags)
    }

    /// The tags at that time.
    pub(crate) fn tags_at(&self, at: Moment) -> &[String] {
        let then = self.taggings.iter().rev().find(|tagging| tagging.at <= at);
        then.or_else(|| self.taggings.first())
            .map_or(&[], |tagging| &tagging.tags)
    }

    /// When it first reached this state.
    pub(super) fn entered(&self, status: Status, until: Moment) -> Option<Moment> {
        let mut steps = self.history.iter().filter(|step| step.at <= until);
        steps.find(|step| step.status == status).map(|step| step.at)
    }

    /// Moves to the next state, as the account's change number `tick`.
    pub(crate) fn enter(&mut self, step: Step, tick: u64) {
        let addressed = matches!(step.status, Status::NetworkConfigured | Status::Delivered);
        if addressed && self.addressed_at.is_none() {
            self.addressed_at = Some(step.at);
        }
        self.history.push(Step { tick, ..step });
    }

    /// The record of section 2.6 as it was at `at`.
    pub(crate) fn record(&self, at: Moment, catalogue: &Catalogue, switches: &Switches) -> Value {
        let step = self.step(at);
        let shown = self.addressed_at.is_some_and(|since| since <= at);
        let addresses: Vec<Value> = self
            .addresses
            .iter()
            .filter(|_| shown)
            .map(|address| json!({"ipAddress": address}))
            .collect();
        let message = match step.map_or("", |step| step.message.as_str()) {
            "" => match switches.idle_message {
                IdleMessage::Empty => json!(""),
                IdleMessage::Ok => json!("OK"),
                IdleMessage::Null => Value::Null,
            },
            message => json!(message),
        };
        let mut record = Map::new();
        record.insert("uuid".into(), json!(self.uuid.to_string()));
        record.insert("name".into(), json!(self.name));
        record.insert(
            "status".into(),
            json!(step.map_or("", |step| step.status.word())),
        );
        record.insert("statusMessage".into(), message);
        record.insert(
            "location".into(),
            catalogue.location_brief(self.offer.location),
        );
        record.insert(
            "instanceType".into(),
            catalogue.instance_type_brief(self.offer.instance_type),
        );
        record.insert("os".into(), json!({"slug": self.slug}));
        record.insert("ipAddresses".into(), Value::Array(addresses));
        record.insert("tags".into(), json!(self.tags_at(at)));
        record.insert(
            "createdAt".into(),
            json!(self.created_at().map_or(0, Moment::unix)),
        );

        let delivered = self
            .entered(Status::Delivered, at)
            .map(|at| json!(at.unix()));
        let released = self
            .entered(Status::Released, at)
            .map(|at| json!(at.unix()));
        let contract = self.contract.as_ref().map(|contract| json!(contract));
        let absent = |empty: Value| match switches.absent_fields {
            AbsentFields::Omit => None,
            AbsentFields::Zero => Some(empty),
        };
        let optional = [
            ("deliveredAt", delivered.or_else(|| absent(json!(0)))),
            ("releasedAt", released.or_else(|| absent(json!(0)))),
            ("contractId", contract.or_else(|| absent(json!("")))),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                record.insert(name.into(), value);
            }
        }
        Value::Object(record)
    }
}
