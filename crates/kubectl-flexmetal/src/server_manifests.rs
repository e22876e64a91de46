//! Manifests that adopt servers of the provider: with them the operator reads, and adds its two tags. Nothing else of a
//! server differs from its manifest.

use crate::server_owners::{ServerOwners, name_hash};
use api::{
    names::{CLUSTER_TAG, RESERVED_PREFIX},
    references::{AccountKind, PinnedAccount, is_object_name},
};
use flexmetal_core::{account::ownership_tags, cluster_id::ClusterId, owner};
use hosting_types::{Server, server::SystemFamily, tag::is_tag};
use regex::Regex;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The longest name of a BareMetalServer.
const LONGEST_NAME: usize = 200;
/// The longest part of a name between dots.
const LONGEST_LABEL: usize = 63;
/// The most entries of `spec.tags`.
const MOST_SPEC_TAGS: usize = 56;

/// Which objects adopt the servers.
#[derive(Clone, Debug)]
pub struct ManifestTarget {
    /// Their namespace.
    pub namespace: String,
    /// The account that they use.
    pub account: PinnedAccount,
    /// The identity of the cluster, if it is known.
    pub cluster: Option<ClusterId>,
}

impl ManifestTarget {
    /// Why the operator would not adopt a server for these objects, by its tags, and what to do.
    pub fn find_block(&self, server: &Server) -> Option<&'static str> {
        let cluster = self.cluster.as_ref();
        let is_other = |tag: &String| {
            tag.starts_with(CLUSTER_TAG) && cluster.is_none_or(|cluster| *tag != cluster.tag())
        };
        if server.tags.iter().any(is_other) {
            return Some(
                "tag of another cluster; to take it, remove its fmo- tags at the provider",
            );
        }
        let own = cluster.map(|it| owner::namespace_hash(it.as_str(), &self.namespace));
        let mut namespaces = ownership_tags::owners(server).map(owner::namespace_of);
        let is_shared = self.account.kind == AccountKind::ClusterProviderAccount;
        let is_elsewhere = is_shared && namespaces.any(|it| own.as_deref() != Some(it));
        is_elsewhere.then_some(
            "order tag of another namespace; use that namespace, or have its fmo-order tag removed at the provider",
        )
    }

    /// Names for the objects of these servers: the host name where an object can have it and no other server or object
    /// competes for it, else with the end of the UUID. A second run chooses the same names.
    pub fn choose_names(
        &self,
        servers: &[&Server],
        all: &[Server],
        owners: &ServerOwners,
    ) -> Vec<String> {
        let live = || all.iter().filter(|server| server.status.is_live());
        let mut counts: HashMap<String, usize> = HashMap::new();
        for server in live() {
            *counts.entry(to_object_name(&server.name)).or_default() += 1;
        }
        let tagged =
            live().flat_map(|it| ownership_tags::name_hashes(it).map(move |hash| (hash, it)));
        let tagged: HashSet<_> = tagged.map(|(hash, it)| (hash, it.id.as_str())).collect();
        let is_free = |server: &Server, name: &str| {
            let hash = self.cluster.as_ref();
            let hash = hash.map(|cluster| name_hash(cluster, &self.namespace, name));
            // Such a server counts as one of the object with this name.
            let is_of_another = tagged
                .iter()
                .any(|(of, id)| hash.as_deref() == Some(*of) && *id != server.id.as_str());
            !name.is_empty() && !is_of_another && counts.get(name).is_none_or(|it| *it <= 1)
        };
        let mut taken = owners.names_in(&self.namespace);
        let names = servers.iter().map(|server| {
            let plain = to_object_name(&server.name);
            let id = server.id.as_str().to_ascii_lowercase();
            // The first digits are a time in some UUIDs.
            let end = id.get(id.len().saturating_sub(8)..).unwrap_or(&id);
            let mut name = match is_free(server, &plain) && !taken.contains(&plain) {
                true => plain,
                false => with_suffix(&plain, end),
            };
            if taken.contains(&name) {
                name = with_suffix("", &id);
            }
            taken.insert(name.clone());
            name
        });
        names.collect()
    }

    /// The manifest of an object that adopts the server.
    pub fn build_manifest(&self, server: &Server, name: &str) -> Value {
        let mut spec = json!({"externalID": server.id.as_str(), "deletionPolicy": "Retain"});
        let PinnedAccount {
            kind,
            name: account,
        } = &self.account;
        match kind {
            AccountKind::ClusterProviderAccount => {
                spec["accountRef"] = json!({"kind": kind.as_str(), "name": account});
            }
            AccountKind::ProviderAccount if account == "default" => {}
            AccountKind::ProviderAccount => spec["accountRef"] = json!({"name": account}),
        }
        for (field, value) in [
            ("location", &server.location),
            ("instanceType", &server.instance_type),
        ] {
            if fits(value, "^.{1,128}$") {
                spec[field] = json!(value);
            }
        }
        // Other systems need settings that the provider does not return.
        let family = SystemFamily::of_slug(&server.os_slug);
        let has_no_settings = matches!(family, SystemFamily::Linux | SystemFamily::Windows);
        if has_no_settings && fits(&server.os_slug, "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$") {
            spec["os"] = json!({"slug": server.os_slug});
        }
        let hostname = server.name.trim();
        if !hostname.eq_ignore_ascii_case(name)
            && hostname.len() <= 253
            && fits(hostname, HOST_NAME)
        {
            spec["hostname"] = json!(hostname);
        }
        let contract = server.contract_id.as_deref();
        if let Some(contract) = contract.filter(|it| fits(it, "^[A-Z0-9_.-]{1,240}$")) {
            spec["contractID"] = json!(contract);
        }
        let is_allowed = |tag: &&String| is_tag(tag) && !tag.starts_with(RESERVED_PREFIX);
        let tags: BTreeSet<&String> = server.tags.iter().filter(is_allowed).collect();
        if !tags.is_empty() {
            spec["tags"] = tags.into_iter().take(MOST_SPEC_TAGS).cloned().collect();
        }
        json!({
            "apiVersion": "flexmetal.dev/v1alpha1",
            "kind": "BareMetalServer",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": spec,
        })
    }
}

