//! The validation rules of sections 2.6 to 2.8 and 8: a body either becomes an
//! order or a list of everything that is wrong with it.

mod bodies;
mod fields;
mod install;
mod system;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use uuid::Uuid;

use super::answer::{Breach, Refusal};
use super::catalogue::{Catalogue, Family, Offer};
use super::profile::{MissingSshKey, PublicKeys, Switches};
pub(crate) use bodies::{
    NewSshKey, Reinstall, command, new_tag, reinstall, ssh_key, texts, whitelist_entry,
};
use fields::Fields;
pub(crate) use install::{HostInstall, host_install};

/// Most tags that a server can bear.
pub(crate) const MAX_TAGS: usize = 60;

/// An order that breaks no rule. Fields that no record shows (keys,
/// scripts, user data) are checked and then dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) name: String,
    pub(crate) offer: Offer,
    pub(crate) slug: String,
    /// Without repetitions, in the given order.
    pub(crate) tags: Vec<String>,
    /// Never empty: an empty one in the body counts as none.
    pub(crate) contract: Option<String>,
    pub(crate) overflow: bool,
    /// Every SSH key, unchanged.
    pub(crate) keys: Vec<String>,
}

/// `^[A-Za-z0-9_:-]{1,64}$`
pub(crate) fn tag_is_valid(tag: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"_:-".contains(&byte);
    (1..=64).contains(&tag.len()) && tag.bytes().all(known)
}

/// `^[A-Z0-9_.-]{0,240}$`
fn contract_is_valid(contract: &str) -> bool {
    let known =
        |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"_.-".contains(&byte);
    contract.len() <= 240 && contract.bytes().all(known)
}

/// Labels of letters, digits and inner hyphens, separated by dots.
fn host_name_is_valid(name: &str) -> bool {
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// A stored key's UUID, or a public key in OpenSSH's form.
fn ssh_key_is_valid(entry: &str, switches: &Switches) -> bool {
    if entry.parse::<Uuid>().is_ok() || switches.public_keys == PublicKeys::Any {
        return !entry.is_empty();
    }
    let mut words = entry.split_ascii_whitespace();
    let kind = words.next().unwrap_or_default();
    let known = ["ssh-", "ecdsa-", "sk-"]
        .iter()
        .any(|prefix| kind.starts_with(prefix));
    known && words.next().is_some()
}

/// Reads a body that must be a JSON object.
///
/// # Errors
/// 400.
pub(crate) fn object(body: &[u8]) -> Result<Value, Refusal> {
    match serde_json::from_slice(body) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(Refusal::malformed("the body must be a JSON object")),
        Err(_) => Err(Refusal::malformed("the body is no JSON")),
    }
}

const ORDER_FIELDS: &[&str] = &[
    "name",
    "location",
    "instanceType",
    "os",
    "sshKey",
    "postInstallScript",
    "userData",
    "tags",
    "contractId",
    "overflow",
];

