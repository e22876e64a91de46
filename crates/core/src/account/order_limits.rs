//! The limits that an account, or an entry of its `spec.allowedNamespaces`, sets on servers and orders.

use super::{key::AccountKey, ownership_tags};
use crate::{owner, wording::counted};
use api::{Interval, allowed::AllowedNamespaces, limits::Limits, selector::Labels};
use hosting_types::Server;
use std::{collections::HashSet, fmt, sync::Arc, time::Duration};

/// Remedy in limit messages. The reader often may not change the account.
const RAISE: &str = "or ask an administrator of the account to raise the limit";

/// Limits, and who sets them.
pub struct OrderLimits<'a> {
    /// The account.
    pub account: &'a AccountKey,
    /// The entry that sets them; None: the account itself.
    pub entry: Option<&'a str>,
    /// The limits.
    pub limits: &'a Limits,
    /// Interval at which a blocked object asks again.
    pub every: Duration,
}

impl OrderLimits<'_> {
    /// Checks the servers, including those being ordered. `most`: the count cannot be higher, so that the exact one is
    /// made only if it matters.
    ///
    /// # Errors
    /// The message names the field, the numbers and the remedy.
    pub fn check_servers(&self, most: usize, count: impl FnOnce() -> usize) -> Result<(), String> {
        let Some((limit, servers)) = find_reached(self.limits.max_servers, most, count) else {
            return Ok(());
        };
        Err(format!(
            "{self} has {}; its {} is {limit}, and servers being ordered count. Delete a server, {RAISE}; checked every {}",
            counted(servers, "server"),
            self.field("maxServers"),
            Interval(self.every),
        ))
    }

    /// Checks the orders of the last hour, in the same way.
    ///
    /// # Errors
    /// The message names the field, the numbers and the remedy.
    pub fn check_orders(&self, most: usize, count: impl FnOnce() -> usize) -> Result<(), String> {
        let limit = self.limits.max_orders_per_hour;
        let Some((limit, orders)) = find_reached(limit, most, count) else {
            return Ok(());
        };
        Err(format!(
            "{self} has made {} within an hour; its {} is {limit}. Wait, {RAISE}; checked every {}",
            counted(orders, "order"),
            self.field("maxOrdersPerHour"),
            Interval(self.every),
        ))
    }

    fn field(&self, name: &str) -> String {
        match self.entry {
            None => format!("spec.limits.{name}"),
            Some(_) => format!("limits.{name} in spec.allowedNamespaces"),
        }
    }
}

impl fmt::Display for OrderLimits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.entry {
            None => self.account.fmt(f),
            Some(entry) => write!(f, "Entry {entry:?} of {}", self.account),
        }
    }
}

/// Which servers of this cluster count for the limits of an entry.
pub struct EntryCount<'a> {
    /// The entry.
    pub entry: &'a AllowedNamespaces,
    /// Namespace of the object that ordered a server, if known.
    pub namespace_for: &'a dyn Fn(&Server) -> Option<Arc<str>>,
    /// Labels of a namespace, if known.
    pub labels: &'a dyn Fn(&str) -> Option<Arc<Labels>>,
    /// Hashes of namespaces with retained servers that count: [`filter_hashes_for_entry`].
    pub retained_hashes: &'a HashSet<String>,
}

impl EntryCount<'_> {
    /// Whether the entry may select a namespace. The labels of a deleted namespace are unknown, so its servers count
    /// for every entry that may have selected it.
    pub fn counts_namespace(&self, namespace: &str) -> bool {
        let labels = (self.labels)(namespace);
        self.entry.selects_namespace(namespace, labels.as_deref()) != Some(false)
    }

    /// Whether a server counts.
    pub fn counts_server(&self, server: &Server) -> bool {
        match (self.namespace_for)(server) {
            Some(namespace) => self.counts_namespace(&namespace),
            None => {
                ownership_tags::retained_in(server).any(|hash| self.retained_hashes.contains(hash))
            }
        }
    }
}

/// Drops the namespace hashes that are known not to belong to an entry. The hash of a deleted namespace does not reveal
/// its name, so it counts for each entry with a selector. `entries`: all of the account. `names_matching`: the known
/// namespaces for which a rule holds.
pub fn filter_hashes_for_entry(
    mut hashes: HashSet<String>,
    entry: &AllowedNamespaces,
    entries: &[AllowedNamespaces],
    cluster: &str,
    names_matching: impl FnOnce(&dyn Fn(&str, &Labels) -> bool) -> Vec<String>,
) -> HashSet<String> {
    let to_hash = |namespace: &String| owner::namespace_hash(cluster, namespace);
    if hashes.is_empty() || entry.namespaces.iter().any(|name| name == "*") {
        return hashes;
    }
    let named: HashSet<String> = entry.namespaces.iter().map(to_hash).collect();
    if entry.namespace_selector.is_none() {
        hashes.retain(|hash| named.contains(hash));
        return hashes;
    }
    let others = entries.iter().filter(|other| other.name != entry.name);
    let mut others: HashSet<String> = others.flat_map(|e| &e.namespaces).map(to_hash).collect();
    let not_of_it =
        |name: &str, labels: &Labels| entry.selects_namespace(name, Some(labels)) == Some(false);
    others.extend(names_matching(&not_of_it).iter().map(to_hash));
    hashes.retain(|hash| named.contains(hash) || !others.contains(hash));
    hashes
}

/// Hashes of the namespaces that have live retained servers among these.
pub fn retained_namespace_hashes<'a>(servers: impl Iterator<Item = &'a Server>) -> HashSet<String> {
    let live = servers.filter(|server| server.status.is_live());
    let hashes = live.flat_map(|server| ownership_tags::retained_in(server).map(str::to_owned));
    hashes.collect()
}

/// The limit and the count, if the count reaches the limit.
fn find_reached(
    limit: Option<i32>,
    most: usize,
    count: impl FnOnce() -> usize,
) -> Option<(i32, usize)> {
    let limit = limit?;
    let is_reached = |count| usize::try_from(limit).is_ok_and(|most| count >= most);
    let count = is_reached(most).then(count)?;
    is_reached(count).then_some((limit, count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::references::AccountKind;

    #[test]
    fn reached_limit_names_its_field_and_count() {
        let account = AccountKey::named(AccountKind::ProviderAccount, Some("a"), "default");
        let limits = Limits {
            max_servers: Some(2),
            max_orders_per_hour: Some(1),
            ..Limits::default()
        };
        let of = |entry| OrderLimits {
            account: &account,
            entry,
            limits: &limits,
            every: Duration::from_secs(10),
        };
        assert_eq!(of(None).check_servers(9, || 1), Ok(()));
        assert_eq!(
            of(None).check_servers(1, || panic!("counted for nothing")),
            Ok(())
        );
        let text = of(None).check_servers(2, || 2).unwrap_err();
        let expected = "ProviderAccount a/default has 2 servers; its spec.limits.maxServers is 2,";
        assert!(text.starts_with(expected), "{text}");
        let text = of(Some("team")).check_orders(1, || 1).unwrap_err();
        let expected = "Entry \"team\" of ProviderAccount a/default has made 1 order within an hour; its limits.maxOrdersPerHour in spec.allowedNamespaces is 1.";
        assert!(text.starts_with(expected), "{text}");
    }
}
