//! Whether a server may be re-installed now, with what, and the preconditions right before the request.

use super::{
    super::{
        super::facts::{ServerFacts, is_same_uuid},
        ServerEffect, order_account, remedy, request_checks, sent_hashes,
    },
    Reinstallation, find_history, wanted_revision,
};
use crate::{
    explanation::Explanation, provider_commands as listed, resolved_account::Purpose,
    server_commands::RunningCommand, wording::WHEN_RATE_ALLOWS,
};
use api::{
    Interval, Reason,
    install::{InstallHistory, InstallIntent, InstallRecord},
    order::OrderAccount,
    server::OrderOutcome,
};
use hosting_types::server::Reinstall;
use std::time::Duration;

/// How soon to check again whether a command has ended.
const COMMAND_RUNS: Duration = Duration::from_secs(5);

/// A re-installation that is due.
#[derive(Clone, Debug, PartialEq)]
pub struct NewReinstall {
    /// UUID of the server.
    pub server_uuid: String,
    /// The revision that asks for it.
    pub revision: i64,
    /// The generation of the object whose spec it is made of.
    pub generation: Option<i64>,
    /// The request.
    pub request: Reinstall,
    /// The account that it goes to.
    pub account: OrderAccount,
    /// Hashes of what the provider does not return.
    pub sent: sent_hashes::Hashes,
    /// UIDs of the SshKey objects of its keys.
    pub key_uids: Vec<String>,
    /// How many pages of the server's commands may be read.
    pub pages: u32,
}

/// How many pages of the server's commands may be read.
pub(super) fn allowed_pages(facts: &ServerFacts) -> u32 {
    listed::pages(facts.memory.install.too_few_pages)
}

/// Decides whether a higher revision starts a re-installation.
pub(super) fn decide_start(facts: &ServerFacts, known: &InstallHistory) -> Reinstallation {
    let mut found = Reinstallation::default();
    let against = |reason, message: String| Reinstallation {
        unsynced: Some((reason, message)),
        ..Reinstallation::default()
    };
    let revision = wanted_revision(facts);
    let what = format!("Re-installation {revision} waits");
    let policies = facts.policies();
    if policies.observe_only() {
        return against(
            Reason::ObserveOnly,
            format!(
                "{what}; managementPolicy is ObserveOnly. Set spec.managementPolicy to Full, which then erases the disks, or spec.install.revision to {} or below",
                known.performed()
            ),
        );
    }
    if policies.suspend {
        let text =
            format!("{what}; it follows once suspend is lifted (see the condition Suspended)");
        return against(Reason::PendingChanges, text);
    }
    if policies.deletion_protection {
        let stated = remedy::name_policy_field(facts, "deletionProtection", |p| {
            p.deletion_protection.is_some()
        });
        return against(
            Reason::Protected,
            format!(
                "{what}; protected by {stated}, so its data stays. To re-install it, {}; else set spec.install.revision to {} or below",
                remedy::describe_edit("deletionProtection", "false"),
                known.performed()
            ),
        );
    }
    let view = match facts.account.usable(Purpose::Change) {
        Ok(view) => view,
        Err(explanation) => return against(explanation.reason, explanation.message),
    };
    let waits = |rest: Duration, reason, why: String| Reinstallation {
        unsynced: Some((
            reason,
            format!("{what}; {why}; checked every {}", Interval(rest)),
        )),
        rest: Some(rest),
        ..Reinstallation::default()
    };
    match &facts.commands {
        RunningCommand::Nothing => {}
        RunningCommand::NotListed => {
            let why = "the ServerCommands are not listed yet";
            return waits(COMMAND_RUNS, Reason::Queued, why.into());
        }
        RunningCommand::Command(name) => {
            let why = format!("ServerCommand {name} goes first");
            return waits(COMMAND_RUNS, Reason::Queued, why);
        }
    }
    let every = view.times.active_poll_interval;
    if let Some((at, why)) = &facts.memory.install.busy {
        let rest = (*at + every).saturating_sub(facts.now.mono);
        if !rest.is_zero() {
            let mut found = waits(every, Reason::ChecksFailed, why.clone());
            found.rest = Some(rest);
            return found;
        }
    }
    let Some(installation) = &facts.installation else {
        found.wants_installation = true;
        return found;
    };
    let request = match installation {
        Ok(installation) => request_checks::build_reinstall(facts, installation).map(|request| {
            let sent = sent_hashes::hashes(&facts.object.spec, installation);
            (request, sent, installation.key_uids())
        }),
        Err(explanation) => Err(explanation.clone()),
    };
    let (request, sent, key_uids) = match request {
        Ok(request) => request,
        // Read it again, as a missing reference may appear.
        Err(explanation) => {
            let explanation = explanation.checked_every(every);
            found.unsynced = Some((explanation.reason, explanation.message));
            found.wants_installation = true;
            found.rest = Some(every);
            return found;
        }
    };
    let Some(account) = order_account(facts) else {
        found.rest = Some(COMMAND_RUNS);
        return found;
    };
    found.explanation = Some(Explanation::waits(
        Reason::Reinstalling,
        format!("{what}; the request is sent {WHEN_RATE_ALLOWS}"),
    ));
    found.effect = Some(ServerEffect::Reinstall(Box::new(NewReinstall {
        server_uuid: known.server.clone(),
        revision,
        generation: facts.object.metadata.generation,
        request,
        account,
        sent,
        key_uids,
        pages: allowed_pages(facts),
    })));
    // Each reconcile needs it until the request is sent.
    found.wants_installation = true;
    found
}

/// Whether a decided re-installation is still due, by the object as just read. Returns the history to which the intent
/// is added.
pub fn may_start(fresh: &ServerFacts, new: &NewReinstall) -> Option<InstallHistory> {
    let known = find_history(fresh, &new.server_uuid)?;
    let is_due = known.unfinished().is_none() && new.revision > known.performed();
    (is_due && is_wanted(fresh, new)).then_some(known)
}

/// Whether it may still be sent, by the object after the intent was written: nothing else has changed.
pub fn may_send(last: &ServerFacts, new: &NewReinstall, intent: &InstallIntent) -> bool {
    let status = last.status();
    let open = status
        .records
        .install
        .as_ref()
        .and_then(InstallHistory::unfinished);
    let is_new = |record: &InstallRecord| record.outcome.is_none() && !record.is_taken();
    let is_it = open.is_some_and(|record| record.intent == *intent && is_new(record));
    is_it && is_wanted(last, new)
}

/// Whether the object still asks for this re-installation of its server.
fn is_wanted(fresh: &ServerFacts, new: &NewReinstall) -> bool {
    let status = fresh.status();
    let is_made = status
        .records
        .order
        .is_some_and(|o| o.outcome == Some(OrderOutcome::Created) && o.uid == fresh.uid());
    let policies = fresh.known_policies();
    let is_let = policies.is_some_and(|p| p.may_send() && !p.deletion_protection);
    !fresh.deleting()
        && is_made
        && is_let
        && fresh.account.usable(Purpose::Change).is_ok()
        && order_account(fresh).as_ref() == Some(&new.account)
        && status
            .uuid
            .is_some_and(|uuid| is_same_uuid(&uuid, &new.server_uuid))
        && fresh.object.metadata.generation == new.generation
        && wanted_revision(fresh) == new.revision
}
