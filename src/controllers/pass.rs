//! The pass that is shared by the kinds whose objects keep something small at the provider: a tag, a whitelist, a
//! stored key.
//!
//! Such a kind writes its facts, its decision and its effects; its pass is a row of the steps here:
//! [`open`](Context::open), observe with [`subject`](Context::subject), decide, [`prepare`](Context::prepare), then
//! act and [`concluded`](Context::concluded), or [`say`](Context::say). Servers have a pass of their own, since an
//! order needs more.

use flexmetal_core::{
    account::{key::AccountKey, priority::Priority},
    last_error::LastError,
    ownership::ConflictingOwners,
    pass::{Decision, Ended, Memory, Subject, last_read_at},
    reconcile_request,
    report::{Severity, condition_events},
    requeue::Requeue,
};

use super::{
    context::Context,
    objects::WorkItem,
    report::Reported,
    writes::{WriteOutcome, with_finalizer, without_finalizer},
};
use crate::{
    account::{Account, Caller, Permit, PermitAnswer},
    runtime::{clock, kind_api::KindApi},
};
use api::{conditions::Type, names::OBJECT_FINALIZER, references::PinnedAccount};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// The backstop of an object that waits for its turn: its account wakes it before.
const QUEUED: Duration = Duration::from_secs(600);

/// How soon an object looks again whether all of its kind are listed.
const LISTED: Duration = Duration::from_secs(1);

/// What follows a decision.
pub enum Next<'a, E> {
    /// Write the decided status, and look again then.
    Report(Requeue),
    /// Nothing now, not even a status: look again then.
    Requeue(Requeue),
    /// Carry the effect out, by this permit where it calls the provider.
    Act(&'a E, Option<Permit>),
}

/// The turns that people wait for or must act on, of a kind that has no words of its own for them.
pub const REPORTED_CONDITIONS: [(Type, Severity, &str); 4] = [
    (Type::Ready, Severity::Normal, "Apply"),
    (Type::Stalled, Severity::Warning, "Wait"),
    (Type::DeletionBlocked, Severity::Warning, "Wait"),
    (Type::Suspended, Severity::Normal, "Suspend"),
];

impl<K: KindApi, T: Clone + Default + Send> Context<K, Memory<T>> {
    /// The object that the pass is about.
    ///
    /// # Errors
    /// When to look again, where there is nothing to do for it here.
    pub async fn open(&self, seen: WorkItem<K>) -> Result<Arc<K>, Requeue> {
        match seen {
            WorkItem::Object(object) => {
                let uid = object.meta().uid.as_deref().unwrap_or_default();
                let is_ending = object.meta().deletion_timestamp.is_some();
                if is_ending && self.objects.memory(uid).finalizer_removed {
                    // Our finalizer is off: whatever is left of the object is nobody's business here.
                    return Err(Requeue::After(QUEUED));
                }
                if let Some(again) = self.requeue_if_not_serving(uid) {
                    return Err(again);
                }
                // Who else wants the same is known by a listing since this process acts here, and by nothing older.
                let since = self.leader_since();
                match since.is_none_or(|since| self.objects.is_listed_since(since)) {
                    true => Ok(object),
                    false => Err(Requeue::After(LISTED)),
                }
            }
            WorkItem::Undecodable(object) => {
                if let Some(again) = self.requeue_if_standby() {
                    return Err(again);
                }
                let uid = object.metadata.uid.as_deref().unwrap_or_default();
                self.accounts.forget(uid);
                Err(self.report_undecodable(&object).await.1)
            }
            WorkItem::Gone(_) => Err(Requeue::After(Duration::ZERO)),
        }
    }

