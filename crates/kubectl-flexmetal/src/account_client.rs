//! A client of the hosting API for an account object, by the caller's own rights.

use crate::{
    context::{Context, api_error},
    exit::PluginError,
};
use api::{
    ClusterProviderAccount, ProviderAccount,
    account::{AccountSpec, AccountStatus, CaBundleKind},
    names::{API_KEY_DATA_KEY, BASE_URL_DATA_KEY},
    references::{AccountKind, PinnedAccount},
};
use hosting::{Client, ClientOptions, dial::Dial};
use hosting_types::{
    BaseUrl,
    list::{Incomplete, ListGap},
    secret::ApiKey,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

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
    /// The account of an object, unless `--base-url` names another way to it.
    pub fn of_object(&self, account: &PinnedAccount) -> Self {
        if self.base_url.is_some() {
            return self.clone();
        }
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
pub struct Account {
    /// Such as `ProviderAccount team-a/default`.
    pub title: String,
    /// Namespace of its Secret.
    pub secret_namespace: String,
    /// Its spec.
    pub spec: AccountSpec,
    /// Its status.
    pub status: AccountStatus,
}

impl Account {
    /// Reads the account object.
    pub async fn read(context: &Context, args: &AccountArgs) -> Result<Self, PluginError> {
        match &args.cluster_account {
            Some(name) => {
                let title = format!("ClusterProviderAccount {name}");
                let api = context.api_of_cluster::<ClusterProviderAccount>();
                let object = api.get(name).await;
                let object = object.map_err(|error| api_error(format!("read {title}"), error))?;
                Ok(Self {
                    title,
                    secret_namespace: context.operator_namespace.clone(),
                    spec: object.spec.account,
                    status: object.status.unwrap_or_default(),
                })
            }
            None => {
                let (namespace, name) = (&context.namespace, &args.account);
                let title = format!("ProviderAccount {namespace}/{name}");
                let object = context.api::<ProviderAccount>().get(name).await;
                let object = object.map_err(|error| api_error(format!("read {title}"), error))?;
                Ok(Self {
                    title,
                    secret_namespace: namespace.clone(),
                    spec: object.spec.account,
                    status: object.status.unwrap_or_default(),
                })
            }
        }
    }

    /// A client with the key of the account's Secret. [`PluginError::NotAllowed`]: the caller may not read it.
    pub async fn connect(&self, context: &Context) -> Result<Client, PluginError> {
        let name = &self.spec.api_key_secret_ref.name;
        let place = format!("Secret {}/{name}", self.secret_namespace);
        let secrets = context.api_in::<Secret>(&self.secret_namespace);
        let act = || format!("read {place}, the key of {}", self.title);
        let secret = secrets
            .get(name)
            .await
            .map_err(|error| self.name_missing_right(api_error(act(), error)))?;
        let data = secret.data.unwrap_or_default();
        let Some(key) = data.get(API_KEY_DATA_KEY) else {
            return Err(PluginError::Other(format!(
                "{place} has no key {API_KEY_DATA_KEY:?}"
            )));
        };
        let key = parse_key(&key.0, &place)?;
        let declared = data.get(BASE_URL_DATA_KEY);
        let declared = declared.map(|url| BaseUrl::parse_bytes(&url.0)).transpose();
        let declared =
            declared.map_err(|error| PluginError::Other(format!("{place}, baseURL: {error}")))?;
        let spec = self
            .spec
            .base_url
            .as_deref()
            .map(BaseUrl::parse)
            .transpose();
        let spec = spec.map_err(|error| {
            PluginError::Other(format!("{}, spec.baseURL: {error}", self.title))
        })?;
        let base_url = match (spec, declared) {
            (Some(spec), Some(declared)) if spec != declared => {
                return Err(PluginError::Other(format!(
                    "spec.baseURL of {} is another URL than baseURL of {place}; the key is sent to neither",
                    self.title
                )));
            }
            (_, Some(declared)) => declared,
            // As with the operator's --allowed-base-url: where the operator accepted the URL, it is this one.
            (Some(spec), None) if self.is_verified(&spec) => spec,
            _ => {
                return Err(PluginError::Other(format!(
                    "{place} has no key {BASE_URL_DATA_KEY:?}, so its API key is sent nowhere"
                )));
            }
        };
        let mut options = ClientOptions::new(base_url, key);
        // The operator accepted it, or the caller's own rights show the Secret that names it.
        options.dial = Dial::Anywhere;
        options.read_timeout = context.request_timeout;
        options.ca_bundle = self.ca_bundle(context).await?;
        build(options)
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

    fn is_verified(&self, base_url: &BaseUrl) -> bool {
        let verified = self.status.verified.as_ref();
        verified.is_some_and(|it| it.base_url == base_url.as_str())
    }

    async fn ca_bundle(&self, context: &Context) -> Result<Option<Vec<u8>>, PluginError> {
        if let Some(text) = &self.spec.ca_bundle {
            return Ok(Some(text.clone().into_bytes()));
        }
        let Some(reference) = &self.spec.ca_bundle_ref else {
            return Ok(None);
        };
        let namespace = &self.secret_namespace;
        let key = reference.key.as_deref().unwrap_or("ca.crt");
        let act = format!(
            "read the CA bundle {:?} {namespace}/{}",
            reference.kind, reference.name
        );
        match reference.kind {
            CaBundleKind::ConfigMap => {
                let map = context
                    .api_in::<ConfigMap>(namespace)
                    .get(&reference.name)
                    .await;
                let map = map.map_err(|error| api_error(act, error))?;
                let text = map.data.unwrap_or_default().remove(key);
                Ok(text.map(String::into_bytes))
            }
            CaBundleKind::Secret => {
                let secret = context
                    .api_in::<Secret>(namespace)
                    .get(&reference.name)
                    .await;
                let secret = secret.map_err(|error| api_error(act, error))?;
                Ok(secret
                    .data
                    .unwrap_or_default()
                    .remove(key)
                    .map(|bytes| bytes.0))
            }
        }
    }
}

/// A client for the account, or for `--base-url`. [`PluginError::NotAllowed`]: the caller may not read its Secret.
pub async fn connect(context: &Context, args: &AccountArgs) -> Result<Client, PluginError> {
    let Some(base_url) = &args.base_url else {
        return Account::read(context, args).await?.connect(context).await;
    };
    let base_url = BaseUrl::parse(base_url)
        .map_err(|error| PluginError::Usage(format!("--base-url: {error}")))?;
    let Some(key) = std::env::var_os(KEY_VARIABLE) else {
        return Err(PluginError::Usage(format!(
            "--base-url needs the key in {KEY_VARIABLE}"
        )));
    };
    let key = parse_key(key.as_encoded_bytes(), KEY_VARIABLE)?;
    let mut options = ClientOptions::new(base_url, key);
    // The caller names the URL.
    options.dial = Dial::Anywhere;
    options.read_timeout = context.request_timeout;
    build(options)
}

fn parse_key(bytes: &[u8], place: &str) -> Result<ApiKey, PluginError> {
    ApiKey::parse(bytes).map_err(|error| PluginError::Other(format!("{place}: {error}")))
}

fn build(options: ClientOptions) -> Result<Client, PluginError> {
    Client::new(options).map_err(|error| PluginError::Other(error.to_string()))
}

/// Whether the API server says that the caller lacks a right.
pub fn is_forbidden(error: &PluginError) -> bool {
    let PluginError::ApiServer { source, .. } = error else {
        return false;
    };
    matches!(source.as_ref(), kube::Error::Api(status) if status.code == 403)
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
