//! Validates the spec and converts it to the desired whitelist. Repeats the schema's checks for objects stored without
//! it, and checks what CEL cannot express, such as the order of two addresses.

use super::{
    list::{self, ListedEntry},
    ranges::{Addresses, Range},
};
use crate::{
    cluster_id::OwnerHash,
    wording::{LONGEST_MESSAGE, MOST_NAMES},
};
use api::whitelist::{
    EntryPolicy, IpWhitelistSpec, LONGEST_COMMENT, LONGEST_NAME, MOST_ENTRIES, OWNER_COMMENT_START,
    WhitelistEntrySpec,
};
use core::net::IpAddr;
use hosting_types::whitelist::{AddressRange, WhitelistRule};
use ipnet::IpNet;
use std::collections::BTreeSet;

/// A desired entry at the provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DesiredEntry {
    /// Its name in the spec.
    pub name: String,
    /// The form that the request uses for its addresses.
    pub form: AddressForm,
    /// Its addresses.
    pub range: Range,
    /// Whether it is active.
    pub active: bool,
    /// The user's comment and our owner comment.
    pub comments: String,
}

/// The form of addresses in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressForm {
    /// As `ipRange`.
    Net(IpNet),
    /// As `ipStart` and `ipEnd`.
    Span,
}

impl DesiredEntry {
    /// Whether a listed entry equals this desired one.
    pub fn is_met_by(&self, entry: &ListedEntry) -> bool {
        entry.name.as_ref() == Some(&self.name)
            && entry.range == Some(self.range)
            && entry.active == Some(self.active)
            && entry.comments == self.comments
    }

    /// The request body.
    pub fn rule(&self) -> WhitelistRule {
        let (first, last) = self.range.ends();
        WhitelistRule {
            range: match self.form {
                AddressForm::Net(net) => AddressRange::Net(net),
                AddressForm::Span => AddressRange::Span(first, last),
            },
            comments: Some(self.comments.clone()),
            active: self.active,
        }
    }
}

/// A message about all invalid fields, with remedies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub String);

/// Longest text for the number of omitted fields, in bytes.
const MORE: usize = 20;

impl Invalid {
    /// One message for all invalid fields: as many as fit, and the number of the others.
    pub fn new(wrong: &[String]) -> Self {
        let mut shown = String::new();
        let mut count = 0;
        for text in wrong.iter().take(MOST_NAMES) {
            if count > 0 {
                if shown.len() + text.len() > LONGEST_MESSAGE - MORE {
                    break;
                }
                shown.push_str(". ");
            }
            shown.push_str(text);
            count += 1;
        }
        match wrong.len() - count {
            0 => Self(shown),
            more => Self(format!("{shown}. And {more} more")),
        }
    }
}

/// The entries of a spec.
///
/// # Errors
/// All invalid fields.
pub fn entries(
    spec: &IpWhitelistSpec,
    owner_hash: &OwnerHash,
) -> Result<Vec<DesiredEntry>, Vec<String>> {
    if spec.entries.len() > MOST_ENTRIES {
        let is = spec.entries.len();
        return Err(vec![format!(
            "spec.entries has {is} entries, more than {MOST_ENTRIES}; join neighbouring ranges"
        )]);
    }
    let mut names = BTreeSet::new();
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    for entry in &spec.entries {
        let name = &entry.name;
        let at = |field: &str, why: &str| format!("spec.entries[{}].{field}: {why}", cut(name));
        let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_label) {
            let why = format!("use 1 to {LONGEST_NAME} of a-z, 0-9 and -");
            wrong.push(at("name", &why));
        } else if !names.insert(name) {
            wrong.push(at("name", "two entries have this name; rename one"));
        }
        let comment = entry.comment.as_deref();
        if comment.is_some_and(|comment| !is_comment(comment)) {
            let why = format!(
                "use 1 to {LONGEST_COMMENT} printable ASCII characters; leave out {OWNER_COMMENT_START}, blanks at an end, and two in a row"
            );
            wrong.push(at("comment", &why));
        }
        match addresses(entry) {
            Err(misfits) => wrong.extend(misfits.iter().map(|(field, why)| at(field, why))),
            Ok((form, range)) => all.push(DesiredEntry {
                name: name.clone(),
                form,
                range,
                active: entry.active.unwrap_or(true),
                comments: list::comments(comment, owner_hash, name),
            }),
        }
    }
    match wrong.is_empty() {
        true => Ok(all),
        false => Err(wrong),
    }
}

