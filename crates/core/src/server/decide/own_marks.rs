//! The marks that the machine on record should bear and does not, or bears and should not.

use super::{super::facts::Facts, Effect, fence::TagProof};
use crate::{account::marks, mark::marks_of};
use api::server::OrderRecord;
use hosting_types::Server;

/// The next change that brings them about, if one is due.
pub fn mend(facts: &Facts, record: &OrderRecord, server: &Server) -> Option<Effect> {
    let uuid = server.id.as_str().to_owned();
    let cluster_tag = facts.cluster.tag();
    if !server.has_tag(&cluster_tag) {
        return Some(Effect::AddTag {
            uuid,
            tag: cluster_tag,
            when: TagProof::OwnMark,
        });
    }
    if let Some(tag) = marks::retained_tag(server) {
        return Some(Effect::RemoveTag {
            uuid,
            tag: tag.to_owned(),
            when: TagProof::OwnMark,
        });
    }
    let recorded = record.intent.tag();
    let tag = spare(facts, server, &recorded)?;
    Some(Effect::RemoveTag {
        uuid,
        tag,
        when: TagProof::Bears(recorded),
    })
}

/// A mark of the object beside the one on record: the answer to the first one that took the machine on was lost, and it
/// was marked again.
fn spare(facts: &Facts, server: &Server, recorded: &str) -> Option<String> {
    let own = facts.mark();
    let tags = marks_of(&server.tags).filter(|(mark, _)| *mark == own);
    let mut tags = tags.map(|(mark, epoch)| mark.order_tag(epoch));
    let is_recorded = server.has_tag(recorded);
    tags.find(|tag| is_recorded && tag != recorded)
}
