//! Which machines the server objects claim: those that bear the mark of a living object.

use super::ServerObjects;
use crate::{account::Claims, controllers::mark::Mark};
use std::{collections::HashSet, sync::Arc};

/// The marks of all server objects.
pub(super) struct MarkClaims {
    pub(super) objects: Arc<ServerObjects>,
    pub(super) all_namespaces: bool,
}

impl Claims for MarkClaims {
    fn marks(&self) -> Option<HashSet<String>> {
        (self.all_namespaces && self.objects.is_complete()).then(|| self.objects.aliases())
    }
}

/// Whether a living object other than the one with this UID bears the mark; None where that cannot
/// be seen. An object that is being deleted still lives.
pub(super) fn is_claimed(
    objects: &ServerObjects,
    all_namespaces: bool,
    mark: &Mark,
    except: &str,
) -> Option<bool> {
    if !all_namespaces || !objects.is_complete() {
        return None;
    }
    let holder = objects.by_alias(mark.as_str());
    Some(holder.is_some_and(|uid| *uid != *except))
}
