//! The objects of every kind of `flexmetal.dev`, for commands that treat them alike.

mod args;
mod reads;

pub use args::ObjectArgs;
pub use reads::{WatchedObjects, list, list_all, list_dynamic, read_object, watch};

use crate::context::PluginContext;
use api::{
    BareMetalServer, ClusterProviderAccount, DedicatedHost, IpWhitelist, Kind, ProviderAccount,
    ServerCommand, ServerTag, SshKey,
    account::{AccountSpec, AccountStatus},
    acknowledgement::{Acknowledged, PendingAcknowledgement},
    references::{AccountKind, PinnedAccount},
};
use clap::ValueEnum as _;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::{Api, api::DynamicObject, core::ApiResource};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the kinds.
pub const VERSION: &str = "v1alpha1";

/// A kind of `flexmetal.dev`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, clap::ValueEnum)]
pub enum ObjectKind {
    /// One on-demand server
    #[value(name = "BareMetalServer", aliases = ["bms", "baremetalservers"])]
    BareMetalServer,
    /// An existing dedicated host
    #[value(name = "DedicatedHost", aliases = ["dhost", "dedicatedhosts"])]
    DedicatedHost,
    /// One power command
    #[value(name = "ServerCommand", aliases = ["scmd", "servercommands"])]
    ServerCommand,
    /// One tag of the account
    #[value(name = "ServerTag", aliases = ["stag", "servertags"])]
    ServerTag,
    /// One public key stored at the provider
    #[value(name = "SshKey", aliases = ["skey", "sshkeys"])]
    SshKey,
    /// The addresses that may use one API key
    #[value(name = "IpWhitelist", aliases = ["ipwl", "ipwhitelists"])]
    IpWhitelist,
    /// An account for its own namespace
    #[value(name = "ProviderAccount", aliases = ["pacct", "provideraccounts"])]
    ProviderAccount,
    /// An account for allowed namespaces
    #[value(name = "ClusterProviderAccount", aliases = ["cpacct", "clusterprovideraccounts"])]
    ClusterProviderAccount,
}

/// Defines what each kind repeats.
macro_rules! define_objects {
    ($($kind:ident),+) => {
        /// An object of any kind.
        #[derive(Clone, Debug, Deserialize)]
        #[serde(tag = "kind")]
        pub enum Object {
            $(
                #[doc = concat!("A ", stringify!($kind), ".")]
                $kind(Box<$kind>),
            )+
        }

        $(
            impl From<$kind> for Object {
                fn from(object: $kind) -> Self {
                    Self::$kind(Box::new(object))
                }
            }
        )+

        impl Object {
            /// Its kind.
            pub fn kind(&self) -> ObjectKind {
                match self { $(Self::$kind(_) => ObjectKind::$kind,)+ }
            }

            /// Its metadata.
            pub fn metadata(&self) -> &ObjectMeta {
                match self { $(Self::$kind(it) => &it.metadata,)+ }
            }

            /// Its conditions.
            pub fn conditions(&self) -> &[Condition] {
                match self {
                    $(Self::$kind(it) => it.status.as_ref().map_or(&[], $kind::conditions),)+
                }
            }

            /// The reconcile request that its status repeats.
            pub fn handled_request(&self) -> Option<&str> {
                match self {
                    $(Self::$kind(it) => it.status.as_ref()?.last_handled_reconcile_at.as_deref(),)+
                }
            }

            /// Its status as JSON, for what is read alike in every kind. Null: it has none.
            pub fn status(&self) -> Value {
                match self {
                    $(Self::$kind(it) => serde_json::to_value(&it.status).unwrap_or_default(),)+
                }
            }
        }

        impl ObjectKind {
            /// Every kind, servers first.
            pub const ALL: [Self; 8] = [$(Self::$kind),+];

            /// The kind's name as written in manifests.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$kind => stringify!($kind),)+ }
            }
        }
    };
}

define_objects!(
    BareMetalServer,
    DedicatedHost,
    ServerCommand,
    ServerTag,
    SshKey,
    IpWhitelist,
    ProviderAccount,
    ClusterProviderAccount
);

impl ObjectKind {
    /// The resource's name in the API, such as `baremetalservers`.
    pub fn plural(self) -> String {
        self.as_str().to_ascii_lowercase() + "s"
    }

    /// Whether the objects have no namespace.
    pub fn is_of_cluster(self) -> bool {
        self == Self::ClusterProviderAccount
    }

    /// An object of the kind as `kubectl get -o name` prints it, such as `baremetalserver.flexmetal.dev/web`.
    pub fn resource_name(self, name: &str) -> String {
        let kind = self.as_str().to_ascii_lowercase();
        format!("{kind}.{}/{name}", api::GROUP)
    }

    /// The objects of the kind in a namespace, or in all. A cluster-wide kind ignores it.
    pub fn objects(self, context: &PluginContext, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: api::GROUP.to_owned(),
            version: VERSION.to_owned(),
            api_version: format!("{}/{VERSION}", api::GROUP),
            kind: self.as_str().to_owned(),
            plural: self.plural(),
        };
        let client = context.client.clone();
        match namespace.filter(|_| !self.is_of_cluster()) {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        }
    }

    /// Reads a kind, a plural or a short name, in any case and with or without the API group.
    pub fn parse(text: &str) -> Option<Self> {
        let word = text.split('.').next().unwrap_or(text);
        Self::from_str(word, true).ok()
    }
}

