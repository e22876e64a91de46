//! The object is being deleted: release its machine, prove the end, remove the finalizer.
//!
//! An order of unknown outcome is resolved first. Until the release is on record the policy may
//! still turn to Retain; from then on it comes too late. The finalizer goes only at a proven end.

use super::{
    super::facts::Facts,
    Decision, Effect,
    absent::{self, NoProof},
    decide,
    draft::Draft,
    evidence::{Attempt, Evidence, order_of},
    external,
    fence::{self, TagProof},
    missing, order, reinstall, remedy, resolve, rivals, sending, terms,
};
use crate::{
    account::{marks, view::View},
    account_facts::Purpose,
    cause::Cause,
    server_commands::UnderWay,
    wording::listed,
};
use api::{
    BareMetalServer, Interval, Reason,
    acknowledgement::AcknowledgementEffect::OrderAnother,
    records::ReleaseRecord,
    server::{BareMetalServerStatus, DeletionPolicy, OrderOutcome},
};
use hosting_types::{Server, ServerStatus};
use jiff::Timestamp;
use std::{sync::Arc, time::Duration};

/// How soon it is looked again whether a command is over.
const COMMAND_RUNS: Duration = Duration::from_secs(5);

/// Said of a machine that is over, while its object still ends.
const RELEASED: &str = "the machine is released; this object goes within seconds";
/// A delayed release is looked at this often at the least: a clock may be turned back.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);
/// How soon to look again when the kind could not be read.
const CANNOT_SEE: Duration = Duration::from_secs(5);

/// Decides for a deleted object.
pub fn release(facts: &Facts, evidence: &Evidence) -> Decision {
    let is_held = facts.has_finalizer();
    let mut decision = match is_held || matches!(evidence, Evidence::Own(_)) {
        true => toward_the_end(facts, evidence),
        false => Decision::unchanged(facts).with(Effect::LetGo),
    };
    decision.draft.withdraw(OrderAnother);
    if !is_held && decision.effect == Some(Effect::LetGo) {
        // Somebody stripped it, or it never had one: its outputs hold it, or only others do.
        decision.effect = facts.has_output_finalizer().then_some(Effect::LetGo);
    }
    decision
}

fn toward_the_end(facts: &Facts, evidence: &Evidence) -> Decision {
    if let Some(server) = target(facts) {
        let decision = finish(facts, evidence, &server);
        // The end of one machine is not the end while another one of this object lives.
        return match remaining(facts, &server) {
            Some(other) if decision.effect == Some(Effect::LetGo) => {
                finish(facts, evidence, &other)
            }
            _ => decision,
        };
    }
    match evidence {
        Evidence::Own(attempt) if attempt.is_to_be_found() => unresolved(facts, evidence),
        Evidence::Own(attempt) => match attempt.record.outcome {
            Some(OrderOutcome::Created) => not_shown(facts, attempt),
            // It may have put its mark on the machine that it names since.
            _ if facts.external.is_some() => unresolved(facts, evidence),
            // Refused, not sent, absent: no machine was ever made.
            _ => Decision::unchanged(facts).with(Effect::LetGo),
        },
        _ => unresolved(facts, evidence),
    }
}

/// The machine to release next: the one whose release has begun, then live ones, then the dead.
fn target(facts: &Facts) -> Option<Arc<Server>> {
    facts
        .own
        .iter()
        .max_by_key(|s| {
            (
                fence::is_begun(facts, s.server.id.as_str()),
                s.server.status.is_live(),
                s.server.created_at,
            )
        })
        .map(|s| s.server.clone())
}

/// Another live machine of this object that is not retained.
fn remaining(facts: &Facts, done: &Server) -> Option<Arc<Server>> {
    facts
        .own
        .iter()
        .map(|s| &s.server)
        .find(|s| s.id != done.id && s.status.is_live() && !marks::is_retained(s))
        .cloned()
}

