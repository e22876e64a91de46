//! Addresses of a server or host, as a Node has them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One address of a server or host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Address {
    /// `ExternalIP` for an address that is reachable from everywhere, `InternalIP` for an address of a private network,
    /// `Hostname` if the provider reports a name.
    #[serde(rename = "type")]
    pub kind: AddressType,
    /// IPv4 address, IPv6 address or host name.
    #[schemars(length(max = 64))]
    pub address: String,
}

/// Type of an address, as of a Node's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AddressType {
    /// An address that is reached from everywhere.
    #[default]
    ExternalIP,
    /// An address of a private network.
    InternalIP,
    /// A name.
    Hostname,
}

impl Address {
    /// An address as the provider gives it. Private are RFC 1918, RFC 6598 (shared), RFC 4193 (unique local), and all
    /// addresses that never leave a link or a host.
    pub fn from_text(text: &str) -> Self {
        let kind = match text.trim().parse() {
            Ok(IpAddr::V4(v4)) if is_private(v4) => AddressType::InternalIP,
            Ok(IpAddr::V6(v6)) if is_local(v6) => AddressType::InternalIP,
            Ok(_) => AddressType::ExternalIP,
            Err(_) => AddressType::Hostname,
        };
        Self {
            kind,
            address: text.to_owned(),
        }
    }
}

fn is_private(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    let is_shared = first == 100 && second & 0xc0 == 64;
    address.is_private() || address.is_loopback() || address.is_link_local() || is_shared
}

fn is_local(address: Ipv6Addr) -> bool {
    match address.to_ipv4_mapped() {
        Some(v4) => is_private(v4),
        None => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_tells_from_where_it_is_reached() {
        use AddressType::{ExternalIP, Hostname, InternalIP};
        for (text, kind) in [
            ("192.0.2.7", ExternalIP),
            ("2001:db8::7", ExternalIP),
            ("10.1.2.3", InternalIP),
            ("172.31.0.1", InternalIP),
            ("192.168.0.9", InternalIP),
            ("100.64.0.1", InternalIP),
            ("100.128.0.1", ExternalIP),
            ("169.254.1.1", InternalIP),
            ("127.0.0.1", InternalIP),
            ("fd00::1", InternalIP),
            ("fe80::1", InternalIP),
            ("::1", InternalIP),
            ("::ffff:10.0.0.1", InternalIP),
            ("::ffff:192.0.2.1", ExternalIP),
            ("web.example.com", Hostname),
            ("", Hostname),
        ] {
            assert_eq!(Address::from_text(text).kind, kind, "{text:?}");
        }
    }
}
