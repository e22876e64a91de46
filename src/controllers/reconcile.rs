//! Reconcile steps of all kinds but accounts and servers. Each kind calls [`check_work_item`](Context::check_work_item),
//! [`subject`](Context::subject), its own decision and [`prepare`](Context::prepare), then acts or reports.

use flexmetal_core::{
    account::{key::AccountKey, priority::Priority},
    last_error::LastError,
    ownership::ConflictingOwners,
    reconcile::{Decision, Ended, Memory, Subject, last_read_at},
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

/// Backstop of an object that waits for a permit: its account enqueues it earlier.
const QUEUED: Duration = Duration::from_secs(600);

/// How soon an object checks again whether all objects of its kind are listed.
const LIST_RECHECK: Duration = Duration::from_secs(1);

/// What follows a decision.
pub enum Next<'a, E> {
    /// Update the status, then requeue.
    Report(Requeue),
    /// Requeue without a status update.
    Requeue(Requeue),
    /// Carry out the effect, with this permit if it calls the provider.
    Act(&'a E, Option<Permit>),
}

/// The condition changes that become events, for a kind without a list of its own.
pub const REPORTED_CONDITIONS: [(Type, Severity, &str); 4] = [
    (Type::Ready, Severity::Normal, "Apply"),
    (Type::Stalled, Severity::Warning, "Wait"),
    (Type::DeletionBlocked, Severity::Warning, "Wait"),
    (Type::Suspended, Severity::Normal, "Suspend"),
];

impl<K: KindApi, T: Clone + Default + Send> Context<K, Memory<T>> {
    /// The object to reconcile.
    ///
    /// # Errors
    /// When to requeue, if there is nothing to do.
    pub async fn check_work_item(&self, seen: WorkItem<K>) -> Result<Arc<K>, Requeue> {
        match seen {
            WorkItem::Object(object) => {
                let uid = object.meta().uid.as_deref().unwrap_or_default();
                let is_ending = object.meta().deletion_timestamp.is_some();
                if is_ending && self.objects.memory(uid).finalizer_removed {
                    // Our finalizer is removed: other controllers handle what is left.
                    return Err(Requeue::After(QUEUED));
                }
                if let Some(again) = self.requeue_if_not_serving(uid) {
                    return Err(again);
                }
                // Conflicting owners are known only by a list that started after this process became leader.
                let since = self.leader_since();
                match since.is_none_or(|since| self.objects.is_listed_since(since)) {
                    true => Ok(object),
                    false => Err(Requeue::After(LIST_RECHECK)),
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

    /// The facts that every kind has of an object, and the account to act through, if any.
    pub async fn subject(
        &self,
        object: Arc<K>,
        account: &PinnedAccount,
    ) -> (Subject<K, T>, Option<Account>) {
        let meta = object.meta();
        let uid = meta.uid.as_deref().unwrap_or_default();
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let kind_deleting = match meta.deletion_timestamp {
            Some(_) => self.is_kind_deleting().await,
            None => Some(false),
        };
        let (facts, account) =
            self.account_facts(namespace, account, |_| self.objects.has_record(&object));
        let now = clock::now();
        let asked = reconcile_request::find_request(meta);
        let leader_since = self.leader_since().unwrap_or(now.mono);
        self.objects.remember(uid, |memory| {
            memory.set_leader_since(leader_since);
            if let Some(view) = facts.view() {
                memory.record_answers_since(view.answers_since);
            }
            memory.request.record_request(asked, now.mono);
        });
        let observation = self.objects.first_observation(uid);
        let subject = Subject {
            now,
            leader_since,
            first_seen: observation.map_or(now.mono, |observation| observation.first_seen),
            cluster: self.cluster.clone(),
            kind_deleting,
            account: facts,
            read_only: self.read_only,
            memory: self.objects.memory(uid),
            object,
        };
        (subject, account)
    }

    /// The conflicting owners of what an object claims at its account: only those that may use the account.
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

    /// Requests the lists that a decision wants, and a permit for its effect. `permit_request` returns the priority and
    /// the number of calls of an effect. `None` means that it calls only the API server.
    pub fn prepare<'a, E>(
        &self,
        subject: &Subject<K, T>,
        account: Option<&Account>,
        decision: &'a Decision<K::Status, E>,
        permit_request: impl FnOnce(&E) -> Option<(Priority, u32)>,
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
                .unhandled(K::handled(&mut status).as_deref())
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
            // An effect that waits only for a list keeps its queue position.
            let mut wants = decision.wants.into_iter().chain(decision.wants_also);
            if wants.all(|(_, at)| at > now) {
                self.cancel_request(subject);
            }
            return Next::Report(Requeue::After(decision.requeue_after));
        };
        // An object in backoff does not queue.
        let rest = subject.memory.backoff.remaining(now);
        if let Some(rest) = self.retry_after(rest) {
            self.cancel_request(subject);
            return Next::Report(Requeue::After(rest));
        }
        let Some((priority, calls)) = permit_request(effect) else {
            return Next::Act(effect, None);
        };
        let asked = match account {
            Some(account) => account.request_permit(priority, calls, &caller(subject)),
            // The account vanished in between: the next reconcile reports this.
            None => return Next::Requeue(Requeue::Now),
        };
        match asked {
            Ok(PermitAnswer::Now(permit)) => {
                let connection = subject
                    .view()
                    .and_then(|view| view.credentials_hash.as_deref());
                match account
                    .is_some_and(|account| account.is_current_permit_for(&permit, connection))
                {
                    true => Next::Act(effect, Some(permit)),
                    false => Next::Requeue(Requeue::Now),
                }
            }
            Ok(PermitAnswer::Queued) => {
                self.objects.remember(uid, |memory| memory.queued = true);
                Next::Report(Requeue::After(QUEUED))
            }
            Err(error) => {
                let last_error = LastError::from_provider(&error);
                self.objects
                    .remember(uid, |memory| memory.record_failure(last_error, now));
                Next::Requeue(Requeue::Now)
            }
        }
    }

    /// Cancels the queued permit request, if any.
    fn cancel_request(&self, subject: &Subject<K, T>) {
        if subject.memory.queued {
            self.accounts.cancel_requests(subject.uid());
            self.objects
                .remember(subject.uid(), |memory| memory.queued = false);
        }
    }

    /// Finishes an effect. `record` stores what it found.
    pub async fn finish_effect(
        &self,
        subject: &Subject<K, T>,
        ended: Ended,
        record: impl FnOnce(&mut T),
    ) -> Requeue {
        if ended == Ended::Stale {
            // The watch may be behind: without this read, the next reconcile would repeat the same write.
            let _ = self.read_object(&subject.object).await;
        }
        let now = clock::now().mono;
        self.objects.remember(subject.uid(), |memory| {
            memory.queued = false;
            record(&mut memory.own);
            memory.record_effect(ended, now);
        });
        Requeue::Now
    }

    /// Updates the status if it differs. `reported`: the conditions whose changes become events.
    pub async fn report_status<E>(
        &self,
        subject: &Subject<K, T>,
        decision: &Decision<K::Status, E>,
        again: Requeue,
        reported: &[(Type, Severity, &'static str)],
    ) -> Requeue {
        if let Some(again) = self.requeue_if_not_serving(subject.uid()) {
            return again;
        }
        let (status, rest) = decision.status(subject, Timestamp::now());
        let again = rest.map_or(again, |rest| again.cap_delay(rest));
        let news = |before: &[_], after: &[_]| {
            let mut news = decision.news.clone();
            news.extend(condition_events(before, after, reported));
            news
        };
        match self.report(&subject.object, &status, news).await {
            Reported::Unchanged => again,
            Reported::Written => {
                let now = clock::now().mono;
                self.objects
                    .remember(subject.uid(), |memory| memory.reported = Some(now));
                match decision.requeue_once_written {
                    true => Requeue::Now,
                    false => again,
                }
            }
            Reported::Stale => Requeue::Now,
            Reported::Later(_) if self.is_shutting_down() => Requeue::Backoff,
            Reported::Later(rest) => again.cap_delay(rest),
        }
    }

    /// Adds our finalizer and sets these annotations (null removes one), in one write.
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

    /// Removes our finalizer: the object is deleted, or done with and stays.
    pub async fn remove_finalizer(&self, subject: &Subject<K, T>) -> Ended {
        let finalizers = without_finalizer(&*subject.object, OBJECT_FINALIZER);
        let metadata = json!({ "finalizers": finalizers });
        let ended = ended(self.write_metadata(&subject.object, metadata).await);
        if ended == Ended::Done {
            // An object that stays may get it again, and must lose it again when it is deleted.
            self.objects.remember(subject.uid(), |memory| {
                memory.finalizer_removed = subject.is_deleting();
            });
        }
        ended
    }
}

/// The object that calls the account.
fn caller<K: KindApi, T>(subject: &Subject<K, T>) -> Caller {
    Caller {
        uid: subject.uid().to_owned(),
        namespace: subject.namespace().to_owned(),
    }
}

/// The result of a write to the object, as the result of an effect.
pub fn ended<K>(written: WriteOutcome<K>) -> Ended {
    match written {
        WriteOutcome::Done(_) => Ended::Done,
        WriteOutcome::Stale => Ended::Stale,
        WriteOutcome::Unknown(failure) => Ended::Failed(LastError::from_write(failure.explain())),
    }
}
