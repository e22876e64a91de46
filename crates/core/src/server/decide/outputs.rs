//! `spec.outputs`: what others need of the machine, in a ConfigMap or a Secret that the object owns.
//!
//! Written once the machine is delivered, whenever it differs from what this process wrote last, and looked at now and
//! then, since others may edit or delete it. Nothing is sent to the provider, so an object that is only shown has it too.
//!
//! What is written has our finalizer, so a foreground deletion of the object takes it only at the end. It is on record before
//! it is created, as is the Secret with a root password: nothing else tells at the end what has the finalizer.

use super::{
    super::facts::{ServerFacts, is_same_uuid},
    ServerDecision, ServerEffect,
    desired_status::DesiredStatus,
};
use crate::account::view::SeenServer;
use api::{
    Interval, Reason,
    conditions::Type,
    names::OUTPUT_FINALIZER,
    outputs::{OutputPlace, OutputRecord, entries},
    server::BareMetalServerStatus,
};
use hosting_types::ServerStatus;
use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

/// What others did to it is mended within this time.
const CHECK_EVERY: Duration = Duration::from_secs(600);
/// What is about to go is looked at again after this.
const CHECK_SOON: Duration = Duration::from_secs(60);

/// What Synced says where suspension holds back what the spec names.
const WRITE_SUSPENDED: &str =
    "Not written: spec.outputs; it follows once suspend is lifted (see the condition Suspended)";

/// The most that are on record.
const MOST_OUTPUTS: usize = 16;

/// One that is to be written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DesiredOutput {
    /// As what.
    pub place: OutputPlace,
    /// Its name.
    pub name: String,
    /// What it holds.
    pub entries: BTreeMap<String, String>,
}

impl DesiredOutput {
    /// A short form of all of it, to tell whether it changed.
    pub fn content_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// How an output was found, or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputState {
    /// It holds what it should.
    Written,
    /// The name belongs to something else.
    NotOurs,
    /// It is this object's, and somebody took our finalizer off.
    WithoutFinalizer,
    /// Somebody deleted it, and a finalizer of others keeps it.
    Deleted,
    /// It does not hold what it should, and the server is suspended.
    Suspended,
}

impl OutputState {
    /// It is looked at again after this time.
    fn pause(self) -> Duration {
        match self {
            Self::Written | Self::NotOurs | Self::WithoutFinalizer | Self::Suspended => CHECK_EVERY,
            Self::Deleted => CHECK_SOON,
        }
    }
}

/// What this process knows of the ConfigMap and the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OutputMemory {
    config_map: Option<OutputCheck>,
    secret: Option<OutputCheck>,
    /// The last check whether somebody deleted what is on record: of which, and when.
    checked: Option<(Vec<OutputRecord>, Duration)>,
}

/// A look at one of them, and how it was left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OutputCheck {
    content: u64,
    at: Duration,
    state: OutputState,
}

impl OutputMemory {
    /// Takes in how it was found, or left.
    pub fn record_check(
        &mut self,
        place: OutputPlace,
        content: u64,
        state: OutputState,
        at: Duration,
    ) {
        let look = Some(OutputCheck { content, at, state });
        match place {
            OutputPlace::ConfigMap => self.config_map = look,
            OutputPlace::Secret => self.secret = look,
        }
    }

    /// Takes in that it was checked whether somebody deleted these.
    pub fn record_deletion_check(&mut self, outputs: Vec<OutputRecord>, at: Duration) {
        self.checked = Some((outputs, at));
    }

    /// The last look at what is to be written.
    fn last_check(&self, output: &DesiredOutput) -> Option<&OutputCheck> {
        let look = match output.place {
            OutputPlace::ConfigMap => &self.config_map,
            OutputPlace::Secret => &self.secret,
        };
        look.as_ref()
            .filter(|look| look.content == output.content_hash())
    }

    /// When all of these were last checked.
    fn last_deletion_check(&self, outputs: &[OutputRecord]) -> Option<Duration> {
        let (checked, at) = self.checked.as_ref()?;
        let all = outputs.iter().all(|output| checked.contains(output));
        all.then_some(*at)
    }
}

