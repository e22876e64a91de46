//! Every operation of the client by its name, with arguments that fit the kept
//! answers.

use super::{ORDER_TAG, UUID, id, order};
use crate::{Client, page::HostCursor};
use hosting_types::{
    ApiKeyId, CommandId, Error, HostId, LocationId, OrderOutcome, Page, SecretText, ServerFilter,
    SshKeyId, WhitelistEntryId,
    command::PowerCommand,
    host::HostInstall,
    server::{Reinstall, SystemFamily},
    whitelist::{AddressRange, WhitelistRule},
};

/// All of them.
pub(super) const NAMES: [&str; 43] = [
    "add_tag",
    "add_to_whitelist",
    "capacity_commits",
    "change_password",
    "change_whitelist",
    "command",
    "commands",
    "create_ssh_key",
    "create_tag",
    "delete_ssh_key",
    "delete_tag",
    "hardware_listing",
    "health",
    "host",
    "hosts",
    "install_host",
    "install_log",
    "instance_types",
    "locations",
    "operating_systems",
    "order",
    "plans",
    "quota_usage",
    "reinstall",
    "release",
    "remove_from_whitelist",
    "remove_tag",
    "rename_tag",
    "reset_password",
    "restart_host",
    "root_password",
    "send_command",
    "server",
    "servers",
    "ssh_key",
    "ssh_keys",
    "start_host",
    "stop_host",
    "tag",
    "tags",
    "usage",
    "validate_password_reset",
    "whitelist",
];

/// How a call ended.
#[derive(Debug)]
pub(super) struct Outcome {
    /// `Decoded`, `Unknown` for an order, or the category of the error.
    pub(super) word: &'static str,
    /// All that the error says.
    pub(super) text: String,
}

fn told<T>(result: Result<T, Error>) -> Outcome {
    match result {
        Ok(_) => Outcome {
            word: "Decoded",
            text: String::new(),
        },
        Err(error) => Outcome {
            word: error.category(),
            text: error.explain(),
        },
    }
}

fn ordered(outcome: OrderOutcome) -> Outcome {
    match outcome {
        OrderOutcome::Created(server) => {
            assert!(server.has_tag(ORDER_TAG));
            told(Ok(()))
        }
        OrderOutcome::NotSent(error) | OrderOutcome::Refused(error) => told::<()>(Err(error)),
        OrderOutcome::Unknown(text) => Outcome {
            word: "Unknown",
            text,
        },
    }
}

/// Makes one call.
pub(super) async fn call(client: &Client, name: &str) -> Outcome {
    let (id, page, host, key) = (id(), Page::first(), HostId(1001), ApiKeyId(1));
    let ssh_key = SshKeyId::parse(UUID).unwrap();
    let command = CommandId::parse(UUID).unwrap();
    let secret = SecretText::new("a-password");
    let entry = WhitelistEntryId(1);
    let rule = WhitelistRule {
        range: AddressRange::Net("127.0.0.0/8".parse().unwrap()),
        comments: None,
        active: true,
    };
    match name {
        "add_tag" => told(client.add_tag(&id, "a").await),
        "add_to_whitelist" => told(client.add_to_whitelist(key, &rule).await),
        "capacity_commits" => told(client.capacity_commits().await),
        "change_password" => told(client.change_password(&secret, &secret).await),
        "change_whitelist" => told(client.change_whitelist(key, entry, &rule).await),
        "command" => told(client.command(&id, &command).await),
        "commands" => told(client.commands(&id, None, page).await),
        "create_ssh_key" => told(
            client
                .create_ssh_key("me", "ssh-ed25519 AAAA me@here")
                .await,
        ),
        "create_tag" => told(client.create_tag("b").await),
        "delete_ssh_key" => told(client.delete_ssh_key(&ssh_key).await),
        "delete_tag" => told(client.delete_tag("a").await),
        "hardware_listing" => told(client.hardware_listing(&id).await),
        "health" => told(client.health().await),
        "host" => told(client.host(host).await),
        "hosts" => told(client.hosts(None, &HostCursor::Range(page)).await),
        "install_host" => {
            let mut install = HostInstall::new(104, SystemFamily::Linux);
            install.ssh_key = Some(ssh_key);
            told(client.install_host(host, &install).await)
        }
        "install_log" => told(client.install_log(host, page, &[]).await),
        "instance_types" => told(client.instance_types(LocationId(6)).await),
        "locations" => told(client.locations().await),
        "operating_systems" => told(client.operating_systems().await),
        "order" => ordered(client.order(&order(), ORDER_TAG).await),
        "plans" => told(client.plans().await),
        "quota_usage" => told(client.quota_usage().await),
        "reinstall" => told(client.reinstall(&id, &Reinstall::default()).await),
        "release" => told(client.release(&id).await),
        "remove_from_whitelist" => told(client.remove_from_whitelist(key, entry).await),
        "remove_tag" => told(client.remove_tag(&id, "a").await),
        "rename_tag" => told(client.rename_tag("c", "a").await),
        "reset_password" => told(client.reset_password("owner@example.com").await),
        "restart_host" => told(client.restart_host(host).await),
        "root_password" => told(client.root_password(&id).await),
        "send_command" => told(client.send_command(&id, PowerCommand::Reboot).await),
        "server" => told(client.server(&id).await),
        "servers" => told(client.servers(&ServerFilter::default(), page).await),
        "ssh_key" => told(client.ssh_key(&ssh_key).await),
        "ssh_keys" => told(client.ssh_keys().await),
        "start_host" => told(client.start_host(host).await),
        "stop_host" => told(client.stop_host(host).await),
        "tag" => told(client.tag("a").await),
        "tags" => told(client.tags(page).await),
        "usage" => told(client.usage(None, None).await),
        "validate_password_reset" => told(client.validate_password_reset(&secret, &secret).await),
        "whitelist" => told(client.whitelist(key, page).await),
        other => panic!("no such operation: {other}"),
    }
}
