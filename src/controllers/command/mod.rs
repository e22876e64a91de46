//! `ServerCommand`: observe, decide, act, report.
//!
//! A power command is sent at most once. What is done to a running machine hurts when it is done twice, and the API has no
//! key by which a request is known again: the intent is on record before the request, and a lost answer is settled by
//! looking at the machine's commands, never by sending it again.

pub mod decide;
pub mod facts;
pub mod listed;

mod act;
mod send;

use super::{
    again::Again,
    context::{Context, Process},
    drive::drive,
    namespaces,
    objects::{Objects, Seen, Shown, Traits, Words},
    ownership::Rivals,
    pass::{Memory, Next, Subject, TURNS},
    server_commands::Commands,
    writes::bounded,
};
use crate::{
    account::{Account, AccountKey, Lane},
    kinds::{
        BareMetalServer, Kind as _, ServerCommand, command::CommandOutcome,
        references::PinnedAccount,
    },
    runtime::clock,
};
use act::{MOST_PAGES, act};
use decide::{Effect, decide};
use facts::{CommandMemory, Facts, ServerFact, is_finished};
use std::sync::Arc;

/// The commands of all watched namespaces.
type CommandObjects = Objects<ServerCommand, Memory<CommandMemory>>;
/// What the passes over commands use.
type CommandContext = Context<ServerCommand, Memory<CommandMemory>>;

/// The controller of commands.
pub struct Controller {
    process: Process,
    /// The objects.
    pub objects: Arc<CommandObjects>,
}

impl Controller {
    /// No objects yet. Registers the kind with the accounts, and with the servers.
    pub fn new(process: &Process) -> Self {
        let traits = Traits {
            account_of: Some(account_of),
            claim: Some(claim),
            has_record: |command| command.status.as_ref().is_some_and(|s| !s.sent.is_empty()),
            refers: Some(refers),
            ..Traits::default()
        };
        let objects = Arc::new(Objects::new(traits, process.watched.watches()));
        process.accounts.add_users(objects.clone());
        process
            .server_commands
            .set(Arc::new(Known(objects.clone())));
        Self {
            process: process.clone(),
            objects,
        }
    }

    /// Looks after all commands until shutdown. No pass starts before `accounts_known`.
    pub async fn run(&self, accounts_known: impl Future<Output = ()>) {
        let watches = self.process.watched.apis(&self.process.watch_client);
        let ctx = Arc::new(Context::new(&self.process, self.objects.clone()));
        drive(ctx, watches, accounts_known, pass).await;
    }
}

/// The account of the server, once it was seen.
fn account_of(command: &ServerCommand) -> AccountKey {
    let namespace = command.metadata.namespace.as_deref().unwrap_or_default();
    AccountKey::of(&command.account(), namespace)
}

/// What only one command has at a time: the server that it is for.
fn claim(command: &ServerCommand) -> Option<String> {
    (!is_finished(command)).then(|| server_of(command))
}

/// The server of a command, as a word.
fn server_of(command: &ServerCommand) -> String {
    let namespace = command.metadata.namespace.as_deref().unwrap_or_default();
    place(namespace, &command.spec.server_ref.name)
}

fn place(namespace: &str, server: &str) -> String {
    format!("{namespace}/{server}")
}

/// Before the server of a command that may be under way.
const UNDER_WAY: &str = "under-way:";

/// By what a command is woken, and known to be under way.
fn refers(command: &ServerCommand) -> Words {
    if is_finished(command) {
        return Words::new();
    }
    let server = server_of(command);
    let sent = command.status.as_ref().is_some_and(|s| !s.sent.is_empty());
    let under_way = sent.then(|| format!("{UNDER_WAY}{server}").into());
    under_way.into_iter().chain([server.into()]).collect()
}

/// What servers may know of the commands.
struct Known(Arc<CommandObjects>);

impl Commands for Known {
    fn running(&self, namespace: &str, server: &str) -> Option<String> {
        let word = format!("{UNDER_WAY}{}", place(namespace, server));
        let under_way = self.0.referring(&word);
        let mut running = under_way.into_iter().filter(|(uid, _)| {
            let Some(Shown::Decoded(command)) = self.0.newest(uid) else {
                return false;
            };
            // Its own passes end it then; a server waits no longer, whatever holds those up.
            let created = command.metadata.creation_timestamp.as_ref();
            let age = created.map_or(i64::MAX, |c| clock::now().wall - c.0.as_second());
            u64::try_from(age).is_ok_and(|age| age < command.spec.timeout().0.as_secs())
        });
        running.next().map(|(_, referrer)| referrer.name.clone())
    }

    fn wake(&self, namespace: &str, server: &str) {
        self.0.wake_referring(&place(namespace, server));
    }
}

