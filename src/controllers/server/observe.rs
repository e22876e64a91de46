//! Gathers the facts of a server object.

use super::{ServerContext, claims, ssh_keys};
use crate::{
    account::Account,
    controllers::{
        live_account, objects::ObservedObject, power::read_command, writes::ApiServerError,
    },
    runtime::clock,
};
use api::{BareMetalServer, ServerCommand};
use flexmetal_core::{
    account::view::SeenServer,
    explanation::Explanation,
    owner::{self, NAME_HASH, Owner},
    resolved_account::{LiveAccount, ResolvedAccount},
    server::{
        decide::sent_hashes,
        facts::{Installation, ServerFacts, account_of},
        installation::{InstallationParts, list_sources},
        observed::ObservedServer,
        recorded::adopts_named_server,
        refresh::{self, ServerIndex},
    },
    server_commands::{PowerTarget, RunningCommand},
    stored_keys::KeyLookup,
};
use hosting_types::ServerId;
use kube::ResourceExt as _;
use std::sync::Arc;

/// The facts, and the account to act through, if there is one.
pub struct GatheredServerFacts {
    /// The facts.
    pub facts: ServerFacts,
    /// The account that the facts are about.
    pub account: Option<Account>,
}

/// Gathers the facts of an object.
pub async fn observe(ctx: &ServerContext, object: Arc<BareMetalServer>) -> GatheredServerFacts {
    let namespace = object.namespace().unwrap_or_default();
    let uid = object.uid().unwrap_or_default();
    let reference = account_of(&object);
    let acting_since = ctx.leader_since();
    // Before this reconcile remembers anything else.
    if let Some(since) = acting_since {
        ctx.objects
            .remember(&uid, |memory| memory.record_leadership(since));
    }
    let on_record = |account: &Account| is_recorded(ctx, &object, account);
    let (mut account_facts, account) = ctx.account_facts(&namespace, &reference, on_record);
    // Also without our finalizer, since other finalizers may keep the object: the deletion of the kind must not look
    // like a request to release the server.
    let kind_deleting = if object.metadata.deletion_timestamp.is_some() {
        ctx.is_kind_deleting().await
    } else {
        Some(false)
    };
    let account_id = account_facts.view().and_then(|v| v.account_id.as_deref());
    let named_keys = ssh_keys::named(&ctx.stored_keys, &object, account_id);
    let installation = needed_installation(ctx, &object, account_id, &named_keys).await;
    let power = object
        .status
        .as_ref()
        .and_then(|s| s.records.power.as_ref());
    let power_command = read_command(ctx, &namespace, power).await;
    let server = PowerTarget::Server {
        namespace: namespace.clone(),
        name: object.metadata.name.clone().unwrap_or_default(),
    };
    let mut commands = ctx.server_commands.under_way(&server, acting_since);
    // A kind that does not exist is never listed. A recorded release reads the commands live before it is sent.
    if object.metadata.deletion_timestamp.is_some()
        && commands == RunningCommand::NotListed
        && ctx.is_deleting::<ServerCommand>().await == Some(true)
    {
        commands = RunningCommand::Nothing;
    }
    let observation = ctx.objects.first_observation(&uid);
    let first_seen =
        observation.map_or_else(|| clock::now().mono, |observation| observation.first_seen);
    let uids = &ctx.namespace_uids;
    let namespace_uid = uids.read_uid(&ctx.client, &namespace, first_seen).await;
    // The rest is in memory, so all of it is of one moment.
    refresh(&mut account_facts, account.as_ref());
    let observed = ObservedServer {
        memory: ctx.objects.memory(&uid),
        now: clock::now(),
        wall_at_start: clock::wall_at_start(),
        namespace_uid,
        leader_since: acting_since,
        first_seen: observation.map(|observation| observation.first_seen),
        absent_from: observation.and_then(|observation| observation.absent_from),
        cluster: ctx.cluster.clone(),
        read_only: ctx.read_only,
        kind_deleting,
        account: account_facts,
        installation,
        named_keys,
        commands,
        power_command,
        object,
    };
    let outside = account.as_ref().map(|account| ProcessView { ctx, account });
    let facts = observed.facts(outside.as_ref());
    ctx.objects
        .remember(&uid, |memory| *memory = facts.memory.clone());
    GatheredServerFacts { facts, account }
}

/// Puts the account's current view into its facts.
fn refresh(facts: &mut ResolvedAccount, account: Option<&Account>) {
    if let (ResolvedAccount::Found { terms, .. }, Some(account)) = (&*facts, account) {
        *facts = ResolvedAccount::found(account.view(), terms.clone());
    }
}

