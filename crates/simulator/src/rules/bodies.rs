//! All bodies except those of an order and of the installation of a host.

use serde_json::Value;

use super::super::answer::Refusal;
use super::super::catalogue::{Catalogue, Family};
use super::super::keys::Range;
use super::super::profile::{ReinstallSshKey, Switches, WhitelistActive};
use super::super::state::CommandKind;
use super::fields::Fields;
use super::{object, ssh_key_is_valid, ssh_keys, system, user_data};

/// A re-installation that breaks no rule (section 2.9).
#[derive(Debug, Default)]
pub(crate) struct Reinstall {
    pub(crate) name: Option<String>,
    pub(crate) slug: Option<String>,
    /// Every key, unchanged.
    pub(crate) keys: Vec<String>,
}

/// A key to store.
#[derive(Debug)]
pub(crate) struct NewSshKey {
    pub(crate) name: String,
    pub(crate) public_key: String,
}

/// Reads fields of a body and refuses it when any rule was broken.
pub(super) fn checked<T>(
    body: &Value,
    known: &[&str],
    switches: &Switches,
    read: impl FnOnce(&mut Fields<'_>) -> Option<T>,
) -> Result<T, Refusal> {
    let mut breaches = Vec::new();
    let mut fields = Fields::new(body, "", &mut breaches);
    fields.only(known, switches);
    match read(&mut fields) {
        Some(value) if breaches.is_empty() => Ok(value),
        _ => Err(Refusal::breaches(breaches)),
    }
}

/// The body of a PATCH.
///
/// # Errors
/// 400 for a body that is not an object, 422 with every broken rule.
pub(crate) fn reinstall(
    body: &[u8],
    present: &str,
    catalogue: &Catalogue,
    switches: &Switches,
) -> Result<Reinstall, Refusal> {
    const KNOWN: &[&str] = &["name", "sshKey", "postInstallScript", "os", "userData"];
    let body = object(body)?;
    checked(&body, KNOWN, switches, |fields| {
        let system = match fields.object("os") {
            Some(os) => system::check(os, fields.breaches(), catalogue, switches),
            None => None,
        };
        let family = system
            .or_else(|| catalogue.system(present))
            .map(|system| system.family);
        let name = fields.text("name").filter(|name| !name.is_empty());
        super::host_name(fields, name.as_deref(), family);
        super::script(fields, family);
        user_data(fields, switches);
        let bare = matches!(family, Some(Family::Windows | Family::Talos));
        let keys = fields.texts("sshKey").unwrap_or_default();
        ssh_keys(fields, &keys, switches);
        let needed = switches.reinstall_ssh_key == ReinstallSshKey::Required;
        let lacking = needed && system.is_some() && !bare && keys.is_empty();
        fields.ensure(!lacking, "sshKey", "is required with this operating system");
        Some(Reinstall {
            name,
            slug: system.map(|system| system.slug.clone()),
            keys,
        })
    })
}

/// The body of a command.
///
/// # Errors
/// 400, 422.
pub(crate) fn command(body: &[u8], switches: &Switches) -> Result<CommandKind, Refusal> {
    let body = object(body)?;
    checked(&body, &["command"], switches, |fields| {
        let word = fields.required_text("command")?;
        let kind = CommandKind::sent(&word);
        fields.ensure(
            kind.is_some(),
            "command",
            "must be one of reboot, power_on, power_off, shutdown",
        );
        kind
    })
}

/// The body of a tag. Clients send counts too; these are ignored.
///
/// # Errors
/// 400, 422.
pub(crate) fn new_tag(body: &[u8], switches: &Switches) -> Result<String, Refusal> {
    let body = object(body)?;
    checked(&body, &["tag", "resources"], switches, |fields| {
        let tag = fields.required_text("tag")?;
        let valid = super::tag_is_valid(&tag);
        fields.ensure(valid, "tag", "must match ^[A-Za-z0-9_:-]{1,64}$");
        Some(tag)
    })
}

/// The body of a stored key; fields that only the API writes are ignored.
///
/// # Errors
/// 400, 422.
pub(crate) fn ssh_key(body: &[u8], switches: &Switches) -> Result<NewSshKey, Refusal> {
    const KNOWN: &[&str] = &["name", "publicKey", "uuid", "createdAt"];
    let body = object(body)?;
    checked(&body, KNOWN, switches, |fields| {
        let name = fields.required_text("name");
        let public_key = fields.required_text("publicKey");
        let valid = public_key.as_deref().is_none_or(|key| {
            ssh_key_is_valid(key, switches) && key.parse::<uuid::Uuid>().is_err()
        });
        fields.ensure(valid, "publicKey", "is no public key");
        let (name, public_key) = name.zip(public_key)?;
        Some(NewSshKey { name, public_key })
    })
}

/// The body of a whitelist entry (section 2.1).
///
/// # Errors
/// 400, 422.
pub(crate) fn whitelist_entry(body: &[u8], switches: &Switches) -> Result<Range, Refusal> {
    const KNOWN: &[&str] = &[
        "id",
        "ipStart",
        "ipEnd",
        "ipRange",
        "comments",
        "active",
        "updatedAt",
    ];
    let body = object(body)?;
    checked(&body, KNOWN, switches, |fields| {
        let mut text = |name| fields.text(name).filter(|text| !text.is_empty());
        let (ip_start, ip_end, ip_range) = (text("ipStart"), text("ipEnd"), text("ipRange"));
        let comments = text("comments");
        // Fields that only the API writes may be sent, but must have the right type.
        fields.integer("id");
        fields.integer("updatedAt");
        let active = match switches.whitelist_active {
            WhitelistActive::Optional if fields.absent("active") => Some(1),
            _ => fields.required_integer("active"),
        };
        let known = active.is_none_or(|active| matches!(active, 0 | 1));
        fields.ensure(known, "active", "must be 0 or 1");
        let range = Range {
            ip_start,
            ip_end,
            ip_range,
            comments,
            active: active.unwrap_or_default(),
        };
        let readable = range.bounds().is_some();
        fields.ensure(
            readable,
            "ipRange",
            "must be a network in ipRange, or ipStart and ipEnd in order",
        );
        Some(range)
    })
}

/// Required texts of a body, in the order asked for.
///
/// # Errors
/// 400, 422.
pub(crate) fn texts<const N: usize>(
    body: &[u8],
    names: [&str; N],
    switches: &Switches,
) -> Result<[String; N], Refusal> {
    let body = object(body)?;
    checked(&body, &names, switches, |fields| {
        let found: Vec<String> = names
            .iter()
            .filter_map(|name| fields.required_text(name))
            .collect();
        found.try_into().ok()
    })
}
