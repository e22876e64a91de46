//! Gathers the facts about an account and makes the client for it.

use super::{
    ca_bundle::{self, Bundle},
    candidate::{self, CandidateConnection, TrialAccount},
    destination::Destination,
    memory::{AccountMemory, Cached, ConnectionParams},
    object::{self, AccountObject},
    reconcile::AccountContext,
    secret::{self, KeySecretContent, Secrets},
};
use crate::{account::Connection, controllers::context::Process, runtime::clock};
use api::{
    account::{AccountSpec, AccountStatus},
    bounds::stored_size,
    names::SECRET_WITH_FINALIZER,
};
use flexmetal_core::{
    account::{
        decide::{
            account_identity,
            candidate::{AccountKeys, CandidateStep},
        },
        facts::{AccountFacts, KeyFault, SecretFact, acknowledgements},
        key::AccountKey,
        view::AccountTimes,
    },
    acknowledgement::Acknowledgements,
    reconcile_request,
};
use hosting::{Client, ClientOptions};
use hosting_types::{ApiKey, BaseUrl};
use kube::ResourceExt as _;
use std::time::Duration;

/// The facts, and a new connection if one is due.
pub struct GatheredAccountFacts {
    /// The facts.
    pub facts: AccountFacts,
    /// The connection to put into use.
    pub connection: Option<Connection>,
}

/// Gathers the facts. Reads Secret and CA bundle if the last read is older than `memory.inputs_age`.
pub async fn observe<K: AccountObject>(
    ctx: &AccountContext<K>,
    secrets: &Secrets,
    memory: &mut AccountMemory,
    object: &K,
) -> GatheredAccountFacts {
    let key = object::key::<K>(object.meta());
    let uid = object.uid().unwrap_or_default();
    let spec = object.spec();
    let secret_namespace = object::secret_namespace(&key, &ctx.namespace);
    let status = object.status().cloned().unwrap_or_default();
    let name = &spec.api_key_secret_ref.name;
    let read = secret::read_key_secret(ctx, &secret_namespace, name);
    let (cached, age) = (&mut memory.reading, memory.inputs_age);
    let reading =
        Cached::get_or_read(cached, name.clone(), age, KeySecretContent::is_unread, read).await;
    let bundle = read_bundle(ctx, memory, spec, &status, &secret_namespace).await;
    let destination = Destination::from_spec_and_secret(
        spec.base_url.as_deref(),
        &reading.declared,
        &format!("Secret {secret_namespace}/{name}"),
        &ctx.allowed_endpoints,
    );
    disconnect(ctx, memory, &destination, &reading.fact, (&key, &uid));
    let timing = spec.timing.in_force(ctx.minimum);
    let now = clock::now().mono;
    let keys = ObservedAccount {
        key: &key,
        uid: &uid,
        status: &status,
        times: AccountTimes::from(timing),
        destination,
        bundle,
        acknowledgements: acknowledgements(object.meta(), &status, clock::steady_wall()),
    };
    let answers_since = ctx.accounts.answers_since(&key);
    if std::mem::replace(&mut memory.answers_since, answers_since) != answers_since {
        memory.trials.try_again();
    }
    let (endpoint, connection) = connect(ctx, memory, &keys, &reading, now);
    let acknowledgements = keys.acknowledgements;
    let bundle = keys.bundle.fact.clone();
    let keys = keys_fact(ctx, memory, &keys, &reading, now);
    let is_new = connection.is_some();
    secrets.record_secret(&uid, &key, &secret_namespace, name);
    let finalized = object
        .annotations()
        .get(SECRET_WITH_FINALIZER)
        .unwrap_or(name);
    let failures = memory.backoff.failures();
    let in_force = memory.connected.as_ref().map(ConnectionParams::endpoint);
    let trusted = memory
        .connected
        .as_ref()
        .and_then(ConnectionParams::trusted);
    let mut report = match is_new {
        true => None,
        false => ctx.accounts.report(&key, &status.records.known_servers),
    };
    let unshown = account_identity::unshown_by(&status, &uid, in_force.as_ref(), report.as_ref());
    // The user acknowledged that the known servers are gone: report only what the account lists now.
    if unshown.is_some_and(|unshown| acknowledgements.is_given(&unshown)) {
        report = ctx.accounts.report(&key, &[]);
    }
    let is_renewed = status.account_id.is_none() || status.verified != in_force;
    let is_asked_for = is_renewed || keys.candidate.is_some();
    let on_record = is_asked_for
        .then(|| ctx.accounts.recorded_resources(&key))
        .flatten();
    if status.account_id.is_some() && status.account_id == memory.next_account_id {
        memory.next_account_id = None;
    }
    let fresh_account_id = memory
        .next_account_id
        .get_or_insert_with(new_account_id)
        .clone();
    let is_shared = secrets.is_shared(&ctx.accounts, &uid, &secret_namespace, finalized);
    memory
        .request
        .record_request(reconcile_request::find_request(object.meta()), now);
    // No finalizer moves before all accounts that share the Secret are known.
    let used_by = is_shared.and(ctx.accounts.used_by(&key));
    let is_ending = object.meta().deletion_timestamp.is_some()
        || matches!(reading.fact, SecretFact::Found { deleting: true, .. });
    let named_users = match is_ending {
        true => ctx.accounts.name_users(&key, MOST_NAMED),
        false => Vec::new(),
    };
    let every = AccountTimes::from(timing).idle_poll_interval;
    let facts = AccountFacts {
        now,
        leader_since: ctx.leader_since().unwrap_or(now),
        wall: clock::steady_wall(),
        in_force,
        on_record,
        missed_since: None,
        read_only: ctx.read_only,
        next_account_id: fresh_account_id,
        meta: object.meta().clone(),
        spec: spec.clone(),
        spec_size: stored_size(spec) + stored_size(&object.allowed()),
        timing,
        status,
        secret: reading.fact,
        bundle,
        trusted,
        keys,
        endpoint,
        users: (used_by.as_ref()).map(|all| all.iter().map(|kind| kind.count).sum()),
        used_by: used_by.unwrap_or_default(),
        named_users,
        figures_are_due: (memory.figures_written)
            .is_none_or(|written| now.saturating_sub(written) >= every),
        offered: memory.offered,
        secret_is_shared: is_shared.unwrap_or(true),
        connected: is_new || memory.connected.is_some(),
        report,
        failed: memory.failure.clone().map(|why| (failures, why)),
        grace: memory.grace.clone(),
        request: memory.request.clone(),
        secret_namespace,
        key,
    };
    let facts = AccountFacts {
        missed_since: missed_since(memory, &facts, facts.leader_since),
        ..facts
    };
    GatheredAccountFacts { facts, connection }
}

