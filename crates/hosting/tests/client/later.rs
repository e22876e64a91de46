//! What the API accepts and cannot carry out: the call succeeds, and a later read shows the failure.

use hosting_types::{
    OrderResult, Page, ServerStatus,
    command::{CommandState, PowerCommand, REINSTALLATIONS},
    host::InstallStatus,
};
use serde_json::json;

use crate::{
    canaries::KEY,
    rig::LASTING,
    scene::{ORDER_TAG, Scene},
};

/// What starts from now on fails with this message.
async fn doomed(scene: &Scene, message: &str) {
    for method in ["POST", "PATCH"] {
        let fail = json!({"fail": {"message": message}});
        scene.rig.fault(method, &fail).await;
    }
}

#[tokio::test]
async fn failed_delivery_is_a_state_not_error() {
    let scene = Scene::new().await;
    doomed(&scene, &format!("out of luck with {KEY}")).await;
    let ordered = scene.client.order(&scene.arguments.order, ORDER_TAG).await;
    let OrderResult::Created(server) = ordered else {
        panic!("{ordered:?}");
    };
    assert_eq!(server.status, ServerStatus::Created);
    scene.rig.advance(LASTING).await;
    let server = scene.client.server(&server.id).await.unwrap();
    assert_eq!(server.status, ServerStatus::Failed);
    assert_eq!(server.status_message, "out of luck with [API key]");
}

#[tokio::test]
async fn commands_and_installations_that_fail_say_so_later() {
    let scene = Scene::new().await;
    let (client, arguments) = (&scene.client, &scene.arguments);
    doomed(&scene, "why").await;
    let sent = client.send_command(&arguments.server, PowerCommand::PowerOff);
    let sent = sent.await.unwrap();
    client
        .reinstall(&arguments.server, &arguments.reinstall)
        .await
        .unwrap();
    client
        .install_host(arguments.host, &arguments.install)
        .await
        .unwrap();
    assert_eq!(sent.state, CommandState::Pending);
    let host = client.host(arguments.host).await.unwrap();
    assert!(
        host.install_status.is_under_way(),
        "{:?}",
        host.install_status
    );

    scene.rig.advance(LASTING).await;
    let sent = client.command(&arguments.server, &sent.id).await.unwrap();
    assert_eq!(sent.state, CommandState::Failed);
    let installs = client.commands(&arguments.server, Some(REINSTALLATIONS), Page::first());
    let states: Vec<_> = installs
        .await
        .unwrap()
        .into_iter()
        .map(|it| it.state)
        .collect();
    assert_eq!(states, [CommandState::Failed]);
    let host = client.host(arguments.host).await.unwrap();
    assert_eq!(host.install_status, InstallStatus::Failed);
    // The server itself is unchanged (3.1-12).
    let server = client.server(&arguments.server).await.unwrap();
    assert_eq!(server.status, ServerStatus::Delivered);
}