fn finish(facts: &Facts, evidence: &Evidence, server: &Arc<Server>) -> Decision {
    if server.status == ServerStatus::Released {
        return showing(facts, server, Cause::waits(Reason::Progressing, RELEASED))
            .with(Effect::LetGo);
    }
    let view = match facts.account.usable(Purpose::End) {
        Ok(view) => view,
        Err(cause) => return Decision::hold(facts, cause),
    };
    if server.status.is_live() && rivals::is_shared(facts, evidence, server) {
        return shared(facts, evidence, server);
    }
    if !fence::is_begun(facts, server.id.as_str()) {
        return match reinstall::may_be_on_its_way(facts) && server.status.is_live() {
            true => installing(facts, server),
            false => before(facts, server),
        };
    }
    let begun =
        "the release has begun, so the machine cannot be kept any more, and nothing more is sent";
    if let Some(cause) = remedy::held(facts, begun)
        && server.status != ServerStatus::Releasing
    {
        // What a user stopped goes on when that user wants it.
        let cause = Cause::waits(cause.reason, cause.message);
        return showing(facts, server, cause);
    }
    if let Some(effect) = unretain(server).filter(|_| server.status != ServerStatus::Releasing) {
        return Decision::unchanged(facts).with(effect);
    }
    // One whose intent was noted while the release was.
    if let Some(cause) = commanded(facts, server)
        && server.status != ServerStatus::Releasing
    {
        return showing(facts, server, cause).again(COMMAND_RUNS);
    }
    match &server.status {
        ServerStatus::Releasing => sending::under_way(facts, view, server),
        ServerStatus::Failed => sending::failed(facts, view, server),
        _ => sending::send(facts, view, server),
    }
}

/// Another object that lives, or may, has the machine, too: it is not this one's to release.
fn shared(facts: &Facts, evidence: &Evidence, server: &Arc<Server>) -> Decision {
    // From the note on a DELETE may be on its way.
    let is_its = order_of(evidence, server).is_some();
    let is_own = is_its || fence::is_begun(facts, server.id.as_str());
    if let Some(effect) = rivals::own_tag(facts, server).filter(|_| !is_own) {
        return Decision::unchanged(facts).with(effect);
    }
    let other = match rivals::rival(facts, evidence, server) {
        Some(rival) => format!(
            "bears the tag of another object, too ({}…), so it is neither released nor kept; that object gives way within seconds; if no object of it is there, take that tag off at the provider",
            rival.mark.tag_prefix()
        ),
        None => "is on record in another object, too, so it is neither released nor kept; delete that object first, with deletionPolicy Retain if the machine shall stay".to_owned(),
    };
    let text = format!("machine {} {other}", server.id);
    showing(
        facts,
        server,
        Cause::needs_person(Reason::OwnershipConflict, text),
    )
}

/// The whole status that records the release of this server, before its DELETE. It says what is so from then on: another
/// write right after it would say no more.
pub fn recorded(fresh: &Facts, uuid: &str) -> BareMetalServerStatus {
    let mut object = BareMetalServer::clone(&fresh.object);
    object.status.get_or_insert_default().records.release = Some(ReleaseRecord {
        uid: fresh.uid().to_owned(),
        server: uuid.to_owned(),
    });
    let begun = Facts {
        object: Arc::new(object),
        ..fresh.clone()
    };
    let now = Timestamp::from_second(fresh.now.wall).unwrap_or_default();
    decide(&begun).draft.finish(now)
}