/// Since when the connection in use shows no recorded server, within this leadership term.
fn missed_since(
    memory: &mut AccountMemory,
    facts: &AccountFacts,
    leads_since: Duration,
) -> Option<Duration> {
    let missed = account_identity::missing_since(facts).zip(facts.in_force.clone());
    let Some((began, endpoint)) = missed else {
        memory.missed = None;
        return None;
    };
    match &memory.missed {
        _ if began < leads_since => None,
        Some((of, first)) if *of == endpoint && *first >= leads_since => Some(*first),
        _ => {
            memory.missed = Some((endpoint, began));
            Some(began)
        }
    }
}

/// Maximum number of users of each kind that status names while the account waits for them.
const MOST_NAMED: usize = 5;

/// A new random account ID.
fn new_account_id() -> String {
    let mut id = uuid::Uuid::new_v4().simple().to_string();
    id.truncate(12);
    id
}

/// The CA bundle of the account. If not known, the one in use, or the recorded one.
async fn read_bundle(
    process: &Process,
    memory: &mut AccountMemory,
    spec: &AccountSpec,
    status: &AccountStatus,
    namespace: &str,
) -> Bundle {
    let Some(wanted) = &spec.ca_bundle_ref else {
        memory.bundle = None;
        return Bundle::in_spec(spec);
    };
    let read = ca_bundle::read_referenced_bundle(process, namespace, wanted);
    let (cached, age) = (&mut memory.bundle, memory.inputs_age);
    let bundle = Cached::get_or_read(cached, wanted.clone(), age, Bundle::is_unread, read).await;
    let recorded = || status.ca_bundle.clone().map(String::into_bytes);
    let in_use = memory.connected.as_ref().map(|of| of.ca_bundle.clone());
    bundle.or_previous(in_use.unwrap_or_else(recorded))
}

