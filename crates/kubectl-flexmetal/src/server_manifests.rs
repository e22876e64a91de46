//! Manifests that adopt servers of the provider: with them the operator reads, and adds its two tags. Nothing else of a
//! server differs from its manifest.

use crate::{
    account_client::AccountArgs,
    server_owners::{ServerOwners, name_hash},
};
use api::{
    names::{CLUSTER_TAG, RESERVED_PREFIX},
    references::{AccountKind, is_object_name},
};
use flexmetal_core::{account::ownership_tags, cluster_id::ClusterId, owner};
use hosting_types::{Server, server::SystemFamily, tag::is_tag};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The longest name of a BareMetalServer.
const LONGEST_NAME: usize = 200;
/// The longest part of a name between dots.
const LONGEST_LABEL: usize = 63;
/// The most entries of `spec.tags`.
const MOST_SPEC_TAGS: usize = 56;
/// The most characters of a location or an instance type.
const LONGEST_PLACEMENT: usize = 128;

/// Where the objects are, and which account they use.
#[derive(Clone, Debug)]
pub struct ManifestTarget {
    /// Their namespace.
    pub namespace: String,
    /// Kind of the account.
    pub account_kind: AccountKind,
    /// Name of the account.
    pub account: String,
}

impl ManifestTarget {
    /// The objects of a namespace that use the account of these arguments.
    pub fn new(namespace: &str, args: &AccountArgs) -> Self {
        let of_cluster = args.cluster_account.as_ref();
        Self {
            namespace: namespace.to_owned(),
            account_kind: match of_cluster {
                Some(_) => AccountKind::ClusterProviderAccount,
                None => AccountKind::ProviderAccount,
            },
            account: of_cluster.unwrap_or(&args.account).clone(),
        }
    }
}

/// Why the operator would not adopt a server for an object of the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdoptionBlock {
    /// It has the tag of another cluster.
    OtherCluster,
    /// The account serves several namespaces, and it has the order tag of another one.
    OtherNamespace,
}

impl AdoptionBlock {
    /// The reason and the remedy, for one server or for several.
    pub fn explain(self) -> &'static str {
        match self {
            Self::OtherCluster => {
                "tag of another cluster; to take it, remove its fmo- tags at the provider"
            }
            Self::OtherNamespace => {
                "order tag of another namespace; use that namespace, or have its fmo-order tag removed at the provider"
            }
        }
    }
}

/// Whether the operator adopts the server for an object of the namespace, by the server's tags.
pub fn find_adoption_block(
    server: &Server,
    target: &ManifestTarget,
    cluster: Option<&ClusterId>,
) -> Option<AdoptionBlock> {
    let is_other = |tag: &String| {
        tag.starts_with(CLUSTER_TAG) && cluster.is_none_or(|cluster| *tag != cluster.tag())
    };
    if server.tags.iter().any(is_other) {
        return Some(AdoptionBlock::OtherCluster);
    }
    if target.account_kind == AccountKind::ProviderAccount {
        return None;
    }
    let own = cluster.map(|cluster| owner::namespace_hash(cluster.as_str(), &target.namespace));
    let mut namespaces = ownership_tags::owners(server).map(owner::namespace_of);
    namespaces
        .any(|namespace| own.as_deref() != Some(namespace))
        .then_some(AdoptionBlock::OtherNamespace)
}

/// Whether a server has a tag of an operator, of any cluster.
pub fn has_operator_tag(server: &Server) -> bool {
    server
        .tags
        .iter()
        .any(|tag| ownership_tags::is_operators(tag))
}

