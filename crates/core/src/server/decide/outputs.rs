//! `spec.outputs`: what others need of the machine, in a ConfigMap or a Secret that the object owns.
//!
//! Written once the machine is delivered, whenever it differs from what this process wrote last, and looked at now and
//! then, since others may edit or delete it. Nothing is sent to the provider, so an object that is only shown has it too.

use super::{
    super::facts::{Facts, is_same_uuid},
    Decision, Effect,
    machine::SEE_SYNCED,
};
use crate::account::view::Sighting;
use api::{
    Interval, Reason,
    conditions::{Type, Wanted},
    outputs::{OutputPlace, entries},
};
use hosting_types::ServerStatus;
use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

/// What others did to it is mended within this time.
const LOOK_EVERY: Duration = Duration::from_secs(600);

/// One that is to be written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Output {
    /// As what.
    pub place: OutputPlace,
    /// Its name.
    pub name: String,
    /// What it holds.
    pub entries: BTreeMap<String, String>,
}

impl Output {
    /// A short form of all of it, to tell whether it changed.
    pub fn content(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// What this process knows of the ConfigMap and the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Outputs {
    config_map: Option<Look>,
    secret: Option<Look>,
}

/// A look at one of them, after which it held what it should, or was seen to be another's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Look {
    content: u64,
    at: Duration,
    is_ours: bool,
}

impl Outputs {
    /// Takes in how it was found, or left.
    pub fn note(&mut self, place: OutputPlace, content: u64, is_ours: bool, at: Duration) {
        let look = Some(Look {
            content,
            at,
            is_ours,
        });
        match place {
            OutputPlace::ConfigMap => self.config_map = look,
            OutputPlace::Secret => self.secret = look,
        }
    }

    /// The last look at what is to be written.
    fn last(&self, output: &Output) -> Option<&Look> {
        let look = match output.place {
            OutputPlace::ConfigMap => &self.config_map,
            OutputPlace::Secret => &self.secret,
        };
        look.as_ref()
            .filter(|look| look.content == output.content())
    }
}

/// Adds to a decision what is due, where nothing else is, and says what cannot be written.
pub fn keep(facts: &Facts, decision: &mut Decision) {
    let Some(outputs) = &facts.object.spec.outputs else {
        return;
    };
    if facts.deleting() || facts.policies().suspend || !shows_delivered(facts, decision) {
        return;
    }
    let entries = entries(&decision.draft.status);
    for (place, name) in outputs.named() {
        let output = Output {
            place,
            name: name.to_owned(),
            entries: entries.clone(),
        };
        let last = facts.memory.outputs.last(&output);
        if last.is_some_and(|look| !look.is_ours) {
            say(facts, decision, &output);
        }
        let rest = last.and_then(|look| (look.at + LOOK_EVERY).checked_sub(facts.now.mono));
        match rest.filter(|rest| !rest.is_zero()) {
            Some(rest) => decision.look_within(rest),
            None => _ = decision.effect.get_or_insert(Effect::WriteOutput(output)),
        }
    }
}

/// Whether the status speaks of a machine that is delivered, and that this process sees to be the object's, or the one
/// that it shows: a status that was restored speaks of any.
fn shows_delivered(facts: &Facts, decision: &Decision) -> bool {
    let Some(uuid) = decision.draft.status.uuid.as_deref() else {
        return false;
    };
    let named = facts.external.as_ref().and_then(|e| e.shown.as_ref());
    let is_it = |s: &Sighting| {
        s.server.status == ServerStatus::Delivered && is_same_uuid(s.server.id.as_str(), uuid)
    };
    let shown = decision.draft.status.provider_status.as_deref();
    shown == Some(ServerStatus::Delivered.as_str()) && facts.own.iter().chain(named).any(is_it)
}

/// Says whose the name is not, where all else is in order.
fn say(facts: &Facts, decision: &mut Decision, output: &Output) {
    let draft = &mut decision.draft;
    let is_synced = |c: &Wanted| c.kind == Type::Synced && c.status == Some(true);
    if !draft.conditions.iter().any(is_synced) {
        return;
    }
    let (kind, field, name) = (output.place.kind(), output.place.field(), &output.name);
    let message = format!(
        "{field}: {kind} {name} is not this object's{}, so it stays as it is and nothing is written; name another one, or, if nobody needs it, delete it: kubectl delete {} {name} -n {}; looked at again every {}",
        or_holds_password(output.place),
        kind.to_ascii_lowercase(),
        facts.namespace(),
        Interval(LOOK_EVERY)
    );
    draft.conditions.retain(|c| c.kind != Type::Synced);
    let synced = Wanted::new(Type::Synced, false, Reason::OutputNotOwned, message);
    draft.conditions.push(synced);
    for ready in &mut draft.conditions {
        if ready.kind == Type::Ready && ready.message.is_empty() {
            ready.message = SEE_SYNCED.to_owned();
        }
    }
}

/// A Secret of its own may hold what cannot be had again.
fn or_holds_password(place: OutputPlace) -> &'static str {
    match place {
        OutputPlace::ConfigMap => "",
        OutputPlace::Secret => ", or holds its root password",
    }
}
