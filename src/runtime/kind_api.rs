//! The API of each kind's objects.

use api::{
    BareMetalServer, ClusterProviderAccount, DedicatedHost, IpWhitelist, ProviderAccount,
    ServerCommand, ServerTag, SshKey, kind::Kind,
};
use kube::{Api, Client};
use std::borrow::Cow;

/// A kind whose objects can be read and written.
pub trait KindApi: Kind {
    /// The API of its objects, in one namespace or in all. A cluster-scoped kind ignores the namespace.
    fn api(client: Client, namespace: Option<&str>) -> Api<Self>;
}

/// The name of a kind, as labels of metrics have it.
pub fn kind_name<K: Kind>() -> &'static str {
    match K::kind(&()) {
        Cow::Borrowed(name) => name,
        Cow::Owned(_) => "unknown",
    }
}

macro_rules! namespaced {
    ($($kind:ty),+) => {
        $(impl KindApi for $kind {
            fn api(client: Client, namespace: Option<&str>) -> Api<Self> {
                match namespace {
                    Some(namespace) => Api::namespaced(client, namespace),
                    None => Api::all(client),
                }
            }
        })+
    };
}

namespaced!(
    BareMetalServer,
    DedicatedHost,
    IpWhitelist,
    ProviderAccount,
    ServerCommand,
    ServerTag,
    SshKey
);

impl KindApi for ClusterProviderAccount {
    fn api(client: Client, _: Option<&str>) -> Api<Self> {
        Api::all(client)
    }
}
