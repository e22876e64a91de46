//! One account object over the fake provider.

use super::provider::{CLUSTER, Provider};
use crate::{
    account::{
        Account, AccountSettings, Accounts, Caller, Claims, Connection, Denied, EnqueueTarget,
        OrderPermit, OrderPermitAnswer, Permit, PermitAnswer, Rate, Resolution, Users,
    },
    runtime::clock,
};
use api::{
    limits::Limits,
    policies::Policies,
    references::{AccountKind, PinnedAccount},
};
use flexmetal_core::account::{
    key::AccountKey,
    priority::Priority,
    recorded::RecordedResources,
    view::{AccountState, AccountTimes},
};
use hosting::Client;
use hosting_types::{ApiKey, BaseUrl, Error, Order, server::SystemChoice};
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// What the objects of the test report.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) name_hashes: Mutex<Option<HashSet<String>>>,
    /// Servers that their owners disown.
    pub(super) disowned: Mutex<HashSet<String>>,
    /// Namespaces of the objects that ordered servers, by name hash.
    pub(super) namespaces: Mutex<HashMap<String, String>>,
    /// What the objects have recorded.
    pub(super) on_record: Mutex<RecordedResources>,
    /// Whether the initial list of the servers is still missing.
    pub(super) unlisted: AtomicBool,
    woken: Mutex<Vec<EnqueueTarget>>,
}

impl Claims for Objects {
    fn name_hashes(&self) -> Option<HashSet<String>> {
        self.name_hashes.lock().unwrap().clone()
    }

    fn is_complete(&self) -> bool {
        !self.unlisted.load(Ordering::Relaxed)
    }

    fn namespace(&self, name_hash: &str) -> Option<String> {
        self.namespaces.lock().unwrap().get(name_hash).cloned()
    }

    fn is_recorded(&self, uuid: &str, _: &AccountKey) -> bool {
        let on_record = self.on_record.lock().unwrap();
        on_record.servers.iter().any(|it| it.uuid == uuid)
    }

    fn disowns(&self, _: &str, _: &AccountKey, uuid: &str) -> bool {
        self.disowned.lock().unwrap().contains(uuid)
    }
}

impl Users for Objects {
    fn count(&self, _: &AccountKey, _: &dyn Fn(&str) -> bool) -> Option<usize> {
        Some(1)
    }

    fn recorded_resources(&self, _: &AccountKey) -> Option<RecordedResources> {
        let is_known = !self.unlisted.load(Ordering::Relaxed);
        is_known.then(|| self.on_record.lock().unwrap().clone())
    }

    fn enqueue(&self, target: &EnqueueTarget) {
        self.woken.lock().unwrap().push(target.clone());
    }
}

pub(super) struct Rig {
    pub(super) provider: Provider,
    pub(super) accounts: Accounts,
    pub(super) objects: Arc<Objects>,
}

/// Key of an account object.
pub(super) fn key(name: &str) -> AccountKey {
    AccountKey::named(AccountKind::ProviderAccount, Some("n"), name)
}

/// UID of the account object of this name.
pub(super) fn account_uid(name: &str) -> String {
    format!("account-{name}")
}

/// The object with this UID, in the namespace of the accounts.
pub(super) fn caller(uid: &str) -> Caller {
    Caller {
        uid: uid.into(),
        namespace: "n".into(),
    }
}

