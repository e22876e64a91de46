//! The objects of every kind of `flexmetal.dev`, for commands that treat them alike.

use crate::{
    context::{Context, Scope, api_error, list_pages},
    exit::PluginError,
};
use api::{
    BareMetalServer, ClusterProviderAccount, DedicatedHost, IpWhitelist, Kind, ProviderAccount,
    ServerCommand, ServerTag, SshKey,
    account::{AccountSpec, AccountStatus},
    acknowledgement::{Acknowledged, PendingAcknowledgement},
    references::{PinnedAccount, is_object_name},
};
use clap::ValueEnum as _;
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream::BoxStream};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::{
    Api,
    runtime::{WatchStreamExt as _, watcher},
};
use serde::Serialize;
use std::collections::BTreeMap;

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

/// An object of any kind.
#[derive(Clone, Debug)]
pub enum Object {
    /// An on-demand server.
    BareMetalServer(Box<BareMetalServer>),
    /// A dedicated host.
    DedicatedHost(Box<DedicatedHost>),
    /// A power command.
    ServerCommand(Box<ServerCommand>),
    /// A tag.
    ServerTag(Box<ServerTag>),
    /// A stored key.
    SshKey(Box<SshKey>),
    /// A whitelist.
    IpWhitelist(Box<IpWhitelist>),
    /// An account of one namespace.
    ProviderAccount(Box<ProviderAccount>),
    /// An account of several namespaces.
    ClusterProviderAccount(Box<ClusterProviderAccount>),
}

/// Evaluates an expression with the type of a kind.
macro_rules! with_kind {
    ($kind:expr, $type:ident => $body:expr) => {
        match $kind {
            ObjectKind::BareMetalServer => {
                type $type = BareMetalServer;
                $body
            }
            ObjectKind::DedicatedHost => {
                type $type = DedicatedHost;
                $body
            }
            ObjectKind::ServerCommand => {
                type $type = ServerCommand;
                $body
            }
            ObjectKind::ServerTag => {
                type $type = ServerTag;
                $body
            }
            ObjectKind::SshKey => {
                type $type = SshKey;
                $body
            }
            ObjectKind::IpWhitelist => {
                type $type = IpWhitelist;
                $body
            }
            ObjectKind::ProviderAccount => {
                type $type = ProviderAccount;
                $body
            }
            ObjectKind::ClusterProviderAccount => {
                type $type = ClusterProviderAccount;
                $body
            }
        }
    };
}

/// Evaluates an expression with the typed object.
macro_rules! with_object {
    ($object:expr, $it:ident => $body:expr) => {
        match $object {
            Object::BareMetalServer($it) => $body,
            Object::DedicatedHost($it) => $body,
            Object::ServerCommand($it) => $body,
            Object::ServerTag($it) => $body,
            Object::SshKey($it) => $body,
            Object::IpWhitelist($it) => $body,
            Object::ProviderAccount($it) => $body,
            Object::ClusterProviderAccount($it) => $body,
        }
    };
}

/// A kind whose objects an [`Object`] can be.
trait AnyKind: Kind + Into<Object> {
    /// The objects of a namespace. None: all. A cluster-wide kind ignores it.
    fn objects(context: &Context, namespace: Option<&str>) -> Api<Self>;
}

macro_rules! any_kinds {
    ($($kind:ident),+) => {
        $(
            impl From<$kind> for Object {
                fn from(object: $kind) -> Self {
                    Self::$kind(Box::new(object))
                }
            }

            impl AnyKind for $kind {
                fn objects(context: &Context, namespace: Option<&str>) -> Api<Self> {
                    match namespace {
                        Some(namespace) => context.api_in(namespace),
                        None => context.api_of_cluster(),
                    }
                }
            }
        )+
    };
}

any_kinds!(
    BareMetalServer,
    DedicatedHost,
    ServerCommand,
    ServerTag,
    SshKey,
    IpWhitelist,
    ProviderAccount
);

