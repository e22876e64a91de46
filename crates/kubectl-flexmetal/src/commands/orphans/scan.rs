//! Finds the orphans of an account as the operator does, and retained servers.

use super::OrphansArgs;
use crate::{
    account_client::{self, Account, hosting_error, is_forbidden, list_servers},
    cluster_identity::{find_by_servers, unknown_cluster_id},
    context::Context,
    exit::PluginError,
    server_manifests::ManifestTarget,
    server_owners::ServerOwners,
};
use api::account::KnownServer;
use flexmetal_core::{
    account::{
        key::AccountKey,
        orphan_scan::{MOST_UNTAGGED, OrphanScanResult, find_orphans, is_untagged, untagged},
        ownership_tags,
        view::CompleteList,
    },
    cluster_id::ClusterId,
    owner::{namespace_hash, namespace_of},
};
use hosting::Client;
use hosting_types::{Server, ServerFilter, ServerId};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use std::{collections::HashMap, sync::Arc, time::Duration};

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
    /// Names and UIDs of the namespaces that the caller may list.
    namespaces: HashMap<String, String>,
}

/// What the account object says of its servers.
#[derive(Default)]
struct AccountFacts {
    /// A list without any of these is not of this account.
    known: Vec<KnownServer>,
    key: Option<AccountKey>,
}

