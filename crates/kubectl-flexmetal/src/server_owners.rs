//! Which BareMetalServer owns a server of the provider: by the UUIDs that it names, or by the order tag of the server.

use crate::{
    account_client::is_forbidden,
    context::{Context, Scope},
    exit::PluginError,
};
use api::{BareMetalServer, references::PinnedAccount};
use flexmetal_core::{
    account::{key::AccountKey, ownership_tags},
    cluster_id::ClusterId,
    owner::Owner,
};
use hosting_types::{Server, ServerId};
use kube::ResourceExt as _;
use std::collections::{HashMap, HashSet};

/// All objects, by what they own.
#[derive(Debug, Default)]
pub struct ServerOwners {
    objects: Vec<ServerOwner>,
    by_uuid: HashMap<ServerId, usize>,
    by_name_hash: HashMap<String, usize>,
    /// Whether these are the objects of all namespaces.
    pub is_complete: bool,
}

/// An object that may have a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOwner {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The account that it uses.
    account: AccountKey,
    /// The server that it ordered or adopted.
    recorded: Option<ServerId>,
    /// Whether the outcome of its order is not known.
    has_open_order: bool,
}

impl ServerOwner {
    fn from_object(object: &BareMetalServer) -> Self {
        let namespace = object.namespace().unwrap_or_default();
        let status = object.status.as_ref();
        let account = PinnedAccount::in_force(
            status.and_then(|it| it.account_ref.as_ref()),
            object.spec.account_ref.as_ref(),
        );
        let order = status.and_then(|it| it.records.order.as_ref());
        let recorded = order.and_then(|order| order.created());
        Self {
            account: AccountKey::from_reference(&account, &namespace),
            recorded: recorded.and_then(|id| ServerId::parse(id).ok()),
            has_open_order: order.is_some_and(|order| order.outcome.is_none()),
            name: object.name_any(),
            namespace,
        }
    }

    /// Such as `BareMetalServer team-a/web`.
    pub fn title(&self) -> String {
        format!("BareMetalServer {}/{}", self.namespace, self.name)
    }
}

impl ServerOwners {
    /// Lists the objects of all namespaces live. Without the right it lists those of the context's namespace, and warns.
    pub async fn list(context: &Context) -> Result<Self, PluginError> {
        match context.list(&Scope::default()).await {
            Ok(objects) => Ok(Self::index(&objects, true)),
            Err(error) if is_forbidden(&error) => {
                context.printer.warn(&format!(
                    "warning: needs \"list\" on baremetalservers in all namespaces to see the servers of other namespaces; only those of {} are known",
                    context.namespace
                ));
                let scope = Scope {
                    namespace: Some(context.namespace.clone()),
                    selector: None,
                };
                Ok(Self::index(&context.list(&scope).await?, false))
            }
            Err(error) => Err(error),
        }
    }

    fn index(objects: &[BareMetalServer], is_complete: bool) -> Self {
        let mut by_uuid = HashMap::new();
        for (at, object) in objects.iter().enumerate() {
            let status = object.status.as_ref();
            let order = status.and_then(|it| it.records.order.as_ref());
            let replaced = status.into_iter().flat_map(|it| &it.replaced_servers);
            let uuids = [
                status.and_then(|it| it.uuid.as_deref()),
                order.and_then(|order| order.server.as_deref()),
                object.spec.external_id.as_deref(),
            ];
            let uuids = uuids.into_iter().flatten();
            for uuid in uuids.chain(replaced.map(|it| &*it.uuid)) {
                if let Ok(id) = ServerId::parse(uuid) {
                    by_uuid.insert(id, at);
                }
            }
        }
        Self {
            objects: objects.iter().map(ServerOwner::from_object).collect(),
            by_uuid,
            by_name_hash: HashMap::new(),
            is_complete,
        }
    }

