//! What kstatus and the tools that build on it read for every reason of an SshKey.

use super::*;
use crate::{last_error::LastError, readings::StatusReading};

impl Case {
    /// The object has waited for two minutes with this reason.
    fn waited_for(self, reason: Reason) -> Self {
        self.facts(|f| {
            let grace = &mut f.subject.memory.grace;
            grace.record_awaited(Some(reason), secs(NOW - 120));
        })
    }

    /// The status already has conditions.
    fn with_conditions(self) -> Self {
        let wanted = Explanation::waits(Reason::Pending, "").conditions();
        let shown = api::conditions::merge(
            &[],
            &wanted,
            api::conditions::Generations::same(Some(3)),
            Timestamp::MIN,
        );
        self.object(|o| o.status.get_or_insert_default().conditions = shown)
    }

    fn failing(self, reason: Reason) -> Self {
        self.facts(|f| {
            for _ in 0..3 {
                let message = "No answer".to_owned();
                let last_error = LastError { reason, message };
                f.subject.memory.record_failure(last_error, secs(NOW));
            }
        })
    }

    fn reading(self, stage: &'static str) -> StatusReading {
        let facts = self.seen();
        let (subject, decision) = (&facts.subject, decide(&facts));
        let (status, _) = decision.status(subject, Timestamp::MIN);
        StatusReading::of_status(stage, &status.conditions, subject.is_deleting())
    }
}

/// Every case, in the order of the page.
pub(crate) fn every() -> Vec<StatusReading> {
    let no_account = || {
        Case::new()
            .facts(|f| f.subject.account = ResolvedAccount::Missing("ProviderAccount a".into()))
    };
    let refused = SshKeyObservation::Refused(KeyRefusal {
        message: "no".into(),
        at: secs(NOW),
    });
    let living = [
        Case::new().with_conditions().blocked(Reason::Pending),
        no_account(),
        no_account().waited_for(Reason::AccountNotFound),
        Case::new().object(|o| o.spec.public_key = "no".into()),
        Case::new().blocked(Reason::KeyRejected),
        Case::new().blocked(Reason::ProviderUnreachable),
        Case::new().with_conditions(),
        Case::new().with_finalizer().with_annotation(ACCOUNT_ID),
        Case::new()
            .with_conditions()
            .failing(Reason::ProviderUnreachable),
        Case::new().memory(|m| m.record_observation(refused)),
        Case::idle(),
    ];
    let going = || Case::idle().policy(KeyDeletionPolicy::Delete).deleting();
    let ending = [
        going(),
        going().view(|v| {
            v.account_id = Some("22222222bbbb".into());
            v.ssh_keys = Some((secs(LISTED_AT), Arc::default()));
        }),
        going().failing(Reason::RequestRefused),
    ];
    let living = living.into_iter().map(|c| c.reading("present"));
    let ending = ending.into_iter().map(|c| c.reading("deleted"));
    living.chain(ending).collect()
}
