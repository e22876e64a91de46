//! Decides whether this operator serves an account, or another one with a live Lease.

use super::{
    memory::AccountMemory,
    object::{self, AccountObject},
    reconcile::AccountContext,
};
use crate::controllers::{
    report::Reported,
    writes::{WriteOutcome, bounded},
};
use api::account::AccountStatus;
use flexmetal_core::{
    account::operator::{self, LeaseDecision, ObservedLease},
    report::{EventReason, EventRecord, Severity},
    requeue::Requeue,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt as _};
use std::{sync::Arc, time::Duration};

/// Retry delay if the account cannot be read.
const PAUSE: Duration = Duration::from_secs(2);

/// Ensures that this operator serves the account in this leadership term. Otherwise returns when to retry: until then
/// the account is not reconciled, apart from one event.
pub(super) async fn claim<K: AccountObject>(
    ctx: &AccountContext<K>,
    memory: &mut AccountMemory,
    object: &Arc<K>,
    term: Duration,
) -> Option<Requeue> {
    let (key, uid) = (
        object::key::<K>(object.meta()),
        object.uid().unwrap_or_default(),
    );
    if memory.served_in != Some(term) {
        memory.served_in = None;
        // The object seen in an earlier term may be old: another operator may serve it since.
        match ctx.read_object(&**object).await {
            Ok(Some(fresh)) if fresh.resource_version() != object.resource_version() => {
                return Some(Requeue::Now);
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return Some(Requeue::After(PAUSE)),
        }
    }
    let recorded = object
        .status()
        .and_then(|status| status.operator_lease.as_deref());
    let now = crate::runtime::clock::now().mono;
    let observed = match recorded.filter(|recorded| *recorded != ctx.lease) {
        Some(recorded) => Some(read_lease(ctx, recorded).await),
        None => None,
    };
    match operator::decide(
        &ctx.lease,
        ctx.read_only,
        recorded,
        observed.as_ref(),
        &mut memory.other,
        now,
    ) {
        LeaseDecision::Serve => {
            memory.served_in = Some(term);
            memory.conflict = None;
            ctx.accounts.set_served(&key, &uid, Some(term));
            None
        }
        LeaseDecision::Claim => {
            let status = AccountStatus {
                operator_lease: Some(ctx.lease.clone()),
                ..object.status().cloned().unwrap_or_default()
            };
            Some(match ctx.report(object, &status, |_, _| Vec::new()).await {
                Reported::Unchanged | Reported::Written | Reported::Stale => Requeue::Now,
                Reported::Later(rest) => Requeue::After(rest),
            })
        }
        LeaseDecision::Conflict(again) => {
            memory.served_in = None;
            memory.connected = None;
            ctx.accounts.stop_serving(&key, &uid);
            let recorded = recorded.unwrap_or_default();
            let observed = observed.unwrap_or(ObservedLease::Free);
            if !recorded.is_empty() && memory.conflict.as_deref() != Some(recorded) {
                memory.conflict = Some(recorded.to_owned());
                let news = EventRecord {
                    severity: Severity::Warning,
                    reason: EventReason::OperatorConflict,
                    action: "Serve",
                    note: operator::describe_conflict(&key.to_string(), recorded, &observed),
                };
                ctx.publish(&**object, news).await;
            }
            Some(Requeue::After(again))
        }
    }
}

/// Reads the Lease of another operator.
async fn read_lease<K: AccountObject>(ctx: &AccountContext<K>, lease: &str) -> ObservedLease {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-./".contains(c);
    let name = lease
        .split_once('/')
        .filter(|_| lease.chars().all(is_plain));
    let Some((namespace, name)) = name.filter(|(_, name)| !name.contains('/')) else {
        return ObservedLease::Unreadable("it is not of the form namespace/name".into());
    };
    let leases: Api<Lease> = Api::namespaced(ctx.client.clone(), namespace);
    match bounded(leases.get_opt(name)).await {
        Ok(None) => ObservedLease::Free,
        Ok(Some(lease)) => {
            let version = lease.resource_version().unwrap_or_default();
            let spec = lease.spec.unwrap_or_default();
            let lasts = u64::try_from(spec.lease_duration_seconds.unwrap_or_default());
            match spec.holder_identity.filter(|holder| !holder.is_empty()) {
                None => ObservedLease::Free,
                Some(_) => ObservedLease::Held {
                    version,
                    lasts: Duration::from_secs(lasts.unwrap_or_default()).min(LONGEST),
                },
            }
        }
        Err(failure) => ObservedLease::Unreadable(failure.explain()),
    }
}

/// Maximum lease duration that counts, whatever the Lease says.
const LONGEST: Duration = Duration::from_secs(60);

/// At shutdown: removes the Lease from the status, so that another operator need not wait for it to expire.
pub(super) async fn clear<K: AccountObject>(ctx: &AccountContext<K>, object: &Arc<K>) {
    let mut object = object.clone();
    // The status may have changed a moment ago: read and retry on a conflict.
    for _ in 0..3 {
        let status = object
            .status()
            .filter(|s| s.operator_lease.as_ref() == Some(&ctx.lease));
        let Some(status) = status else {
            return;
        };
        let status = AccountStatus {
            operator_lease: None,
            ..status.clone()
        };
        match ctx.write_status(&*object, &status).await {
            Some(WriteOutcome::Stale) => {}
            _ => return,
        }
        match ctx.read_object(&*object).await {
            Ok(Some(fresh)) => object = fresh,
            _ => return,
        }
    }
}