impl From<ClusterProviderAccount> for Object {
    fn from(object: ClusterProviderAccount) -> Self {
        Self::ClusterProviderAccount(Box::new(object))
    }
}

impl AnyKind for ClusterProviderAccount {
    fn objects(context: &Context, _: Option<&str>) -> Api<Self> {
        context.api_of_cluster()
    }
}

impl ObjectKind {
    /// Every kind, servers first.
    pub const ALL: [Self; 8] = [
        Self::BareMetalServer,
        Self::DedicatedHost,
        Self::ServerCommand,
        Self::ServerTag,
        Self::SshKey,
        Self::IpWhitelist,
        Self::ProviderAccount,
        Self::ClusterProviderAccount,
    ];

    /// The kind's name as written in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BareMetalServer => "BareMetalServer",
            Self::DedicatedHost => "DedicatedHost",
            Self::ServerCommand => "ServerCommand",
            Self::ServerTag => "ServerTag",
            Self::SshKey => "SshKey",
            Self::IpWhitelist => "IpWhitelist",
            Self::ProviderAccount => "ProviderAccount",
            Self::ClusterProviderAccount => "ClusterProviderAccount",
        }
    }

    /// The resource's name in the API, such as `baremetalservers`.
    pub fn plural(self) -> String {
        with_kind!(self, K => <K as kube::Resource>::plural(&()).into_owned())
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

    /// Reads a kind, a plural or a short name, in any case and with or without the API group.
    pub fn parse(text: &str) -> Option<Self> {
        let word = text.split('.').next().unwrap_or(text);
        Self::from_str(word, true).ok()
    }
}

/// Which object.
#[derive(Clone, Debug, clap::Args)]
pub struct ObjectArgs {
    /// Name, or kind and name such as skey/admin
    pub name: String,
    /// Kind; default: a server of this name, or else any kind
    #[arg(long, value_enum, ignore_case = true, hide_possible_values = true)]
    pub kind: Option<ObjectKind>,
}

impl ObjectArgs {
    /// The kind, if one is given, and the name.
    pub fn parse(&self) -> Result<(Option<ObjectKind>, &str), PluginError> {
        let (kind, name) = match self.name.split_once('/') {
            None => (self.kind, self.name.as_str()),
            Some((kind, name)) => {
                let parsed = ObjectKind::parse(kind);
                let parsed = parsed.ok_or_else(|| {
                    PluginError::Usage(format!("{kind:?} is not a kind of flexmetal.dev"))
                })?;
                if self.kind.is_some_and(|kind| kind != parsed) {
                    return Err(PluginError::Usage(format!(
                        "{} and --kind name two kinds; remove one",
                        self.name
                    )));
                }
                (Some(parsed), name)
            }
        };
        match is_object_name(name) {
            true => Ok((kind, name)),
            false => Err(PluginError::Usage(format!(
                "{name:?} cannot be the name of an object"
            ))),
        }
    }

    /// Reads the object. None: no kind has one of this name.
    pub async fn find(&self, context: &Context) -> Result<Option<Object>, PluginError> {
        let (kind, name) = self.parse()?;
        if let Some(kind) = kind {
            return read(context, kind, name).await;
        }
        if let Some(server) = read(context, ObjectKind::BareMetalServer, name).await? {
            return Ok(Some(server));
        }
        let mut found = Vec::new();
        let mut forbidden = None;
        for kind in ObjectKind::ALL.into_iter().skip(1) {
            match read(context, kind, name).await {
                Ok(object) => found.extend(object),
                Err(error) => forbidden = forbidden.or(Some(error)),
            }
        }
        let titles: Vec<_> = found.iter().map(|it| it.kind().as_str()).collect();
        match (titles.as_slice(), forbidden) {
            ([], Some(error)) => Err(error),
            ([] | [_], _) => Ok(found.pop()),
            (kinds, _) => Err(PluginError::Usage(format!(
                "{name} is the name of several objects ({}); add --kind",
                kinds.join(", ")
            ))),
        }
    }

