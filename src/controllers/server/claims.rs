//! Which machines the server objects claim: those that bear the mark of a living object.

use super::{ServerObjects, facts};
use crate::{
    account::{Claims, OnRecord, RecordedMachine},
    controllers::mark::Mark,
    kinds::{BareMetalServer, server::OrderOutcome},
};
use hosting::ServerStatus;
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

/// What an object has on record at its account: the machine of its last order, or that the order is open.
pub fn on_record(object: &BareMetalServer, all: &mut OnRecord) {
    let status = object.status.as_ref();
    let recorded = status.and_then(|s| s.order.as_ref());
    let recorded = recorded.map(|r| (r.intent.clone(), r.outcome));
    let noted = facts::order_annotation(object).and_then(Result::ok);
    let noted = noted.map(|n| (n.intent, n.outcome));
    // The newest is the last start; of the same one, whoever knows an outcome knows more.
    let last = [recorded, noted].into_iter().flatten();
    let last = last.max_by_key(|(intent, outcome)| (intent.epoch, outcome.is_some()));
    let Some((intent, outcome)) = last else {
        return;
    };
    let lineage = intent.account.map(|account| account.lineage);
    let is_open = outcome.is_none_or(|o| o == OrderOutcome::Created);
    if let Some(uuid) = status.and_then(|s| s.uuid.clone()) {
        let word = status.and_then(|s| s.provider_status.as_deref());
        all.machines.push(RecordedMachine {
            uuid: uuid.to_ascii_lowercase(),
            live: word.is_none_or(|word| ServerStatus::parse(word).is_live()),
            lineage,
        });
    } else if is_open {
        all.open.push(lineage);
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
