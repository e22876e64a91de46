//! Hashes of what was sent and the provider does not return, by field. They show later edits, and never contain the
//! text.

use super::super::facts::{Installation, ServerKey};
use api::{BareMetalServer, Reason, conditions::Type, server::BareMetalServerSpec};
use hosting_types::server::SystemFamily;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// Hashes by the field of the spec. A field that is not set has none.
pub type Hashes = BTreeMap<String, String>;

/// The fields, as written below `spec`.
pub const KEYS: &str = "sshKeys";
/// As above.
pub const PARAMS: &str = "os.kernelParams";
/// As above.
pub const SCRIPT: &str = "postInstallScript";
/// As above.
pub const DATA: &str = "userData";

const FIELDS: [&str; 6] = [
    KEYS,
    PARAMS,
    "os.partitions",
    "os.ipxeScriptURL",
    SCRIPT,
    DATA,
];

/// Hashes of what an order of this spec sends.
pub fn hashes(spec: &BareMetalServerSpec, installation: &Installation) -> Hashes {
    let mut hashes = Hashes::from([(KEYS.to_owned(), keys_hash(&installation.ssh_keys))]);
    let mut add = |field: &str, parts: &[&str]| {
        if !parts.is_empty() {
            hashes.insert(field.to_owned(), hash(parts, digits(field)));
        }
    };
    let params = installation.kernel_params.iter();
    let params: Vec<&str> = params.flat_map(|p| [&*p.key, p.value.expose()]).collect();
    add(PARAMS, &params);
    let os = spec.os.iter();
    let partitions = os.clone().flat_map(|os| &os.partitions);
    let partitions: Vec<String> = partitions.map(|p| json!(p).to_string()).collect();
    let partitions: Vec<&str> = partitions.iter().map(String::as_str).collect();
    add("os.partitions", &partitions);
    let address: Vec<&str> = os.filter_map(|os| os.ipxe_script_url.as_deref()).collect();
    add("os.ipxeScriptURL", &address);
    let script = installation.post_install_script.as_ref();
    let script: Vec<&str> = script.map(|s| s.expose()).into_iter().collect();
    add(SCRIPT, &script);
    let data = installation.user_data.as_ref();
    let is_base64 = |is| if is { "base64" } else { "text" };
    let data = data.map(|d| [d.data.expose(), is_base64(d.is_base64)]);
    add(DATA, data.as_ref().map_or(&[][..], |d| &d[..]));
    hashes
}

/// Hash of the keys that an order sends.
pub fn keys_hash(keys: &[ServerKey]) -> String {
    let known: Vec<&str> = keys.iter().map(|key| &*key.known_by).collect();
    hash(&known, digits(KEYS))
}

/// Whether what was sent installs Linux without any key, by the hashes.
pub fn lacks_key(spec: &BareMetalServerSpec, sent: &Hashes) -> bool {
    let system = spec.os.as_ref().map(|os| SystemFamily::of_slug(&os.slug));
    system == Some(SystemFamily::Linux) && sent.get(KEYS) == Some(&keys_hash(&[]))
}

/// Length of the hash of a field. A possible secret has a short one, which misses one edit in 65,536: a reader of
/// status who tries guesses finds too many that match.
fn digits(field: &str) -> usize {
    match field {
        PARAMS | SCRIPT | DATA => 4,
        _ => 8,
    }
}

fn hash(parts: &[&str], digits: usize) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let digest = hash.finalize();
    digest
        .iter()
        .take(digits / 2)
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// What the spec asks for now and was not sent with the order or the last re-installation, in words.
pub(super) fn describe_differences(sent: &Hashes, wanted: &Hashes) -> Vec<String> {
    if sent.is_empty() {
        return Vec::new();
    }
    let fields: BTreeSet<&String> = sent.keys().chain(wanted.keys()).collect();
    let differ = fields
        .into_iter()
        .filter(|field| sent.get(*field) != wanted.get(*field));
    let differ: Vec<String> = differ.map(|field| format!("spec.{field}")).collect();
    match &differ[..] {
        [] => Vec::new(),
        [field] => vec![format!("{field} differs from what is installed")],
        // A blank follows each field, by which `hashes_from_status` finds it.
        several => vec![format!(
            "{} differ from what is installed",
            several.join(" and ")
        )],
    }
}

