//! `spec.outputs`: what others need of the server, in a ConfigMap or a Secret that the object owns.
//! Status records each before it is created, and each has our finalizer, so the deletion finds and frees all of them.

use super::{
    super::facts::{ServerFacts, is_same_uuid},
    ServerDecision, ServerEffect,
    desired_status::DesiredStatus,
};
use crate::{account::view::SeenServer, explanation::Explanation};
use api::{
    Interval, Reason,
    conditions::Type,
    names::OUTPUT_FINALIZER,
    outputs::{OutputKind, OutputRecord, entries},
    server::BareMetalServerStatus,
};
use hosting_types::ServerStatus;
use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

/// Changes by others are repaired within this time.
const CHECK_EVERY: Duration = Duration::from_secs(600);
/// An output that is being deleted is checked again after this time.
const CHECK_SOON: Duration = Duration::from_secs(60);

/// What Synced reports while suspension blocks a write.
const WRITE_SUSPENDED: &str =
    "Not written: spec.outputs; it follows once suspend is lifted (see the condition Suspended)";

/// Most outputs that status records.
const MOST_OUTPUTS: usize = 16;

/// An output to write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DesiredOutput {
    /// ConfigMap or Secret.
    pub place: OutputKind,
    /// Its name.
    pub name: String,
    /// Its keys and values.
    pub entries: BTreeMap<String, String>,
}

impl DesiredOutput {
    /// Hash of all of it, which shows changes.
    pub fn content_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// State of an output after a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputState {
    /// It has the desired content.
    Written,
    /// Something else uses the name.
    NotOurs,
    /// It is this object's, but lost our finalizer.
    WithoutFinalizer,
    /// It is being deleted, and another finalizer blocks that.
    Deleted,
    /// It lacks the desired content, and the object is suspended.
    Suspended,
}

impl OutputState {
    /// How soon it is checked again.
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
    /// The last check for deleted outputs: which ones, and when.
    checked: Option<(Vec<OutputRecord>, Duration)>,
}

/// A check of one output, with its result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OutputCheck {
    content: u64,
    at: Duration,
    state: OutputState,
}

impl OutputMemory {
    /// Records the result of a check.
    pub fn record_check(
        &mut self,
        place: OutputKind,
        content: u64,
        state: OutputState,
        at: Duration,
    ) {
        let check = Some(OutputCheck { content, at, state });
        match place {
            OutputKind::ConfigMap => self.config_map = check,
            OutputKind::Secret => self.secret = check,
        }
    }

    /// Records that these outputs were checked for deletion.
    pub fn record_deletion_check(&mut self, outputs: Vec<OutputRecord>, at: Duration) {
        self.checked = Some((outputs, at));
    }

    /// The last check of this desired content.
    fn last_check(&self, output: &DesiredOutput) -> Option<&OutputCheck> {
        let check = match output.place {
            OutputKind::ConfigMap => &self.config_map,
            OutputKind::Secret => &self.secret,
        };
        check
            .as_ref()
            .filter(|check| check.content == output.content_hash())
    }

    /// When all of these were last checked for deletion.
    fn last_deletion_check(&self, outputs: &[OutputRecord]) -> Option<Duration> {
        let (checked, at) = self.checked.as_ref()?;
        let all = outputs.iter().all(|output| checked.contains(output));
        all.then_some(*at)
    }
}

/// Adds the write that is due to a decision, and reports what cannot be written.
/// Returns the outputs that were checked recently, which need no check for deletion.
pub fn reconcile_outputs(facts: &ServerFacts, decision: &mut ServerDecision) -> Vec<OutputRecord> {
    let mut checked_lately = Vec::new();
    if facts.deleting() {
        return checked_lately;
    }
    if let Some(output) = recorded_outputs(facts).first()
        && !facts.read_only
    {
        // Without our finalizer on the object, its deletion would not free them.
        ensure_recorded(facts, decision, output);
    }
    let Some(outputs) = &facts.object.spec.outputs else {
        return checked_lately;
    };
    if !shows_delivered(facts, decision) {
        return checked_lately;
    }
    // Suspension blocks writes but no checks: Synced reports the result.
    let is_suspended = facts.writes_no_outputs();
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
        let last = last.filter(|check| is_suspended || check.state != OutputState::Suspended);
        if let Some(check) = last {
            report_unwritten(facts, decision, &output, check.state);
        }
        let rest = last.and_then(|check| remaining_pause(facts, check.at, check.state.pause()));
        match rest.filter(|rest| !rest.is_zero()) {
            Some(rest) => {
                decision.requeue_within(rest);
                checked_lately.push(record);
            }
            None => {
                if ensure_recorded(facts, decision, &record) {
                    let effect = ServerEffect::WriteOutput(output);
                    decision.effect.get_or_insert(effect);
                }
            }
        }
    }
    checked_lately
}

/// What is left of the pause since `at`. None: it is over, or a user requested a reconcile since then.
fn remaining_pause(facts: &ServerFacts, at: Duration, pause: Duration) -> Option<Duration> {
    let asked = facts.memory.asked.since();
    let is_asked = asked.is_some_and(|asked| at < asked);
    let rest = (at + pause).checked_sub(facts.now.mono);
    rest.filter(|_| !is_asked)
}

