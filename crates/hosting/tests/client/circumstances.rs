//! What can be wrong with an account, a server or a request, so that the API refuses a call. In each state, the call
//! makes one request.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hosting::Client;
use hosting_types::{
    ApiKeyId, CommandId, HostId, LocationId, SecretText, ServerId, SshKeyId, WhitelistEntryId,
};
use serde_json::{Value, json};

use crate::{
    canaries::{WRONG_HASH, WRONG_KEY},
    rig::{KIND, LOCATION},
    scene::{ON_DEMAND_HOST, Scene, USED, rule},
};

const NOWHERE: &str = "01923b7e-0c1f-7d3a-9c52-0a1b2c3d4e5f";

pub(crate) type Circumstance = for<'a> fn(&'a mut Scene) -> BoxFuture<'a, ()>;

/// Declares circumstances.
macro_rules! circumstances {
    ($($name:ident |$scene:ident| $body:block)+) => {
        $(
            pub(crate) fn $name($scene: &mut Scene) -> BoxFuture<'_, ()> {
                async move { $body }.boxed()
            }
        )+
    };
}

fn client(scene: &Scene, key: &str) -> Client {
    scene.rig.client(key, Duration::from_secs(30))
}

fn parse_server_id(text: &str) -> ServerId {
    ServerId::parse(text).unwrap()
}

async fn in_state(scene: &Scene, status: &str) {
    let server = scene.arguments.server.as_str();
    scene.rig.alter(server, json!({"status": status})).await;
}

async fn quota(scene: &mut Scene) {
    scene.arguments.order.contract_id = None;
    let none = json!({"location": LOCATION, "instanceType": KIND, "quota": 2});
    scene.rig.steer("quota", none).await;
}

circumstances! {
    wrong_key |scene| { scene.client = client(scene, WRONG_KEY); }
    wrong_key_401 |scene| {
        scene.rig.set_switch("wrongKey", "answer401").await;
        scene.client = client(scene, WRONG_KEY);
    }
    // The key is valid for one address, which is not ours.
    shut_out |scene| {
        let (key, entry) = (scene.arguments.api_key, scene.arguments.entry);
        let elsewhere = rule("192.0.2.0/24");
        scene.client.change_whitelist(key, entry, &elsewhere).await.unwrap();
    }
    no_api_key |scene| { scene.arguments.api_key = ApiKeyId(99); }
    other_api_key |scene| { scene.arguments.api_key = ApiKeyId(2); }
    no_entry |scene| { scene.arguments.entry = WhitelistEntryId(99); }
    no_location |scene| { scene.arguments.location = LocationId(99); }
    no_server |scene| {
        scene.arguments.server = parse_server_id(NOWHERE);
        scene.arguments.windows = parse_server_id(NOWHERE);
    }
    other_server |scene| {
        let body = json!({"name": "theirs", "os": "windows-2022", "tags": [USED]});
        let other = scene.rig.steer("machines?account=other", body).await;
        let other = parse_server_id(other["uuid"].as_str().unwrap());
        scene.arguments.server = other.clone();
        scene.arguments.windows = other;
    }
    linux_for_windows |scene| { scene.arguments.windows = scene.arguments.server.clone(); }
    a_day_later |scene| { scene.rig.advance(24 * 60 * 60).await; }
    no_command |scene| { scene.arguments.command = CommandId::parse(NOWHERE).unwrap(); }
    no_tag |scene| { scene.arguments.tag = "nobody".to_owned(); }
    tag_not_on_server |scene| { scene.arguments.used_tag = scene.arguments.tag.clone(); }
    no_host |scene| { scene.arguments.host = HostId(99); }
    no_ssh_key |scene| { scene.arguments.ssh_key = SshKeyId::parse(NOWHERE).unwrap(); }
    wrong_password |scene| { scene.arguments.password = scene.arguments.new_password.clone(); }
    wrong_hash |scene| { scene.arguments.reset_hash = SecretText::new(WRONG_HASH); }
    five_attempts |scene| {
        let wrong = SecretText::new(WRONG_HASH);
        for _ in 0..5 {
            let refused = scene.client.change_password(&wrong, &wrong).await;
            assert_eq!(refused.unwrap_err().status(), Some(401));
        }
    }
    logged_in |scene| { scene.rig.set_switch("resetLoggedIn", "refuse422").await; }
    filters_required |scene| { scene.rig.set_switch("listFilters", "required").await; }
    order_to_nowhere |scene| { scene.arguments.order.location = "EU: Nowhere".to_owned(); }
    order_of_nothing |scene| {
        let order = &mut scene.arguments.order;
        order.instance_type = "bm0".to_owned();
        order.os.slug = "none".to_owned();
    }
    no_quota |scene| { quota(scene).await; }
    no_quota_409 |scene| {
        quota(scene).await;
        scene.rig.set_switch("exhausted", "refuse409").await;
    }
    no_stock |scene| {
        // Committed servers are always in stock.
        scene.arguments.order.contract_id = None;
        let none = json!({"location": LOCATION, "instanceType": KIND, "stock": 0});
        scene.rig.steer("availability", none).await;
    }
    no_contract |scene| {
        scene.arguments.order.contract_id = Some("C-2".to_owned());
        scene.arguments.order.overflow = false;
    }
    not_delivered |scene| { in_state(scene, "created").await; }
    failed |scene| { in_state(scene, "failed").await; }
    released |scene| { in_state(scene, "released").await; }
    being_installed |scene| {
        let arguments = &scene.arguments;
        scene.client.reinstall(&arguments.server, &arguments.reinstall).await.unwrap();
    }
    reinstall_nothing |scene| {
        scene.arguments.reinstall.os.as_mut().unwrap().slug = "none".to_owned();
    }
    labels_of_no_language |scene| { scene.arguments.labels = Some("key ~ 'value'"); }
    new_tag_exists |scene| { scene.arguments.new_tag = USED.to_owned(); }
    tags_own_name |scene| { scene.arguments.new_tag = scene.arguments.tag.clone(); }
    sixty_tags |scene| {
        let tags: Vec<Value> = (0..60).map(|number| json!(format!("t{number}"))).collect();
        scene.rig.alter(scene.arguments.server.as_str(), json!({"tags": tags})).await;
    }
    install_nothing |scene| { scene.arguments.install.os_id = 9; }
    installing |scene| {
        let arguments = &scene.arguments;
        scene.client.install_host(arguments.host, &arguments.install).await.unwrap();
    }
    on_demand_host |scene| { scene.arguments.host = ON_DEMAND_HOST; }
}
