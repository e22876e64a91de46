//! Gathers the facts about an account, and makes the client that they allow.

use super::{
    beside::{self, Candidate, Of, Under},
    destination::Destination,
    memory::{Ingredients, Memory},
    object::{self, AccountObject},
    pass::AccountContext,
    secret::{self, Reading, Secrets},
};
use crate::{account::Connection, controllers::context::Process, runtime::clock};
use api::{
    account::{AccountSpec, AccountStatus, Endpoint},
    key_in_use::KeyEntry,
    names::{ACKNOWLEDGE_ACCOUNT, HELD_SECRET},
};
use flexmetal_core::{
    account::{
        decide::{
            lineage,
            next_key::{self, Entries, InForce, Keys, Roles, Step},
        },
        facts::{Facts, SecretFact},
        key::AccountKey,
        on_record::OnRecord,
        view::Times,
    },
    request,
};
use hosting::{Client, ClientOptions};
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

/// Gathers the facts. The Secret is read when the last reading is older than `memory.secret_age`.
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
    disconnect(ctx, memory, &destination, &key, &uid);
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
    };
    let (endpoint, connection) = connect(ctx, memory, &keys, &reading, now);
    let keys = keys_fact(ctx, memory, &keys, reading.entries.clone(), now);
    let is_new = connection.is_some();
    secrets.note(&uid, &key, &secret_namespace, name);
    let held = object.annotations().get(HELD_SECRET).unwrap_or(name);
    let report = match is_new {
        true => None,
        // A person says that those of before are over.
        false if is_forgotten(object, &status, memory, &uid) => ctx.accounts.report(&key, &[]),
        false => ctx.accounts.report(&key, &status.known_machines),
    };
    let failures = memory.backoff.failures();
    let in_force = memory.connected.as_ref().map(Ingredients::endpoint);
    let on_record = on_record(ctx, memory, &key, &status, in_force.as_ref(), now);
    let open_elsewhere = open_elsewhere(memory, on_record.as_ref(), &status, now);
    let used_before = used_before(ctx, memory, &key, &status);
    if status.lineage.is_some() && status.lineage == memory.fresh_word {
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
        open_elsewhere,
        used_before,
        fresh_word,
        meta: object.meta().clone(),
        spec: spec.clone(),
        timing,
        status,
        secret: counting(reading.fact, &keys),
        keys,
        endpoint,
        users: (used_by.as_ref()).map(|all| all.iter().map(|kind| kind.count).sum()),
        used_by: used_by.unwrap_or_default(),
        named_users,
        figures_are_due: (memory.figures_written)
            .is_none_or(|written| now.saturating_sub(written) >= every),
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

/// Whether a person acknowledged the connection that is on record already: what the account is known by from
/// then on is what it shows now.
fn is_forgotten<K: AccountObject>(
    object: &K,
    status: &AccountStatus,
    memory: &Memory,
    uid: &str,
) -> bool {
    let said = object.annotations().get(ACKNOWLEDGE_ACCOUNT);
    let in_force = memory.connected.as_ref().map(Ingredients::endpoint);
    in_force.is_some_and(|endpoint| {
        status.endpoint.as_ref() == Some(&endpoint) && said == Some(&endpoint.connection(uid))
    })
}

/// Most objects of a kind that are named while an account waits for the last of them.
const MOST_NAMED: usize = 5;

/// How long a look at what all objects have on record is believed.
const ON_RECORD: Duration = Duration::from_secs(15);

/// What the objects have on record: asked for while the connection is new, or an order may be open elsewhere.
fn on_record(
    process: &Process,
    memory: &Memory,
    key: &AccountKey,
    status: &AccountStatus,
    in_force: Option<&Endpoint>,
    now: Duration,
) -> Option<OnRecord> {
    let is_known = match &memory.open_elsewhere {
        Some((at, lineage, is_open)) => {
            *lineage == status.lineage && (!is_open || now.saturating_sub(*at) < ON_RECORD)
        }
        None => false,
    };
    let is_new = status.lineage.is_none() || status.endpoint.as_ref() != in_force;
    (is_new || !is_known).then(|| process.accounts.on_record(key))?
}

/// Whether an order is open that did not go to the present lineage; taken for granted while nobody knows.
fn open_elsewhere(
    memory: &mut Memory,
    on_record: Option<&OnRecord>,
    status: &AccountStatus,
    now: Duration,
) -> bool {
    let lineage = status.lineage.clone();
    if let Some(on_record) = on_record {
        let is_open = on_record.is_open_elsewhere(lineage.as_deref());
        memory.open_elsewhere = Some((now, lineage.clone(), is_open));
    }
    let known = memory.open_elsewhere.as_ref();
    known.is_none_or(|(_, of, is_open)| *of != lineage || *is_open)
}

/// Whether another process used the account before this one began to act.
fn used_before(
    process: &Process,
    memory: &mut Memory,
    key: &AccountKey,
    status: &AccountStatus,
) -> bool {
    let Some(since) = process.acting_since(key.namespace.as_deref()) else {
        return true;
    };
    let is_used = status.lineage.is_some() || status.endpoint.is_some();
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

/// Ends a connection to where the key may not be sent any more.
fn disconnect<K: AccountObject>(
    ctx: &AccountContext<K>,
    memory: &mut Memory,
    destination: &Destination,
    key: &AccountKey,
    uid: &str,
) {
    let connected = memory.connected.as_ref();
    if connected.is_some_and(|of| !destination.permits(&of.base_url)) {
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
}

impl Found<'_> {
    /// What the entries of the Secret are to the account.
    fn roles(&self, ctx: &Process, memory: &Memory, entries: Option<&Entries>) -> Roles {
        let Some(entries) = entries else {
            return Roles::default();
        };
        let there = |base_url: &str| self.destination.permits(base_url);
        let recorded = self.status.endpoint.as_ref();
        let recorded = recorded.filter(|endpoint| there(&endpoint.base_url));
        let in_force = InForce {
            connected: memory.connected.as_ref().map(|of| &*of.key_hash),
            recorded: recorded.map(|endpoint| &*endpoint.key_hash),
            is_refused: ctx.accounts.is_refused(self.key),
            given_up: memory.beside.given_up.as_deref(),
            is_of_no_use: memory.beside.is_of_no_use.as_deref(),
            left: memory.beside.left.as_deref(),
        };
        next_key::roles(entries, in_force)
    }

    /// For whom a key is tried beside the one in use.
    fn of(&self, ctx: &Process, memory: &Memory, entry: KeyEntry) -> Of<'_> {
        let in_use = memory.connected.as_ref().map(Ingredients::endpoint);
        Of {
            entry,
            key: self.key,
            uid: self.uid,
            status: self.status,
            is_refused: ctx.accounts.is_refused(self.key),
            under: Under::of(self.status, in_use),
        }
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
            key_hash: key.fingerprint(),
            ca_bundle: self.spec.ca_bundle.clone(),
            order_timeout: self.times.order_timeout,
        };
        let mut options = ClientOptions::new(base_url.clone(), key.clone());
        options.dial = ctx.reach.dial(self.key.namespace.as_deref());
        options.ca_bundle = self.spec.ca_bundle.clone().map(String::into_bytes);
        options.order_timeout = self.times.order_timeout;
        let client = Client::new(options).map_err(|error| format!("spec.{}", explain(&error)))?;
        let connection = Connection {
            base_url: base_url.clone(),
            key: key.clone(),
            roots: self.spec.ca_bundle.clone(),
            client,
            word: ingredients.endpoint().connection(self.uid),
        };
        Ok(Candidate {
            ingredients,
            connection,
        })
    }

    /// Whether a connection with this key is the one that there is.
    fn is_connected(&self, memory: &Memory, base_url: &BaseUrl, key: &ApiKey) -> bool {
        memory.connected.as_ref().is_some_and(|of| {
            of.base_url == base_url.as_str()
                && of.key_hash == key.fingerprint()
                && of.ca_bundle == self.spec.ca_bundle
                && of.order_timeout == self.times.order_timeout
        })
    }
}

