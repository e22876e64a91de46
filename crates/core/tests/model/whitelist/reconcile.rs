//! One reconcile of an object by the shipped functions; their inputs are built from the model's world.

use super::{
    scenes::Scene,
    variants::Variant,
    world::{Ends, Late, Object, State, TICK, There},
};
use api::{
    IpWhitelist, Reason,
    conditions::Type,
    names::OBJECT_FINALIZER,
    references::PinnedAccount,
    whitelist::{EntryState, EntryStatus, IpWhitelistStatus},
};
use flexmetal_core::{
    account::{
        key::AccountKey,
        view::{AccountTimes, AccountView},
    },
    cluster_id::{ClusterId, OwnerHash},
    moment::Moment,
    ownership::{Claimant, ConflictingOwners},
    reconcile::{Memory, Subject},
    resolved_account::ResolvedAccount,
    whitelist::{
        decide::{
            WhitelistDecision, WhitelistEffect, decide,
            list::{ListedEntry, ProviderWhitelist, comments},
            lockout_guard::WhitelistStep,
            sendable,
        },
        facts::WhitelistFacts,
        memory::{StepAnswer, WhitelistMemory, WhitelistSnapshot},
    },
};
use hosting_types::WhitelistEntryId;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use std::{sync::Arc, time::Duration};

pub fn ticks(count: u8) -> Duration {
    Duration::from_secs(u64::from(count) * TICK)
}

fn cluster() -> ClusterId {
    ClusterId::parse("0123456789abcdef").unwrap()
}

fn name(slot: usize) -> &'static str {
    ["first", "second"][slot]
}

fn owner_hash(slot: usize) -> OwnerHash {
    cluster().name_hash("shop", name(slot))
}

/// The provider's list as an object reads it.
pub fn seen(scene: &Scene, list: &[There], slot: usize) -> ProviderWhitelist {
    let entry = |there: &There| {
        let of = there.of.as_ref();
        let words = of.map_or_else(
            || "by hand".to_owned(),
            |(slot, name)| comments(None, &owner_hash(*slot), name),
        );
        ListedEntry {
            id: WhitelistEntryId(there.id),
            range: Some(there.range),
            active: Some(there.active),
            comments: words,
            name: of
                .filter(|(of, _)| *of == slot)
                .map(|(_, name)| name.clone()),
            is_of_other: scene.variant != Variant::Trusting
                && of.is_some_and(|(of, _)| *of != slot),
        }
    };
    ProviderWhitelist {
        entries: list.iter().map(entry).collect(),
    }
}

/// The facts of an object at this moment.
pub fn facts(scene: &Scene, state: &State, slot: usize, object: &Object) -> WhitelistFacts {
    let condition = |message: &String| Condition {
        type_: Type::Stalled.as_str().into(),
        status: "True".into(),
        reason: Reason::EntryNotApplied.as_str().into(),
        message: message.clone(),
        observed_generation: Some(object.generation),
        last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
    };
    let there = EntryStatus {
        name: "any".into(),
        id: Some(1),
        state: EntryState::Active,
    };
    let status = IpWhitelistStatus {
        conditions: object.unkept.iter().map(condition).collect(),
        entries: object.had_entries.then_some(there).into_iter().collect(),
        plan: object.plan.clone(),
        ..IpWhitelistStatus::default()
    };
    let mut spec = scene.specs[object.spec].clone();
    if scene.variant == Variant::Unguarded {
        spec.lockout_guard = Some(false);
    }
    let deleted = object.deleting.then_some(Time(jiff::Timestamp::UNIX_EPOCH));
    let mut made = IpWhitelist::new(name(slot), spec);
    made.metadata = ObjectMeta {
        name: Some(name(slot).into()),
        namespace: Some("shop".into()),
        uid: Some(name(slot).into()),
        generation: Some(object.generation),
        finalizers: object.finalizer.then(|| vec![OBJECT_FINALIZER.into()]),
        deletion_timestamp: deleted,
        ..ObjectMeta::default()
    };
    made.status = Some(status);
    let view = AccountView {
        times: AccountTimes {
            absence_check_interval: ticks(2),
            active_poll_interval: ticks(1),
            idle_poll_interval: ticks(2),
            ..AccountTimes::default()
        },
        egress: scene.declared(state.egress),
        ..AccountView::usable()
    };
    let subject = Subject {
        read_only: false,
        now: Moment {
            wall: 1_790_000_000,
            mono: ticks(state.now),
        },
        leader_since: ticks(state.since),
        first_seen: ticks(state.since),
        cluster: cluster(),
        kind_deleting: Some(false),
        account: ResolvedAccount::Found {
            view,
            terms: flexmetal_core::account::terms::Terms::Own,
        },
        memory: Memory {
            own: state.memory[slot].as_deref().cloned().unwrap_or_default(),
            ..Memory::default()
        },
        object: Arc::new(made),
    };
    let mut facts = WhitelistFacts {
        subject,
        conflicting_owners: conflicting_owners(scene, state, slot),
        is_account_in_namespace: true,
        is_listed: true,
    };
    facts.start();
    if scene.variant == Variant::Hasty {
        // As if status showed no request in flight.
        facts
            .subject
            .memory
            .own
            .start_reconcile(ticks(state.since), false);
    }
    facts
}