/// Whether this may be created. If not, records it or restores our finalizer first, with backoff if something keeps
/// removing that.
pub fn ensure_recorded(
    facts: &ServerFacts,
    decision: &mut ServerDecision,
    output: &OutputRecord,
) -> bool {
    if may_create(facts, output) {
        return true;
    }
    let rest = facts.memory.restore_backoff.remaining(facts.now.mono);
    let effect = ServerEffect::RecordOutput(output.clone());
    decision.schedule_effect(facts, rest.unwrap_or_default(), effect);
    false
}

/// Adds a check whether a user deleted a recorded output, if nothing else is due: our finalizer blocks that deletion.
pub fn check_deleted(
    facts: &ServerFacts,
    decision: &mut ServerDecision,
    checked_lately: &[OutputRecord],
) {
    let mut outputs = recorded_outputs(facts).to_vec();
    outputs.retain(|output| !checked_lately.contains(output));
    if facts.deleting() || facts.read_only || outputs.is_empty() {
        return;
    }
    let checked = facts.memory.outputs.last_deletion_check(&outputs);
    let rest = checked.and_then(|at| remaining_pause(facts, at, CHECK_EVERY));
    let check = ServerEffect::CheckDeletedOutputs(outputs);
    decision.schedule_effect(facts, rest.unwrap_or_default(), check);
}

/// What to free before the finalizers of the object are removed: recorded outputs, and those in the spec in case status
/// was lost.
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
pub fn output_record(kind: OutputKind, name: &str) -> OutputRecord {
    let name = name.to_owned();
    OutputRecord { kind, name }
}

fn recorded_outputs(facts: &ServerFacts) -> &[OutputRecord] {
    let status = facts.object.status.as_ref();
    status.map_or(&[], |status| &status.records.outputs)
}

/// All outputs that the spec names, with the Secret of the root password.
fn named_outputs(facts: &ServerFacts) -> Vec<OutputRecord> {
    let spec = &facts.object.spec;
    let outputs = spec.outputs.iter().flat_map(|outputs| outputs.named());
    let password = spec.root_password.as_ref();
    let password = password.map(|wanted| (OutputKind::Secret, wanted.secret_ref.name.as_str()));
    let all = outputs.chain(password);
    all.map(|(kind, name)| output_record(kind, name)).collect()
}

/// Whether this may be created: it is recorded, and our finalizer keeps the object until it is freed.
pub fn may_create(facts: &ServerFacts, output: &OutputRecord) -> bool {
    recorded_outputs(facts).contains(output) && facts.has_output_finalizer()
}

/// Whether this may be recorded, by the object as just read.
pub fn may_record(fresh: &ServerFacts, output: &OutputRecord) -> bool {
    !fresh.deleting()
        && (named_outputs(fresh).contains(output) || recorded_outputs(fresh).contains(output))
}

/// Whether an output may be written, by the object as just read. A change of `suspend` needs another decision.
pub fn may_write(facts: &ServerFacts, fresh: &ServerFacts, output: &DesiredOutput) -> bool {
    !fresh.deleting()
        && fresh.writes_no_outputs() == facts.writes_no_outputs()
        && may_create(fresh, &output_record(output.place, &output.name))
}

/// The status that records this output. If there are too many, also the oldest that the spec no longer names, to free
/// it.
pub fn add_record(
    fresh: &ServerFacts,
    output: &OutputRecord,
) -> (BareMetalServerStatus, Option<OutputRecord>) {
    let mut status = fresh.status();
    let outputs = &mut status.records.outputs;
    let mut surplus = None;
    if !outputs.contains(output) {
        if outputs.len() >= MOST_OUTPUTS {
            let named = named_outputs(fresh);
            let oldest = outputs.iter().position(|output| !named.contains(output));
            surplus = oldest.map(|oldest| outputs.remove(oldest));
        }
        outputs.push(output.clone());
    }
    (status, surplus)
}

/// Whether status shows a delivered server that this process saw as the object's, or as named in `spec.externalID`:
/// a restored status may show any server.
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

/// Reports an output that is not written, if nothing else is wrong.
fn report_unwritten(
    facts: &ServerFacts,
    decision: &mut ServerDecision,
    output: &DesiredOutput,
    state: OutputState,
) {
    let (kind, field, name) = (output.place.kind(), output.place.field(), &output.name);
    let desired = &mut decision.desired;
    let is_true = |kind: Type, desired: &DesiredStatus| {
        desired
            .condition(kind)
            .is_some_and(|c| c.status == Some(true))
    };
    let why = match state {
        OutputState::Written => return,
        OutputState::Suspended => {
            // The old `observedGeneration` shows that the spec is not applied.
            if is_true(Type::Ready, desired) {
                desired.status.observed_generation = facts.status().observed_generation;
            }
            if is_true(Type::Synced, desired) && facts.read_only {
                let blocked = Explanation::read_only(&format!("would write {kind} {name}"));
                desired.set_unsynced(blocked.reason, blocked.message);
            } else if is_true(Type::Synced, desired) {
                desired.set_unsynced(Reason::PendingChanges, WRITE_SUSPENDED);
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
    if !is_true(Type::Synced, desired) {
        return;
    }
    let every = Interval(state.pause());
    let message = format!("{kind} {name} {why}; checked every {every}");
    desired.set_unsynced(Reason::NameTaken, message);
}

/// The Secret may be the one with the root password, which cannot be fetched again.
fn or_holds_password(place: OutputKind) -> &'static str {
    match place {
        OutputKind::ConfigMap => "",
        OutputKind::Secret => ", or holds its root password",
    }
}