impl Object {
    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// Its namespace, unless it is of the cluster.
    pub fn namespace(&self) -> Option<&str> {
        self.metadata().namespace.as_deref()
    }

    /// What waits for an acknowledgement, and what was acknowledged.
    pub fn acknowledgements(&self) -> (&[PendingAcknowledgement], &[Acknowledged]) {
        let lists = match self {
            Self::BareMetalServer(it) => it
                .status
                .as_ref()
                .map(|it| (&it.pending_acknowledgements, &it.acknowledged)),
            Self::IpWhitelist(it) => it
                .status
                .as_ref()
                .map(|it| (&it.pending_acknowledgements, &it.acknowledged)),
            _ => self
                .account_status()
                .map(|it| (&it.pending_acknowledgements, &it.acknowledged)),
        };
        lists.map_or((&[], &[]), |(pending, given)| (pending, given))
    }

    /// The status of an account of either kind.
    pub fn account_status(&self) -> Option<&AccountStatus> {
        match self {
            Self::ProviderAccount(it) => it.status.as_ref(),
            Self::ClusterProviderAccount(it) => it.status.as_ref(),
            _ => None,
        }
    }

    /// The spec of an account of either kind.
    pub fn account_spec(&self) -> Option<&AccountSpec> {
        match self {
            Self::ProviderAccount(it) => Some(&it.spec.account),
            Self::ClusterProviderAccount(it) => Some(&it.spec.account),
            _ => None,
        }
    }

    /// The account that it uses. None: it is an account.
    pub fn account(&self) -> Option<PinnedAccount> {
        let pinned = serde_json::from_value(self.status()["accountRef"].take());
        let pinned = pinned.ok();
        match self {
            Self::BareMetalServer(it) => {
                let spec = it.spec.account_ref.as_ref();
                Some(PinnedAccount::in_force(pinned.as_ref(), spec))
            }
            Self::SshKey(it) => {
                let spec = it.spec.account_ref.as_ref();
                Some(PinnedAccount::in_force(pinned.as_ref(), spec))
            }
            Self::DedicatedHost(it) => Some(it.account()),
            Self::ServerCommand(it) => Some(it.account()),
            Self::ServerTag(it) => Some(it.account()),
            Self::IpWhitelist(it) => Some(it.account()),
            Self::ProviderAccount(_) | Self::ClusterProviderAccount(_) => None,
        }
    }

    /// When it was created.
    pub fn created_at(&self) -> Option<Timestamp> {
        Some(self.metadata().creation_timestamp.as_ref()?.0)
    }

    /// Since when it is being deleted.
    pub fn deleted_at(&self) -> Option<Timestamp> {
        Some(self.metadata().deletion_timestamp.as_ref()?.0)
    }

    /// Its kind, namespace and name.
    pub fn full_name(&self) -> ObjectName {
        ObjectName {
            kind: self.kind(),
            namespace: self.namespace().map(str::to_owned),
            name: self.name().to_owned(),
        }
    }

    /// Such as `BareMetalServer team-a/web`.
    pub fn title(&self) -> String {
        self.full_name().title()
    }
}

/// Kind, namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectName {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its namespace. None: it is of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl ObjectName {
    /// The account that an object of this namespace uses.
    pub fn from_account(account: PinnedAccount, namespace: Option<&str>) -> Self {
        let (kind, namespace) = match account.kind {
            AccountKind::ProviderAccount => (ObjectKind::ProviderAccount, namespace),
            AccountKind::ClusterProviderAccount => (ObjectKind::ClusterProviderAccount, None),
        };
        Self {
            kind,
            namespace: namespace.map(str::to_owned),
            name: account.name,
        }
    }

    /// Such as `team-a/web`.
    pub fn path(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// Such as `BareMetalServer team-a/web`.
    pub fn title(&self) -> String {
        format!("{} {}", self.kind.as_str(), self.path())
    }

    /// The arguments by which a command of this plugin finds it, such as `web -n team-a --kind SshKey`.
    pub fn arguments(&self) -> String {
        let mut arguments = self.name.clone();
        if let Some(namespace) = &self.namespace {
            arguments += &format!(" -n {namespace}");
        }
        if self.kind != ObjectKind::BareMetalServer {
            arguments += &format!(" --kind {}", self.kind.as_str());
        }
        arguments
    }
}

/// An object of a kind from its JSON.
pub fn decode(kind: ObjectKind, mut value: Value) -> serde_json::Result<Object> {
    // Items of a list may lack it.
    value["kind"] = kind.as_str().into();
    serde_json::from_value(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_names_of_their_definitions() {
        let definitions = api::all_crds();
        assert_eq!(definitions.len(), ObjectKind::ALL.len());
        for definition in definitions {
            let names = definition.spec.names;
            let kind = ObjectKind::parse(&names.kind).unwrap();
            assert_eq!(kind.as_str(), names.kind);
            assert_eq!(kind.plural(), names.plural);
            assert_eq!(kind.is_of_cluster(), definition.spec.scope == "Cluster");
            let others = names.short_names.unwrap().into_iter();
            for other in others.chain([names.plural, names.singular.unwrap()]) {
                assert_eq!(ObjectKind::parse(&other), Some(kind), "{other}");
            }
        }
        assert_eq!(
            ObjectKind::parse("sshkey.flexmetal.dev"),
            Some(ObjectKind::SshKey)
        );
        assert_eq!(ObjectKind::parse("pod"), None);
    }
}