/// Whether the account has a server or an open order of the object: by its status, by this process's memory, or by what
/// the account lists.
fn is_recorded(ctx: &ServerContext, object: &BareMetalServer, account: &Account) -> bool {
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    let answered = ctx.objects.memory(uid).answer.is_some();
    let place = super::name_hash_of(&ctx.cluster, &object.metadata);
    ctx.objects.has_record(object)
        || answered
        || place.is_some_and(|place| !account.find_servers(&place).is_empty())
}

/// Updates the facts with what this process knows of the object's servers, and remembers the result. Calls nothing.
pub fn refresh_facts(ctx: &ServerContext, facts: &mut ServerFacts, account: Option<&Account>) {
    let uid = facts.uid().to_owned();
    facts.now = clock::now();
    facts.memory = ctx.objects.memory(&uid);
    let outside = account.map(|account| ProcessView { ctx, account });
    refresh(&mut facts.account, account);
    refresh::refresh_facts(facts, outside.as_ref());
    ctx.objects
        .remember(&uid, |memory| *memory = facts.memory.clone());
}

/// What this process knows of servers and their objects.
struct ProcessView<'a> {
    ctx: &'a ServerContext,
    account: &'a Account,
}

impl ServerIndex for ProcessView<'_> {
    fn servers_by_namespaced_name_hash(&self, name_hash: &str) -> Vec<SeenServer> {
        self.account.find_servers(name_hash)
    }

    fn find_server(&self, uuid: &str) -> Option<SeenServer> {
        self.account.find_server(&ServerId::parse(uuid).ok()?)
    }

    fn is_owner(&self, owner: &str, except: &str) -> Option<bool> {
        let name_hash = owner.get(..NAME_HASH)?;
        let namespace = owner::namespace_of(owner);
        let is_seen = self.ctx.watched.sees(&self.ctx.cluster, namespace);
        claims::is_owner(&self.ctx.objects, is_seen, name_hash, except)
    }

    fn is_recorded(&self, uuid: &str, except: &str) -> bool {
        let names = self.ctx.accounts.names_at_url_of(self.account.key());
        let uuid = uuid.to_ascii_lowercase();
        let all = self.ctx.objects.claimants(&uuid, &names);
        all.iter().any(|claimant| *claimant.uid != *except)
    }

    fn is_named(&self, uuid: &str, namespace: &str, except: &str) -> bool {
        let all = self.ctx.objects.referring(&super::names_server(uuid));
        let in_namespace = all.iter().filter(|other| other.namespace == namespace);
        let mut others = in_namespace.filter_map(|other| {
            let place = Owner::new(&self.ctx.cluster, namespace, &other.name, "");
            let uid = self.ctx.objects.by_alias(place.name_hash())?;
            self.ctx.objects.newest(&uid)
        });
        others.any(|other| {
            let meta = other.meta();
            let is_living =
                meta.uid.as_deref() != Some(except) && meta.deletion_timestamp.is_none();
            is_living
                && matches!(other, ObservedObject::Decoded(object) if adopts_named_server(&object, self.account.key()))
        })
    }
}

/// The live account and namespace, read right before an action that costs money or a server: their watches may lag.
/// None: the account does not exist. Err: the API server does not return it.
pub async fn live_account(
    ctx: &ServerContext,
    object: &BareMetalServer,
    account: &Account,
) -> Result<Option<LiveAccount>, ApiServerError> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    live_account::live_account(ctx, namespace, &account_of(object), account).await
}

/// Reads the installation if the last decision waits for it, or once for each generation or key change of an object
/// with a server. None: not read.
async fn needed_installation(
    ctx: &ServerContext,
    object: &BareMetalServer,
    account_id: Option<&str>,
    named: &[KeyLookup],
) -> Option<Result<Installation, Explanation>> {
    let uid = object.uid().unwrap_or_default();
    let generation = object.metadata.generation;
    let memory = ctx.objects.memory(&uid);
    let has_server = object.status.as_ref().is_some_and(|s| s.uuid.is_some());
    let is_edited = has_server
        && !memory
            .installation
            .is_fresh(generation, named, clock::now().mono);
    if !memory.wants_installation && (object.metadata.deletion_timestamp.is_some() || !is_edited) {
        return None;
    }
    let wanted: Vec<_> = list_sources(&object.spec).collect();
    let namespace = object.namespace().unwrap_or_default();
    let values = ctx.values(&namespace, &wanted).await;
    let shown = ssh_keys::named(&ctx.stored_keys, object, account_id);
    let parts = InstallationParts::from_values(object, shown, values);
    let hashes = sent_hashes::hashes(&object.spec, &parts.installation);
    let unread: Vec<&str> = parts.missing.iter().map(|it| it.field).collect();
    let reported = sent_hashes::hashes_from_status(object);
    let now = clock::now().mono;
    ctx.objects.remember(&uid, |memory| {
        let read = (hashes, &unread[..]);
        memory
            .installation
            .record_hashes(generation, named, read, &reported, now);
    });
    Some(parts.whole())
}
