//! Reads what decisions need: accounts, namespaces, other objects, and the objects of the same plan.

use super::{
    account::PlannedAccount,
    installation::Content,
    manifests::{DryRun, Manifest},
};
use crate::{
    account_client::{self, Account, AccountArgs, is_forbidden},
    context::{Context, Scope, api_error},
    exit::PluginError,
    objects::Object,
};
use api::{
    BareMetalServer, ClusterProviderAccount, DedicatedHost, IpWhitelist, Kind, ProviderAccount,
    Reason, ServerCommand, ServerTag, SshKey,
    conditions::Type,
    references::{AccountKind, PinnedAccount},
    selector::Labels,
};
use flexmetal_core::{
    account::{key::AccountKey, view::ListKind},
    cluster_id::ClusterId,
    ownership::{Claimant, ConflictingOwners},
    public_key::PublicKey,
    ssh_key::facts::{account_of, is_ready},
    stored_keys::{KeyLookup, StoredKey},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Namespace, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;
use std::{collections::HashMap, sync::Arc};

/// UUID of a key that the plan stores.
const PLANNED_KEY: &str = "00000000-0000-0000-0000-000000000000";

/// The objects of the same plan: decisions see them as if they were applied.
#[derive(Default)]
pub struct PlannedObjects {
    objects: Vec<Object>,
    others: Vec<Manifest>,
}

impl PlannedObjects {
    /// The admitted objects of the plan.
    pub fn new(runs: &[DryRun]) -> Self {
        let admitted = || runs.iter().filter(|run| run.refusal.is_none());
        let others = admitted().filter(|run| run.object.is_none());
        Self {
            objects: admitted().filter_map(|run| run.object.clone()).collect(),
            others: others.map(|run| run.manifest.clone()).collect(),
        }
    }

    /// A Secret or ConfigMap of the plan.
    pub fn find_content(&self, kind: &str, namespace: &str, name: &str) -> Option<Content> {
        let is_it = |manifest: &&Manifest| {
            manifest.kind == kind
                && manifest.namespace.as_deref() == Some(namespace)
                && manifest.name == name
        };
        let body = self.others.iter().find(is_it)?.body.clone();
        match kind {
            "Secret" => {
                let secret = serde_json::from_value::<Secret>(body).ok();
                secret.map(Content::of_secret)
            }
            _ => {
                let map = serde_json::from_value::<ConfigMap>(body).ok();
                map.map(Content::of_config_map)
            }
        }
    }

    fn find_key(&self, namespace: &str, name: &str) -> Option<&SshKey> {
        self.objects.iter().find_map(|object| match object {
            Object::SshKey(key) if is_named(&key.metadata, Some(namespace), name) => Some(&**key),
            _ => None,
        })
    }

    fn find_account(&self, key: &AccountKey) -> Option<&Object> {
        let namespace = key.namespace.as_deref();
        self.objects.iter().find(|object| {
            let is_kind = object.kind().as_str() == key.kind.as_str();
            is_kind && is_named(object.metadata(), namespace, &key.name)
        })
    }

    /// The server or host of the plan that a command names.
    pub fn find(&self, kind: &str, namespace: &str, name: &str) -> Option<&Object> {
        self.objects.iter().find(|object| {
            object.kind().as_str() == kind && is_named(object.metadata(), Some(namespace), name)
        })
    }
}

fn is_named(meta: &ObjectMeta, namespace: Option<&str>, name: &str) -> bool {
    meta.namespace.as_deref() == namespace && meta.name.as_deref() == Some(name)
}

/// What is known of a namespace.
#[derive(Clone)]
pub struct KnownNamespace {
    /// Its UID.
    pub uid: Result<Arc<str>, String>,
    /// Its labels; none if it was not read.
    pub labels: Option<Labels>,
}

/// The objects of a kind that the caller may list.
pub struct KnownObjects<K> {
    /// The objects.
    pub objects: Arc<Vec<K>>,
    /// Whether these are those of all namespaces.
    pub are_all: bool,
}

impl<K> Clone for KnownObjects<K> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            are_all: self.are_all,
        }
    }
}

