//! How lists are read from an API with its own page size.

use super::{
    provider::{name_hash, server_json, uuid},
    rig::{Rig, caller},
};
use crate::runtime::clock;
use flexmetal_core::account::view::ListKind;
use std::time::Duration;
use tokio::time::sleep;

const LIST: &str = "GET /v3/flexMetal/servers";
const DELIVERED: &str = "GET /v3/flexMetal/servers delivered";

#[tokio::test(start_paused = true)]
async fn a_smaller_page_limit_is_found_out_once() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = (0..120).map(|n| server_json(n, "delivered")).collect();
    rig.provider.world().most = Some(25);
    rig.ready(&account).await;
    assert_eq!(account.view().complete_list.unwrap().servers.len(), 120);
    // A short page, and one behind it that is not empty; 25, 25, 25, and 24 that are one page and its overlap; then the
    // empty one.
    assert_eq!(rig.provider.calls(), [LIST; 7]);
    rig.until("a poll", || !rig.provider.world().calls.is_empty())
        .await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(rig.provider.calls(), [DELIVERED; 5]);
    // So does the next complete list.
    account.request_complete_list(&name_hash(1), clock::now().mono);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(rig.provider.calls(), [LIST; 6]);
}

#[tokio::test(start_paused = true)]
async fn account_list_uses_pages_within_the_limit() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = (0..60).map(|n| server_json(n, "delivered")).collect();
    rig.provider.world().most = Some(25);
    rig.ready(&account).await;
    rig.provider.calls();
    let now = clock::now().mono;
    account.request_list(ListKind::Servers, now, &caller("a"));
    rig.until("the list", || account.view().servers.is_some())
        .await;
    let (read_at, all) = account.view().servers.unwrap();
    assert!(read_at >= now && all.len() == 60);
    // 25, 25, 12, and the empty one.
    assert_eq!(rig.provider.calls(), [LIST; 4]);
}

#[tokio::test(start_paused = true)]
async fn uuid_case_does_not_duplicate_a_server() {
    let (rig, account) = Rig::with_account().await;
    let mut servers: Vec<_> = (0..60).map(|n| server_json(n, "delivered")).collect();
    // The last record of the first page, and so the first of the second.
    servers[49]["uuid"] = uuid(0xabcdef).into();
    rig.provider.world().servers = servers;
    rig.provider.world().capitals = true;
    rig.ready(&account).await;
    assert_eq!(rig.provider.calls(), [LIST; 3]);
    assert_eq!(account.view().complete_list.unwrap().servers.len(), 60);
}

#[tokio::test(start_paused = true)]
async fn growing_list_keeps_the_full_page_size() {
    let (rig, account) = Rig::with_account().await;
    {
        let mut world = rig.provider.world();
        world.servers = (0..12).map(|n| server_json(n, "delivered")).collect();
        world.coming = (12..120).map(|n| server_json(n, "delivered")).collect();
        world.each = 40;
    }
    rig.ready(&account).await;
    rig.until("all", || !account.find_servers(&name_hash(119)).is_empty())
        .await;
    rig.provider.calls();
    rig.until("a poll", || !rig.provider.world().calls.is_empty())
        .await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(rig.provider.calls(), [DELIVERED; 3]);
}

#[tokio::test(start_paused = true)]
async fn next_list_detects_raised_page_limit() {
    let (rig, account) = Rig::with_account().await;
    rig.provider.world().servers = (0..120).map(|n| server_json(n, "delivered")).collect();
    rig.provider.world().most = Some(25);
    rig.ready(&account).await;
    rig.provider.world().most = None;
    rig.provider.calls();
    rig.until("a poll", || !rig.provider.world().calls.is_empty())
        .await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(rig.provider.calls(), [DELIVERED; 3]);
}