/// One pass.
async fn pass(ctx: Arc<CommandContext>, seen: Seen<ServerCommand>) -> Again {
    let object = match ctx.open(seen).await {
        Ok(object) => object,
        Err(again) => return again,
    };
    let (facts, account) = observe(&ctx, object).await;
    let decision = decide(&facts);
    let subject = &facts.subject;
    match ctx.prepare(subject, account.as_ref(), &decision, turn) {
        Next::Act(effect, permit) => {
            let (ended, observation) = act(&ctx, &facts, account.as_ref(), effect, permit).await;
            ctx.concluded(subject, ended, |memory| memory.note(observation))
                .await
        }
        Next::Say(again) => ctx.say(subject, &decision, again, &TURNS).await,
        Next::Rest(again) => again,
    }
}

async fn observe(ctx: &CommandContext, object: Arc<ServerCommand>) -> (Facts, Option<Account>) {
    let account = object.account();
    let (subject, account) = ctx.subject(object, &account).await;
    let mut facts = Facts {
        steady: clock::steady_wall(),
        server: ServerFact::NotRead,
        is_namespace_suspended: false,
        ahead: ahead(ctx, &subject),
        subject,
    };
    let records = facts.records();
    let open = records.last().filter(|record| record.outcome.is_none());
    let attempt = open.map(|record| record.intent.attempt.clone());
    let (uid, now) = (facts.subject.uid().to_owned(), facts.subject.now.mono);
    ctx.objects.remember(&uid, |memory| {
        memory.own.searches_for(attempt.as_deref(), now);
    });
    facts.subject.memory = ctx.objects.memory(&uid);
    if needs_server(&facts) {
        look_around(ctx, &mut facts).await;
    }
    (facts, account)
}

/// Whether the decision rests on the server: a command may be about to be sent. Those that are behind another one, and those
/// that are over, cost no read.
fn needs_server(facts: &Facts) -> bool {
    let spec = &facts.subject.object.spec;
    let may_start = match facts.records().last().map(|record| record.outcome) {
        None | Some(Some(CommandOutcome::NotSent)) => true,
        Some(None | Some(CommandOutcome::Accepted)) => spec.escalate_after.is_some(),
        Some(Some(CommandOutcome::Refused)) => false,
    };
    may_start && !facts.is_finished() && !facts.subject.is_deleting() && facts.ahead.is_none()
}

/// The other command for the same server that goes first: an older one, or one that is under way.
fn ahead(ctx: &CommandContext, subject: &Subject<ServerCommand, CommandMemory>) -> Option<String> {
    let server = server_of(&subject.object);
    let under_way = ctx.objects.referring(&format!("{UNDER_WAY}{server}"));
    let mut others = under_way.iter().filter(|(uid, _)| **uid != *subject.uid());
    if let Some((_, other)) = others.next() {
        return Some(other.name.clone());
    }
    // Until the server was seen, a command counts for the account that is used where none is named.
    let unseen = AccountKey::of(&PinnedAccount::of(None), subject.namespace());
    let mut accounts = ctx.accounts.names_of(&account_of(&subject.object));
    accounts.push(unseen);
    let claimants = ctx.objects.claimants(&server, &accounts);
    let owner = Rivals::of(subject.uid(), &claimants, |_| true).owner;
    owner.map(|owner| owner.name.clone())
}

/// Reads the server, and whether its namespace is suspended: live, since commands are rare and what rests on it is not
/// undone.
async fn look_around(ctx: &CommandContext, facts: &mut Facts) {
    let subject = &facts.subject;
    facts.ahead = ahead(ctx, subject);
    facts.steady = clock::steady_wall();
    let namespace = subject.namespace();
    let api = BareMetalServer::api(ctx.client.clone(), Some(namespace));
    let found = bounded(api.get_opt(&subject.object.spec.server_ref.name)).await;
    let suspended = namespaces::is_suspended(ctx, namespace).await;
    facts.server = match (found, &suspended) {
        (Err(failure), _) => ServerFact::Unreadable(failure.explain()),
        (Ok(_), Err(failure)) => ServerFact::Unreadable(failure.explain()),
        (Ok(None), Ok(_)) => ServerFact::Missing,
        (Ok(Some(server)), Ok(_)) => ServerFact::Found(Arc::new(server)),
    };
    facts.is_namespace_suspended = suspended.unwrap_or(true);
    facts.subject.now = clock::now();
}

/// Lane and calls of an effect.
fn turn(effect: &Effect) -> Option<(Lane, u32)> {
    match effect {
        // A look at the machine and its commands goes first.
        Effect::Send(_) => Some((Lane::Change, 2 + MOST_PAGES)),
        Effect::Look(_) => Some((Lane::Poll, 1)),
        Effect::Search(_) => Some((Lane::Resolve, MOST_PAGES)),
        Effect::LetGo | Effect::Delete => None,
    }
}
