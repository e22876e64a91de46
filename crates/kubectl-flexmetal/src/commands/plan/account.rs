//! The account of an object as a decision sees it: the view that the operator has of it, over lists that are read now.

use crate::{
    account_client::{hosting_error, list_error},
    exit::PluginError,
    objects::Object,
};
use api::{
    Reason,
    account::{AccountSpec, AccountStatus},
    allowed::AllowedNamespaces,
    names::RESERVED_PREFIX,
    references::PinnedAccount,
    selector::Labels,
    timing::Minimum,
};
use flexmetal_core::{
    account::{
        decide::problem::find_reported_problem,
        key::AccountKey,
        order_supply::Demand,
        terms::Terms,
        view::{AccountState, AccountTimes, AccountView, Catalogue, CompleteList, ListKind},
    },
    cluster_id::ClusterId,
    moment::Moment,
    resolved_account::{ResolvedAccount, closed},
};
use hosting::Client;
use hosting_types::{Order, Server, ServerFilter, ServerStatus};
use std::{sync::Arc, time::Duration};

/// The account ID of an account that no operator has recorded yet.
const UNRECORDED: &str = "not recorded yet";

/// An account and what it shows now.
#[derive(Clone)]
pub struct PlannedAccount {
    /// Its name.
    pub key: AccountKey,
    /// What it shows. The moments of its lists do not count.
    pub view: AccountView,
    /// The client; none if its Secret does not exist.
    pub client: Option<Client>,
    /// Which namespaces may use it; none for the kind that serves only its own.
    pub entries: Option<Vec<AllowedNamespaces>>,
    /// The namespaces of the orders that this plan has so far.
    pub planned_orders: Vec<String>,
}

impl PlannedAccount {
    /// An account object. None: it is of another kind.
    pub fn new(key: AccountKey, object: &Object) -> Option<Self> {
        let spec = object.account_spec()?;
        let status = object.account_status().cloned().unwrap_or_default();
        let uid = object.metadata().uid.as_deref().unwrap_or_default();
        Some(Self {
            view: build_view(&key, spec, &status, uid, object.deleted_at().is_some()),
            client: None,
            entries: match object {
                Object::ClusterProviderAccount(it) => Some(it.spec.allowed_namespaces.clone()),
                _ => None,
            },
            planned_orders: Vec::new(),
            key,
        })
    }

    /// Blocks everything: the account cannot be used.
    pub fn block(&mut self, reason: Reason, message: String) {
        if self.view.state == AccountState::Usable {
            self.view.state = AccountState::Blocked(reason, message);
        }
    }

    /// What it offers a namespace with these labels.
    pub fn terms(&self, namespace: &str, labels: Option<&Labels>) -> Terms {
        Terms::for_namespace(&self.key, self.entries.as_deref(), namespace, labels)
    }

