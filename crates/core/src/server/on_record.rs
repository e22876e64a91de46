//! What a server object has on record at its account.

use crate::{
    account::on_record::{OnRecord, RecordedMachine},
    mark::ClusterId,
};
use api::{
    BareMetalServer,
    server::{OrderOutcome, OrderRecord},
};
use hosting_types::ServerStatus;

/// What an object has on record at its account: the machine of its last order, or that the order is open. From
/// its status alone, which stands before anything is sent: anybody may write an annotation.
pub fn on_record(cluster: &ClusterId, object: &BareMetalServer, all: &mut OnRecord) {
    let Some(status) = &object.status else {
        return;
    };
    let Some(OrderRecord {
        intent, outcome, ..
    }) = &status.records.order
    else {
        return;
    };
    let meta = &object.metadata;
    let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
    let uid = meta.uid.as_deref().unwrap_or_default();
    let mark = cluster.object_mark(namespace.unwrap_or_default(), name.unwrap_or_default(), uid);
    // A copied or restored object speaks of an order of another.
    if intent.uid != uid || intent.mark != mark.as_str() {
        return;
    }
    let lineage = intent.account.as_ref().map(|a| a.lineage.clone());
    if let Some(uuid) = &status.uuid {
        let word = status.provider_status.as_deref();
        all.machines.push(RecordedMachine {
            uuid: uuid.to_ascii_lowercase(),
            mark: intent.mark.clone(),
            live: word.is_none_or(|word| ServerStatus::parse(word).is_live()),
            lineage,
        });
    } else if outcome.is_none_or(|o| o == OrderOutcome::Created) {
        all.open.push(intent.mark.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_an_own_order_in_status_is_on_record() {
        let cluster = ClusterId::parse("0123456789abcdef").unwrap();
        let mark = |uid: &str| cluster.object_mark("shop", "web", uid).as_str().to_owned();
        let recorded = |of: &str, outcome: Option<&str>, machine: Option<&str>| {
            let intent = json!({
                "cluster": "0123456789abcdef", "uid": of, "mark": mark(of), "epoch": 1, "attempt": "a",
                "sendBy": "2026-09-21T14:00:00Z",
                "account": {"kind": "ProviderAccount", "name": "default", "uid": "u",
                    "accountID": "l", "credentialsHash": "c"},
            });
            let mut order = intent.clone();
            order["outcome"] = json!(outcome);
            let object: BareMetalServer = serde_json::from_value(json!({
                "apiVersion": "flexmetal.dev/v1alpha1", "kind": "BareMetalServer",
                "metadata": {"name": "web", "namespace": "shop", "uid": "uid-1",
                    "annotations": {"flexmetal.dev/order": intent.to_string()}},
                "spec": {"location": "here", "instanceType": "small", "os": {"slug": "some-os"}},
                "status": {"records": {"order": order}, "uuid": machine, "providerStatus": "released"},
            }))
            .unwrap();
            let mut all = OnRecord::default();
            on_record(&cluster, &object, &mut all);
            all
        };
        let lineage = Some("l".to_owned());
        let open = recorded("uid-1", None, None);
        assert_eq!((open.machines.len(), open.open), (0, vec![mark("uid-1")]));
        let lost = recorded("uid-1", Some("Created"), None);
        assert_eq!(lost.open, vec![mark("uid-1")]);
        assert_eq!(
            recorded("uid-1", Some("Refused"), None),
            OnRecord::default()
        );
        let made = recorded("uid-1", Some("Created"), Some("AB")).machines;
        assert_eq!((made[0].uuid.as_str(), made[0].live), ("ab", false));
        assert_eq!(
            (&made[0].mark, &made[0].lineage),
            (&mark("uid-1"), &lineage)
        );
        // A manifest that was copied or restored, and an annotation that anybody may write.
        assert_eq!(recorded("uid-0", None, Some("ab")), OnRecord::default());
    }
}
