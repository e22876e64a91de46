//! The labels of the cluster's namespaces, by which accounts of the cluster may select them.
//!
//! Only an operator that serves such accounts watches them. What is heard goes to the accounts, which wake the
//! objects of a namespace when its labels change; until it is heard they wait, and are not told that they are not
//! allowed.

use super::{
    context::Process,
    streams::{self, Guarded, Heard},
};
use crate::kinds::references::AccountKind;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, core::PartialObjectMeta, runtime::watcher::Event};
use std::collections::HashSet;
use tokio::sync::watch;

/// All that is read of a namespace.
type Metadata = PartialObjectMeta<Namespace>;

/// Follows the namespaces until shutdown, where anybody asks for them.
pub async fn follow(process: &Process) {
    if !process.watched.serves(AccountKind::ClusterProviderAccount) {
        return;
    }
    let api: Api<Guarded<Metadata>> = Api::all(process.watch_client.clone());
    // Nobody asks for another listing than the watch makes by itself.
    let (_never, relists) = watch::channel(0);
    let heard = streams::watch(api, process.watch_times, relists);
    let mut heard = std::pin::pin!(heard);
    let mut listed = HashSet::new();
    let follow = async {
        while let Some(heard) = heard.next().await {
            if let Heard::Event(event) = heard {
                take(process, &mut listed, event);
            }
        }
    };
    process.shutdown.run_until_cancelled(follow).await;
}

/// Takes one event in. `listed`: those that the listing under way has shown.
fn take(process: &Process, listed: &mut HashSet<String>, event: Event<Guarded<Metadata>>) {
    let accounts = &process.accounts;
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(object) => {
            if let Some(name) = show(process, object) {
                listed.insert(name);
            }
        }
        Event::InitDone => accounts.keep_namespaces(&std::mem::take(listed)),
        Event::Apply(object) => drop(show(process, object)),
        Event::Delete(object) => {
            let meta = match object.0 {
                Ok(object) => object.metadata,
                Err(invalid) => invalid.metadata,
            };
            accounts.forget_namespace(meta.name.as_deref().unwrap_or_default());
        }
    }
}

/// Passes the labels of a namespace on. Returns its name.
fn show(process: &Process, object: Guarded<Metadata>) -> Option<String> {
    let meta = match object.0 {
        Ok(object) => object.metadata,
        Err(invalid) => invalid.metadata,
    };
    let name = meta.name?;
    let labels = meta.labels.unwrap_or_default();
    process.accounts.show_namespace(&name, labels);
    Some(name)
}
