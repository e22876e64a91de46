//! A client of the hosting API for an account object, by the caller's own rights.

use crate::{
    context::{ListScope, PluginContext, api_error},
    exit::PluginError,
};
use api::{
    ClusterProviderAccount, ProviderAccount,
    account::{AccountSpec, AccountStatus, CaBundleKind},
    names::{API_KEY_DATA_KEY, API_KEY_SECRET, BASE_URL_DATA_KEY},
    references::{AccountKind, PinnedAccount},
};
use flexmetal_core::account::destination::choose_destination;
use hosting::{Client, ClientOptions, dial::Dial};
use hosting_types::{
    BaseUrl, Server, ServerFilter,
    list::{Incomplete, ListGap},
    secret::ApiKey,
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Namespace, Secret},
};
use kube::Resource;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Which account.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Account")]
pub struct AccountArgs {
    /// ProviderAccount of the namespace
    #[arg(
        long,
        value_name = "NAME",
        default_value = "default",
        conflicts_with = "cluster_account"
    )]
    pub account: String,
    /// ClusterProviderAccount instead
    #[arg(long, value_name = "NAME")]
    pub cluster_account: Option<String>,
    /// Ask this hosting API with the key in FLEXMETAL_API_KEY, without an account object
    #[arg(long, value_name = "URL", conflicts_with_all = ["account", "cluster_account"])]
    pub base_url: Option<String>,
}

impl AccountArgs {
    /// The account object that the arguments name.
    pub fn reference(&self) -> PinnedAccount {
        match &self.cluster_account {
            Some(name) => PinnedAccount {
                kind: AccountKind::ClusterProviderAccount,
                name: name.clone(),
            },
            None => PinnedAccount {
                kind: AccountKind::ProviderAccount,
                name: self.account.clone(),
            },
        }
    }

    /// The account of an object, unless `--base-url` names another way to it.
    pub fn of_object(&self, account: &PinnedAccount) -> Self {
        if self.base_url.is_some() {
            return self.clone();
        }
        Self::from_reference(account)
    }

    /// The account object of this reference.
    pub fn from_reference(account: &PinnedAccount) -> Self {
        let is_of_cluster = account.kind == AccountKind::ClusterProviderAccount;
        Self {
            account: account.name.clone(),
            cluster_account: is_of_cluster.then(|| account.name.clone()),
            base_url: None,
        }
    }
}

/// Variable with the key for `--base-url`.
pub const KEY_VARIABLE: &str = "FLEXMETAL_API_KEY";

/// An account object of either kind.
pub struct NamedAccount {
    /// Such as `ProviderAccount team-a/default`.
    pub title: String,
    /// Namespace of its Secret.
    pub secret_namespace: String,
    /// Its spec.
    pub spec: AccountSpec,
    /// Its status.
    pub status: AccountStatus,
}

impl NamedAccount {
    /// Reads the account object.
    pub async fn get(context: &PluginContext, args: &AccountArgs) -> Result<Self, PluginError> {
        let failed = |title: &str, error| api_error(format!("read {title}"), error);
        let (title, secret_namespace, spec, status) = match &args.cluster_account {
            Some(name) => {
                let title = format!("ClusterProviderAccount {name}");
                let api = context.api_of_cluster::<ClusterProviderAccount>();
                let object = api.get(name).await.map_err(|it| failed(&title, it))?;
                let namespace = &context.operator_namespace;
                (title, namespace, object.spec.account, object.status)
            }
            None => {
                let (namespace, name) = (&context.namespace, &args.account);
                let title = format!("ProviderAccount {namespace}/{name}");
                let api = context.api::<ProviderAccount>();
                let object = api.get(name).await.map_err(|it| failed(&title, it))?;
                (title, namespace, object.spec.account, object.status)
            }
        };
        Ok(Self {
            title,
            secret_namespace: secret_namespace.clone(),
            spec,
            status: status.unwrap_or_default(),
        })
    }

    /// A client with the key of the account's Secret. [`PluginError::NotAllowed`]: the caller may not read it.
    pub async fn connect(&self, context: &PluginContext) -> Result<Client, PluginError> {
        let name = &self.spec.api_key_secret_ref.name;
        let place = format!("Secret {}/{name}", self.secret_namespace);
        let secrets = context.api_in::<Secret>(&self.secret_namespace);
        let secret = secrets.get(name).await.map_err(|error| {
            let act = format!("read {place}, the key of {}", self.title);
            self.name_missing_right(api_error(act, error))
        })?;
        if secret.type_.as_deref() != Some(API_KEY_SECRET) {
            return Err(PluginError::Other(format!(
                "{place} is not of type {API_KEY_SECRET}, so its key is sent nowhere"
            )));
        }
        let data = secret.data.unwrap_or_default();
        let no_key = |key: &str| PluginError::Other(format!("{place} has no key {key:?}"));
        let key = data.get(API_KEY_DATA_KEY);
        let key = parse_key(&key.ok_or_else(|| no_key(API_KEY_DATA_KEY))?.0, &place)?;
        let declared = data.get(BASE_URL_DATA_KEY).map(|it| &*it.0);
        let base_url = self.base_url(declared, &key.fingerprint(), &place)?;
        let mut options = ClientOptions::new(base_url, key);
        options.ca_bundle = self.ca_bundle(context).await?;
        build(context, options)
    }

