//! Moves outside of the processes: requests arrive, time passes, users and the provider act.

use super::{
    process::Hand,
    rules::Rule,
    scene::Scene,
    world::{Broken::*, *},
};
use flexmetal_core::protocol::{
    AcknowledgedActions, ProtocolOrder, ProtocolStep, ServerPhase, WaitReason,
};

/// An action of a user or the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    Wipe(usize),
    StripFinalizer(usize),
    /// All our tags are removed, or only the order tag or the cluster tag.
    Portal(usize, Off),
    ReleaseOutside(usize),
    Fail(usize),
    Flap(usize),
    Delete(usize),
    Edit(usize),
    Apply(usize),
    Restore(usize),
    Namespace,
    Name(usize),
    SaveEtcd,
    PutBackEtcd,
    Another(usize),
    Adopt(usize, usize),
    Absent(usize),
    Key,
    SameAccount,
    NewAccount,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Off {
    All,
    Order,
    Cluster,
}

/// A request arrives. Returns the server that an order creates.
pub fn arrive(world: &mut World, wire: Wire) -> Option<usize> {
    match wire {
        Wire::Post {
            owner,
            seq,
            account,
            ..
        } => {
            let mut server = Srv::new(owner, account, world.now);
            server.put(owner, seq);
            return world.add_server(server);
        }
        Wire::Delete { server, uid, .. } => delete(world, server, uid),
        Wire::Tag { server, change, .. } => retag(world, server, change),
        Wire::Write {
            slot,
            version,
            order,
        } => {
            let slot = usize::from(slot);
            let uid = u8::try_from(order.uid.0).unwrap();
            world.write(slot, (uid, version), |o| o.order = Some(order));
        }
    }
    None
}

pub fn retag(world: &mut World, server: u8, change: Change) {
    let mut objects = world.objects.iter().flatten();
    let is_recorded = objects.any(|o| o.has() == Some(server.into()));
    let Some(server) = &mut world.servers[usize::from(server)] else {
        return;
    };
    match change {
        Change::Own(owner, seq) => {
            server.cluster = true;
            if server.tags == [None; TAGS] && !is_recorded {
                server.owner = owner;
            }
            server.put(owner, seq);
        }
        Change::Off(owner) => {
            server.take_off(owner);
            // An adopting owner has added its own tag before.
            if let Some((left, _)) = server.tags.iter().flatten().next()
                && server.owner == owner
            {
                server.owner = *left;
            }
        }
        Change::Kept(on) => server.kept = on,
    }
}

/// A DELETE takes effect.
pub fn delete(world: &mut World, server: u8, uid: u8) {
    let at = usize::from(server);
    let Some(found) = world.servers[at] else {
        return;
    };
    if !matches!(found.state, ServerPhase::Live | ServerPhase::Failed) {
        return;
    }
    let mut others = world.objects.iter().flatten().filter(|o| o.uid != uid);
    // In another cluster the record may exist after this one named the server.
    if others.any(|o| o.has() == Some(at) && found.owner == o.owner) {
        world.breaks(ForeignDelete);
    }
    if found.stays {
        world.breaks(KeptDelete);
    }
    if let Some(server) = &mut world.servers[at] {
        server.state = ServerPhase::Releasing;
    }
}

/// Advances one tick. Requests that are in flight for that long arrive or are lost before, and a release ends.
pub fn tick(world: &mut World) {
    world.before.remove(0);
    world.before.push(world.servers);
    world.now += 1;
    for server in world.servers.iter_mut().flatten() {
        if server.state == ServerPhase::Releasing {
            server.state = ServerPhase::Released;
        }
    }
}

/// Whether this request is too old to be still in flight.
pub fn is_due(wire: &Wire, now: Tick) -> bool {
    match wire {
        Wire::Post { sent, .. } | Wire::Delete { sent, .. } | Wire::Tag { sent, .. } => now > *sent,
        Wire::Write { .. } => false,
    }
}