    /// Reads the object, or says that there is none.
    pub async fn get(&self, context: &Context) -> Result<Object, PluginError> {
        let found = self.find(context).await?;
        found.ok_or_else(|| self.not_found(context))
    }

    /// The error for an object that does not exist.
    pub fn not_found(&self, context: &Context) -> PluginError {
        let (kind, name) = match self.parse() {
            Ok(parsed) => parsed,
            Err(error) => return error,
        };
        let place = match kind.is_some_and(ObjectKind::is_of_cluster) {
            true => String::new(),
            false => format!(" in namespace {}", context.namespace),
        };
        let kind = kind.map_or("object", ObjectKind::as_str);
        PluginError::Other(format!(
            "no {kind} {name}{place}; see --namespace and --kind"
        ))
    }
}

impl Object {
    /// Its kind.
    pub fn kind(&self) -> ObjectKind {
        match self {
            Self::BareMetalServer(_) => ObjectKind::BareMetalServer,
            Self::DedicatedHost(_) => ObjectKind::DedicatedHost,
            Self::ServerCommand(_) => ObjectKind::ServerCommand,
            Self::ServerTag(_) => ObjectKind::ServerTag,
            Self::SshKey(_) => ObjectKind::SshKey,
            Self::IpWhitelist(_) => ObjectKind::IpWhitelist,
            Self::ProviderAccount(_) => ObjectKind::ProviderAccount,
            Self::ClusterProviderAccount(_) => ObjectKind::ClusterProviderAccount,
        }
    }

