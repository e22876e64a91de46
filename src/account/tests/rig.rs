//! One account object over the fake provider.

use super::provider::{CLUSTER, Provider};
use crate::{
    account::{
        Account, AccountKey, Accounts, Claims, Connection, Installation, Rate, Resolution, Wake,
        view::{State, Times},
    },
    kinds::{
        account::{Limits, Timing},
        references::{AccountKind, AccountRef},
    },
    runtime::clock,
};
use futures::{FutureExt as _, StreamExt as _, stream::BoxStream};
use hosting::{ApiKey, BaseUrl, Client, Order, server::SystemChoice};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

/// What the objects of the test say.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) marks: Mutex<Option<HashSet<String>>>,
}

impl Claims for Objects {
    fn marks(&self) -> Option<HashSet<String>> {
        self.marks.lock().unwrap().clone()
    }

    fn users(&self, _: &AccountKey) -> Option<usize> {
        Some(1)
    }
}

pub(super) struct Rig {
    pub(super) provider: Provider,
    pub(super) accounts: Accounts,
    pub(super) objects: Arc<Objects>,
    wakes: BoxStream<'static, Wake>,
}

/// The name of an account object.
pub(super) fn key(name: &str) -> AccountKey {
    AccountKey {
        kind: AccountKind::ProviderAccount,
        namespace: Some("n".into()),
        name: name.into(),
    }
}

/// An order of the object with this order tag.
pub(super) fn order(tag: &str) -> Order {
    Order {
        name: "host".into(),
        location: "EU: Rotterdam".into(),
        instance_type: "bm7.std.8".into(),
        os: SystemChoice::of_slug("debian-13"),
        ssh_keys: vec![],
        tags: vec![format!("fmo-cluster:{CLUSTER}"), tag.into()],
        contract_id: None,
        overflow: false,
        ..Order::default()
    }
}

impl Rig {
    /// A registry without accounts.
    pub(super) async fn new() -> Self {
        // Paused runtimes begin a little before the process' first look at the clock.
        tokio::time::advance(Duration::from_secs(100)).await;
        let objects = Arc::new(Objects::default());
        let accounts = Accounts::new(CLUSTER, Rate::default());
        accounts.set_claims(objects.clone());
        Self {
            provider: Provider::default(),
            wakes: accounts.wakes(),
            accounts,
            objects,
        }
    }

    /// With the account object `default`.
    pub(super) async fn with_account() -> (Self, Account) {
        let rig = Self::new().await;
        rig.install("default", "key-one", |_| {});
        let account = rig.resolve("default");
        (rig, account)
    }

    /// Puts an account object into force, as its controller would.
    pub(super) fn install(
        &self,
        name: &str,
        api_key: &str,
        change: impl FnOnce(&mut Installation),
    ) {
        let key = key(name);
        let base_url = BaseUrl::parse("https://api.example.com", false).unwrap();
        let api_key = ApiKey::parse(api_key.as_bytes()).unwrap();
        let client = Client::with_transport(
            base_url.clone(),
            api_key.clone(),
            Arc::new(self.provider.clone()),
        );
        let mut installation = Installation {
            connection: Some(Connection {
                base_url,
                key: api_key,
                client,
            }),
            block: None,
            no_orders: None,
            allowed: None,
            times: Times::from(&Timing::default()),
            limits: Limits::default(),
            known: Vec::new(),
        };
        change(&mut installation);
        self.accounts.announce(&key, false);
        self.accounts.install(&key, installation);
        self.accounts.set_held(&key, true);
    }

    pub(super) fn resolve(&self, name: &str) -> Account {
        let reference = AccountRef {
            name: name.into(),
            ..AccountRef::default()
        };
        match self.accounts.resolve("n", &reference) {
            Resolution::Found(account) => account,
            _ => panic!("the account is not there"),
        }
    }

    /// Lets time pass until something is so; fails after an hour of it.
    pub(super) async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let deadline = clock::now().mono + Duration::from_secs(3600);
        while !is_so() {
            assert!(clock::now().mono < deadline, "never: {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Until the account may be called and its first listing is there.
    pub(super) async fn ready(&self, account: &Account) {
        self.until("the first listing", || {
            let view = account.view();
            view.state == State::Usable && view.proof.is_some()
        })
        .await;
    }

    /// What was woken since the last time this was asked.
    pub(super) fn woken(&mut self) -> Vec<Wake> {
        let mut all = Vec::new();
        while let Some(Some(wake)) = self.wakes.next().now_or_never() {
            all.push(wake);
        }
        all
    }
}
