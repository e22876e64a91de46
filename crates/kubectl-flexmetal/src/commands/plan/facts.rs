//! Reads what decisions need, once for the whole plan. The objects of the plan count as if they were applied.

use super::{
    account::{FoundAccount, PlannedAccount},
    effects::ApplyResult,
    limits::OrderOwners,
    manifests::PlanItem,
    predict,
    values::{ContentPlace, find_content},
};
use crate::{
    account_client::{self, AccountArgs, NamedAccount, is_forbidden},
    ages,
    context::{ListScope, PluginContext, api_error},
    exit::PluginError,
    objects::{self, Object, ObjectKind, ObjectName},
};
use api::{Reason, ServerCommand, power::PowerRecord, references::PinnedAccount, selector::Labels};
use flexmetal_core::{
    account::{key::AccountKey, terms::Terms, view::ListKind},
    cluster_id::ClusterId,
    command::running::{is_awaited, may_switch},
    ownership::{Claimant, ConflictingOwners, rank_by_age},
    public_key::PublicKey,
    server_commands::{PowerTarget, RunningCommand},
    ssh_key::facts as key_facts,
    stored_keys::{KeyLookup, StoredKey},
    tag::facts::claimed_tag,
    values::Content,
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::ResourceExt as _;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// UUID of a key that the plan stores.
const PLANNED_KEY: &str = "00000000-0000-0000-0000-000000000000";

/// The objects of a kind that the caller may list.
pub struct KnownObjects {
    /// The objects.
    pub objects: Vec<Object>,
    /// Whether these are those of all namespaces.
    pub are_all: bool,
}

/// Reads facts once, and remembers them for the whole plan.
pub struct Gatherer<'a> {
    /// The cluster.
    pub context: &'a PluginContext,
    /// Its identity.
    pub cluster: ClusterId,
    /// The objects of the plan.
    planned: Vec<Object>,
    /// Secrets and ConfigMaps, also those of the plan.
    pub contents: HashMap<ContentPlace, Content>,
    /// `--base-url`.
    base_url: Option<String>,
    accounts: HashMap<AccountKey, Option<PlannedAccount>>,
    lists: HashMap<(ObjectKind, String), Arc<KnownObjects>>,
    namespaces: Option<BTreeMap<String, Arc<Labels>>>,
}

impl<'a> Gatherer<'a> {
    /// Nothing is read yet.
    pub fn new(
        context: &'a PluginContext,
        cluster: ClusterId,
        items: &[PlanItem],
        base_url: Option<String>,
    ) -> Self {
        let admitted = items.iter();
        let admitted = admitted.filter(|it| it.plan.apply != ApplyResult::Refused);
        let contents = admitted.clone().filter_map(find_content);
        Self {
            context,
            cluster,
            contents: contents.collect(),
            planned: admitted.filter_map(|it| it.object.clone()).collect(),
            base_url,
            accounts: HashMap::new(),
            lists: HashMap::new(),
            namespaces: None,
        }
    }