/// The lists of a kind by the namespace for which they were read.
type ListCache<K> = HashMap<String, KnownObjects<K>>;

/// The lists of all kinds.
#[derive(Default)]
struct Lists {
    servers: ListCache<BareMetalServer>,
    hosts: ListCache<DedicatedHost>,
    tags: ListCache<ServerTag>,
    keys: ListCache<SshKey>,
    whitelists: ListCache<IpWhitelist>,
    commands: ListCache<ServerCommand>,
}

/// Reads facts once, and remembers them for the whole plan.
pub struct Gatherer<'a> {
    /// The cluster.
    pub context: &'a Context,
    /// Its identity.
    pub cluster: ClusterId,
    /// The objects of the same plan.
    pub planned: PlannedObjects,
    /// `--base-url`.
    base_url: Option<String>,
    namespaces: HashMap<String, KnownNamespace>,
    accounts: HashMap<AccountKey, Option<PlannedAccount>>,
    lists: Lists,
}

macro_rules! listed_kinds {
    ($($kind:ident, $list:ident, $method:ident;)+) => {
        $(
            /// The objects of this kind that may concern one of this namespace.
            pub async fn $method(
                &mut self,
                namespace: &str,
            ) -> Result<KnownObjects<$kind>, PluginError> {
                list_known(self.context, &mut self.lists.$list, namespace).await
            }
        )+
    };
}

impl<'a> Gatherer<'a> {
    /// Nothing is read yet.
    pub fn new(
        context: &'a Context,
        cluster: ClusterId,
        planned: PlannedObjects,
        base_url: Option<String>,
    ) -> Self {
        Self {
            context,
            cluster,
            planned,
            base_url,
            namespaces: HashMap::new(),
            accounts: HashMap::new(),
            lists: Lists::default(),
        }
    }

    listed_kinds! {
        BareMetalServer, servers, list_servers;
        DedicatedHost, hosts, list_hosts;
        ServerTag, tags, list_tags;
        SshKey, keys, list_keys;
        IpWhitelist, whitelists, list_whitelists;
        ServerCommand, commands, list_commands;
    }

    /// The UID and the labels of a namespace.
    pub async fn namespace(&mut self, name: &str) -> Result<KnownNamespace, PluginError> {
        if let Some(known) = self.namespaces.get(name) {
            return Ok(known.clone());
        }
        let found = self
            .context
            .api_of_cluster::<Namespace>()
            .get_opt(name)
            .await;
        let found = found.map_err(|error| api_error(format!("read namespace {name}"), error));
        let missing = |why: &str| KnownNamespace {
            uid: Err(why.to_owned()),
            labels: None,
        };
        let known = match found {
            Ok(Some(found)) => KnownNamespace {
                uid: Ok(found.metadata.uid.unwrap_or_default().into()),
                labels: Some(found.metadata.labels.unwrap_or_default()),
            },
            Ok(None) => missing("it does not exist"),
            Err(error) if is_forbidden(&error) => missing(
                "needs \"get\" on namespaces to read its UID, which is in the tags of its servers",
            ),
            Err(error) => return Err(error),
        };
        self.namespaces.insert(name.to_owned(), known.clone());
        Ok(known)
    }

    /// The account of a reference with these lists. None: it does not exist.
    pub async fn account(
        &mut self,
        reference: &PinnedAccount,
        namespace: &str,
        wanted: &[ListKind],
    ) -> Result<Option<PlannedAccount>, PluginError> {
        let key = AccountKey::from_reference(reference, namespace);
        if !self.accounts.contains_key(&key) {
            let account = self.read_account(&key).await?;
            self.accounts.insert(key.clone(), account);
        }
        let Some(Some(account)) = self.accounts.get_mut(&key) else {
            return Ok(None);
        };
        if let Some(client) = account.client.clone() {
            account.lists.read(&client, wanted).await?;
        }
        Ok(Some(account.clone()))
    }

