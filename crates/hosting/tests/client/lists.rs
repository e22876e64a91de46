//! Whole lists by pages: complete if nothing failed, and incomplete whenever a record may be missing.

use std::collections::BTreeSet;
use std::fmt::Debug;

use hosting::listing::Listing;
use hosting_types::{ServerFilter, command::PowerCommand, list::ListGap};
use serde_json::{Value, json};

use crate::{
    canaries, logs,
    reply::texts,
    scene::{Scene, rule},
};

/// The lists that have pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Servers,
    Commands,
    Tags,
    Whitelist,
    InstallLog,
    Hosts,
}

impl List {
    const ALL: [Self; 6] = [
        Self::Servers,
        Self::Commands,
        Self::Tags,
        Self::Whitelist,
        Self::InstallLog,
        Self::Hosts,
    ];
}

/// The result of reading a list.
struct Seen {
    names: Vec<String>,
    gap: Option<ListGap>,
}

impl List {
    /// Reads the whole list with pages of this size.
    async fn read_list(self, scene: &Scene, size: u32) -> Seen {
        let (client, arguments) = (&scene.client, &scene.arguments);
        let all = ServerFilter::default();
        match self {
            Self::Servers => {
                let list = client.all_servers(&all).with_page_size(size);
                whole(list, |it| it.id.to_string()).await
            }
            Self::Commands => {
                let list = client.all_commands(&arguments.server, None);
                whole(list.with_page_size(size), |it| it.id.to_string()).await
            }
            Self::Tags => {
                let list = client.all_tags().with_page_size(size);
                whole(list, |it| it.tag.clone()).await
            }
            Self::Whitelist => {
                let list = client.all_of_whitelist(arguments.api_key);
                whole(list.with_page_size(size), |it| it.id.to_string()).await
            }
            Self::InstallLog => {
                let list = client.all_of_install_log(arguments.host);
                whole(list.with_page_size(size), |it| format!("{:?}", it.id)).await
            }
            Self::Hosts => {
                let list = client.all_hosts(None).with_page_size(size);
                whole(list, |it| it.id.to_string()).await
            }
        }
    }

    /// How many records a crowded scene has.
    fn length(self) -> usize {
        match self {
            Self::Servers | Self::Whitelist | Self::Commands => 7,
            Self::Tags => 8,
            Self::InstallLog => 6,
            Self::Hosts => 9,
        }
    }
}

async fn whole<'a, T: Debug + Send + 'a>(list: Listing<'a, T>, name: fn(&T) -> String) -> Seen {
    let result = list.collect().await;
    canaries::none_in("a list", &texts(&result));
    match result {
        Ok(complete) => Seen {
            names: complete.records().iter().map(name).collect(),
            gap: None,
        },
        Err(incomplete) => Seen {
            names: incomplete.seen.iter().map(name).collect(),
            gap: Some(incomplete.gap),
        },
    }
}

/// A scene in which every list has several pages.
async fn crowded() -> Scene {
    let scene = Scene::new().await;
    let (client, arguments) = (&scene.client, &scene.arguments);
    client
        .install_host(arguments.host, &arguments.install)
        .await
        .unwrap();
    for number in 0..6_u8 {
        let net = rule(&format!("127.{number}.0.0/16"));
        client
            .add_to_whitelist(arguments.api_key, &net)
            .await
            .unwrap();
        client.create_tag(&format!("tag-{number}")).await.unwrap();
        let sent = client.send_command(&arguments.server, PowerCommand::Reboot);
        sent.await.unwrap();
        if number > 0 {
            let body = json!({"name": format!("more-{number}")});
            scene.rig.steer("machines", body).await;
        }
    }
    scene.rig.advance(900).await;
    scene
}

/// This fault hits all pages but the first ones.
async fn fault(scene: &Scene, fault: &Value, skip: u64) {
    let rule = json!({"match": {"method": "GET"}, "fault": fault, "skip": skip});
    scene.rig.steer("faults", rule).await;
}

