//! The account of an object as a decision sees it: the view that the operator has of it, over lists that are read now.

use super::effects::PlannedOrder;
use crate::{
    account_client::{Account, hosting_error, list_error},
    exit::PluginError,
};
use api::{
    Reason,
    account::{AccountSpec, AccountStatus},
    allowed::AllowedNamespaces,
    conditions::Type,
    limits::Limits,
    names::RESERVED_PREFIX,
    selector::Labels,
    timing::Minimum,
};
use flexmetal_core::{
    account::{
        decide::suspended,
        key::AccountKey,
        terms::Terms,
        view::{
            AccountState, AccountTimes, AccountView, Catalogue, CompleteList, HostsById, ListKind,
            TagsByName,
        },
    },
    cluster_id::ClusterId,
    moment::Moment,
    resolved_account::{ResolvedAccount, closed},
};
use hosting::Client;
use hosting_types::{Server, ServerFilter, ServerStatus, ssh_key::SshKey};
use std::{sync::Arc, time::Duration};

/// The account ID of an account that no operator has recorded yet.
const UNRECORDED: &str = "not recorded yet";

/// The lists of the provider that a plan reads. None: not needed, or not readable.
#[derive(Clone, Default)]
pub struct ProviderLists {
    /// All servers.
    pub servers: Option<Arc<Vec<Server>>>,
    /// What can be ordered.
    pub catalogue: Option<Arc<Catalogue>>,
    /// All tags but the operator's own.
    pub tags: Option<Arc<TagsByName>>,
    /// All stored keys.
    pub ssh_keys: Option<Arc<Vec<SshKey>>>,
    /// All dedicated hosts.
    pub hosts: Option<Arc<HostsById>>,
}