/// The actions that are possible now.
pub fn acts(scene: &Scene, world: &World) -> Vec<Act> {
    let mut acts = Vec::new();
    let mut may = |fault: Fault, act: Act| {
        if world.has(fault) {
            acts.push(act);
        }
    };
    for (slot, object) in world.objects.iter().enumerate() {
        match object {
            Some(object) => {
                if object.order.is_some() || object.release.is_some() {
                    may(Fault::Wipe, Act::Wipe(slot));
                }
                if object.finalizer {
                    may(Fault::StripFinalizer, Act::StripFinalizer(slot));
                }
                if !object.deleting {
                    may(Fault::Delete, Act::Delete(slot));
                }
                may(Fault::Edit, Act::Edit(slot));
                if world.has(Fault::Word) {
                    words(scene, world, slot, &mut may);
                }
            }
            None => {
                if world.backup[slot].is_some() {
                    may(Fault::Apply, Act::Apply(slot));
                    may(Fault::Restore, Act::Restore(slot));
                }
                if slot == 1 {
                    may(Fault::Name, Act::Name(slot));
                }
            }
        }
    }
    for (at, server) in world.servers.iter().enumerate() {
        let Some(server) = server else { continue };
        if server.is_live() {
            may(Fault::ReleaseOutside, Act::ReleaseOutside(at));
            may(Fault::Fail, Act::Fail(at));
        }
        if server.state == ServerPhase::Failed {
            may(Fault::Flap, Act::Flap(at));
        }
        if server.cluster || server.tags != [None; TAGS] {
            for off in scene.portal.iter().copied() {
                may(Fault::Portal, Act::Portal(at, off));
            }
        }
    }
    if world.objects[0].is_none() && world.backup[0].is_some() {
        may(Fault::Namespace, Act::Namespace);
    }
    match world.etcd {
        None => may(Fault::Etcd, Act::SaveEtcd),
        Some(_) => may(Fault::Etcd, Act::PutBackEtcd),
    }
    may(Fault::Key, Act::Key);
    if world.account.leads != world.account.accepted {
        match world.account.leads == world.account.made_for {
            true => may(Fault::AccountWord, Act::SameAccount),
            false => may(Fault::AccountWord, Act::NewAccount),
        }
    }
    acts
}

/// A user truthfully acknowledges what blocks an object.
fn words(scene: &Scene, world: &World, slot: usize, may: &mut impl FnMut(Fault, Act)) {
    let Some(why) = held(scene, world, slot) else {
        return;
    };
    let Some(object) = world.objects[slot] else {
        return;
    };
    let is_none = world.live_of(object.owner).next().is_none() && !world.is_under_way(object.owner);
    match why {
        WaitReason::ServerExists => {
            may(Fault::Word, Act::Another(slot));
            let previous = world
                .servers
                .iter()
                .position(|s| s.is_some_and(|s| s.is_live() && s.owner.name == object.owner.name));
            // A user adopts no server that another cluster uses.
            if let Some(previous) = previous.filter(|_| !scene.twin) {
                may(Fault::Word, Act::Adopt(slot, previous));
            }
        }
        _ if is_none => may(Fault::Word, Act::Absent(slot)),
        _ => {}
    }
}

/// What blocks the object, as some process sees it.
pub fn held(scene: &Scene, world: &World, slot: usize) -> Option<WaitReason> {
    let mut world = world.clone();
    (0..world.processes.len()).find_map(|process| {
        if !scene.sees(process, slot) {
            return None;
        }
        let world = &mut world;
        let hand = Hand {
            scene,
            world,
            process,
            slot,
        };
        match hand.plan()?.2 {
            ProtocolStep::Wait(wait) if wait.why.is_blocked() => Some(wait.why),
            _ => None,
        }
    })
}