    /// Reads the lists that were not read yet.
    pub async fn read_lists(&mut self, wanted: &[ListKind]) -> Result<(), PluginError> {
        let Some(client) = &self.client else {
            return Ok(());
        };
        let (view, at) = (&mut self.view, Duration::ZERO);
        for list in wanted {
            match list {
                ListKind::Servers if view.servers.is_none() => {
                    let filter = ServerFilter::default();
                    // The longest list: released servers beyond some thousands do not matter.
                    let servers = client.all_servers(&filter).growing();
                    let servers = servers.leaving_out(|it| it.status == ServerStatus::Released);
                    let servers = servers.collect().await;
                    let servers = servers
                        .map_err(|gap| list_error("list the servers of the account", gap))?;
                    view.servers = Some((at, Arc::new(servers.into_records())));
                }
                ListKind::Catalogue if view.catalogue.is_none() => {
                    view.catalogue = Some((at, Arc::new(read_catalog(client).await?)));
                }
                ListKind::Tags if view.tags.is_none() => {
                    let tags = client.all_tags().growing().collect().await;
                    let tags =
                        tags.map_err(|gap| list_error("list the tags of the account", gap))?;
                    let tags = tags.into_records().into_iter();
                    let tags = tags.filter(|record| !record.tag.starts_with(RESERVED_PREFIX));
                    let tags = tags.map(|record| (record.tag.clone(), record));
                    view.tags = Some((at, Arc::new(tags.collect())));
                }
                ListKind::SshKeys if view.ssh_keys.is_none() => {
                    let keys = client.ssh_keys().await;
                    let keys = keys.map_err(|error| hosting_error("list the SSH keys", error))?;
                    view.ssh_keys = Some((at, Arc::new(keys)));
                }
                ListKind::Hosts if view.hosts.is_none() => {
                    let hosts = client.all_hosts(None).collect().await;
                    let hosts =
                        hosts.map_err(|gap| list_error("list the hosts of the account", gap))?;
                    let hosts = hosts.into_records().into_iter();
                    let hosts = hosts.map(|host| (host.id.0, host)).collect();
                    view.hosts = Some((at, Arc::new(hosts)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// All servers of the account.
    pub fn servers(&self) -> &[Server] {
        let servers = self.view.servers.as_ref();
        servers.map_or(&[], |(_, servers)| servers)
    }

    /// The same, to be changed.
    pub fn servers_mut(&mut self) -> Option<&mut Vec<Server>> {
        let (_, servers) = self.view.servers.as_mut()?;
        Some(Arc::make_mut(servers))
    }

    /// The view, with all lists read at this moment.
    fn view_at(&self, cluster: &ClusterId, now: Moment) -> AccountView {
        let (mut view, at, tag) = (self.view.clone(), now.mono, cluster.tag());
        view.complete_list = view.servers.as_ref().map(|(_, servers)| {
            let own = servers.iter().filter(|server| server.has_tag(&tag));
            Arc::new(CompleteList {
                began: at,
                ended: at,
                servers: own.cloned().map(Arc::new).collect(),
            })
        });
        view.servers = view.servers.map(|(_, list)| (at, list));
        view.catalogue = view.catalogue.map(|(_, list)| (at, list));
        view.tags = view.tags.map(|(_, list)| (at, list));
        view.ssh_keys = view.ssh_keys.map(|(_, list)| (at, list));
        view.hosts = view.hosts.map(|(_, list)| (at, list));
        view
    }

    /// Counts a planned order, so that later ones of the plan find what is left.
    pub fn record_order(&mut self, namespace: &str, order: &Order) {
        self.planned_orders.push(namespace.to_owned());
        if let Some((_, catalogue)) = &mut self.view.catalogue {
            Demand::from_order(order).use_quota(Arc::make_mut(catalogue));
        }
    }
}

/// The account of an object, and what it offers the object's namespace.
pub struct FoundAccount {
    /// Its name.
    pub key: AccountKey,
    /// What the object refers to.
    pub reference: PinnedAccount,
    /// None: it does not exist.
    pub account: Option<PlannedAccount>,
    /// What it offers.
    pub terms: Terms,
    /// Identity of the cluster.
    pub cluster: ClusterId,
    /// When the plan begins.
    pub start: Moment,
}

impl FoundAccount {
    /// The account as a fact. `is_recorded`: the object has something at the account.
    pub fn resolve(&self, is_recorded: bool, now: Moment) -> ResolvedAccount {
        let Some(account) = &self.account else {
            return ResolvedAccount::missing(&self.reference);
        };
        let view = account.view_at(&self.cluster, now);
        match closed(&self.terms) {
            Some(explanation) if !is_recorded => ResolvedAccount::Closed { explanation, view },
            _ => ResolvedAccount::found(view, self.terms.clone()),
        }
    }
}

async fn read_catalog(client: &Client) -> Result<Catalogue, PluginError> {
    let failed = |error| hosting_error("read what can be ordered", error);
    Ok(Catalogue {
        locations: client.locations().await.map_err(failed)?,
        plans: client.plans().await.map_err(failed)?,
        systems: client.operating_systems().await.map_err(failed)?,
        quotas: client.quota_usage().await.map_err(failed)?,
    })
}

/// The view without lists, by what the operator reports of the account.
fn build_view(
    key: &AccountKey,
    spec: &AccountSpec,
    status: &AccountStatus,
    uid: &str,
    is_deleting: bool,
) -> AccountView {
    let timing = status.timing;
    let timing = timing.unwrap_or_else(|| spec.timing.in_force(Minimum::Kept));
    let (state, no_orders) = find_reported_problem(key, spec, status, is_deleting);
    let verified = status.verified.as_ref().map(|it| it.hash_credentials(uid));
    let unrecorded = || UNRECORDED.to_owned();
    AccountView {
        state,
        times: AccountTimes::from(timing),
        known: status.records.known_servers.clone(),
        limits: spec.limits.clone(),
        uid: uid.to_owned(),
        credentials_hash: Some(verified.unwrap_or_else(unrecorded)),
        account_id: Some(status.account_id.clone().unwrap_or_else(unrecorded)),
        no_orders,
        defaults: Some(spec.defaults.unwrap_or_default()),
        install_form: spec.host_install_form.unwrap_or_default(),
        release_limit: spec.release_limit.map(|limit| {
            let counted = status.release_limit.clone();
            (limit, counted.unwrap_or_default())
        }),
        egress: spec.egress_cidrs.clone(),
        ..AccountView::usable()
    }
}

#[cfg(test)]
pub mod tests {
    use super::{super::predict::moment_at, *};
    use crate::objects::{ObjectKind, decode};
    use flexmetal_core::owner::Owner;
    use hosting_types::ServerId;
    use serde_json::{Value, json};

    pub const NOW: i64 = 1_790_000_000;

    /// `ProviderAccount a/default` with this spec and status.
    pub fn account(mut spec: Value, status: &Value) -> PlannedAccount {
        spec["apiKeySecretRef"] = json!({"name": "key"});
        let object = json!({"metadata": {"name": "default", "namespace": "a", "uid": "account-1"},
            "spec": spec, "status": status});
        let object = decode(ObjectKind::ProviderAccount, object).unwrap();
        let key = AccountKey::from_reference(&PinnedAccount::from_reference(None), "a");
        PlannedAccount::new(key, &object).unwrap()
    }

    /// The same, found by an object of its namespace.
    pub fn found(spec: Value, status: &Value) -> FoundAccount {
        let account = account(spec, status);
        FoundAccount {
            key: account.key.clone(),
            reference: PinnedAccount::from_reference(None),
            account: Some(account),
            terms: Terms::Own,
            cluster: ClusterId::from_namespace_uid("u"),
            start: moment_at(NOW),
        }
    }

    /// A server of an object in this namespace.
    pub fn server(number: u8, namespace: &str, status: &str, created: i64) -> Server {
        let cluster = ClusterId::from_namespace_uid("u");
        let owner = Owner::new(&cluster, namespace, "web", "ns-1");
        Server {
            id: ServerId::parse(&format!("00000000-0000-4000-8000-0000000000{number:02x}"))
                .unwrap(),
            name: "web".into(),
            status: ServerStatus::parse(status),
            status_message: String::new(),
            location_id: None,
            location: "Here".into(),
            instance_type_id: None,
            instance_type: "small".into(),
            os_slug: "some-os".into(),
            addresses: vec!["192.0.2.1".into()],
            tags: vec![cluster.tag(), owner.order_tag(1_789_000_000)],
            created_at: Some(created),
            delivered_at: Some(created + 600),
            released_at: None,
            contract_id: None,
        }
    }
}
