//! One decision of one process, by the functions that ship, and the ways in which a broken operator
//! would differ from it.

use super::{real, real::Sight, world::*};
use flexmetal_operator::controllers::server::{
    decide::{Decision, Effect, decide, evidence::evidence},
    facts::Facts,
};
use jiff::Timestamp;
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
};

/// Deliberate mistakes. Each of them must be caught, else the model would prove nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// What ships.
    Honest,
    /// An order without an answer counts as not sent.
    BlindRetry,
    /// One listing proves absence.
    OneListing,
    /// Absence is proved without a control.
    NoControl,
    /// A 5xx counts as a refusal.
    ServerErrorRefuses,
    /// 403 lets a deleted object go.
    LetGoOnDenial,
    /// A copied annotation counts as the object's own.
    CopyHonoured,
    /// Whoever finds an attempt may send it.
    ForeignAttempt,
    /// An order may be sent however long after its start.
    NoSendBy,
    /// The intent is in the annotation only.
    NoIntentInStatus,
    /// A process orders before it has looked.
    NoFirstLook,
    /// A release is sent without being noted before.
    NoReleaseBegun,
    /// A status write whose answer was lost counts as done.
    StatusNotConfirmed,
    /// A machine is retained although its release was noted.
    LateRetain,
    /// A machine is retained by a policy that was turned meanwhile.
    FormerPolicy,
    /// A 5xx to a DELETE counts as a refusal.
    ErrorRefusesRelease,
    /// A 404 to a DELETE counts as a refusal.
    NotFoundRefusesRelease,
}

/// The result of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub effect: Option<u32>,
    /// The effect may be tried now.
    pub due: bool,
    pub status: StatusA,
    /// What the process remembers now.
    pub memory: u32,
}

/// Effects by number; the key is their text, since they cannot be hashed.
pub static EFFECTS: LazyLock<real::Interner<String, Arc<Effect>>> =
    LazyLock::new(real::Interner::default);

type Decided = HashMap<(Variant, Sight), Outcome>;
static DECIDED: LazyLock<Mutex<Decided>> = LazyLock::new(Mutex::default);

/// What a process sees of an object.
pub fn sight(world: &World, process: usize, object: &Obj, has_control: bool) -> Sight {
    let p = &world.processes[process];
    let slot = usize::from(object.who.slot);
    Sight {
        object: *object,
        memory: p.memory[slot],
        now: world.now,
        started: p.started,
        used_before: p.used_before,
        blocked: p.blocked,
        proof: p.proof,
        seen: p.seen,
        bare: p.bare,
        neighbour: p.cache[1 - slot].map(|o| o.who),
        has_control,
    }
}

/// Decides, or remembers what was decided on the very same facts.
pub fn decided(variant: Variant, sight: &Sight) -> Outcome {
    let key = (variant, *sight);
    if let Some(known) = DECIDED.lock().unwrap().get(&key) {
        return *known;
    }
    let outcome = fresh(variant, sight);
    DECIDED.lock().unwrap().insert(key, outcome);
    outcome
}

fn fresh(variant: Variant, sight: &Sight) -> Outcome {
    let facts = facts(variant, sight);
    let decision = broken(variant, sight, &facts, decide(&facts));
    let now = Timestamp::from_second(facts.now.wall).unwrap();
    Outcome {
        due: facts.memory.backoff.rest(facts.now.mono).is_none(),
        status: real::status_of(&decision.draft.finish(now)),
        effect: decision
            .effect
            .map(|e| EFFECTS.put(format!("{e:?}"), || Arc::new(e))),
        memory: real::keep(facts.memory),
    }
}

/// The facts, as a broken operator would have them.
pub fn facts(variant: Variant, sight: &Sight) -> Facts {
    let mut sight = *sight;
    match variant {
        Variant::CopyHonoured => {
            if let Some(note) = sight.object.note {
                sight.object.who = note.who;
            }
        }
        Variant::NoFirstLook => {
            sight.used_before = false;
            sight.proof = sight.proof.or(Some(ProofA {
                began: sight.now,
                shown: 0,
                control: true,
            }));
        }
        Variant::NoControl => {
            sight.has_control = true;
            sight.proof = sight.proof.map(|p| ProofA { control: true, ..p });
        }
        Variant::NoReleaseBegun if sight.object.deleting && !sight.object.retain => {
            let target = sight
                .seen
                .iter()
                .position(|m| m.is_some_and(|m| m.is_live() && m.bears(sight.object.who)));
            sight.object.begun = target.and_then(|t| u8::try_from(t).ok());
        }
        _ => {}
    }
    let mut facts = real::facts(&sight);
    if variant == Variant::OneListing
        && let Some(search) = &mut facts.memory.search
        && let [only] = search.samples[..]
    {
        search.samples = vec![
            only,
            only,
            search.first_seen + real::times().absence_grace_period,
        ];
    }
    facts
}

fn broken(variant: Variant, sight: &Sight, facts: &Facts, mut decision: Decision) -> Decision {
    match variant {
        Variant::LetGoOnDenial if sight.blocked && facts.deleting() && facts.has_finalizer() => {
            decision.effect = Some(Effect::LetGo);
        }
        _ => {}
    }
    decision
}

/// The attempt of somebody else that a broken operator would send.
pub fn stolen(variant: Variant, sight: &Sight) -> Option<IntentA> {
    if variant != Variant::ForeignAttempt {
        return None;
    }
    let facts = real::facts(sight);
    let found = evidence(&facts);
    found.open_attempt().filter(|nonce| !nonce.is_empty())?;
    sight.object.note.filter(|n| {
        facts.memory.order.is_none() && real::wall(sight.now) <= BASE + i64::from(n.send_by)
    })
}