/// Performs one of those actions.
pub fn act(scene: &Scene, world: &mut World, act: Act) {
    let touch = |world: &mut World, slot: usize, change: &dyn Fn(&mut Obj)| {
        if let Some(object) = world.objects[slot] {
            world.write(slot, (object.uid, object.version), change);
        }
    };
    let fault = match act {
        Act::Wipe(slot) => {
            touch(world, slot, &|o| (o.order, o.release) = (None, None));
            Fault::Wipe
        }
        Act::StripFinalizer(slot) => {
            // A backup may be from right before.
            if world.objects[slot].is_some_and(|o| o.deleting) {
                world.backup[slot] = world.objects[slot];
            }
            touch(world, slot, &|o| o.finalizer = false);
            Fault::StripFinalizer
        }
        Act::Portal(at, off) => {
            if let Some(server) = &mut world.servers[at] {
                server.stripped = true;
                if off != Off::Order {
                    server.cluster = false;
                }
                if off != Off::Cluster {
                    server.tags = [None; TAGS];
                }
            }
            Fault::Portal
        }
        Act::ReleaseOutside(at) => {
            set(world, at, ServerPhase::Released);
            Fault::ReleaseOutside
        }
        Act::Fail(at) => {
            set(world, at, ServerPhase::Failed);
            Fault::Fail
        }
        Act::Flap(at) => {
            set(world, at, ServerPhase::Live);
            // Its object may have been deleted just now. Then the server is reported.
            if let Some(server) = &mut world.servers[at] {
                server.stripped = true;
            }
            Fault::Flap
        }
        Act::Delete(slot) => {
            world.backup[slot] = world.objects[slot];
            touch(world, slot, &|o| o.deleting = true);
            let gone = world.backup[slot].filter(|_| world.objects[slot].is_none());
            for server in world.servers.iter_mut().flatten() {
                // Without a finalizer the object is gone at once, and its server is an orphan.
                server.stripped |= gone.is_some_and(|o| o.owner == server.owner);
            }
            Fault::Delete
        }
        Act::Edit(slot) => {
            touch(world, slot, &|o| o.retain = !o.retain);
            Fault::Edit
        }
        Act::Apply(slot) => {
            apply(world, slot, false);
            Fault::Apply
        }
        Act::Restore(slot) => {
            apply(world, slot, true);
            if scene.off == Some(Rule::RecordUid) {
                touch(world, slot, &|o| {
                    o.order = o.order.map(|order| ProtocolOrder {
                        uid: o.uid(),
                        ..order
                    })
                });
            }
            Fault::Restore
        }
        Act::Namespace => {
            world.namespace += 1;
            apply(world, 0, false);
            Fault::Namespace
        }
        Act::Name(slot) => {
            scene.apply_other(world, slot);
            Fault::Name
        }
        Act::SaveEtcd => {
            world.etcd = Some(world.objects);
            Fault::Etcd
        }
        Act::PutBackEtcd => {
            restore_object(scene, world);
            Fault::Etcd
        }
        Act::Another(slot) => {
            touch(world, slot, &|o| o.acknowledged.order_another = true);
            let owner = world.objects[slot].map(|o| o.owner);
            for server in world.servers.iter_mut().flatten() {
                server.second_allowed |= owner.is_some_and(|o| o.name == server.owner.name);
            }
            Fault::Word
        }
        Act::Adopt(slot, at) => {
            touch(world, slot, &|o| o.acknowledged.adopt = Some(id(at)));
            Fault::Word
        }
        Act::Absent(slot) => {
            touch(world, slot, &|o| o.acknowledged.assume_absent = true);
            Fault::Word
        }
        Act::Key => {
            world.account.leads = 1 - world.account.leads;
            Fault::Key
        }
        Act::SameAccount => {
            world.account.same = true;
            Fault::AccountWord
        }
        Act::NewAccount => {
            world.account.new = true;
            Fault::AccountWord
        }
    };
    world.spend(fault);
}

fn set(world: &mut World, at: usize, state: ServerPhase) {
    if let Some(server) = &mut world.servers[at] {
        server.state = state;
    }
}

/// Applies a manifest, as it is in Git, or with status and finalizer from a backup.
fn apply(world: &mut World, slot: usize, with_status: bool) {
    let Some(backup) = world.backup[slot] else {
        return;
    };
    let uid = world.uids;
    world.uids += 1;
    let owner = Owner {
        namespace: world.namespace,
        ..backup.owner
    };
    let blank = Obj {
        uid,
        owner,
        version: 0,
        deleting: false,
        acknowledged: AcknowledgedActions::default(),
        ..backup
    };
    world.objects[slot] = Some(match with_status {
        true => blank,
        false => Obj {
            finalizer: false,
            order: None,
            release: None,
            ..blank
        },
    });
}

/// Restores every object from etcd, with its UID. Versions continue, or no watch would see it. Every process restarts,
/// as the API server does, or continues.
fn restore_object(scene: &Scene, world: &mut World) {
    let Some(before) = world.etcd else { return };
    let highest = world.objects.iter().flatten().map(|o| o.version).max();
    for (slot, object) in before.into_iter().enumerate() {
        world.objects[slot] = object.map(|o| Obj {
            version: o.version.max(highest.unwrap_or_default()) + 1,
            ..o
        });
    }
    // A server that was ordered since is an orphan, or is found by its order tag.
    for (at, server) in world.servers.iter_mut().enumerate() {
        let is_recorded = world.objects.iter().flatten().any(|o| o.has() == Some(at));
        if let Some(server) = server {
            server.stripped |= !is_recorded;
        }
    }
    if scene.runs_on {
        return;
    }
    let processes = world.processes.len();
    world.processes.clear();
    for _ in 0..processes {
        let process = Process::new(world);
        world.processes.push(process);
    }
}
