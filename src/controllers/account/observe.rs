//! Gathers the facts about an account, and makes the client that they allow.

use super::{
    bundle::{self, Bundle},
    candidate::{self, Candidate, Of},
    destination::Destination,
    memory::{Ingredients, Memory},
    object::{self, AccountObject},
    pass::AccountContext,
    secret::{self, Reading, Secrets},
};
use crate::{account::Connection, controllers::context::Process, runtime::clock};
use api::{
    account::{AccountSpec, AccountStatus},
    names::HELD_SECRET,
};
use flexmetal_core::{
    account::{
        decide::{
            candidate::{Keys, Step},
            lineage,
        },
        facts::{BundleFact, Facts, KeyFault, SecretFact, acknowledgements},
        key::AccountKey,
        view::Times,
    },
    acknowledgement::Acknowledgements,
    request,
};
use hosting::{Client, ClientError, ClientOptions};
use hosting_types::{ApiKey, BaseUrl};
use kube::ResourceExt as _;
use std::time::Duration;

/// Facts, and a new connection where one is due.
pub struct Gathered {
    /// The facts.
    pub facts: Facts,
    /// To be put into force.
    pub connection: Option<Connection>,
}

/// Gathers the facts. Secret and CA bundle are read when the last reading is older than `memory.secret_age`.
pub async fn observe<K: AccountObject>(
    ctx: &AccountContext<K>,
    secrets: &Secrets,
    memory: &mut Memory,
    object: &K,
) -> Gathered {
    let key = object::key::<K>(object.meta());
    let uid = object.uid().unwrap_or_default();
    let spec = object.spec();
    let secret_namespace = object::secret_namespace(&key, &ctx.namespace);
    read_secret(ctx, memory, spec, &secret_namespace).await;
    let bundle = read_bundle(ctx, memory, spec, &secret_namespace).await;
    let reading = match &memory.reading {
        Some((_, _, reading)) => reading.clone(),
        None => Reading::none(SecretFact::Unread("not read yet".into())),
    };
    let name = &spec.api_key_secret_ref.name;
    let destination = Destination::of(
        spec.base_url.as_deref(),
        &reading.declared,
        &format!("Secret {secret_namespace}/{name}"),
        &ctx.reach,
    );
    let read = (&reading.fact, &bundle.fact);
    disconnect(ctx, memory, &destination, read, (&key, &uid));
    let timing = spec.timing.in_force(ctx.minimum);
    let status = object.status().cloned().unwrap_or_default();
    let now = clock::now().mono;
    let keys = Found {
        key: &key,
        uid: &uid,
        spec,
        status: &status,
        times: Times::from(timing),
        destination,
        bundle,
        secret_namespace: &secret_namespace,
        acknowledgements: acknowledgements(object.meta(), &status, clock::steady_wall()),
    };
    let (endpoint, connection) = connect(ctx, memory, &keys, &reading, now);
    let acknowledgements = keys.acknowledgements;
    let bundle = keys.bundle.fact.clone();
    let keys = keys_fact(ctx, memory, &keys, &reading, now);
    let is_new = connection.is_some();
    secrets.note(&uid, &key, &secret_namespace, name);
    let held = object.annotations().get(HELD_SECRET).unwrap_or(name);
    let failures = memory.backoff.failures();
    let in_force = memory.connected.as_ref().map(Ingredients::endpoint);
    let mut report = match is_new {
        true => None,
        false => ctx.accounts.report(&key, &status.known_servers),
    };
    let proof = report.as_ref().and_then(|r| r.proof.as_deref());
    let unshown = lineage::unshown_by(&status, &uid, in_force.as_ref(), proof);
    // A user acknowledges that those of before are gone: what the account is known by is what it shows now.
    if unshown.is_some_and(|unshown| acknowledgements.is_given(&unshown)) {
        report = ctx.accounts.report(&key, &[]);
    }
    let is_renewed = status.account_id.is_none() || status.verified != in_force;
    let is_asked_for = is_renewed || keys.candidate.is_some();
    let on_record = is_asked_for.then(|| ctx.accounts.on_record(&key)).flatten();
    let used_before = used_before(ctx, memory, &status);
    if status.account_id.is_some() && status.account_id == memory.fresh_word {
        memory.fresh_word = None;
    }
    let fresh_word = memory.fresh_word.get_or_insert_with(fresh_word).clone();
    let is_shared = secrets.is_shared(&ctx.accounts, &uid, &secret_namespace, held);
    memory.asked.note(request::word(object.meta()), now);
    // No finalizer moves before it is known who else stands on the Secret.
    let used_by = is_shared.and(ctx.accounts.used_by(&key));
    let is_ending = object.meta().deletion_timestamp.is_some()
        || matches!(reading.fact, SecretFact::Found { deleting: true, .. });
    let named_users = match is_ending {
        true => ctx.accounts.name_users(&key, MOST_NAMED),
        false => Vec::new(),
    };
    let every = Times::from(timing).idle_poll_interval;
    let facts = Facts {
        now,
        wall: clock::steady_wall(),
        in_force,
        on_record,
        missed_since: None,
        used_before,
        fresh_word,
        meta: object.meta().clone(),
        spec: spec.clone(),
        timing,
        status,
        secret: reading.fact,
        bundle,
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
        patience: memory.patience.clone(),
        asked: memory.asked.clone(),
        secret_namespace,
        key,
    };
    let facts = Facts {
        missed_since: missed_since(memory, &facts),
        ..facts
    };
    Gathered { facts, connection }
}

