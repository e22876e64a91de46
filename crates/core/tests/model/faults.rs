//! The answers that a call or a write may get, and what each of them takes of the budget.

use super::{pass::EFFECTS, scene::Scene, step::Answer, world::*};
use flexmetal_core::{once::Stage, server::decide::Effect};

/// Whether the effect sends a DELETE in its one step.
fn is_delete(effect: u32) -> bool {
    matches!(&*EFFECTS.get(effect), Effect::ReleaseFailed { .. })
}

/// Whether the next step is the change of a tag of a machine.
fn changes_tag(task: &Task) -> bool {
    let is_tag = |effect: u32| {
        let effect = EFFECTS.get(effect);
        matches!(&*effect, Effect::AddTag { .. } | Effect::RemoveTag { .. })
    };
    match task {
        Task::Mark { is_read, .. } => *is_read,
        Task::Act { effect, .. } => is_tag(*effect),
        _ => false,
    }
}

impl Scene {
    /// The answers that the next step of a task may get.
    pub fn answers(&self, world: &World, task: &Task) -> Vec<Answer> {
        let mut answers = vec![Answer::Ok];
        let (post, delete, write) = match task {
            Task::Idle => return Vec::new(),
            Task::Attempt(Stage::Send, _) => (!self.freezes, false, false),
            Task::Frozen(_) => (true, false, false),
            Task::Delete { .. } => (false, true, false),
            Task::Mark { .. } => (false, false, false),
            Task::Attempt(Stage::WriteMetadata | Stage::WriteStatus, _) => (false, false, true),
            Task::Attempt(Stage::ReadMetadata | Stage::ReadStatus, _) => {
                if world.has(Fault::LostWrite) {
                    answers.push(Answer::LostBefore);
                }
                (false, false, false)
            }
            Task::Act { effect, .. } => {
                let writes = matches!(
                    &*EFFECTS.get(*effect),
                    Effect::WriteNote(_)
                        | Effect::Claim { .. }
                        | Effect::PutBack(_)
                        | Effect::HoldObject
                        | Effect::LetGo
                        | Effect::BeginRelease { .. }
                        | Effect::Expire { .. }
                );
                (false, is_delete(*effect), writes)
            }
            Task::Attempt(Stage::Closed(_), _) => (false, false, false),
        };
        if changes_tag(task) && world.has(Fault::Lost) {
            answers.extend([Answer::LostBefore, Answer::LostAfter]);
        }
        if (post || delete) && world.has(Fault::Lost) {
            answers.extend([Answer::LostBefore, Answer::Later]);
        }
        if (post || delete) && world.has(Fault::ServerError) {
            answers.extend([Answer::ErrorBefore, Answer::ErrorLater]);
        }
        if post && world.has(Fault::Refuse) {
            answers.push(Answer::Refused);
        }
        if write && world.has(Fault::LostWrite) {
            answers.extend([Answer::LostBefore, Answer::LostAfter]);
            if matches!(task, Task::Attempt(Stage::WriteMetadata, _)) {
                answers.push(Answer::Later);
            }
        }
        answers
    }

    pub fn step(
        &self,
        world: &mut World,
        process: usize,
        slot: usize,
        answer: Answer,
    ) -> Option<()> {
        let task = world.processes[process].task[slot];
        let provider = matches!(
            task,
            Task::Attempt(Stage::Send, _) | Task::Frozen(_) | Task::Delete { .. }
        ) || matches!(task, Task::Act { effect, .. } if is_delete(effect))
            || changes_tag(&task);
        let spent = match answer {
            Answer::Ok => true,
            Answer::ErrorBefore | Answer::ErrorLater => world.spend(Fault::ServerError),
            Answer::Refused => world.spend(Fault::Refuse),
            _ if provider => world.spend(Fault::Lost),
            _ => world.spend(Fault::LostWrite),
        };
        spent.then(|| self.hand(world, process, slot).step(answer))
    }
}