/// Adds to a decision what is due, where nothing else is, and says what cannot be written. Returns what was looked at
/// lately, and so is not deleted.
pub fn reconcile_outputs(facts: &ServerFacts, decision: &mut ServerDecision) -> Vec<OutputRecord> {
    let mut looked_at = Vec::new();
    if facts.deleting() {
        return looked_at;
    }
    if let Some(output) = recorded_outputs(facts).first() {
        // Without our finalizer nobody would free them at the end.
        ensure_recorded(facts, decision, output);
    }
    let Some(outputs) = &facts.object.spec.outputs else {
        return looked_at;
    };
    if !shows_delivered(facts, decision) {
        return looked_at;
    }
    // Suspension stops what is written. It is looked at all the same, since Synced speaks of it.
    let is_suspended = facts.policies().suspend;
    let entries = entries(&decision.desired.status);
    for (place, name) in outputs.named() {
        let output = DesiredOutput {
            place,
            name: name.to_owned(),
            entries: entries.clone(),
        };
        let record = output_record(place, name);
        if is_suspended && !recorded_outputs(facts).contains(&record) {
            report_unwritten(facts, decision, &output, OutputState::Suspended);
            continue;
        }
        let last = facts.memory.outputs.last_check(&output);
        let last = last.filter(|look| is_suspended || look.state != OutputState::Suspended);
        if let Some(look) = last {
            report_unwritten(facts, decision, &output, look.state);
        }
        let rest = last.and_then(|look| remaining_pause(facts, look.at, look.state.pause()));
        match rest.filter(|rest| !rest.is_zero()) {
            Some(rest) => {
                decision.requeue_within(rest);
                looked_at.push(record);
            }
            None => {
                if ensure_recorded(facts, decision, &record) {
                    let effect = ServerEffect::WriteOutput(output);
                    decision.effect.get_or_insert(effect);
                }
            }
        }
    }
    looked_at
}

/// What is left of the pause after a look at this moment; None: it is over, or somebody has asked for a look since.
fn remaining_pause(facts: &ServerFacts, at: Duration, pause: Duration) -> Option<Duration> {
    let asked = facts.memory.asked.since();
    let is_asked = asked.is_some_and(|asked| at < asked);
    let rest = (at + pause).checked_sub(facts.now.mono);
    rest.filter(|_| !is_asked)
}

/// Whether this may be created. If not, it is put on record first, or our finalizer back: with pauses, where something takes
/// that off again and again.
pub fn ensure_recorded(
    facts: &ServerFacts,
    decision: &mut ServerDecision,
    output: &OutputRecord,
) -> bool {
    if may_create(facts, output) {
        return true;
    }
    let rest = facts.memory.restore_backoff.rest(facts.now.mono);
    let effect = ServerEffect::RecordOutput(output.clone());
    decision.schedule_effect(facts, rest.unwrap_or_default(), effect);
    false
}

/// Adds a check, where nothing else can be done, whether somebody deleted what is on record and was not looked at anyway:
/// our finalizer keeps it until then.
pub fn check_deleted(
    facts: &ServerFacts,
    decision: &mut ServerDecision,
    looked_at: &[OutputRecord],
) {
    let mut outputs = recorded_outputs(facts).to_vec();
    outputs.retain(|output| !looked_at.contains(output));
    if facts.deleting() || outputs.is_empty() {
        return;
    }
    let checked = facts.memory.outputs.last_deletion_check(&outputs);
    let rest = checked.and_then(|at| remaining_pause(facts, at, CHECK_EVERY));
    let check = ServerEffect::CheckDeletedOutputs(outputs);
    decision.schedule_effect(facts, rest.unwrap_or_default(), check);
}

/// What has to be freed before the finalizers of the object go, since nobody would do it afterwards: what is on record, and
/// what the spec names, should the status be lost.
pub fn list_outputs_to_free(facts: &ServerFacts) -> Vec<OutputRecord> {
    let mut outputs = recorded_outputs(facts).to_vec();
    for output in named_outputs(facts) {
        if !outputs.contains(&output) {
            outputs.push(output);
        }
    }
    outputs
}

/// The record of an output.
pub fn output_record(kind: OutputPlace, name: &str) -> OutputRecord {
    let name = name.to_owned();
    OutputRecord { kind, name }
}

fn recorded_outputs(facts: &ServerFacts) -> &[OutputRecord] {
    let status = facts.object.status.as_ref();
    status.map_or(&[], |status| &status.records.outputs)
}

/// What the spec names, the Secret for a root password included.
fn named_outputs(facts: &ServerFacts) -> Vec<OutputRecord> {
    let spec = &facts.object.spec;
    let outputs = spec.outputs.iter().flat_map(|outputs| outputs.named());
    let password = spec.root_password.as_ref();
    let password = password.map(|wanted| (OutputPlace::Secret, wanted.secret_ref.name.as_str()));
    let all = outputs.chain(password);
    all.map(|(kind, name)| output_record(kind, name)).collect()
}

