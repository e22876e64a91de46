//! One look at the hardware of a machine, and the ConfigMap with the whole listing, where it is asked for.

use super::{
    ServerContext, lshw,
    owned::{Kept, keep_config_map},
};
use crate::{account::Permit, runtime::clock};
use api::hardware::HardwareStatus;
use flexmetal_core::server::{facts::Facts, memory::Observation};
use hosting_types::{ServerId, server::HardwareListing};
use std::collections::BTreeMap;

/// The entry of the ConfigMap.
const ENTRY: &str = "lshw.json";
/// Most bytes of a listing that a ConfigMap, of at most a MiB, is given.
const LARGEST: usize = 900 * 1024;

/// Looks at the hardware.
pub(super) async fn look(
    ctx: &ServerContext,
    facts: &Facts,
    permit: &mut Permit,
    id: &ServerId,
    config_map: Option<&str>,
) -> Observation {
    let at = clock::now().mono;
    let answer = permit
        .call(async |client| client.hardware_listing(id).await)
        .await;
    let found = match answer {
        Ok(listing) => told(ctx, facts, id, config_map, &listing).await,
        // It is no need of the server, which goes on; another look follows, some time.
        Err(error) => {
            tracing::debug!(
                machine = id.as_str(),
                error = error.explain(),
                "the hardware of a machine could not be looked at"
            );
            None
        }
    };
    Observation::Hardware {
        machine: id.as_str().to_owned(),
        config_map: config_map.map(str::to_owned),
        found,
        at,
    }
}

async fn told(
    ctx: &ServerContext,
    facts: &Facts,
    id: &ServerId,
    config_map: Option<&str>,
    listing: &HardwareListing,
) -> Option<HardwareStatus> {
    let content = listing.listing.as_ref()?;
    let mut found = lshw::summary(id.as_str(), listing.created_at, content);
    let Some(name) = config_map else {
        return Some(found);
    };
    let text = content.to_string();
    if text.len() > LARGEST {
        found.message = Some(format!(
            "the listing has {} bytes, and a ConfigMap takes {LARGEST} of it at most: it is not written; read it at the provider",
            text.len()
        ));
        return Some(found);
    }
    let data = BTreeMap::from([(ENTRY.to_owned(), text)]);
    match keep_config_map(ctx, &facts.object, name, data).await {
        Kept::Written | Kept::Stands => found.config_map = Some(name.to_owned()),
        Kept::NotOurs => {
            found.message = Some(format!(
                "spec.hardware.configMapRef: there is a ConfigMap {name} that is not of this object, and stays as it is; name another one"
            ));
        }
        Kept::Stale => found.message = Some(format!("ConfigMap {name} changed meanwhile")),
        Kept::Failed(why) => found.message = Some(format!("ConfigMap {name}: {why}")),
    }
    Some(found)
}
