//! One decision of one process, by the functions that ship, and the ways in which a broken operator
//! would differ from it.

use super::{real, real::Sight, world::*};
use api::{lifetime::Provisioning, order::OrderNote};
use flexmetal_core::{
    account_facts::AccountFacts,
    server::{
        decide::{Decision, Effect, decide, evidence::evidence},
        facts::Facts,
    },
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
    /// Absence is proved in whatever account is shown now.
    LineageIgnored,
    /// An order goes over the connection of the moment.
    OtherConnection,
    /// What is stripped from metadata stays away.
    NotPutBack,
    /// An order that is known to have made nothing is put back as well.
    ClosedPutBack,
    /// A machine is not retained once the release of any of them was noted.
    AnyReleaseBegun,
    /// One read that says 404 lets a retained machine go.
    RetainUnproved,
    /// Every object counts as younger than the process.
    AllAreNew,
    /// Whether the account was used is known from before the lease.
    UsedAtStart,
    /// A release that has begun goes on while the object is suspended.
    SuspendIgnored,
    /// A release begins at once, whatever its delay.
    DelayIgnored,
    /// The deletion of the kind is not seen.
    KindIgnored,
    /// An object that is applied again orders, whatever is kept of the one before.
    KeptIgnored,
    /// Any token counts, whatever it stands for.
    AnyToken,
    /// Whoever else has a mark on a machine counts as gone.
    OthersIgnored,
    /// An object that names a machine orders one.
    NamedIgnored,
    /// A machine that is only looked at is changed and released.
    ObserveIgnored,
    /// An object that was to take a machine on goes without a look at its marks.
    EndUnlisted,
    /// Another machine is ordered as soon as one failed.
    GraceIgnored,
    /// Machines are ordered for as long as they fail.
    RowIgnored,
    /// What an earlier order made counts as the machine of the present one.
    EarlierCounts,
    /// An object ends before its end.
    EarlyEnd,
    /// An object that is past its end orders.
    EndIgnored,
    /// Releases begin whatever the release limit of the account says.
    ReleaseLimitIgnored,
    /// After a change of a tag without an answer the machine counts as it was.
    LostMarkStays,
    /// A machine is put on record as it was last seen.
    ClaimUnread,
    /// A release, or the change of a mark, rests on the object as the watch showed it.
    NoReread,
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
pub fn sight(world: &World, process: usize, object: &Obj, kind_deleting: bool) -> Sight {
    let p = &world.processes[process];
    let slot = usize::from(object.who.slot);
    Sight {
        object: *object,
        memory: p.memory[slot],
        now: world.now,
        started: p.started,
        settings: p.settings,
        blocked: p.blocked,
        proof: p.proof,
        seen: p.seen,
        bare: p.bare,
        neighbour: p.cache[1 - slot].map(|o| o.who),
        neighbours: p.cache[1 - slot].and_then(|o| o.has()),
        neighbour_noted: p.cache[1 - slot]
            .is_some_and(|o| o.begun.is_some() || o.note.is_some_and(|n| n.intent.who == o.who)),
        connection: p.connection,
        kind_deleting,
        acting_since: p.acting.unwrap_or(p.started),
        first_seen: p.first_seen[slot],
        newcomer: p.newcomer[slot],
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
        due: decision
            .effect
            .as_ref()
            .is_none_or(|effect| facts.memory.holds_back(effect, facts.now.mono).is_none()),
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
                sight.object.who = note.intent.who;
                // What the first has on record is its own, too.
                sight.neighbours = None;
            }
        }
        Variant::NoFirstLook => {
            sight.settings.used_before = false;
            sight.settings.lineage = sight.settings.lineage.or(Some(0));
            sight.proof = sight.proof.or(Some(ProofA {
                began: sight.now,
                shown: 0,
                control: true,
            }));
        }
        Variant::NoControl => {
            sight.settings.known |= 1 << sight.connection.account();
            sight.proof = sight.proof.map(|p| ProofA { control: true, ..p });
        }
        Variant::LineageIgnored => {
            let present = sight.settings.lineage.map(|l| (l, sight.connection));
            if let Some(note) = &mut sight.object.note {
                note.intent.account = present;
            }
            if let Some(order) = sight.object.status.as_mut().and_then(|s| s.order.as_mut()) {
                order.intent.account = present;
            }
            sight.memory = real::without_order(sight.memory);
        }
        Variant::AllAreNew => sight.newcomer = true,
        Variant::UsedAtStart => sight.settings.used_before = false,
        Variant::SuspendIgnored => sight.object.suspend &= sight.object.begun.is_none(),
        Variant::DelayIgnored => sight.object.delay = 0,
        Variant::KindIgnored => sight.kind_deleting = false,
        Variant::EarlyEnd => sight.object.expires = sight.object.expires.min(1),
        Variant::ReleaseLimitIgnored => sight.settings.release_limit = None,
        Variant::EndIgnored => sight.object.expires = 0,
        Variant::NamedIgnored => sight.object.names = None,
        Variant::ObserveIgnored => sight.object.observe = false,
        Variant::OthersIgnored => {
            sight.neighbour = None;
            sight.neighbours = None;
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
    if variant == Variant::KeptIgnored || (variant == Variant::AnyToken && sight.object.given != 0)
    {
        facts.retained.clear();
    }
    match variant {
        Variant::GraceIgnored => {
            if let AccountFacts::Found { view, .. } = &mut facts.account {
                view.times.absence_grace_period = std::time::Duration::ZERO;
            }
        }
        Variant::RowIgnored => {
            let most = Provisioning {
                max_attempts: Some(9),
                ..Provisioning::default()
            };
            Arc::make_mut(&mut facts.object).spec.provisioning = Some(most);
        }
        Variant::EarlierCounts => facts.own = real::bearing(&sight),
        _ => {}
    }
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
        Variant::NotPutBack if matches!(decision.effect, Some(Effect::PutBack(_))) => {
            decision.effect = None;
        }
        Variant::ClosedPutBack if !facts.deleting() && facts.annotation().is_none() => {
            let closed = evidence(facts)
                .outcome()
                .filter(|outcome| outcome.is_closed());
            let shown = facts
                .status()
                .records
                .order
                .filter(|order| order.outcome == closed);
            if let (Some(order), Some(_)) = (shown, closed) {
                decision.effect = Some(Effect::WriteNote(Box::new(OrderNote {
                    intent: order.intent,
                    outcome: closed,
                })));
            }
        }
        Variant::EndUnlisted
            if facts.deleting() && facts.external.is_some() && facts.own.is_empty() =>
        {
            decision.effect = Some(Effect::LetGo);
        }
        Variant::RetainUnproved
            if facts.deleting()
                && facts.policies().retain()
                && !facts.memory.missing.reads.is_empty() =>
        {
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
    let noted = sight.object.note.map(|n| n.intent);
    noted.filter(|n| {
        facts.memory.order.is_none() && real::wall(sight.now) <= BASE + i64::from(n.send_by)
    })
}
