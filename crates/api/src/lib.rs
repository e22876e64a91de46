//! The Kubernetes API types: one file per kind, with spec, status, CEL rules and columns. An optional enum field needs
//! `schemars(with)`, or the schema gives it the description of the enum.

// Columns are attributes of the derive, and many share a type.
#![allow(clippy::duplicated_attributes)]

// The derives of kube-derive use paths of the facade crate `kube`, which this crate does not depend on.
extern crate self as kube;
use kube_core as core;
use kube_derive::KubeSchema;

pub mod account;
pub mod account_sizes;
pub mod account_use;
pub mod acknowledgement;
pub mod address;
pub mod allowed;
pub mod bounds;
pub mod catalog;
pub mod command;
pub mod conditions;
pub mod host;
pub mod host_install;
pub mod install;
pub mod installation;
pub mod interval;
pub mod kind;
pub mod lifetime;
pub mod limits;
pub mod names;
pub mod order;
pub mod orphan;
pub mod outputs;
pub mod policies;
pub mod power;
pub mod reason;
pub mod records;
pub mod references;
pub mod release_limit;
pub mod rfc3339;
pub mod root_password;
pub mod selector;
pub mod server;
pub mod ssh_key;
pub mod tag;
pub mod target;
pub mod timing;
pub mod usage;
pub mod whitelist;

pub use account::{ClusterProviderAccount, ProviderAccount};
pub use command::ServerCommand;
pub use host::DedicatedHost;
pub use interval::Interval;
pub use kind::Kind;
pub use policies::{
    ExternalReleasePolicy, FailurePolicy, ManagementPolicy, Policies, PoliciesInForce,
};
pub use reason::Reason;
pub use server::BareMetalServer;
pub use ssh_key::SshKey;
pub use tag::ServerTag;
pub use whitelist::IpWhitelist;

/// API group of every kind.
pub const GROUP: &str = "flexmetal.dev";

/// Every CustomResourceDefinition of the project, in the order of installation.
pub fn all_crds()
-> Vec<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition>
{
    use kube_core::CustomResourceExt as _;
    [
        ClusterProviderAccount::crd(),
        ProviderAccount::crd(),
        BareMetalServer::crd(),
        SshKey::crd(),
        ServerTag::crd(),
        IpWhitelist::crd(),
        ServerCommand::crd(),
        DedicatedHost::crd(),
    ]
    .into_iter()
    .map(names::with_conventions)
    .collect()
}
