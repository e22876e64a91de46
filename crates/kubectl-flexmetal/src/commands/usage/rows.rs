//! Usage as tables: by server, by namespace, by contract, by month.

use crate::{
    output::{Column, Row, column, wide},
    server_objects::ServerObjects,
    sizes,
};
use api::usage::UsageStatus;
use hosting_types::{ServerId, usage::Usage};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Stands for the namespace of servers without an object.
const NO_OBJECT: &str = "(no object)";
/// Stands for the contract of servers from the on-demand pool.
const ON_DEMAND: &str = "(on demand)";

/// What servers have used together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Share {
    pub(super) servers: usize,
    /// Billed hours.
    pub(super) hours: i64,
    /// Bytes that left the servers.
    pub(super) egress_bytes: i64,
}

impl Share {
    fn add(&mut self, row: &ServerRow) {
        self.servers += 1;
        self.hours = self.hours.saturating_add(row.hours);
        self.egress_bytes = self.egress_bytes.saturating_add(row.egress_bytes);
    }

    fn cells(&self, name: Option<&str>, without: &str) -> Vec<String> {
        vec![
            name.unwrap_or(without).to_owned(),
            self.servers.to_string(),
            self.hours.to_string(),
            sizes::decimal(self.egress_bytes),
            self.egress_bytes.to_string(),
        ]
    }
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerRow {
    uuid: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<String>,
    instance_type: String,
    location: String,
    #[serde(rename = "contractID", skip_serializing_if = "Option::is_none")]
    contract_id: Option<String>,
    hours: i64,
    egress_bytes: i64,
}

impl Row for ServerRow {
    const COLUMNS: &'static [Column] = &[
        column("UUID"),
        column("NAMESPACE"),
        column("OBJECT"),
        column("TYPE"),
        column("HOURS"),
        column("EGRESS"),
        wide("EGRESS BYTES"),
        wide("NAME"),
        wide("LOCATION"),
        wide("CONTRACT"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.uuid.clone(),
            self.namespace.clone().unwrap_or_else(|| NO_OBJECT.into()),
            self.object.clone().unwrap_or_default(),
            self.instance_type.clone(),
            self.hours.to_string(),
            sizes::decimal(self.egress_bytes),
            self.egress_bytes.to_string(),
            self.name.clone(),
            self.location.clone(),
            self.contract_id.clone().unwrap_or_default(),
        ]
    }

    fn name(&self) -> String {
        self.uuid.clone()
    }
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NamespaceRow {
    /// None: servers without an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(flatten)]
    share: Share,
}

impl Row for NamespaceRow {
    const COLUMNS: &'static [Column] = &[
        column("NAMESPACE"),
        column("SERVERS"),
        column("HOURS"),
        column("EGRESS"),
        wide("EGRESS BYTES"),
    ];

    fn cells(&self) -> Vec<String> {
        self.share.cells(self.namespace.as_deref(), NO_OBJECT)
    }

    fn name(&self) -> String {
        self.namespace.clone().unwrap_or_else(|| NO_OBJECT.into())
    }
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContractRow {
    /// None: the on-demand pool.
    #[serde(rename = "contractID", skip_serializing_if = "Option::is_none")]
    contract_id: Option<String>,
    #[serde(flatten)]
    share: Share,
}

impl Row for ContractRow {
    const COLUMNS: &'static [Column] = &[
        column("CONTRACT"),
        column("SERVERS"),
        column("HOURS"),
        column("EGRESS"),
        wide("EGRESS BYTES"),
    ];

    fn cells(&self) -> Vec<String> {
        self.share.cells(self.contract_id.as_deref(), ON_DEMAND)
    }

    fn name(&self) -> String {
        self.contract_id.clone().unwrap_or_else(|| ON_DEMAND.into())
    }
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MonthRow {
    month: String,
    hours: i64,
    egress_bytes: i64,
}

impl Row for MonthRow {
    const COLUMNS: &'static [Column] = &[
        column("MONTH"),
        column("HOURS"),
        column("EGRESS"),
        wide("EGRESS BYTES"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.month.clone(),
            self.hours.to_string(),
            sizes::decimal(self.egress_bytes),
            self.egress_bytes.to_string(),
        ]
    }

    fn name(&self) -> String {
        self.month.clone()
    }
}