/// Disconnects if the Secret is gone, or if the key may no longer be sent to the URL in use.
fn disconnect<K: AccountObject>(
    ctx: &AccountContext<K>,
    memory: &mut AccountMemory,
    destination: &Destination,
    secret: &SecretFact,
    (key, uid): (&AccountKey, &str),
) {
    let is_gone = match secret {
        SecretFact::Missing => true,
        // The type of a Secret is immutable: this is another Secret.
        SecretFact::Found { key, .. } => *key == Err(KeyFault::OtherType),
        SecretFact::Unread(_) => false,
    };
    let connected = memory.connected.as_ref();
    if connected.is_some_and(|of| is_gone || !destination.permits(&of.base_url)) {
        memory.connected = None;
        ctx.accounts.disconnect(key, uid);
    }
}

/// An account object, and where its keys may be sent.
struct ObservedAccount<'a> {
    key: &'a AccountKey,
    uid: &'a str,
    status: &'a AccountStatus,
    times: AccountTimes,
    destination: Destination,
    bundle: Bundle,
    acknowledgements: Acknowledgements<'a>,
}

impl ObservedAccount<'_> {
    /// Whether the connection in use leads to the recorded account. Then another key must show the same account first.
    fn is_settled(&self, memory: &AccountMemory) -> bool {
        let in_use = memory.connected.as_ref().map(ConnectionParams::endpoint);
        let account_id = self.status.account_id.as_deref();
        let is_recorded = in_use.is_some() && self.status.verified == in_use;
        account_id.is_some()
            && (is_recorded || memory.trials.is_verified(account_id, in_use.as_ref()))
    }

    /// Makes a connection with this key.
    fn connection(
        &self,
        ctx: &Process,
        base_url: &BaseUrl,
        key: &ApiKey,
    ) -> Result<CandidateConnection, String> {
        let ingredients = ConnectionParams {
            base_url: base_url.as_str().to_owned(),
            credentials_hash: key.fingerprint(),
            ca_bundle: self.bundle.pem.clone(),
            order_timeout: self.times.order_timeout,
        };
        let mut options = ClientOptions::new(base_url.clone(), key.clone());
        options.dial = ctx.allowed_endpoints.dial(self.key.namespace.as_deref());
        options.proxy = ctx.allowed_endpoints.proxy().cloned();
        options.ca_bundle = self.bundle.pem.clone();
        options.order_timeout = self.times.order_timeout;
        options.read_only = ctx.read_only;
        options.observer = Some(ctx.metrics.observe_account(self.key.label()));
        let client = Client::new(options);
        let client = client.map_err(|error| format!("spec.{}", explain_error(&error)))?;
        let connection = Connection {
            base_url: base_url.clone(),
            key: key.clone(),
            client,
            connection_hash: ingredients.endpoint().hash_credentials(self.uid),
        };
        Ok(CandidateConnection {
            ingredients,
            connection,
        })
    }

    /// Whether the connection in use has this key and the current parameters.
    fn is_connected(&self, memory: &AccountMemory, base_url: &BaseUrl, key: &ApiKey) -> bool {
        memory.connected.as_ref().is_some_and(|of| {
            of.base_url == base_url.as_str()
                && of.credentials_hash == key.fingerprint()
                && of.ca_bundle == self.bundle.pem
                && of.order_timeout == self.times.order_timeout
        })
    }
}

/// The connection in use with a changed CA bundle or order timeout. Its key stays, whatever key the Secret has.
fn renewed(
    ctx: &Process,
    memory: &mut AccountMemory,
    found: &ObservedAccount<'_>,
) -> Option<Result<Connection, String>> {
    let of = memory.connected.as_ref()?;
    let is_same = of.ca_bundle == found.bundle.pem && of.order_timeout == found.times.order_timeout;
    let account = ctx.accounts.get(found.key);
    let account = account.filter(|account| account.uid() == found.uid)?;
    if is_same || !found.bundle.is_usable() {
        return None;
    }
    let (_, present) = account.connected()?;
    let renewed = found.connection(ctx, &present.base_url, &present.key);
    Some(renewed.map(|renewed| {
        memory.trials.clear(&ctx.accounts, found.key);
        memory.connected = Some(renewed.ingredients);
        renewed.connection
    }))
}

