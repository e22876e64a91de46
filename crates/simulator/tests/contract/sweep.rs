//! Paths and methods that are not there, calls without a break, and which
//! answers leave open whether something was done (sections 1, 7 and 8).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::cases;
use crate::page::operations;
use crate::rig::{Rig, SERVERS, order, with};

/// Every path of the API with its methods; each parameter is a 1.
fn paths() -> BTreeMap<String, BTreeSet<&'static str>> {
    let mut found: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for operation in operations() {
        let (method, path) = operation.split_once(' ').unwrap();
        let parts = path
            .split('/')
            .map(|part| if part.starts_with('{') { "1" } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        found.entry(path).or_default().insert(method);
    }
    found
}

/// How many servers there are.
async fn servers(rig: &Rig) -> usize {
    let (_, list) = rig.ranged(SERVERS, "start=0,results=50").await;
    list.as_array().unwrap().len()
}

cases! {
    contract_every_path_by_every_method ["1-1" "1-8" "1-13"] |rig| {
        let mut refused = 0;
        for (path, methods) in paths() {
            for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
                for end in ["", "/"] {
                    rig.refused(method, &format!("{path}/no/such{end}"), Value::Null, 404).await;
                    if !methods.contains(method) {
                        rig.refused(method, &format!("{path}{end}"), Value::Null, 405).await;
                        refused += 1;
                    }
                }
            }
            rig.refused("GET", path.trim_start_matches("/v3"), Value::Null, 404).await;
        }
        assert_eq!(refused, 2 * (paths().len() * 5 - operations().len()));
    }

    contract_calls_without_a_break ["8-13"] |rig| {
        // The clock stands still: whatever is counted in a span of time is counted here.
        for number in 0..250 {
            assert_eq!(rig.get(SERVERS).await.0, 200, "{number}");
            let tag = json!({"tag": format!("t{number}")});
            assert_eq!(rig.call("POST", "/v3/flexMetal/tags", tag).await.0, 200, "{number}");
        }
    }

    contract_what_an_error_leaves_open ["7-10"] |rig| {
        let orders = json!({"method": "POST", "path": SERVERS});
        let mut made = 0;
        for code in [302, 408, 409, 500, 502, 503, 504] {
            for after in [false, true] {
                let fault = json!({"status": {"code": code, "after": after}});
                rig.steer("faults", json!({"match": orders, "fault": fault, "count": 1})).await;
                assert_eq!(rig.call("POST", SERVERS, order()).await.0, code);
                made += usize::from(after);
                assert_eq!(servers(&rig).await, made, "{code} {after}");
            }
        }
        for (fault, after) in [("dropBefore", false), ("dropAfter", true)] {
            rig.steer("faults", json!({"match": orders, "fault": fault, "count": 1})).await;
            assert!(rig.request("POST", SERVERS).json(&order()).send().await.is_err());
            made += usize::from(after);
            assert_eq!(servers(&rig).await, made, "{fault}");
        }
        for status in [400, 401, 403, 404, 405, 413, 415, 422, 429] {
            let fault = json!({"refuse": {"status": status, "message": "no"}});
            rig.steer("faults", json!({"match": orders, "fault": fault, "count": 1})).await;
            assert_eq!(rig.call("POST", SERVERS, with("name", json!("refused"))).await.0, status);
            assert_eq!(servers(&rig).await, made, "{status}");
        }
        assert_eq!(rig.call("POST", SERVERS, order()).await.0, 200);
        assert_eq!(servers(&rig).await, made + 1);
    }
}
