//! The cluster and namespace that a command is about, and its reads.

use crate::{
    exit::PluginError,
    output::{OutputForm, Printer},
};
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Config, Resource, ResourceExt as _,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, path::PathBuf, sync::OnceLock, time::Duration};

/// Flags of every command, with the names of kubectl.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Flags of every command")]
pub struct GlobalArgs {
    /// Namespace; default: the one of the kubeconfig's context
    #[arg(short, long, global = true)]
    pub namespace: Option<String>,
    /// Context of the kubeconfig
    #[arg(long, global = true)]
    pub context: Option<String>,
    /// Kubeconfig file; default: kubectl's rules
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the operator, with the key Secrets of ClusterProviderAccounts
    #[arg(
        long,
        global = true,
        value_name = "NAMESPACE",
        default_value = "flexmetal-system"
    )]
    pub operator_namespace: String,
    /// Form of the output
    #[arg(short, long, global = true, value_enum, default_value_t)]
    pub output: OutputForm,
    /// No colours; so has NO_COLOR
    #[arg(long, global = true)]
    pub no_color: bool,
    /// How many seconds a request may take
    #[arg(long, global = true, value_name = "SECONDS", default_value = "30", value_parser = parse_timeout)]
    pub request_timeout: Duration,
    /// Print data and errors only
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    let digits = text.strip_suffix('s').unwrap_or(text);
    match digits.parse() {
        Ok(seconds @ 1..=3600) => Ok(Duration::from_secs(seconds)),
        _ => Err("give seconds, such as 30 or 30s, at most 3600".into()),
    }
}

/// `-A` and `-l` of commands that list objects.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ScopeArgs {
    /// All namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Label selector
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
}

/// Names of objects of one namespace.
#[derive(Clone, Debug, Default)]
pub struct ListScope {
    /// None: all namespaces.
    pub namespace: Option<String>,
    /// Label selector.
    pub selector: Option<String>,
}

/// What every command has.
pub struct PluginContext {
    /// The client of the API server.
    pub client: Client,
    /// The namespace of named objects.
    pub namespace: String,
    /// Namespace of the operator.
    pub operator_namespace: String,
    /// How to print.
    pub printer: Printer,
    /// How long a request may take.
    pub request_timeout: Duration,
}

/// The flags of this process that say which cluster is meant.
static CLUSTER_FLAGS: OnceLock<String> = OnceLock::new();

/// The flags that a command to be copied needs for the same cluster, with a blank before each; empty without such flags.
pub fn cluster_flags() -> &'static str {
    CLUSTER_FLAGS.get().map_or("", String::as_str)
}

fn describe_cluster_flags(args: &GlobalArgs) -> String {
    let kubeconfig = args.kubeconfig.as_ref().map(|it| it.to_string_lossy());
    let flags = [
        ("kubeconfig", kubeconfig.as_deref()),
        ("context", args.context.as_deref()),
    ];
    let given = flags
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    // Quoted for a shell: names of contexts may hold anything.
    let given = given.map(|(name, value)| format!(" --{name} '{}'", value.replace('\'', r"'\''")));
    given.collect()
}

impl PluginContext {
    /// Connects to the cluster; sends nothing yet.
    pub async fn connect(args: &GlobalArgs) -> Result<Self, PluginError> {
        CLUSTER_FLAGS.get_or_init(|| describe_cluster_flags(args));
        let config = load_config(args).await?;
        let namespace = args.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
        let client =
            Client::try_from(config).map_err(|error| PluginError::Kubeconfig(Box::new(error)))?;
        Ok(Self {
            client,
            namespace,
            operator_namespace: args.operator_namespace.clone(),
            printer: Printer::new(args.output, args.quiet, args.no_color),
            request_timeout: args.request_timeout,
        })
    }

    /// The scope of a command that lists.
    pub fn scope(&self, args: &ScopeArgs) -> ListScope {
        ListScope {
            namespace: (!args.all_namespaces).then(|| self.namespace.clone()),
            selector: args.selector.clone(),
        }
    }

