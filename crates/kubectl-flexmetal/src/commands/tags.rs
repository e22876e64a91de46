//! `tags`: all tags of the account, and how much has them.

use crate::{
    account_client::{self, AccountArgs, list_error},
    context::PluginContext,
    exit::{Exit, PluginError},
    fields::{Field, field},
};
use api::names::RESERVED_PREFIX;
use hosting_types::TagRecord;
use serde_json::{Value, json};

/// Arguments of `tags`.
#[derive(Clone, Debug, clap::Args)]
pub struct TagsArgs {
    /// The operator's own tags, too
    #[arg(long)]
    all: bool,
    /// Only tags that nothing has
    #[arg(long)]
    unused: bool,
    #[command(flatten)]
    account: AccountArgs,
}

const FIELDS: &[Field] = &[
    field("TAG", "tag"),
    field("SERVERS", "servers"),
    field("ALL RESOURCES", "resources"),
];

/// Prints the tags.
pub async fn run(context: &PluginContext, args: TagsArgs) -> Result<Exit, PluginError> {
    let client = account_client::connect(context, &args.account).await?;
    let list = client.all_tags().growing().collect().await;
    let list = list.map_err(|incomplete| list_error("list the tags of the account", incomplete))?;
    let records = build_records(list.into_records(), args.all, args.unused);
    let none = "The account has no such tags";
    context.printer.records(FIELDS, records, none)?;
    Ok(Exit::Fine)
}

/// The records by name.
fn build_records(mut tags: Vec<TagRecord>, all: bool, unused: bool) -> Vec<Value> {
    tags.retain(|tag| {
        // An unknown count may be any.
        let is_unused = tag.resources == Some(0) || (tag.resources, tag.servers) == (None, Some(0));
        (all || !tag.tag.starts_with(RESERVED_PREFIX)) && (!unused || is_unused)
    });
    tags.sort_by(|one, other| one.tag.cmp(&other.tag));
    let records = tags
        .into_iter()
        .map(|it| json!({"tag": it.tag, "servers": it.servers, "resources": it.resources}));
    records.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_certainly_free_tag_is_unused() {
        let tag = |tag: &str, count| TagRecord {
            tag: tag.into(),
            servers: count,
            resources: count,
        };
        let names = |all, unused| {
            let tags = vec![
                tag("web", Some(1)),
                tag("fmo-retained", Some(0)),
                tag("empty", Some(0)),
                tag("unknown", None),
            ];
            let records = build_records(tags, all, unused).into_iter();
            let names = records.map(|it| it["tag"].as_str().unwrap_or_default().to_owned());
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(false, false), ["empty", "unknown", "web"]);
        assert_eq!(names(false, true), ["empty"]);
        assert_eq!(names(true, true), ["empty", "fmo-retained"]);
    }
}
