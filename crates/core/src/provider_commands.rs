//! Finds our commands in the provider's list of a server's commands. The API has no request key: a
//! command can be ours only if it was not listed right before the request. Re-installations are in that list, too.

mod search;

use crate::last_error::LastError;
use api::command::{CommandOutcome, CommandRecord, ListedCommands, PowerAction};
use hosting_types::{
    CommandId,
    command::{Command, CommandState, PowerCommand},
};
pub use search::Search;
use sha2::{Digest as _, Sha256};

/// Commands this many seconds older than the newest one are not recorded, and no new command is taken for one of them.
/// The first span that leaves few enough applies.
const SPANS: [i64; 3] = [RECENT, 600, 60];
/// Seconds after which a running command is most likely over.
const RECENT: i64 = 3600;
/// Seconds by which the provider's clock may be ahead of ours.
const AHEAD: i64 = 86_400;
/// Seconds by which it may be behind.
const BEHIND: i64 = 300;
/// Most commands that are recorded.
pub const MOST_RECORDED: usize = 200;

/// All power commands.
const POWER: [PowerCommand; 4] = [
    PowerCommand::Reboot,
    PowerCommand::PowerOn,
    PowerCommand::PowerOff,
    PowerCommand::Shutdown,
];

/// What was requested of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedCommand {
    /// A power command.
    Power(PowerAction),
    /// A re-installation.
    Installation,
}

impl RequestedCommand {
    /// Whether a command of the server is of this kind. A re-installation has no command word, or one that is no power
    /// command.
    fn matches(self, command: &Command) -> bool {
        let word = command.command.as_deref();
        match self {
            Self::Power(action) => word == Some(command_of(action).as_str()),
            Self::Installation => {
                let is_power = |power: &PowerCommand| word == Some(power.as_str());
                !POWER.iter().any(is_power)
            }
        }
    }
}

/// The API's command for an action.
pub fn command_of(action: PowerAction) -> PowerCommand {
    match action {
        PowerAction::Reboot => PowerCommand::Reboot,
        PowerAction::PowerOn => PowerCommand::PowerOn,
        PowerAction::PowerOff => PowerCommand::PowerOff,
        PowerAction::Shutdown => PowerCommand::Shutdown,
    }
}

/// The record of the listed commands; None: there are too many to record.
pub fn summarize_commands(commands: &[Command], now: i64) -> Option<ListedCommands> {
    // A time far in the future would make all later commands old.
    let is_ahead = |at: &i64| at.saturating_sub(now) > AHEAD;
    let times = commands.iter().filter_map(made_at);
    let newest = times.filter(|at| !is_ahead(at)).max();
    SPANS.into_iter().find_map(|span| {
        let since = newest.map(|newest| newest.saturating_sub(span));
        let recent = commands.iter().filter(|command| !is_before(since, command));
        let recent: Vec<String> = recent.map(|command| hash(&command.id)).collect();
        (recent.len() <= MOST_RECORDED).then_some(ListedCommands { since, recent })
    })
}

fn is_before(since: Option<i64>, command: &Command) -> bool {
    matches!((made_at(command), since), (Some(at), Some(since)) if at < since)
}

/// The commands of this kind that are new since the list was recorded.
pub fn since<'a>(
    listed: &ListedCommands,
    commands: &'a [Command],
    asked: RequestedCommand,
) -> Vec<&'a Command> {
    let is_new = |command: &&Command| asked.matches(command) && is_after(listed, command);
    commands.iter().filter(is_new).collect()
}

/// The unexplained re-installations: not listed before, not the one with the ID `known`, and not made before `since` by
/// our clock, if they have a time.
pub fn unaccounted<'a>(
    listed: Option<&ListedCommands>,
    known: Option<&str>,
    since: i64,
    commands: &'a [Command],
) -> Vec<&'a Command> {
    let is_known = |command: &Command| {
        let is_it = known.is_some_and(|known| known.eq_ignore_ascii_case(command.id.as_str()));
        let is_older = made_at(command).is_some_and(|at| at < since.saturating_sub(BEHIND));
        is_it || is_older || listed.is_some_and(|listed| !is_after(listed, command))
    };
    let unknown =
        |command: &&Command| RequestedCommand::Installation.matches(command) && !is_known(command);
    commands.iter().filter(unknown).collect()
}

/// Whether the command in the answer to a request can be the requested one: it was not listed before, and its action,
/// if it has one, is the same.
pub fn may_answer(listed: &ListedCommands, command: &Command, action: PowerAction) -> bool {
    let word = command_of(action).as_str();
    command.command.as_deref().is_none_or(|of| of == word) && is_after(listed, command)
}

fn is_after(listed: &ListedCommands, command: &Command) -> bool {
    !is_before(listed.since, command) && !listed.recent.contains(&hash(&command.id))
}

