//! What kstatus, and the tools that build on it, read in every reason of a stored key.

use super::*;
use crate::{readings::Reading, trouble::Trouble};

impl Case {
    /// It has waited for this for two minutes.
    fn waited_for(self, reason: Reason) -> Self {
        self.facts(|f| {
            let patience = &mut f.subject.memory.patience;
            patience.note(Some(reason), secs(NOW - 120));
        })
    }

    /// Something was said of it before.
    fn told(self) -> Self {
        let wanted = Cause::waits(Reason::Pending, "").conditions();
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
                let trouble = Trouble { reason, message };
                f.subject.memory.failed(trouble, secs(NOW));
            }
        })
    }

    fn reading(self, stage: &'static str) -> Reading {
        let facts = self.seen();
        let (subject, decision) = (&facts.subject, decide(&facts));
        let (status, _) = decision.status(subject, Timestamp::MIN);
        Reading::of_status(stage, &status.conditions, subject.is_deleting())
    }
}

/// Every case, in the order of the page.
pub(crate) fn every() -> Vec<Reading> {
    let no_account = || {
        Case::new().facts(|f| f.subject.account = AccountFacts::Missing("ProviderAccount a".into()))
    };
    let refused = Observation::Refused(Refused {
        message: "no".into(),
        at: secs(NOW),
    });
    let living = [
        Case::new().told().blocked(Reason::Pending),
        no_account(),
        no_account().waited_for(Reason::AccountNotFound),
        Case::new().object(|o| o.spec.public_key = "no".into()),
        Case::new().blocked(Reason::KeyRejected),
        Case::new().blocked(Reason::ProviderUnreachable),
        Case::new().told(),
        Case::new().held().noted(LINEAGE),
        Case::new().told().failing(Reason::ProviderUnreachable),
        Case::new().memory(|m| m.note(refused)),
        Case::at_rest(),
    ];
    let going = || Case::at_rest().policy(KeyDeletionPolicy::Delete).deleting();
    let ending = [
        going(),
        going().view(|v| {
            v.lineage = Some("22222222bbbb".into());
            v.ssh_keys = Some((secs(LOOKED), Arc::default()));
        }),
        going().failing(Reason::RequestRefused),
    ];
    let living = living.into_iter().map(|c| c.reading("present"));
    let ending = ending.into_iter().map(|c| c.reading("deleted"));
    living.chain(ending).collect()
}