    /// Its metadata.
    pub fn metadata(&self) -> &ObjectMeta {
        with_object!(self, it => &it.metadata)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// Its namespace, unless it is of the cluster.
    pub fn namespace(&self) -> Option<&str> {
        self.metadata().namespace.as_deref()
    }

    /// Its conditions.
    pub fn conditions(&self) -> &[Condition] {
        fn read<K: Kind>(object: &K) -> &[Condition] {
            object.status().map_or(&[], |status| K::conditions(status))
        }
        with_object!(self, it => read(&**it))
    }

    /// What waits for an acknowledgement, and what was acknowledged.
    pub fn acknowledgements(&self) -> (&[PendingAcknowledgement], &[Acknowledged]) {
        let lists = match self {
            Self::BareMetalServer(it) => it.status.as_ref().map(|status| {
                (
                    &status.pending_acknowledgements[..],
                    &status.acknowledged[..],
                )
            }),
            Self::IpWhitelist(it) => it.status.as_ref().map(|status| {
                (
                    &status.pending_acknowledgements[..],
                    &status.acknowledged[..],
                )
            }),
            Self::ProviderAccount(it) => it.status.as_ref().map(account_acknowledgements),
            Self::ClusterProviderAccount(it) => it.status.as_ref().map(account_acknowledgements),
            Self::DedicatedHost(_)
            | Self::ServerCommand(_)
            | Self::ServerTag(_)
            | Self::SshKey(_) => None,
        };
        lists.unwrap_or_default()
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
        match self {
            Self::BareMetalServer(it) => {
                let pinned = it.status.as_ref().and_then(|it| it.account_ref.as_ref());
                Some(PinnedAccount::in_force(
                    pinned,
                    it.spec.account_ref.as_ref(),
                ))
            }
            Self::SshKey(it) => {
                let pinned = it.status.as_ref().and_then(|it| it.account_ref.as_ref());
                Some(PinnedAccount::in_force(
                    pinned,
                    it.spec.account_ref.as_ref(),
                ))
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

    /// Such as `BareMetalServer team-a/web`.
    pub fn title(&self) -> String {
        let kind = self.kind().as_str();
        match self.namespace() {
            Some(namespace) => format!("{kind} {namespace}/{}", self.name()),
            None => format!("{kind} {}", self.name()),
        }
    }

    /// As `kubectl get -o name` prints it, such as `baremetalserver.flexmetal.dev/web`.
    pub fn resource_name(&self) -> String {
        self.kind().resource_name(self.name())
    }
}

fn account_acknowledgements(
    status: &AccountStatus,
) -> (&[PendingAcknowledgement], &[Acknowledged]) {
    (&status.pending_acknowledgements, &status.acknowledged)
}

/// The arguments by which a command of this plugin finds an object, such as `web -n team-a --kind SshKey`.
pub fn arguments(kind: ObjectKind, namespace: Option<&str>, name: &str) -> String {
    let mut arguments = name.to_owned();
    if let Some(namespace) = namespace {
        arguments += &format!(" -n {namespace}");
    }
    if kind != ObjectKind::BareMetalServer {
        arguments += &format!(" --kind {}", kind.as_str());
    }
    arguments
}

/// Reads an object of the context's namespace, or of the cluster. None: there is none of this name.
pub async fn read(
    context: &Context,
    kind: ObjectKind,
    name: &str,
) -> Result<Option<Object>, PluginError> {
    with_kind!(kind, K => read_as::<K>(context, kind, name).await)
}

async fn read_as<K: AnyKind>(
    context: &Context,
    kind: ObjectKind,
    name: &str,
) -> Result<Option<Object>, PluginError> {
    let namespace = &context.namespace;
    let place = match kind.is_of_cluster() {
        true => String::new(),
        false => format!(" in namespace {namespace}"),
    };
    let found = K::objects(context, Some(namespace)).get_opt(name).await;
    let found =
        found.map_err(|error| api_error(format!("read {} {name}{place}", kind.as_str()), error))?;
    Ok(found.map(Into::into))
}

/// An object of a kind from its JSON.
pub fn decode(kind: ObjectKind, value: serde_json::Value) -> serde_json::Result<Object> {
    with_kind!(kind, K => serde_json::from_value::<K>(value).map(Into::into))
}

/// All objects of a kind in the scope, by namespace and name. The scope of a cluster-wide kind is the cluster.
pub async fn list(
    context: &Context,
    kind: ObjectKind,
    scope: &Scope,
) -> Result<Vec<Object>, PluginError> {
    with_kind!(kind, K => list_as::<K>(context, kind, scope).await)
}

async fn list_as<K: AnyKind>(
    context: &Context,
    kind: ObjectKind,
    scope: &Scope,
) -> Result<Vec<Object>, PluginError> {
    let place = match &scope.namespace {
        _ if kind.is_of_cluster() => String::new(),
        Some(namespace) => format!(" in namespace {namespace}"),
        None => " in all namespaces".to_owned(),
    };
    let act = format!("list {}{place}", kind.plural());
    let objects = K::objects(context, scope.namespace.as_deref());
    let found = list_pages(&objects, scope.selector.as_deref(), &act).await?;
    let mut found: Vec<Object> = found.into_iter().map(Into::into).collect();
    found.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
    Ok(found)
}

/// The changes of a kind in the scope, or of one object. After an error it continues, with backoff.
pub fn watch(
    context: &Context,
    kind: ObjectKind,
    scope: &Scope,
    name: Option<&str>,
) -> BoxStream<'static, watcher::Result<watcher::Event<Object>>> {
    // A watch without an event for the time of a request would end with an error.
    let seconds = u32::try_from(context.request_timeout.as_secs() / 2).unwrap_or(u32::MAX);
    let mut config = watcher::Config::default().timeout(seconds.clamp(1, 290));
    if let Some(selector) = &scope.selector {
        config = config.labels(selector);
    }
    if let Some(name) = name {
        config = config.fields(&format!("metadata.name={name}"));
    }
    let namespace = scope.namespace.as_deref();
    with_kind!(kind, K => watch_as(K::objects(context, namespace), config).boxed())
}

fn watch_as<K: AnyKind>(
    objects: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<watcher::Event<Object>>> + Send {
    let events = watcher(objects, config).default_backoff();
    events.map_ok(|event| match event {
        watcher::Event::Apply(object) => watcher::Event::Apply(object.into()),
        watcher::Event::Delete(object) => watcher::Event::Delete(object.into()),
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitApply(object) => watcher::Event::InitApply(object.into()),
        watcher::Event::InitDone => watcher::Event::InitDone,
    })
}

/// The objects of a watch, as its events show them.
#[derive(Debug, Default)]
pub struct WatchedObjects {
    shown: BTreeMap<(Option<String>, String), Object>,
    /// The objects of a list that is not complete yet.
    listed: BTreeMap<(Option<String>, String), Object>,
    is_listed: bool,
}

impl WatchedObjects {
    /// Takes an event in.
    pub fn apply(&mut self, event: watcher::Event<Object>) {
        let key = |object: &Object| {
            (
                object.namespace().map(str::to_owned),
                object.name().to_owned(),
            )
        };
        match event {
            watcher::Event::Apply(object) => {
                self.shown.insert(key(&object), object);
            }
            watcher::Event::Delete(object) => {
                self.shown.remove(&key(&object));
            }
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitApply(object) => {
                self.listed.insert(key(&object), object);
            }
            watcher::Event::InitDone => {
                self.shown = std::mem::take(&mut self.listed);
                self.is_listed = true;
            }
        }
    }

    /// Whether a complete list was seen.
    pub fn is_complete(&self) -> bool {
        self.is_listed
    }

    /// The objects, by namespace and name.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.shown.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tag(name: &str, count: i64) -> Object {
        let tag: ServerTag = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "ServerTag",
            "metadata": {"name": name, "namespace": "a"},
            "spec": {}, "status": {"serverCount": count},
        }))
        .unwrap();
        tag.into()
    }