/// One row for each server, the greatest use first.
pub(super) fn server_rows(usages: Vec<Usage>, objects: &ServerObjects) -> Vec<ServerRow> {
    let mut rows: HashMap<ServerId, ServerRow> = HashMap::new();
    for usage in usages {
        let amount = |number: Option<i64>| number.unwrap_or_default().max(0);
        let (hours, egress) = (amount(usage.total_hours), amount(usage.total_egress_bytes));
        let server = usage.server;
        let object = objects.find(&server.id);
        let row = rows.entry(server.id.clone()).or_insert_with(|| ServerRow {
            uuid: server.id.to_string(),
            name: server.name,
            namespace: object.map(|object| object.namespace.clone()),
            object: object.map(|object| object.name.clone()),
            instance_type: server.instance_type,
            location: server.location,
            contract_id: server.contract_id.filter(|contract| !contract.is_empty()),
            hours: 0,
            egress_bytes: 0,
        });
        row.hours = row.hours.saturating_add(hours);
        row.egress_bytes = row.egress_bytes.saturating_add(egress);
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    rows.sort_by(|one, other| {
        let key = |row: &ServerRow| (row.hours, row.egress_bytes);
        key(other)
            .cmp(&key(one))
            .then_with(|| one.uuid.cmp(&other.uuid))
    });
    rows
}

/// One row for each namespace.
pub(super) fn namespace_rows(rows: &[ServerRow]) -> Vec<NamespaceRow> {
    let shares = add_up(rows, |row| row.namespace.clone());
    let rows = shares
        .into_iter()
        .map(|(namespace, share)| NamespaceRow { namespace, share });
    rows.collect()
}

/// One row for each contract.
pub(super) fn contract_rows(rows: &[ServerRow]) -> Vec<ContractRow> {
    let shares = add_up(rows, |row| row.contract_id.clone());
    let rows = shares
        .into_iter()
        .map(|(contract_id, share)| ContractRow { contract_id, share });
    rows.collect()
}

fn add_up(
    rows: &[ServerRow],
    key: impl Fn(&ServerRow) -> Option<String>,
) -> BTreeMap<Option<String>, Share> {
    let mut shares: BTreeMap<Option<String>, Share> = BTreeMap::new();
    for row in rows {
        shares.entry(key(row)).or_default().add(row);
    }
    shares
}

/// All rows together.
pub(super) fn total_of(rows: &[ServerRow]) -> Share {
    let mut total = Share::default();
    rows.iter().for_each(|row| total.add(row));
    total
}

/// The months of an account's status, the present one first.
pub(super) fn month_rows(usage: &UsageStatus) -> Vec<MonthRow> {
    let months = [&usage.current_month, &usage.previous_month];
    let rows = months.into_iter().flatten().map(|month| MonthRow {
        month: month.month.clone(),
        hours: month.hours,
        egress_bytes: month.egress_bytes,
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        commands::servers::tests::server,
        server_objects::tests::{objects, uuid},
    };
    use serde_json::json;

    fn usage(number: u8, contract: Option<&str>, hours: i64, egress: i64) -> Usage {
        let mut server = server(number, "delivered");
        server.contract_id = contract.map(str::to_owned);
        Usage {
            server,
            started_at: None,
            ended_at: None,
            total_hours: Some(hours),
            total_minutes: None,
            bandwidth_in: None,
            bandwidth_out: None,
            total_egress_bytes: Some(egress),
        }
    }

    fn rows() -> Vec<ServerRow> {
        let objects = objects(&[
            ("a", "web", json!({"uuid": uuid(1)})),
            ("a", "db", json!({"uuid": uuid(2)})),
        ]);
        let usages = vec![
            usage(1, None, 10, 1_000_000),
            usage(2, Some("C-1"), 700, 2_000_000_000),
            usage(1, None, 5, 0),
            usage(3, Some(""), 20, -4),
        ];
        server_rows(usages, &objects)
    }

    #[test]
    fn periods_of_one_server_are_added_up() {
        let shown: Vec<_> = rows()
            .iter()
            .map(|row| row.cells()[1..7].join("|"))
            .collect();
        assert_eq!(
            shown,
            [
                "a|db|bm7.std.8|700|2 GB|2000000000",
                "(no object)||bm7.std.8|20|0 B|0",
                "a|web|bm7.std.8|15|1 MB|1000000"
            ]
        );
    }

    #[test]
    fn servers_without_an_object_are_a_group() {
        let shown = |rows: &[NamespaceRow]| -> Vec<_> {
            rows.iter().map(|row| row.cells()[..3].join("|")).collect()
        };
        let groups = namespace_rows(&rows());
        assert_eq!(shown(&groups), ["(no object)|1|20", "a|2|715"]);
        let data = serde_json::to_value(&groups).unwrap();
        assert_eq!(
            data[0],
            json!({"servers": 1, "hours": 20, "egressBytes": 0})
        );
        assert_eq!(data[1]["namespace"], "a");
    }

    #[test]
    fn an_empty_contract_is_on_demand() {
        let groups = contract_rows(&rows());
        let shown: Vec<_> = groups
            .iter()
            .map(|row| row.cells()[..3].join("|"))
            .collect();
        assert_eq!(shown, ["(on demand)|2|35", "C-1|1|700"]);
        let total = total_of(&rows());
        assert_eq!((total.servers, total.hours), (3, 735));
    }

    #[test]
    fn status_has_the_present_month_first() {
        let month = |month: &str| json!({"month": month, "hours": 3, "egressBytes": 5000});
        let usage: UsageStatus = serde_json::from_value(json!({
            "currentMonth": month("2026-11"), "previousMonth": month("2026-10"),
        }))
        .unwrap();
        let shown: Vec<_> = month_rows(&usage)
            .iter()
            .map(|row| row.cells().join("|"))
            .collect();
        assert_eq!(shown, ["2026-11|3|5 kB|5000", "2026-10|3|5 kB|5000"]);
        assert!(month_rows(&UsageStatus::default()).is_empty());
    }
}