/// A running command of the server, from any sender, except those of `own`: a shutdown must not block the power-off
/// that follows it. One that runs for over an hour is most likely over, and nothing can end it.
pub fn running<'a>(
    commands: &'a [Command],
    own: &[CommandRecord],
    now: i64,
) -> Option<&'a Command> {
    let runs = |command: &&Command| {
        let age = made_at(command).map(|at| now.saturating_sub(at));
        let is_fresh = age.is_none_or(|age| (-AHEAD..RECENT).contains(&age));
        !command.state.is_over() && is_fresh && !own.iter().any(|own| may_be(own, command))
    };
    commands.iter().find(runs)
}

/// Whether the shutdown among these records has finished, so that no power-off follows.
pub fn is_done(commands: &[Command], own: &[CommandRecord]) -> bool {
    let shutdown = own
        .iter()
        .find(|r| r.intent.action == PowerAction::Shutdown);
    shutdown.is_some_and(|shutdown| {
        let mut matching = commands.iter().filter(|command| may_be(shutdown, command));
        let (first, second) = (matching.next(), matching.next());
        first.is_some_and(|c| c.state == CommandState::Finished) && second.is_none()
    })
}

/// Whether a command is the one of this record: by its ID or, if that is unknown, because it is new since the list.
fn may_be(record: &CommandRecord, command: &Command) -> bool {
    let intent = &record.intent;
    match (record.outcome, &record.id) {
        (Some(CommandOutcome::Accepted), Some(id)) => id.eq_ignore_ascii_case(command.id.as_str()),
        (None, _) => {
            let all = std::slice::from_ref(command);
            !since(&intent.listed, all, RequestedCommand::Power(intent.action)).is_empty()
        }
        _ => false,
    }
}

/// The state of a command: finished, failed or neither, by the provider's word.
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

/// Pages of a server's commands that a first read may take.
pub const FIRST_PAGES: u32 = 6;

/// Most pages: some 6,000 commands.
pub const MOST_PAGES: u32 = 128;

/// Why the commands could not be listed.
pub enum NotListed {
    /// The list has more pages than this; the next read may take more.
    Longer(u32),
    /// Anything else.
    Failed(LastError),
}

