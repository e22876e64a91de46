//! What the object itself tells of an order: finalizer, annotation, status, and this process's memory.
//!
//! Any one of them proves an intent. They can be stripped, copied, restored or come from another
//! cluster, so each is read with the question whose it is.

use super::super::facts::{Facts, is_same_uuid};
use crate::mark::{ClusterId, Mark, marks_of};
use api::{
    order::OrderNote,
    server::{Intent, OrderOutcome, OrderRecord},
};
use hosting_types::Server;

/// What stands in the place of the nonce where no order is known.
pub const ADOPTED: &str = "adopted";

/// What the object tells of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing: this object has never ordered, or has lost every trace of it.
    None,
    /// An order of this very object.
    Own(Attempt),
    /// Only the finalizer: there was an order, but of which epoch is lost.
    Bare,
    /// The order of an earlier object of this namespace and name: this one was restored, or applied again.
    Former(Intent, Mark),
    /// The order of another object of this cluster: a copied manifest.
    Stranger(Intent, Mark),
    /// The order of another cluster.
    Foreign(Intent),
    /// An annotation that cannot be read.
    Garbled(String),
}

/// An order of this very object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The order, with its outcome where that is known.
    pub record: OrderRecord,
    /// The machine that it made, where that is known.
    pub uuid: Option<String>,
}

impl Attempt {
    /// Whether only its mark can show its machine: the outcome is not known, or that of which machine it was
    /// is lost.
    pub fn is_to_be_found(&self) -> bool {
        match self.record.outcome {
            None => true,
            Some(OrderOutcome::Created) => self.uuid.is_none(),
            Some(_) => false,
        }
    }

    /// Whether it is an order that made a machine, or may have.
    pub fn may_have_made_one(&self) -> bool {
        let is_open = matches!(self.record.outcome, None | Some(OrderOutcome::Created));
        is_open && self.record.intent.attempt != ADOPTED
    }

    /// An attempt of which only the annotation tells.
    fn noted(note: OrderNote) -> Self {
        let mut record = OrderRecord::open(note.intent);
        // That a machine was made is not said there, so it cannot be believed from there.
        record.outcome = note.outcome.filter(|outcome| outcome.is_closed());
        Self { record, uuid: None }
    }
}

/// Reads the evidence of an object.
pub fn evidence(facts: &Facts) -> Evidence {
    let own_mark = facts.mark();
    let status = facts.object.status.as_ref();
    let annotated = facts.annotation();
    let is_own = |i: &Intent| {
        i.cluster == facts.cluster.as_str() && i.uid == facts.uid() && i.mark == own_mark.as_str()
    };

    let in_annotation = annotated
        .as_ref()
        .and_then(|a| a.as_ref().ok())
        .filter(|note| is_own(&note.intent))
        .map(|note| Attempt::noted(note.clone()));
    let in_status = status
        .and_then(|s| s.records.order.as_ref().map(|o| (s, o)))
        .filter(|(_, o)| is_own(&o.intent))
        .map(|(s, o)| Attempt {
            record: o.clone(),
            uuid: s.uuid.clone(),
        });
    let remembered = facts
        .memory
        .order
        .as_ref()
        .filter(|o| is_own(&o.intent))
        .map(|o| Attempt {
            record: o.clone(),
            uuid: facts.memory.uuid.clone(),
        });

    // The newest epoch is the last start. Of the same attempt, whoever knows an outcome knows more;
    // memory speaks only of its own attempts, as another process may have started one in the meantime.
    let is_closed = |a: &Attempt| a.record.outcome.is_some_and(OrderOutcome::is_closed);
    // That it has taken a machine on stands against a later order that came to nothing: status may not tell of it yet.
    let is_taken_on = |a: &Attempt| a.record.intent.attempt == ADOPTED && !is_closed(a);
    let on_object = match (in_annotation, in_status) {
        (Some(noted), Some(shown))
            if is_taken_on(&noted)
                && is_closed(&shown)
                && noted.record.intent.epoch != shown.record.intent.epoch =>
        {
            Some(noted)
        }
        (noted, shown) => [noted, shown]
            .into_iter()
            .flatten()
            .max_by_key(|a| (a.record.intent.epoch, a.record.outcome.is_some())),
    };
    let own = match (on_object, remembered) {
        (Some(shown), Some(known)) if shown.record.intent == known.record.intent => {
            Some(match shown.record.outcome {
                None => known,
                Some(_) => Attempt {
                    // Somebody may have cleared it.
                    uuid: shown.uuid.or(known.uuid),
                    ..shown
                },
            })
        }
        (Some(shown), _) => Some(shown),
        // Everything was stripped from the object. An attempt that made nothing is not worth
        // remembering then: another process may have started one that is stripped as well.
        (None, known) => {
            known.filter(|a| matches!(a.record.outcome, None | Some(OrderOutcome::Created)))
        }
    };
    if let Some(attempt) = own {
        return Evidence::Own(attempt);
    }

    let other = match annotated {
        Some(Ok(note)) => Some(note.intent),
        // Our finalizer beside words that are not ours: an order of this object, overwritten.
        Some(Err(_)) if facts.has_finalizer() => return Evidence::Bare,
        Some(Err(text)) => return Evidence::Garbled(text),
        // A backup may bring the status of an earlier life without the annotation.
        None => status
            .and_then(|s| s.records.order.as_ref())
            .map(|o| o.intent.clone()),
    };
    // Beside the words of another object, our finalizer was most likely copied with them. That it
    // tells of an own order all the same is ruled out before a new order starts.
    match other {
        None if facts.has_finalizer() => Evidence::Bare,
        None => Evidence::None,
        // Anybody may have written this: what is no identity is not repeated at length.
        Some(intent) if ClusterId::parse(&intent.cluster).is_err() => garbled(&intent.cluster),
        Some(intent) if intent.uid.len() > LONGEST_UID => garbled(&intent.uid),
        Some(intent) if intent.cluster != facts.cluster.as_str() => Evidence::Foreign(intent),
        Some(intent) => {
            let Some(mark) = Mark::parse(&intent.mark) else {
                return garbled(&intent.mark);
            };
            if facts
                .cluster
                .object_mark(facts.namespace(), facts.name(), &intent.uid)
                == mark
            {
                Evidence::Former(intent, mark)
            } else {
                Evidence::Stranger(intent, mark)
            }
        }
    }
}

