//! The limits that an account, or an entry of its `spec.allowedNamespaces`, sets on servers and orders.

use super::key::AccountKey;
use crate::wording::counted;
use api::{Interval, limits::Limits};
use std::{fmt, time::Duration};

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
