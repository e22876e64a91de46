//! `tags`: all tags of the account, and how much has them.

use crate::{
    account_client::{self, AccountArgs, list_error},
    context::Context,
    exit::{Exit, PluginError},
    output::{Column, Row, column},
};
use api::names::RESERVED_PREFIX;
use hosting_types::TagRecord;
use serde::Serialize;

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

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TagRow {
    tag: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    servers: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<i64>,
}

impl Row for TagRow {
    const COLUMNS: &'static [Column] = &[column("TAG"), column("SERVERS"), column("ALL RESOURCES")];

    fn cells(&self) -> Vec<String> {
        let count = |count: Option<i64>| count.map(|count| count.to_string());
        vec![
            self.tag.clone(),
            count(self.servers).unwrap_or_default(),
            count(self.resources).unwrap_or_default(),
        ]
    }

    fn name(&self) -> String {
        self.tag.clone()
    }
}

/// Prints the tags.
pub async fn run(context: &Context, args: TagsArgs) -> Result<Exit, PluginError> {
    let client = account_client::connect(context, &args.account).await?;
    let list = client.all_tags().growing().collect().await;
    let list = list.map_err(|incomplete| list_error("list the tags of the account", incomplete))?;
    let rows = build_rows(list.into_records(), &args);
    context
        .printer
        .rows(&rows, "The account has no such tags")?;
    Ok(Exit::Fine)
}

/// The rows by name.
fn build_rows(mut tags: Vec<TagRecord>, args: &TagsArgs) -> Vec<TagRow> {
    tags.retain(|tag| {
        // An unknown count may be any.
        let is_unused = tag.resources == Some(0) || (tag.resources, tag.servers) == (None, Some(0));
        (args.all || !tag.tag.starts_with(RESERVED_PREFIX)) && (!args.unused || is_unused)
    });
    tags.sort_by(|one, other| one.tag.cmp(&other.tag));
    let rows = tags.into_iter().map(|tag| TagRow {
        tag: tag.tag,
        servers: tag.servers,
        resources: tag.resources,
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Words {
        #[command(flatten)]
        args: TagsArgs,
    }

    fn names(words: &[&str]) -> Vec<String> {
        let words = ["tags"].iter().chain(words);
        let args = Words::try_parse_from(words).unwrap().args;
        let tag = |tag: &str, servers, resources| TagRecord {
            tag: tag.into(),
            servers,
            resources,
        };
        let tags = vec![
            tag("web", Some(1), Some(2)),
            tag("fmo-retained", Some(0), Some(0)),
            tag("host-only", Some(0), Some(1)),
            tag("empty", Some(0), Some(0)),
            tag("unknown", None, None),
        ];
        build_rows(tags, &args)
            .into_iter()
            .map(|row| row.tag)
            .collect()
    }

    #[test]
    fn tags_of_the_operator_are_shown_on_request() {
        assert_eq!(names(&[]), ["empty", "host-only", "unknown", "web"]);
        assert_eq!(names(&["--all"]).len(), 5);
    }

    #[test]
    fn only_a_tag_that_certainly_nothing_has_is_unused() {
        assert_eq!(names(&["--unused"]), ["empty"]);
        assert_eq!(names(&["--unused", "--all"]), ["empty", "fmo-retained"]);
    }
}