/// The order of this object that made the machine, or by which it took the machine on, as far as the object tells. An
/// order that made none is not that of a machine that was taken on since.
pub fn order_of<'a>(evidence: &'a Evidence, server: &Server) -> Option<&'a OrderRecord> {
    let Evidence::Own(Attempt { record, .. }) = evidence else {
        return None;
    };
    let is_closed = record.outcome.is_some_and(OrderOutcome::is_closed);
    (!is_closed || server.has_tag(&record.intent.tag())).then_some(record)
}

/// The longest UID that Kubernetes gives.
const LONGEST_UID: usize = 36;

fn garbled(text: &str) -> Evidence {
    Evidence::Garbled(text.chars().take(40).collect())
}

impl Evidence {
    /// The highest epoch that was ever used here, which the next start must exceed.
    pub fn last_epoch(&self) -> i64 {
        match self {
            Self::Own(a) => a.record.intent.epoch,
            Self::Former(i, _) | Self::Stranger(i, _) | Self::Foreign(i) => i.epoch,
            Self::None | Self::Bare | Self::Garbled(_) => 0,
        }
    }

    /// The nonce of an order whose outcome is not known; empty where even that is lost.
    pub fn open_attempt(&self) -> Option<&str> {
        match self {
            Self::Own(a) if a.is_to_be_found() => Some(&a.record.intent.attempt),
            Self::Bare => Some(""),
            _ => None,
        }
    }

    /// The nonce of an order that is known to have made nothing.
    pub fn closed_attempt(&self) -> Option<&str> {
        match self {
            Self::Own(a) if a.record.outcome.is_some_and(OrderOutcome::is_closed) => {
                Some(&a.record.intent.attempt)
            }
            _ => None,
        }
    }

    /// The mark in an annotation that is not this object's own.
    pub fn other_mark(&self) -> Option<&Mark> {
        match self {
            Self::Former(_, mark) | Self::Stranger(_, mark) => Some(mark),
            _ => None,
        }
    }

    /// Whether a machine with this mark is over, and was made by an order before the one that the object speaks of: another
    /// one was ordered in its place since, or it appeared late.
    pub fn is_of_earlier(&self, own: &Mark, server: &Server) -> bool {
        let Self::Own(attempt) = self else {
            return false;
        };
        let recorded = attempt.uuid.as_deref();
        let is_recorded = recorded.is_some_and(|uuid| is_same_uuid(uuid, server.id.as_str()));
        let epochs = marks_of(&server.tags).filter(|(mark, _)| mark == own);
        let newest = epochs.map(|(_, epoch)| epoch).max();
        !server.status.is_live()
            && !is_recorded
            && newest.is_some_and(|epoch| epoch < attempt.record.intent.epoch)
    }

    /// Whether there is an order, or a machine of it, of which a user can acknowledge that it is not there.
    pub fn may_be_absent(&self) -> bool {
        match self {
            Self::None | Self::Garbled(_) => false,
            Self::Own(a) => !a.record.outcome.is_some_and(OrderOutcome::is_closed),
            Self::Bare | Self::Former(..) | Self::Stranger(..) | Self::Foreign(_) => true,
        }
    }

    /// The recorded outcome of an own order.
    pub fn outcome(&self) -> Option<OrderOutcome> {
        match self {
            Self::Own(a) => a.record.outcome,
            _ => None,
        }
    }
}
