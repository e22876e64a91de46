//! Which BareMetalServer owns a server of the provider: by the UUIDs that it names, or by the order tag of the server.

use crate::{
    account_client::{AccountArgs, is_forbidden},
    context::{Context, Scope},
    exit::PluginError,
};
use api::{BareMetalServer, references::PinnedAccount};
use flexmetal_core::{
    account::{key::AccountKey, ownership_tags},
    cluster_id::ClusterId,
    owner::{NAME_HASH, Owner},
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
#[derive(Clone, Debug)]
pub struct ServerOwner {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The provider's message for its server, without texts that may be secret.
    pub message: Option<String>,
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
        let order = status.and_then(|it| it.records.order.as_ref());
        let recorded = order.and_then(|order| order.created());
        Self {
            account: AccountKey::from_reference(&account_of(object), &namespace),
            message: status.and_then(|it| it.status_message.clone()),
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

fn account_of(object: &BareMetalServer) -> PinnedAccount {
    let status = object.status.as_ref();
    let pinned = status.and_then(|status| status.account_ref.as_ref());
    PinnedAccount::in_force(pinned, object.spec.account_ref.as_ref())
}

impl ServerOwners {
    /// Lists the objects of all namespaces live. Without the right it lists those of the context's namespace, and warns.
    pub async fn list(context: &Context) -> Result<Self, PluginError> {
        match context.list(&Scope::default()).await {
            Ok(objects) => Ok(Self::index(&objects, true)),
            Err(error) if is_forbidden(&error) => {
                context.printer.warn(&format!(
                    "warning: needs \"list\" on baremetalservers in all namespaces to know all objects; only those of namespace {} are known",
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

    /// The same; no objects if the caller may list none.
    pub async fn list_allowed(context: &Context) -> Result<Self, PluginError> {
        match Self::list(context).await {
            Err(error) if is_forbidden(&error) => {
                context.printer.warn(&format!(
                    "warning: no objects are shown: {}",
                    error.explain()
                ));
                Ok(Self::default())
            }
            listed => listed,
        }
    }

    fn index(objects: &[BareMetalServer], is_complete: bool) -> Self {
        let mut by_uuid = HashMap::new();
        // What an object has now counts more than what it had, or what another one only names.
        for (at, object) in objects.iter().enumerate() {
            let replaced = object.status.iter().flat_map(|it| &it.replaced_servers);
            by_uuid.extend(replaced.filter_map(|it| Some((ServerId::parse(&it.uuid).ok()?, at))));
        }
        let uuids: [fn(&BareMetalServer) -> Option<&str>; 3] = [
            |it| it.spec.external_id.as_deref(),
            |it| {
                it.status
                    .as_ref()?
                    .records
                    .order
                    .as_ref()?
                    .server
                    .as_deref()
            },
            |it| it.status.as_ref()?.uuid.as_deref(),
        ];
        for uuid in uuids {
            let named = objects.iter().map(uuid).enumerate();
            by_uuid.extend(named.filter_map(|(at, id)| Some((ServerId::parse(id?).ok()?, at))));
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

    /// The object that names the server by its UUID.
    pub fn find_recorded(&self, id: &ServerId) -> Option<&ServerOwner> {
        self.objects.get(*self.by_uuid.get(id)?)
    }

    /// The object that names the server, or whose order tag it has. An object that has another server by now does not
    /// own one that was retained.
    pub fn find(&self, server: &Server) -> Option<&ServerOwner> {
        let mut tagged = ownership_tags::name_hashes(server).filter_map(|it| self.tagged(it));
        let is_retained = ownership_tags::is_retained(server);
        self.find_recorded(&server.id)
            .or_else(|| tagged.find(|owner| !(is_retained && owner.recorded.is_some())))
    }

    fn tagged(&self, hash: &str) -> Option<&ServerOwner> {
        self.objects.get(*self.by_name_hash.get(hash)?)
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
        let hashes = self.by_name_hash.keys();
        let open = hashes.filter(|hash| self.tagged(hash).is_some_and(|it| it.has_open_order));
        open.cloned().collect()
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
        let disowns = |owner: &str, server: &Server| {
            let object = owner.get(..NAME_HASH).and_then(|hash| self.tagged(hash));
            object.is_some_and(|it| {
                let is_elsewhere =
                    it.recorded.is_some() && account.is_some_and(|account| it.account != *account);
                let uid = namespace_uids.get(&it.namespace);
                let is_of_previous_namespace = uid.is_some_and(|uid| {
                    Owner::new(cluster, &it.namespace, &it.name, uid).as_str() != owner
                });
                it.recorded.as_ref() != Some(&server.id)
                    && (is_elsewhere || is_of_previous_namespace)
            })
        };
        let disowned = servers.iter().filter(|server| {
            let mut owners = ownership_tags::owners(server).peekable();
            owners.peek().is_some() && owners.all(|owner| disowns(owner, server))
        });
        disowned.map(|it| it.id.as_str().to_owned()).collect()
    }
}

/// What the order tags of an object start with, whatever the UID of its namespace.
pub fn name_hash(cluster: &ClusterId, namespace: &str, name: &str) -> String {
    let owner = Owner::new(cluster, namespace, name, "");
    owner.name_hash().to_owned()
}

/// The server of an object, and the account that has it.
pub fn locate_server(
    object: &BareMetalServer,
    args: &AccountArgs,
) -> Result<(ServerId, AccountArgs), PluginError> {
    let uuid = object.status.as_ref().and_then(|it| it.uuid.as_deref());
    let Some(Ok(id)) = uuid.map(ServerId::parse) else {
        let name = object.name_any();
        return Err(PluginError::Other(format!(
            "BareMetalServer {name} has no server yet; see kubectl flexmetal status {name}"
        )));
    };
    Ok((id, args.of_object(&account_of(object))))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use hosting_types::ServerStatus;
    use serde_json::{Value, json};

    /// A UUID that ends with this number.
    pub fn uuid(number: u8) -> String {
        format!("00000000-0000-4000-8000-0000000000{number:02x}")
    }

    /// A server with this number in its UUID.
    pub fn server(number: u8, status: &str) -> Server {
        Server {
            id: ServerId::parse(&uuid(number)).unwrap(),
            name: format!("node-{number}"),
            status: ServerStatus::parse(status),
            status_message: "echo of user data".into(),
            location_id: None,
            location: "EU: Rotterdam".into(),
            instance_type_id: None,
            instance_type: "bm7.std.8".into(),
            os_slug: "debian-13".into(),
            addresses: vec!["192.0.2.1".into()],
            tags: vec!["a".into()],
            created_at: Some(1_790_000_000 - i64::from(number)),
            delivered_at: None,
            released_at: None,
            contract_id: None,
        }
    }

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

    /// The status of an object with this order.
    pub fn record(number: u8, outcome: Option<&str>) -> Value {
        json!({"records": {"order": {
            "uid": "1", "seq": 7, "sendBy": "2026-11-01T00:00:00Z", "accountID": "x",
            "server": uuid(number), "outcome": outcome,
        }}})
    }

    #[test]
    fn server_is_owned_by_uuid_or_order_tag() {
        let replaced = json!({"uuid": uuid(2), "replacedServers": [
            {"uuid": uuid(1), "providerStatus": "failed", "location": "L", "instanceType": "T",
                "recordedAt": "2026-11-01T00:00:00Z"},
        ]});
        let owners = owners(&[
            ("a", "shown", json!({}), json!({"uuid": uuid(1)})),
            ("a", "names", json!({"externalID": uuid(0xa3)}), json!({})),
            ("b", "adopts", json!({}), record(4, Some("Adopting"))),
            ("b", "tagged", json!({}), json!({})),
            ("b", "replaced", json!({}), replaced),
        ]);
        let owner = |server: &Server| owners.find(server).map(|it| it.name.clone());
        let name = |number| owner(&server(number, "delivered"));
        let upper = ServerId::parse(&uuid(0xa3).to_uppercase()).unwrap();
        let of_upper = owners.find_recorded(&upper).map(|it| it.name.as_str());
        assert_eq!(name(1).as_deref(), Some("shown"));
        assert_eq!(name(2).as_deref(), Some("replaced"));
        assert_eq!(of_upper, Some("names"));
        assert_eq!(name(4).as_deref(), Some("adopts"));
        assert_eq!(name(5), None);
        assert_eq!(owner(&ordered(5, "b", "tagged")).as_deref(), Some("tagged"));
        assert_eq!(owner(&ordered(5, "a", "tagged")), None);
    }

    #[test]
    fn retained_server_is_not_that_of_its_successor() {
        let mut retained = ordered(1, "a", "web");
        retained.tags.push("fmo-retained".into());
        let with = |status| owners(&[("a", "web", json!({}), status)]);
        let has_other = with(record(2, Some("Created")));
        assert!(has_other.find(&retained).is_none());
        assert!(has_other.find(&ordered(1, "a", "web")).is_some());
        assert!(with(json!({})).find(&retained).is_some());
        assert!(with(record(1, Some("Created"))).find(&retained).is_some());
    }

    #[test]
    fn object_of_a_recreated_namespace_disowns_its_former_server() {
        let owners = owners(&[("a", "web", json!({}), json!({}))]);
        let servers = [ordered(1, "a", "web"), ordered(2, "a", "gone")];
        let disowned = |uid: Option<&str>| {
            let uids = uid.map(|uid| ("a".to_owned(), uid.to_owned()));
            owners.disowned(&servers, None, &cluster(), &uids.into_iter().collect())
        };
        assert!(disowned(Some("1")).is_empty());
        assert!(disowned(None).is_empty(), "unknown UIDs disown nothing");
        assert_eq!(disowned(Some("2")), HashSet::from([uuid(1)]));
    }

    #[test]
    fn object_with_a_server_elsewhere_disowns_this_one() {
        let owners = owners(&[("a", "web", json!({}), record(9, Some("Created")))]);
        let disowns = |number: u8, account: &str| {
            let account = AccountKey::named(Default::default(), Some("a"), account);
            let servers = [ordered(number, "a", "web")];
            let found = owners.disowned(&servers, Some(&account), &cluster(), &HashMap::new());
            !found.is_empty()
        };
        assert!(disowns(1, "other"));
        assert!(!disowns(1, "default"));
        assert!(!disowns(9, "other"), "its own server");
    }

    #[test]
    fn open_orders_are_known_by_their_name_hash() {
        let owners = owners(&[
            ("a", "open", json!({}), record(1, None)),
            ("a", "done", json!({}), record(2, Some("Created"))),
        ]);
        let open = name_hash(&cluster(), "a", "open");
        assert_eq!(owners.ordering(), HashSet::from([open]));
        assert_eq!(owners.claims().map(|it| it.len()), Some(2));
    }
}