fn is_comment(comment: &str) -> bool {
    let is_plain = |c: char| c == ' ' || c.is_ascii_graphic();
    (1..=LONGEST_COMMENT).contains(&comment.len())
        && comment.trim() == comment
        // A provider that joins blanks would never list the entry as it was sent.
        && !comment.contains("  ")
        && comment.chars().all(is_plain)
        && !comment.contains(OWNER_COMMENT_START)
}

/// Shortens text of an object that may not match the schema.
fn cut(text: &str) -> String {
    text.chars().take(LONGEST_NAME).collect()
}

type InvalidField = (&'static str, String);

fn addresses(entry: &WhitelistEntrySpec) -> Result<(AddressForm, Range), Vec<InvalidField>> {
    match (&entry.cidr, &entry.start, &entry.end) {
        (Some(cidr), None, None) => {
            let net = network(cidr).map_err(|why| vec![("cidr", why)])?;
            Ok((AddressForm::Net(net), Range::of_net(net)))
        }
        (None, Some(start), Some(end)) => {
            let first = single(start).map_err(|why| ("start", why));
            let last = single(end).map_err(|why| ("end", why));
            let (first, last) = match (first, last) {
                (Ok(first), Ok(last)) => (first, last),
                (first, last) => return Err(first.err().into_iter().chain(last.err()).collect()),
            };
            if first.is_ipv4() != last.is_ipv4() {
                let why = "start and end are not of one family; use IPv4 or IPv6 for both";
                return Err(vec![("end", why.to_owned())]);
            }
            let why = || format!("{first} is above end {last}; swap them");
            let range = Range::between(first, last).ok_or_else(|| vec![("start", why())])?;
            Ok((AddressForm::Span, range))
        }
        _ => {
            let why = "set either cidr, or start and end";
            Err(vec![("cidr", why.to_owned())])
        }
    }
}

/// Parses a network in CIDR notation.
fn network(text: &str) -> Result<IpNet, String> {
    let shown: String = text.chars().take(43).collect();
    let net: IpNet = text.parse().map_err(|_| {
        format!("{shown:?} is not in CIDR notation; write it such as 192.0.2.0/24 or 2001:db8::/32")
    })?;
    if net != net.trunc() {
        return Err(format!(
            "{net} has bits outside of its prefix; write {}",
            net.trunc()
        ));
    }
    if is_mapped(net.addr()) && net.prefix_len() >= 96 {
        return Err(format!("{net} is IPv4 within IPv6; write the IPv4 network"));
    }
    Ok(net)
}

fn single(text: &str) -> Result<IpAddr, String> {
    let shown: String = text.chars().take(39).collect();
    let address: IpAddr = text.parse().map_err(|_| {
        format!("{shown:?} is not an IP address; write it such as 192.0.2.7 or 2001:db8::7")
    })?;
    match is_mapped(address) {
        true => Err(format!(
            "{address} is IPv4 within IPv6; write the IPv4 address"
        )),
        false => Ok(address),
    }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// The operator's own addresses: from the object, else from the account. None if not configured.
///
/// # Errors
/// All texts that are not networks.
pub fn egress(
    spec: &IpWhitelistSpec,
    account: &[String],
) -> Result<Option<Addresses>, Vec<String>> {
    let (field, texts) = match spec.egress_cidrs.is_empty() {
        false => ("spec.egressCIDRs", spec.egress_cidrs.as_slice()),
        true => ("spec.egressCIDRs of the account", account),
    };
    let (mut ranges, mut wrong) = (Vec::new(), Vec::new());
    for text in texts {
        match network(text) {
            Ok(net) => ranges.push(Range::of_net(net)),
            Err(why) => wrong.push(format!("{field}: {why}")),
        }
    }
    match wrong.is_empty() {
        true => Ok((!ranges.is_empty()).then(|| ranges.into_iter().collect())),
        false => Err(wrong),
    }
}

/// The desired whitelist, and the addresses that must stay admitted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DesiredWhitelist {
    /// The desired own entries.
    pub entries: Vec<DesiredEntry>,
    /// What happens to other entries.
    pub mode: EntryPolicy,
    /// The operator's own addresses. None if not configured.
    pub egress: Option<Addresses>,
    /// Whether steps that could lock the operator out are blocked.
    pub is_guarded: bool,
    /// Whether the object is being deleted, so that own entries are removed where permitted.
    pub is_end: bool,
    /// The object's owner hash.
    pub owner_hash: OwnerHash,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_comment_is_refused() {
        for (comment, is_usable) in [
            ("Office, 2nd floor", true),
            ("two  blanks", false),
            (" first", false),
            ("last ", false),
            ("", false),
        ] {
            assert_eq!(is_comment(comment), is_usable, "{comment:?}");
        }
    }

    fn owner_hash() -> OwnerHash {
        OwnerHash::parse(&"a".repeat(24)).unwrap()
    }

    fn entry(cidr: Option<&str>, start: Option<&str>, end: Option<&str>) -> WhitelistEntrySpec {
        WhitelistEntrySpec {
            name: "office".into(),
            cidr: cidr.map(str::to_owned),
            start: start.map(str::to_owned),
            end: end.map(str::to_owned),
            ..WhitelistEntrySpec::default()
        }
    }

    fn spec(entries: Vec<WhitelistEntrySpec>) -> IpWhitelistSpec {
        IpWhitelistSpec {
            account_ref: None,
            api_key_id: 1,
            entry_policy: None,
            entries,
            egress_cidrs: Vec::new(),
            lockout_guard: None,
        }
    }

    #[test]
    fn invalid_field_is_reported_with_remedy() {
        let long = "x".repeat(49);
        let with = |change: fn(&mut WhitelistEntrySpec)| {
            let mut changed = entry(Some("192.0.2.0/24"), None, None);
            change(&mut changed);
            changed
        };
        let mut too_long = entry(Some("192.0.2.0/24"), None, None);
        too_long.comment = Some(long);
        for (entry, expected) in [
            (
                entry(Some("192.0.2.7/24"), None, None),
                "spec.entries[office].cidr: 192.0.2.7/24 has bits outside of its prefix; write 192.0.2.0/24",
            ),
            (
                entry(Some("192.0.2.0"), None, None),
                "spec.entries[office].cidr: \"192.0.2.0\" is not in CIDR notation; write it such as 192.0.2.0/24 or 2001:db8::/32",
            ),
            (
                entry(Some("::ffff:192.0.2.0/120"), None, None),
                "spec.entries[office].cidr: ::ffff:192.0.2.0/120 is IPv4 within IPv6; write the IPv4 network",
            ),
            (
                entry(None, Some("192.0.2.9"), Some("192.0.2.7")),
                "spec.entries[office].start: 192.0.2.9 is above end 192.0.2.7; swap them",
            ),
            (
                entry(None, Some("192.0.2.9"), Some("2001:db8::7")),
                "spec.entries[office].end: start and end are not of one family; use IPv4 or IPv6 for both",
            ),
            (
                entry(None, Some("192.0.2.9"), Some("192.0.2.300")),
                "spec.entries[office].end: \"192.0.2.300\" is not an IP address; write it such as 192.0.2.7 or 2001:db8::7",
            ),
            (
                entry(None, Some("192.0.2.9"), None),
                "spec.entries[office].cidr: set either cidr, or start and end",
            ),
            (
                entry(Some("192.0.2.0/24"), Some("192.0.2.9"), None),
                "spec.entries[office].cidr: set either cidr, or start and end",
            ),
            (
                with(|e| e.name = "Office!".into()),
                "spec.entries[Office!].name: use 1 to 32 of a-z, 0-9 and -",
            ),
            (
                with(|e| e.comment = Some("[fmo-entry:x]".into())),
                "spec.entries[office].comment: use 1 to 48 printable ASCII characters; leave out [fmo-, blanks at an end, and two in a row",
            ),
            (
                too_long,
                "spec.entries[office].comment: use 1 to 48 printable ASCII characters; leave out [fmo-, blanks at an end, and two in a row",
            ),
        ] {
            let read = entries(&spec(vec![entry]), &owner_hash());
            assert_eq!(read, Err(vec![expected.to_owned()]));
        }
        let one = entry(Some("192.0.2.0/24"), None, None);
        let twice = entries(&spec(vec![one.clone(), one.clone()]), &owner_hash());
        let expected = "spec.entries[office].name: two entries have this name; rename one";
        assert_eq!(twice, Err(vec![expected.to_owned()]));
        let many = entries(&spec(vec![one; 10_000]), &owner_hash());
        let expected = "spec.entries has 10000 entries, more than 200; join neighbouring ranges";
        assert_eq!(many, Err(vec![expected.to_owned()]));
    }

    #[test]
    fn invalid_fields_share_one_message() {
        let bad = |name: &str| WhitelistEntrySpec {
            name: name.into(),
            ..entry(None, Some("first"), Some("last"))
        };
        let wrong = entries(&spec(vec![bad("Office"), bad("lab")]), &owner_hash()).unwrap_err();
        assert_eq!(wrong.len(), 5);
        let Invalid(few) = Invalid::new(&wrong[..2]);
        let expected = "spec.entries[Office].name: use 1 to 32 of a-z, 0-9 and -. spec.entries[Office].start: \"first\" is not an IP address; write it such as 192.0.2.7 or 2001:db8::7";
        assert_eq!(few, expected);
        let Invalid(many) = Invalid::new(&wrong);
        assert!(
            many.starts_with(expected) && many.ends_with(". And 2 more"),
            "{many}"
        );
        assert!(many.len() <= LONGEST_MESSAGE, "{many}");
    }

    #[test]
    fn cidr_is_sent_whole_and_span_as_ends() {
        let read = |entry| {
            entries(&spec(vec![entry]), &owner_hash())
                .unwrap()
                .remove(0)
                .rule()
        };
        let net = read(entry(Some("192.0.2.0/24"), None, None));
        assert_eq!(
            net.range,
            AddressRange::Net("192.0.2.0/24".parse().unwrap())
        );
        assert!(net.active && net.comments.unwrap().ends_with(":office]"));
        let span = read(entry(None, Some("192.0.2.7"), Some("192.0.2.7")));
        let seven = "192.0.2.7".parse().unwrap();
        assert_eq!(span.range, AddressRange::Span(seven, seven));
        for whole in ["0.0.0.0/0", "::/0"] {
            let net = read(entry(Some(whole), None, None));
            assert_eq!(net.range, AddressRange::Net(whole.parse().unwrap()));
        }
    }

    #[test]
    fn spec_egress_overrides_account_egress() {
        let mut spec = spec(Vec::new());
        let account = ["198.51.100.0/24".to_owned()];
        assert_eq!(egress(&spec, &[]), Ok(None));
        let of = |texts: &[&str]| -> Addresses {
            texts
                .iter()
                .map(|t| Range::of_net(t.parse().unwrap()))
                .collect()
        };
        assert_eq!(egress(&spec, &account), Ok(Some(of(&["198.51.100.0/24"]))));
        spec.egress_cidrs = vec!["192.0.2.7/32".into(), "2001:db8::/64".into()];
        assert_eq!(
            egress(&spec, &account),
            Ok(Some(of(&["192.0.2.7/32", "2001:db8::/64"])))
        );
        spec.egress_cidrs = vec!["192.0.2.7/24".into()];
        let expected =
            "spec.egressCIDRs: 192.0.2.7/24 has bits outside of its prefix; write 192.0.2.0/24";
        assert_eq!(egress(&spec, &account), Err(vec![expected.to_owned()]));
    }
}
