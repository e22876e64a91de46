//! `--deprecated-instance-types`: the provider's former list, by location.

use super::CatalogFilter;
use crate::{
    account_client::{self, AccountArgs, hosting_error},
    commands::{capacity::describe_hardware, quota::is_asked_for},
    context::Context,
    exit::{Exit, PluginError},
    output::{Column, Row, column},
};
use hosting_types::{LocationId, capacity::InstanceType, catalogue::Location};
use serde::Serialize;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct InstanceTypeRow {
    location: String,
    name: String,
    generation: String,
    hardware: String,
}

impl Row for InstanceTypeRow {
    const COLUMNS: &'static [Column] = &[
        column("LOCATION"),
        column("TYPE"),
        column("GENERATION"),
        column("HARDWARE"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.location.clone(),
            self.name.clone(),
            self.generation.clone(),
            self.hardware.clone(),
        ]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// Prints the list, with one call for each location.
pub(super) async fn run(
    context: &Context,
    args: &AccountArgs,
    filter: CatalogFilter<'_>,
) -> Result<Exit, PluginError> {
    let client = account_client::connect(context, args).await?;
    let locations = client.locations().await;
    let locations = locations.map_err(|error| hosting_error("list the locations", error))?;
    let mut rows = Vec::new();
    for location in locations {
        let Some(id) = number_of(&location, filter) else {
            continue;
        };
        let types = client.instance_types(id).await.map_err(|error| {
            let name = &location.name;
            hosting_error(format!("list the instance types at {name}"), error)
        })?;
        rows.extend(build_rows(&location.name, types, filter));
    }
    context
        .printer
        .rows(&rows, "The list has no such instance types")?;
    Ok(Exit::Fine)
}

/// The number of a location whose list is wanted. None: it is not, or the provider gives no number.
fn number_of(location: &Location, filter: CatalogFilter<'_>) -> Option<LocationId> {
    let is_wanted = is_asked_for(&location.name, filter.location);
    let number = location.id.filter(|_| is_wanted)?;
    u64::try_from(number).ok().map(LocationId)
}

fn build_rows(
    location: &str,
    types: Vec<InstanceType>,
    filter: CatalogFilter<'_>,
) -> Vec<InstanceTypeRow> {
    let types = types.into_iter();
    let types = types.filter(|kind| is_asked_for(&kind.name, filter.instance_type));
    let rows = types.map(|kind| InstanceTypeRow {
        location: location.to_owned(),
        hardware: describe_hardware(&kind),
        name: kind.name,
        generation: kind.generation_name,
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::capacity::tests::{instance_type, location};

    #[test]
    fn only_the_wanted_location_is_read() {
        let rotterdam = CatalogFilter {
            location: Some("eu: rotterdam"),
            ..CatalogFilter::default()
        };
        let all = CatalogFilter::default();
        let number = |id, filter| number_of(&location(id, "EU: Rotterdam"), filter);
        assert_eq!(number(6, rotterdam), Some(LocationId(6)));
        assert_eq!(number(-1, all), None);
        assert_eq!(number_of(&location(7, "JP: Tokyo"), rotterdam), None);
        assert_eq!(
            number_of(&location(7, "JP: Tokyo"), all),
            Some(LocationId(7))
        );
    }

    #[test]
    fn types_are_shown_with_their_generation() {
        let filter = CatalogFilter {
            instance_type: Some("B"),
            ..CatalogFilter::default()
        };
        let types = vec![instance_type("a"), instance_type("b")];
        let rows = build_rows("JP: Tokyo", types, filter);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].cells()[..3], ["JP: Tokyo", "b", "7"]);
    }
}