    /// Where the key goes: where its Secret says. `declared`: `baseURL` of the Secret.
    fn base_url(
        &self,
        declared: Option<&[u8]>,
        fingerprint: &str,
        place: &str,
    ) -> Result<BaseUrl, PluginError> {
        let title = &self.title;
        let declared = declared.map(BaseUrl::parse_bytes).transpose();
        let declared = declared.map_err(|error| {
            PluginError::Other(format!("{place}, {BASE_URL_DATA_KEY}: {error}"))
        })?;
        let spec = self.spec.base_url.as_deref().map(BaseUrl::parse);
        let spec = spec
            .transpose()
            .map_err(|error| PluginError::Other(format!("{title}, spec.baseURL: {error}")))?;
        let verified = self.status.verified.as_ref();
        let verified = verified.filter(|it| it.credentials_hash == fingerprint);
        let verified = verified.map(|it| &*it.base_url);
        // As with the operator's --allowed-base-url: the operator accepted this URL, and for this key.
        let is_listed = |spec: &BaseUrl| verified == Some(spec.as_str());
        choose_destination(spec, declared, is_listed, place)
            .map_err(|why| PluginError::Other(format!("{title}: {why}")))
    }

    /// If the caller may not read the Secret: which right is missing, and the other way.
    fn name_missing_right(&self, error: PluginError) -> PluginError {
        match is_forbidden(&error) {
            true => PluginError::NotAllowed(format!(
                "the key of {} cannot be read: needs \"get\" on secrets in namespace {}, or --base-url with {KEY_VARIABLE}",
                self.title, self.secret_namespace
            )),
            false => error,
        }
    }

    async fn ca_bundle(&self, context: &PluginContext) -> Result<Option<Vec<u8>>, PluginError> {
        if let Some(text) = &self.spec.ca_bundle {
            return Ok(Some(text.clone().into_bytes()));
        }
        let Some(reference) = &self.spec.ca_bundle_ref else {
            return Ok(None);
        };
        let (namespace, name) = (&self.secret_namespace, &reference.name);
        let key = reference.key.as_deref().unwrap_or("ca.crt");
        let kind = reference.kind;
        let failed = |it| {
            api_error(
                format!("read the CA bundle {kind:?} {namespace}/{name}"),
                it,
            )
        };
        let bundle = match kind {
            CaBundleKind::ConfigMap => {
                let map = context.api_in::<ConfigMap>(namespace).get(name).await;
                let text = map.map_err(failed)?.data.unwrap_or_default().remove(key);
                text.map(String::into_bytes)
            }
            CaBundleKind::Secret => {
                let secret = context.api_in::<Secret>(namespace).get(name).await;
                let bytes = secret.map_err(failed)?.data.unwrap_or_default().remove(key);
                bytes.map(|bytes| bytes.0)
            }
        };
        // Without it the client would trust other certificates than the operator.
        let missing = || {
            PluginError::Other(format!(
                "the CA bundle of {} is missing: {kind:?} {namespace}/{name} has no key {key:?}",
                self.title
            ))
        };
        bundle.map(Some).ok_or_else(missing)
    }
}

/// A client for the account, or for `--base-url`. [`PluginError::NotAllowed`]: the caller may not read its Secret.
pub async fn connect(context: &PluginContext, args: &AccountArgs) -> Result<Client, PluginError> {
    let Some(base_url) = &args.base_url else {
        return NamedAccount::get(context, args)
            .await?
            .connect(context)
            .await;
    };
    let base_url = BaseUrl::parse(base_url)
        .map_err(|error| PluginError::Usage(format!("--base-url: {error}")))?;
    let Some(key) = std::env::var_os(KEY_VARIABLE) else {
        return Err(PluginError::Usage(format!(
            "--base-url needs the key in {KEY_VARIABLE}"
        )));
    };
    let key = parse_key(key.as_encoded_bytes(), KEY_VARIABLE)?;
    build(context, ClientOptions::new(base_url, key))
}