/// Whether this may be created: it is on record, and a finalizer of ours keeps the object until it is freed.
pub fn may_create(facts: &ServerFacts, output: &OutputRecord) -> bool {
    recorded_outputs(facts).contains(output) && facts.has_output_finalizer()
}

/// Whether this may be put on record, judged on the object as it is right before.
pub fn may_record(fresh: &ServerFacts, output: &OutputRecord) -> bool {
    !fresh.deleting()
        && (named_outputs(fresh).contains(output) || recorded_outputs(fresh).contains(output))
}

/// Whether an output may be written, likewise. One that is suspended since has another decision.
pub fn may_write(facts: &ServerFacts, fresh: &ServerFacts, output: &DesiredOutput) -> bool {
    !fresh.deleting()
        && fresh.policies().suspend == facts.policies().suspend
        && may_create(fresh, &output_record(output.place, &output.name))
}

/// The whole status that puts this on record, and what has to be freed for it: the oldest that the spec names no more, where
/// there are too many.
pub fn add_record(
    fresh: &ServerFacts,
    output: &OutputRecord,
) -> (BareMetalServerStatus, Option<OutputRecord>) {
    let mut status = fresh.status();
    let outputs = &mut status.records.outputs;
    let mut former = None;
    if !outputs.contains(output) {
        if outputs.len() >= MOST_OUTPUTS {
            let named = named_outputs(fresh);
            let oldest = outputs.iter().position(|output| !named.contains(output));
            former = oldest.map(|oldest| outputs.remove(oldest));
        }
        outputs.push(output.clone());
    }
    (status, former)
}

/// Whether the status speaks of a machine that is delivered, and that this process sees to be the object's, or the one
/// that it shows: a status that was restored speaks of any.
fn shows_delivered(facts: &ServerFacts, decision: &ServerDecision) -> bool {
    let Some(uuid) = decision.desired.status.uuid.as_deref() else {
        return false;
    };
    let named = facts.external.as_ref().and_then(|e| e.shown.as_ref());
    let is_it = |s: &SeenServer| {
        s.server.status == ServerStatus::Delivered && is_same_uuid(s.server.id.as_str(), uuid)
    };
    let shown = decision.desired.status.provider_status.as_deref();
    shown == Some(ServerStatus::Delivered.as_str()) && facts.own.iter().chain(named).any(is_it)
}

/// Says why one is not written, where all else is in order.
fn report_unwritten(
    facts: &ServerFacts,
    decision: &mut ServerDecision,
    output: &DesiredOutput,
    state: OutputState,
) {
    let (kind, field, name) = (output.place.kind(), output.place.field(), &output.name);
    let draft = &mut decision.desired;
    let is_true = |kind: Type, draft: &DesiredStatus| {
        draft
            .condition(kind)
            .is_some_and(|c| c.status == Some(true))
    };
    let why = match state {
        OutputState::Written => return,
        OutputState::Suspended => {
            // Of the object without it, tools read on while that goes on.
            if is_true(Type::Ready, draft) {
                draft.status.observed_generation = facts.status().observed_generation;
            }
            if is_true(Type::Synced, draft) {
                draft.set_unsynced(Reason::PendingChanges, WRITE_SUSPENDED);
            }
            return;
        }
        OutputState::NotOurs => format!(
            "is not this object's{}; nothing is written. Set {field} to another name, or delete it if it is unused",
            or_holds_password(output.place)
        ),
        OutputState::WithoutFinalizer => format!(
            "lost the finalizer {OUTPUT_FINALIZER}; nothing is written ({field}). Delete it, and the operator writes it again"
        ),
        OutputState::Deleted => format!(
            "is being deleted, but has a finalizer; nothing is written ({field}). Once it is gone, the operator writes it again"
        ),
    };
    if !is_true(Type::Synced, draft) {
        return;
    }
    let every = Interval(state.pause());
    let message = format!("{kind} {name} {why}; checked every {every}");
    draft.set_unsynced(Reason::NameTaken, message);
}

/// A Secret of its own may hold what cannot be had again.
fn or_holds_password(place: OutputPlace) -> &'static str {
    match place {
        OutputPlace::ConfigMap => "",
        OutputPlace::Secret => ", or holds its root password",
    }
}