    /// An object of the plan or of the cluster.
    pub async fn find_object(
        &self,
        kind: ObjectKind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Object>, PluginError> {
        if let Some(planned) = self.find_planned(kind, namespace, name) {
            return Ok(Some(planned.clone()));
        }
        let failed = |error| api_error(format!("read {} {name}", kind.as_str()), error);
        let objects = kind.objects(self.context, namespace);
        let found = objects.get_opt(name).await.map_err(failed)?;
        let decoded = found.map(|it| objects::decode(kind, serde_json::to_value(it)?));
        let decoded = decoded.transpose();
        decoded.map_err(|error| failed(kube::Error::SerdeError(error)))
    }

    fn find_planned(
        &self,
        kind: ObjectKind,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<&Object> {
        let mut planned = self.planned.iter();
        planned.find(|it| it.kind() == kind && it.namespace() == namespace && it.name() == name)
    }

    /// The objects of a kind that may concern one of this namespace: those of all namespaces; without the right to list
    /// these, those of the namespace; without any right, none.
    pub async fn list(
        &mut self,
        kind: ObjectKind,
        namespace: &str,
    ) -> Result<Arc<KnownObjects>, PluginError> {
        for place in ["", namespace] {
            if let Some(known) = self.lists.get(&(kind, place.to_owned())) {
                return Ok(known.clone());
            }
        }
        let mut found = None;
        for place in [None, Some(namespace)] {
            let scope = ListScope {
                namespace: place.map(str::to_owned),
                selector: None,
            };
            match objects::list(self.context, kind, &scope).await {
                Ok(objects) => {
                    let are_all = place.is_none();
                    found = Some(KnownObjects { objects, are_all });
                    break;
                }
                Err(error) if is_forbidden(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let known = Arc::new(found.unwrap_or(KnownObjects {
            objects: Vec::new(),
            are_all: false,
        }));
        let place = match known.are_all {
            true => "",
            false => namespace,
        };
        self.lists.insert((kind, place.to_owned()), known.clone());
        Ok(known)
    }

    /// Which objects and namespaces count for the limits of an account.
    pub async fn order_owners(
        &mut self,
        terms: &Terms,
        namespace: &str,
    ) -> Result<OrderOwners, PluginError> {
        if !terms
            .entry()
            .is_some_and(|(_, limits)| limits.has_counters())
        {
            return Ok(OrderOwners::default());
        }
        if self.namespaces.is_none() {
            let namespaces = account_client::list_namespaces(self.context)
                .await?
                .into_iter();
            let labelled = namespaces.map(|it| (it.name_any(), Arc::new(it.labels().clone())));
            self.namespaces = Some(labelled.collect());
        }
        let labels = self.namespaces.clone().unwrap_or_default();
        let servers = self.list(ObjectKind::BareMetalServer, namespace).await?;
        Ok(OrderOwners::new(&self.cluster, &servers.objects, labels))
    }

    /// A namespace: its UID is in the tags of its servers.
    pub async fn read_namespace(&self, name: &str) -> Result<ObjectMeta, PluginError> {
        let namespaces = self.context.api_of_cluster::<Namespace>();
        let found = namespaces.get(name).await;
        let found = found.map_err(|error| api_error(format!("read namespace {name}"), error))?;
        Ok(found.metadata)
    }

    /// The account of an object with these lists, and what it offers the namespace.
    pub async fn find_account(
        &mut self,
        object: &Object,
        wanted: &[ListKind],
    ) -> Result<FoundAccount, PluginError> {
        let reference = object.account();
        let reference = reference.unwrap_or_else(|| PinnedAccount::from_reference(None));
        let namespace = object.namespace().unwrap_or_default();
        let key = AccountKey::from_reference(&reference, namespace);
        if !self.accounts.contains_key(&key) {
            let name = ObjectName::from_account(reference.clone(), Some(namespace));
            let found = self.find_object(name.kind, name.namespace.as_deref(), &name.name);
            let account = match found.await? {
                Some(object) => self.connect_account(&key, &object).await?,
                None => None,
            };
            self.accounts.insert(key.clone(), account);
        }
        let labels = match key.namespace {
            Some(_) => None,
            None => self.read_namespace(namespace).await?.labels,
        };
        let mut account = self.accounts.get_mut(&key).and_then(Option::as_mut);
        let mut terms = Terms::Own;
        if let Some(account) = &mut account {
            account.read_lists(wanted).await?;
            terms = account.terms(namespace, labels.as_ref());
        }
        Ok(FoundAccount {
            account: account.cloned(),
            terms,
            reference,
            key,
            cluster: self.cluster.clone(),
            start: predict::start(),
        })
    }

    /// The remembered account, to count planned orders.
    pub fn account_mut(&mut self, key: &AccountKey) -> Option<&mut PlannedAccount> {
        self.accounts.get_mut(key)?.as_mut()
    }

    async fn connect_account(
        &self,
        key: &AccountKey,
        object: &Object,
    ) -> Result<Option<PlannedAccount>, PluginError> {
        let (Some(mut planned), Some(spec)) = (
            PlannedAccount::new(key.clone(), object),
            object.account_spec(),
        ) else {
            return Ok(None);
        };
        let home = &self.context.operator_namespace;
        let account = NamedAccount {
            title: object.title(),
            secret_namespace: key.namespace.as_ref().unwrap_or(home).clone(),
            spec: spec.clone(),
            status: object.account_status().cloned().unwrap_or_default(),
        };
        let args = AccountArgs {
            account: key.name.clone(),
            cluster_account: None,
            base_url: self.base_url.clone(),
        };
        let connected = match &self.base_url {
            Some(_) => account_client::connect(self.context, &args).await,
            None => account.connect(self.context).await,
        };
        match connected {
            Ok(client) => {
                planned.client = Some(client);
                if account.status.account_id.is_none() {
                    let text =
                        format!("{key} is not verified yet; the plan assumes that it will be");
                    self.context.printer.inform(&text);
                }
            }
            Err(error) if is_not_found(&error) => {
                let text = format!("{}. Plan again when it exists", error.explain());
                planned.block(Reason::AccountNotReady, text);
            }
            Err(error) => return Err(error),
        }
        Ok(Some(planned))
    }

    /// What an SshKey shows to the objects that name it. A key of the same plan counts as stored.
    pub async fn find_key(
        &self,
        namespace: &str,
        name: &str,
        account: Option<&PlannedAccount>,
    ) -> Result<KeyLookup, PluginError> {
        let account_id = account.and_then(|it| it.view.account_id.as_deref());
        let (kind, place) = (ObjectKind::SshKey, Some(namespace));
        let Some(Object::SshKey(key)) = self.find_object(kind, place, name).await? else {
            return Ok(KeyLookup::Missing);
        };
        let is_planned = self.find_planned(kind, place, name).is_some();
        let shown = match key_facts::find_key(&key) {
            KeyLookup::NotReady(_) if is_planned => {
                let parsed = PublicKey::parse(key.spec.public_key.as_bytes());
                KeyLookup::Ready(StoredKey {
                    uid: key.metadata.uid.clone().unwrap_or_default(),
                    uuid: PLANNED_KEY.to_owned(),
                    fingerprint: parsed.map_or(String::new(), |it| it.fingerprint().to_string()),
                    account: key_facts::account_of(&key),
                    account_id: account_id.unwrap_or_default().to_owned(),
                })
            }
            shown => shown,
        };
        Ok(shown.for_account(account_id))
    }

    /// The other objects that claim the same thing of the account. `counts`: whether a claimant may have it.
    pub async fn find_conflicting_owners(
        &mut self,
        object: &Object,
        found: &FoundAccount,
        counts: impl Fn(&Claimant, &Terms) -> bool,
    ) -> Result<ConflictingOwners, PluginError> {
        let namespace = object.namespace().unwrap_or_default();
        let others = self.list(object.kind(), namespace).await?;
        let claimed = match object {
            Object::ServerTag(it) => Some(claimed_tag(it).to_owned()),
            object => find_claim(object),
        };
        let mut claimants: Vec<_> = others.objects.iter().collect();
        claimants.sort_by_key(|it| rank_by_age(it.metadata()));
        let claimants = claimants.into_iter().filter_map(|other| {
            let account = AccountKey::from_reference(&other.account()?, other.namespace()?);
            let is_same =
                account == found.key && find_claim(other).is_some_and(|it| Some(it) == claimed);
            is_same.then(|| Arc::new(Claimant::new(account, other.metadata())))
        });
        let claimants: Vec<_> = claimants.collect();
        let uid = object.metadata().uid.as_deref().unwrap_or_default();
        Ok(ConflictingOwners::find_among(uid, &claimants, |claimant| {
            // The labels of other namespaces are not read.
            let account = found.account.as_ref();
            account.is_none_or(|it| counts(claimant, &it.terms(&claimant.namespace, None)))
        }))
    }

    /// The command that runs for a server or host.
    pub async fn find_running_command(
        &mut self,
        namespace: &str,
        target: &PowerTarget,
    ) -> Result<RunningCommand, PluginError> {
        let now = ages::now().as_second();
        let known = self.list(ObjectKind::ServerCommand, namespace).await?;
        let mut running = known.objects.iter().filter_map(|object| match object {
            Object::ServerCommand(it) if may_switch(it, target) && is_awaited(it, now) => {
                it.metadata.name.clone()
            }
            _ => None,
        });
        Ok(running
            .next()
            .map_or(RunningCommand::Nothing, RunningCommand::Command))
    }

    /// The command of `spec.power` whose end is awaited. The outer None: there is none.
    pub async fn read_power_command(
        &self,
        namespace: &str,
        power: Option<&PowerRecord>,
    ) -> Result<Option<Option<ServerCommand>>, PluginError> {
        let Some(awaited) = power.and_then(PowerRecord::awaited) else {
            return Ok(None);
        };
        let kind = ObjectKind::ServerCommand;
        let found = self.find_object(kind, Some(namespace), &awaited.name);
        Ok(Some(match found.await? {
            Some(Object::ServerCommand(command)) => Some(*command),
            _ => None,
        }))
    }
}

/// What an object claims of its account.
fn find_claim(object: &Object) -> Option<String> {
    match object {
        Object::ServerTag(it) => Some(it.wanted().to_owned()),
        Object::SshKey(it) => key_facts::claim(it),
        Object::IpWhitelist(it) => Some(it.spec.api_key_id.to_string()),
        Object::DedicatedHost(it) => Some(it.spec.host_id.to_string()),
        _ => None,
    }
}

/// Whether the API server says that an object does not exist.
fn is_not_found(error: &PluginError) -> bool {
    let PluginError::ApiServer { source, .. } = error else {
        return false;
    };
    matches!(source.as_ref(), kube::Error::Api(status) if status.code == 404)
}