    /// Order tags have hashes over this identity: without it only UUIDs show the owner.
    #[must_use]
    pub fn with_cluster(mut self, cluster: &ClusterId) -> Self {
        let named = self.objects.iter().enumerate();
        let hashes = named.map(|(at, it)| (name_hash(cluster, &it.namespace, &it.name), at));
        self.by_name_hash = hashes.collect();
        self
    }

    /// Whether an object names the server by its UUID.
    pub fn records(&self, id: &ServerId) -> bool {
        self.by_uuid.contains_key(id)
    }

    /// The object that names the server, or whose order tag it has.
    pub fn find(&self, server: &Server) -> Option<&ServerOwner> {
        let mut hashes = ownership_tags::name_hashes(server);
        let by_tag = hashes.find_map(|hash| self.by_name_hash.get(hash));
        let at = self.by_uuid.get(&server.id).or(by_tag)?;
        self.objects.get(*at)
    }

    /// The names of the objects in a namespace.
    pub fn names_in(&self, namespace: &str) -> HashSet<String> {
        let all = self.objects.iter();
        let own = all.filter(|object| object.namespace == namespace);
        own.map(|object| object.name.clone()).collect()
    }

    /// The name hashes of all objects. None: not all namespaces are known.
    pub fn claims(&self) -> Option<HashSet<String>> {
        self.is_complete
            .then(|| self.by_name_hash.keys().cloned().collect())
    }

    /// The name hashes of objects with an open order.
    pub fn ordering(&self) -> HashSet<String> {
        let open = self.by_name_hash.iter().filter(|(_, at)| {
            let object = self.objects.get(**at);
            object.is_some_and(|object| object.has_open_order)
        });
        open.map(|(hash, _)| hash.clone()).collect()
    }

    /// The servers that the objects in their order tags disown, as the operator decides it: another account has the
    /// object's server, or the namespace was created again. `namespace_uids`: those that are known.
    pub fn disowned(
        &self,
        servers: &[Server],
        account: Option<&AccountKey>,
        cluster: &ClusterId,
        namespace_uids: &HashMap<String, String>,
    ) -> HashSet<String> {
        let is_disowned = |server: &&Server| {
            let mut owners = ownership_tags::owners(server).peekable();
            owners.peek().is_some()
                && owners.all(|owner| {
                    let at = owner
                        .get(..flexmetal_core::owner::NAME_HASH)
                        .and_then(|hash| self.by_name_hash.get(hash));
                    let object = at.and_then(|at| self.objects.get(*at));
                    object.is_some_and(|object| {
                        let is_elsewhere = object.recorded.is_some()
                            && account.is_some_and(|account| object.account != *account);
                        let uid = namespace_uids.get(&object.namespace);
                        let is_of_previous_namespace = uid.is_some_and(|uid| {
                            let now = Owner::new(cluster, &object.namespace, &object.name, uid);
                            now.as_str() != owner
                        });
                        object.recorded.as_ref() != Some(&server.id)
                            && (is_elsewhere || is_of_previous_namespace)
                    })
                })
        };
        let disowned = servers.iter().filter(is_disowned);
        disowned.map(|it| it.id.as_str().to_owned()).collect()
    }
}