    /// The remembered account, to count planned orders.
    pub fn account_mut(&mut self, key: &AccountKey) -> Option<&mut PlannedAccount> {
        self.accounts.get_mut(key)?.as_mut()
    }

    async fn read_account(&self, key: &AccountKey) -> Result<Option<PlannedAccount>, PluginError> {
        let object = match self.planned.find_account(key) {
            Some(planned) => Some(planned.clone()),
            None => self.read_account_object(key).await?,
        };
        let Some(object) = object else {
            return Ok(None);
        };
        let entries = match &object {
            Object::ClusterProviderAccount(it) => Some(it.spec.allowed_namespaces.clone()),
            _ => None,
        };
        let Some(spec) = object.account_spec() else {
            return Ok(None);
        };
        let account = Account {
            title: object.title(),
            secret_namespace: (key.namespace.clone())
                .unwrap_or_else(|| self.context.operator_namespace.clone()),
            spec: spec.clone(),
            status: object.account_status().cloned().unwrap_or_default(),
        };
        let uid = object.metadata().uid.as_deref().unwrap_or_default();
        let is_deleting = object.deleted_at().is_some();
        let mut planned = PlannedAccount::new(key.clone(), &account, uid, is_deleting, entries);
        let connected = match &self.base_url {
            Some(_) => {
                let args = AccountArgs {
                    account: key.name.clone(),
                    cluster_account: None,
                    base_url: self.base_url.clone(),
                };
                account_client::connect(self.context, &args).await
            }
            None => account.connect(self.context).await,
        };
        match connected {
            Ok(client) => planned.client = Some(client),
            Err(error) if is_not_found(&error) => {
                let text = format!("{}. Plan again when it exists", error.explain());
                planned.block(Reason::AccountNotReady, text);
            }
            Err(error) => return Err(error),
        }
        Ok(Some(planned))
    }

    async fn read_account_object(&self, key: &AccountKey) -> Result<Option<Object>, PluginError> {
        let name = &key.name;
        let found = match key.kind {
            AccountKind::ProviderAccount => {
                let namespace = key.namespace.as_deref().unwrap_or_default();
                let api = self.context.api_in::<ProviderAccount>(namespace);
                api.get_opt(name).await.map(|it| it.map(Object::from))
            }
            AccountKind::ClusterProviderAccount => {
                let api = self.context.api_of_cluster::<ClusterProviderAccount>();
                api.get_opt(name).await.map(|it| it.map(Object::from))
            }
        };
        found.map_err(|error| api_error(format!("read {key}"), error))
    }

    /// What an SshKey shows to the objects that name it. A key of the same plan counts as stored.
    pub async fn look_up_key(
        &mut self,
        namespace: &str,
        name: &str,
        account_id: Option<&str>,
    ) -> Result<KeyLookup, PluginError> {
        if let Some(planned) = self.planned.find_key(namespace, name)
            && !is_ready(planned)
            && let Some(stored) = plan_stored_key(planned, account_id)
        {
            return Ok(KeyLookup::Ready(stored));
        }
        let found = match self.planned.find_key(namespace, name) {
            Some(planned) => Some(planned.clone()),
            None => {
                let found = self.context.api_in::<SshKey>(namespace).get_opt(name).await;
                let act = || format!("read SshKey {namespace}/{name}");
                found.map_err(|error| api_error(act(), error))?
            }
        };
        Ok(found.map_or(KeyLookup::Missing, |key| show_key(&key, account_id)))
    }
}

/// The key of an object that the plan applies, as if the operator had stored it.
fn plan_stored_key(key: &SshKey, account_id: Option<&str>) -> Option<StoredKey> {
    let parsed = PublicKey::parse(key.spec.public_key.as_bytes()).ok()?;
    Some(StoredKey {
        uid: key.metadata.uid.clone()?,
        uuid: PLANNED_KEY.to_owned(),
        fingerprint: parsed.fingerprint().to_string(),
        account: account_of(key),
        account_id: account_id?.to_owned(),
    })
}

