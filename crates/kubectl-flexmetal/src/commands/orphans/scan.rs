//! Finds the orphans of an account as the operator does, and retained servers.

use super::OrphansArgs;
use crate::{
    account_client::{self, NamedAccount, hosting_error, list_namespaces, list_servers},
    cluster_identity::{find_cluster_id, unknown_cluster_id},
    context::PluginContext,
    exit::PluginError,
    server_manifests::ManifestTarget,
    server_owners::{OrderFacts, ServerOwners},
};
use api::names::{CLUSTER_TAG, RETAINED_TAG};
use flexmetal_core::{
    account::{key::AccountKey, orphan_scan::is_untagged, ownership_tags},
    cluster_id::ClusterId,
    owner::{namespace_hash, namespace_of},
};
use hosting::Client;
use hosting_types::{Server, ServerFilter, ServerId};
use kube::ResourceExt as _;
use std::collections::HashMap;

/// The servers of an account, and the orphans among them.
pub struct OrphanScan {
    /// Which objects adopt the orphans.
    pub target: ManifestTarget,
    /// All servers of the account.
    pub servers: Vec<Server>,
    /// All objects.
    pub owners: ServerOwners,
    /// The orphans, the oldest first.
    pub orphans: Vec<Server>,
    cluster: ClusterId,
    /// The namespaces that the caller may list.
    namespaces: Vec<String>,
}

impl OrphanScan {
    /// Lists servers and objects. `chosen`: a server whose own record is read, too.
    pub async fn start(
        context: &PluginContext,
        args: &OrphansArgs,
        chosen: Option<&ServerId>,
    ) -> Result<(Client, Self), PluginError> {
        let account = args.account.reference();
        let (client, known, key) = match args.account.base_url {
            Some(_) => {
                let client = account_client::connect(context, &args.account).await?;
                (client, Vec::new(), None)
            }
            None => {
                let object = NamedAccount::get(context, &args.account).await?;
                let client = object.connect(context).await?;
                let key = AccountKey::from_reference(&account, &context.namespace);
                (client, object.status.records.known_servers, Some(key))
            }
        };
        let mut servers = list_servers(&client, &ServerFilter::default()).await?;
        let is_known = |server: &Server| known.iter().any(|it| server.id == *it.uuid);
        if !known.is_empty() && !servers.iter().any(is_known) {
            return Err(PluginError::Other(
                "the list of servers shows none that the account is known by; check that the key belongs to the account, and the conditions of the account object".into(),
            ));
        }
        // After the servers: an object that was created meanwhile owns its server.
        let owners = ServerOwners::list(context).await?;
        if !owners.is_complete {
            return Err(PluginError::NotAllowed(
                "orphans cannot be told from servers of other namespaces: needs \"list\" on baremetalservers in all namespaces".into(),
            ));
        }
        if let Some(id) = chosen {
            let read = client.server(id).await;
            let read = read.map_err(|error| hosting_error(format!("read server {id}"), error))?;
            let listed = servers.iter().find(|server| server.id == *id);
            // An object that is not listed yet may have it by now.
            if listed.is_some_and(|listed| listed.tags != read.tags) {
                return Err(PluginError::Other(format!(
                    "the tags of server {id} changed meanwhile; run the command again"
                )));
            }
            servers.retain(|server| server.id != *id);
            servers.push(read);
        }
        // Not by the tags of servers that objects name: a name proves no ownership.
        let cluster = find_cluster_id(context, &args.cluster_id).await?;
        let cluster = cluster.ok_or_else(|| unknown_cluster_id(context))?;
        let namespaces = list_namespaces(context).await?.into_iter();
        let namespaces = namespaces.map(|it| (it.name_any(), it.uid().unwrap_or_default()));
        let namespaces: HashMap<_, _> = namespaces.collect();
        let mut scan = Self {
            owners: owners.with_orders(OrderFacts {
                cluster: Some(cluster.clone()),
                account: key,
                namespace_uids: namespaces.clone(),
            }),
            target: ManifestTarget {
                namespace: context.namespace.clone(),
                account,
                cluster: Some(cluster.clone()),
            },
            orphans: Vec::new(),
            namespaces: namespaces.into_keys().collect(),
            cluster,
            servers,
        };
        scan.orphans = scan.find_orphans();
        Ok((client, scan))
    }

    /// The orphan with this UUID. Err: why the server is none.
    pub fn find_orphan(&self, id: &ServerId) -> Result<&Server, PluginError> {
        let orphan = self.orphans.iter().find(|server| server.id == *id);
        orphan.ok_or_else(|| {
            let why = self.explain_no_orphan(id);
            PluginError::Usage(format!("server {id} is no orphan: {why}"))
        })
    }

    /// The orphan with this UUID that may be released: it has the tag of this cluster and of no other, and nobody
    /// retained it.
    pub fn find_own_orphan(&self, id: &ServerId) -> Result<&Server, PluginError> {
        let server = self.find_orphan(id)?;
        let own = self.cluster.tag();
        let is_foreign = |tag: &&String| tag.starts_with(CLUSTER_TAG) && **tag != own;
        let why = if !server.has_tag(&own) {
            format!(
                "has lost the tag {own}, so it is not released; adopt it, or add the tag at the provider"
            )
        } else if let Some(tag) = server.tags.iter().find(is_foreign) {
            format!("also has the tag {tag} of another cluster, so it is not released")
        } else if ownership_tags::is_retained(server) {
            format!(
                "has the tag {RETAINED_TAG}, so it is not released; remove the tag at the provider first"
            )
        } else {
            return Ok(server);
        };
        Err(PluginError::Usage(format!("server {id} {why}")))
    }