/// Since when no machine on record is shown over the connection in force.
fn missed_since(memory: &mut Memory, facts: &Facts) -> Option<Duration> {
    let missed = lineage::missed(facts).zip(facts.in_force.clone());
    let Some((began, endpoint)) = missed else {
        memory.missed = None;
        return None;
    };
    match &memory.missed {
        Some((of, first)) if *of == endpoint => Some(*first),
        _ => {
            memory.missed = Some((endpoint, began));
            Some(began)
        }
    }
}

/// Most objects of a kind that are named while an account waits for the last of them.
const MOST_NAMED: usize = 5;

/// Whether another process used the account before this one began to act.
fn used_before(process: &Process, memory: &mut Memory, status: &AccountStatus) -> bool {
    let Some(since) = process.acting_since() else {
        return true;
    };
    let is_used = status.account_id.is_some() || status.verified.is_some();
    match memory.used_before {
        Some((term, was_used)) if term == since => was_used,
        _ => {
            memory.used_before = Some((since, is_used));
            is_used
        }
    }
}

/// A word that nobody has used.
fn fresh_word() -> String {
    let mut word = uuid::Uuid::new_v4().simple().to_string();
    word.truncate(12);
    word
}

async fn read_secret(process: &Process, memory: &mut Memory, spec: &AccountSpec, namespace: &str) {
    let age = memory.secret_age;
    let wanted = spec.api_key_secret_ref.name.clone();
    let now = clock::now().mono;
    let is_fresh =
        |(at, which, _): &(Duration, _, _)| *which == wanted && now.saturating_sub(*at) < age;
    if memory.reading.as_ref().is_some_and(is_fresh) {
        return;
    }
    let reading = secret::read(process, namespace, &wanted).await;
    let had_one = memory
        .reading
        .as_ref()
        .is_some_and(|(_, which, _)| *which == wanted);
    if let SecretFact::Unread(why) = &reading.fact
        && had_one
    {
        // A silent API server says nothing of the Secret: what was read holds.
        tracing::debug!(
            namespace,
            name = wanted,
            why,
            "the Secret could not be read again"
        );
        return;
    }
    memory.reading = Some((now, wanted, reading));
}

/// The CA bundle of the account.
async fn read_bundle(
    process: &Process,
    memory: &mut Memory,
    spec: &AccountSpec,
    namespace: &str,
) -> Bundle {
    let Some(wanted) = &spec.ca_bundle_ref else {
        memory.bundle = None;
        return Bundle::in_spec(spec);
    };
    let now = clock::now().mono;
    let former = memory.bundle.take().filter(|(_, of, _)| of == wanted);
    let (at, bundle) = match former {
        Some((at, _, bundle)) if now.saturating_sub(at) < memory.secret_age => (at, bundle),
        former => match (bundle::read(process, namespace, wanted).await, former) {
            // A silent API server says nothing of the bundle: what was read holds.
            (read, Some((at, _, bundle))) if matches!(read.fact, BundleFact::Unread(_)) => {
                (at, bundle)
            }
            (read, _) => (now, read),
        },
    };
    memory.bundle = Some((at, wanted.clone(), bundle.clone()));
    bundle
}

/// Ends a connection to where the key may not be sent any more, and one whose Secret or CA bundle is gone.
fn disconnect<K: AccountObject>(
    ctx: &AccountContext<K>,
    memory: &mut Memory,
    destination: &Destination,
    (secret, bundle): (&SecretFact, &BundleFact),
    (key, uid): (&AccountKey, &str),
) {
    let is_gone = match secret {
        SecretFact::Missing => true,
        // A type cannot be changed: this is another Secret.
        SecretFact::Found { key, .. } => *key == Err(KeyFault::OtherType),
        SecretFact::Unread(_) => false,
    } || matches!(bundle, BundleFact::NoObject | BundleFact::NoKey);
    let connected = memory.connected.as_ref();
    if connected.is_some_and(|of| is_gone || !destination.permits(&of.base_url)) {
        memory.connected = None;
        ctx.accounts.disconnect(key, uid);
    }
}

/// An account object, and where its keys may go.
struct Found<'a> {
    key: &'a AccountKey,
    uid: &'a str,
    spec: &'a AccountSpec,
    status: &'a AccountStatus,
    times: Times,
    destination: Destination,
    bundle: Bundle,
    /// Where Secret and CA bundle lie.
    secret_namespace: &'a str,
    acknowledgements: Acknowledgements<'a>,
}