#[tokio::test]
async fn list_is_complete_at_any_page_size() {
    let scene = crowded().await;
    for paging in ["range", "token"] {
        scene.rig.set_switch("hostPaging", paging).await;
        for list in List::ALL {
            let whole = list.read_list(&scene, 50).await;
            assert!(whole.gap.is_none(), "{list:?}: {:?}", whole.gap);
            assert_eq!(whole.names.len(), list.length(), "{list:?}");
            for size in [2, 3, 4] {
                let before = scene.rig.latest().await;
                let pages = list.read_list(&scene, size).await;
                assert!(pages.gap.is_none(), "{list:?}, {size}: {:?}", pages.gap);
                assert_eq!(pages.names, whole.names, "{list:?}, {size}");
                assert!(scene.rig.ledger(before).await.len() > 1, "{list:?}, {size}");
            }
        }
    }
}

#[tokio::test]
async fn list_shifting_while_read_is_incomplete() {
    let scene = crowded().await;
    for list in List::ALL {
        let whole = list.read_list(&scene, 50).await.names;
        for harm in ["shiftedPage", "repeatedPage", "emptyList"] {
            // An empty first page is an empty list; an empty later page is not.
            fault(&scene, &json!(harm), u64::from(harm == "emptyList")).await;
            let seen = list.read_list(&scene, 2).await;
            let gap = seen
                .gap
                .unwrap_or_else(|| panic!("{list:?}, {harm}: complete"));
            assert!(matches!(gap, ListGap::Shifted), "{list:?}, {harm}: {gap:?}");
            // The new records of the odd page are kept.
            assert_eq!(seen.names[..2], whole[..2], "{list:?}, {harm}");
            let known: BTreeSet<_> = seen.names.iter().collect();
            assert!(known.iter().all(|name| whole.contains(name)), "{list:?}");
            assert_eq!(known.len(), seen.names.len(), "{list:?}, {harm}");
            assert!(known.len() < whole.len(), "{list:?}, {harm}");
            scene.rig.clear("faults").await;
        }
    }
    logs::none_leaked();
}

#[tokio::test]
async fn failed_page_leaves_the_list_incomplete() {
    let scene = crowded().await;
    let faults = [
        (
            json!({"refuse": {"status": 422, "message": "no"}}),
            "Refused",
        ),
        (json!("dropBefore"), "Interrupted"),
        (json!("dropAfter"), "Interrupted"),
        (json!({"status": {"code": 503}}), "ServerError"),
        (
            json!({"status": {"code": 429, "after": true}}),
            "RateLimited",
        ),
        (json!("truncate"), "Interrupted"),
        (json!("emptyBody"), "UndecodableAnswer"),
        (json!({"oversize": {"bytes": 9_000_000}}), "AnswerTooLarge"),
    ];
    for list in List::ALL {
        let whole = list.read_list(&scene, 50).await.names;
        for (harm, category) in &faults {
            for skip in [0, 1, 2] {
                if *category == "AnswerTooLarge" && skip != 1 {
                    // It only takes longer.
                    continue;
                }
                fault(&scene, harm, skip).await;
                let before = scene.rig.latest().await;
                let seen = list.read_list(&scene, 2).await;
                let Some(ListGap::Failed(error)) = seen.gap else {
                    panic!("{list:?}, {harm}: {:?}", seen.gap);
                };
                assert_eq!(error.category(), *category, "{list:?}, {harm}");
                // Two records, and then one more for each page.
                let known = [0, 2, 3][usize::try_from(skip).unwrap()];
                assert_eq!(seen.names, whole[..known], "{list:?}, {harm}");
                // The client gives up at once and does not retry.
                let requests = scene.rig.ledger(before).await.len() as u64;
                assert_eq!(requests, skip + 1, "{list:?}, {harm}");
                scene.rig.clear("faults").await;
            }
        }
    }
    logs::none_leaked();
}

#[tokio::test]
async fn token_list_detects_repeated_records() {
    let scene = crowded().await;
    scene.rig.set_switch("hostPaging", "token").await;
    let whole = List::Hosts.read_list(&scene, 50).await.names;
    fault(&scene, &json!("repeatedPage"), 0).await;
    let seen = List::Hosts.read_list(&scene, 2).await;
    assert!(
        matches!(seen.gap, Some(ListGap::Repeated(_))),
        "{:?}",
        seen.gap
    );
    let seen: BTreeSet<_> = seen.names.into_iter().collect();
    assert!(seen.iter().all(|name| whole.contains(name)), "{seen:?}");
}
