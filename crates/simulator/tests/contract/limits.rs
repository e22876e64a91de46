//! Numbers that bound what is sent or tried (sections 2.7, 4.2 and 8).

use serde_json::{Value, json};

use crate::cases;
use crate::rig::{SERVERS, error_record, order};

/// Most bytes of a body.
const LONGEST: usize = 1_048_576;
const PASSWORD: &str = "/v3/account/password";

cases! {
    contract_longest_bodies ["8-14" "2.7-28"] |rig| {
        // An order of so many bytes; all that it lacks is user data.
        let order_of = |bytes: usize| {
            let mut wanted = order();
            wanted["userData"] = json!({"data": "", "isBase64": false});
            let rest = wanted.to_string().len();
            wanted["userData"]["data"] = json!("x".repeat(bytes - rest));
            wanted.to_string()
        };
        let long = rig.request("POST", SERVERS).body(order_of(LONGEST));
        assert_eq!(rig.send(long).await.0, 200);
        let (status, record) = rig.send(rig.request("POST", SERVERS).body(order_of(LONGEST + 1))).await;
        assert_eq!(status, 413);
        error_record(&record);
        assert_eq!(rig.get(SERVERS).await.1.as_array().unwrap().len(), 1, "it was not ordered");
        // Blanks count as well.
        let blanks = format!("{}{}", json!({"tag": "x"}), " ".repeat(LONGEST));
        assert_eq!(rig.send(rig.request("POST", "/v3/flexMetal/tags").body(blanks)).await.0, 413);
    }

    contract_attempts_to_change_the_password ["8-15"] |rig| {
        let same = json!({"currentPassword": "correct-horse", "newPassword": "correct-horse"});
        let wrong = json!({"currentPassword": "wrong", "newPassword": "x"});
        for _ in 0..4 {
            assert_eq!(rig.call("PUT", PASSWORD, same.clone()).await.0, 204);
        }
        rig.advance(60).await;
        rig.refused("PUT", PASSWORD, wrong, 401).await;
        rig.refused("PUT", PASSWORD, same.clone(), 429).await;
        rig.advance(15 * 60 - 61).await;
        rig.refused("PUT", PASSWORD, same.clone(), 429).await;
        rig.advance(1).await;
        // The first four are over, the fifth is not; the refused ones never counted.
        for _ in 0..4 {
            assert_eq!(rig.call("PUT", PASSWORD, same.clone()).await.0, 204);
        }
        rig.refused("PUT", PASSWORD, same, 429).await;
    }

    contract_reset_hashes ["4.2-15"] |rig| {
        let ask = async || {
            let body = json!({"emailAddress": "owner@example.com"});
            assert_eq!(rig.call("POST", &format!("{PASSWORD}/reset"), body).await.0, 204);
            rig.look("accounts").await[0]["resetHash"].clone()
        };
        let path = format!("{PASSWORD}/reset/validate");
        let with = |hash: &Value| json!({"resetHash": hash, "newPassword": "next"});
        let old = ask().await;
        rig.advance(3_600).await;
        rig.refused("PUT", &path, with(&old), 403).await;
        let first = ask().await;
        let second = ask().await;
        assert_ne!(first, second);
        rig.refused("PUT", &path, with(&first), 403).await;
        rig.advance(3_599).await;
        assert_eq!(rig.call("PUT", &path, with(&second)).await, (204, Value::Null));
    }
}