/// Makes a connection where something that it is made of has changed, and looks after the key beside the one in use. That
/// one takes its place here where it has shown the account: nothing else changes by that.
fn connect(
    ctx: &Process,
    memory: &mut Memory,
    found: &Found<'_>,
    reading: &Reading,
    now: Duration,
) -> (Result<(), String>, Option<Connection>) {
    let base_url = match &found.destination {
        Destination::To(base_url) => base_url,
        Destination::Nowhere(why) => {
            memory.beside.clear(&ctx.accounts, found.key);
            return (Err(why.clone()), None);
        }
        Destination::Unknown(_) => {
            memory.beside.clear(&ctx.accounts, found.key);
            return (Ok(()), None);
        }
    };
    let in_use = memory.connected.as_ref().map(Ingredients::endpoint);
    memory.beside.drop_shown(found.status, in_use.as_ref());
    if let Some(entries) = &reading.entries {
        let next = entries.next.as_ref().and_then(|next| next.as_ref().ok());
        memory.beside.keep(entries.present.as_ref().ok(), next);
    }
    let roles = found.roles(ctx, memory, reading.entries.as_ref());
    if let (Some(in_use), Some(entries)) = (roles.in_use, &reading.entries) {
        let present = entries.present.as_ref().ok();
        memory.beside.left = present.filter(|_| in_use == KeyEntry::Next).cloned();
    }
    let of_entry = |entry| match entry {
        KeyEntry::Present => reading.key.as_ref(),
        KeyEntry::Next => reading.next.as_ref(),
    };
    if let Some(key) = roles.in_use.and_then(of_entry)
        && !found.is_connected(memory, base_url, key)
    {
        return match found.connection(ctx, base_url, key) {
            Ok(made) => {
                memory.connected = Some(made.ingredients);
                (Ok(()), Some(made.connection))
            }
            Err(why) => (Err(why), None),
        };
    }
    let beside = roles.beside.filter(|_| memory.is_connected());
    let Some((entry, key)) = beside.and_then(|entry| Some((entry, of_entry(entry)?))) else {
        memory.beside.clear(&ctx.accounts, found.key);
        return (Ok(()), None);
    };
    let candidate = match found.connection(ctx, base_url, key) {
        Ok(candidate) => candidate,
        Err(why) => return (Err(why), None),
    };
    let of = found.of(ctx, memory, entry);
    let (is_settled, is_refused) = (of.under.is_settled, of.is_refused);
    let taken = beside::look_after(&ctx.accounts, memory, &of, candidate, now);
    let Some((
        Candidate {
            ingredients,
            connection,
        },
        step,
    )) = taken
    else {
        return (Ok(()), None);
    };
    let endpoint = ingredients.endpoint();
    tracing::info!(account = %found.key, %entry, "another key of the Secret is in use from here on");
    let former = memory.connected.replace(ingredients);
    if let Some(former) = former.as_ref().filter(|_| is_refused) {
        let beside = &mut memory.beside;
        beside.note_change(&former.key_hash, &endpoint.key_hash, now);
    }
    // The way back is taken once.
    memory.beside.given_up = former
        .filter(|_| entry == KeyEntry::Present && is_refused)
        .map(|former| former.key_hash);
    memory.beside.clear(&ctx.accounts, found.key);
    // What the key in use showed goes on only if that was this account.
    if step == Step::Replaces || !is_settled {
        return (Ok(()), Some(connection));
    }
    let lineage = found.status.lineage.clone();
    memory.beside.note_shown(endpoint, lineage);
    ctx.accounts.succeed(found.key, found.uid, connection);
    (Ok(()), None)
}

