//! What people and tools do to objects.

use super::{moves::Action, outside, real, scene::Scene, start::object, world::*};
use api::{
    Reason,
    acknowledgement::AcknowledgementEffect::{self, AssumeAbsent, OrderAnother},
};

/// What people do to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum User {
    Delete,
    Suspend,
    Retain,
    Rename,
    StripNote,
    StripStatus,
    /// Under another name, with the finalizer or without.
    Copy(bool),
    Restore,
    Acknowledge,
    ClearUuid,
    ApplyAgain,
    OrderAnother,
    Observe,
    /// The end is taken off.
    Extend,
    /// What comes to nothing is not replaced, or is again.
    Replace,
}

/// Which tags somebody takes off a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strip {
    All,
    Order,
    Cluster,
}

impl Scene {
    pub fn user(&self, world: &mut World, user: User, slot: usize) -> Option<()> {
        let fault = match user {
            User::Delete => Fault::Delete,
            User::Suspend | User::Retain | User::Rename | User::Observe => Fault::Edit,
            User::Extend | User::Replace => Fault::Edit,
            User::StripNote => Fault::StripNote,
            User::StripStatus => Fault::StripStatus,
            User::Copy(_) => Fault::Copy,
            User::Restore => Fault::Restore,
            User::Acknowledge => Fault::Acknowledge,
            User::ClearUuid => Fault::ClearUuid,
            User::ApplyAgain => Fault::ApplyAgain,
            User::OrderAnother => Fault::OrderAnother,
        };
        if !world.spend(fault) {
            return None;
        }
        if let User::Copy(finalizer) = user {
            let source = world.objects[0]?;
            let slot = 1;
            let mut copy = object(
                Who {
                    slot: 1,
                    life: world.lives[slot],
                },
                world.now,
            );
            copy.note = source.note;
            copy.finalizer = finalizer;
            copy.given = source.given;
            world.lives[slot] += 1;
            outside::place(world, slot, copy, !self.stale);
            return Some(());
        }
        if matches!(user, User::Restore | User::ApplyAgain) {
            if world.objects[slot].is_some() {
                return None;
            }
            let note = match user {
                User::Restore => Some(world.backup[slot]?),
                _ => None,
            };
            // A tick is long: what was listed in it was listed before the object was seen, and proves nothing for it.
            for p in world.processes.iter_mut().filter(|_| note.is_none()) {
                p.proof = p.proof.filter(|proof| proof.began < world.now);
            }
            let life = world.lives[slot];
            world.lives[slot] += 1;
            let mut restored = object(
                Who {
                    slot: u8::try_from(slot).ok()?,
                    life,
                },
                world.now,
            );
            restored.note = note;
            // Whoever gave a token once may have written it into the manifest.
            restored.given = world.manifest[slot];
            outside::place(world, slot, restored, !self.stale);
            return Some(());
        }
        let mut o = world.objects[slot]?;
        match user {
            User::Delete => {
                world.backup[slot] = o.note;
                o.deleting = true;
            }
            User::Suspend => o.suspend = !o.suspend,
            User::Retain => o.retain = !o.retain,
            User::Observe => o.observe = !o.observe,
            User::Extend => o.expires = 0,
            User::Replace => o.replaces = !o.replaces,
            User::Rename => o.renamed = true,
            User::StripNote => {
                o.finalizer = false;
                o.note = None;
            }
            User::StripStatus => {
                o.status = None;
                o.begun = None;
            }
            User::ClearUuid => o.status.as_mut()?.uuid = None,
            User::Acknowledge => {
                // A user who looks at the provider and tells the truth.
                let open = o.status?.ready?.reason == real::reason_number(Reason::OutcomeUnknown);
                let none =
                    world.wire.is_empty() && !world.machines.iter().any(|m| m.owner == o.who);
                if !(open && none) {
                    return None;
                }
                give(&mut o, AssumeAbsent)?;
                world.manifest[slot] = o.given;
            }
            User::OrderAnother => {
                give(&mut o, OrderAnother)?;
                world.manifest[slot] = o.given;
                o.beside = numbers(world, |m| m.is_kept_of(slot));
                for m in world.machines.iter_mut().filter(|m| m.is_kept_of(slot)) {
                    m.named = true;
                }
            }
            User::Copy(_) | User::Restore | User::ApplyAgain => {}
        }
        o.version += 1;
        outside::place(world, slot, o, !self.stale);
        Some(())
    }
}

/// A user who reads the status gives the token of this effect, unless that was done.
fn give(object: &mut Obj, effect: AcknowledgementEffect) -> Option<()> {
    let token = real::token(object.status?.asked, effect)?;
    if real::has_token(object.given, &token) {
        return None;
    }
    object.given = real::with_token(object.given, &token);
    Some(())
}

impl Scene {
    pub fn users(&self, world: &World, actions: &mut Vec<Action>) {
        for (slot, object) in world.objects.iter().enumerate() {
            let Some(o) = object else {
                if world.has(Fault::Restore) && world.backup[slot].is_some() && !world.kind_deleting
                {
                    actions.push(Action::User(User::Restore, slot));
                }
                if world.has(Fault::ApplyAgain) && world.lives[slot] > 0 && !world.kind_deleting {
                    actions.push(Action::User(User::ApplyAgain, slot));
                }
                continue;
            };
            let mut may = |fault, user| {
                if world.has(fault) {
                    actions.push(Action::User(user, slot));
                }
            };
            if !o.deleting {
                may(Fault::Delete, User::Delete);
                if !o.renamed {
                    may(Fault::Edit, User::Rename);
                }
            }
            may(Fault::Edit, User::Suspend);
            may(Fault::Edit, User::Retain);
            if o.expires > 0 {
                may(Fault::Edit, User::Extend);
            }
            if self.replaces {
                may(Fault::Edit, User::Replace);
            }
            if o.names.is_some() {
                may(Fault::Edit, User::Observe);
            }
            // Whoever takes the annotation off a restored object wants a new machine, and gets one.
            if o.who.life == 0 && (o.finalizer || o.note.is_some()) {
                may(Fault::StripNote, User::StripNote);
            }
            if o.status.is_some() || o.begun.is_some() {
                may(Fault::StripStatus, User::StripStatus);
            }
            if world.objects[1].is_none() && o.note.is_some() && !world.kind_deleting {
                may(Fault::Copy, User::Copy(true));
                may(Fault::Copy, User::Copy(false));
            }
            if o.status.is_some_and(|s| s.uuid.is_some()) {
                may(Fault::ClearUuid, User::ClearUuid);
            }
            may(Fault::Acknowledge, User::Acknowledge);
            may(Fault::OrderAnother, User::OrderAnother);
        }
    }
}

/// The numbers of some machines, as a bit set.
fn numbers(world: &World, is_one: impl Fn(&Machine) -> bool) -> u8 {
    let machines = world.machines.iter().enumerate();
    let ones = machines.filter(|(_, m)| is_one(m));
    ones.fold(0, |set, (number, _)| set | (1 << number))
}
