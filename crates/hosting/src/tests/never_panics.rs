//! For any bytes, a call ends with a result or an error.

use futures::executor::block_on;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    KEY, ORDER_TAG, UUID,
    every_call::{NAMES, call},
    script::{Script, answer},
};
use hosting_types::{ApiKey, BaseUrl};

/// Any JSON, with the names and words of the API often in it.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just(UUID.to_owned()),
        Just(ORDER_TAG.to_owned()),
        Just(KEY.to_owned()),
        Just(String::new()),
        ".*",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
        "uuid",
        "name",
        "status",
        "statusMessage",
        "location",
        "os",
        "slug",
        "ipAddresses",
        "ipAddress",
        "tags",
        "tag",
        "createdAt",
        "errorCode",
        "errorMessage",
        "errors",
        "hardwareDetails",
        "disks",
        "quotaUsage",
        "resources",
        "id",
        "state",
        "payload",
        "command",
        "serverUuid",
        "server_uuid",
        "created_at",
        "server",
        "startedAt",
        "rootPassword",
        "lshw",
        "publicKey",
        "commits",
        "instanceType",
        "cpu",
        "memory",
        "disk",
        "ipAddress",
        "labels",
        "result",
        "issueDescription",
    ]);
    leaf.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(name.clone(), inner, 0..6).prop_map(|fields| json!(fields)),
        ]
    })
}

/// Reads one body with every operation, and checks what must always be true.
fn read_by_all(status: u16, body: &[u8]) -> Result<(), TestCaseError> {
    for name in NAMES {
        let (client, _) = Script::client(vec![Ok(answer(status, body))]);
        let text = block_on(call(&client, name)).text;
        prop_assert!(!text.contains(KEY), "{}: {}", name, text);
        prop_assert!(text.len() < 64 * 1024);
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_bytes_are_read_by_every_operation(status in 200u16..600, body in prop::collection::vec(any::<u8>(), 0..512)) {
        read_by_all(status, &body)?;
    }

    #[test]
    fn any_json_is_read_by_every_operation(status in prop_oneof![Just(200u16), 200u16..600], body in any_json()) {
        read_by_all(status, body.to_string().as_bytes())?;
    }

    #[test]
    fn any_text_is_read_by_every_operation(status in 200u16..600, body in "[<>/a-z\\\\\"{}\\[\\]\u{0}-\u{ff}]{0,200}") {
        read_by_all(status, body.as_bytes())?;
    }

    #[test]
    fn any_key_and_base_url_are_read(bytes in prop::collection::vec(any::<u8>(), 0..64), text in ".*") {
        if let Ok(key) = ApiKey::parse(&bytes) {
            prop_assert!(crate::client::header_value(&key).is_ok());
        }
        if let Ok(base) = BaseUrl::parse(&text) {
            prop_assert!(base.join(&[], &[]).as_str().starts_with(base.as_str()));
        }
    }
}
