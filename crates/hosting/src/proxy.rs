//! The proxy between the operator and the hosting API.

use url::Url;

/// An HTTP proxy that tunnels (CONNECT) to every https base URL: it sees the host but never the key. Plain http is
/// called directly, since a proxy would read the key.
#[derive(Debug, Clone)]
pub struct ProviderProxy(reqwest::Proxy);

/// The text is not the URL of a proxy. It is not repeated, since it may contain a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the provider proxy is not a proxy URL; write it as http://HOST:PORT or https://HOST:PORT, without user name and path"
)]
pub struct ProxyError;

impl ProviderProxy {
    /// Reads the URL of a proxy. Err: how to write it.
    pub fn parse(text: &str) -> Result<Self, ProxyError> {
        let url = Url::parse(text).map_err(|_| ProxyError)?;
        let is_bare = url.username().is_empty()
            && url.password().is_none()
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none();
        if !is_bare || !matches!(url.scheme(), "http" | "https") {
            return Err(ProxyError);
        }
        let proxy = reqwest::Proxy::https(url);
        Ok(Self(proxy.map_err(|_| ProxyError)?))
    }

    /// For an HTTP client.
    pub(super) fn inner(&self) -> reqwest::Proxy {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_host_and_nothing_else() {
        for text in [
            "http://proxy:3128",
            "https://10.0.0.5",
            "http://[::1]:3128/",
        ] {
            assert!(ProviderProxy::parse(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "proxy:3128",
            "socks5://proxy:1080",
            "http://me:canary@proxy:3128",
            "http://me@proxy:3128",
            "http://proxy:3128/path",
            "http://proxy:3128?query",
            "http://proxy:3128#fragment",
        ] {
            let error = ProviderProxy::parse(text).unwrap_err();
            assert!(!error.to_string().contains("canary"), "{text}");
        }
    }
}