/// All servers of the account.
pub async fn list_servers(
    client: &Client,
    filter: &ServerFilter,
) -> Result<Vec<Server>, PluginError> {
    let list = client.all_servers(filter).growing().collect().await;
    let list = list.map_err(|it| list_error("list the servers of the account", it))?;
    Ok(list.into_records())
}

fn parse_key(bytes: &[u8], place: &str) -> Result<ApiKey, PluginError> {
    ApiKey::parse(bytes).map_err(|error| PluginError::Other(format!("{place}: {error}")))
}

fn build(context: &PluginContext, mut options: ClientOptions) -> Result<Client, PluginError> {
    // The caller names the URL, or may read the Secret that names it, or the operator accepted it.
    options.dial = Dial::Anywhere;
    options.read_timeout = context.request_timeout;
    Client::new(options).map_err(|error| PluginError::Other(error.to_string()))
}

/// Whether the API server says that the caller lacks a right.
pub fn is_forbidden(error: &PluginError) -> bool {
    let PluginError::ApiServer { source, .. } = error else {
        return false;
    };
    matches!(source.as_ref(), kube::Error::Api(status) if status.code == 403)
}

/// The objects of all namespaces, and true. Without the right to list these: those of the context's namespace, a warning
/// and false.
pub async fn list_known<K>(context: &PluginContext) -> Result<(Vec<K>, bool), PluginError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let own = &context.namespace;
    match context.list(&ListScope::default()).await {
        Err(error) if is_forbidden(&error) => {
            let kind = K::plural(&());
            let scope = ListScope {
                namespace: Some(own.clone()),
                selector: None,
            };
            let listed = context.list(&scope).await?;
            context.printer.warn(&format!(
                "warning: needs \"list\" on {kind} in all namespaces to know all objects; only those of namespace {own} are known"
            ));
            Ok((listed, false))
        }
        listed => Ok((listed?, true)),
    }
}

/// The same, for what is only shown: no objects and a warning if the caller may list none.
pub async fn list_allowed<K>(context: &PluginContext) -> Result<(Vec<K>, bool), PluginError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    match list_known(context).await {
        Err(error) if is_forbidden(&error) => {
            let why = error.explain();
            context
                .printer
                .warn(&format!("warning: no objects are shown: {why}"));
            Ok((Vec::new(), false))
        }
        listed => listed,
    }
}

/// An error of the hosting API, with what was tried.
pub fn hosting_error(act: impl Into<String>, error: hosting_types::Error) -> PluginError {
    PluginError::HostingApi {
        act: act.into(),
        source: Box::new(error),
    }
}

/// A list of the hosting API that is not complete, with what was tried.
pub fn list_error<T: std::fmt::Debug>(act: &str, incomplete: Incomplete<T>) -> PluginError {
    match incomplete.gap {
        ListGap::Failed(error) => hosting_error(act, error),
        gap => PluginError::Other(format!("cannot {act}: {gap}")),
    }
}

/// All namespaces; none without the right.
pub async fn list_namespaces(context: &PluginContext) -> Result<Vec<Namespace>, PluginError> {
    match context.list_of_cluster().await {
        Err(error) if is_forbidden(&error) => Ok(Vec::new()),
        listed => listed,
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The arguments of a user who names no account.
    pub fn account_args() -> AccountArgs {
        AccountArgs {
            account: "default".into(),
            cluster_account: None,
            base_url: None,
        }
    }

    #[test]
    fn key_goes_only_where_its_secret_says() {
        let url_for = |key: &str, spec: Value, declared: Option<&str>, verified: &str| {
            let account = NamedAccount {
                title: "ProviderAccount a/default".into(),
                secret_namespace: "a".into(),
                spec: serde_json::from_value(json!({
                    "apiKeySecretRef": {"name": "key"}, "baseURL": spec,
                }))
                .unwrap(),
                status: serde_json::from_value(json!({
                    "verified": {"baseURL": verified, "credentialsHash": "x"},
                }))
                .unwrap(),
            };
            let url = account.base_url(declared.map(str::as_bytes), key, "Secret a/key");
            url.ok().map(|url| url.as_str().to_owned())
        };
        let url = |spec, declared, verified: &str| url_for("x", spec, declared, verified);
        let (one, other) = ("https://api.example.com", "https://other.example.com");
        assert_eq!(url(json!(null), Some(one), other).as_deref(), Some(one));
        assert_eq!(url(json!(one), Some(other), one), None);
        assert_eq!(url(json!(one), None, one).as_deref(), Some(one));
        assert_eq!(url(json!(one), None, other), None);
        assert_eq!(url(json!(null), None, one), None);
        // The account verified another key there.
        assert_eq!(url_for("y", json!(one), None, one), None);
    }
}