impl OrphanScan {
    /// Lists servers and objects. `chosen`: a server whose own record is read, too.
    pub async fn start(
        context: &Context,
        args: &OrphansArgs,
        chosen: Option<&ServerId>,
    ) -> Result<(Client, Self), PluginError> {
        let account = args.account.reference();
        let (client, facts) = match args.account.base_url {
            Some(_) => {
                let client = account_client::connect(context, &args.account).await?;
                (client, AccountFacts::default())
            }
            None => {
                let object = Account::read(context, &args.account).await?;
                let key = AccountKey::from_reference(&account, &context.namespace);
                let facts = AccountFacts {
                    key: Some(key),
                    known: object.status.records.known_servers.clone(),
                };
                (object.connect(context).await?, facts)
            }
        };
        let mut servers = list_servers(&client, &ServerFilter::default()).await?;
        // After the servers: an object that was created meanwhile owns its server.
        let owners = ServerOwners::list(context).await?;
        if !owners.is_complete {
            return Err(needs_all_objects());
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
        let cluster = find_by_servers(context, &args.cluster_id, &servers, &owners).await?;
        let cluster = cluster.ok_or_else(|| unknown_cluster_id(context))?;
        let mut scan = Self {
            target: ManifestTarget {
                namespace: context.namespace.clone(),
                account,
                cluster: Some(cluster.clone()),
            },
            owners: owners.with_cluster(&cluster),
            orphans: Vec::new(),
            namespaces: list_namespaces(context).await?,
            cluster,
            servers,
        };
        scan.orphans = scan.find_orphans(&facts)?;
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

    /// The orphan with this UUID, which has the tag of this cluster: only such a server may be released.
    pub fn find_own_orphan(&self, id: &ServerId) -> Result<&Server, PluginError> {
        let server = self.find_orphan(id)?;
        match server.has_tag(&self.cluster.tag()) {
            true => Ok(server),
            false => Err(PluginError::Usage(format!(
                "server {id} has lost the tag {}, so it is not released; adopt it, or add the tag at the provider",
                self.cluster.tag()
            ))),
        }
    }

    /// The namespace in the order tag, if the caller may know it.
    pub fn find_namespace(&self, server: &Server) -> Option<&str> {
        let mut names = self.namespaces.keys();
        let found = names.find(|name| {
            let hash = namespace_hash(self.cluster.as_str(), name);
            ownership_tags::owners(server).any(|owner| namespace_of(owner) == hash)
        });
        found.map(String::as_str)
    }

    /// Servers that the operator reports as orphans, and retained ones.
    fn find_orphans(&self, account: &AccountFacts) -> Result<Vec<Server>, PluginError> {
        let tag = self.cluster.tag();
        let claims = self.owners.claims();
        let shared = |server: &Server| Arc::new(server.clone());
        let ours = self.servers.iter().filter(|server| server.has_tag(&tag));
        let list = CompleteList {
            began: Duration::ZERO,
            ended: Duration::ZERO,
            servers: ours.map(shared).collect(),
        };
        let without_tag = self.servers.iter().filter(|server| is_untagged(server));
        let without_tag = without_tag.take(MOST_UNTAGGED).map(shared).collect();
        let names = self.namespaces.keys();
        let hashes = names.map(|name| namespace_hash(self.cluster.as_str(), name));
        let without_tag = untagged(without_tag, claims.as_ref(), hashes.collect());
        let disowned = self.owners.disowned(
            &self.servers,
            account.key.as_ref(),
            &self.cluster,
            &self.namespaces,
        );
        let found = find_orphans(
            &list,
            &tag,
            &account.known,
            claims.as_ref(),
            &disowned,
            &self.owners.ordering(),
            &without_tag,
        );
        let found = match found {
            Some(OrphanScanResult::Found(orphans)) => orphans,
            Some(OrphanScanResult::NotChecked) => return Err(needs_all_objects()),
            None => return Err(PluginError::Other(
                "the list of servers shows none that the account is known by; check that the key belongs to the account, and the conditions of the account object".into(),
            )),
        };
        let found = found.iter().map(|server| server.as_ref().clone());
        let retained = list.servers.iter().filter(|server| {
            let is_retained = server.status.is_live() && ownership_tags::is_retained(server);
            is_retained && self.owners.find(server).is_none()
        });
        let retained = retained.map(|server| server.as_ref().clone());
        // An object may have its server although somebody removed the order tag.
        let unrecorded = |server: &Server| self.owners.find_recorded(&server.id).is_none();
        let mut orphans: Vec<_> = found.chain(retained).filter(unrecorded).collect();
        orphans.sort_by_cached_key(|server| (server.created_at, server.id.clone()));
        Ok(orphans)
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

fn needs_all_objects() -> PluginError {
    PluginError::NotAllowed(
        "orphans cannot be told from servers of other namespaces: needs \"list\" on baremetalservers in all namespaces".into(),
    )
}

/// Names and UIDs of all namespaces; none without the right.
async fn list_namespaces(context: &Context) -> Result<HashMap<String, String>, PluginError> {
    let namespaces = match context.list_of_cluster::<Namespace>().await {
        Err(error) if is_forbidden(&error) => Vec::new(),
        listed => listed?,
    };
    let named = namespaces.iter();
    let named = named.map(|it| (it.name_any(), it.uid().unwrap_or_default()));
    Ok(named.collect())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::{
        server_manifests::tests::default_target,
        server_owners::tests::{cluster, ordered, owners, record, server, uuid},
    };
    use serde_json::json;

    /// A scan of these servers. The caller knows these namespaces, whose UID is `1`.
    pub fn scan(servers: Vec<Server>, owners: ServerOwners, namespaces: &[&str]) -> OrphanScan {
        let namespaces = namespaces.iter().map(|name| ((*name).into(), "1".into()));
        let mut scan = OrphanScan {
            target: default_target(),
            servers,
            owners,
            orphans: Vec::new(),
            cluster: cluster(),
            namespaces: namespaces.collect(),
        };
        scan.orphans = scan.find_orphans(&AccountFacts::default()).unwrap();
        scan
    }

    fn retained(number: u8, name: &str) -> Server {
        let mut server = ordered(number, "a", name);
        server.tags.push("fmo-retained".into());
        server
    }

    fn ids(scan: &OrphanScan) -> Vec<&str> {
        scan.orphans.iter().map(|it| it.id.as_str()).collect()
    }

    #[test]
    fn orphans_are_live_servers_of_this_cluster_without_an_object() {
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
    fn retained_server_is_shown_unless_an_object_has_it() {
        let servers = vec![retained(1, "gone"), retained(2, "web"), retained(3, "db")];
        let objects = owners(&[
            ("a", "web", json!({}), record(9, Some("Created"))),
            ("a", "db", json!({}), json!({})),
        ]);
        assert_eq!(ids(&scan(servers, objects, &["a"])), [uuid(2), uuid(1)]);
    }

    #[test]
    fn recorded_server_without_its_order_tag_is_no_orphan() {
        let bare = Server {
            tags: vec![cluster().tag()],
            ..server(1, "delivered")
        };
        let recorded = owners(&[("a", "web", json!({}), json!({"uuid": uuid(1)}))]);
        assert!(ids(&scan(vec![bare.clone()], recorded, &["a"])).is_empty());
        assert_eq!(ids(&scan(vec![bare], owners(&[]), &["a"])), [uuid(1)]);
    }

    #[test]
    fn list_without_a_known_server_shows_no_orphans() {
        let known = json!([{"uuid": uuid(9), "orderTag": "x"}]);
        let facts = AccountFacts {
            known: serde_json::from_value(known).unwrap(),
            key: None,
        };
        let scan = scan(vec![ordered(1, "a", "gone")], owners(&[]), &[]);
        assert!(scan.find_orphans(&facts).is_err());
    }
}
