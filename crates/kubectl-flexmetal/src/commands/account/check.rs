//! `account check`: whether the account can be used from here.

use crate::{
    account_client::{self, AccountArgs},
    ages,
    context::Context,
    exit::{Exit, PluginError},
    output::{Column, Row, column, wide},
};
use hosting::check::{Access, AccountCheck, Encryption, Resource, check_account};
use hosting_types::{ApiKeyId, health::Health};
use jiff::SignedDuration;
use serde::Serialize;

/// Arguments of `account check`.
#[derive(Clone, Debug, clap::Args)]
pub struct CheckArgs {
    /// Number of an API key, to check the right to its whitelist
    #[arg(long, value_name = "ID")]
    key: Option<u64>,
    #[command(flatten)]
    account: AccountArgs,
}

/// A clock that differs by more makes ages and dates wrong.
const GREATEST_SKEW: SignedDuration = SignedDuration::from_secs(30);

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckRow {
    check: String,
    result: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    needed_for: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    call: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
}

impl Row for CheckRow {
    const COLUMNS: &'static [Column] = &[
        column("CHECK"),
        column("RESULT"),
        column("NEEDED FOR"),
        column("DETAIL"),
        wide("CALL"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.check.clone(),
            self.result.to_owned(),
            self.needed_for.clone(),
            self.detail.clone(),
            self.call.clone(),
        ]
    }

    fn name(&self) -> String {
        self.check.clone()
    }
}

/// Prints what the check found.
pub(super) async fn run(context: &Context, args: CheckArgs) -> Result<Exit, PluginError> {
    let client = account_client::connect(context, &args.account).await?;
    let found = check_account(&client, args.key.map(ApiKeyId), ages::now).await;
    let rows = build_rows(client.base_url().as_str(), &found);
    context.printer.rows(&rows, "")?;
    Ok(exit_of(&found))
}

/// The worst finding decides: an API that is not reached says nothing about rights.
fn exit_of(found: &AccountCheck) -> Exit {
    let is_unreachable = |access: &Access| matches!(access, Access::Unreachable { .. });
    let mut rights = found.rights.iter();
    if found.refused().count() > 0 {
        Exit::NotAllowed
    } else if !found.is_reachable() || rights.any(|right| is_unreachable(&right.access)) {
        Exit::Error
    } else {
        Exit::Fine
    }
}

fn build_rows(base_url: &str, found: &AccountCheck) -> Vec<CheckRow> {
    let row = |check: &str, result: &'static str, detail: &str| CheckRow {
        check: check.to_owned(),
        result,
        needed_for: String::new(),
        call: String::new(),
        detail: detail.to_owned(),
    };
    let (health, health_detail) = match &found.health {
        Ok(Health::Ok) => ("ok", ""),
        Ok(Health::Fail) => ("failing", "the API reports that it is not healthy"),
        Ok(Health::Other(word)) => ("unknown", word.as_str()),
        Err(why) => ("unreachable", why.as_str()),
    };
    let (tls, tls_detail) = match found.encryption {
        Encryption::Tls => ("ok", "the certificate is valid and trusted"),
        Encryption::Absent => (
            "absent",
            "plain http: the network between can read the key; use https",
        ),
        Encryption::Unknown => ("unknown", ""),
    };
    let (clock, clock_detail) = describe_skew(found.clock_skew);
    let (key, key_detail) = match found.is_key_accepted() {
        Some(true) => ("ok", ""),
        Some(false) => (
            "refused",
            "check the key, and that its whitelist has the address of this machine",
        ),
        None => ("unknown", ""),
    };
    let url = if found.is_reachable() {
        "ok"
    } else {
        "unreachable"
    };
    let mut rows = vec![
        row("url", url, base_url),
        row("health", health, health_detail),
        row("tls", tls, tls_detail),
        row("clock", clock, &clock_detail),
        row("key", key, key_detail),
    ];
    rows.extend(found.rights.iter().map(|right| {
        let (result, detail) = match &right.access {
            Access::Allowed => ("allowed", ""),
            Access::Refused { why, .. } => ("refused", why.as_str()),
            // Without a connection the reason of all is the same.
            Access::Unreachable { why } if found.health.as_ref() == Err(why) => ("unreachable", ""),
            Access::Unreachable { why } => ("unreachable", why.as_str()),
        };
        CheckRow {
            check: format!("read {}", noun(right.resource)),
            result,
            call: right.resource.operation().to_owned(),
            needed_for: needed_for(right.resource).to_owned(),
            detail: detail.to_owned(),
        }
    }));
    rows
}