    /// The objects of a kind in the context's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The objects of a kind in a namespace.
    pub fn api_in<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The objects of a cluster-wide kind, or those of all namespaces.
    pub fn api_of_cluster<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = ()>,
    {
        Api::all(self.client.clone())
    }

    /// Reads an object of the context's namespace.
    pub async fn get<K>(&self, name: &str) -> Result<K, PluginError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let act = || {
            format!(
                "read {} {name} in namespace {}",
                K::kind(&()),
                self.namespace
            )
        };
        self.api()
            .get(name)
            .await
            .map_err(|error| api_error(act(), error))
    }

    /// All objects of a kind in the scope, by namespace and name.
    pub async fn list<K>(&self, scope: &ListScope) -> Result<Vec<K>, PluginError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let api: Api<K> = match &scope.namespace {
            Some(namespace) => self.api_in(namespace),
            None => self.api_of_cluster(),
        };
        let place = match &scope.namespace {
            Some(namespace) => format!("namespace {namespace}"),
            None => "all namespaces".to_owned(),
        };
        let act = format!("list {} in {place}", K::plural(&()));
        let mut objects = list_pages(&api, scope.selector.as_deref(), &act).await?;
        objects.sort_by_key(|object| (object.namespace(), object.name_any()));
        Ok(objects)
    }

    /// All objects of a cluster-wide kind, by name.
    pub async fn list_of_cluster<K>(&self) -> Result<Vec<K>, PluginError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let act = format!("list {}", K::plural(&()));
        let mut objects = list_pages(&self.api_of_cluster(), None, &act).await?;
        objects.sort_by_key(|object: &K| object.name_any());
        Ok(objects)
    }
}

async fn load_config(args: &GlobalArgs) -> Result<Config, PluginError> {
    let failed = |error: kube::config::KubeconfigError| PluginError::Kubeconfig(Box::new(error));
    let options = KubeConfigOptions {
        context: args.context.clone(),
        ..KubeConfigOptions::default()
    };
    let mut config = match &args.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(failed)?;
            Config::from_custom_kubeconfig(file, &options)
                .await
                .map_err(failed)?
        }
        None if args.context.is_some() => {
            Config::from_kubeconfig(&options).await.map_err(failed)?
        }
        None => Config::infer()
            .await
            .map_err(|error| PluginError::Kubeconfig(Box::new(error)))?,
    };
    config.read_timeout = Some(args.request_timeout);
    config.connect_timeout = Some(args.request_timeout);
    Ok(config)
}

/// All pages of a list; `act` says what was tried, for the error.
pub async fn list_pages<K>(
    api: &Api<K>,
    selector: Option<&str>,
    act: &str,
) -> Result<Vec<K>, PluginError>
where
    K: Clone + Debug + DeserializeOwned,
{
    let mut params = ListParams::default().limit(500);
    params.label_selector = selector.map(str::to_owned);
    let mut objects = Vec::new();
    loop {
        let page = api
            .list(&params)
            .await
            .map_err(|error| api_error(act.to_owned(), error))?;
        objects.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(objects),
        }
    }
}

/// An error of the API server, with what was tried.
pub fn api_error(act: String, error: kube::Error) -> PluginError {
    PluginError::ApiServer {
        act,
        source: Box::new(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser as _;

    #[test]
    fn cluster_flags_are_quoted_for_a_shell() {
        let flags = |words: &[&str]| {
            let words = [&["flexmetal", "status"], words].concat();
            describe_cluster_flags(&Cli::parse_from(words).global)
        };
        assert_eq!(flags(&["-n", "a"]), "");
        assert_eq!(
            flags(&["--context", "prod'; x", "--kubeconfig", "/a b"]),
            r" --kubeconfig '/a b' --context 'prod'\''; x'"
        );
    }
}
