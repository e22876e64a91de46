//! Where this process may send API keys, by its flags, and how it connects.

use flexmetal_core::wording::listed;
use hosting::{
    ProviderProxy,
    dial::{self, Dial, Lookups},
};
use hosting_types::BaseUrl;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Maximum lookups of names at once for the accounts of one namespace.
const LOOKUPS: usize = 4;

/// The start of a URL, so that a message stays short.
fn cut(url: &BaseUrl) -> &str {
    /// Maximum bytes of a URL in a message.
    const MOST: usize = 80;
    let url = url.as_str();
    &url[..url.floor_char_boundary(MOST)]
}

/// Where keys may be sent. A clone shares the state.
#[derive(Clone, Default)]
pub struct AllowedEndpoints {
    allowed: Arc<[BaseUrl]>,
    proxy: Option<ProviderProxy>,
    lookups: Arc<Mutex<HashMap<Option<String>, Lookups>>>,
}

impl AllowedEndpoints {
    /// Allows these URLs and no others. Without any, allows https to public addresses. Uses the proxy, if there is one.
    pub fn new(allowed: Vec<BaseUrl>, proxy: Option<ProviderProxy>) -> Self {
        Self {
            allowed: allowed.into(),
            proxy,
            lookups: Arc::default(),
        }
    }

    /// Whether URLs are listed. Then a Secret need not name one.
    pub fn is_listed(&self) -> bool {
        !self.allowed.is_empty()
    }

    /// Parses a base URL and checks whether a key may be sent there.
    ///
    /// # Errors
    /// What is wrong. The text begins with `baseURL` and ends with the remedy.
    pub fn judge(&self, base_url: &str) -> Result<BaseUrl, String> {
        self.permit(BaseUrl::parse(base_url).map_err(|error| error.to_string())?)
    }

    /// Checks whether a key may be sent to this base URL.
    ///
    /// # Errors
    /// Why not. The text begins with `baseURL` and ends with the remedy.
    pub fn permit(&self, base_url: BaseUrl) -> Result<BaseUrl, String> {
        if !self.is_listed() {
            dial::check(&base_url, self.proxy()).map_err(|error| error.to_string())?;
        } else if !self.allowed.contains(&base_url) {
            return Err(format!(
                "baseURL {} is not allowed; this operator may call only {}. Correct it, or let a cluster admin list it with --allowed-base-url",
                cut(&base_url),
                listed(self.allowed.iter().map(cut))
            ));
        }
        Ok(base_url)
    }

    /// The proxy for calls to the hosting API.
    pub fn proxy(&self) -> Option<&ProviderProxy> {
        self.proxy.as_ref()
    }

    /// How the accounts of this namespace connect (`None`: the cluster-scoped accounts). Names that do not resolve use
    /// up the lookups of their own namespace only.
    pub fn dial(&self, namespace: Option<&str>) -> Dial {
        if self.is_listed() {
            return Dial::Anywhere;
        }
        let lookups = self.lookups.lock();
        let mut lookups = lookups.unwrap_or_else(PoisonError::into_inner);
        let lookups = lookups.entry(namespace.map(str::to_owned));
        Dial::PublicOnly(lookups.or_insert_with(|| Lookups::new(LOOKUPS)).clone())
    }
}