/// The first object is the older one.
fn conflicting_owners(scene: &Scene, state: &State, slot: usize) -> ConflictingOwners {
    let claimant = |slot: usize| {
        let object = state.objects[slot].as_ref()?;
        Some(Arc::new(Claimant {
            uid: name(slot).into(),
            namespace: "shop".into(),
            name: name(slot).into(),
            account: AccountKey::from_reference(&PinnedAccount::from_reference(None), "shop"),
            is_deleting: object.deleting,
        }))
    };
    let all: Vec<_> = (0..2).filter_map(claimant).collect();
    match scene.variant {
        Variant::Trusting => ConflictingOwners::default(),
        _ if scene.are_in_two_clusters => ConflictingOwners::default(),
        _ => ConflictingOwners::find_among(name(slot), &all, |_| true),
    }
}

/// The result of a reconcile.
// Each value lives for one move only, so boxing saves nothing.
#[allow(clippy::large_enum_variant)]
pub enum Done {
    /// Nothing was sent, but the world may have changed.
    Rested(WhitelistDecision),
    /// An effect ran without a call that changes anything.
    Went,
    /// A step was sent.
    Sent,
}

/// Reconciles an object once.
pub fn reconcile(scene: &Scene, state: &mut State, slot: usize, ends: Ends) -> Option<Done> {
    let object = state.objects[slot].clone()?;
    if object.deleting && !object.finalizer {
        state.objects[slot] = None;
        return Some(Done::Went);
    }
    let facts = facts(scene, state, slot, &object);
    state.memory[slot] = Some(Arc::new(facts.subject.memory.own.clone()));
    let decision = decide(&facts);
    match &decision.effect {
        None => {
            write(state, slot, &facts, &decision);
            Some(Done::Rested(decision))
        }
        Some(WhitelistEffect::AddFinalizer) => {
            state.objects[slot].as_mut()?.finalizer = true;
            Some(Done::Went)
        }
        Some(WhitelistEffect::RemoveFinalizer) => {
            state.objects[slot] = None;
            state.memory[slot] = None;
            Some(Done::Went)
        }
        Some(WhitelistEffect::ReadAndApply { .. }) => work(scene, state, slot, &facts, ends),
    }
}

/// Writes the decided status to the object.
fn write(state: &mut State, slot: usize, facts: &WhitelistFacts, decision: &WhitelistDecision) {
    let (status, _) = decision.status(&facts.subject, jiff::Timestamp::UNIX_EPOCH);
    let Some(object) = state.objects[slot].as_mut() else {
        return;
    };
    object.plan = status.plan;
    object.had_entries = status.entries.iter().any(|entry| entry.id.is_some());
    let unkept = status.conditions.iter().find(|c| {
        c.type_ == Type::Stalled.as_str() && c.reason == Reason::EntryNotApplied.as_str()
    });
    object.unkept = unkept.map(|condition| condition.message.clone());
}

fn work(
    scene: &Scene,
    state: &mut State,
    slot: usize,
    facts: &WhitelistFacts,
    ends: Ends,
) -> Option<Done> {
    // A locked-out operator reads and changes nothing.
    if scene
        .addresses(state.egress)
        .any(|address| state.refuses(address))
    {
        return Some(Done::Went);
    }
    let now = ticks(state.now);
    let read = facts.with_snapshot(WhitelistSnapshot {
        list: Arc::new(seen(scene, &state.list, slot)),
        began: now,
        ended: now,
        connection: AccountView::usable().credentials_hash,
    });
    let list = match (&scene.variant, facts.usable_snapshot()) {
        // The list of the previous poll.
        (Variant::Stale, Some(snapshot)) => snapshot.list.clone(),
        _ => read.usable_snapshot()?.list.clone(),
    };
    let mut own = read.subject.memory.own.clone();
    let step = sendable(&read, &list);
    if let Some(step) = &step {
        send(scene, state, slot, step, ends);
        record_sent_step(scene, &mut own, step, &list, ends, now);
    }
    state.memory[slot] = Some(Arc::new(own));
    Some(step.map_or(Done::Went, |_| Done::Sent))
}

fn record_sent_step(
    scene: &Scene,
    own: &mut WhitelistMemory,
    step: &WhitelistStep,
    list: &ProviderWhitelist,
    ends: Ends,
    now: Duration,
) {
    let answer = match ends {
        Ends::Ok => StepAnswer::Done,
        Ends::LostBefore | Ends::LostAfter | Ends::Later => StepAnswer::Unknown,
    };
    if scene.variant != Variant::Forgetful {
        own.record_sent_step(step, list, answer, now);
    }
}

fn send(scene: &Scene, state: &mut State, slot: usize, step: &WhitelistStep, ends: Ends) {
    if !scene.may_touch(state, slot, step) {
        state.broken = Some("an entry of others was touched");
    }
    match ends {
        Ends::LostBefore => {}
        Ends::Ok | Ends::LostAfter => scene.effect(state, slot, step, false),
        Ends::Later => state.wire.push(Late {
            slot,
            step: step.clone(),
            until: state.now + 1,
            is_overtaken: false,
        }),
    }
}