/// Waits for a permit.
pub(super) async fn permit(
    account: &Account,
    priority: Priority,
    calls: u32,
) -> Result<Permit, Error> {
    loop {
        match account.request_permit(priority, calls, &caller("permit"))? {
            PermitAnswer::Now(permit) => return Ok(permit),
            PermitAnswer::Queued => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Waits for an order permit.
pub(super) async fn reserve(account: &Account, name_hash: &str) -> Result<OrderPermit, Denied> {
    loop {
        match account.request_order_permit(name_hash, &caller(name_hash))? {
            OrderPermitAnswer::Now(permit) => return Ok(permit),
            OrderPermitAnswer::Queued => tokio::time::sleep(Duration::from_millis(10)).await,
        }
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
        // A paused runtime starts slightly before the process first reads the clock.
        tokio::time::advance(Duration::from_secs(100)).await;
        Self::of_cluster(CLUSTER, Provider::default())
    }

    /// A registry of another cluster, with the same hosting API.
    pub(super) fn of_cluster(cluster: &str, provider: Provider) -> Self {
        let objects = Arc::new(Objects::default());
        let accounts = Accounts::new(cluster, Rate::default());
        accounts.set_claims(objects.clone());
        accounts.add_users(objects.clone());
        Self {
            provider,
            accounts,
            objects,
        }
    }

    /// A registry with the account object `default`.
    pub(super) async fn with_account() -> (Self, Account) {
        let rig = Self::new().await;
        rig.install("default", "key-one", |_| {});
        let account = rig.resolve("default");
        (rig, account)
    }

    /// Configures an account object, as its controller does.
    pub(super) fn install(
        &self,
        name: &str,
        api_key: &str,
        change: impl FnOnce(&mut AccountSettings),
    ) {
        let connection = self.connection(api_key);
        self.configure(name, &account_uid(name), Some(connection), change);
    }

    /// Configures the account object of this key, with the API key of `default`.
    pub(super) fn install_at(
        &self,
        key: &AccountKey,
        change: impl FnOnce(&mut AccountSettings),
    ) -> Account {
        let connection = self.connection("key-one");
        self.configure_at(key, &account_uid(&key.name), Some(connection), change);
        self.accounts.get(key).unwrap()
    }

    /// A connection to the fake API with this key.
    pub(super) fn connection(&self, api_key: &str) -> Connection {
        let base_url = BaseUrl::parse("https://api.example.com").unwrap();
        let api_key = ApiKey::parse(api_key.as_bytes()).unwrap();
        let client = Client::with_transport(
            base_url.clone(),
            api_key.clone(),
            Arc::new(self.provider.clone()),
        );
        Connection {
            base_url,
            connection_hash: format!("word-of-{}", api_key.fingerprint()),
            key: api_key,
            client,
        }
    }

    /// Configures the account object with this UID.
    pub(super) fn configure(
        &self,
        name: &str,
        uid: &str,
        connection: Option<Connection>,
        change: impl FnOnce(&mut AccountSettings),
    ) {
        self.configure_at(&key(name), uid, connection, change);
    }

    fn configure_at(
        &self,
        key: &AccountKey,
        uid: &str,
        connection: Option<Connection>,
        change: impl FnOnce(&mut AccountSettings),
    ) {
        let mut settings = AccountSettings {
            block: None,
            no_orders: None,
            allowed: None,
            times: AccountTimes::default(),
            limits: Limits::default(),
            release_limit: None,
            defaults: Some(Policies::default()),
            install_form: Default::default(),
            egress: Vec::new(),
            reads_usage: false,
            known: Vec::new(),
            account_id: Some("lineage".into()),
        };
        change(&mut settings);
        self.accounts.add_account(key, uid);
        self.accounts.configure(key, uid, settings, connection);
        self.accounts.set_finalizers(key, uid, true);
    }

    pub(super) fn resolve(&self, name: &str) -> Account {
        let reference = PinnedAccount {
            name: name.into(),
            ..PinnedAccount::from_reference(None)
        };
        match self.accounts.resolve("n", &reference) {
            Resolution::Found { account, .. } => account,
            _ => panic!("the account is not there"),
        }
    }

    /// Polls until `is_so` is true; fails after an hour. Polls less often the longer it waits: every 10 ms in the first
    /// second, then after 1 % more, at most 250 ms.
    pub(super) async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let began = clock::now().mono;
        while !is_so() {
            let waited = clock::now().mono - began;
            assert!(waited < Duration::from_secs(3600), "never: {what}");
            let (shortest, longest) = (Duration::from_millis(10), Duration::from_millis(250));
            tokio::time::sleep((waited / 100).clamp(shortest, longest)).await;
        }
    }

    /// Waits until the account may be called and has its first complete list.
    pub(super) async fn ready(&self, account: &Account) {
        self.until("the first listing", || {
            let view = account.view();
            view.state == AccountState::Usable && view.complete_list.is_some()
        })
        .await;
    }

    /// What was enqueued since the last call, without the account objects.
    pub(super) fn enqueued(&self) -> Vec<EnqueueTarget> {
        let mut all = self.all_enqueued();
        all.retain(
            |target| !matches!(target, EnqueueTarget::Object(uid) if uid.starts_with("account-")),
        );
        all
    }

    /// The same with the account objects.
    pub(super) fn all_enqueued(&self) -> Vec<EnqueueTarget> {
        std::mem::take(&mut self.objects.woken.lock().unwrap())
    }
}
