//! `hosts log`: what the provider recorded of a host's installations.

use super::find_object;
use crate::{
    account_client::{self, AccountArgs, list_allowed, list_error},
    context::{PluginContext, api_error},
    exit::{Exit, PluginError},
    fields::{Field, field, text, time},
};
use api::{DedicatedHost, references::ValueLocation};
use futures::FutureExt as _;
use hosting::listing::Listing;
use hosting_types::{HostId, SecretText, host::InstallLogEntry, secret::HIDDEN_WORDS};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// Arguments of `hosts log`.
#[derive(Clone, Debug, clap::Args)]
pub struct LogArgs {
    /// DedicatedHost, or the provider's number of a host
    #[arg(value_name = "NAME|ID")]
    host: String,
    #[command(flatten)]
    account: AccountArgs,
}

const FIELDS: &[Field] = &[
    field("TIME", "writtenAt"),
    field("CATEGORY", "category"),
    field("DESCRIPTION", "description"),
    field("RESULT", "resolved"),
    field("OPEN", "isOpen").wide(),
    field("ID", "id").wide(),
];

/// Prints the log, the oldest entry first.
pub(super) async fn run(context: &PluginContext, args: LogArgs) -> Result<Exit, PluginError> {
    let (id, object, account) = match args.host.parse() {
        Ok(id) => {
            let (objects, _) = list_allowed(context).await?;
            (id, find_object(&objects, id).cloned(), args.account)
        }
        Err(_) => {
            let object: DedicatedHost = context.get(&args.host).await?;
            let id = u64::try_from(object.spec.host_id).map_err(|_| {
                PluginError::Other(format!("spec.hostID of {} is negative", args.host))
            })?;
            let account = args.account.of_object(&object.account());
            (id, Some(object), account)
        }
    };
    let client = &account_client::connect(context, &account).await?;
    let texts = match &object {
        Some(object) => read_secret_texts(context, object).await,
        None => Ok(Vec::new()),
    };
    let hidden = texts.as_deref().unwrap_or_default();
    // The log grows while the host is installed.
    let list = Listing::of_install_log(move |page| {
        async move { Ok(client.install_log(HostId(id), page, hidden).await?) }.boxed()
    });
    let list = list.growing().collect().await;
    let act = format!("read the installation log of host {id}");
    let list = list.map_err(|incomplete| list_error(&act, incomplete))?;
    if let Err(why) = &texts {
        context.printer.warn(&format!(
            "The lines are hidden, since they may repeat a secret text of the installation that cannot be read: {why}"
        ));
    }
    let records = build_records(list.into_records(), texts.is_err());
    let none = format!("Host {id} has no installation log");
    context.printer.records(FIELDS, records, &none)?;
    Ok(Exit::Fine)
}

/// The shortest value that is masked. A shorter one of a kernel parameter is a switch.
const SHORTEST: usize = 8;

/// The script and the kernel parameters of an installation, which its log may repeat. Err: why one cannot be read.
async fn read_secret_texts(
    context: &PluginContext,
    object: &DedicatedHost,
) -> Result<Vec<SecretText>, String> {
    let namespace = object.namespace().unwrap_or_default();
    let script = object.spec.post_install_script.as_ref();
    let script = script.map(|it| (it.value.as_deref(), it.value_from.as_ref()));
    let params = object.spec.kernel_params();
    let params = params.map(|it| (it.value.as_deref(), it.value_from.as_ref()));
    let mut texts = Vec::new();
    for (value, location) in script.into_iter().chain(params) {
        let value = value.filter(|value| value.len() >= SHORTEST);
        texts.extend(value.map(SecretText::new));
        if let Some(location) = location {
            let text = read_location(context, &namespace, location).await;
            let text = text.map_err(|error| error.explain())?;
            texts.push(text.ok_or("the Secret or ConfigMap has no such key")?);
        }
    }
    Ok(texts)
}

async fn read_location(
    context: &PluginContext,
    namespace: &str,
    location: &ValueLocation,
) -> Result<Option<SecretText>, PluginError> {
    let failed =
        |kind: &str, name: &str, error| api_error(format!("read {kind} {namespace}/{name}"), error);
    if let Some(of) = &location.secret_key_ref {
        let secret = context.api_in::<Secret>(namespace).get(&of.name).await;
        let secret = secret.map_err(|error| failed("Secret", &of.name, error))?;
        let bytes = secret.data.unwrap_or_default().remove(&of.key);
        let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned());
        return Ok(text.map(SecretText::new));
    }
    let Some(of) = &location.config_map_key_ref else {
        return Ok(None);
    };
    let map = context.api_in::<ConfigMap>(namespace).get(&of.name).await;
    let map = map.map_err(|error| failed("ConfigMap", &of.name, error))?;
    let text = map.data.unwrap_or_default().remove(&of.key);
    Ok(text.map(SecretText::new))
}

fn build_records(mut entries: Vec<InstallLogEntry>, hides_lines: bool) -> Vec<Value> {
    entries.sort_by_key(|entry| (entry.written_at, entry.id));
    let shown = |line: String| match hides_lines && !line.is_empty() {
        true => HIDDEN_WORDS.into(),
        false => text(line),
    };
    let records = entries.into_iter().map(|entry| {
        let names = [entry.category_name, entry.category];
        json!({
            "id": entry.id, "writtenAt": time(entry.written_at), "isOpen": entry.is_open,
            "category": names.into_iter().find(|name| !name.is_empty()),
            "description": shown(entry.description), "resolved": shown(entry.resolved),
        })
    });
    records.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: i64, at: i64, text: &str) -> InstallLogEntry {
        InstallLogEntry {
            id: Some(id),
            is_open: id == 2,
            written_at: Some(at),
            category: "OS installation".into(),
            category_name: String::new(),
            description: text.into(),
            resolved: String::new(),
        }
    }

    #[test]
    fn entries_are_in_order_of_their_time() {
        let entries = vec![entry(2, 60, "finished"), entry(1, 0, "started")];
        let records = build_records(entries, false);
        assert_eq!(records[0]["description"], "started");
        assert_eq!(records[0]["writtenAt"], Value::Null);
        assert_eq!(records[1]["writtenAt"], "1970-01-01T00:01:00Z");
    }

    #[test]
    fn lines_that_may_have_a_secret_are_hidden() {
        let records = build_records(vec![entry(1, 60, "echo of a password")], true);
        let shown = json!(records).to_string();
        assert!(!shown.contains("password"), "{shown}");
        assert!(shown.contains("OS installation") && shown.contains("hidden"));
    }
}