/// The keys, once it is settled which of them is in use.
fn keys_fact(
    ctx: &Process,
    memory: &Memory,
    found: &Found<'_>,
    entries: Option<Entries>,
    now: Duration,
) -> Keys {
    let in_force = memory.connected.as_ref().map(Ingredients::endpoint);
    let beside = &memory.beside;
    let roles = found.roles(ctx, memory, entries.as_ref());
    Keys {
        roles,
        entries,
        tried: beside.tried.clone(),
        waits_for_orders: beside.waits_for_orders,
        again: roles
            .beside
            .and_then(|entry| beside.again(&found.of(ctx, memory, entry), now)),
        is_shown: beside.is_shown(found.status.lineage.as_deref(), in_force.as_ref()),
        is_draining: ctx.accounts.is_draining(found.key),
    }
}

/// The Secret, with the key that counts: that of `apiKeyNext`, where it is in use and the other entry is of no use.
fn counting(fact: SecretFact, keys: &Keys) -> SecretFact {
    let next = keys
        .entries
        .as_ref()
        .and_then(|entries| entries.next.clone());
    match (fact, next) {
        (
            SecretFact::Found {
                key: Err(_),
                deleting,
                has_finalizer,
            },
            Some(Ok(next)),
        ) if keys.roles.in_use == Some(KeyEntry::Next) => SecretFact::Found {
            key: Ok(next),
            deleting,
            has_finalizer,
        },
        (fact, _) => fact,
    }
}

fn explain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