/// Makes a connection if a parameter changed, and manages the candidate. A candidate that has shown the account
/// replaces the key in use here; nothing else changes.
fn connect(
    ctx: &Process,
    memory: &mut AccountMemory,
    found: &ObservedAccount<'_>,
    reading: &KeySecretContent,
    now: Duration,
) -> (Result<(), String>, Option<Connection>) {
    let in_use = memory.connected.as_ref().map(ConnectionParams::endpoint);
    memory.trials.drop_verified(found.status, in_use.as_ref());
    match renewed(ctx, memory, found) {
        Some(Ok(connection)) => return (Ok(()), Some(connection)),
        Some(Err(why)) => return (Err(why), None),
        None => {}
    }
    let (base_url, key) = match (&found.destination, &reading.key) {
        (Destination::To(base_url), Some(key)) if found.bundle.is_usable() => (base_url, key),
        (destination, _) => {
            memory.trials.clear(&ctx.accounts, found.key);
            let endpoint = match destination {
                Destination::Nowhere(why) => Err(why.clone()),
                Destination::To(_) | Destination::Unknown(_) => Ok(()),
            };
            return (endpoint, None);
        }
    };
    if found.is_connected(memory, base_url, key) {
        memory.trials.clear(&ctx.accounts, found.key);
        return (Ok(()), None);
    }
    let candidate = match found.connection(ctx, base_url, key) {
        Ok(candidate) => candidate,
        Err(why) => return (Err(why), None),
    };
    let is_another = in_use.as_ref() != Some(&candidate.ingredients.endpoint());
    if !is_another || !found.is_settled(memory) {
        memory.trials.clear(&ctx.accounts, found.key);
        memory.connected = Some(candidate.ingredients);
        return (Ok(()), Some(candidate.connection));
    }
    let of = TrialAccount {
        key: found.key,
        uid: found.uid,
        status: found.status,
        in_use,
        acknowledgements: found.acknowledgements,
    };
    let taken = candidate::reconcile_candidate(&ctx.accounts, memory, &of, candidate, now);
    let Some((candidate, step)) = taken else {
        return (Ok(()), None);
    };
    let endpoint = candidate.ingredients.endpoint();
    tracing::info!(account = %found.key, credentials = endpoint.credentials_hash, "key switched");
    memory.connected = Some(candidate.ingredients);
    memory.trials.clear(&ctx.accounts, found.key);
    if step == CandidateStep::ReplaceAccount {
        return (Ok(()), Some(candidate.connection));
    }
    let account_id = found.status.account_id.clone();
    memory.trials.record_verified(endpoint, account_id);
    ctx.accounts
        .replace_key(found.key, found.uid, candidate.connection);
    (Ok(()), None)
}

/// The key in use and its candidate, after `connect` has settled which is which.
fn keys_fact(
    ctx: &Process,
    memory: &AccountMemory,
    found: &ObservedAccount<'_>,
    reading: &KeySecretContent,
    now: Duration,
) -> AccountKeys {
    let in_use = memory.connected.as_ref().map(ConnectionParams::endpoint);
    let is_other = match &reading.fact {
        SecretFact::Found { key: Ok(hash), .. } => in_use
            .as_ref()
            .is_some_and(|in_use| in_use.credentials_hash != *hash),
        SecretFact::Found { key: Err(_), .. } => found.is_settled(memory),
        SecretFact::Unread(_) | SecretFact::Missing => false,
    };
    let trials = &memory.trials;
    AccountKeys {
        candidate: is_other.then(|| trials.fact(now)),
        is_verified: trials.is_verified(found.status.account_id.as_deref(), in_use.as_ref()),
        is_draining: ctx.accounts.is_draining(found.key),
    }
}

