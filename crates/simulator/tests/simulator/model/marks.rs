//! What the judge of histories must find.

use super::world::{State, World};

/// Prefix of the marks' tags.
pub(crate) const PREFIX: &str = "fmo-order:";

/// Characters of the number of an order, at the end of its tag.
const NUMBER: usize = 8;

/// The mark in a tag: what stands after the prefix, without the number.
pub(crate) fn mark(tag: &str) -> Option<&str> {
    let text = tag.strip_prefix(PREFIX)?;
    let end = text.len().checked_sub(NUMBER)?;
    text.get(..end).filter(|mark| !mark.is_empty())
}

impl World {
    /// Looks for two live machines of one mark, after each transition. Time
    /// alone never makes a machine live or gives it a tag, so none is missed.
    pub(crate) fn watch(&mut self) {
        let live = |state| matches!(state, State::Waiting | State::Delivered);
        let mut seen: Vec<(usize, String)> = Vec::new();
        for (place, machine) in self.machines.iter().enumerate() {
            if !live(self.state(machine)) {
                continue;
            }
            for found in machine.tags.iter().filter_map(|tag| mark(tag)) {
                let twice = seen
                    .iter()
                    .any(|(other, known)| known == found && *other != place);
                if twice && !self.twice_live.iter().any(|known| known == found) {
                    self.twice_live.push(found.to_owned());
                }
                seen.push((place, found.to_owned()));
            }
        }
    }

    /// Marked tags that came with more than one accepted order.
    pub(crate) fn ordered_twice(&self) -> Vec<String> {
        let mut found = Vec::new();
        for tag in &self.ordered_tags {
            let times = self.ordered_tags.iter().filter(|other| *other == tag);
            if mark(tag).is_some() && times.count() > 1 && !found.contains(tag) {
                found.push(tag.clone());
            }
        }
        found
    }
}
