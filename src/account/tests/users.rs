//! Objects of several kinds that use accounts.

use super::rig::{Rig, account_uid, caller, key};
use crate::account::{Accounts, EnqueueTarget, PermitAnswer, Rate, Users};
use flexmetal_core::account::{
    key::AccountKey, priority::Priority, recorded::RecordedResources, view::ListKind,
};
use std::sync::{Arc, Mutex};

/// A kind that may not know its count, and that calls the account when it is enqueued.
struct Kind {
    count: Option<usize>,
    accounts: Accounts,
    woken: Mutex<Vec<EnqueueTarget>>,
}

impl Users for Kind {
    fn count(&self, _: &AccountKey, _: &dyn Fn(&str) -> bool) -> Option<usize> {
        self.count
    }

    fn recorded_resources(&self, _: &AccountKey) -> Option<RecordedResources> {
        Some(RecordedResources::default())
    }

    fn enqueue(&self, target: &EnqueueTarget) {
        // Deadlocks if the caller has a lock.
        let account = self.accounts.get(&key("default"));
        if let Some(account) = account {
            account.view();
            let _ = account.request_permit(Priority::Poll, 1, &caller("curious"));
            account.request_list(
                ListKind::Catalogue,
                std::time::Duration::MAX,
                &caller("curious"),
            );
        }
        self.accounts.users(&key("default"));
        self.accounts.cancel_requests("curious");
        self.woken.lock().unwrap().push(target.clone());
    }
}

fn kind(accounts: &Accounts, count: Option<usize>) -> Arc<Kind> {
    let kind = Arc::new(Kind {
        count,
        accounts: accounts.clone(),
        woken: Mutex::default(),
    });
    accounts.add_users(kind.clone());
    kind
}

#[test]
fn users_are_the_sum_over_all_kinds() {
    let accounts = Accounts::new("0123456789abcdef", Rate::default());
    let users = || accounts.users(&key("default"));
    assert_eq!(users(), None, "nobody is there to know");
    kind(&accounts, Some(2));
    kind(&accounts, Some(3));
    assert_eq!(users(), Some(5));
    kind(&accounts, None);
    assert_eq!(users(), None, "one of them does not know yet");
}

#[tokio::test(start_paused = true)]
async fn enqueue_notifies_every_kind() {
    let rig = Rig::new().await;
    let (one, two) = (kind(&rig.accounts, Some(0)), kind(&rig.accounts, Some(0)));
    rig.install("default", "key-one", |_| {});
    let account = rig.resolve("default");
    rig.ready(&account).await;
    rig.accounts.users_changed(&key("default"));
    let enqueued = one.woken.lock().unwrap().clone();
    assert!(enqueued.contains(&EnqueueTarget::Account(key("default"))));
    assert_eq!(
        enqueued.last(),
        Some(&EnqueueTarget::Object(account_uid("default"))),
        "{enqueued:?}"
    );
    assert_eq!(enqueued, *two.woken.lock().unwrap());
    assert_eq!(enqueued, rig.all_enqueued());
    assert!(matches!(
        account.request_permit(Priority::Poll, 1, &caller("a")),
        Ok(PermitAnswer::Now(_))
    ));
}
