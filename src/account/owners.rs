//! Whose machines there are: the namespace and the account of the objects that ordered them.

use super::Claims;
use flexmetal_core::account::{key::AccountKey, marks, view::Sighting};
use hosting_types::Server;
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Who ordered a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The namespace of the object.
    pub namespace: String,
    /// The account that it names, where it can be read.
    pub account: Option<AccountKey>,
}

/// The owners of machines, by object mark. They are remembered beyond the end of their objects: a machine that nobody
/// claims any more goes on to count for those who ordered it. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct Owners(Arc<Mutex<HashMap<String, Arc<Owner>>>>);

impl Owners {
    /// An order of the object of this mark goes out.
    pub(crate) fn note(&self, mark: &str, owner: Owner) {
        self.lock().insert(mark.to_owned(), Arc::new(owner));
    }

    /// The object marks of machines whose owners are not known yet.
    pub(crate) fn unknown<'a>(
        &self,
        machines: impl Iterator<Item = &'a Sighting>,
    ) -> HashSet<String> {
        let known = self.lock();
        let marks = machines.flat_map(|s| marks::object_marks(&s.server));
        let unknown = marks.filter(|mark| !known.contains_key(*mark));
        unknown.map(str::to_owned).collect()
    }

    /// Asks whose machines these are. Never with the lock of an account held.
    pub(crate) fn ask(&self, marks: HashSet<String>, claims: &dyn Claims) {
        for mark in marks {
            if let Some(owner) = claims.owner(&mark) {
                self.note(&mark, owner);
            }
        }
    }

    /// The owner of a machine, where that is known.
    pub(crate) fn of(&self, server: &Server) -> Option<Arc<Owner>> {
        let known = self.lock();
        marks::object_marks(server).find_map(|mark| known.get(mark).cloned())
    }

    /// Nothing of this object is left.
    pub(crate) fn forget(&self, mark: &str) {
        self.lock().remove(mark);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Owner>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
