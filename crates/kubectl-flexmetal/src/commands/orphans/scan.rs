//! Finds the orphans of an account as the operator does.

use crate::{
    account_client::{self, Account, AccountArgs, is_forbidden, list_error},
    cluster_identity::{ClusterIdArgs, find_cluster_id, infer_cluster_id, unknown_cluster_id},
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
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

/// The servers of an account, and the orphans among them.
pub struct OrphanScan {
    /// The client that listed them.
    pub client: Client,
    /// The identity of this cluster.
    pub cluster: ClusterId,
    /// Where an object of the context's namespace is, with the account.
    pub target: ManifestTarget,
    facts: OrphanFacts,
    orphans: Vec<Server>,
}

/// What decides which servers are orphans.
struct OrphanFacts {
    servers: Vec<Server>,
    owners: ServerOwners,
    /// Names and UIDs.
    namespaces: HashMap<String, String>,
    /// A list without any of these is not of this account.
    known: Vec<KnownServer>,
    account: Option<AccountKey>,
}

impl OrphanScan {
    /// Lists servers and objects.
    pub async fn start(
        context: &Context,
        account: &AccountArgs,
        cluster_id: &ClusterIdArgs,
    ) -> Result<Self, PluginError> {
        let target = ManifestTarget::new(&context.namespace, account);
        let (client, known, key) = match account.base_url {
            Some(_) => (
                account_client::connect(context, account).await?,
                Vec::new(),
                None,
            ),
            None => {
                let object = Account::read(context, account).await?;
                let client = object.connect(context).await?;
                let key = AccountKey::named(
                    target.account_kind,
                    Some(&target.namespace),
                    &target.account,
                );
                (client, object.status.records.known_servers, Some(key))
            }
        };
        let filter = ServerFilter::default();
        let list = client.all_servers(&filter).growing().collect().await;
        let servers = list
            .map_err(|incomplete| list_error("list the servers of the account", incomplete))?
            .into_records();
        // After the servers: an object that was created meanwhile owns its server.
        let owners = list_all_objects(context).await?;
        let cluster = match find_cluster_id(context, cluster_id).await? {
            Some(cluster) => Some(cluster),
            None => infer_cluster_id(&servers, &owners),
        };
        let cluster = cluster.ok_or_else(|| unknown_cluster_id(context))?;
        let facts = OrphanFacts {
            owners: owners.with_cluster(&cluster),
            servers,
            namespaces: list_namespaces(context).await?,
            known,
            account: key,
        };
        let orphans = facts.find_orphans(&cluster)?;
        Ok(Self {
            client,
            cluster,
            target,
            facts,
            orphans,
        })
    }

    /// The orphans, the oldest first.
    pub fn orphans(&self) -> &[Server] {
        &self.orphans
    }

    /// The orphan with this UUID. Err: why the server is none.
    pub fn find_orphan(&self, id: &ServerId) -> Result<&Server, PluginError> {
        let orphan = self.orphans.iter().find(|server| server.id == *id);
        orphan.ok_or_else(|| {
            let server = self.facts.servers.iter().find(|server| server.id == *id);
            let why = server.map_or_else(
                || "the account has no such server".to_owned(),
                |server| explain_no_orphan(server, &self.facts.owners, &self.cluster),
            );
            PluginError::Usage(format!("server {id} is no orphan: {why}"))
        })
    }

    /// The namespace in the order tag, if the caller may know it.
    pub fn find_namespace(&self, server: &Server) -> Option<&str> {
        let hashes: HashSet<&str> = ownership_tags::owners(server).map(namespace_of).collect();
        let mut names = self.facts.namespaces.keys();
        let found = names.find(|name| {
            let hash = namespace_hash(self.cluster.as_str(), name);
            hashes.contains(&*hash)
        });
        found.map(String::as_str)
    }

    /// All servers of the account.
    pub fn servers(&self) -> &[Server] {
        &self.facts.servers
    }

    /// All objects.
    pub fn owners(&self) -> &ServerOwners {
        &self.facts.owners
    }

    /// Lists all objects again, and checks that the server as it is now is still an orphan.
    pub async fn check_again(&self, context: &Context, server: &Server) -> Result<(), PluginError> {
        let owners = list_all_objects(context).await?.with_cluster(&self.cluster);
        let others = self.facts.servers.iter().filter(|it| it.id != server.id);
        let facts = OrphanFacts {
            servers: others.chain([server]).cloned().collect(),
            owners,
            namespaces: self.facts.namespaces.clone(),
            known: self.facts.known.clone(),
            account: self.facts.account.clone(),
        };
        let orphans = facts.find_orphans(&self.cluster)?;
        if orphans.iter().any(|it| it.id == server.id) {
            return Ok(());
        }
        let why = explain_no_orphan(server, &facts.owners, &self.cluster);
        Err(PluginError::Usage(format!(
            "server {} is no orphan any more: {why}",
            server.id
        )))
    }
}

impl OrphanFacts {
    fn find_orphans(&self, cluster: &ClusterId) -> Result<Vec<Server>, PluginError> {
        let tag = cluster.tag();
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
        let hashes = names.map(|name| namespace_hash(cluster.as_str(), name));
        let without_tag = untagged(without_tag, claims.as_ref(), hashes.collect());
        let disowned = self.owners.disowned(
            &self.servers,
            self.account.as_ref(),
            cluster,
            &self.namespaces,
        );
        let found = find_orphans(
            &list,
            &tag,
            &self.known,
            claims.as_ref(),
            &disowned,
            &self.owners.ordering(),
            &without_tag,
        );
        match found {
            Some(OrphanScanResult::Found(orphans)) => {
                let orphans = orphans.into_iter();
                // An object may have its server although somebody removed the order tag.
                let unrecorded = orphans.filter(|server| !self.owners.records(&server.id));
                Ok(unrecorded.map(|server| (*server).clone()).collect())
            }
            Some(OrphanScanResult::NotChecked) => Err(needs_all_objects()),
            None => Err(PluginError::Other(
                "the list of servers shows none that the account is known by; check that the key belongs to the account, and the conditions of the account object".into(),
            )),
        }
    }
}

async fn list_all_objects(context: &Context) -> Result<ServerOwners, PluginError> {
    let owners = ServerOwners::list(context).await?;
    match owners.is_complete {
        true => Ok(owners),
        false => Err(needs_all_objects()),
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
        Ok(namespaces) => namespaces,
        Err(error) if is_forbidden(&error) => Vec::new(),
        Err(error) => return Err(error),
    };
    let named = namespaces.into_iter().map(|it| {
        let uid = it.uid().unwrap_or_default();
        (it.name_any(), uid)
    });
    Ok(named.collect())
}

/// Why a server is no orphan, and what to do instead.
fn explain_no_orphan(server: &Server, owners: &ServerOwners, cluster: &ClusterId) -> String {
    if let Some(owner) = owners.find(server) {
        return format!("{} has it; change or delete that object", owner.title());
    }
    if !server.status.is_live() {
        return format!("it is {}", server.status.as_str());
    }
    if ownership_tags::is_retained(server) {
        return "it has the tag fmo-retained, so it was kept on purpose; kubectl flexmetal import gives its manifest"
            .into();
    }
    if !server.has_tag(&cluster.tag()) {
        return "it has no tag of this cluster; kubectl flexmetal import gives its manifest".into();
    }
    "the operator does not count it as one".into()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::{
        commands::servers::tests::server,
        server_manifests::tests::target,
        server_objects::tests::uuid,
        server_owners::tests::{cluster, ordered, owners},
    };
    use hosting::ClientOptions;
    use hosting_types::{BaseUrl, secret::ApiKey};
    use serde_json::json;

    /// A scan of these servers. The caller knows these namespaces, whose UID is `1`.
    pub fn scan(servers: Vec<Server>, owners: ServerOwners, namespaces: &[&str]) -> OrphanScan {
        let url = BaseUrl::parse("https://api.example.com").unwrap();
        let key = ApiKey::parse(b"key").unwrap();
        let namespaces = namespaces.iter().map(|name| ((*name).into(), "1".into()));
        let facts = OrphanFacts {
            servers,
            owners,
            namespaces: namespaces.collect(),
            known: Vec::new(),
            account: None,
        };
        OrphanScan {
            client: Client::new(ClientOptions::new(url, key)).unwrap(),
            cluster: cluster(),
            target: target(),
            orphans: facts.find_orphans(&cluster()).unwrap(),
            facts,
        }
    }

    fn ids(scan: &OrphanScan) -> Vec<&str> {
        scan.orphans().iter().map(|it| it.id.as_str()).collect()
    }

    #[test]
    fn orphans_are_live_servers_of_this_cluster_without_an_object() {
        let mut retained = ordered(3, "a", "kept");
        retained.tags.push("fmo-retained".into());
        let servers = vec![
            ordered(1, "a", "gone"),
            ordered(2, "a", "web"),
            retained,
            server(4, "delivered"),
            Server {
                status: hosting_types::ServerStatus::Released,
                ..ordered(5, "a", "gone")
            },
        ];
        let web = [("a", "web", json!({}), json!({}))];
        let scan = scan(servers, owners(&web), &["a"]);
        assert_eq!(ids(&scan), [uuid(1)]);
        let why = |number| {
            let id = ServerId::parse(&uuid(number)).unwrap();
            scan.find_orphan(&id).unwrap_err().to_string()
        };
        assert!(why(2).contains("BareMetalServer a/web"), "{}", why(2));
        assert!(why(3).contains("fmo-retained"), "{}", why(3));
        assert!(why(4).contains("no tag of this cluster"), "{}", why(4));
        assert!(why(5).contains("released"), "{}", why(5));
        assert!(why(6).contains("no such server"), "{}", why(6));
    }

    #[test]
    fn recorded_server_without_its_order_tag_is_no_orphan() {
        let untagged = Server {
            tags: vec![cluster().tag()],
            ..server(1, "delivered")
        };
        let recorded = [("a", "web", json!({}), json!({"uuid": uuid(1)}))];
        let found = scan(vec![untagged.clone()], owners(&recorded), &["a"]);
        assert!(ids(&found).is_empty());
        let found = scan(vec![untagged], owners(&[]), &["a"]);
        assert_eq!(ids(&found), [uuid(1)]);
    }

    #[test]
    fn list_without_a_known_server_shows_no_orphans() {
        let known: KnownServer =
            serde_json::from_value(json!({"uuid": uuid(9), "orderTag": "x"})).unwrap();
        let facts = OrphanFacts {
            servers: vec![ordered(1, "a", "gone")],
            owners: owners(&[]),
            namespaces: HashMap::new(),
            known: vec![known],
            account: None,
        };
        assert!(facts.find_orphans(&cluster()).is_err());
    }
}
