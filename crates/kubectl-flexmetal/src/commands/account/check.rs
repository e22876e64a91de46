//! `account check`: whether the account can be used from here.

use crate::{
    account_client::{self, AccountArgs},
    ages,
    context::PluginContext,
    exit::{Exit, PluginError},
    fields::{Field, field, text},
};
use hosting::check::{Access, AccountCheck, Encryption, Resource, check_account};
use hosting_types::{ApiKeyId, health::Health};
use jiff::SignedDuration;
use serde_json::{Value, json};

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
const WRONG: &str = "wrong";

const FIELDS: &[Field] = &[
    field("CHECK", "check"),
    field("RESULT", "result"),
    field("NEEDED FOR", "neededFor"),
    field("DETAIL", "detail"),
    field("CALL", "call").wide(),
];

/// Prints what the check found.
pub(super) async fn run(context: &PluginContext, args: CheckArgs) -> Result<Exit, PluginError> {
    let client = account_client::connect(context, &args.account).await?;
    let found = check_account(&client, args.key.map(ApiKeyId), ages::now).await;
    let records = build_records(client.base_url().as_str(), &found);
    context.printer.records(FIELDS, records, "")?;
    context
        .printer
        .inform("Not tested: whether the key may order, change or release");
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
    } else if describe_skew(found.clock_skew).0 == WRONG || found.health != Ok(Health::Ok) {
        Exit::Attention
    } else {
        Exit::Fine
    }
}

fn build_records(base_url: &str, found: &AccountCheck) -> Vec<Value> {
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
    let url = match found.is_reachable() {
        true => "ok",
        false => "unreachable",
    };
    let whole = [
        ("url", url, base_url),
        ("health", health, health_detail),
        ("tls", tls, tls_detail),
        ("clock", clock, &clock_detail),
        ("key", key, key_detail),
    ];
    let whole = whole.into_iter().map(
        |(check, result, detail)| json!({"check": check, "result": result, "detail": text(detail)}),
    );
    let rights = found.rights.iter().map(|right| {
        let (result, detail) = match &right.access {
            Access::Allowed => ("allowed", ""),
            Access::Refused { why, .. } => ("refused", why.as_str()),
            // Without a connection the reason of all is the same.
            Access::Unreachable { why } if found.health.as_ref() == Err(why) => ("unreachable", ""),
            Access::Unreachable { why } => ("unreachable", why.as_str()),
        };
        let (noun, needed_for) = describe_resource(right.resource);
        json!({
            "check": format!("read {noun}"), "result": result, "neededFor": needed_for,
            "call": right.resource.operation(), "detail": text(detail),
        })
    });
    whole.chain(rights).collect()
}

fn describe_skew(skew: Option<SignedDuration>) -> (&'static str, String) {
    let Some(skew) = skew else {
        return ("unknown", "no answer has a date".to_owned());
    };
    let seconds = ages::shorten(skew.abs().as_secs());
    let direction = match skew.is_negative() {
        true => "ahead of",
        false => "behind",
    };
    match skew.abs() > GREATEST_SKEW {
        true => (
            WRONG,
            format!("this clock is {seconds} {direction} the provider's; set it"),
        ),
        false => ("ok", String::new()),
    }
}

/// What it is, and the kinds and commands that need to read it.
fn describe_resource(resource: Resource) -> (&'static str, &'static str) {
    match resource {
        Resource::Servers => ("servers", "all kinds"),
        Resource::Commands => ("commands of a server", "ServerCommand"),
        Resource::Tags => ("tags", "ServerTag"),
        Resource::Locations => ("locations", "orders, catalog"),
        Resource::Plans => ("instance types", "orders, catalog"),
        Resource::OperatingSystems => ("operating systems", "orders, catalog"),
        Resource::Quota => ("quotas", "all kinds"),
        Resource::Usage => ("usage", "usage"),
        Resource::Capacity => ("committed capacity", "capacity"),
        Resource::SshKeys => ("SSH keys", "SshKey"),
        Resource::Hosts => ("dedicated hosts", "DedicatedHost"),
        Resource::Whitelist => ("whitelist of the key", "IpWhitelist"),
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
    fn missing_right_and_outage_differ_in_exit_code() {
        let exit = |accesses: &[Access]| exit_of(&found(accesses.to_vec()));
        assert_eq!(exit(&[Access::Allowed]), Exit::Fine);
        assert_eq!(exit(&[refused(), unreachable()]), Exit::NotAllowed);
        assert_eq!(exit(&[Access::Allowed, unreachable()]), Exit::Error);
        let lost = AccountCheck {
            health: Err("no connection".into()),
            ..found(Vec::new())
        };
        assert_eq!(exit_of(&lost), Exit::Error);
        let late = AccountCheck {
            clock_skew: Some(SignedDuration::from_secs(90)),
            ..found(Vec::new())
        };
        assert_eq!(exit_of(&late), Exit::Attention);
    }

    #[test]
    fn each_right_is_a_record_with_its_use() {
        let found = found(vec![Access::Allowed, refused()]);
        let records = build_records("https://api.example.com", &found);
        assert_eq!(records[0]["detail"], "https://api.example.com");
        assert_eq!(
            (&records[4]["check"], &records[4]["result"]),
            (&json!("key"), &json!("ok"))
        );
        let expected = json!({
            "check": "read tags", "result": "refused", "neededFor": "ServerTag",
            "call": "GET /v3/flexMetal/tags", "detail": "status 403",
        });
        assert_eq!(records[6], expected);
    }

    #[test]
    fn lost_connection_is_explained_once() {
        let found = AccountCheck {
            health: Err("no connection".into()),
            ..found(vec![unreachable(), unreachable()])
        };
        let records = build_records("https://api.example.com", &found);
        let explained = records.iter().filter(|it| it["detail"] == "no connection");
        assert_eq!(explained.count(), 1);
        assert_eq!(records[5]["result"], "unreachable");
    }

    #[test]
    fn only_a_large_clock_skew_is_wrong() {
        let skew = |seconds| describe_skew(Some(SignedDuration::from_secs(seconds)));
        assert_eq!(skew(30).0, "ok");
        assert!(skew(90).1.contains("90s behind"), "{:?}", skew(90));
        assert!(skew(-3600).1.contains("60m ahead of"), "{:?}", skew(-3600));
    }
}