const HOST_NAME: &str = r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$";

/// Whether the API server accepts a text of the provider.
fn fits(text: &str, pattern: &str) -> bool {
    Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
}

/// A name with a suffix in its last label.
fn with_suffix(name: &str, suffix: &str) -> String {
    let (start, last) = name.rsplit_once('.').unwrap_or(("", name));
    let last = match cut_name(last, LONGEST_LABEL - suffix.len() - 1) {
        "" => "server",
        last => last,
    };
    let start = cut_name(start, LONGEST_NAME - LONGEST_LABEL - 1);
    let dot = if start.is_empty() { "" } else { "." };
    format!("{start}{dot}{last}-{suffix}")
}

/// A host name as the name of an object; empty if nothing of it can be used.
fn to_object_name(hostname: &str) -> String {
    let lower = hostname.trim().to_ascii_lowercase();
    let labels = lower.split('.').map(|label| {
        let label = label.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        cut_name(label.trim_start_matches('-'), LONGEST_LABEL).to_owned()
    });
    let labels: Vec<String> = labels.filter(|label| !label.is_empty()).collect();
    let name = cut_name(&labels.join("."), LONGEST_NAME).to_owned();
    Some(name)
        .filter(|it| is_object_name(it))
        .unwrap_or_default()
}

/// The start of an ASCII text, without hyphens and dots at its end.
fn cut_name(text: &str, most: usize) -> &str {
    let start = text.get(..most).unwrap_or(text);
    start.trim_end_matches(['-', '.'])
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::server_owners::tests::{cluster, ordered, owners, server};
    use api::BareMetalServer;

    /// Objects of namespace `a` that use this account.
    pub fn target(kind: AccountKind, account: &str) -> ManifestTarget {
        ManifestTarget {
            namespace: "a".into(),
            account: PinnedAccount {
                kind,
                name: account.into(),
            },
            cluster: Some(cluster()),
        }
    }

    /// The ProviderAccount `default`.
    pub fn default_target() -> ManifestTarget {
        target(AccountKind::ProviderAccount, "default")
    }

    fn named(number: u8, name: &str) -> Server {
        Server {
            name: name.into(),
            ..server(number, "delivered")
        }
    }

    fn names(all: &[Server], owners: &ServerOwners) -> Vec<String> {
        let servers: Vec<&Server> = all.iter().collect();
        default_target().choose_names(&servers, all, owners)
    }

    #[test]
    fn manifest_has_what_the_server_has() {
        let server = Server {
            tags: ["b", "a", "fmo-cluster:0", "no tag"]
                .map(str::to_owned)
                .into(),
            contract_id: Some("C-1".into()),
            ..named(1, "Web.example.com")
        };
        let manifest = default_target().build_manifest(&server, "web");
        assert_eq!(
            manifest["spec"],
            json!({
                "contractID": "C-1", "deletionPolicy": "Retain", "externalID": server.id.as_str(),
                "hostname": "Web.example.com", "instanceType": "bm7.std.8", "location": "EU: Rotterdam",
                "os": {"slug": "debian-13"}, "tags": ["a", "b"],
            })
        );
        let parsed: BareMetalServer = serde_json::from_value(manifest).unwrap();
        assert_eq!(parsed.metadata.namespace.as_deref(), Some("a"));
    }

    #[test]
    fn manifest_leaves_out_what_no_object_may_have() {
        let server = Server {
            os_slug: "talos-omni-1110".into(),
            contract_id: Some("lower".into()),
            location: String::new(),
            tags: (0..60).map(|number| format!("t{number:02}")).collect(),
            ..named(1, "not a host name")
        };
        let manifest = default_target().build_manifest(&server, "x");
        let spec = manifest["spec"].as_object().unwrap();
        for field in ["os", "contractID", "location", "hostname", "accountRef"] {
            assert!(!spec.contains_key(field), "{field}");
        }
        assert_eq!(spec["tags"].as_array().unwrap().len(), 56);
    }

    #[test]
    fn account_is_named_unless_it_is_the_default() {
        let reference = |kind, name: &str| {
            let manifest = target(kind, name).build_manifest(&named(1, "web"), "web");
            manifest["spec"]["accountRef"].clone()
        };
        let own = AccountKind::ProviderAccount;
        assert_eq!(reference(own, "default"), Value::Null);
        assert_eq!(reference(own, "b"), json!({"name": "b"}));
        assert_eq!(
            reference(AccountKind::ClusterProviderAccount, "default"),
            json!({"kind": "ClusterProviderAccount", "name": "default"})
        );
    }

    #[test]
    fn names_are_valid_and_unique() {
        let long = "x".repeat(300);
        let all = [
            named(1, "Web_1.Example.com"),
            named(2, "same"),
            named(3, "SAME"),
            named(4, "-..-"),
            named(5, "taken"),
            named(6, &long),
            named(7, &format!("{}.{long}", "y".repeat(60))),
        ];
        let owners = owners(&[("a", "taken", json!({}), json!({}))]);
        let names = names(&all, &owners);
        assert_eq!(names[0], "web-1.example.com");
        assert_eq!(names[1..3], ["same-00000002", "same-00000003"]);
        assert_eq!(names[3..5], ["server-00000004", "taken-00000005"]);
        let different: HashSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len());
        for name in &names {
            assert!(is_object_name(name) && name.len() <= 200, "{name}");
            assert!(name.split('.').all(|label| label.len() <= 63), "{name}");
        }
    }

    #[test]
    fn name_in_a_foreign_order_tag_is_taken() {
        let tagged = Server {
            name: "former".into(),
            ..ordered(1, "a", "web")
        };
        let names = names(&[tagged, named(2, "web")], &owners(&[]));
        assert_eq!(names, ["former", "web-00000002"]);
    }

    #[test]
    fn tags_of_others_block_the_adoption() {
        let own = default_target();
        let shared = target(AccountKind::ClusterProviderAccount, "default");
        let foreign = Server {
            tags: vec!["fmo-cluster:ffffffffffffffff".into()],
            ..named(1, "web")
        };
        assert!(own.find_block(&foreign).unwrap().contains("cluster"));
        assert_eq!(shared.find_block(&ordered(1, "a", "web")), None);
        assert_eq!(own.find_block(&ordered(1, "b", "web")), None);
        let block = shared.find_block(&ordered(1, "b", "web"));
        assert!(block.unwrap().contains("namespace"));
        assert_eq!(shared.find_block(&named(1, "web")), None);
    }
}
