//! `hosts`: the dedicated hosts of the account, and their installation logs.

mod log;
mod secret_texts;

use crate::{
    account_client::{self, AccountArgs, is_forbidden, list_error},
    context::{Context, Scope},
    exit::{Exit, PluginError},
    output::{Column, Row, column, wide},
};
use api::DedicatedHost;
use flexmetal_core::host_record::{is_on_demand, word};
use hosting_types::host::{Host, HostKind};
use kube::ResourceExt as _;
use serde::Serialize;
use std::collections::BTreeMap;

/// Arguments of `hosts`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HostsArgs {
    #[command(subcommand)]
    command: Option<HostsCommand>,
    /// On-demand servers, too
    #[arg(long)]
    all: bool,
    /// Only hosts with these labels, in the provider's syntax
    #[arg(long, value_name = "LABELS")]
    labels: Option<String>,
    #[command(flatten)]
    account: AccountArgs,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum HostsCommand {
    /// Show the installation log of a host
    Log(log::LogArgs),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HostRow {
    id: u64,
    name: String,
    hostname: String,
    kind: &'static str,
    status: String,
    install_status: String,
    instance_type: String,
    addresses: Vec<String>,
    #[serde(rename = "osID", skip_serializing_if = "Option::is_none")]
    os_id: Option<i64>,
    #[serde(rename = "locationID", skip_serializing_if = "Option::is_none")]
    location_id: Option<i64>,
    rack: String,
    cpu: String,
    labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<String>,
}

impl Row for HostRow {
    const COLUMNS: &'static [Column] = &[
        column("ID"),
        column("NAME"),
        column("HOSTNAME"),
        column("KIND"),
        column("STATUS"),
        column("INSTALL"),
        column("TYPE"),
        column("OBJECT"),
        wide("ADDRESSES"),
        wide("OS ID"),
        wide("LOCATION ID"),
        wide("RACK"),
        wide("CPU"),
        wide("LABELS"),
    ];

    fn cells(&self) -> Vec<String> {
        let number = |number: Option<i64>| number.map(|it| it.to_string()).unwrap_or_default();
        let labels = self.labels.iter();
        let labels: Vec<_> = labels
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        vec![
            self.id.to_string(),
            self.name.clone(),
            self.hostname.clone(),
            self.kind.to_owned(),
            self.status.clone(),
            self.install_status.clone(),
            self.instance_type.clone(),
            self.object.clone().unwrap_or_default(),
            self.addresses.join(","),
            number(self.os_id),
            number(self.location_id),
            self.rack.clone(),
            self.cpu.clone(),
            labels.join(","),
        ]
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}

/// Prints the hosts, or a log.
pub async fn run(context: &Context, args: HostsArgs) -> Result<Exit, PluginError> {
    if let Some(HostsCommand::Log(log)) = args.command {
        return log::run(context, log).await;
    }
    let client = account_client::connect(context, &args.account).await?;
    let list = client.all_hosts(args.labels.as_deref()).growing();
    let list = list.collect().await;
    let list =
        list.map_err(|incomplete| list_error("list the hosts of the account", incomplete))?;
    let objects = list_objects(context, &args.account).await?;
    let rows = build_rows(list.into_records(), &objects, args.all);
    context
        .printer
        .rows(&rows, "The account has no dedicated hosts")?;
    Ok(Exit::Fine)
}

/// The objects that may have one of the hosts; none without the right to list them.
async fn list_objects(
    context: &Context,
    args: &AccountArgs,
) -> Result<Vec<DedicatedHost>, PluginError> {
    let is_of_namespace = args.cluster_account.is_none() && args.base_url.is_none();
    let scope = Scope {
        namespace: is_of_namespace.then(|| context.namespace.clone()),
        selector: None,
    };
    match context.list(&scope).await {
        Err(error) if is_forbidden(&error) => {
            context.printer.warn(
                "warning: needs \"list\" on dedicatedhosts to show which object has which host",
            );
            Ok(Vec::new())
        }
        listed => listed,
    }
}

/// The rows by number.
fn build_rows(mut hosts: Vec<Host>, objects: &[DedicatedHost], all: bool) -> Vec<HostRow> {
    hosts.retain(|host| all || !is_on_demand(host));
    hosts.sort_by_key(|host| host.id);
    let object_of = |host: &Host| {
        let object = objects
            .iter()
            .find(|object| u64::try_from(object.spec.host_id) == Ok(host.id.0))?;
        let namespace = object.namespace().unwrap_or_default();
        Some(format!("{namespace}/{}", object.name_any()))
    };
    let rows = hosts.into_iter().map(|host| HostRow {
        id: host.id.0,
        object: object_of(&host),
        kind: match host.kind {
            _ if is_on_demand(&host) => "on-demand",
            HostKind::Virtual => "virtual",
            HostKind::Other(Some(_)) => "unknown",
            HostKind::Dedicated | HostKind::OnDemand | HostKind::Other(None) => "dedicated",
        },
        install_status: word(&host.install_status).unwrap_or_default().to_owned(),
        name: host.server_name,
        hostname: host.live_host_name,
        status: host.status,
        instance_type: host.instance_type,
        // 2 is the console.
        addresses: host
            .addresses
            .into_iter()
            .filter(|address| address.kind != Some(2))
            .map(|address| address.address)
            .collect(),
        os_id: host.os_id,
        location_id: host.location_id,
        rack: host.hardware.rack,
        cpu: host.hardware.cpu,
        labels: host.labels,
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hosting_types::{
        HostId,
        host::{HostAddress, HostHardware, InstallStatus},
    };
    use serde_json::json;

    fn host(id: u64, kind: HostKind) -> Host {
        let address = |text: &str, kind| HostAddress {
            address: text.into(),
            version: None,
            kind: Some(kind),
            is_private: false,
            interface: String::new(),
            mac_address: String::new(),
            reverse_dns: String::new(),
            gateway: None,
            netmask: None,
            prefix: None,
            vlan_id: None,
        };
        Host {
            id: HostId(id),
            kind,
            server_id: None,
            server_name: format!("srv-{id}"),
            live_host_name: String::new(),
            category: String::new(),
            order_id: None,
            os_id: Some(104),
            location_id: None,
            instance_type: String::new(),
            hardware: HostHardware::default(),
            addresses: vec![address("192.0.2.1", 1), address("10.0.0.1", 2)],
            status: "running".into(),
            install_status: InstallStatus::Finished,
            uptime: None,
            uplinks: None,
            labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
        }
    }

    #[test]
    fn hosts_have_their_objects() {
        let object: DedicatedHost = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "DedicatedHost",
            "metadata": {"name": "db", "namespace": "a"}, "spec": {"hostID": 2},
        }))
        .unwrap();
        let hosts = vec![
            host(3, HostKind::OnDemand),
            host(2, HostKind::Dedicated),
            host(1, HostKind::Other(None)),
        ];
        let rows = build_rows(hosts.clone(), std::slice::from_ref(&object), false);
        let cells: Vec<_> = rows.iter().map(Row::cells).collect();
        assert_eq!(cells.len(), 2);
        assert_eq!(cells[0][..4], ["1", "srv-1", "", "dedicated"]);
        assert_eq!(cells[0][7], "");
        assert_eq!(cells[1][4..8], ["running", "finished", "", "a/db"]);
        assert_eq!(cells[1][8], "192.0.2.1");
        let all = build_rows(hosts, &[], true);
        assert_eq!(all[2].kind, "on-demand");
    }
}