/// An error with its causes, in one line.
fn explain_error(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        account::AccountSettings,
        controllers::{account::destination::Declared, api_server_tests::TestApiServer},
    };
    use api::{Reason, references::AccountKind};
    use flexmetal_core::account::facts::BundleFact;
    use serde_json::json;

    const URL: &str = "https://api.example.com";
    const UID: &str = "u";

    fn bundle(fact: BundleFact, pem: &str) -> Bundle {
        Bundle {
            fact,
            pem: Some(pem.as_bytes().to_vec()),
        }
    }

    fn reading(key: &str) -> KeySecretContent {
        let key = ApiKey::parse(key.as_bytes()).unwrap();
        let fact = SecretFact::Found {
            key: Ok(key.fingerprint()),
            deleting: false,
            has_finalizer: true,
        };
        KeySecretContent {
            fact,
            key: Some(key),
            declared: Declared::Nothing,
        }
    }

    fn root() -> String {
        let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        own.cert.pem()
    }

    /// An account object with the memory that `connect` changes.
    struct ConnectCase {
        floor: TestApiServer,
        key: AccountKey,
        spec: AccountSpec,
        status: AccountStatus,
        memory: AccountMemory,
    }

    impl ConnectCase {
        async fn start() -> Self {
            let key = AccountKey::named(AccountKind::ProviderAccount, Some("n"), "a");
            let spec = json!({
                "apiKeySecretRef": {"name": "api"},
                "caBundleRef": {"kind": "ConfigMap", "name": "internal-ca"},
            });
            let floor = TestApiServer::start([]).await;
            floor.ctx.accounts.add_account(&key, UID);
            Self {
                floor,
                key,
                spec: serde_json::from_value(spec).unwrap(),
                status: AccountStatus::default(),
                memory: AccountMemory::default(),
            }
        }

        /// Connects as a reconcile does. Returns whether the connection is new.
        fn connect(&mut self, bundle: Bundle, key: &str) -> bool {
            let ctx = &self.floor.ctx;
            let found = ObservedAccount {
                key: &self.key,
                uid: UID,
                status: &self.status,
                times: AccountTimes::from(self.spec.timing.in_force(ctx.minimum)),
                destination: Destination::To(BaseUrl::parse(URL).unwrap()),
                bundle,
                acknowledgements: Acknowledgements {
                    uid: UID,
                    annotation: None,
                    pending: &[],
                    acknowledged: &[],
                    now: 0,
                },
            };
            let now = clock::now().mono;
            let (endpoint, connection) = connect(ctx, &mut self.memory, &found, &reading(key), now);
            endpoint.unwrap();
            let is_new = connection.is_some();
            let settings = AccountSettings::blocked(Reason::Suspended, "no calls".into());
            ctx.accounts.configure(&self.key, UID, settings, connection);
            is_new
        }

        /// The key and the CA bundle in use.
        fn in_use(&self) -> (String, Vec<u8>) {
            let account = self.floor.ctx.accounts.get(&self.key).unwrap();
            let (_, connection) = account.connected().unwrap();
            let of = self.memory.connected.clone().unwrap();
            assert_eq!(connection.key.fingerprint(), of.credentials_hash);
            (of.credentials_hash, of.ca_bundle.unwrap())
        }
    }

    #[tokio::test]
    async fn changed_bundle_applies_to_current_key_during_trial() {
        let (mut case, one, other) = (ConnectCase::start().await, root(), root());
        assert!(case.connect(bundle(BundleFact::Known, &one), "key-number-one"));
        let (hash, _) = case.in_use();
        case.status.account_id = Some("L1".into());
        case.status.verified = Some(case.memory.connected.clone().unwrap().endpoint());
        // The candidate waits; the key in use stays.
        assert!(!case.connect(bundle(BundleFact::Known, &one), "key-number-two"));
        assert!(case.connect(bundle(BundleFact::Known, &other), "key-number-two"));
        assert_eq!(case.in_use(), (hash.clone(), other.clone().into_bytes()));
        assert!(!case.connect(bundle(BundleFact::Known, &other), "key-number-two"));
        assert_eq!(case.in_use(), (hash, other.into_bytes()));
    }

    #[tokio::test]
    async fn unusable_bundle_keeps_previous_one_in_use() {
        let (mut case, one) = (ConnectCase::start().await, root());
        assert!(case.connect(bundle(BundleFact::Known, &one), "key-number-one"));
        let unusable = Bundle::none(BundleFact::Unusable("no certificate".into()));
        let previous = case.memory.connected.clone().unwrap().ca_bundle;
        assert!(!case.connect(unusable.or_previous(previous), "key-number-one"));
        assert_eq!(case.in_use().1, one.into_bytes());
    }

    #[tokio::test]
    async fn restart_without_bundle_uses_recorded_one() {
        let (mut case, one) = (ConnectCase::start().await, root());
        assert!(case.connect(bundle(BundleFact::NoObject, &one), "key-number-one"));
        assert_eq!(case.in_use().1, one.into_bytes());
        let mut case = ConnectCase::start().await;
        let unknown = Bundle::none(BundleFact::NoObject);
        assert!(!case.connect(unknown, "key-number-one"));
        assert!(case.memory.connected.is_none());
    }
}
