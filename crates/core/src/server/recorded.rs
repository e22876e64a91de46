//! The server or open order that a BareMetalServer object has in its status.

use super::facts::{account_of, is_same_uuid};
use crate::account::{
    key::AccountKey,
    recorded::{OpenOrder, RecordedResources, RecordedServer},
};
use api::{BareMetalServer, server::OrderOutcome};
use hosting_types::ServerStatus;

/// Adds the object's server or open order to `all`. `name_hash` is the hash in its servers' tags, if known.
pub fn collect_recorded(
    object: &BareMetalServer,
    name_hash: Option<&str>,
    all: &mut RecordedResources,
) {
    let Some(status) = &object.status else {
        return;
    };
    let Some(order) = object.own_order() else {
        return;
    };
    let name_hash = name_hash.unwrap_or_default().to_owned();
    match (order.outcome, &order.server) {
        (Some(OrderOutcome::Created | OrderOutcome::Adopting), Some(uuid)) => {
            let status_text = status.provider_status.as_deref();
            all.servers.push(RecordedServer {
                uuid: uuid.to_ascii_lowercase(),
                name_hash,
                live: status_text
                    .is_none_or(|status_text| ServerStatus::parse(status_text).is_live()),
                account_id: Some(order.account_id.clone()),
            });
        }
        (None, _) => all.open_orders.push(OpenOrder {
            name_hash,
            seq: order.seq,
            account_id: order.account_id.clone(),
        }),
        _ => {}
    }
}

/// Whether an object adopts the server that it names in this account: it may send requests and records no other server.
pub fn adopts_named_server(object: &BareMetalServer, account: &AccountKey) -> bool {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let key = AccountKey::from_reference(&account_of(object), namespace);
    let named = object.spec.external_id.as_deref();
    let own = recorded_server(object);
    let has_another = own.is_some_and(|own| named.is_none_or(|named| !is_same_uuid(&own, named)));
    may_send(object) && !has_another && key == *account
}

/// Whether the effective policies allow requests for the object.
pub fn may_send(object: &BareMetalServer) -> bool {
    let in_force = object.status.as_ref().and_then(|status| status.policies);
    let policies = object.spec.policies().over(in_force.unwrap_or_default());
    policies.may_send()
}

/// The server recorded in status, in lower case.
pub fn recorded_server(object: &BareMetalServer) -> Option<String> {
    Some(object.own_order()?.created()?.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_own_order_in_status_counts_as_recorded() {
        let recorded = |uid: &str, outcome: Option<&str>, server: Option<&str>| {
            let order = json!({"uid": uid, "seq": 1, "nonce": "a", "sendBy": "2026-09-21T14:00:00Z",
                "accountID": "l", "outcome": outcome, "server": server});
            let object: BareMetalServer = serde_json::from_value(json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
                "metadata": {"name": "web", "namespace": "shop", "uid": "uid-1"},
                "spec": {"location": "here", "instanceType": "small", "os": {"slug": "some-os"}},
                "status": {"records": {"order": order}, "providerStatus": "released"},
            }))
            .unwrap();
            let mut all = RecordedResources::default();
            collect_recorded(&object, Some("o"), &mut all);
            all
        };
        let open = recorded("uid-1", None, None);
        let order = OpenOrder {
            name_hash: "o".into(),
            seq: 1,
            account_id: "l".into(),
        };
        assert_eq!((open.servers.len(), open.open_orders), (0, vec![order]));
        assert_eq!(
            recorded("uid-1", Some("Refused"), None),
            RecordedResources::default()
        );
        let made = recorded("uid-1", Some("Created"), Some("AB")).servers;
        assert_eq!((made[0].uuid.as_str(), made[0].live), ("ab", false));
        assert_eq!(
            (made[0].name_hash.as_str(), made[0].account_id.as_deref()),
            ("o", Some("l"))
        );
        // A copied or restored object.
        assert_eq!(
            recorded("uid-0", None, Some("ab")),
            RecordedResources::default()
        );
    }
}