/// The release has not begun: policy, protection and suspension still count.
fn before(facts: &Facts, server: &Arc<Server>) -> Decision {
    let policies = facts.policies();
    let Some(kind_deleting) = facts.kind_deleting else {
        return showing(
            facts,
            server,
            Cause::waits(
                Reason::Releasing,
                format!(
                    "whether the kind itself is being deleted cannot be seen now; until then nothing is released or retained; tried again every {}",
                    Interval(CANNOT_SEE)
                ),
            ),
        )
        .again(CANNOT_SEE);
    };
    if let Some(cause) = remedy::held_at_the_end(facts, server.id.as_str())
        && !kind_deleting
    {
        return showing(facts, server, cause);
    }
    // Who deletes the object and writes Retain on it means the one thing that protection leaves to do.
    let is_own_word = facts.object.spec.deletion_policy == Some(DeletionPolicy::Retain);
    if policies.deletion_protection && !is_own_word && !kind_deleting {
        return showing(
            facts,
            server,
            Cause::waits(
                Reason::Protected,
                format!(
                    "{}: machine {} stays and is still billed; to release it, {}; to keep it and let this object go, {}; what is then applied as {}/{} orders none (ServerExists); to take it back later, name it in spec.externalID",
                    remedy::stated(facts, "deletionProtection", |p| p
                        .deletion_protection
                        .is_some()),
                    server.id,
                    remedy::set("deletionProtection", "false"),
                    remedy::set("deletionPolicy", "Retain"),
                    facts.namespace(),
                    facts.name(),
                ),
            ),
        );
    }
    if !kind_deleting
        && policies.retain()
        && let Some(cause) = terms::against_retain(facts)
    {
        return showing(facts, server, cause);
    }
    if kind_deleting || policies.retain() {
        // A tag of a former version of the operator does not tell for whom the machine stays.
        let tag = facts.tag_of_retained();
        let is_left = |server: &Server| server.tags.contains(&tag);
        if !server.status.is_live() || is_left(server) {
            let others = facts.own.iter().map(|s| &s.server);
            let mut others = others.filter(|s| s.status.is_live() && !is_left(s));
            return match others.next() {
                Some(other) => retain(facts, other),
                None => showing(
                    facts,
                    server,
                    Cause::waits(
                        Reason::Progressing,
                        format!("{}; this object goes within seconds", left_behind(facts)),
                    ),
                )
                .with(Effect::LetGo),
            };
        }
        return retain(facts, server);
    }
    if let Some(effect) = unretain(server) {
        return Decision::unchanged(facts).with(effect);
    }
    // What does not run has nothing to think about.
    let is_delayed = server.status.is_live() && !fence::is_due(facts);
    if let Some(due) = facts.release_due().filter(|_| is_delayed) {
        return delayed(facts, server, due);
    }
    if let Some(cause) = commanded(facts, server) {
        return showing(facts, server, cause).again(COMMAND_RUNS);
    }
    if let Some(cause) = over_release_limit(facts, server) {
        return showing(facts, server, cause).again(LONGEST_SLEEP);
    }
    Decision::unchanged(facts).with(Effect::BeginRelease {
        uuid: server.id.as_str().into(),
    })
}

/// A request to install the machine may be on its way: it meets the machine as this object's, or not at all.
fn installing(facts: &Facts, server: &Arc<Server>) -> Decision {
    let text = format!(
        "whether machine {} is being installed again is known within four minutes; it is released or retained then; looked at again every {}",
        server.id,
        Interval(COMMAND_RUNS)
    );
    showing(facts, server, Cause::waits(Reason::Reinstalling, text)).again(COMMAND_RUNS)
}

/// A command may be under way, which the release waits for.
fn commanded(facts: &Facts, server: &Server) -> Option<Cause> {
    if !server.status.is_live() {
        return None;
    }
    let id = &server.id;
    let text = match &facts.commands {
        UnderWay::Nothing => return None,
        // What has begun is sent only after another look at the commands.
        UnderWay::NotListed if fence::is_begun(facts, id.as_str()) => return None,
        UnderWay::NotListed => format!(
            "machine {id} is released as soon as the operator has listed the ServerCommands, of which one may be under way; looked at again every {}",
            Interval(COMMAND_RUNS)
        ),
        UnderWay::Command(command) => format!(
            "machine {id} is released once ServerCommand {command}, which may be under way, is over, or its spec.timeout; looked at again every {}",
            Interval(COMMAND_RUNS)
        ),
    };
    Some(Cause::waits(Reason::Queued, text))
}

/// The release limit of the account holds the release.
fn over_release_limit(facts: &Facts, server: &Server) -> Option<Cause> {
    let (limit, status) = facts.view()?.release_limit.as_ref()?;
    let is_free = !server.status.is_live() || status.counts(server.id.as_str());
    if is_free || !limit.blocks(status) {
        return None;
    }
    let text = format!(
        "machine {} stays and is still billed: more releases were asked for within {} than spec.releaseLimit of its account lets begin ({}); to keep it and let this object go, {}; or look for the acknowledgement that lets more begin in the status of the account",
        server.id,
        limit.window,
        limit.max_releases,
        remedy::set("deletionPolicy", "Retain"),
    );
    Some(Cause::waits(Reason::ReleaseLimited, text))
}