/// How many pages a read may take, if so many were too few.
pub fn pages(too_few: Option<u32>) -> u32 {
    too_few.map_or(FIRST_PAGES, |pages| pages.saturating_mul(4).min(MOST_PAGES))
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

    const REBOOT: RequestedCommand = RequestedCommand::Power(PowerAction::Reboot);

    fn ids(found: &[&Command]) -> Vec<String> {
        let mut ids: Vec<String> = found.iter().map(|c| c.id.as_str().to_owned()).collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn unlisted_command_is_new_despite_clocks() {
        let before = vec![
            command(1, "reboot", 1_000_000),
            command(2, "reboot", 1_000_100),
            command(3, "reboot", 900_000),
        ];
        let listed = summarize_commands(&before, 1_000_100).unwrap();
        assert_eq!(listed.recent.len(), 2, "those of long ago need no note");
        assert!(since(&listed, &before, REBOOT).is_empty());
        let mut after = before;
        after.push(command(4, "reboot", 1_000_100));
        after.push(command(5, "shutdown", 1_000_200));
        let found = since(&listed, &after, REBOOT);
        assert_eq!(ids(&found), ["00000000-0000-4000-8000-000000000004"]);
        // A command far older than the listed ones is not new.
        after[3].created_at = jiff::Timestamp::from_second(990_000).ok();
        assert!(since(&listed, &after, REBOOT).is_empty());
        // A command without a time is new if its ID is.
        after[3].created_at = None;
        assert_eq!(since(&listed, &after, REBOOT).len(), 1);
    }

    fn record(action: PowerAction, id: Option<&str>, listed: &ListedCommands) -> CommandRecord {
        let intent = serde_json::from_value(serde_json::json!({
            "uid": "u", "action": action, "server": "m", "attempt": "a", "listed": listed,
            "startedAt": "2026-01-01T00:00:00Z", "sendBy": "2026-01-01T00:00:00Z",
            "account": {
                "kind": "ProviderAccount", "name": "default", "uid": "x", "accountID": "l", "credentialsHash": "c",
            },
        }));
        CommandRecord {
            outcome: id.map(|_| CommandOutcome::Accepted),
            id: id.map(str::to_owned),
            ..CommandRecord::new_open(intent.unwrap())
        }
    }

    #[test]
    fn own_shutdown_allows_following_power_off() {
        let mut shutdown = command(7, "shutdown", 1000);
        shutdown.state = CommandState::Pending;
        let mut other = command(8, "update-server", 1000);
        other.state = CommandState::Pending;
        let before = summarize_commands(&[], 1000).unwrap();
        let id = shutdown.id.as_str().to_uppercase();
        let known = record(PowerAction::Shutdown, Some(&id), &before);
        let lost = record(PowerAction::Shutdown, None, &before);
        let of_then = summarize_commands(std::slice::from_ref(&shutdown), 1000).unwrap();
        let older = record(PowerAction::Shutdown, None, &of_then);
        let all = [shutdown, other];
        for (own, count) in [(known, 0), (lost, 0), (older, 1)] {
            let own = [own];
            assert_eq!(usize::from(running(&all[..1], &own, 1001).is_some()), count);
            assert!(running(&all, &own, 1001).is_some(), "another one's counts");
        }
    }

    #[test]
    fn finished_shutdown_needs_no_power_off() {
        let mut shutdown = command(7, "shutdown", 1000);
        let before = summarize_commands(&[], 1000).unwrap();
        let known = record(PowerAction::Shutdown, Some(shutdown.id.as_str()), &before);
        let lost = record(PowerAction::Shutdown, None, &before);
        for own in [known, lost.clone()] {
            shutdown.state = CommandState::Finished;
            assert!(is_done(
                std::slice::from_ref(&shutdown),
                std::slice::from_ref(&own)
            ));
            shutdown.state = CommandState::Pending;
            assert!(!is_done(
                std::slice::from_ref(&shutdown),
                std::slice::from_ref(&own)
            ));
        }
        shutdown.state = CommandState::Finished;
        let two = [shutdown, command(8, "shutdown", 1000)];
        assert!(!is_done(&two, &[lost]), "it may be either");
    }

    #[test]
    fn a_moment_far_ahead_makes_nothing_older() {
        let ahead = command(1, "reboot", 4_000_000_000);
        let listed =
            summarize_commands(&[ahead.clone(), command(2, "reboot", 1000)], 1001).unwrap();
        let all = [ahead.clone(), command(3, "reboot", 1002)];
        let found = since(&listed, &all, REBOOT);
        assert_eq!(ids(&found), ["00000000-0000-4000-8000-000000000003"]);
        let mut runs = ahead;
        runs.state = CommandState::Pending;
        assert!(
            running(&[runs], &[], 1001).is_none(),
            "nor does it run for ever"
        );
    }

    #[test]
    fn an_answer_that_shows_something_else_is_none() {
        let before = summarize_commands(&[command(1, "reboot", 1000)], 1000).unwrap();
        let may = |command: &Command| may_answer(&before, command, PowerAction::Reboot);
        let mut answer = command(2, "reboot", 1001);
        assert!(may(&answer));
        assert!(
            !may(&command(1, "reboot", 1001)),
            "one that was there before"
        );
        assert!(!may(&command(2, "power_off", 1001)), "another action");
        answer.command = None;
        assert!(may(&answer), "it does not say");
    }

    #[test]
    fn an_identifier_in_other_letters_is_the_same() {
        let lower = command(1, "reboot", 5);
        let listed = summarize_commands(std::slice::from_ref(&lower), 5).unwrap();
        let mut upper = lower;
        upper.id = CommandId::parse(&upper.id.as_str().to_uppercase()).unwrap();
        assert!(since(&listed, &[upper], REBOOT).is_empty());
    }

    #[test]
    fn recorded_commands_are_bounded() {
        let many: Vec<Command> = (0..=200).map(|n| command(n, "reboot", 5)).collect();
        assert_eq!(summarize_commands(&many, 5), None);
        assert!(summarize_commands(&many[1..], 5).is_some());
        // Too many within an hour, but not within ten minutes.
        let within_an_hour: Vec<Command> = (0..1000)
            .map(|n| command(n, "reboot", i64::from(n) * 3))
            .collect();
        let few = summarize_commands(&within_an_hour, 3000).unwrap();
        assert_eq!(few.recent.len(), 21);
        assert!(since(&few, &within_an_hour, REBOOT).is_empty());
        let over_years: Vec<Command> = (0..5000)
            .map(|n| command(n, "reboot", i64::from(n) * 4000))
            .collect();
        assert!(summarize_commands(&over_years, 20_000_000).is_some());
    }

    #[test]
    fn pending_command_runs_for_an_hour_at_most() {
        let mut pending = command(1, "update-server", 1000);
        pending.state = CommandState::Pending;
        let of = |at| running(std::slice::from_ref(&pending), &[], at).is_some();
        assert!(of(1001));
        assert!(of(0), "a clock that is behind");
        assert!(!of(1000 + RECENT));
        pending.state = CommandState::Other("queued".into());
        assert!(running(std::slice::from_ref(&pending), &[], 1001).is_some());
        pending.created_at = None;
        assert!(running(std::slice::from_ref(&pending), &[], i64::MAX).is_some());
    }
}