    /// The namespace in the order tag, if the caller may know it.
    pub fn find_namespace(&self, server: &Server) -> Option<&str> {
        let mut names = self.namespaces.iter();
        let found = names.find(|name| {
            let hash = namespace_hash(self.cluster.as_str(), name);
            ownership_tags::owners(server).any(|owner| namespace_of(owner) == hash)
        });
        found.map(String::as_str)
    }

    /// Servers that the operator reports as orphans, and retained ones.
    fn find_orphans(&self) -> Vec<Server> {
        let is_ours = |server: &Server| {
            let has_lost_its_tag = is_untagged(server) && self.find_namespace(server).is_some();
            server.has_tag(&self.cluster.tag()) || has_lost_its_tag
        };
        let servers = self.servers.iter();
        let orphans = servers
            .filter(|it| it.status.is_live() && is_ours(it) && self.owners.find(it).is_none());
        let mut orphans: Vec<_> = orphans.cloned().collect();
        orphans.sort_by_cached_key(|server| (server.created_at, server.id.clone()));
        orphans
    }

    /// Why a server is no orphan, and what to do instead.
    fn explain_no_orphan(&self, id: &ServerId) -> String {
        let Some(server) = self.servers.iter().find(|server| server.id == *id) else {
            return "the account has no such server".into();
        };
        if let Some(owner) = self.owners.find(server) {
            return format!("{} has it; change or delete that object", owner.title());
        }
        match server.status.is_live() {
            false => format!("it is {}", server.status.as_str()),
            true if server.has_tag(&self.cluster.tag()) => {
                "the operator does not count it as one".into()
            }
            true => {
                "it has no tag of this cluster; kubectl flexmetal import gives its manifest".into()
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::{
        server_manifests::tests::default_target,
        server_owners::tests::{cluster, ordered, owners, server, uuid},
    };
    use serde_json::json;

    /// A scan of these servers. The caller knows these namespaces.
    pub fn scan(servers: Vec<Server>, owners: ServerOwners, namespaces: &[&str]) -> OrphanScan {
        let mut scan = OrphanScan {
            target: default_target(),
            servers,
            owners,
            orphans: Vec::new(),
            cluster: cluster(),
            namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
        };
        scan.orphans = scan.find_orphans();
        scan
    }

    fn ids(scan: &OrphanScan) -> Vec<&str> {
        scan.orphans.iter().map(|it| it.id.as_str()).collect()
    }

    #[test]
    fn orphans_are_live_servers_without_an_object() {
        let released = Server {
            status: hosting_types::ServerStatus::Released,
            ..ordered(4, "a", "gone")
        };
        let servers = vec![
            ordered(1, "a", "gone"),
            ordered(2, "a", "web"),
            server(3, "delivered"),
            released,
        ];
        let web = [("a", "web", json!({}), json!({}))];
        let scan = scan(servers, owners(&web), &["a"]);
        assert_eq!(ids(&scan), [uuid(1)]);
        let why = |number| {
            let id = ServerId::parse(&uuid(number)).unwrap();
            scan.find_orphan(&id).unwrap_err().to_string()
        };
        assert!(why(2).contains("BareMetalServer a/web"), "{}", why(2));
        assert!(why(3).contains("no tag of this cluster"), "{}", why(3));
        assert!(why(4).contains("released"), "{}", why(4));
        assert!(why(5).contains("no such server"), "{}", why(5));
    }

    #[test]
    fn orphan_without_the_cluster_tag_is_not_released() {
        let mut bare = ordered(1, "a", "gone");
        bare.tags.retain(|tag| tag.starts_with("fmo-order:"));
        let scan = scan(vec![bare, ordered(2, "a", "gone")], owners(&[]), &["a"]);
        let id = |number| ServerId::parse(&uuid(number)).unwrap();
        assert!(scan.find_orphan(&id(1)).is_ok());
        assert!(scan.find_own_orphan(&id(1)).is_err());
        assert!(scan.find_own_orphan(&id(2)).is_ok());
    }

    #[test]
    fn foreign_or_retained_orphan_is_not_released() {
        let with = |number, tag: &str| {
            let mut orphan = ordered(number, "a", "gone");
            orphan.tags.push(tag.to_owned());
            orphan
        };
        let servers = vec![
            with(1, "fmo-cluster:fedcba9876543210"),
            with(2, RETAINED_TAG),
            with(3, "web"),
        ];
        let scan = scan(servers, owners(&[]), &["a"]);
        let may = |number| {
            let id = ServerId::parse(&uuid(number)).unwrap();
            scan.find_own_orphan(&id).is_ok()
        };
        assert_eq!([may(1), may(2), may(3)], [false, false, true]);
    }

    #[test]
    fn recorded_server_without_order_tag_is_no_orphan() {
        let bare = Server {
            tags: vec![cluster().tag()],
            ..server(1, "delivered")
        };
        let recorded = owners(&[("a", "web", json!({}), json!({"uuid": uuid(1)}))]);
        assert!(ids(&scan(vec![bare.clone()], recorded, &["a"])).is_empty());
        assert_eq!(ids(&scan(vec![bare], owners(&[]), &["a"])), [uuid(1)]);
    }
}