impl ProviderLists {
    /// Reads the lists that were not read yet.
    pub async fn read(&mut self, client: &Client, wanted: &[ListKind]) -> Result<(), PluginError> {
        for list in wanted {
            match list {
                ListKind::Servers if self.servers.is_none() => {
                    let filter = ServerFilter::default();
                    // The longest list: released servers beyond some thousands do not matter.
                    let servers = client.all_servers(&filter).growing();
                    let servers = servers.leaving_out(|it| it.status == ServerStatus::Released);
                    let servers = servers.collect().await;
                    let servers = servers
                        .map_err(|gap| list_error("list the servers of the account", gap))?;
                    self.servers = Some(Arc::new(servers.into_records()));
                }
                ListKind::Catalogue if self.catalogue.is_none() => {
                    self.catalogue = Some(Arc::new(read_catalogue(client).await?));
                }
                ListKind::Tags if self.tags.is_none() => {
                    let tags = client.all_tags().growing().collect().await;
                    let tags =
                        tags.map_err(|gap| list_error("list the tags of the account", gap))?;
                    let tags = tags.into_records().into_iter();
                    let tags = tags.filter(|record| !record.tag.starts_with(RESERVED_PREFIX));
                    let tags = tags.map(|record| (record.tag.clone(), record));
                    self.tags = Some(Arc::new(tags.collect()));
                }
                ListKind::SshKeys if self.ssh_keys.is_none() => {
                    let keys = client.ssh_keys().await;
                    let keys = keys.map_err(|error| hosting_error("list the SSH keys", error))?;
                    self.ssh_keys = Some(Arc::new(keys));
                }
                ListKind::Hosts if self.hosts.is_none() => {
                    let hosts = client.all_hosts(None).collect().await;
                    let hosts =
                        hosts.map_err(|gap| list_error("list the hosts of the account", gap))?;
                    let hosts = hosts.into_records().into_iter();
                    self.hosts = Some(Arc::new(hosts.map(|host| (host.id.0, host)).collect()));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

async fn read_catalogue(client: &Client) -> Result<Catalogue, PluginError> {
    let failed = |error| hosting_error("read what can be ordered", error);
    Ok(Catalogue {
        locations: client.locations().await.map_err(failed)?,
        plans: client.plans().await.map_err(failed)?,
        systems: client.operating_systems().await.map_err(failed)?,
        quotas: client.quota_usage().await.map_err(failed)?,
    })
}

/// An account and what it shows now.
#[derive(Clone)]
pub struct PlannedAccount {
    /// Its name.
    pub key: AccountKey,
    /// Which namespaces may use it; none for the kind that serves only its own.
    entries: Option<Vec<AllowedNamespaces>>,
    /// The view without lists.
    view: AccountView,
    /// What the provider shows.
    pub lists: ProviderLists,
    /// The client; none if its Secret cannot be used.
    pub client: Option<Client>,
    /// The namespaces of the orders that this plan has so far.
    pub planned_orders: Vec<String>,
    /// What the plan assumes about it.
    pub assumptions: Vec<String>,
}

impl PlannedAccount {
    /// An account object with this UID.
    pub fn new(
        key: AccountKey,
        account: &Account,
        uid: &str,
        is_deleting: bool,
        entries: Option<Vec<AllowedNamespaces>>,
    ) -> Self {
        let view = build_view(&key, &account.spec, &account.status, (uid, is_deleting));
        let mut assumptions = Vec::new();
        if account.status.account_id.is_none() {
            assumptions.push(format!("{key} is verified by the operator first"));
        }
        Self {
            key,
            entries,
            view,
            lists: ProviderLists::default(),
            client: None,
            planned_orders: Vec::new(),
            assumptions,
        }
    }

    /// Blocks everything: the account cannot be used.
    pub fn block(&mut self, reason: Reason, message: String) {
        if self.view.state == AccountState::Usable {
            self.view.state = AccountState::Blocked(reason, message);
        }
    }

    /// The terms of a namespace with these labels.
    pub fn terms(&self, namespace: &str, labels: Option<&Labels>) -> Terms {
        Terms::for_namespace(&self.key, self.entries.as_deref(), namespace, labels)
    }

    /// The account as a fact about an object, with all lists read at this moment. `is_recorded`: the object has
    /// something at the account.
    pub fn resolve(
        &self,
        terms: &Terms,
        is_recorded: bool,
        cluster: &ClusterId,
        now: Moment,
    ) -> ResolvedAccount {
        let view = self.view_at(cluster, now);
        match closed(terms) {
            Some(explanation) if !is_recorded => ResolvedAccount::Closed { explanation, view },
            _ => ResolvedAccount::found(view, terms.clone()),
        }
    }

    /// Its own limits.
    pub fn limits(&self) -> Limits {
        self.view.limits.clone()
    }

    /// Its account ID, or words in its place.
    pub fn account_id(&self) -> String {
        self.view.account_id.clone().unwrap_or_default()
    }

    /// How long the operator waits for the answer to an order.
    pub fn order_timeout(&self) -> Duration {
        self.view.times.order_timeout
    }

    fn view_at(&self, cluster: &ClusterId, now: Moment) -> AccountView {
        let at = now.mono;
        let (lists, tag) = (&self.lists, cluster.tag());
        let complete_list = lists.servers.as_ref().map(|servers| {
            let own = servers.iter().filter(|server| server.has_tag(&tag));
            Arc::new(CompleteList {
                began: at,
                ended: at,
                servers: own.cloned().map(Arc::new).collect(),
            })
        });
        AccountView {
            complete_list,
            servers: lists.servers.clone().map(|list| (at, list)),
            catalogue: lists.catalogue.clone().map(|list| (at, list)),
            tags: lists.tags.clone().map(|list| (at, list)),
            ssh_keys: lists.ssh_keys.clone().map(|list| (at, list)),
            hosts: lists.hosts.clone().map(|list| (at, list)),
            ..self.view.clone()
        }
    }

    /// Counts a planned order, so that later ones of the plan find what is left.
    pub fn record_order(&mut self, namespace: &str, order: &PlannedOrder) {
        self.planned_orders.push(namespace.to_owned());
        let Some(catalogue) = &mut self.lists.catalogue else {
            return;
        };
        let is_same = |one: &str, other: &str| one.trim().eq_ignore_ascii_case(other.trim());
        let quotas = Arc::make_mut(catalogue).quotas.iter_mut();
        let quotas = quotas.filter(|of| is_same(&of.location, &order.location));
        let mut pools = quotas.flat_map(|of| &mut of.usages).filter(|pool| {
            let contract = pool.contract_id.as_deref().filter(|it| !it.is_empty());
            is_same(&pool.instance_type, &order.instance_type)
                && contract == order.contract_id.as_deref()
        });
        if let Some(used) = pools.next().and_then(|pool| pool.usage.as_mut()) {
            *used = used.saturating_add(1);
        }
    }
}

/// The view without lists, by what the operator reports of the account.
fn build_view(
    key: &AccountKey,
    spec: &AccountSpec,
    status: &AccountStatus,
    (uid, is_deleting): (&str, bool),
) -> AccountView {
    let timing = status.timing;
    let timing = timing.unwrap_or_else(|| spec.timing.in_force(Minimum::Kept));
    let (state, no_orders) = find_problem(key, spec, status, is_deleting);
    let verified = status.verified.as_ref();
    AccountView {
        state,
        times: AccountTimes::from(timing),
        complete_list: None,
        known: status.records.known_servers.clone(),
        catalogue: None,
        refused: Vec::new(),
        limits: spec.limits.clone(),
        servers: None,
        tags: None,
        ssh_keys: None,
        hosts: None,
        uid: uid.to_owned(),
        credentials_hash: Some(verified.map_or_else(
            || UNRECORDED.to_owned(),
            |endpoint| endpoint.hash_credentials(uid),
        )),
        account_id: Some((status.account_id.clone()).unwrap_or_else(|| UNRECORDED.to_owned())),
        last_error: None,
        list_errors: Default::default(),
        is_unreachable: false,
        outage: None,
        answers_since: None,
        no_orders,
        defaults: Some(spec.defaults.unwrap_or_default()),
        install_form: spec.host_install_form.unwrap_or_default(),
        release_limit: spec.release_limit.map(|limit| {
            let counted = status.release_limit.clone();
            (limit, counted.unwrap_or_default())
        }),
        egress: spec.egress_cidrs.clone(),
    }
}

/// What the operator reports as wrong with the account: what stops everything, and what stops orders.
fn find_problem(
    key: &AccountKey,
    spec: &AccountSpec,
    status: &AccountStatus,
    is_deleting: bool,
) -> (AccountState, Option<(Reason, String)>) {
    if let Some(why) = suspended(key, spec) {
        return (AccountState::Blocked(Reason::Suspended, why), None);
    }
    if is_deleting {
        let text = format!("{key} is being deleted, so nothing is ordered through it");
        return (AccountState::Usable, Some((Reason::AccountNotReady, text)));
    }
    let mut conditions = status.conditions.iter();
    let ready = conditions.find(|it| it.type_ == Type::Ready.as_str() && it.status != "True");
    let problem = ready.and_then(|it| Some((Reason::parse(&it.reason)?, it.message.clone())));
    match problem {
        Some((
            reason @ (Reason::InvalidEndpoint | Reason::AccountChanged | Reason::KeyRejected),
            why,
        )) => (AccountState::Blocked(reason, why), None),
        Some((reason @ (Reason::ReferenceNotFound | Reason::InvalidKey), why)) => {
            match status.verified {
                Some(_) => (AccountState::Usable, Some((reason, why))),
                None => (AccountState::Blocked(reason, why), None),
            }
        }
        _ => (AccountState::Usable, None),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use api::references::AccountKind;
    use hosting_types::quota::{LocationQuota, QuotaUsage};
    use serde_json::{Value, json};

    /// `ProviderAccount a/default` with this spec and status.
    pub fn account(spec: Value, status: Value) -> PlannedAccount {
        let mut spec = spec;
        spec["apiKeySecretRef"] = json!({"name": "key"});
        let account = Account {
            title: "ProviderAccount a/default".into(),
            secret_namespace: "a".into(),
            spec: serde_json::from_value(spec).unwrap(),
            status: serde_json::from_value(status).unwrap(),
        };
        let key = AccountKey::named(AccountKind::ProviderAccount, Some("a"), "default");
        PlannedAccount::new(key, &account, "account-1", false, None)
    }

    fn not_ready(reason: &str, is_verified: bool) -> Value {
        let mut status = json!({"conditions": [{"type": "Ready", "status": "False",
            "reason": reason, "message": "why", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        if is_verified {
            status["verified"] = json!({"baseURL": "https://a.example", "credentialsHash": "c"});
        }
        status
    }

    #[test]
    fn reported_problems_block_as_in_the_operator() {
        let state = |spec, status| {
            let view = account(spec, status).view;
            let blocked = match view.state {
                AccountState::Blocked(reason, _) => Some(reason),
                AccountState::Usable => None,
            };
            (blocked, view.no_orders.map(|(reason, _)| reason))
        };
        let some = |reason| (Some(reason), None);
        assert_eq!(state(json!({}), json!({})), (None, None));
        let suspended = state(json!({"suspend": true}), json!({}));
        assert_eq!(suspended, some(Reason::Suspended));
        let rejected = state(json!({}), not_ready("KeyRejected", true));
        assert_eq!(rejected, some(Reason::KeyRejected));
        let missing = state(json!({}), not_ready("ReferenceNotFound", false));
        assert_eq!(missing, some(Reason::ReferenceNotFound));
        // The last good key still releases.
        let missing = state(json!({}), not_ready("ReferenceNotFound", true));
        assert_eq!(missing, (None, Some(Reason::ReferenceNotFound)));
        let unreachable = state(json!({}), not_ready("ProviderUnreachable", true));
        assert_eq!(unreachable, (None, None), "the plan reads by itself");
    }

    #[test]
    fn planned_order_uses_up_quota() {
        let mut account = account(json!({}), json!({}));
        let pool = |contract: Option<&str>| QuotaUsage {
            instance_type_id: None,
            instance_type: "Small".into(),
            quota_type: "onDemand".into(),
            contract_id: contract.map(Into::into),
            quota: Some(2),
            usage: Some(1),
        };
        account.lists.catalogue = Some(Arc::new(Catalogue {
            quotas: vec![LocationQuota {
                location_id: None,
                location: "Here ".into(),
                usages: vec![pool(Some("C-1")), pool(Some(""))],
            }],
            ..Catalogue::default()
        }));
        let order = PlannedOrder {
            hostname: "web".into(),
            location: "here".into(),
            instance_type: "small".into(),
            os: "some-os".into(),
            contract_id: None,
            overflow: false,
            tags: Vec::new(),
            ssh_keys: 0,
            has_post_install_script: false,
            has_user_data: false,
        };
        account.record_order("a", &order);
        let catalogue = account.lists.catalogue.unwrap();
        let used: Vec<_> = catalogue.quotas[0]
            .usages
            .iter()
            .map(|it| it.usage)
            .collect();
        assert_eq!(used, [Some(1), Some(2)]);
        assert_eq!(account.planned_orders, ["a"]);
    }
}
