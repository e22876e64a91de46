//! The account of an object that names none: chosen once, looked at live, and written down before anything else.
//!
//! Where the namespace has a ProviderAccount `default`, nothing is written here: it is what such an object stands for.
//! An account of the cluster is another matter, since it comes and goes with an annotation, and what it is used for may
//! cost money. So an object is bound to it by its status before its kind looks at it at all, and only once the namespace
//! has had no default of its own for a while: what is applied in another order must not order in the wrong account.

use super::{context::Context, report::Reported, writes::Failure};
use crate::{
    account::{Account, Choice},
    controllers::writes::bounded,
    runtime::{clock, kind_api::KindApi},
};
use api::{
    ClusterProviderAccount, ProviderAccount, Reason,
    names::DEFAULT_ACCOUNT,
    references::{AccountKind, AccountRef, NamesAccount, PinnedAccount},
};
use flexmetal_core::{
    again::Again,
    cause::Cause,
    default_account::{NAMES_NONE, Undecided, several, soon, unknown},
    patience,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{sync::Arc, time::Duration};

/// How soon what could not be read is read again.
const UNREADABLE: Duration = Duration::from_secs(10);

/// What an object of which this is so is to do.
#[derive(Debug)]
enum Step {
    /// What its spec and status say holds.
    GoOn,
    /// It has none yet.
    Wait(Undecided),
    /// It is bound to this account from here on.
    Pin(PinnedAccount),
}

impl<K: NamesAccount + KindApi, M: Clone + Default + Send> Context<K, M> {
    /// Binds an object that names no account to the one that stands in. Returns why it has none yet; None: what spec and
    /// status say holds. `noted`: the account that a note of its own names, where its status was lost.
    ///
    /// # Errors
    /// When to look again, where the object was written, or could not be.
    pub async fn settle_account(
        &self,
        object: &Arc<K>,
        noted: Option<PinnedAccount>,
    ) -> Result<Option<Undecided>, Again> {
        let step = match noted.filter(|_| is_open(&**object)) {
            Some(account) => Step::Pin(account),
            None => self.step(object).await,
        };
        let account = match step {
            Step::GoOn => return Ok(None),
            Step::Wait(undecided) => return Ok(Some(undecided)),
            Step::Pin(account) => account,
        };
        let meta = object.meta();
        if let Some(again) = self.stand_by(meta.namespace.as_deref()) {
            return Err(again);
        }
        let mut status = object.status().cloned().unwrap_or_default();
        K::pin(&mut status, account);
        // On the version that was judged: whoever wrote meanwhile is heard first.
        Err(
            match self.report(object, &status, |_, _| Vec::new()).await {
                Reported::Stands | Reported::Written => {
                    let uid = meta.uid.as_deref().unwrap_or_default();
                    self.accounts.waits_no_more(uid);
                    Again::AtOnce
                }
                Reported::Stale => Again::AtOnce,
                Reported::Later(rest) => Again::After(rest),
            },
        )
    }

    async fn step(&self, object: &Arc<K>) -> Step {
        let meta = object.meta();
        let is_served = self.watched.serves(AccountKind::ClusterProviderAccount);
        // What ends uses nothing anew, and what has something on record has it in the account that it stands for.
        let is_settled = !is_open(&**object)
            || !is_served
            || meta.deletion_timestamp.is_some()
            || self.objects.has_record(object);
        if is_settled {
            return Step::GoOn;
        }
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let uid = meta.uid.as_deref().unwrap_or_default();
        let (account, missed_since) = match self.accounts.default_for(namespace, uid) {
            Choice::Own | Choice::Nothing => return Step::GoOn,
            Choice::Unknown(why) => return Step::Wait(unknown(&why)),
            Choice::Several(keys) => return Step::Wait(several(&keys)),
            Choice::One {
                account,
                missed_since,
            } => (account, missed_since),
        };
        let now = clock::now().mono;
        let seen = self.objects.sight(uid).map_or(now, |s| s.first_seen);
        let acting = self.acting_since(Some(namespace)).unwrap_or(now);
        let since = missed_since.max(seen).max(acting);
        let patience = patience::before_default(self.minimum);
        let rest = (since + patience).saturating_sub(now);
        if !rest.is_zero() {
            return Step::Wait(soon(account.key(), patience, rest));
        }
        match self.confirm(namespace, &account).await {
            Ok(true) => Step::Pin(PinnedAccount {
                kind: account.key().kind,
                name: account.key().name.clone(),
            }),
            // Its watch is behind.
            Ok(false) => Step::Wait(unknown("what was listed of the accounts has changed")),
            Err(failure) => Step::Wait(unreadable(&failure)),
        }
    }

    /// Whether the namespace has no default of its own and the account is still the default, as both are now.
    async fn confirm(&self, namespace: &str, account: &Account) -> Result<bool, Failure> {
        let own = PinnedAccount::of(None).name;
        let api = ProviderAccount::api(self.client.clone(), Some(namespace));
        // By its metadata alone: one that does not decode is there all the same.
        if bounded(api.get_metadata_opt(&own)).await?.is_some() {
            return Ok(false);
        }
        let api = ClusterProviderAccount::api(self.client.clone(), None);
        let found = bounded(api.get_opt(&account.key().name)).await?;
        Ok(found.is_some_and(|found| {
            let entries = Some(&found.spec.allowed_namespaces[..]);
            found.metadata.uid.as_deref() == Some(account.uid())
                && found.metadata.deletion_timestamp.is_none()
                && is_default(&found.metadata)
                && account.terms_of(entries, namespace).serve()
        }))
    }
}

/// Whether an account of the cluster is marked as the default.
pub fn is_default(meta: &ObjectMeta) -> bool {
    let annotations = meta.annotations.as_ref();
    annotations.is_some_and(|all| all.get(DEFAULT_ACCOUNT).is_some_and(|word| word == "true"))
}

/// Whether neither spec nor status say which account is meant.
fn is_open<K: NamesAccount>(object: &K) -> bool {
    let pinned = object.status().and_then(K::pinned);
    pinned.is_none() && AccountRef::is_open(object.account_ref())
}

fn unreadable(failure: &Failure) -> Undecided {
    let message = format!(
        "{NAMES_NONE}; the account that stands in could not be read: {}; tried again every 10s",
        failure.explain()
    );
    Undecided {
        cause: Cause::waits(Reason::ChecksFailed, message),
        rest: UNREADABLE,
    }
}

#[cfg(test)]
mod tests;