/// Names for the objects of these servers: the host name where an object can have it and no other server or object
/// competes for it, else with the end of the UUID. A second run chooses the same names.
pub fn choose_names(
    servers: &[&Server],
    all: &[Server],
    owners: &ServerOwners,
    namespace: &str,
    cluster: Option<&ClusterId>,
) -> Vec<String> {
    let live = || all.iter().filter(|server| server.status.is_live());
    let mut counts: HashMap<String, usize> = HashMap::new();
    for server in live() {
        *counts.entry(to_object_name(&server.name)).or_default() += 1;
    }
    let mut tagged: HashMap<&str, HashSet<&str>> = HashMap::new();
    for server in live() {
        for hash in ownership_tags::name_hashes(server) {
            let of_hash = tagged.entry(hash).or_default();
            of_hash.insert(server.id.as_str());
        }
    }
    let is_free = |server: &Server, name: &str| {
        let hash = cluster.map(|cluster| name_hash(cluster, namespace, name));
        let is_its_own = hash
            .as_deref()
            .is_some_and(|hash| ownership_tags::has_name_hash(server, hash));
        // Such a server comes back to an object of this name, which must not have another one.
        let is_of_another = hash
            .and_then(|hash| tagged.get(&*hash))
            .is_some_and(|others| others.iter().any(|id| server.id != **id));
        let is_alone = counts.get(name).is_none_or(|count| *count <= 1);
        !name.is_empty() && !is_of_another && (is_alone || is_its_own)
    };
    let mut taken = owners.names_in(namespace);
    let mut names = Vec::new();
    for server in servers {
        let name = to_object_name(&server.name);
        let id = server.id.as_str().to_ascii_lowercase();
        // The first digits are a time in some UUIDs.
        let last_digits = id.get(id.len().saturating_sub(8)..).unwrap_or(&id);
        let mut name = match is_free(server, &name) && !taken.contains(&name) {
            true => name,
            false => with_suffix(&name, last_digits),
        };
        if taken.contains(&name) {
            name = with_suffix("", &id);
        }
        taken.insert(name.clone());
        names.push(name);
    }
    names
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
        let allowed = |c: char| match c {
            'a'..='z' | '0'..='9' => c,
            _ => '-',
        };
        let label: String = label.chars().map(allowed).collect();
        cut_name(label.trim_start_matches('-'), LONGEST_LABEL).to_owned()
    });
    let labels: Vec<String> = labels.filter(|label| !label.is_empty()).collect();
    let name = labels.join(".");
    let name = cut_name(&name, LONGEST_NAME);
    match is_object_name(name) {
        true => name.to_owned(),
        false => String::new(),
    }
}

/// The start of an ASCII text, without hyphens and dots at its end.
fn cut_name(text: &str, most: usize) -> &str {
    let start = text.get(..most).unwrap_or(text);
    start.trim_end_matches(['-', '.'])
}

/// The manifest of an object that adopts the server.
pub fn build_manifest(server: &Server, name: &str, target: &ManifestTarget) -> Value {
    let mut spec = Map::new();
    spec.insert("externalID".into(), json!(server.id.as_str()));
    spec.insert("deletionPolicy".into(), json!("Retain"));
    let is_of_cluster = target.account_kind == AccountKind::ClusterProviderAccount;
    let mut account = Map::new();
    if is_of_cluster {
        account.insert("kind".into(), json!(target.account_kind.as_str()));
    }
    if is_of_cluster || target.account != "default" {
        account.insert("name".into(), json!(target.account));
        spec.insert("accountRef".into(), account.into());
    }
    for (field, value) in [
        ("location", &server.location),
        ("instanceType", &server.instance_type),
    ] {
        if (1..=LONGEST_PLACEMENT).contains(&value.chars().count()) {
            spec.insert(field.into(), json!(value));
        }
    }
    // Other systems need settings that the provider does not return.
    let family = SystemFamily::of_slug(&server.os_slug);
    let has_no_settings = matches!(family, SystemFamily::Linux | SystemFamily::Windows);
    if has_no_settings && is_slug(&server.os_slug) {
        spec.insert("os".into(), json!({"slug": server.os_slug}));
    }
    if !server.name.trim().eq_ignore_ascii_case(name) && is_hostname(&server.name) {
        spec.insert("hostname".into(), json!(server.name));
    }
    if let Some(contract) = server.contract_id.as_deref().filter(|id| is_contract(id)) {
        spec.insert("contractID".into(), json!(contract));
    }
    let is_allowed = |tag: &&String| is_tag(tag) && !tag.starts_with(RESERVED_PREFIX);
    let tags: BTreeSet<&String> = server.tags.iter().filter(is_allowed).collect();
    let tags: Vec<&String> = tags.into_iter().take(MOST_SPEC_TAGS).collect();
    if !tags.is_empty() {
        spec.insert("tags".into(), json!(tags));
    }
    json!({
        "apiVersion": "flexmetal.dev/v1alpha1",
        "kind": "BareMetalServer",
        "metadata": {"name": name, "namespace": target.namespace},
        "spec": spec,
    })
}

fn is_slug(text: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=128).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(is_inner)
}

fn is_hostname(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LONGEST_LABEL).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

fn is_contract(text: &str) -> bool {
    let is_allowed =
        |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || matches!(b, b'_' | b'.' | b'-');
    (1..=240).contains(&text.len()) && text.bytes().all(is_allowed)
}