/// What a key object shows to the objects that refer to it.
fn show_key(key: &SshKey, account_id: Option<&str>) -> KeyLookup {
    if key.metadata.deletion_timestamp.is_some() {
        return KeyLookup::Ending;
    }
    let status = key.status.as_ref();
    let stored = status.filter(|_| is_ready(key)).and_then(|status| {
        Some(StoredKey {
            uid: key.metadata.uid.clone()?,
            uuid: status.uuid.clone()?,
            fingerprint: status.fingerprint.clone()?,
            account: status.account_ref.clone()?,
            account_id: status.records.account_id.clone()?,
        })
    });
    match stored {
        Some(stored) if Some(stored.account_id.as_str()) == account_id => KeyLookup::Ready(stored),
        Some(_) => KeyLookup::NotReady("key and URL of the account lead to another account".into()),
        None => {
            let mut conditions = status.iter().flat_map(|status| &status.conditions);
            let ready = conditions.find(|it| it.type_ == Type::Ready.as_str());
            let why = ready.filter(|it| it.status != "True");
            KeyLookup::NotReady(match why {
                Some(condition) => format!("its reason is {}", condition.reason),
                None => "it is new or was just changed".to_owned(),
            })
        }
    }
}

/// Whether the API server says that an object does not exist.
fn is_not_found(error: &PluginError) -> bool {
    let PluginError::ApiServer { source, .. } = error else {
        return false;
    };
    matches!(source.as_ref(), kube::Error::Api(status) if status.code == 404)
}

/// The objects of all namespaces; without the right to list those, of this namespace; without any right, none.
async fn list_known<K>(
    context: &Context,
    cache: &mut ListCache<K>,
    namespace: &str,
) -> Result<KnownObjects<K>, PluginError>
where
    K: Kind + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    if let Some(all) = cache.values().find(|known| known.are_all) {
        return Ok(all.clone());
    }
    if let Some(known) = cache.get(namespace) {
        return Ok(known.clone());
    }
    let (objects, are_all) = match context.list::<K>(&Scope::default()).await {
        Ok(objects) => (objects, true),
        Err(error) if is_forbidden(&error) => {
            let own = Scope {
                namespace: Some(namespace.to_owned()),
                selector: None,
            };
            match context.list::<K>(&own).await {
                Ok(objects) => (objects, false),
                Err(error) if is_forbidden(&error) => (Vec::new(), false),
                Err(error) => return Err(error),
            }
        }
        Err(error) => return Err(error),
    };
    let known = KnownObjects {
        objects: Arc::new(objects),
        are_all,
    };
    cache.insert(namespace.to_owned(), known.clone());
    Ok(known)
}