    /// The facts that every kind has of an object, and the account to act through where there is one.
    pub async fn subject(
        &self,
        object: Arc<K>,
        account: &PinnedAccount,
    ) -> (Subject<K, T>, Option<Account>) {
        let meta = object.meta();
        let uid = meta.uid.as_deref().unwrap_or_default();
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let kind_deleting = match meta.deletion_timestamp {
            Some(_) => self.kind_is_deleting().await,
            None => Some(false),
        };
        let (facts, account) =
            self.account_facts(namespace, account, |_| self.objects.has_record(&object));
        let now = clock::now();
        let asked = reconcile_request::find_request(meta);
        let acting_since = self.leader_since().unwrap_or(now.mono);
        self.objects.remember(uid, |memory| {
            memory.set_leader_since(acting_since);
            if let Some(view) = facts.view() {
                memory.record_answers_since(view.answers_since);
            }
            memory.request.record_request(asked, now.mono);
        });
        let sight = self.objects.first_observation(uid);
        let subject = Subject {
            now,
            leader_since: acting_since,
            first_seen: sight.map_or(now.mono, |sight| sight.first_seen),
            cluster: self.cluster.clone(),
            kind_deleting,
            account: facts,
            memory: self.objects.memory(uid),
            object,
        };
        (subject, account)
    }

    /// Who else claims what an object claims, of the same account: those who may use it.
    pub fn conflicting_owners(
        &self,
        uid: &str,
        account: &AccountKey,
        claim: &str,
    ) -> ConflictingOwners {
        let claimants = self
            .objects
            .claimants(claim, &self.accounts.names_of(account));
        ConflictingOwners::find_among(uid, &claimants, |claimant| {
            self.accounts.allows(&claimant.account, &claimant.namespace)
        })
    }

