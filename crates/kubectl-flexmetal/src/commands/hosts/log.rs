//! `hosts log`: what the provider recorded of a host's installations.

use super::secret_texts::SecretTexts;
use crate::{
    account_client::{self, AccountArgs, is_forbidden, list_error},
    context::{Context, Scope},
    exit::{Exit, PluginError},
    output::{Column, Row, column, wide},
};
use api::DedicatedHost;
use futures::FutureExt as _;
use hosting::listing::Listing;
use hosting_types::{HostId, host::InstallLogEntry, secret::HIDDEN_WORDS};
use jiff::Timestamp;
use serde::Serialize;

/// Arguments of `hosts log`.
#[derive(Clone, Debug, clap::Args)]
pub struct LogArgs {
    /// DedicatedHost, or the provider's number of a host
    #[arg(value_name = "NAME|ID")]
    host: String,
    #[command(flatten)]
    account: AccountArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LogRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<i64>,
    #[serde(with = "api::rfc3339::option", skip_serializing_if = "Option::is_none")]
    written_at: Option<i64>,
    category: String,
    is_open: bool,
    description: String,
    resolved: String,
}

impl Row for LogRow {
    const COLUMNS: &'static [Column] = &[
        column("TIME"),
        column("CATEGORY"),
        column("DESCRIPTION"),
        column("RESULT"),
        wide("OPEN"),
        wide("ID"),
    ];

    fn cells(&self) -> Vec<String> {
        let time = self.written_at.map(Timestamp::from_second);
        vec![
            match time {
                Some(Ok(time)) => time.to_string(),
                _ => String::new(),
            },
            self.category.clone(),
            self.description.clone(),
            self.resolved.clone(),
            if self.is_open { "yes" } else { "no" }.to_owned(),
            self.id.map(|id| id.to_string()).unwrap_or_default(),
        ]
    }

    fn name(&self) -> String {
        self.id.map(|id| id.to_string()).unwrap_or_default()
    }
}

/// Prints the log, the oldest entry first.
pub(super) async fn run(context: &Context, args: LogArgs) -> Result<Exit, PluginError> {
    let (id, object) = match args.host.parse() {
        Ok(id) => (HostId(id), find_object(context, id).await?),
        Err(_) => {
            let object: DedicatedHost = context.get(&args.host).await?;
            let id = u64::try_from(object.spec.host_id).map_err(|_| {
                PluginError::Other(format!("spec.hostID of {} is negative", args.host))
            })?;
            (HostId(id), Some(object))
        }
    };
    let account = match (&object, args.host.parse::<u64>()) {
        (Some(object), Err(_)) => args.account.of_object(&object.account()),
        _ => args.account.clone(),
    };
    let client = &account_client::connect(context, &account).await?;
    let texts = match &object {
        Some(object) => SecretTexts::read(context, object).await,
        None => SecretTexts::default(),
    };
    let hidden = texts.known.as_slice();
    let list = Listing::of_install_log(move |page| {
        async move { Ok(client.install_log(id, page, hidden).await?) }.boxed()
    });
    // The log grows while the host is installed.
    let list = list.growing().collect().await;
    let act = format!("read the installation log of host {id}");
    let list = list.map_err(|incomplete| list_error(&act, incomplete))?;
    if let Some(missing) = &texts.unknown {
        context.printer.warn(&format!(
            "The lines are hidden, since they may repeat a secret text of the installation that cannot be read: {missing}"
        ));
    }
    let rows = build_rows(list.into_records(), texts.unknown.is_some());
    let none = format!("Host {id} has no installation log");
    context.printer.rows(&rows, &none)?;
    Ok(Exit::Fine)
}

/// The object of a host, whose texts its log may repeat. None: there is none that the caller may read.
async fn find_object(context: &Context, id: u64) -> Result<Option<DedicatedHost>, PluginError> {
    let scope = Scope {
        namespace: Some(context.namespace.clone()),
        selector: None,
    };
    match context.list::<DedicatedHost>(&scope).await {
        Ok(objects) => Ok(objects
            .into_iter()
            .find(|object| u64::try_from(object.spec.host_id) == Ok(id))),
        Err(error) if is_forbidden(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn build_rows(mut entries: Vec<InstallLogEntry>, hides_lines: bool) -> Vec<LogRow> {
    entries.sort_by_key(|entry| (entry.written_at, entry.id));
    let shown = |text: String| match hides_lines && !text.is_empty() {
        true => HIDDEN_WORDS.to_owned(),
        false => text,
    };
    let rows = entries.into_iter().map(|entry| LogRow {
        id: entry.id,
        // A date of 0 is none.
        written_at: entry.written_at.filter(|at| *at > 0),
        category: match entry.category_name.is_empty() {
            true => entry.category,
            false => entry.category_name,
        },
        is_open: entry.is_open,
        description: shown(entry.description),
        resolved: shown(entry.resolved),
    });
    rows.collect()
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
        let rows = build_rows(
            vec![entry(2, 60, "finished"), entry(1, 0, "started")],
            false,
        );
        assert_eq!(rows[0].cells().join("|"), "|OS installation|started||no|1");
        assert_eq!(
            rows[1].cells().join("|"),
            "1970-01-01T00:01:00Z|OS installation|finished||yes|2"
        );
    }

    #[test]
    fn lines_that_may_have_a_secret_are_hidden() {
        let rows = build_rows(vec![entry(1, 60, "echo of a password")], true);
        let shown = serde_json::to_string(&rows).unwrap();
        assert!(!shown.contains("password"), "{shown}");
        assert!(shown.contains("OS installation") && shown.contains("hidden"));
    }
}
