//! What a request asks for, as the simulator's ledger and its later answers show it: filters, pages, dates, words, and
//! changes.

use hosting::page::HostCursor;
use hosting_types::{
    Page, SecretText, ServerFilter, StatusFilter,
    command::{PowerCommand, REINSTALLATIONS},
    server::DiskWipe,
};
use jiff::civil::date;

use crate::{
    canaries::{NEW_PASSWORD, OLD_PASSWORD},
    rig::Logged,
    scene::Scene,
};

/// The only request after `before`.
async fn request(scene: &Scene, before: u64) -> Logged {
    let mut ledger = scene.rig.ledger(before).await;
    assert_eq!(ledger.len(), 1);
    ledger.remove(0)
}

/// The query of the only request that a call makes.
macro_rules! query {
    ($scene:ident, $call:expr) => {{
        let before = $scene.rig.latest().await;
        $call.await.unwrap();
        request(&$scene, before).await.query()
    }};
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[tokio::test]
async fn server_listing_sends_filter_and_page() {
    let scene = Scene::new().await;
    let client = &scene.client;
    for (status, word) in [
        (StatusFilter::Creating, "creating"),
        (StatusFilter::Provisioning, "provisioning"),
        (StatusFilter::Delivered, "delivered"),
        (StatusFilter::Failed, "failed"),
        (StatusFilter::Releasing, "releasing"),
        (StatusFilter::Released, "released"),
    ] {
        let filter = ServerFilter {
            status: Some(status),
            tags: Vec::new(),
        };
        let query = query!(scene, client.servers(&filter, Page::first()));
        assert_eq!(query, pairs(&[("status", word)]));
    }
    let filter = ServerFilter {
        status: Some(StatusFilter::Delivered),
        tags: vec!["fmo-cluster:01".to_owned(), "b".to_owned()],
    };
    let before = scene.rig.latest().await;
    client.servers(&filter, Page::new(49, 50)).await.unwrap();
    let asked = request(&scene, before).await;
    let tags = [
        ("status", "delivered"),
        ("tag", "fmo-cluster:01"),
        ("tag", "b"),
    ];
    assert_eq!(asked.query(), pairs(&tags));
    assert_eq!(asked.page(), "start=49,results=50");
    let all = ServerFilter::default();
    let query = query!(scene, client.servers(&all, Page::first()));
    assert_eq!(query, []);
}

#[tokio::test]
async fn dates_labels_and_types_are_sent_as_given() {
    let scene = Scene::new().await;
    let client = &scene.client;
    let days = (date(2023, 11, 1), date(2023, 11, 30));
    let month = query!(scene, client.usage(Some(days.0), Some(days.1)));
    let named = [("startDate", "2023-11-01"), ("endDate", "2023-11-30")];
    assert_eq!(month, pairs(&named));
    assert_eq!(query!(scene, client.usage(None, None)), []);
    let first = HostCursor::Range(Page::first());
    let labels = "role = 'db' AND zone LIKE 'a%'";
    let hosts = query!(scene, client.hosts(Some(labels), &first));
    assert_eq!(hosts, pairs(&[("labels", labels)]));
    let server = &scene.arguments.server;
    let commands = client.commands(server, Some(REINSTALLATIONS), Page::first());
    assert_eq!(query!(scene, commands), pairs(&[("type", "update-server")]));
}

#[tokio::test]
async fn every_power_command_has_its_word() {
    let scene = Scene::new().await;
    for (command, word) in [
        (PowerCommand::Reboot, "reboot"),
        (PowerCommand::PowerOn, "power_on"),
        (PowerCommand::PowerOff, "power_off"),
        (PowerCommand::Shutdown, "shutdown"),
    ] {
        let sent = scene.client.send_command(&scene.arguments.server, command);
        assert_eq!(sent.await.unwrap().command.as_deref(), Some(word));
    }
}

#[tokio::test]
async fn a_reinstallation_can_leave_the_disks_alone() {
    let mut scene = Scene::new().await;
    scene.arguments.reinstall.wipe = DiskWipe::Skip;
    let before = scene.rig.latest().await;
    let arguments = &scene.arguments;
    let done = scene
        .client
        .reinstall(&arguments.server, &arguments.reinstall)
        .await;
    assert_eq!(done.unwrap().name, "web-2");
    let effect = request(&scene, before).await.effect()["wipeDisk"].clone();
    assert_eq!(effect, false);
}

#[tokio::test]
async fn password_change_sends_given_password() {
    let scene = Scene::new().await;
    let client = &scene.client;
    let [old, new] = [OLD_PASSWORD, NEW_PASSWORD].map(SecretText::new);
    client.change_password(&old, &new).await.unwrap();
    client.change_password(&new, &old).await.unwrap();
    let hash = &scene.arguments.reset_hash;
    client.validate_password_reset(&new, hash).await.unwrap();
    client.change_password(&new, &old).await.unwrap();
}
