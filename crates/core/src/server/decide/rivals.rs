//! Two living objects that have one machine by their marks or on record: both took it on at the same moment, and one
//! gives way.
//!
//! Whoever has the machine on record keeps it. Of two who have not, the one that marked it first keeps it, by the epoch
//! of the mark and then the mark itself: both read the same tags, so both come to the same end.

use super::{
    super::facts::{Facts, OtherMark},
    Decision, Effect,
    evidence::{Evidence, evidence, order_of},
    fence::TagProof,
};
use crate::{
    cause::Cause,
    mark::{Mark, marks_of},
};
use api::Reason;
use hosting_types::Server;

/// Another object whose mark is on the machine, and that lives, or may.
pub fn rival(facts: &Facts, evidence: &Evidence, server: &Server) -> Option<OtherMark> {
    let mut marks = marks_of(&server.tags).map(|(mark, _)| mark);
    let mark = marks.find(|mark| !is_left(facts, evidence, mark))?;
    let unknown = OtherMark {
        mark: mark.clone(),
        claimed: None,
        is_settled: false,
    };
    Some(facts.other_mark(mark.as_str()).cloned().unwrap_or(unknown))
}

/// Whether a mark is this object's, or of one that is gone: an earlier one of this name is, as this one has its place.
pub fn is_left(facts: &Facts, evidence: &Evidence, mark: &Mark) -> bool {
    facts.is_left(mark) || matches!(evidence, Evidence::Former(_, former) if former == mark)
}

/// Whether another object has the machine, or wants it.
pub fn is_shared(facts: &Facts, evidence: &Evidence, server: &Server) -> bool {
    facts.is_recorded_elsewhere(server) || rival(facts, evidence, server).is_some()
}

/// What an object does whose machine is that of another one, too; None: it goes on.
pub fn settle(facts: &Facts, evidence: &Evidence, server: &Server) -> Option<Decision> {
    let rival = rival(facts, evidence, server);
    let is_recorded = facts.is_recorded_elsewhere(server);
    if rival.is_none() && !is_recorded {
        return None;
    }
    // It has the machine on record, or in its metadata: the other one gives way.
    if order_of(evidence, server).is_some() {
        return None;
    }
    let uuid = server.id.as_str();
    let cause = Cause::waits(
        Reason::OwnershipConflict,
        format!(
            "another object has taken machine {uuid} on at the same moment; one of the two gives way within seconds"
        ),
    );
    let decision = Decision::hold(facts, cause);
    let gives_way = rival.is_none_or(|rival| gives_way(facts, &rival, server));
    Some(match is_recorded || gives_way {
        true => match own_tag(facts, server) {
            Some(effect) => decision.with(effect),
            None => decision,
        },
        false => decision,
    })
}

/// Whether the object may take its own mark off: others have the machine, and it has not.
pub fn may_give_way(fresh: &Facts, record: &Server) -> bool {
    let found = evidence(fresh);
    let is_begun = super::fence::is_begun(fresh, record.id.as_str());
    let is_its = order_of(&found, record).is_some();
    !is_its && !is_begun && is_shared(fresh, &found, record)
}

/// Takes the object's own mark off.
pub fn own_tag(facts: &Facts, server: &Server) -> Option<Effect> {
    let tag = super::fence::order_tag_of(server, &facts.mark())?;
    Some(Effect::RemoveTag {
        uuid: server.id.as_str().into(),
        tag: tag.into(),
        when: TagProof::GivesWay,
    })
}

fn gives_way(facts: &Facts, rival: &OtherMark, server: &Server) -> bool {
    let rank = |of: &Mark| {
        let marks = marks_of(&server.tags).filter(|(mark, _)| mark == of);
        marks
            .map(|(mark, epoch)| (epoch, mark.as_str().to_owned()))
            .min()
    };
    rival.is_settled || rank(&facts.mark()) > rank(&rival.mark)
}