/// The delay of the release is not over.
fn delayed(facts: &Facts, server: &Arc<Server>, due: i64) -> Decision {
    let rest = u64::try_from(due.saturating_sub(facts.steady_wall())).unwrap_or(0);
    let delay = facts.policies().release_delay.unwrap_or_default().0;
    let seen = facts
        .memory
        .delayed_since
        .map_or(Duration::ZERO, |since| facts.now.since(since));
    let rest = Duration::from_secs(rest).min(delay.saturating_sub(seen));
    let when = match facts.now.wall < due {
        true => format!("at {}", Timestamp::from_second(due).unwrap_or_default()),
        // The moment that was told is over, by a clock that is not believed.
        false => "when its delay is over; the operator's clock was turned forward since it started, and that does not count".to_owned(),
    };
    let text = format!(
        "machine {} is released {when} (releaseDelay), and is billed until then; to release it now, {}; to keep it and let this object go, {}",
        server.id,
        remedy::set("releaseDelay", "0s"),
        remedy::set("deletionPolicy", "Retain"),
    );
    let cause = Cause::waits(Reason::ReleaseDelayed, text);
    showing(facts, server, cause).again(rest.min(LONGEST_SLEEP))
}

/// What is said of the machines that stay when the object goes.
pub fn left_behind(facts: &Facts) -> String {
    let live = facts.own.iter().filter(|s| s.server.status.is_live());
    let live: Vec<&str> = live.map(|s| s.server.id.as_str()).collect();
    if live.is_empty() {
        return "no live machine is left".into();
    }
    let noun = if live.len() == 1 {
        "machine"
    } else {
        "machines"
    };
    let (stay, are) = match live.len() {
        1 => ("stays", "is"),
        _ => ("stay", "are"),
    };
    format!(
        "{noun} {} {stay} at the provider and {are} still billed; what is applied as {}/{} from now on orders none (ServerExists) and says what to do",
        listed(live),
        facts.namespace(),
        facts.name()
    )
}

/// The policy was turned back from Retain in time: the machine is not retained after all.
fn unretain(server: &Server) -> Option<Effect> {
    marks::retained_tag(server).map(|tag| Effect::RemoveTag {
        uuid: server.id.as_str().into(),
        tag: tag.into(),
        when: TagProof::OwnMark,
    })
}

fn retain(facts: &Facts, server: &Arc<Server>) -> Decision {
    // Without the mark of the cluster no listing shows what was kept.
    let cluster = facts.cluster.tag();
    if !server.has_tag(&cluster) {
        return Decision::unchanged(facts).with(Effect::AddTag {
            uuid: server.id.as_str().into(),
            tag: cluster,
            when: TagProof::OwnMark,
        });
    }
    Decision::unchanged(facts).with(Effect::AddTag {
        uuid: server.id.as_str().into(),
        tag: facts.tag_of_retained(),
        when: TagProof::OwnMark,
    })
}

/// An order whose machine is recorded but does not bear the mark, or is not shown at all.
fn not_shown(facts: &Facts, attempt: &Attempt) -> Decision {
    if let Some(sighting) = &facts.recorded {
        if sighting.server.status == ServerStatus::Released {
            return showing(
                facts,
                &sighting.server,
                Cause::waits(Reason::Progressing, RELEASED),
            )
            .with(Effect::LetGo);
        }
        return missing::tags_missing(facts, attempt, sighting);
    }
    let view = match facts.account.usable(Purpose::End) {
        Ok(view) => view,
        Err(cause) => return Decision::hold(facts, cause),
    };
    let uuid = attempt.uuid.as_deref().unwrap_or("unknown");
    match missing::progress(facts, view, attempt) {
        missing::Disappearance::Gone | missing::Disappearance::Acknowledged => {
            Decision::unchanged(facts).with(Effect::LetGo)
        }
        missing::Disappearance::Unproved(why) => missing::unproved(facts, view, attempt, &why),
        // Retain needs the same proof: a machine that is only not shown would be let go without its tag.
        missing::Disappearance::Looking(effect, proof) => {
            let spacing = view.times.absence_check_interval;
            let text = format!(
                "machine {uuid} is not shown; this object goes once that is certain; looked at again every {}",
                Interval(spacing)
            );
            let cause = Cause::waits(Reason::ServerNotFound, text);
            let mut decision = Decision::hold(facts, cause).again(spacing);
            decision.effect = effect;
            decision.wants_proof = proof;
            decision
        }
    }
}

