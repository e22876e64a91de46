//! The calls to the API server for leases: each with a deadline, each sent once.

use super::{LASTS, record::Record};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, Error,
    api::{ListParams, PostParams},
};
use std::{collections::BTreeMap, future::Future, time::Duration};

/// Longest time for an answer: two tries fit into the time that a holder acts without a renewal.
const ANSWER: Duration = Duration::from_secs(4);

/// Speaks of the leases of one name.
pub(super) struct Calls {
    client: Client,
    name: String,
}

/// A call gave no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Somebody else wrote the lease, or it is gone.
    #[error("the lease changed in between")]
    Stale,
    /// The namespace is being deleted, and takes no new lease.
    #[error("the namespace is being deleted")]
    Ending,
    /// The API server said no, or could not be reached.
    #[error("the API server did not do it")]
    Api(#[source] Box<Error>),
    /// No answer in time.
    #[error("the API server did not answer in time")]
    Deadline,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        /// What the API server calls it.
        const ENDING: &str = "NamespaceTerminating";
        if let Error::Api(status) = &error {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            if causes.into_iter().any(|cause| cause.reason == ENDING) {
                return Self::Ending;
            }
            if status.code == 409 {
                return Self::Stale;
            }
        }
        Self::Api(Box::new(error))
    }
}

impl Calls {
    pub(super) fn new(client: Client, name: String) -> Self {
        Self { client, name }
    }

    /// The lease of a namespace, where there is one.
    pub(super) async fn get(&self, namespace: &str) -> Result<Option<Record>, Failure> {
        let found = bounded(self.api(namespace).get_opt(&self.name)).await?;
        Ok(found.map(|lease| Record::of(lease, LASTS)))
    }

    /// The leases of all namespaces.
    pub(super) async fn list(&self) -> Result<BTreeMap<String, Record>, Failure> {
        let only = ListParams::default().fields(&format!("metadata.name={}", self.name));
        let leases: Api<Lease> = Api::all(self.client.clone());
        let listed = bounded(leases.list(&only)).await?;
        let records = listed.into_iter().filter_map(|lease| {
            let namespace = lease.metadata.namespace.clone()?;
            Some((namespace, Record::of(lease, LASTS)))
        });
        Ok(records.collect())
    }

    /// Writes a lease over the version that it was read in, or makes it.
    pub(super) async fn put(&self, namespace: &str, record: &Record) -> Result<Record, Failure> {
        let api = self.api(namespace);
        let lease = record.lease(&self.name);
        let params = PostParams::default();
        let is_there = lease.metadata.resource_version.is_some();
        let written = match is_there {
            true => bounded(api.replace(&self.name, &params, &lease)).await,
            false => bounded(api.create(&params, &lease)).await,
        };
        match written {
            Ok(lease) => Ok(Record::of(lease, LASTS)),
            Err(Failure::Api(error)) if is_there && is_not_found(&error) => Err(Failure::Stale),
            Err(failure) => Err(failure),
        }
    }

    fn api(&self, namespace: &str) -> Api<Lease> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 404)
}

async fn bounded<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
    match tokio::time::timeout(ANSWER, call).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(Failure::Deadline),
    }
}
