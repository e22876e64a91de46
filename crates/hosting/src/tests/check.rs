use jiff::{SignedDuration, Timestamp};

use super::{
    record,
    script::{Script, answer, line, with_header},
};
use crate::{
    check::{Access, Encryption, Resource, check_account},
    transport::{Response, TransportError},
};
use hosting_types::{ApiKeyId, health::Health};

const HEALTHY: &str = r#"{"status":"OK"}"#;
const TODAY: &str = "2026-11-29T04:00:00Z";

fn clock() -> Timestamp {
    TODAY.parse().unwrap()
}

fn healthy() -> Result<Response, TransportError> {
    Ok(answer(200, HEALTHY))
}

fn empty() -> Result<Response, TransportError> {
    Ok(answer(200, "[]"))
}

#[tokio::test]
async fn each_resource_is_read_once() {
    let mut outcomes = vec![healthy(), Ok(answer(200, format!("[{}]", record())))];
    outcomes.extend((0..11).map(|_| empty()));
    let (client, script) = Script::client(outcomes);
    let found = check_account(&client, Some(ApiKeyId(7)), clock).await;
    assert_eq!(found.health, Ok(Health::Ok));
    assert_eq!(found.encryption, Encryption::Tls);
    assert_eq!(found.clock_skew, None);
    assert_eq!(found.is_key_accepted(), Some(true));
    assert!(
        found
            .rights
            .iter()
            .all(|right| right.access == Access::Allowed)
    );
    let requests = script.requests();
    let paths: Vec<_> = requests.iter().map(line).collect();
    assert_eq!(paths.len(), found.rights.len() + 1);
    assert!(
        paths
            .iter()
            .any(|path| path.ends_with("usage?startDate=2026-11-29&endDate=2026-11-29")),
        "{paths:?}"
    );
    for (right, path) in found.rights.iter().zip(&paths[1..]) {
        let fixed = right.resource.operation().split('{').next().unwrap();
        assert!(path.starts_with(fixed), "{path} is not {fixed}");
    }
}

#[tokio::test]
async fn a_missing_right_is_no_outage() {
    let mut outcomes = vec![healthy(), empty(), Ok(answer(403, "{}"))];
    outcomes.push(Ok(answer(503, "{}")));
    outcomes.extend((0..7).map(|_| empty()));
    let (client, _) = Script::client(outcomes);
    let found = check_account(&client, None, clock).await;
    let refused: Vec<_> = found.refused().map(|right| right.resource).collect();
    assert_eq!(refused, [Resource::Tags]);
    assert!(found.is_reachable());
    let access = |resource| {
        let mut rights = found.rights.iter();
        rights.find(|right| right.resource == resource).unwrap()
    };
    assert!(matches!(
        access(Resource::Tags).access,
        Access::Refused { status: 403, .. }
    ));
    assert!(matches!(
        access(Resource::Locations).access,
        Access::Unreachable { .. }
    ));
    assert_eq!(access(Resource::Plans).access, Access::Allowed);
    // No server, so no commands; no key number, so no whitelist.
    assert_eq!(found.rights.len(), 10);
}

#[tokio::test]
async fn a_refused_key_is_said_so() {
    let mut outcomes = vec![healthy()];
    outcomes.extend((0..10).map(|_| Ok(answer(401, "{}"))));
    let (client, _) = Script::client(outcomes);
    let found = check_account(&client, None, clock).await;
    assert_eq!(found.is_key_accepted(), Some(false));
    assert_eq!(found.refused().count(), 10);
    assert!(found.is_reachable());
}

#[tokio::test]
async fn without_a_connection_one_call_is_made() {
    let lost = TransportError::Connect("no route".into());
    let (client, script) = Script::client(vec![Err(lost)]);
    let found = check_account(&client, None, clock).await;
    assert_eq!(script.requests().len(), 1);
    assert!(!found.is_reachable());
    assert_eq!(found.is_key_accepted(), None);
    assert_eq!(found.encryption, Encryption::Unknown);
    assert_eq!(found.rights.len(), 10);
    for right in &found.rights {
        let Access::Unreachable { why } = &right.access else {
            panic!("{right:?}");
        };
        assert!(why.contains("no route"), "{why}");
    }
}

#[tokio::test]
async fn dates_show_the_clock_skew() {
    for (date, expected) in [
        ("Sun, 29 Nov 2026 04:00:00 GMT", 0),
        // The second in which it was written may end now.
        ("Sun, 29 Nov 2026 03:59:59 GMT", 0),
        ("Sun, 29 Nov 2026 04:01:30 GMT", 90),
        ("Sun, 29 Nov 2026 03:50:00 GMT", -599),
    ] {
        let mut outcomes = vec![healthy().map(|it| with_header(it, "date", date))];
        outcomes.extend((0..10).map(|_| empty()));
        let (client, _) = Script::client(outcomes);
        let found = check_account(&client, None, clock).await;
        assert_eq!(
            found.clock_skew,
            Some(SignedDuration::from_secs(expected)),
            "{date}"
        );
    }
}
