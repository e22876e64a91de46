//! The catalog as the hosting API has it now.

use super::CatalogFilter;
use crate::{
    account_client::{self, AccountArgs, hosting_error},
    commands::{capacity::describe_hardware, quota::is_asked_for},
    context::PluginContext,
    exit::PluginError,
};
use api::catalog::Catalog;
use flexmetal_core::account::{decide::build_catalog, view::Catalogue};
use hosting_types::LocationId;
use serde_json::{Value, json};

fn failed(what: &str) -> impl FnOnce(hosting_types::Error) -> PluginError {
    let act = format!("list the {what}");
    move |error| hosting_error(act, error)
}

/// Reads the catalog, in the form that the status has, but of any size.
pub(super) async fn read_catalog(
    context: &PluginContext,
    args: &AccountArgs,
) -> Result<Catalog, PluginError> {
    let client = account_client::connect(context, args).await?;
    let systems = client.operating_systems().await;
    let catalogue = Catalogue {
        locations: client.locations().await.map_err(failed("locations"))?,
        plans: client.plans().await.map_err(failed("instance types"))?,
        systems: systems.map_err(failed("operating systems"))?,
        quotas: Vec::new(),
    };
    Ok(build_catalog(&catalogue, usize::MAX))
}

/// The provider's former list of instance types, with one call for each location.
pub(super) async fn list_deprecated_types(
    context: &PluginContext,
    args: &AccountArgs,
    filter: CatalogFilter<'_>,
) -> Result<Vec<Value>, PluginError> {
    let client = account_client::connect(context, args).await?;
    let mut locations = client.locations().await.map_err(failed("locations"))?;
    locations.retain(|it| is_asked_for(&it.name, filter.location));
    let mut records = Vec::new();
    for location in locations {
        let (id, name) = (location.id.map(u64::try_from), location.name);
        let Some(Ok(id)) = id else { continue };
        let types = client.instance_types(LocationId(id)).await;
        let types = types.map_err(failed(&format!("instance types at {name}")))?;
        let types = types
            .into_iter()
            .filter(|kind| is_asked_for(&kind.name, filter.instance_type));
        records.extend(types.map(|kind| {
            json!({
                "location": name, "hardware": describe_hardware(&kind), "name": kind.name,
                "generation": kind.generation_name,
            })
        }));
    }
    Ok(records)
}