/// What the order tags of an object start with, whatever the UID of its namespace.
pub fn name_hash(cluster: &ClusterId, namespace: &str, name: &str) -> String {
    let owner = Owner::new(cluster, namespace, name, "");
    owner.name_hash().to_owned()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::{commands::servers::tests::server, server_objects::tests::uuid};
    use serde_json::{Value, json};

    /// The identity in tests.
    pub fn cluster() -> ClusterId {
        ClusterId::parse("0123456789abcdef").unwrap()
    }

    /// An index of these objects of all namespaces: namespace, name, spec, status.
    pub fn owners(all: &[(&str, &str, Value, Value)]) -> ServerOwners {
        let objects: Vec<BareMetalServer> = all
            .iter()
            .map(|(namespace, name, spec, status)| {
                serde_json::from_value(json!({
                    "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
                    "metadata": {"namespace": namespace, "name": name, "uid": "1"},
                    "spec": spec, "status": status,
                }))
                .unwrap()
            })
            .collect();
        ServerOwners::index(&objects, true).with_cluster(&cluster())
    }

    /// A delivered server with the tags of an order of this object, whose namespace has the UID `1`.
    pub fn ordered(number: u8, namespace: &str, name: &str) -> Server {
        let owner = Owner::new(&cluster(), namespace, name, "1");
        Server {
            tags: vec![cluster().tag(), owner.order_tag(7)],
            ..server(number, "delivered")
        }
    }

    fn record(number: u8, outcome: Option<&str>) -> Value {
        let mut order = json!({
            "uid": "1", "seq": 7, "sendBy": "2026-11-01T00:00:00Z", "accountID": "x",
            "server": uuid(number),
        });
        if let Some(outcome) = outcome {
            order["outcome"] = json!(outcome);
        }
        json!({"records": {"order": order}})
    }

    #[test]
    fn server_is_owned_by_uuid_or_order_tag() {
        let owners = owners(&[
            ("a", "shown", json!({}), json!({"uuid": uuid(1)})),
            (
                "a",
                "named",
                json!({"externalID": uuid(0xa2).to_uppercase()}),
                json!({}),
            ),
            ("b", "adopts", json!({}), record(3, Some("Adopting"))),
            ("b", "tagged", json!({}), json!({})),
        ]);
        let owner = |server: &Server| owners.find(server).map(ServerOwner::title);
        let title = |number| owner(&server(number, "delivered"));
        assert_eq!(title(1).as_deref(), Some("BareMetalServer a/shown"));
        assert_eq!(title(0xa2).as_deref(), Some("BareMetalServer a/named"));
        assert_eq!(title(3).as_deref(), Some("BareMetalServer b/adopts"));
        assert_eq!(title(4), None);
        let tagged = owner(&ordered(4, "b", "tagged"));
        assert_eq!(tagged.as_deref(), Some("BareMetalServer b/tagged"));
        assert_eq!(owner(&ordered(4, "a", "tagged")), None);
    }

    #[test]
    fn object_of_a_recreated_namespace_disowns_its_former_server() {
        let owners = owners(&[("a", "web", json!({}), json!({}))]);
        let servers = [ordered(1, "a", "web"), ordered(2, "a", "gone")];
        let disowned = |uid: Option<&str>| {
            let uids = uid.map(|uid| ("a".to_owned(), uid.to_owned()));
            let uids = uids.into_iter().collect();
            owners.disowned(&servers, None, &cluster(), &uids)
        };
        assert!(disowned(Some("1")).is_empty());
        assert!(disowned(None).is_empty(), "unknown UIDs disown nothing");
        assert_eq!(disowned(Some("2")), HashSet::from([uuid(1)]));
    }

    #[test]
    fn object_with_a_server_elsewhere_disowns_this_one() {
        let objects = [("a", "web", json!({}), record(9, Some("Created")))];
        let account = |name: &str| AccountKey::named(Default::default(), Some("a"), name);
        let disowned = |own: u8, account: &AccountKey| {
            let servers = [ordered(own, "a", "web")];
            let owners = owners(&objects);
            let found = owners.disowned(&servers, Some(account), &cluster(), &HashMap::new());
            !found.is_empty()
        };
        assert!(disowned(1, &account("other")));
        assert!(!disowned(1, &account("default")));
        assert!(!disowned(9, &account("other")), "its own server");
    }

    #[test]
    fn open_orders_are_known_by_their_name_hash() {
        let owners = owners(&[
            ("a", "open", json!({}), record(1, None)),
            ("a", "done", json!({}), record(2, Some("Created"))),
        ]);
        let open = name_hash(&cluster(), "a", "open");
        assert_eq!(owners.ordering(), HashSet::from([open.clone()]));
        assert!(owners.claims().unwrap().contains(&open));
    }
}
