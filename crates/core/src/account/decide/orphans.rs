//! Orphans in an account's status: live servers of this cluster without an object.

use super::super::facts::AccountFacts;
use crate::{
    account::{facts::AccountReport, orphan_scan::OrphanScanResult, ownership_tags},
    wording::{counted, first_named, listed, plain_text},
};
use api::{
    Reason,
    account::MOST_ORPHANS,
    catalog::LONGEST_NAME,
    conditions::{DesiredCondition, Type},
    names::RETAINED_TAG,
    orphan::Orphan,
    references::AccountKind,
};
use hosting_types::Server;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// How far the provider's clock may be ahead of ours, in seconds.
const CLOCK_SLACK: i64 = 3600;

/// The oldest orphans, for the status; None: unchanged.
pub(super) fn list_orphans(
    facts: &AccountFacts,
    own: Option<&AccountReport>,
) -> Option<Vec<Orphan>> {
    match &own?.orphan_scan {
        OrphanScanResult::Found(orphans) => {
            let lines = orphans.iter().take(MOST_ORPHANS);
            Some(lines.map(|server| line(facts, server)).collect())
        }
        OrphanScanResult::NotChecked => None,
    }
}

fn line(facts: &AccountFacts, server: &Server) -> Orphan {
    let uuid = server.id.as_str();
    let before = facts.status.orphans.iter().find(|o| server.id == *o.uuid);
    // Ignores a time that a wrong clock wrote: later than now, or before the server was created.
    let is_past = |since: &Time| since.0.as_second() <= facts.wall;
    let since = before
        .and_then(|orphan| orphan.since.clone())
        .filter(is_past);
    let created = server.created_at.unwrap_or(i64::MIN);
    let since = since.filter(|since| since.0.as_second() >= created.saturating_sub(CLOCK_SLACK));
    Orphan {
        uuid: uuid.to_owned(),
        hostname: plain_text(&server.name, LONGEST_NAME),
        order_tag: ownership_tags::order_tag(server).map(str::to_owned),
        since: since.or_else(|| Timestamp::from_second(facts.wall).ok().map(Time)),
        location: plain_text(&server.location, LONGEST_NAME),
        instance_type: plain_text(&server.instance_type, LONGEST_NAME),
    }
}

/// The condition `OrphansFound`: whether live servers without an object are billed.
pub(super) fn condition(facts: &AccountFacts, own: Option<&AccountReport>) -> DesiredCondition {
    let unknown = |message: &str| DesiredCondition {
        kind: Type::OrphansFound,
        status: None,
        reason: Reason::Pending,
        message: message.into(),
    };
    match own.map(|report| (report, &report.orphan_scan)) {
        None | Some((_, OrphanScanResult::NotChecked)) => unknown(
            "Not checked: no complete list yet, or not all namespaces are watched. If all are, checked once a complete list is there",
        ),
        Some((report, OrphanScanResult::Found(orphans))) if orphans.is_empty() => {
            DesiredCondition::new(
                Type::OrphansFound,
                false,
                Reason::InSync,
                with_an_object(report),
            )
        }
        Some((_, OrphanScanResult::Found(orphans))) => {
            let count = orphans.len();
            let names = first_named(orphans.iter().map(|s| s.id.as_str()));
            let one = match count {
                1 => "it",
                _ => "one",
            };
            let all = match count {
                1 => "",
                _ => " (see status.orphans)",
            };
            DesiredCondition::new(
                Type::OrphansFound,
                true,
                Reason::OrphansFound,
                format!(
                    "{} of this cluster without an object, billed; {names}{all}. {}; or release {one} at the provider; to keep {one}, add the tag {RETAINED_TAG} there",
                    counted(count, "live server"),
                    how_to_adopt(facts, one)
                ),
            )
        }
    }
}

/// How to adopt the orphan, for a message.
fn how_to_adopt(facts: &AccountFacts, one: &str) -> String {
    match facts.key.kind {
        AccountKind::ProviderAccount => {
            format!("To adopt {one}, create a BareMetalServer with its UUID in spec.externalID")
        }
        AccountKind::ClusterProviderAccount => format!(
            "To adopt {one}, remove its fmo- tags at the provider and set spec.externalID of an object (needs allowAdoption in the entry of its namespace)"
        ),
    }
}

/// The message if there are no orphans; names the retained servers.
fn with_an_object(report: &AccountReport) -> String {
    let servers = report.complete_list.iter().flat_map(|list| &list.servers);
    let retained = servers.filter(|s| s.status.is_live() && ownership_tags::is_retained(s));
    let retained: Vec<&str> = retained.map(|server| server.id.as_str()).collect();
    match retained.len() {
        0 => "Every live server of this cluster has an object".to_owned(),
        count => format!(
            "Every live server of this cluster has an object; {} retained and billed: {}",
            counted(count, "server"),
            listed(retained)
        ),
    }
}
