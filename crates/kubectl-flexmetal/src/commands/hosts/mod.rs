//! `hosts`: the dedicated hosts of the account, and their installation logs.

mod log;

use crate::{
    account_client::{self, AccountArgs, list_allowed, list_error},
    context::PluginContext,
    exit::{Exit, PluginError},
    fields::{Field, field, text},
};
use api::{DedicatedHost, references::PinnedAccount};
use flexmetal_core::account::key::AccountKey;
use flexmetal_core::host_record::{is_on_demand, word};
use hosting_types::host::{Host, HostKind};
use kube::ResourceExt as _;
use serde_json::{Value, json};

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

const FIELDS: &[Field] = &[
    field("ID", "id"),
    field("NAME", "name"),
    field("HOSTNAME", "hostname"),
    field("KIND", "kind"),
    field("STATUS", "status"),
    field("INSTALL", "installStatus"),
    field("TYPE", "instanceType"),
    field("OBJECT", "object"),
    field("ADDRESSES", "addresses").wide(),
    field("OS ID", "osID").wide(),
    field("LOCATION ID", "locationID").wide(),
    field("RACK", "rack").wide(),
    field("CPU", "cpu").wide(),
    field("LABELS", "labels").wide(),
];

/// Prints the hosts, or a log.
pub async fn run(context: &PluginContext, args: HostsArgs) -> Result<Exit, PluginError> {
    if let Some(HostsCommand::Log(log)) = args.command {
        return log::run(context, log).await;
    }
    let client = account_client::connect(context, &args.account).await?;
    let list = client.all_hosts(args.labels.as_deref()).growing();
    let list = list.collect().await;
    let mut hosts = list
        .map_err(|incomplete| list_error("list the hosts of the account", incomplete))?
        .into_records();
    hosts.retain(|host| args.all || !is_on_demand(host));
    hosts.sort_by_key(|host| host.id);
    let (mut objects, _) = list_allowed::<DedicatedHost>(context).await?;
    // The number of a host says nothing in another account.
    let account = AccountKey::from_reference(&args.account.reference(), &context.namespace);
    objects.retain(|object| args.account.base_url.is_some() || account_of(object) == account);
    let records = hosts.iter().map(|host| build_record(host, &objects));
    let none = "The account has no dedicated hosts";
    context.printer.records(FIELDS, records.collect(), none)?;
    Ok(Exit::Fine)
}

/// The object of a host.
/// The account that an object uses.
fn account_of(object: &DedicatedHost) -> AccountKey {
    let status = object.status.as_ref();
    let account = PinnedAccount::in_force(
        status.and_then(|it| it.account_ref.as_ref()),
        object.spec.account_ref.as_ref(),
    );
    AccountKey::from_reference(
        &account,
        object.metadata.namespace.as_deref().unwrap_or_default(),
    )
}

fn find_object(objects: &[DedicatedHost], id: u64) -> Option<&DedicatedHost> {
    let mut objects = objects.iter();
    objects.find(|object| u64::try_from(object.spec.host_id) == Ok(id))
}

fn build_record(host: &Host, objects: &[DedicatedHost]) -> Value {
    let object = find_object(objects, host.id.0);
    let kind = match host.kind {
        _ if is_on_demand(host) => "on-demand",
        HostKind::Virtual => "virtual",
        HostKind::Other(Some(_)) => "unknown",
        HostKind::Dedicated | HostKind::OnDemand | HostKind::Other(None) => "dedicated",
    };
    // 2 is the console.
    let addresses = host.addresses.iter().filter(|it| it.kind != Some(2));
    let addresses: Vec<_> = addresses.map(|it| it.address.as_str()).collect();
    let title = |it: &DedicatedHost| {
        let namespace = it.namespace().unwrap_or_default();
        format!("{namespace}/{}", it.name_any())
    };
    json!({
        "id": host.id.0, "name": host.server_name, "hostname": text(&host.live_host_name),
        "kind": kind, "status": text(&host.status), "installStatus": word(&host.install_status),
        "instanceType": text(&host.instance_type), "addresses": addresses,
        "osID": host.os_id.filter(|id| *id > 0), "locationID": host.location_id,
        "rack": text(&host.hardware.rack), "cpu": text(&host.hardware.cpu), "labels": host.labels,
        "object": object.map(title),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hosting_types::{
        HostId,
        host::{HostAddress, HostHardware, InstallStatus},
    };

    #[test]
    fn hosts_have_their_objects() {
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
        let host = |id, kind| Host {
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
            labels: [("team".to_owned(), "a".to_owned())].into(),
        };
        let object: DedicatedHost = serde_json::from_value(json!({
            "apiVersion": "flexmetal.dev/v1alpha1", "kind": "DedicatedHost",
            "metadata": {"name": "db", "namespace": "a"}, "spec": {"hostID": 2},
        }))
        .unwrap();
        let record = |id, kind| build_record(&host(id, kind), std::slice::from_ref(&object));
        let with = record(2, HostKind::Dedicated);
        assert_eq!(
            (&with["object"], &with["installStatus"]),
            (&json!("a/db"), &json!("finished"))
        );
        assert_eq!(with["addresses"], json!(["192.0.2.1"]));
        let without = record(1, HostKind::Other(None));
        assert_eq!(
            (&without["object"], &without["kind"]),
            (&Value::Null, &json!("dedicated"))
        );
        assert_eq!(record(3, HostKind::OnDemand)["kind"], "on-demand");
    }
}
