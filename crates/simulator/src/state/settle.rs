//! What happens by itself, and the only place where a state changes.

use super::super::clock::Moment;
use super::super::profile::Switches;
use super::Account;
use super::machine::Step;
use super::status::Status;
use super::taken::Taken;

impl Account {
    /// Carries out everything that is due by `now`, each at its own time.
    pub(crate) fn settle(&mut self, now: Moment, switches: &Switches) {
        while let Some((at, index)) = self.timeline.first().copied()
            && at <= now
        {
            self.timeline.pop_first();
            let before = self.tick;
            while let Some(step) = self.due(index, at) {
                self.enter(index, step);
            }
            if self.tick == before {
                // From a plan that was dropped: nothing happens.
                continue;
            }
            self.touched.insert(index);
            let Some(machine) = self.machines.get_mut(index) else {
                continue;
            };
            match machine.plan.front() {
                Some(next) => drop(self.timeline.insert((next.at, index))),
                // Most machines have no further step.
                None => machine.plan.shrink_to_fit(),
            }
            if machine.status() == Status::Released {
                for tag in machine.tags().to_vec() {
                    self.forget_unused(&tag, switches);
                }
            }
        }
    }

    /// The next step of a machine, if its time has come.
    fn due(&mut self, index: usize, at: Moment) -> Option<Step> {
        let plan = &mut self.machines.get_mut(index)?.plan;
        plan.pop_front_if(|step| step.at <= at)
    }

    /// Moves a machine to its next state, as one change: states change only here, so
    /// that the counts stay right.
    pub(super) fn enter(&mut self, index: usize, step: Step) {
        let Some(machine) = self.machines.get_mut(index) else {
            return;
        };
        let held = machine.status().holds_hardware();
        self.tick += 1;
        machine.enter(step, self.tick);
        self.taken.moved(machine, held);
    }

    /// How many machines hold hardware.
    pub(crate) fn taken(&self) -> &Taken {
        // Every test that reads a number compares it with the machines.
        debug_assert_eq!(self.taken, Taken::count(&self.machines));
        &self.taken
    }
}