    /// Passes the wishes of a decision on to the account, and asks for the turn of its effect. `turn` gives the
    /// lane of an effect and the number of its calls; None: it calls nobody but the API server.
    pub fn prepare<'a, E>(
        &self,
        subject: &Subject<K, T>,
        account: Option<&Account>,
        decision: &'a Decision<K::Status, E>,
        turn: impl FnOnce(&E) -> Option<(Priority, u32)>,
    ) -> Next<'a, E> {
        let (uid, now) = (subject.uid(), subject.now.mono);
        self.objects.remember(uid, |memory| {
            memory
                .grace
                .record_awaited(decision.grace_reason(subject), now);
        });
        if let (Some(account), Some(_)) = (account, subject.memory.request.since()) {
            let mut status = decision.status.clone();
            if let Some((_, since)) = subject
                .memory
                .request
                .open(K::handled(&mut status).as_deref())
            {
                account.request_retry(since);
            }
        }
        for (list, not_before) in decision.wants.into_iter().chain(decision.wants_also) {
            if let Some(account) = account
                && subject.view().and_then(|view| last_read_at(view, list)) < Some(not_before)
            {
                account.request_list(list, not_before, &caller(subject));
            }
        }
        let Some(effect) = &decision.effect else {
            // The place of an effect that a look goes ahead of is kept for it.
            let mut wants = decision.wants.into_iter().chain(decision.wants_also);
            if wants.all(|(_, at)| at > now) {
                self.withdraw(subject);
            }
            return Next::Report(Requeue::After(decision.requeue_after));
        };
        // An object in back-off does not queue.
        let rest = subject.memory.backoff.rest(now);
        if let Some(rest) = self.retry_after(rest) {
            self.withdraw(subject);
            return Next::Report(Requeue::After(rest));
        }
        let Some((lane, calls)) = turn(effect) else {
            return Next::Act(effect, None);
        };
        let asked = match account {
            Some(account) => account.request_permit(lane, calls, &caller(subject)),
            // It vanished in between: the next pass says so.
            None => return Next::Requeue(Requeue::Now),
        };
        match asked {
            Ok(PermitAnswer::Now(permit)) => {
                let word = subject.view().and_then(|view| view.connection.as_deref());
                match account.is_some_and(|account| account.is_current_permit_for(&permit, word)) {
                    true => Next::Act(effect, Some(permit)),
                    false => Next::Requeue(Requeue::Now),
                }
            }
            Ok(PermitAnswer::Queued) => {
                self.objects.remember(uid, |memory| memory.queued = true);
                Next::Report(Requeue::After(QUEUED))
            }
            Err(error) => {
                let trouble = LastError::from_provider(&error);
                self.objects
                    .remember(uid, |memory| memory.record_failure(trouble, now));
                Next::Requeue(Requeue::Now)
            }
        }
    }

    /// The place in the queue goes back, where there is one.
    fn withdraw(&self, subject: &Subject<K, T>) {
        if subject.memory.queued {
            self.accounts.cancel_requests(subject.uid());
            self.objects
                .remember(subject.uid(), |memory| memory.queued = false);
        }
    }

    /// What follows from an effect. `note` keeps what it brought to light.
    pub async fn finish_effect(
        &self,
        subject: &Subject<K, T>,
        ended: Ended,
        note: impl FnOnce(&mut T),
    ) -> Requeue {
        if ended == Ended::Stale {
            // The watch may be behind for a while; the next pass must not try the same again.
            let _ = self.read_object(&subject.object).await;
        }
        let now = clock::now().mono;
        self.objects.remember(subject.uid(), |memory| {
            memory.queued = false;
            note(&mut memory.own);
            memory.record_effect(ended, now);
        });
        Requeue::Now
    }

    /// Writes the decided status, where it differs. `turns`: the conditions of which people hear by events.
    pub async fn report_status<E>(
        &self,
        subject: &Subject<K, T>,
        decision: &Decision<K::Status, E>,
        again: Requeue,
        turns: &[(Type, Severity, &'static str)],
    ) -> Requeue {
        if let Some(again) = self.requeue_if_not_serving(subject.uid()) {
            return again;
        }
        let (status, rest) = decision.status(subject, Timestamp::now());
        let again = rest.map_or(again, |rest| again.within(rest));
        let news = |before: &[_], after: &[_]| {
            let mut news = decision.news.clone();
            news.extend(condition_events(before, after, turns));
            news
        };
        match self.report(&subject.object, &status, news).await {
            Reported::Unchanged => again,
            Reported::Written => {
                let now = clock::now().mono;
                self.objects
                    .remember(subject.uid(), |memory| memory.reported = Some(now));
                match decision.requeue_now {
                    true => Requeue::Now,
                    false => again,
                }
            }
            Reported::Stale => Requeue::Now,
            Reported::Later(_) if self.is_ending() => Requeue::Backoff,
            Reported::Later(rest) => again.within(rest),
        }
    }

    /// Puts our finalizer on the object, with these annotations (null takes one off), in one write.
    pub async fn add_finalizer(&self, subject: &Subject<K, T>, annotations: Value) -> Ended {
        let finalizers = with_finalizer(&*subject.object, OBJECT_FINALIZER);
        let metadata = json!({ "annotations": annotations, "finalizers": finalizers });
        let ended = ended(self.write_metadata(&subject.object, metadata).await);
        if ended == Ended::Done && subject.had_finalizer() {
            let now = clock::now().mono;
            self.objects.remember(subject.uid(), |memory| {
                memory.finalizer_restores.record_restore(now)
            });
        }
        ended
    }

    /// Takes our finalizer off: the object ends, or is over and lives on.
    pub async fn remove_finalizer(&self, subject: &Subject<K, T>) -> Ended {
        let finalizers = without_finalizer(&*subject.object, OBJECT_FINALIZER);
        let metadata = json!({ "finalizers": finalizers });
        let ended = ended(self.write_metadata(&subject.object, metadata).await);
        if ended == Ended::Done {
            // On one that lives on it may be put again, and has to be taken off when it is deleted then.
            self.objects.remember(subject.uid(), |memory| {
                memory.finalizer_removed = subject.is_deleting();
            });
        }
        ended
    }
}

/// Who asks the account.
fn caller<K: KindApi, T>(subject: &Subject<K, T>) -> Caller {
    Caller {
        uid: subject.uid().to_owned(),
        namespace: subject.namespace().to_owned(),
    }
}

/// How a write to the object ended, as the end of an effect.
pub fn ended<K>(written: WriteOutcome<K>) -> Ended {
    match written {
        WriteOutcome::Done(_) => Ended::Done,
        WriteOutcome::Stale => Ended::Stale,
        WriteOutcome::Unknown(failure) => {
            tracing::warn!(
                error = &failure as &dyn std::error::Error,
                "cannot write to an object"
            );
            Ended::Failed(LastError::from_write(failure.explain()))
        }
    }
}