/// An order of unknown outcome: resolved before the finalizer goes, and never followed by another.
fn unresolved(facts: &Facts, evidence: &Evidence) -> Decision {
    let view = match facts.account.usable(Purpose::End) {
        Ok(view) => view,
        Err(cause) => {
            let served = |view| not_served(facts, evidence, view, &cause);
            let decision = facts.account.refusing().map(served);
            return decision.unwrap_or_else(|| Decision::hold(facts, cause));
        }
    };
    // A copied manifest brings the finalizer along. The live machine of an earlier object of this
    // name is another matter: whoever applied this one again may have meant it.
    let is_heir = facts.former.as_ref().is_some_and(|former| {
        matches!(evidence, Evidence::Former(..))
            && former.machines.iter().any(|s| s.server.status.is_live())
    });
    if !is_heir && order::never_ordered(facts, view, evidence) {
        return Decision::unchanged(facts).with(Effect::LetGo);
    }
    let is_to_be_found = matches!(evidence, Evidence::Own(attempt) if attempt.is_to_be_found());
    let is_named = matches!(evidence, Evidence::Bare | Evidence::Own(_)) && !is_to_be_found;
    if let Some(external) = facts.external.as_ref().filter(|_| is_named) {
        return external::end(facts, view, external);
    }
    match resolve::progress(facts, view, evidence) {
        resolve::Absence::Proved(_) | resolve::Absence::Acknowledged => {
            Decision::unchanged(facts).with(Effect::LetGo)
        }
        progress => resolve::waiting(facts, view, evidence, progress),
    }
}

/// The account does not serve the namespace and has nothing of the object on record, so nothing is asked of it, and
/// no look will ever settle what the object says. It must not hang for ever: finalizer and annotation may be copied
/// or forged, or those of an order that was never sent.
fn not_served(facts: &Facts, evidence: &Evidence, view: &View, cause: &Cause) -> Decision {
    let order = facts
        .object
        .status
        .as_ref()
        .and_then(|s| s.records.order.as_ref());
    // Whosever that is: only the operator writes it.
    let is_recorded =
        order.is_some_and(|order| !order.outcome.is_some_and(OrderOutcome::is_closed));
    if view.proof.is_none() || is_recorded {
        return Decision::hold(facts, cause.clone());
    }
    let asked = absent::situation(facts, evidence, &NoProof::NotServed);
    let is_given = facts.acknowledgements().is_given(&asked);
    if order::never_ordered(facts, view, evidence) || is_given {
        return Decision::unchanged(facts).with(Effect::LetGo);
    }
    // What a listing of its time shows settles the others.
    if evidence.other_mark().is_some() {
        return Decision::hold(facts, cause.clone());
    }
    let text = format!(
        "{}; nothing is asked of it for this object, so it stays unknown whether an order of it made a machine; if the provider shows none, {}",
        cause.message,
        facts.acknowledgements().remedy(&asked)
    );
    let mut decision = Decision::hold(facts, Cause::needs_person(cause.reason, text));
    decision.draft.ask(facts, &asked);
    decision
}

/// The status of a deleted object with a machine.
pub(super) fn showing(facts: &Facts, server: &Server, cause: Cause) -> Decision {
    let mut draft = Draft::unchanged(facts);
    draft.show(server);
    draft.set(facts, cause, None);
    Decision::of(draft)
}
