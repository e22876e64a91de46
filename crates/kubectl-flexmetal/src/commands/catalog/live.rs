//! The catalog as the hosting API has it now.

use crate::{
    account_client::{self, AccountArgs, hosting_error},
    context::Context,
    exit::PluginError,
};
use api::catalog::Catalog;
use flexmetal_core::account::{decide::build_catalog, view::Catalogue};

/// Reads the catalog, in the form that the status has, but of any size.
pub(super) async fn read(context: &Context, args: &AccountArgs) -> Result<Catalog, PluginError> {
    let client = account_client::connect(context, args).await?;
    let failed = |what: &'static str| {
        move |error: hosting_types::Error| hosting_error(format!("list the {what}"), error)
    };
    let catalogue = Catalogue {
        locations: client.locations().await.map_err(failed("locations"))?,
        plans: client.plans().await.map_err(failed("instance types"))?,
        systems: client
            .operating_systems()
            .await
            .map_err(failed("operating systems"))?,
        quotas: Vec::new(),
    };
    Ok(build_catalog(&catalogue, usize::MAX))
}
