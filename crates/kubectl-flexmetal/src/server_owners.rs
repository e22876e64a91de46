//! Which BareMetalServer owns a server of the provider: by the UUIDs that it names, or by the order tag of the server.

use crate::{
    account_client::{AccountArgs, list_allowed, list_known},
    context::PluginContext,
    exit::PluginError,
};
use api::{BareMetalServer, references::PinnedAccount};
use flexmetal_core::{
    account::{key::AccountKey, orphan_scan::TaggedOwner, ownership_tags},
    cluster_id::ClusterId,
    owner::{NAME_HASH, Owner},
    server::recorded::recorded_server,
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
    orders: OrderFacts,
}

/// What decides whether an object still owns the servers with its order tag.
#[derive(Clone, Debug, Default)]
pub struct OrderFacts {
    /// Order tags have hashes over this identity: without it only UUIDs show the owner.
    pub cluster: Option<ClusterId>,
    /// The account of the servers, if it has an object.
    pub account: Option<AccountKey>,
    /// UIDs of the namespaces that are known.
    pub namespace_uids: HashMap<String, String>,
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
    /// UUID of the server that it ordered or adopted.
    recorded: Option<String>,
    /// Whether the outcome of its order is not known.
    has_open_order: bool,
}

impl ServerOwner {
    fn from_object(object: &BareMetalServer) -> Self {
        let namespace = object.namespace().unwrap_or_default();
        let status = object.status.as_ref();
        let order = status.and_then(|it| it.records.order.as_ref());
        Self {
            account: AccountKey::from_reference(&account_of(object), &namespace),
            message: status.and_then(|it| it.status_message.clone()),
            recorded: recorded_server(object),
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
    /// Lists the objects of all namespaces live; without the right those of the context's namespace.
    pub async fn list(context: &PluginContext) -> Result<Self, PluginError> {
        let (objects, is_complete) = list_known(context).await?;
        Ok(Self::index(&objects, is_complete))
    }

    /// The same; no objects if the caller may list none.
    pub async fn list_allowed(context: &PluginContext) -> Result<Self, PluginError> {
        let (objects, is_complete) = list_allowed(context).await?;
        Ok(Self::index(&objects, is_complete))
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
            is_complete,
            ..Self::default()
        }
    }

    /// The same, with owners by order tags.
    #[must_use]
    pub fn with_orders(mut self, orders: OrderFacts) -> Self {
        if let Some(cluster) = &orders.cluster {
            let named = self.objects.iter().enumerate();
            let hashes = named.map(|(at, it)| (name_hash(cluster, &it.namespace, &it.name), at));
            self.by_name_hash = hashes.collect();
        }
        self.orders = orders;
        self
    }

    /// The object that names the server by its UUID.
    pub fn find_recorded(&self, id: &ServerId) -> Option<&ServerOwner> {
        self.objects.get(*self.by_uuid.get(id)?)
    }

    /// The object that names the server, or whose order tag it has.
    pub fn find(&self, server: &Server) -> Option<&ServerOwner> {
        let mut tagged = ownership_tags::owners(server).filter_map(|owner| {
            let at = self.by_name_hash.get(owner.get(..NAME_HASH)?)?;
            let object = self.objects.get(*at)?;
            (object.has_open_order || !self.disowns(object, owner, server)).then_some(object)
        });
        self.find_recorded(&server.id).or_else(|| tagged.next())
    }

    /// Whether an object disowns a server whose tag has its namespace and name. As in the operator, and if its server is
    /// another one, and this one was retained.
    fn disowns(&self, object: &ServerOwner, owner: &str, server: &Server) -> bool {
        let orders = &self.orders;
        let uid = orders.namespace_uids.get(&object.namespace);
        let now = orders.cluster.as_ref().zip(uid);
        let now =
            now.map(|(cluster, uid)| Owner::new(cluster, &object.namespace, &object.name, uid));
        let tagged = TaggedOwner {
            account: Some(&object.account),
            recorded: object.recorded.as_deref(),
            owner: now.as_ref().map(Owner::as_str),
        };
        let account = orders.account.as_ref().unwrap_or(&object.account);
        let has_another = || {
            object
                .recorded
                .as_ref()
                .is_some_and(|own| server.id != **own)
        };
        tagged.disowns(owner, account, server.id.as_str())
            || (ownership_tags::is_retained(server) && has_another())
    }

    /// The names of the objects in a namespace.
    pub fn names_in(&self, namespace: &str) -> HashSet<String> {
        let all = self.objects.iter();
        let own = all.filter(|object| object.namespace == namespace);
        own.map(|object| object.name.clone()).collect()
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

    /// An index of these objects of all namespaces: namespace, name, spec, status. The account is `default` in
    /// namespace `a`, whose UID is `1`.
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
        let orders = OrderFacts {
            cluster: Some(cluster()),
            account: Some(AccountKey::named(Default::default(), Some("a"), "default")),
            namespace_uids: [("a".to_owned(), "1".to_owned())].into(),
        };
        ServerOwners::index(&objects, true).with_orders(orders)
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
    fn object_owns_its_order_until_another_server() {
        let owns = |server: &Server, spec: Value, status: Value| {
            let owners = owners(&[("a", "web", spec, status)]);
            owners.find(server).is_some()
        };
        let here = || json!({});
        let elsewhere = || json!({"accountRef": {"name": "other"}});
        let ordered = ordered(1, "a", "web");
        let mut retained = ordered.clone();
        retained.tags.push("fmo-retained".into());
        assert!(owns(&retained, here(), json!({})));
        assert!(owns(&retained, here(), record(1, Some("Created"))));
        assert!(!owns(&retained, here(), record(2, Some("Created"))));
        assert!(owns(&ordered, here(), record(2, Some("Created"))));
        assert!(owns(&ordered, elsewhere(), json!({})));
        assert!(!owns(&ordered, elsewhere(), record(2, Some("Created"))));
        assert!(owns(&ordered, elsewhere(), record(1, Some("Created"))));
    }

    #[test]
    fn recreated_namespace_disowns_its_previous_server() {
        let former = Owner::new(&cluster(), "a", "web", "0");
        let former = Server {
            tags: vec![cluster().tag(), former.order_tag(7)],
            ..server(1, "delivered")
        };
        let owns = |status| {
            owners(&[("a", "web", json!({}), status)])
                .find(&former)
                .is_some()
        };
        assert!(!owns(json!({})));
        assert!(owns(record(9, None)), "its order is open");
    }
}
