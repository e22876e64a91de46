//! What the list of a machine's commands tells: which of them came after a moment that was noted.
//!
//! The API has no key by which a request is known again. So the commands that are there are noted right before one is
//! sent; after a lost answer, the one that is not among them is the outcome. Only the provider's own clock is compared
//! with itself. Pure.

use crate::kinds::command::{ListedCommands, PowerAction};
use hosting::{
    CommandId,
    command::{Command, CommandState, PowerCommand},
};
use sha2::{Digest as _, Sha256};

/// Commands so much older than the newest one are not noted: none that comes later is taken for one of them.
const RECENT: i64 = 3600;
/// Most commands that are noted.
pub const MOST_NOTED: usize = 200;

/// The API's command for an action.
pub fn command_of(action: PowerAction) -> PowerCommand {
    match action {
        PowerAction::Reboot => PowerCommand::Reboot,
        PowerAction::PowerOn => PowerCommand::PowerOn,
        PowerAction::PowerOff => PowerCommand::PowerOff,
        PowerAction::Shutdown => PowerCommand::Shutdown,
    }
}

/// What is noted of the commands that are there; None: they are more than can be noted.
pub fn noted(commands: &[Command]) -> Option<ListedCommands> {
    let newest = commands.iter().filter_map(made_at).max();
    let is_recent = |command: &&Command| match (made_at(command), newest) {
        (Some(at), Some(newest)) => at >= newest.saturating_sub(RECENT),
        _ => true,
    };
    let recent = commands.iter().filter(is_recent);
    let recent: Vec<String> = recent.map(|command| hash(&command.id)).collect();
    (recent.len() <= MOST_NOTED).then_some(ListedCommands { newest, recent })
}

/// The commands of this action that came after what was noted.
pub fn since<'a>(
    noted: &ListedCommands,
    commands: &'a [Command],
    action: PowerAction,
) -> Vec<&'a Command> {
    let word = command_of(action).as_str();
    let is_new = |command: &&Command| {
        let is_of_then = match (made_at(command), noted.newest) {
            (Some(at), Some(newest)) => at < newest.saturating_sub(RECENT),
            _ => false,
        };
        command.command.as_deref() == Some(word)
            && !is_of_then
            && !noted.recent.contains(&hash(&command.id))
    };
    commands.iter().filter(is_new).collect()
}

/// A command that runs on the machine, whoever sent it. What has run for long, by the clock at `now`, is over in all
/// likelihood, and nobody can end it.
pub fn running(commands: &[Command], now: i64) -> Option<&Command> {
    let runs = |command: &&Command| {
        let is_fresh = made_at(command).is_none_or(|at| now.saturating_sub(at) < RECENT);
        !command.state.is_over() && is_fresh
    };
    commands.iter().find(runs)
}

/// Whether a command, by the provider's word for its state, is done, failed, or neither yet.
pub fn state_of(word: Option<&str>) -> CommandState {
    CommandState::parse(word.unwrap_or_default())
}

fn made_at(command: &Command) -> Option<i64> {
    Some(command.created_at?.as_second())
}

fn hash(id: &CommandId) -> String {
    let digest = Sha256::digest(id.as_str().to_ascii_lowercase());
    digest.iter().take(4).map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(number: u32, word: &str, at: i64) -> Command {
        Command {
            id: CommandId::parse(&format!("00000000-0000-4000-8000-{number:012}")).unwrap(),
            server: None,
            command: Some(word.into()),
            state: CommandState::Finished,
            created_at: jiff::Timestamp::from_second(at).ok(),
            updated_at: None,
        }
    }

    fn ids(found: &[&Command]) -> Vec<String> {
        let mut ids: Vec<String> = found.iter().map(|c| c.id.as_str().to_owned()).collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn what_was_not_there_is_new_whatever_the_clocks_of_others_say() {
        let before = vec![
            command(1, "reboot", 1_000_000),
            command(2, "reboot", 1_000_100),
            command(3, "reboot", 900_000),
        ];
        let noted = noted(&before).unwrap();
        assert_eq!(noted.recent.len(), 2, "those of long ago need no note");
        assert!(since(&noted, &before, PowerAction::Reboot).is_empty());
        let mut after = before;
        after.push(command(4, "reboot", 1_000_100));
        after.push(command(5, "shutdown", 1_000_200));
        let found = since(&noted, &after, PowerAction::Reboot);
        assert_eq!(ids(&found), ["00000000-0000-4000-8000-000000000004"]);
        // One that is far older than what was there is not new.
        after[3].created_at = jiff::Timestamp::from_second(990_000).ok();
        assert!(since(&noted, &after, PowerAction::Reboot).is_empty());
        // One that says nothing of its time is, where its identifier is.
        after[3].created_at = None;
        assert_eq!(since(&noted, &after, PowerAction::Reboot).len(), 1);
    }

    #[test]
    fn an_identifier_in_other_letters_is_the_same() {
        let lower = command(1, "reboot", 5);
        let noted = noted(std::slice::from_ref(&lower)).unwrap();
        let mut upper = lower;
        upper.id = CommandId::parse(&upper.id.as_str().to_uppercase()).unwrap();
        assert!(since(&noted, &[upper], PowerAction::Reboot).is_empty());
    }

    #[test]
    fn more_than_can_be_noted_is_told() {
        let many: Vec<Command> = (0..=200).map(|n| command(n, "reboot", 5)).collect();
        assert_eq!(noted(&many), None);
        assert!(noted(&many[1..]).is_some());
        let over_years: Vec<Command> = (0..5000)
            .map(|n| command(n, "reboot", i64::from(n) * 4000))
            .collect();
        assert!(noted(&over_years).is_some());
    }

    #[test]
    fn what_runs_is_seen_unless_it_has_run_for_ever() {
        let mut pending = command(1, "update-server", 1000);
        pending.state = CommandState::Pending;
        let of = |at| running(std::slice::from_ref(&pending), at).is_some();
        assert!(of(1001));
        assert!(of(0), "a clock that is behind");
        assert!(!of(1000 + RECENT));
        pending.state = CommandState::Other("queued".into());
        assert!(running(std::slice::from_ref(&pending), 1001).is_some());
        pending.created_at = None;
        assert!(running(std::slice::from_ref(&pending), i64::MAX).is_some());
    }
}