/// The other objects that claim the same thing of an account, the older ones first. `claim`: what an object claims, and
/// of which account.
pub fn find_conflicting_owners<K: Kind>(
    objects: &[K],
    uid: &str,
    (account, claimed): (&AccountKey, &str),
    claim: impl Fn(&K) -> Option<(AccountKey, String)>,
    counts: impl Fn(&Claimant) -> bool,
) -> ConflictingOwners {
    let claimants = objects.iter().filter_map(|object| {
        let meta = object.meta();
        let (of, what) = claim(object)?;
        (of == *account && what == claimed).then(|| {
            let created = meta.creation_timestamp.as_ref();
            let created = created.map_or(0, |time| time.0.as_second());
            let claimant = Claimant {
                uid: meta.uid.as_deref().unwrap_or_default().into(),
                namespace: meta.namespace.clone().unwrap_or_default(),
                name: meta.name.clone().unwrap_or_default(),
                account: of,
                is_deleting: meta.deletion_timestamp.is_some(),
            };
            ((created, claimant.uid.clone()), Arc::new(claimant))
        })
    });
    let mut claimants: Vec<_> = claimants.collect();
    claimants.sort_by(|(one, _), (other, _)| one.cmp(other));
    let claimants: Vec<_> = claimants
        .into_iter()
        .map(|(_, claimant)| claimant)
        .collect();
    ConflictingOwners::find_among(uid, &claimants, counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const PUBLIC_KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBv2kqKzv4gbAvzfF3XuNCOxIvHHFfHOhYGLbn9Dkg1Z";

    fn key(generation: i64, status: Value) -> SshKey {
        let mut key = json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "SshKey",
            "metadata": {"name": "ops", "namespace": "a", "uid": "u", "generation": generation},
            "spec": {"publicKey": PUBLIC_KEY},
        });
        key["status"] = status;
        serde_json::from_value(key).unwrap()
    }

    fn stored() -> Value {
        json!({
            "observedGeneration": 1, "uuid": "u1", "fingerprint": "SHA256:a",
            "records": {"accountID": "l1"},
            "accountRef": {"kind": "ProviderAccount", "name": "default"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "Available",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        })
    }

    #[test]
    fn only_ready_key_of_this_account_is_sent() {
        let ready = |key: &SshKey, id| matches!(show_key(key, id), KeyLookup::Ready(_));
        assert!(ready(&key(1, stored()), Some("l1")));
        assert!(!ready(&key(1, stored()), Some("l2")));
        assert!(
            !ready(&key(2, stored()), Some("l1")),
            "it was changed since"
        );
        assert!(!ready(&key(1, json!({})), Some("l1")));
    }

    #[test]
    fn key_of_the_plan_counts_as_stored() {
        let planned = plan_stored_key(&key(1, json!({})), Some("l1")).unwrap();
        assert_eq!(
            (planned.uuid.as_str(), planned.account_id.as_str()),
            (PLANNED_KEY, "l1")
        );
        assert!(planned.fingerprint.starts_with("SHA256:"));
        assert_eq!(plan_stored_key(&key(1, json!({})), None), None);
    }

    #[test]
    fn oldest_object_with_the_same_claim_owns_it() {
        let tag = |name: &str, created: &str, tag: &str| -> ServerTag {
            serde_json::from_value(json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerTag",
                "metadata": {"name": name, "namespace": "a", "uid": name, "creationTimestamp": created},
                "spec": {"tag": tag},
            }))
            .unwrap()
        };
        let objects = [
            tag("young", "2026-02-01T00:00:00Z", "blue"),
            tag("old", "2026-01-01T00:00:00Z", "blue"),
            tag("other", "2025-01-01T00:00:00Z", "red"),
        ];
        let account = AccountKey::named(AccountKind::ProviderAccount, Some("a"), "default");
        let owner = |uid: &str| {
            let claim = |tag: &ServerTag| Some((account.clone(), tag.wanted().to_owned()));
            let found = find_conflicting_owners(&objects, uid, (&account, "blue"), claim, |_| true);
            found.owner.map(|owner| owner.name.clone())
        };
        assert_eq!(owner("young").as_deref(), Some("old"));
        assert_eq!(owner("old"), None);
        assert_eq!(owner("new").as_deref(), Some("old"), "not listed yet");
    }

    #[test]
    fn contents_of_the_plan_are_found_by_place() {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "boot", "namespace": "a"}, "data": {"script": "one"}});
        let planned = PlannedObjects {
            objects: Vec::new(),
            others: vec![Manifest {
                api_version: "v1".into(),
                kind: "ConfigMap".into(),
                namespace: Some("a".into()),
                name: "boot".into(),
                body,
            }],
        };
        let found = planned.find_content("ConfigMap", "a", "boot").unwrap();
        let Content::Found { values, .. } = found else {
            panic!("{found:?}");
        };
        assert_eq!(values["script"], b"one");
        assert_eq!(planned.find_content("ConfigMap", "b", "boot"), None);
        assert_eq!(planned.find_content("Secret", "a", "boot"), None);
    }
}