fn describe_skew(skew: Option<SignedDuration>) -> (&'static str, String) {
    let Some(skew) = skew else {
        return ("unknown", "no answer has a date".to_owned());
    };
    let seconds = ages::shorten(skew.abs().as_secs());
    let direction = if skew.is_negative() {
        "ahead of"
    } else {
        "behind"
    };
    match skew.abs() > GREATEST_SKEW {
        true => (
            "wrong",
            format!("this clock is {seconds} {direction} the provider's; set it"),
        ),
        false => ("ok", String::new()),
    }
}

fn noun(resource: Resource) -> &'static str {
    match resource {
        Resource::Servers => "servers",
        Resource::Commands => "commands of a server",
        Resource::Tags => "tags",
        Resource::Locations => "locations",
        Resource::Plans => "instance types",
        Resource::OperatingSystems => "operating systems",
        Resource::Quota => "quotas",
        Resource::Usage => "usage",
        Resource::Capacity => "committed capacity",
        Resource::SshKeys => "SSH keys",
        Resource::Hosts => "dedicated hosts",
        Resource::Whitelist => "whitelist of the key",
    }
}

/// The kinds and commands that need the right.
fn needed_for(resource: Resource) -> &'static str {
    match resource {
        Resource::Servers => "all kinds",
        Resource::Commands => "ServerCommand, reinstall",
        Resource::Tags => "ServerTag, orphans",
        Resource::Locations | Resource::Plans | Resource::OperatingSystems => "orders, catalog",
        Resource::Quota => "all kinds, quota",
        Resource::Usage => "usage",
        Resource::Capacity => "capacity",
        Resource::SshKeys => "SshKey",
        Resource::Hosts => "DedicatedHost",
        Resource::Whitelist => "IpWhitelist",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hosting::check::Right;

    fn found(accesses: Vec<Access>) -> AccountCheck {
        let resources = [Resource::Servers, Resource::Tags, Resource::Hosts];
        let rights = resources.into_iter().zip(accesses);
        AccountCheck {
            health: Ok(Health::Ok),
            encryption: Encryption::Tls,
            clock_skew: None,
            rights: rights
                .map(|(resource, access)| Right { resource, access })
                .collect(),
        }
    }

    fn refused() -> Access {
        Access::Refused {
            status: 403,
            why: "status 403".into(),
        }
    }

    fn unreachable() -> Access {
        Access::Unreachable {
            why: "no connection".into(),
        }
    }

    #[test]
    fn exit_code_tells_a_missing_right_from_an_outage() {
        let allowed = || Access::Allowed;
        assert_eq!(exit_of(&found(vec![allowed(), allowed()])), Exit::Fine);
        assert_eq!(
            exit_of(&found(vec![allowed(), refused(), unreachable()])),
            Exit::NotAllowed
        );
        assert_eq!(exit_of(&found(vec![allowed(), unreachable()])), Exit::Error);
        let lost = AccountCheck {
            health: Err("no connection".into()),
            ..found(Vec::new())
        };
        assert_eq!(exit_of(&lost), Exit::Error);
    }

    #[test]
    fn each_right_is_a_row_with_its_use() {
        let found = found(vec![Access::Allowed, refused()]);
        let rows = build_rows("https://api.example.com", &found);
        let cells: Vec<_> = rows.iter().map(|row| row.cells().join("|")).collect();
        assert_eq!(cells[0], "url|ok||https://api.example.com|");
        assert_eq!(cells[4], "key|ok|||");
        assert_eq!(
            cells[5],
            "read servers|allowed|all kinds||GET /v3/flexMetal/servers"
        );
        assert_eq!(
            cells[6],
            "read tags|refused|ServerTag, orphans|status 403|GET /v3/flexMetal/tags"
        );
    }

    #[test]
    fn a_lost_connection_is_explained_once() {
        let found = AccountCheck {
            health: Err("no connection".into()),
            ..found(vec![unreachable(), unreachable()])
        };
        let rows = build_rows("https://api.example.com", &found);
        let explained = rows.iter().filter(|row| row.detail == "no connection");
        assert_eq!(explained.count(), 1);
        assert_eq!(rows[0].result, "unreachable");
        assert_eq!(rows[5].result, "unreachable");
    }

    #[test]
    fn only_a_large_clock_skew_is_wrong() {
        let skew = |seconds| describe_skew(Some(SignedDuration::from_secs(seconds)));
        assert_eq!(skew(30).0, "ok");
        assert_eq!(
            skew(90),
            (
                "wrong",
                "this clock is 90s behind the provider's; set it".to_owned()
            )
        );
        assert!(skew(-3600).1.contains("60m ahead of"), "{:?}", skew(-3600));
        assert_eq!(describe_skew(None).0, "unknown");
    }
}
