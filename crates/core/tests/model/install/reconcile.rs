//! The decision of a reconcile by the shipped code, cached.

use super::{
    super::interner::Interner,
    facts::{Around, facts},
    scenes::Scene,
    world::*,
};
use api::{Reason, conditions::Type, install::InstallRecord};
use flexmetal_core::server::{
    decide::{ServerEffect, decide},
    memory::ServerMemory,
};
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
};

/// The relevant part of a decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decided {
    pub(super) memory: u32,
    pub(super) due: Due,
    pub(super) said: Said,
    pub(super) ready: Option<Reason>,
    pub(super) synced: Option<Reason>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Install(u32),
    PollInstall(u32),
    Release,
    Retain,
    LetGo,
}

pub(super) static RECORDS: LazyLock<Interner<InstallRecord, Arc<InstallRecord>>> =
    LazyLock::new(Interner::default);

type Key = (bool, u8, Object, Around);

static DECIDED: LazyLock<Mutex<HashMap<Key, Decided>>> = LazyLock::new(Mutex::default);

pub(super) fn decided(scene: &Scene, view: &Object, around: Around) -> Decided {
    let key = (scene.retains, scene.variant as u8, *view, around);
    if let Some(known) = DECIDED.lock().unwrap().get(&key) {
        return *known;
    }
    let found = decide_now(scene, view, around);
    DECIDED.lock().unwrap().insert(key, found);
    found
}

fn decide_now(scene: &Scene, view: &Object, around: Around) -> Decided {
    let facts = facts(scene, view, around);
    let decision = decide(&facts);
    let due = match &decision.effect {
        None => Due::Nothing,
        Some(ServerEffect::Reinstall(new)) => {
            let key = (view.revision, view.generation);
            Due::Install(REQUESTS.put(key, |_| (**new).clone()))
        }
        Some(ServerEffect::PollInstall { record, .. }) => {
            Due::PollInstall(RECORDS.put((**record).clone(), |record| Arc::new(record.clone())))
        }
        Some(ServerEffect::Release { .. }) => Due::Release,
        Some(ServerEffect::Retain { .. }) => Due::Retain,
        Some(ServerEffect::RemoveFinalizer) => Due::LetGo,
        Some(other) => panic!("{other:?}: {view:?}"),
    };
    let desired = &decision.desired;
    let said = match &desired.status.records.install {
        Some(install) => Said::Installs(status(install.clone())),
        None => Said::Lost,
    };
    let reason = |kind| desired.condition(kind).map(|wanted| wanted.reason);
    Decided {
        memory: intern_memory(facts.memory.clone()),
        due,
        said,
        ready: reason(Type::Ready),
        synced: reason(Type::Synced),
    }
}

/// Interns a memory, without fields that only delay.
pub(super) fn intern_memory(memory: ServerMemory) -> u32 {
    super::world::memory(ServerMemory {
        install: memory.install,
        connection: memory.connection,
        ..ServerMemory::default()
    })
}
