//! What is known of the machine that `spec.externalID` names, and of other objects' marks on it and on the object's own.

use super::Known;
use crate::{
    account::{marks, view::Sighting},
    mark::{Mark, marks_of},
    server::{
        decide::fence,
        facts::{External, Facts, OtherMark, is_same_uuid},
    },
};
use hosting_types::{Server, ServerId};
use std::{collections::BTreeMap, sync::Arc};

/// That machine, as a read, a poll or the list of every machine showed it last.
pub(super) fn named(facts: &Facts, known: &impl Known) -> Option<External> {
    let uuid = facts.object.spec.external_id.clone()?;
    let is_it = |id: &str| is_same_uuid(id, &uuid);
    let listed = facts.view().and_then(|view| view.servers.as_ref());
    let on_list = listed.and_then(|(at, all)| {
        let server = all.iter().find(|s| is_it(s.id.as_str()))?;
        let server = Arc::new(server.clone());
        Some(Sighting { server, seen: *at })
    });
    let looked = listed.map(|(at, _)| *at);
    // What a later list does not show is not there any more.
    let read = known.machine(&uuid);
    let read = read.filter(|s| on_list.is_some() || looked.is_none_or(|at| s.seen >= at));
    let shown = on_list.into_iter().chain(read).max_by_key(|s| s.seen);
    Some(External {
        uuid,
        shown,
        looked,
    })
}

/// That machine, where it bears the object's mark and nothing else shows that: it may bear no mark of the cluster yet.
pub(super) fn marked(facts: &Facts) -> Option<Sighting> {
    let shown = facts.external.as_ref()?.shown.as_ref()?;
    let is_known = |s: &Sighting| s.server.id == shown.server.id;
    let is_new = !facts.own.iter().any(is_known) && fence::bears(&shown.server, &facts.mark());
    is_new.then(|| shown.clone())
}

/// Whether the one other mark on a machine is that of an object of this namespace, which left it behind. Beside a second
/// one it may be that of who takes it on in another.
fn is_left_here(facts: &Facts, server: &Server) -> bool {
    let own = facts.mark();
    let others = marks_of(&server.tags).filter(|(mark, _)| *mark != own);
    let here = marks::namespace_mark(facts.cluster.as_str(), facts.namespace());
    let mut left_in = marks::retained_in(server).peekable();
    left_in.peek().is_some() && left_in.all(|namespace| namespace == here) && others.count() == 1
}

/// The marks of others on every machine that the object has or may get, and since when nobody claims those on the machine that is named.
pub(super) fn recall(facts: &mut Facts, known: &impl Known) {
    let own = facts.mark();
    let shown = facts.external.as_ref().and_then(|e| e.shown.as_ref());
    let former = facts.former.iter().flat_map(|f| &f.machines);
    let machines = || facts.own.iter().chain(shown).chain(former.clone());
    let is_elsewhere = |s: &&Sighting| known.is_recorded(s.server.id.as_str(), facts.uid());
    let elsewhere = machines().filter(is_elsewhere).map(|s| s.server.id.clone());
    let elsewhere: Vec<ServerId> = elsewhere.collect();
    let others: BTreeMap<Mark, (ServerId, bool)> = machines()
        .flat_map(|s| {
            let is_of_namespace = is_left_here(facts, &s.server);
            let marks = marks_of(&s.server.tags).filter(|(mark, _)| *mark != own);
            marks.map(move |(mark, _)| (mark, (s.server.id.clone(), is_of_namespace)))
        })
        .collect();
    facts.other_marks = others
        .into_iter()
        .map(|(mark, (id, is_of_namespace))| OtherMark {
            claimed: known.is_claimed(&mark, facts.uid(), is_of_namespace),
            is_settled: known.has_settled(&mark, id.as_str()),
            mark,
        })
        .collect();
    facts.recorded_elsewhere = elsewhere;
    let now = facts.now.mono;
    let unclaimed = facts.external.as_ref().and_then(|e| e.shown.as_ref());
    let unclaimed = unclaimed.filter(|s| {
        let mut marks = marks_of(&s.server.tags).map(|(mark, _)| mark);
        marks.all(|mark| facts.is_left(&mark))
    });
    let uuid = unclaimed.map(|s| s.server.id.as_str().to_owned());
    facts.memory.unclaimed = uuid.map(|uuid| match facts.memory.unclaimed.take() {
        Some((same, since)) if same == uuid => (same, since),
        _ => (uuid, now),
    });
    match facts.deleting() && facts.external.is_some() {
        true => _ = facts.memory.ending_since.get_or_insert(now),
        false => facts.memory.ending_since = None,
    }
}
