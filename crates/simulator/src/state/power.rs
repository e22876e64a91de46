//! Power of an on-demand machine: switched by commands, and among the hosts.

use super::super::clock::Moment;
use super::commands::CommandKind;
use super::machine::Machine;
use super::status::Status;

impl Machine {
    /// Whether it runs; `None` before its delivery and after its release.
    pub(crate) fn power(&self, now: Moment) -> Option<bool> {
        if self.status_at(now) != Status::Delivered {
            return None;
        }
        let commands = self.finished(now);
        let turned = commands.map(|command| (command.ends, command.kind.leaves_on()));
        let last = turned.chain(self.switched).max_by_key(|(at, _)| *at);
        Some(last.is_none_or(|(_, on)| on))
    }

    /// Since when it has been running; `None` while it is off.
    pub(super) fn running_since(&self, now: Moment) -> Option<Moment> {
        if self.power(now) != Some(true) {
            return None;
        }
        let mut since = self.entered(Status::Delivered, now)?;
        let commands = self.finished(now);
        let commands = commands.map(|command| (command.ends, command.kind));
        let mut turned: Vec<(Moment, bool, bool)> = commands
            .map(|(at, kind)| (at, kind.leaves_on(), kind != CommandKind::PowerOn))
            // Kept only if it changed something.
            .chain(self.switched.map(|(at, on)| (at, on, true)))
            .collect();
        turned.sort_by_key(|(at, _, _)| *at);
        let mut ran = true;
        for (at, on, restarted) in turned {
            if on && (restarted || !ran) {
                since = at;
            }
            ran = on;
        }
        Some(since)
    }
}
