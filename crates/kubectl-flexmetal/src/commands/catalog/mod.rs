//! `catalog`: what can be ordered, and where.

mod live;
mod records;

use crate::{
    account_client::{AccountArgs, NamedAccount},
    ages,
    context::PluginContext,
    exit::{Exit, PluginError},
    fields::{Field, field},
};
use api::catalog::Catalog;
use records::{location_records, system_records, type_records};

/// Arguments of `catalog`.
#[derive(Clone, Debug, clap::Args)]
pub struct CatalogArgs {
    /// What to show
    #[arg(value_enum, default_value_t)]
    section: Section,
    /// Only this location, such as "EU: Rotterdam"
    #[arg(long)]
    location: Option<String>,
    /// Only this instance type
    #[arg(long = "type", value_name = "TYPE")]
    instance_type: Option<String>,
    /// Only what is in stock
    #[arg(long)]
    available: bool,
    /// Ask the hosting API instead of the status of the account
    #[arg(long)]
    live: bool,
    /// The provider's former list of instance types by location; asks the hosting API
    #[arg(long, conflicts_with_all = ["section", "available"])]
    deprecated_instance_types: bool,
    #[command(flatten)]
    account: AccountArgs,
}

/// A part of the catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Section {
    /// Locations
    Locations,
    /// Instance types with their stock
    #[default]
    Types,
    /// Operating systems
    Systems,
}

/// Which entries to show.
#[derive(Clone, Copy, Debug, Default)]
struct CatalogFilter<'a> {
    location: Option<&'a str>,
    instance_type: Option<&'a str>,
    is_available: bool,
}

const LOCATIONS: &[Field] = &[
    field("LOCATION", "name"),
    field("COUNTRY", "country"),
    field("TYPES IN STOCK", "typesInStock"),
];
const TYPES: &[Field] = &[
    field("TYPE", "name"),
    field("STOCK", "availability"),
    field("LOCATIONS", "locations"),
    field("HARDWARE", "hardware"),
];
const SYSTEMS: &[Field] = &[field("SLUG", "slug"), field("NAME", "name")];
const FORMER_TYPES: &[Field] = &[
    field("TYPE", "name"),
    field("LOCATION", "location"),
    field("GENERATION", "generation"),
    field("HARDWARE", "hardware"),
];

/// Prints a part of the catalog.
pub async fn run(context: &PluginContext, args: CatalogArgs) -> Result<Exit, PluginError> {
    let filter = CatalogFilter {
        location: args.location.as_deref(),
        instance_type: args.instance_type.as_deref(),
        is_available: args.available,
    };
    let printer = &context.printer;
    let none = "The catalog has no such entries; for the names of locations: kubectl flexmetal catalog locations";
    if args.deprecated_instance_types {
        let records = live::list_deprecated_types(context, &args.account, filter).await?;
        printer.records(FORMER_TYPES, records, none)?;
        return Ok(Exit::Fine);
    }
    let has_filter =
        filter.is_available || filter.location.is_some() || filter.instance_type.is_some();
    if args.section == Section::Systems && has_filter {
        return Err(PluginError::Usage(
            "every location and type has the same operating systems; remove --location, --type and --available".into(),
        ));
    }
    let catalog = match args.live || args.account.base_url.is_some() {
        true => live::read_catalog(context, &args.account).await?,
        false => read_status(context, &args.account).await?,
    };
    match args.section {
        Section::Locations => {
            printer.records(LOCATIONS, location_records(&catalog, filter), none)?;
        }
        Section::Types => printer.records(TYPES, type_records(&catalog, filter), none)?,
        Section::Systems => printer.records(SYSTEMS, system_records(&catalog), none)?,
    }
    if catalog.omitted > 0 && !args.live {
        printer.warn(&format!(
            "warning: the status leaves out {} entries of the catalog; add --live to list all",
            catalog.omitted
        ));
    }
    Ok(Exit::Fine)
}

async fn read_status(context: &PluginContext, args: &AccountArgs) -> Result<Catalog, PluginError> {
    let account = NamedAccount::get(context, args).await?;
    let catalog = account.status.catalog.ok_or_else(|| {
        PluginError::Other(format!(
            "{} has no catalog yet; add --live to ask the hosting API",
            account.title
        ))
    })?;
    if let Some(read_at) = &catalog.as_of {
        let age = ages::age(read_at.0, ages::now());
        context.printer.inform(&format!(
            "From the status of {}, which last changed {age} ago; for the present stock add --live",
            account.title
        ));
    }
    Ok(catalog)
}
