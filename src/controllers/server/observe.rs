//! Gathers the facts of one pass.

use super::{
    Context,
    decide::evidence::evidence,
    facts::{AccountFacts, Facts, Former, Hold, has_finalizer},
    memory::Missing,
    writes::bounded,
};
use crate::{
    account::{Account, Resolution},
    kinds::{
        BareMetalServer, Reason,
        references::{AccountRef, KeySelector, SshKeySource},
        server::PinnedAccount,
    },
    runtime::clock,
};
use hosting::ServerId;
use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, CustomResourceExt as _, ResourceExt as _};
use std::sync::Arc;

/// The facts, and the account to act through where there is one.
pub struct Observed {
    /// The facts.
    pub facts: Facts,
    /// The account that the facts speak of.
    pub account: Option<Account>,
}

/// Gathers the facts about an object.
pub async fn observe(ctx: &Context, object: Arc<BareMetalServer>) -> Observed {
    let namespace = object.namespace().unwrap_or_default();
    let uid = object.uid().unwrap_or_default();
    // The account of the order stays the account, whatever the reference says by now.
    let pinned = object.status.as_ref().and_then(|s| s.account.clone());
    let reference = pinned.map_or_else(
        || object.spec.account_ref.clone().unwrap_or_default(),
        |PinnedAccount { kind, name }| AccountRef { kind, name },
    );
    let (account, not_allowed) = match ctx.accounts.resolve(&namespace, &reference) {
        Resolution::Missing => (None, None),
        Resolution::NotAllowed { account, message } => (Some(account), Some(message)),
        Resolution::Found(account) => (Some(account), None),
    };
    let facts = match &account {
        Some(account) => AccountFacts::Found {
            view: account.view(),
            not_allowed,
        },
        None => AccountFacts::Missing(format!("{} {}", reference.kind.as_str(), reference.name)),
    };
    let ends = object.metadata.deletion_timestamp.is_some() && has_finalizer(&object);
    let kind_deleting = if ends {
        see_kind_deleting(ctx).await
    } else {
        Some(false)
    };
    let ssh_keys = ssh_keys(ctx, &object).await;
    let mut facts = Facts {
        now: clock::now(),
        cluster: ctx.cluster.clone(),
        all_namespaces: ctx.watched.is_all(),
        kind_deleting,
        account: facts,
        ssh_keys,
        own: Vec::new(),
        recorded: None,
        former: None,
        memory: ctx.objects.memory(&uid),
        object,
    };
    recall(ctx, &mut facts, account.as_ref());
    Observed { facts, account }
}

/// Brings what this process knows of the object's machines up to this moment. No call is made, so an
/// effect can do it again right before what cannot be undone.
pub fn recall(ctx: &Context, facts: &mut Facts, account: Option<&Account>) {
    facts.now = clock::now();
    let uid = facts.uid().to_owned();
    let found = evidence(facts);
    let now = facts.now.mono;
    ctx.objects.remember(&uid, |memory| {
        if let Some(attempt) = found.open_attempt() {
            memory.search_for(attempt, now);
        }
        memory.former_seen(found.other_mark(), now);
    });
    facts.memory = ctx.objects.memory(&uid);
    let Some(account) = account else { return };
    let AccountFacts::Found { view, .. } = &mut facts.account else {
        return;
    };
    *view = account.view();
    facts.own = account.sightings(facts.mark().as_str());
    if !facts.own.is_empty() && facts.memory.missing != Missing::default() {
        // It is shown again: an earlier search for it proves nothing any more.
        ctx.objects
            .remember(&uid, |memory| memory.missing = Missing::default());
        facts.memory.missing = Missing::default();
    }
    let recorded = match &found {
        super::decide::evidence::Evidence::Own(attempt) => attempt.uuid.clone(),
        _ => None,
    };
    facts.recorded = recorded
        .and_then(|uuid| ServerId::parse(&uuid).ok())
        .and_then(|id| account.sighting(&id));
    facts.former = found.other_mark().map(|mark| Former {
        claimed: ctx.objects.is_claimed(mark, &uid),
        machines: account.sightings(mark.as_str()),
    });
}

/// Whether the kind itself is being deleted. Asked for each time, since a yes that comes too late
/// releases machines that should stay.
async fn see_kind_deleting(ctx: &Context) -> Option<bool> {
    let api: Api<CustomResourceDefinition> = Api::all(ctx.client.clone());
    match bounded(api.get_metadata(BareMetalServer::crd_name())).await {
        Ok(crd) => Some(crd.metadata.deletion_timestamp.is_some()),
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot see whether the kind is being deleted"
            );
            None
        }
    }
}