/// How many servers each reason blocks.
pub fn count_blocks(blocks: impl Iterator<Item = AdoptionBlock>) -> BTreeMap<AdoptionBlock, usize> {
    let mut counts = BTreeMap::new();
    for block in blocks {
        *counts.entry(block).or_default() += 1;
    }
    counts
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::{
        commands::servers::tests::server,
        server_owners::tests::{cluster, ordered, owners},
    };
    use api::BareMetalServer;

    /// The ProviderAccount `default` of namespace `a`.
    pub fn target() -> ManifestTarget {
        ManifestTarget {
            namespace: "a".into(),
            account_kind: AccountKind::ProviderAccount,
            account: "default".into(),
        }
    }

    fn named(number: u8, name: &str) -> Server {
        Server {
            name: name.into(),
            ..server(number, "delivered")
        }
    }

    fn names(all: &[Server], owners: &ServerOwners) -> Vec<String> {
        let servers: Vec<&Server> = all.iter().collect();
        choose_names(&servers, all, owners, "a", Some(&cluster()))
    }

    #[test]
    fn manifest_has_what_the_server_has() {
        let server = Server {
            tags: vec![
                "b".into(),
                "a".into(),
                "fmo-cluster:0".into(),
                "no tag".into(),
            ],
            contract_id: Some("C-1".into()),
            ..named(1, "Web.example.com")
        };
        let manifest = build_manifest(&server, "web", &target());
        assert_eq!(
            manifest["spec"],
            json!({
                "contractID": "C-1", "deletionPolicy": "Retain", "externalID": server.id.as_str(),
                "hostname": "Web.example.com", "instanceType": "bm7.std.8", "location": "EU: Rotterdam",
                "os": {"slug": "debian-13"}, "tags": ["a", "b"],
            })
        );
        assert_eq!(
            manifest["metadata"],
            json!({"name": "web", "namespace": "a"})
        );
        let parsed: BareMetalServer = serde_json::from_value(manifest).unwrap();
        assert!(parsed.status.is_none());
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
        let manifest = build_manifest(&server, "x", &target());
        let spec = manifest["spec"].as_object().unwrap();
        for field in ["os", "contractID", "location", "hostname", "accountRef"] {
            assert!(!spec.contains_key(field), "{field}");
        }
        assert_eq!(spec["tags"].as_array().unwrap().len(), 56);
    }

    #[test]
    fn account_is_named_unless_it_is_the_default() {
        let reference = |kind, name: &str| {
            let target = ManifestTarget {
                account_kind: kind,
                account: name.into(),
                ..target()
            };
            build_manifest(&named(1, "web"), "web", &target)["spec"]["accountRef"].clone()
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
            named(4, ""),
            named(5, "-..-"),
            named(6, "taken"),
            named(7, &long),
            named(8, &format!("{}.{long}", "y".repeat(60))),
        ];
        let owners = owners(&[("a", "taken", json!({}), json!({}))]);
        let names = names(&all, &owners);
        assert_eq!(names[0], "web-1.example.com");
        assert_eq!(names[1], "same-00000002");
        assert_eq!(names[2], "same-00000003");
        assert_eq!(names[3], "server-00000004");
        assert_eq!(names[5], "taken-00000006");
        let different: HashSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len());
        for name in &names {
            assert!(is_object_name(name) && name.len() <= 200, "{name}");
            assert!(name.split('.').all(|label| label.len() <= 63), "{name}");
        }
    }

    #[test]
    fn server_gets_the_name_in_its_own_order_tag() {
        let owner = owners(&[]);
        let own = Server {
            name: "web".into(),
            ..ordered(1, "a", "web")
        };
        assert_eq!(names(&[own.clone(), named(2, "web")], &owner)[0], "web");
        // The object `web` would get the tagged server back, so another one needs another name.
        assert_ne!(names(&[own, named(2, "web")], &owner)[1], "web");
    }

    #[test]
    fn tags_of_others_block_the_adoption() {
        let shared = ManifestTarget {
            account_kind: AccountKind::ClusterProviderAccount,
            ..target()
        };
        let block = |server: &Server, target: &ManifestTarget| {
            find_adoption_block(server, target, Some(&cluster()))
        };
        let foreign = Server {
            tags: vec!["fmo-cluster:ffffffffffffffff".into()],
            ..named(1, "web")
        };
        assert_eq!(
            block(&foreign, &target()),
            Some(AdoptionBlock::OtherCluster)
        );
        let own = ordered(1, "a", "web");
        let other = ordered(1, "b", "web");
        assert_eq!(block(&own, &shared), None);
        assert_eq!(block(&other, &target()), None);
        assert_eq!(block(&other, &shared), Some(AdoptionBlock::OtherNamespace));
        assert_eq!(block(&named(1, "web"), &shared), None);
    }
}