/// Checks the body of section 2.7.
///
/// # Errors
/// 400 for a body that is not an object, 422 with every broken rule.
pub(crate) fn order(
    body: &[u8],
    catalogue: &Catalogue,
    switches: &Switches,
) -> Result<Order, Refusal> {
    let body = object(body)?;
    let mut breaches = Vec::new();
    let mut fields = Fields::new(&body, "", &mut breaches);
    fields.only(ORDER_FIELDS, switches);

    let name = fields.required_text("name").unwrap_or_default();
    let location = fields.required_text("location").and_then(|asked| {
        let known = catalogue.location(&asked, switches);
        fields.ensure(known.is_some(), "location", "no such location");
        known
    });
    let instance_type = fields.required_text("instanceType").and_then(|asked| {
        let known = catalogue.instance_type(&asked, switches);
        fields.ensure(known.is_some(), "instanceType", "no such instance type");
        known
    });
    let offer = location.zip(instance_type).map(|(place, kind)| Offer {
        location: place.id,
        instance_type: kind.id,
    });
    let offered = offer.is_none_or(|offer| catalogue.offers(offer));
    fields.ensure(offered, "instanceType", "not offered at this location");

    let system = match fields.required_object("os") {
        Some(os) => system::check(os, fields.breaches(), catalogue, switches),
        None => None,
    };
    let family = system.map(|system| system.family);
    host_name(&mut fields, Some(&name), family);
    let keys = fields.texts("sshKey");
    let absent = fields.absent("sshKey");
    let refused = absent && switches.missing_ssh_key == MissingSshKey::Refuse422;
    fields.ensure(!refused, "sshKey", "must be present, and may be empty");
    let keys = keys.unwrap_or_default();
    ssh_keys(&mut fields, &keys, switches);
    script(&mut fields, family);
    user_data(&mut fields, switches);

    let mut tags: Vec<String> = Vec::new();
    let given = fields.texts("tags").unwrap_or_default();
    fields.ensure(
        given.len() <= MAX_TAGS,
        "tags",
        "a server has at most 60 tags",
    );
    // More are refused anyway, and searching for repetitions takes time.
    for (index, tag) in given.into_iter().take(MAX_TAGS).enumerate() {
        let valid = tag_is_valid(&tag);
        fields.ensure(
            valid,
            &format!("tags[{index}]"),
            "must match ^[A-Za-z0-9_:-]{1,64}$",
        );
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    let contract = fields
        .text("contractId")
        .filter(|contract| !contract.is_empty());
    let valid = contract.as_deref().is_none_or(contract_is_valid);
    fields.ensure(valid, "contractId", "must match ^[A-Z0-9_.-]{0,240}$");
    let overflow = fields.flag("overflow").unwrap_or_default();

    match (offer, system) {
        (Some(offer), Some(system)) if breaches.is_empty() => Ok(Order {
            name,
            offer,
            slug: system.slug.clone(),
            tags,
            contract,
            overflow,
            keys,
        }),
        _ => Err(Refusal::breaches(breaches)),
    }
}

/// Some systems need a proper host name (section 2.7).
fn host_name(fields: &mut Fields<'_>, name: Option<&str>, family: Option<Family>) {
    let property = if fields.absent("name") {
        "hostname"
    } else {
        "name"
    };
    let proper = family != Some(Family::Talos) || name.is_none_or(host_name_is_valid);
    fields.ensure(
        proper,
        property,
        "must be a proper host name for this operating system",
    );
}

fn script(fields: &mut Fields<'_>, family: Option<Family>) {
    let script = fields.text("postInstallScript").unwrap_or_default();
    let shebang = family != Some(Family::Linux) || script.is_empty() || script.starts_with("#!");
    fields.ensure(shebang, "postInstallScript", "must begin with a shebang");
}

fn user_data(fields: &mut Fields<'_>, switches: &Switches) {
    if let Some(user_data) = fields.object("userData") {
        let mut inner = Fields::new(user_data, "userData.", fields.breaches());
        inner.only(&["data", "isBase64"], switches);
        let data = inner.text("data").unwrap_or_default();
        let encoded = inner.flag("isBase64") == Some(true);
        let whole = !encoded || STANDARD.decode(data).is_ok();
        inner.ensure(whole, "data", "is no base64");
    }
}

fn ssh_keys(fields: &mut Fields<'_>, keys: &[String], switches: &Switches) {
    for (index, key) in keys.iter().enumerate() {
        let valid = ssh_key_is_valid(key, switches);
        fields.ensure(
            valid,
            &format!("sshKey[{index}]"),
            "neither a UUID nor a public key",
        );
    }
}

/// The UUIDs among the keys that an order or a re-installation names.
pub(crate) fn stored_keys(keys: &[String]) -> impl Iterator<Item = Uuid> {
    keys.iter().filter_map(|key| key.parse().ok())
}

/// Checks a tag in a path.
///
/// # Errors
/// 422.
pub(crate) fn tag(tag: &str) -> Result<(), Refusal> {
    match tag_is_valid(tag) {
        true => Ok(()),
        false => Err(Refusal::breach("tag", "must match ^[A-Za-z0-9_:-]{1,64}$")),
    }
}

/// One broken rule.
fn breach(property: impl Into<String>, message: &str) -> Breach {
    Breach {
        property: property.into(),
        message: message.to_owned(),
    }
}