/// Replaces hashes that could not be read since the process started: what was sent, except for fields that Synced
/// reports as different.
pub fn hashes_from_status(object: &BareMetalServer) -> Hashes {
    let Some(status) = &object.status else {
        return Hashes::new();
    };
    let install = status.records.install.as_ref();
    let installed = install.and_then(|install| install.installed.clone());
    let ordered = status.records.order.as_ref().map(|o| o.sent.clone());
    let mut hashes = installed.or(ordered).unwrap_or_default();
    let pending = status.conditions.iter().find(|c| {
        c.type_ == Type::Synced.as_str() && c.reason == Reason::PendingChanges.to_string()
    });
    if let Some(pending) = pending {
        let is_said = |field: &&str| pending.message.contains(&format!("spec.{field} "));
        let fields = FIELDS.into_iter().filter(is_said);
        hashes.extend(fields.map(|field| (field.to_owned(), "unread".to_owned())));
    }
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::installation::PartitionSpec;
    use hosting_types::{
        SecretText,
        server::{KernelParam, UserData},
    };

    fn spec() -> BareMetalServerSpec {
        serde_json::from_value(json!({
            "location": "here", "instanceType": "small", "os": {"slug": "some-os"},
        }))
        .unwrap()
    }

    fn record(sent: &Hashes) -> api::server::OrderRecord {
        let record = json!({"uid": "u", "seq": 1, "nonce": "a", "sendBy": "2026-01-01T00:00:00Z",
            "accountID": "l", "sent": sent});
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn each_changed_field_is_reported_separately() {
        let plain = hashes(&spec(), &Installation::default());
        let before = plain.clone();
        assert_eq!(describe_differences(&before, &plain), Vec::<String>::new());
        let param = |value: &str| KernelParam {
            key: "siderolink.api".into(),
            value: SecretText::new(value),
        };
        let partition = PartitionSpec {
            target: "/".into(),
            ..PartitionSpec::default()
        };
        type Edit = fn(&mut BareMetalServerSpec, &mut Installation);
        let edits: [(&str, Edit); 5] = [
            ("spec.postInstallScript differs", |_, i| {
                i.post_install_script = Some(SecretText::new("#!"))
            }),
            ("spec.userData differs", |_, i| {
                i.user_data = Some(UserData {
                    data: SecretText::new("a"),
                    is_base64: false,
                });
            }),
            ("spec.os.ipxeScriptURL differs", |s, _| {
                s.os.as_mut().unwrap().ipxe_script_url = Some("http://a/".into())
            }),
            ("spec.sshKeys differs", |_, i| {
                i.ssh_keys.push(ServerKey {
                    sent: "k".into(),
                    known_by: "k".into(),
                    object: None,
                });
            }),
            ("spec.os.partitions differs", |s, _| {
                s.os.as_mut()
                    .unwrap()
                    .partitions
                    .push(PartitionSpec::default())
            }),
        ];
        for (said, edit) in edits {
            let (mut spec, mut installation) = (spec(), Installation::default());
            edit(&mut spec, &mut installation);
            let wanted = hashes(&spec, &installation);
            let [one] = &describe_differences(&before, &wanted)[..] else {
                panic!("{said}: {:?}", describe_differences(&before, &wanted));
            };
            assert!(one.starts_with(said), "{one}");
            assert_eq!(
                describe_differences(&wanted, &plain).len(),
                1,
                "{said}: taken out again"
            );
        }
        let with = |value: &str| Installation {
            kernel_params: vec![param(value)],
            ..Installation::default()
        };
        let sent = hashes(&spec(), &with("https://a"));
        assert_eq!(
            describe_differences(&sent, &hashes(&spec(), &with("https://a"))).len(),
            0
        );
        assert_eq!(
            describe_differences(&sent, &hashes(&spec(), &with("https://b"))).len(),
            1
        );
        let unknown = Hashes::new();
        let wanted = {
            let mut spec = spec();
            spec.os.as_mut().unwrap().partitions.push(partition);
            hashes(&spec, &with("https://a"))
        };
        assert_eq!(
            describe_differences(&unknown, &wanted).len(),
            0,
            "a machine that was taken over"
        );
    }

    #[test]
    fn unreadable_field_keeps_reported_difference_after_restart() {
        let saying = |reason: &str, message: &str| {
            let mut server = BareMetalServer::new("web", spec());
            let status = server.status.get_or_insert_default();
            status.records.order = Some(record(&hashes(&spec(), &Installation::default())));
            let synced = json!([{"type": "Synced", "status": "False", "reason": reason,
                "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
            status.conditions = serde_json::from_value(synced).unwrap();
            let order = status.records.order.clone().unwrap();
            describe_differences(&order.sent, &hashes_from_status(&server))
        };
        let keys = "spec.sshKeys differs from what is installed";
        let said = saying("PendingChanges", &format!("{keys}; spec.tags: no"));
        assert_eq!(said, [keys]);
        let data = "spec.userData differs from what is installed";
        assert_eq!(saying("PendingChanges", data), [data]);
        let none: [&str; 0] = [];
        assert_eq!(saying("PendingChanges", "spec.tags: no"), none);
        assert_eq!(saying("KeyRejected", keys), none);
    }
}