impl Found<'_> {
    /// Whether the connection that there is leads to the account on record, so that another key has to show that it
    /// does, too.
    fn is_settled(&self, memory: &Memory) -> bool {
        let in_use = memory.connected.as_ref().map(Ingredients::endpoint);
        let lineage = self.status.account_id.as_deref();
        let is_recorded = in_use.is_some() && self.status.verified == in_use;
        lineage.is_some() && (is_recorded || memory.trials.is_verified(lineage, in_use.as_ref()))
    }

    /// A connection with this key.
    fn connection(
        &self,
        ctx: &Process,
        base_url: &BaseUrl,
        key: &ApiKey,
    ) -> Result<Candidate, String> {
        let ingredients = Ingredients {
            base_url: base_url.as_str().to_owned(),
            credentials_hash: key.fingerprint(),
            ca_bundle: self.bundle.pem.clone(),
            order_timeout: self.times.order_timeout,
        };
        let mut options = ClientOptions::new(base_url.clone(), key.clone());
        options.dial = ctx.reach.dial(self.key.namespace.as_deref());
        options.ca_bundle = self.bundle.pem.clone();
        options.order_timeout = self.times.order_timeout;
        let client = Client::new(options).map_err(|error| self.explain(&error))?;
        let connection = Connection {
            base_url: base_url.clone(),
            key: key.clone(),
            client,
            word: ingredients.endpoint().connection(self.uid),
        };
        Ok(Candidate {
            ingredients,
            connection,
        })
    }

    /// Why no client can be made. What lies in the object with the CA bundle is in no message.
    fn explain(&self, error: &ClientError) -> String {
        match (&self.spec.ca_bundle_ref, error) {
            (Some(of), ClientError::CaBundle(_) | ClientError::CaBundleEmpty) => {
                let selector = of.selector();
                format!(
                    "spec.caBundleRef: {} {}/{}, key {:?}, holds no readable certificates: put the PEM text of the root there",
                    of.kind.as_str(),
                    self.secret_namespace,
                    selector.name,
                    selector.key
                )
            }
            _ => format!("spec.{}", explain(error)),
        }
    }

    /// Whether a connection with this key is the one that there is.
    fn is_connected(&self, memory: &Memory, base_url: &BaseUrl, key: &ApiKey) -> bool {
        memory.connected.as_ref().is_some_and(|of| {
            of.base_url == base_url.as_str()
                && of.credentials_hash == key.fingerprint()
                && of.ca_bundle == self.bundle.pem
                && of.order_timeout == self.times.order_timeout
        })
    }
}

/// Makes a connection where something that it is made of has changed, and looks after another key than the one in use.
/// That takes its place here where it has shown the account: nothing else changes by that.
fn connect(
    ctx: &Process,
    memory: &mut Memory,
    found: &Found<'_>,
    reading: &Reading,
    now: Duration,
) -> (Result<(), String>, Option<Connection>) {
    let in_use = memory.connected.as_ref().map(Ingredients::endpoint);
    memory.trials.drop_verified(found.status, in_use.as_ref());
    let (base_url, key) = match (&found.destination, &reading.key) {
        (Destination::To(base_url), Some(key)) if found.bundle.fact == BundleFact::Known => {
            (base_url, key)
        }
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
    let of = Of {
        key: found.key,
        uid: found.uid,
        status: found.status,
        in_use,
        acknowledgements: found.acknowledgements,
    };
    let taken = candidate::look_after(&ctx.accounts, memory, &of, candidate, now);
    let Some((candidate, step)) = taken else {
        return (Ok(()), None);
    };
    let endpoint = candidate.ingredients.endpoint();
    tracing::info!(account = %found.key, key = endpoint.credentials_hash, "another key is in use from here on");
    memory.connected = Some(candidate.ingredients);
    memory.trials.clear(&ctx.accounts, found.key);
    if step == Step::Replaces {
        return (Ok(()), Some(candidate.connection));
    }
    let lineage = found.status.account_id.clone();
    memory.trials.record_verified(endpoint, lineage);
    ctx.accounts
        .replace_key(found.key, found.uid, candidate.connection);
    (Ok(()), None)
}

/// The key in use and its candidate, once it is settled which is which.
fn keys_fact(
    ctx: &Process,
    memory: &Memory,
    found: &Found<'_>,
    reading: &Reading,
    now: Duration,
) -> Keys {
    let in_use = memory.connected.as_ref().map(Ingredients::endpoint);
    let is_other = match &reading.fact {
        SecretFact::Found { key: Ok(hash), .. } => in_use
            .as_ref()
            .is_some_and(|in_use| in_use.credentials_hash != *hash),
        SecretFact::Found { key: Err(_), .. } => found.is_settled(memory),
        SecretFact::Unread(_) | SecretFact::Missing => false,
    };
    let trials = &memory.trials;
    Keys {
        candidate: is_other.then(|| trials.fact(now)),
        is_verified: trials.is_verified(found.status.account_id.as_deref(), in_use.as_ref()),
        is_draining: ctx.accounts.is_draining(found.key),
    }
}

fn explain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
