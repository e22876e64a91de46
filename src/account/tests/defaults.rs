//! Which account stands in for objects that name none.

use super::rig::key;
use crate::account::{Accounts, Choice, Listing, Rate, Settings, Users, Wake};
use api::{Reason, allowed::AllowedNamespaces, references::AccountKind};
use flexmetal_core::account::{key::AccountKey, on_record::OnRecord};
use serde_json::{Value, json};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};
use tokio::time::{Duration, advance};

/// Whether all accounts are known.
struct Known(AtomicBool);

impl Listing for Known {
    fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Who was woken.
#[derive(Default)]
struct Bell(Mutex<Vec<String>>);

impl Users for Bell {
    fn count(&self, _: &AccountKey, _: &dyn Fn(&str) -> bool) -> Option<usize> {
        Some(0)
    }

    fn on_record(&self, _: &AccountKey) -> Option<OnRecord> {
        Some(OnRecord::default())
    }

    fn wake(&self, wake: &Wake) {
        if let Wake::Object(uid) = wake {
            self.0.lock().unwrap().push(uid.clone());
        }
    }
}

impl Bell {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn shared(name: &str) -> AccountKey {
    AccountKey::named(AccountKind::ClusterProviderAccount, None, name)
}

fn accounts() -> (Accounts, Arc<Known>, Arc<Bell>) {
    let accounts = Accounts::new("0123456789abcdef", Rate::default());
    let known = Arc::new(Known(AtomicBool::new(true)));
    let bell = Arc::new(Bell::default());
    accounts.set_listing(known.clone());
    accounts.add_users(bell.clone());
    (accounts, known, bell)
}

/// A marked account of the cluster with this entry.
fn mark(accounts: &Accounts, name: &str, entry: &Value) {
    announce(accounts, name);
    let mut entry = entry.clone();
    entry["name"] = json!("entry");
    let entry: AllowedNamespaces = serde_json::from_value(entry).unwrap();
    let settings = Settings {
        allowed: Some(vec![entry]),
        ..Settings::blocked(Reason::Pending, String::new())
    };
    accounts.configure(&shared(name), name, settings, None);
}

fn announce(accounts: &Accounts, name: &str) {
    accounts.announce(&shared(name), name);
    accounts.note_default(&shared(name), name, true);
}

/// What objects of the namespace use.
fn choice(accounts: &Accounts) -> String {
    match accounts.default_for("n", "uid") {
        Choice::Own => "own".into(),
        Choice::Unknown(_) => "unknown".into(),
        Choice::Nothing => "nothing".into(),
        Choice::One { account, .. } => account.key().name.clone(),
        Choice::Several(keys) => {
            let names: Vec<_> = keys.into_iter().map(|key| key.name).collect();
            names.join("+")
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_stands_in_is_the_one_marked_account_that_serves_the_namespace() {
    let here = json!({"names": ["n"]});
    let elsewhere = json!({"names": ["m"]});
    // The labels of the namespace are not known.
    let perhaps = json!({"selector": {"matchLabels": {"a": "b"}}});
    type Case<'a> = (&'a [(&'a str, &'a Value)], &'a str);
    let cases: &[Case] = &[
        (&[], "nothing"),
        (&[("a", &here)], "a"),
        (&[("a", &elsewhere)], "nothing"),
        (&[("a", &perhaps)], "unknown"),
        (&[("b", &here), ("a", &here)], "a+b"),
        // Those that do not serve it are none for it; one that may makes everybody wait.
        (&[("a", &here), ("b", &elsewhere)], "a"),
        (&[("a", &here), ("b", &perhaps)], "unknown"),
        (&[("a", &here), ("b", &here), ("c", &perhaps)], "a+b"),
    ];
    for (marked, expected) in cases {
        let (accounts, known, _) = accounts();
        for (name, entry) in *marked {
            mark(&accounts, name, entry);
        }
        assert_eq!(choice(&accounts), *expected, "{marked:?}");
        // What is not listed may be there.
        known.0.store(false, Ordering::Relaxed);
        assert_eq!(choice(&accounts), "unknown", "{marked:?}");
        // An account of the namespace goes first, whatever is known of the others.
        accounts.announce(&key("default"), "own");
        assert_eq!(choice(&accounts), "own", "{marked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn before_anybody_lists_them_and_before_it_was_read_an_account_stands_in_for_nobody() {
    let accounts = Accounts::new("0123456789abcdef", Rate::default());
    mark(&accounts, "a", &json!({"names": ["n"]}));
    assert_eq!(choice(&accounts), "unknown");
    let (accounts, ..) = self::accounts();
    announce(&accounts, "a");
    assert_eq!(choice(&accounts), "unknown");
}

#[tokio::test(start_paused = true)]
async fn a_mark_on_an_account_of_a_namespace_is_none() {
    let (accounts, ..) = accounts();
    accounts.announce(&key("team"), "team");
    accounts.note_default(&key("team"), "team", true);
    assert_eq!(choice(&accounts), "nothing");
}

#[tokio::test(start_paused = true)]
async fn the_wait_starts_again_when_the_namespace_had_one_of_its_own_meanwhile() {
    let (accounts, ..) = accounts();
    mark(&accounts, "a", &json!({"names": ["n"]}));
    let since = |accounts: &Accounts| match accounts.default_for("n", "uid") {
        Choice::One { missed_since, .. } => missed_since,
        _ => panic!("the account of the cluster stands in"),
    };
    let first = since(&accounts);
    advance(Duration::from_secs(60)).await;
    assert_eq!(since(&accounts), first);
    accounts.announce(&key("default"), "own");
    accounts.remove(&key("default"), "own");
    assert_eq!(since(&accounts), first + Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_woken_when_an_account_may_stand_in_or_no_more() {
    let (accounts, _, bell) = accounts();
    let woken_by = |change: &dyn Fn(&Accounts)| {
        choice(&accounts);
        bell.take();
        change(&accounts);
        bell.take().contains(&"uid".to_owned())
    };
    assert!(woken_by(&|accounts| announce(accounts, "a")), "a mark");
    assert!(
        woken_by(&|accounts| mark(accounts, "a", &json!({"names": ["n"]}))),
        "whom it serves"
    );
    assert!(!woken_by(&|accounts| announce(accounts, "a")), "no news");
    let unmark = |accounts: &Accounts| accounts.note_default(&shared("a"), "a", false);
    assert!(woken_by(&unmark), "the mark is gone");
    announce(&accounts, "a");
    assert!(woken_by(&|accounts| accounts.remove(&shared("a"), "a")));
    // Whoever has an account by now is left alone.
    choice(&accounts);
    accounts.waits_no_more("uid");
    announce(&accounts, "b");
    assert!(!bell.take().contains(&"uid".to_owned()));
}