    fn arguments_of(name: &str, kind: Option<ObjectKind>) -> ObjectArgs {
        ObjectArgs {
            name: name.into(),
            kind,
        }
    }

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

    #[test]
    fn name_may_have_its_kind_before_a_slash() {
        let key = Some(ObjectKind::SshKey);
        let parsed = |name, kind| {
            arguments_of(name, kind)
                .parse()
                .map(|(kind, name)| (kind, name.to_owned()))
                .ok()
        };
        assert_eq!(parsed("web", None), Some((None, "web".into())));
        assert_eq!(parsed("web", key), Some((key, "web".into())));
        assert_eq!(parsed("skey/web", None), Some((key, "web".into())));
        assert_eq!(parsed("skey/web", key), Some((key, "web".into())));
        assert_eq!(parsed("bms/web", key), None);
        assert_eq!(parsed("pod/web", None), None);
        assert_eq!(parsed("../web", None), None);
        assert_eq!(parsed("Web", None), None);
    }

    #[test]
    fn arguments_name_what_is_not_the_default() {
        let of = |kind, namespace| arguments(kind, namespace, "web");
        assert_eq!(of(ObjectKind::BareMetalServer, Some("a")), "web -n a");
        assert_eq!(
            of(ObjectKind::ClusterProviderAccount, None),
            "web --kind ClusterProviderAccount"
        );
    }

    #[test]
    fn new_list_replaces_what_the_watch_missed() {
        use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
        let mut watched = WatchedObjects::default();
        let shown = |watched: &WatchedObjects| {
            let counts = watched.objects().map(|object| match object {
                Object::ServerTag(tag) => tag.status.as_ref().unwrap().server_count.unwrap(),
                other => panic!("{other:?}"),
            });
            counts.collect::<Vec<_>>()
        };
        for event in [Init, InitApply(tag("b", 1)), InitApply(tag("a", 2))] {
            watched.apply(event);
        }
        assert!(!watched.is_complete() && shown(&watched).is_empty());
        watched.apply(InitDone);
        assert!(watched.is_complete());
        assert_eq!(shown(&watched), [2, 1]);
        watched.apply(Apply(tag("a", 3)));
        watched.apply(Delete(tag("b", 1)));
        assert_eq!(shown(&watched), [3]);
        for event in [Init, InitApply(tag("c", 4))] {
            watched.apply(event);
        }
        assert_eq!(shown(&watched), [3], "the list is not complete yet");
        watched.apply(InitDone);
        assert_eq!(shown(&watched), [4]);
    }
}