/// The SSH keys, from where the spec says.
async fn ssh_keys(ctx: &Context, object: &BareMetalServer) -> Result<Vec<String>, Hold> {
    let namespace = object.namespace().unwrap_or_default();
    let mut keys = Vec::new();
    for (index, source) in object.spec.ssh_keys.iter().enumerate() {
        keys.push(
            ssh_key(ctx, &namespace, source)
                .await
                .map_err(|problem| problem.hold(index))?,
        );
    }
    Ok(keys)
}

/// Why a key could not be read. Never holds the content.
#[derive(Debug, thiserror::Error)]
enum KeyProblem {
    #[error("{kind} {name} does not exist; create it")]
    NoObject { kind: &'static str, name: String },
    #[error("{kind} {name} has no key {key:?}; add it")]
    NoKey {
        kind: &'static str,
        name: String,
        key: String,
    },
    #[error("{kind} {name}, key {key:?}, is not one line of text; put one public key there")]
    NotOneLine {
        kind: &'static str,
        name: String,
        key: String,
    },
    #[error("{kind} {name} cannot be read now")]
    Unreadable { kind: &'static str, name: String },
    #[error("one of publicKey, uuid, secretKeyRef, configMapKeyRef must be set")]
    Nothing,
}

impl KeyProblem {
    fn hold(&self, index: usize) -> Hold {
        let message = format!("spec.sshKeys[{index}]: {self}");
        match self {
            Self::NoObject { .. } | Self::NoKey { .. } => {
                Hold::needs_person(Reason::ReferenceNotFound, message)
            }
            Self::NotOneLine { .. } | Self::Nothing => {
                Hold::needs_person(Reason::InvalidSpec, message)
            }
            Self::Unreadable { .. } => Hold::waits(Reason::ReferenceNotFound, message),
        }
    }
}

async fn ssh_key(
    ctx: &Context,
    namespace: &str,
    source: &SshKeySource,
) -> Result<String, KeyProblem> {
    if let Some(key) = &source.public_key {
        return one_line("publicKey", "in spec", "publicKey", key.as_bytes());
    }
    if let Some(uuid) = &source.uuid {
        return Ok(uuid.clone());
    }
    if let Some(KeySelector { name, key }) = &source.secret_key_ref {
        let api: Api<Secret> = Api::namespaced(ctx.client.clone(), namespace);
        let secret = found("Secret", name, bounded(api.get_opt(name)).await)?;
        let bytes = secret
            .data
            .as_ref()
            .and_then(|d| d.get(key))
            .map(|b| b.0.clone());
        return text("Secret", name, key, bytes);
    }
    if let Some(KeySelector { name, key }) = &source.config_map_key_ref {
        let api: Api<ConfigMap> = Api::namespaced(ctx.client.clone(), namespace);
        let map = found("ConfigMap", name, bounded(api.get_opt(name)).await)?;
        let bytes = map
            .data
            .as_ref()
            .and_then(|d| d.get(key))
            .map(|t| t.clone().into_bytes());
        return text("ConfigMap", name, key, bytes);
    }
    Err(KeyProblem::Nothing)
}

fn found<T>(
    kind: &'static str,
    name: &str,
    answer: Result<Option<T>, super::writes::Failure>,
) -> Result<T, KeyProblem> {
    match answer {
        Ok(Some(object)) => Ok(object),
        Ok(None) => Err(KeyProblem::NoObject {
            kind,
            name: name.into(),
        }),
        Err(_) => Err(KeyProblem::Unreadable {
            kind,
            name: name.into(),
        }),
    }
}

fn text(
    kind: &'static str,
    name: &str,
    key: &str,
    bytes: Option<Vec<u8>>,
) -> Result<String, KeyProblem> {
    let bytes = bytes.ok_or_else(|| KeyProblem::NoKey {
        kind,
        name: name.into(),
        key: key.into(),
    })?;
    one_line(kind, name, key, &bytes)
}

fn one_line(kind: &'static str, name: &str, key: &str, bytes: &[u8]) -> Result<String, KeyProblem> {
    let line = std::str::from_utf8(bytes).map(str::trim).ok();
    line.filter(|l| !l.is_empty() && !l.contains(['\n', '\r']))
        .map(str::to_owned)
        .ok_or_else(|| KeyProblem::NotOneLine {
            kind,
            name: name.into(),
            key: key.into(),
        })
}
